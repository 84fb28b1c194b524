"""Turns that a process's life takes under the agent: its first thread ends, it takes another name, its code is mapped or written over."""

import pathlib
import re
import shutil
import subprocess

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

HERE = pathlib.Path(__file__).parent

# Of the same layout to the byte but for the names, so that one is loaded where the other was, and different inside.
PLUGIN = r"""
static volatile unsigned long count;
__attribute__((noinline)) void %(name)s_leaf(void) { %(room)s for (int i = 0; i < 100000; i++) count += i; }
__attribute__((noinline)) void plugin_run(void) { %(room)s %(name)s_leaf(); count++; }
"""
ROOM = "volatile char room[200]; room[count & 127] = 0;"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", folder / "lives", HERE / "support" / "lives.c", "-ldl"], check=True)
    for name, room in (("left", ""), ("right", ROOM)):
        source = folder / f"{name}.c"
        source.write_text(PLUGIN % {"name": name, "room": room})
        subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", folder / f"{name}.so", source], check=True)
    agents.compile_spin(folder)
    return folder


@pytest.fixture
def peer():
    with receivers.GrpcReceiver() as r:
        yield r


def told(text):
    """[(what, pid, nanoseconds)]"""
    return [(what, int(pid), int(ns)) for what, pid, ns in re.findall(r"^(\S+) (\d+) (\d+)$", text, re.MULTILINE)]


def lives(programs, *words):
    done = subprocess.run([programs / "lives", *map(str, words)], capture_output=True, text=True, timeout=2 * program.HANG, check=True)
    return told(done.stdout)


def recorded(tmp_path, *words, **options):
    out = tmp_path / "out.otlp"
    done = program.run("record", "-F", "199", "-o", out, *words, **options)
    assert done.returncode == 0, done.stderr
    return agents.Report(out.read_bytes()).events(), done


# ---- the first thread ends ----

def test_the_first_thread_ends_before_another(needs_bpf, programs, tmp_path):
    """Its zombie shows neither memory nor files: they are still the process's, under one name."""
    found, _ = recorded(tmp_path, "--", programs / "lives", "lead", "1.2")
    own = [e for e in found if "known_leaf" in e.names]
    assert len({e.resource["process.pid"] for e in own}) == 1
    assert {e.resource.get("process.executable.name") for e in own} == {"lives"}
    later = [e for e in found if e.resource["process.pid"] == own[0].resource["process.pid"] and "main" not in e.names]
    named = [e for e in later if {"known_leaf", "known_outer", "work"} <= set(e.names)]
    assert len(named) >= 20 and len(named) >= 0.9 * len(later), [e.frames for e in later if e not in named][:3]
    assert {e.resource.get("process.executable.path") for e in later} == {str(programs / "lives")}


def test_the_first_thread_ended_before_we_came(needs_bpf, programs, tmp_path):
    with subprocess.Popen([programs / "lives", "lead", "60"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline().startswith(b"alone ")
            for seconds in (1, 4, 16):  # of the machine; it may have none of them for the process
                found, _ = recorded(tmp_path, "-p", process.pid, "-d", f"{seconds}s")
                own = [e for e in found if e.resource["process.pid"] == process.pid]
                if len(own) >= 25:
                    break
        finally:
            process.kill()
    named = [e for e in own if {"known_leaf", "known_outer", "work"} <= set(e.names)]
    assert len(named) >= 20 and len(named) >= 0.9 * len(own), [e.frames for e in own if e not in named][:3]
    assert {e.resource.get("process.executable.path") for e in own} == {str(programs / "lives")}


# ---- another name ----

def test_the_filter_knows_a_process_by_its_new_name(needs_bpf, programs, peer, tmp_path):
    with agents.agent(peer, tmp_path, "-process-filter", "^kid$", "-samples-per-second", "97") as server, \
            subprocess.Popen([programs / "known_spin"], executable=programs / "known_spin", stdout=subprocess.DEVNULL) as spin:
        try:
            program.wait_for(lambda: agents.reports(peer), what="a first report")
            turns = {what: (pid, ns) for what, pid, ns in lives(programs, "names", "1")}
            program.wait_for(lambda: agents.reports(peer)[-1].host["begin"] > turns["end"][1], what="a report of what came after")
        finally:
            spin.kill()
        assert server.stop() == 0
    pid, named_ns = turns["kid"]
    times = [e.time_ns for e in agents.events(peer)]
    assert {e.resource["process.pid"] for e in agents.events(peer)} == {pid}
    slack_ns = 10_000_000
    assert len(times) >= 20 and min(times) >= named_ns - slack_ns and max(times) <= turns["other"][1] + slack_ns, (turns, min(times), max(times))


# ---- other code ----

def test_a_plugin_is_loaded_where_another_was(needs_bpf, programs, tmp_path):
    """No frame is of the one that is not there any more; what was walked by its rows ends at its leaf."""
    found, done = recorded(tmp_path, "--", programs / "lives", "plugins", "1", programs / "left.so", programs / "right.so")
    turns = told(done.stdout.decode())
    own = [e for e in found if e.resource.get("process.executable.name") == "lives"]
    seen = whole = 0
    for (path, _, begin), (_, _, end) in zip(turns[::2], turns[1::2]):
        name, other = ("left", "right") if "left" in path else ("right", "left")
        during = [e for e in own if begin <= e.time_ns <= end]
        assert not [e for e in during if f"{other}_leaf" in e.names], name
        seen += sum(f"{name}_leaf" in e.names for e in during)
        whole += sum({f"{name}_leaf", "plugin_run", "plugin", "main"} <= set(e.names) for e in during)
    assert len(turns) == 8 and seen >= 100 and whole >= 0.7 * seen, (seen, whole)


def test_a_library_is_written_over(needs_bpf, programs, peer, tmp_path):
    """The inode stays, the file is another: who maps it then has that one's names, rows and build id."""
    library = tmp_path / "plugin.so"
    ids = {}
    with agents.agent(peer, tmp_path, "-samples-per-second", "97") as server, agents.Spinning(programs / "known_spin") as spin:
        agents.wait_events(peer, spin.pid)
        for name in ("left", "right"):
            shutil.copyfile(programs / f"{name}.so", library)
            note = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
            ids[name] = re.search(r"Build ID: (\w+)", note).group(1)
            turns = lives(programs, "plugin", "1", library)
            own = agents.wait_events(peer, turns[0][1], after_ns=turns[0][2], count=20)
            frames = [f for e in own for f in e.frames if f.file == library.name]
            assert frames and {f.mapping_attributes["process.executable.build_id.gnu"] for f in frames} == {ids[name]}
            whole = [e for e in own if {f"{name}_leaf", "plugin_run", "main"} <= set(e.names)]
            assert len(whole) >= 0.7 * len(own), (name, [e.frames for e in own if e not in whole][:3])
        assert server.stop() == 0
    assert ids["left"] != ids["right"]


def resident_kib(pid, path):
    """What of a file is in the memory of a process."""
    total, here = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            here = line.endswith(str(path))
        elif here and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def test_files_that_were_read_are_let_go(needs_bpf, peer, tmp_path):
    """A program of 30 MB of symbols is named, and its pages do not stay in the agent's memory."""
    names = tmp_path / "names.s"
    names.write_text('.text\n.altmacro\n.macro name n\nl_\\n\\()_%s:\n.endm\n.set i, 0\n.rept 200000\nname %%i\n.set i, i + 1\n.endr\nret\n'
                     '.section .note.GNU-stack,"",@progbits\n' % ("long" * 25))
    (tmp_path / "spin.c").write_text(agents.SPIN)
    big = tmp_path / "big_spin"
    subprocess.run(["gcc", "-O1", "-Wa,-L", "-o", big, tmp_path / "spin.c", names], check=True)
    assert big.stat().st_size > 20 << 20
    with agents.Spinning(big) as spin, agents.agent(peer, tmp_path, "-pid", spin.pid, "-samples-per-second", "97") as a:
        found = agents.wait_events(peer, spin.pid, 20)
        assert any("known_leaf" in e.names for e in found), found[-1].names
        for pid in agents.parts(a).values():
            program.wait_for(lambda p=pid: resident_kib(p, big) < 2048, what=f"less than 2 MiB of {big} in process {pid}", every=0.5)
