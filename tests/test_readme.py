"""The README's commands run. Tags behind a fence's language say how; they do not show.

    ```sh test     runs as it stands, in one shell with the other such blocks, where body.pb lies in the folder
    ```sh serve    starts a server: it must get ready, take a body on the usual port, and stop on SIGTERM
    ```yaml test   must be a good configuration: `flametap collector validate`

Other blocks are shown only (they install, ask for a cluster, or take minutes). All run in a copy of the tree's root, and where it is possible
in a network of their own, so that the usual ports are free.
"""

import os
import re
import subprocess

import pytest

import fixtures
import program

README = fixtures.ROOT / "README.md"
DOCUMENTS = [p for p in [README, *sorted((fixtures.ROOT / "docs").rglob("*.md")), *sorted((fixtures.ROOT / "example").rglob("README.md"))]
             if p.exists()]


def blocks(path, kind):
    """(line number, code) of the blocks of a kind."""
    out, code, start = [], None, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if code is None and re.fullmatch(r"```\s*" + kind, line.strip()):
            code, start = [], number
        elif code is not None and line.strip() == "```":
            out.append((start, "\n".join(code) + "\n"))
            code = None
        elif code is not None:
            code.append(line)
    assert code is None, f"{path}:{start}: block without end"
    return out


def in_own_network():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0




def of_documents(*kinds):
    """A test for each document that has a block of one of these kinds; for each document where none is given."""
    chosen = [p for p in DOCUMENTS if not kinds or any(blocks(p, kind) for kind in kinds)]
    return pytest.mark.parametrize("path", chosen, ids=lambda p: str(p.relative_to(fixtures.ROOT)))


WRAPPER = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
# Sends one body to the usual gRPC port, then stops the server that was started before.
SERVE = """
{code} > served.txt 2> served.log &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for i in $(seq 100); do grep -q 'Everything is ready' served.log && break; sleep 0.1; done
curl -sS --fail --noproxy '*' -H 'Content-Type: application/x-protobuf' --data-binary @body.pb http://127.0.0.1:4318/v1development/profiles
grep -q 'New Resource Profile' served.txt
kill $server
wait $server
trap - EXIT
"""


def run_script(script, tmp_path):
    for name in os.listdir(fixtures.ROOT):
        if name not in (".git", "profiles"):
            (tmp_path / name).symlink_to(fixtures.ROOT / name)
    (tmp_path / "body.pb").write_bytes(fixtures.body("v1.11.0-oncpu-start").bytes)
    return subprocess.run([*(WRAPPER if in_own_network() else []), "bash", "-c", "set -eu\n" + script], cwd=tmp_path, capture_output=True,
                          text=True, timeout=240, check=False,
                          env=program.environment(PATH=f"{program.path().parent}:{os.environ['PATH']}", BACKEND_TOKEN="x"))


@of_documents("sh test", "sh serve")
def test_documented_commands_run(path, tmp_path):
    script = "".join(f"echo '--- {path.name}:{start}' >&2\n{code}" for start, code in blocks(path, "sh test"))
    script += "".join(f"echo '--- {path.name}:{start}' >&2\n{SERVE.format(code=code.strip())}" for start, code in blocks(path, "sh serve"))
    done = run_script(script, tmp_path)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@of_documents("yaml test")
def test_documented_configurations_are_good(path, tmp_path):
    code = blocks(path, "yaml test")
    for start, text in code:
        file = tmp_path / f"line-{start}.yaml"
        file.write_text(text)
        done = program.run("collector", "validate", "--config", file, env=program.environment(BACKEND_TOKEN="x"))
        assert done.returncode == 0, f"{path.name}:{start}: {done.stderr.decode()}"


def test_the_readme_has_commands_to_run():
    assert blocks(README, "sh test") and blocks(README, "sh serve") and blocks(README, "yaml test")


def test_flags_in_the_readme_are_ours():
    known = "".join(program.run(command, "--help-all", check=0).stdout.decode() for command in ("backend", "decode", "up", "export"))
    for code in re.findall(r"`(-[^`]+)`", README.read_text()):
        for flag in re.findall(r"(?:^|\s)--?([a-z][a-z0-9.-]+)", code):
            assert f"-{flag}" in known, f"README names -{flag}"


@of_documents()
def test_files_and_flags_that_documents_name_exist(path):
    """Relative links lead somewhere, and each -flag of a flametap command line is one of that command's flags."""
    text = path.read_text()
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"
    helps = {c: program.run(c, "--help-all", check=0).stdout.decode() for c in ("backend", "collector", "decode", "check")}
    for command, rest in re.findall(r"^\s*(?:\$ |\./run |sudo )?(?:flametap )?\b(backend|collector|decode|check)\b((?: +[^\n|&;`]*)?)$", text, re.M):
        for flag in re.findall(r"(?<=\s)--?([a-z][a-z0-9.-]+)", rest):
            assert f"-{flag}" in helps[command] or flag in ("help", "help-all"), f"{path.name}: {command} has no -{flag}"
