"""Known stacks of C++, Rust, Go and CPython, built in the ways that people build them: whole, in order, every frame named."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import agents
import program
import receivers
import runtimes
from agents import needs_bpf  # noqa: F401

WHOLE_AFTER_NS = 2 * 10**9
SOURCES = pathlib.Path(__file__).resolve().parent / "support" / "languages"

# Outermost first; what a compiler inlined or turned into a jump may stand between them or be absent where it says so.
CPP = ["main", "shop::Tower<3>::climb(", "shop::Tower<2>::climb(", "shop::Tower<1>::climb(", "shop::Tower<0>::climb(",
       "shop::Sale::total(", "shop::burn("]
CPP_HANDLER = ["main", "shop::catches()", "shop::in_handler(", "shop::burn("]
RUST = ["main", "lang_start", "known::main", "known::shop::recurse", "known::shop::apply", "known::shop::generic", "known::shop::Sale",
        "known::shop::burn"]
GO = ["runtime.goexit", "main.main.func1", "main.work", "main.recurse", "main.recurse", "main.recurse", "main.recurse", "main.work.func1",
      "main.(*sale).total", "main.burn"]
CGO = ["runtime.main", "main.main", "main.calls", "main._Cfunc_c_entry", "runtime.cgocall", "runtime.asmcgocall", "c_entry", "c_leaf"]


PYTHON = ["main", "<module>", "work", "recurse", "recurse", "recurse", "recurse", "burn"]


def pythons():
    """CPythons by version: the system's and those of pyenv."""
    found = {}
    for tool in ["/usr/bin/python3", *map(str, (pathlib.Path.home() / ".pyenv/versions").glob("3.*/bin/python"))]:
        if os.path.exists(tool):
            version = subprocess.run([tool, "-c", "import sys; print(sys.implementation.name, *sys.version_info[:2], sep='_')"],
                                     capture_output=True, text=True, check=True).stdout.strip()
            if version.startswith("cpython_3_"):
                found.setdefault(version, tool)
    return found


def fetched_pythons():
    """(name, words of the command) of those that tools/runtimes fetched; from 3.14 on with compiled code, too."""
    for runtime in runtimes.here():
        if runtime.name == "python":
            words = runtime.command(runtime.put(SOURCES / "known.py", "known.py"))
            yield f"python_{runtime.version}", words
            yield f"python_{runtime.version}_jit", ["env", "PYTHON_JIT=1", *words]


def toolchains():
    """Go by version, of PATH, of Debian and of the module cache."""
    found = {}
    places = [pathlib.Path("/usr/lib"), pathlib.Path.home() / "go/pkg/mod/golang.org"]
    tools = [shutil.which("go")] + [str(p) for place in places for p in place.glob("*/bin/go")]
    for tool in filter(None, tools):
        done = subprocess.run([tool, "version"], capture_output=True, text=True, env=go_environment(), check=False)
        version = re.search(r"go(1\.\d+)", done.stdout)
        if done.returncode == 0 and version:
            found.setdefault(version.group(1), tool)
    return found


def go_environment():
    return os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GO111MODULE": "off", "CGO_ENABLED": "1"}


def builds():
    """(name, source, words of the compiler, stacks)"""
    for compiler, name in (("g++", "gcc"), ("clang++-14", "clang")):
        if shutil.which(compiler):
            yield f"{name}_O0", "known.cpp", [compiler, "-O0"], [CPP, CPP_HANDLER]
            yield f"{name}_O2", "known.cpp", [compiler, "-O2", "-g"], [CPP, CPP_HANDLER]
    if shutil.which("rustc"):
        yield "rust_O", "known.rs", ["rustc", "-O", "-g"], [RUST]
        yield "rust_abort", "known.rs", ["rustc", "-O", "-C", "panic=abort"], [RUST]
        yield "rust_v0", "known.rs", ["rustc", "-C", "opt-level=0", "-C", "symbol-mangling-version=v0"], [RUST]
    # A toolchain compiles its library once for each way to build: minutes in all, where nothing is kept from before.
    known = toolchains()
    newest = max(known, key=minor, default=None)
    for version, tool in known.items():
        name = version.replace(".", "_")
        if version == newest or program.LONG:
            yield f"go{name}_stripped", "known.go", [tool, "build", "-ldflags", "-s -w"], [GO]
            yield f"go{name}_cgo", "known_cgo.go", [tool, "build"], [CGO]
        if version in (newest, min(known, key=minor)) or program.LONG:
            yield f"go{name}", "known.go", [tool, "build"], [GO]
        if version == newest and program.LONG:
            yield f"go{name}_pie", "known.go", [tool, "build", "-buildmode=pie"], [GO]


def minor(version):
    return int(version.split(".")[1])


def in_order(names, chain):
    rest = iter(names)
    return all(any(want in name for name in rest) for want in chain)


def complaints(name, own, chains, begin_ns):
    """What is wrong with the samples of one program."""
    late = [e for e in own if e.time_ns - begin_ns >= WHOLE_AFTER_NS]
    cut = [e for e in own if any(f.kind == "abort-marker" for f in e.frames)]
    cut_late = [e for e in cut if e in late]
    burning = [e for e in own if e not in cut and any("burn" in n or "c_leaf" in n for n in e.names)]
    wrong = [e for e in burning if not any(in_order(reversed(e.names), chain) for chain in chains)]
    unnamed = [e for e in late if any(n.startswith((name + "+0x", "[anon]")) for n in e.names)]
    print(f"{name}: {len(own)} samples, {len(late)} late; cut: {len(cut)}, {len(cut_late)} late; {len(burning)} burn, {len(wrong)} wrong")
    for what, events, most in (("cut, late", cut_late, 0.01 * len(late) + 1), ("cut", cut, 0.2 * len(own)),
                               ("wrong", wrong, 0.01 * len(own)), ("unnamed", unnamed, 0)):
        if len(events) > most:
            yield f"{name}: of {len(own)} samples {len(events)} {what}: {events[0].names}"
    if len(late) < 20 or len(burning) < 0.5 * len(own):
        yield f"{name}: {len(own)} samples, {len(late)} late, {len(burning)} burn"


def check_stacks(running, tmp_path):
    """From when the tables are there, a second or two after the begin on a busy machine; and most of those before, too. A machine
    that leaves the recorder no CPU for a while is asked again."""
    out = tmp_path / "all.otlp"
    pids = ",".join(str(process.pid) for process, _ in running.values())
    for _ in range(3):
        program.run("record", "-p", pids, "-F", "499", "-d", "6s", "-o", out, check=0)
        events = agents.Report(out.read_bytes()).events()
        begin_ns = min(e.time_ns for e in events)
        found = [text for name, (process, chains) in running.items()
                 for text in complaints(name, [e for e in events if e.resource["process.pid"] == process.pid], chains, begin_ns)]
        if not found:
            break
    assert not found, "\n".join(found)


@pytest.mark.timeout(1200)  # toolchains that compile their libraries first
def test_known_stacks_are_whole_and_named(needs_bpf, tmp_path):
    if not list(builds()):
        pytest.skip("SKIPPED ALOUD: neither g++, rustc nor go is here")
    for name, source, words, _ in builds():
        subprocess.run([*words, "-o", tmp_path / name, SOURCES / source], env=go_environment(), check=True, capture_output=True,
                       timeout=600)
    with contextlib.ExitStack() as until_the_end:
        check_stacks({name: (until_the_end.enter_context(agents.Spinning(tmp_path / name)), chains)
                      for name, _, _, chains in builds()}, tmp_path)


def test_known_stacks_of_every_cpython(needs_bpf, tmp_path):
    if not pythons():
        pytest.skip("SKIPPED ALOUD: no CPython is here")
    with contextlib.ExitStack() as until_the_end:
        check_stacks({version: (until_the_end.enter_context(agents.Spinning(tool, SOURCES / "known.py")), [PYTHON])
                      for version, tool in pythons().items()}, tmp_path)


def test_known_stacks_of_fetched_cpythons(needs_bpf, tmp_path):
    if not list(fetched_pythons()):
        pytest.skip("SKIPPED ALOUD: no CPython 3.14 or 3.15 is here: tools/runtimes python")
    with contextlib.ExitStack() as until_the_end:
        check_stacks({name: (until_the_end.enter_context(agents.Spinning(*words)), [PYTHON]) for name, words in fetched_pythons()}, tmp_path)


def test_an_unknown_version_is_told_by_name(needs_bpf, tmp_path):
    version, tool = next(iter(pythons().items()), (None, None))
    if not tool:
        pytest.skip("SKIPPED ALOUD: no CPython is here")
    version = version.removeprefix("cpython_").replace("_", ".")
    table = SOURCES.parents[2] / "src/agent/runtimes/cpython/cpython.table"
    (tmp_path / "cpython.table").write_text(re.sub(rf"(?m)^(version\b.*?)\s{re.escape(version)}\b", r"\1 3.99", table.read_text()))
    with receivers.GrpcReceiver() as peer, agents.Spinning(tool, SOURCES / "known.py"):
        with agents.agent(peer, tmp_path, "-runtime-tables", tmp_path) as a:
            program.wait_for(lambda: "Unknown version of a language runtime" in a.log, what="a line about the version")
            line, = [text for text in a.log.splitlines() if "Unknown version" in text]
            assert "cpython" in line or "python" in line
            assert version in line
