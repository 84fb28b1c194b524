"""Labels of goroutines (pprof.Do) on samples of Go programs, by all toolchains that are here."""

import os
import pathlib
import shutil
import subprocess

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

SOURCE = pathlib.Path(__file__).parent / "support" / "goroutine_labels.go"
LABEL = "process.context.label."
SETTLED_NS = 200_000_000
MODULES = pathlib.Path(os.environ.get("GOMODCACHE") or pathlib.Path(os.environ.get("GOPATH") or pathlib.Path.home() / "go") / "pkg" / "mod")

# What each function runs with; a key or value is cut at 64 and 256 bytes, between characters.
WANT = {
    "main.spinNone": {},
    "main.spinParent": {"endpoint": "/x"},
    "main.spinChild": {"endpoint": "/x"},
    "main.spinOne": {"step": "one"},
    "main.spinTwo": {"step": "two", "unit": "µs"},
    "main.spinInner": {"step": "three", "unit": "µs", "empty": ""},
    "main.spinLong": {"k" * 64: "x" + "é" * 127},
}


def toolchains():
    """Where Go is, by version: what is on the PATH, Debian's (maps hold labels up to 1.23), and those that Go fetched itself."""
    # FLAMETAP_LONG=1 takes the fetched ones, too.
    paths = [shutil.which("go"), "/usr/lib/go-1.19/bin/go"]
    if os.environ.get("FLAMETAP_LONG"):
        paths += sorted(str(p) for p in MODULES.glob("golang.org/toolchain@*/bin/go"))
    return [p for p in dict.fromkeys(paths) if p and os.access(p, os.X_OK)]


def build(go, folder, *flags, **variables):
    out = folder / "labels"
    env = os.environ | {"GOENV": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GO111MODULE": "off", "CGO_ENABLED": "0",
                        "GOCACHE": os.environ.get("GOCACHE") or str(folder / "cache")} | variables
    if "GOCACHE" not in os.environ and "HOME" in os.environ:
        del env["GOCACHE"]  # the usual one: most of the standard library is there already
    if "toolchain@" in go:
        env["GOROOT"] = str(pathlib.Path(go).parents[1])
    subprocess.run([go, "build", *flags, "-o", out, SOURCE], env=env, check=True, timeout=600)
    return out


def by_function(events):
    """{function: [labels of each event]} of those that ran in one that we know."""
    out = {name: [] for name in WANT}
    for e in events:
        if "runtime.mcall" in e.names:  # the scheduler has taken the goroutine off its thread already
            continue
        labels = {k.removeprefix(LABEL): v for k, v in e.attributes.items() if k.startswith(LABEL)}
        for name in set(e.names) & set(WANT):
            out[name].append(labels)
    return out


def check(path, tmp_path):
    with receivers.GrpcReceiver() as peer, agents.Spinning(path) as p, \
            agents.agent(peer, tmp_path, "-pid", p.pid, "-samples-per-second", "499") as a:
        def settled():
            found = agents.events(peer, p.pid)
            # What BPF met before it knew of the process has no labels.
            first = min((e.time_ns for e in found if any(k.startswith(LABEL) for k in e.attributes)), default=None)
            seen = by_function(e for e in found if first is not None and e.time_ns > first + SETTLED_NS)
            return seen if all(len(s) >= 3 for s in seen.values()) else None
        seen = program.wait_for(settled, what="samples of all functions", every=0.2)
        a.wait_line(r"Interpreter tracers: .*labels")
    for name, labels in seen.items():
        wrong = [x for x in labels if x != WANT[name]]
        assert not wrong, f"{name}: {len(wrong)} of {len(labels)}, such as {wrong[0]}"


@pytest.mark.parametrize("go", toolchains() or [None])
def test_labels_of_goroutines(needs_bpf, tmp_path, go):
    if not go:
        pytest.skip("SKIPPED ALOUD: no Go here")
    check(build(go, tmp_path), tmp_path)


def test_labels_of_a_stripped_program_at_any_address(needs_bpf, tmp_path):
    go = (toolchains() or [None])[0]
    if not go:
        pytest.skip("SKIPPED ALOUD: no Go here")
    check(build(go, tmp_path, "-buildmode=pie", "-ldflags=-s -w"), tmp_path)
