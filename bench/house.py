"""What every benchmark does first: --help in a fresh clone, the tests' Python packages, and the programs it measures."""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / "build" / "venv" / "bin" / "python"
PROGRAMS = ROOT / "build" / "release" / "bench"

sys.path.insert(0, str(ROOT / "tests"))


def begin(doc, packages=()):
    """Prints `doc` for --help. Else goes on with an interpreter that has the packages, or says how to get one."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(doc.strip())
        sys.exit(0)
    if all(importlib.util.find_spec(p) for p in packages):
        return
    if not PYTHON.exists() or pathlib.Path(sys.prefix).resolve() == PYTHON.parent.parent.resolve():
        sys.exit(f"{sys.argv[0]}: needs the packages of tests/requirements.txt: ./test --quick makes build/venv")
    os.execv(PYTHON, [str(PYTHON), *sys.argv])


def need_programs(*names):
    missing = [n for n in names if not (PROGRAMS / n).exists()]
    if missing:
        sys.exit(f"{sys.argv[0]}: {', '.join(missing)} not built: ./run --build-only && cmake --build build/release --target bench_programs")
