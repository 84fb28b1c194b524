"""Java under the agent: known chains of methods, interpreted, compiled and inlined, in each JDK at hand. JDKs: the one on the
PATH, those under /usr/lib/jvm and in FLAMETAP_JDKS (folders, colon-separated), and those that tools/runtimes fetched: the oldest and
the newest, or all of them with --long."""

import collections
import contextlib
import glob
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

SOURCE = pathlib.Path(__file__).parent / "support" / "KnownJava.java"
CHAIN = ["void KnownJava.main(java.lang.String[])", "void KnownJava.run(java.lang.String)", "void KnownJava.chain()",
         "long KnownJava.one(KnownJava$Shape, int)",
         "long KnownJava.two(KnownJava$Shape, int, double, double, long, long, long, long)",
         "long KnownJava.three(KnownJava$Shape, int)"]
NO_INLINING = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,KnownJava*::*"]
WAYS = {
    "interpreted": ["chain", "-Xint"],
    "c1": ["chain", "-XX:TieredStopAtLevel=1", *NO_INLINING],
    "c2": ["chain", "-XX:-TieredCompilation", *NO_INLINING],
    "inlined": ["chain", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"],  # what is inlined into what, exactly
}
SAMPLES = 100


def jdks():
    found = {}
    for java in [shutil.which("java"), *glob.glob("/usr/lib/jvm/*/bin/java"),
                 *(f"{d}/bin/java" for d in os.environ.get("FLAMETAP_JDKS", "").split(":") if d)]:
        if java and os.path.exists(java):
            found.setdefault(os.path.realpath(java), java)
    fetched = [r for r in runtimes.here() if r.name == "jdk"]
    return [*found, *(fetched if program.LONG else fetched[:1] + fetched[1:][-1:])]


def command_of(java, classes, *words):
    """The words that run KnownJava: by a path of ours, or in the root folder of a fetched one."""
    if isinstance(java, str):
        return [java, *words, "-cp", classes, "KnownJava"]
    for file in classes.glob("*.class"):
        there = java.put(file, file.name).parent
    return java.command(*words, "-cp", there, "KnownJava")


class Java:
    def __init__(self, java, folder, way):
        mode, *flags = WAYS[way]
        self.java, self.way = java, way
        self.process = subprocess.Popen([*command_of(java, folder, "-Xmx64m", "-XX:+UseSerialGC", *flags), mode, "300"],
                                        stdout=subprocess.PIPE)
        self.pid, self.tid = self.process.pid, None

    def wait(self):
        pid, task, tid = self.process.stdout.readline().decode().strip().split("/")
        assert (int(pid), task) == (self.pid, "task"), f"{self.java} {self.way}"
        self.tid = int(tid)

    def stop(self):
        if self.process.returncode is not None:
            return
        self.process.kill()
        self.process.wait(program.HANG)
        self.process.stdout.close()


def name_of(java):
    return f"fetched_{java.version}" if isinstance(java, runtimes.Runtime) else str(java)


@pytest.fixture(params=jdks() or [None], ids=name_of)
def machines(tmp_path, request):
    if not request.param:
        pytest.skip("SKIPPED ALOUD: no java here")
    if not shutil.which("javac"):
        pytest.skip("SKIPPED ALOUD: no javac here")
    subprocess.run(["javac", "--release", "8", "-d", tmp_path, SOURCE], check=True, stderr=subprocess.DEVNULL)
    fetched = not isinstance(request.param, str)
    with runtimes.with_proc(request.param) if fetched else contextlib.nullcontext():
        started = [Java(request.param, tmp_path, way) for way in WAYS]
        try:
            for j in started:
                j.wait()
            yield started
        finally:
            for j in started:
                j.stop()


def java_names(event):
    """Java's methods, outermost first. Kept: stacks are deep, and looked at again and again."""
    if not hasattr(event, "java_names"):
        event.java_names = [n for f in reversed(event.frames) if f.kind == "jvm" for n in reversed(f.names)]
    return event.java_names


def methods(event):
    return [n for n in java_names(event) if not n.startswith("[")]


STARTS = re.compile("start_thread|clone|libc.so")  # a libc may come without its own names


def is_whole(event):
    return "abort-marker" not in [f.kind for f in event.frames] and any(STARTS.search(n) for n in event.names[-3:])


def is_named(event):
    return bool(methods(event)) and all(f.names and f.names[0] and not f.names[0].startswith("[unloaded") for f in event.frames if f.kind == "jvm")


def is_chain(event):
    """main, run, chain and then as much of the rest as there is."""
    found = methods(event)
    return found[:3] == CHAIN[:3] and all(a == b for a, b in zip(found, CHAIN))


def steady(receiver, j):
    """Samples of its threads that run our code, from when the first whole one has come and a second more."""
    def of_it():
        return [e for e in agents.events(receiver, j.pid)
                if any("KnownJava" in n for n in java_names(e)) or e.attributes.get("thread.id") == j.tid]

    def enough():
        ours = of_it()
        first = next((e.time_ns for e in ours if is_whole(e) and is_named(e)), None)
        found = [e for e in ours if first and e.time_ns > first + 1_000_000_000]
        return found if len(found) >= SAMPLES else None
    return program.wait_for(enough, what=f"{SAMPLES} samples of {j.java} {j.way}", every=0.5)


def check_lines(events, j):
    """The line that calls, in its file; the address is the byte code's index."""
    lines = SOURCE.read_text().splitlines()
    call = 1 + next(i for i, line in enumerate(lines) if "sink += one(" in line)
    found = collections.Counter()
    for e in events:
        for f in e.frames:
            for name, line, file in f.lines:
                if name == CHAIN[2] and len(methods(e)) > 3:
                    found[line, file] += 1
                    assert f.location.address < 100, f"{j.java} {j.way}: {f}"
    assert found and found.most_common(1)[0][0] == (call, "KnownJava.java"), f"{j.java} {j.way}: {found}"


@pytest.mark.timeout(180)
def test_known_stacks(needs_bpf, machines, tmp_path):  # noqa: F811
    receiver = receivers.GrpcReceiver()
    with receiver, agents.agent(receiver, tmp_path, "-tracers", "hotspot", "-samples-per-second", "199"):
        for j in machines:
            events = steady(receiver, j)
            whole = [e for e in events if is_whole(e) and is_named(e)]
            known = [e for e in whole if is_chain(e)]
            print(f"{j.java} {j.way}: {len(events)} samples, {len(whole)} whole and named, {len(known)} the known stack")
            bad = [e.frames for e in events if e not in known][:3]
            assert len(whole) * 100 >= len(events) * 97, f"{j.java} {j.way}: {len(whole)} of {len(events)} are whole: {bad}"
            assert len(known) * 100 >= len(events) * 95, f"{j.java} {j.way}: {len(known)} of {len(events)} are the known: {bad}"
            assert all(f.kind == "jvm" for e in events for f in e.frames if any("KnownJava." in n for n in f.names))
            check_lines(known, j)
            j.stop()  # the others have more of the CPUs
