"""The house rules themselves: the include check fails on a bad tree, and accepts this one."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = ROOT / "cmake" / "check_includes.py"


def check(tree):
    return subprocess.run([sys.executable, str(CHECK), str(tree)], capture_output=True, text=True, check=False)


def plant(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#include <stdio.h>\n" + text)


def test_this_tree_points_one_way():
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path, line, what", [
    ("src/base/a.c", '#include "model/profiles.h"', "base must not include model/profiles.h"),
    ("src/model/a.h", '#  include "wire/otlp.h"', "model must not include wire/otlp.h"),
    ("src/wire/a.c", '#include "net/http.h"', "wire must not include net/http.h"),
    ("src/wire/a.c", "#include <pipeline/graph.h>", "wire must not include pipeline/graph.h"),
    ("src/net/a.c", '#include "wire/otlp.h"', "net must not include wire/otlp.h"),
    ("src/pipeline/a.c", '#include "components/all.h"', "pipeline must not include components/all.h"),
    ("src/components/exporters/a.c", '#include "store/store.h"', "components must not include store/store.h"),
    ("src/components/exporters/all.c", '#include "store/store.h"', "components must not include store/store.h"),
    ("src/store/a.c", '#include "agent/agent.h"', "store must not include agent/agent.h"),
    ("src/query/a.c", '#include "net/http.h"', "query must not include net/http.h"),
    ("src/web/a.c", '#include "store/store.h"', "web must not include store/store.h"),
    ("src/base/a.c", '#include "cmd/flags.h"', "base must not include cmd/flags.h"),
    ("src/wire/a.c", '#include "../net/http.h"', "write the path from src/"),
    ("src/odd/a.c", "", "the folder odd is not in the list"),
])
def test_wrong_way_is_named(tmp_path, path, line, what):
    plant(tmp_path, path, line)
    done = check(tmp_path)
    assert done.returncode == 1
    where = f"{path}:1: " if not line else f"{path}:2: "
    assert done.stderr.startswith(where), done.stderr
    assert what in done.stderr


@pytest.mark.parametrize("path, line", [
    ("src/components/all.c", '#include "store/store.h"\n#include "agent/agent.h"'),
    ("src/components/exporters/a.c", '#include "net/http.h"\n#include "components/exporters/b.h"'),
    ("src/query/a.c", '#include "store/store.h"'),
    ("cmd/a.c", '#include "agent/agent.h"\n#include "net/http.h"\n#include "flags.h"'),
    ("src/base/a.c", '#include <sys/stat.h>\n// #include "net/http.h"'),
])
def test_right_way_passes(tmp_path, path, line):
    plant(tmp_path, path, line)
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr


def test_stamp_is_left_only_on_success(tmp_path):
    stamp = tmp_path / "stamp"
    plant(tmp_path, "src/base/a.c", '#include "wire/x.h"')
    words = [sys.executable, str(CHECK), str(tmp_path), "--stamp", str(stamp)]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 1
    assert not stamp.exists()
    plant(tmp_path, "src/base/a.c", "")
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert stamp.exists()


PROGRAMS = sorted(p for folder in ("bench", "tools") for p in (ROOT / folder).iterdir() if p.is_file() and os.access(p, os.X_OK))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_programs_of_the_house_print_help(path):
    done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and path.name in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "downloading" not in done.stderr
