"""-cgroup: the kernel decides for each sample by the groups that a task is in at that moment, in hierarchies of both versions."""

import contextlib
import os
import pathlib
import re
import signal

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

COME_AND_GO_NS = 300_000_000  # a sample that was taken just before a move carries an earlier time; clocks are compared, no more


def mounts():
    """[(folder, hierarchy's name)] of the control groups that are mounted here."""
    out = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        rest = words[words.index("-") + 1:]
        if rest[0] == "cgroup2":
            out.append((pathlib.Path(words[4]), "v2"))
        elif rest[0] == "cgroup":
            out.append((pathlib.Path(words[4]), "named" if "name=" in rest[2] else "v1"))
    return out


@contextlib.contextmanager
def group(kind, name):
    """A group of this kind of hierarchy: its folder. Its tasks go back to the group above at the end."""
    found = [folder for folder, k in mounts() if k == kind]
    folder = found[0] / name if found else None
    try:
        if not folder:
            raise OSError("none is mounted")
        folder.mkdir()
        (folder / "inner").mkdir()
    except OSError as error:
        pytest.skip(f"SKIPPED ALOUD: no control group ({kind}) can be made here: {error}")
    try:
        yield folder
    finally:
        for f in (folder / "inner", folder):
            for pid in (f / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (folder.parent / "cgroup.procs").write_text(pid)
            program.wait_for(lambda f=f: not f.exists() or removed(f), what=f"the end of {f}")


def removed(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
        return True
    return False


def move(p, folder):
    (folder / "cgroup.procs").write_text(str(p.pid))
    return agents.now_ns()


@pytest.fixture(scope="module")
def spin(tmp_path_factory):
    return agents.compile_spin(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def peer():
    with receivers.GrpcReceiver() as r:
        yield r


@pytest.mark.parametrize("kind", ["v2", "v1", "named"])
def test_a_process_is_followed_into_a_group_and_out_of_it(needs_bpf, spin, peer, tmp_path, kind):
    name = f"flametap-{os.getpid()}-{kind}"
    with group(kind, name) as folder, agents.Spinning(spin) as p, agents.Spinning(spin) as always:
        move(always, folder)
        said = {"v2": folder, "v1": f"/{name}", "named": name}[kind]  # as operators have it
        with agents.agent(peer, tmp_path, "-cgroup", said, "-samples-per-second", "97") as a:
            a.wait_line("Control groups are told apart by the kernel")
            agents.wait_events(peer, always.pid, 20)
            assert not agents.events(peer, p.pid)  # seen as often, and outside
            entered = move(p, folder / "inner")  # below it is in it
            inside = agents.wait_events(peer, p.pid, 20, after_ns=entered)
            left = move(p, folder.parent)
            agents.wait_events(peer, always.pid, 30, after_ns=left + COME_AND_GO_NS)
            assert not [e for e in agents.events(peer, p.pid) if e.time_ns > left + COME_AND_GO_NS or e.time_ns < entered - COME_AND_GO_NS]
            again = move(p, folder)
            agents.wait_events(peer, p.pid, 5, after_ns=again)
            assert {e.resource["process.pid"] for e in agents.events(peer)} == {p.pid, always.pid}
    assert any("known_middle" in e.names for e in inside)


def test_groups_that_are_made_later_and_changed_with_sighup(needs_bpf, spin, peer, tmp_path):
    first, second = (f"flametap-{os.getpid()}-{n}" for n in ("first", "second"))
    kind = next((k for _, k in mounts()), "v2")
    config = tmp_path / "agent.conf"
    config.write_text(f"cgroup /{first}\n")
    with agents.Spinning(spin) as p, agents.Spinning(spin) as q:
        with agents.agent(peer, tmp_path, "-config", config, "-samples-per-second", "97") as a:
            assert f"cgroups=/{first}" in a.wait_line("No such control group is here now")
            program.wait_for(lambda: len(peer.bodies) >= 2, what="reports of nothing")
            assert not agents.events(peer)
            with group(kind, first) as one, group(kind, second) as two:
                move(p, one)
                move(q, two)
                agents.wait_events(peer, p.pid, 10)
                assert not agents.events(peer, q.pid)
                lines = len(a.lines)
                config.write_text(f"cgroup /{second}\n")
                a.signal(signal.SIGHUP)
                a.wait_line("were read again", after=lines)
                changed = agents.now_ns()
                agents.wait_events(peer, q.pid, 10, after_ns=changed)
                assert not [e for e in agents.events(peer, p.pid) if e.time_ns > changed + COME_AND_GO_NS]
                config.write_text("\n")  # everybody again
                a.signal(signal.SIGHUP)
                agents.wait_events(peer, p.pid, 5, after_ns=agents.now_ns())


def test_what_is_asked_for_and_not_there_is_told(needs_bpf, tmp_path):
    """A slip of the pen looks like an idle machine otherwise."""
    absent = 1 + int(re.split("[-,]", pathlib.Path("/sys/devices/system/cpu/possible").read_text())[-1])
    here = min(os.sched_getaffinity(0))  # and one that is there
    with agents.agent("127.0.0.1:1", tmp_path, "-pid", f"99999999,{os.getpid()}", "-pin-cpu-ids", f"{here},{absent}") as a:
        assert f"cpus={absent} " in a.wait_line("CPUs of -pin-cpu-ids are not online")
        assert a.wait_line("No such process runs now").rstrip().endswith("pids=99999999")
    done = program.run("agent", "-collection-agent", "127.0.0.1:1", "-pin-cpu-ids", str(absent), "-spool-dir", tmp_path / "other")
    assert done.returncode and f"-pin-cpu-ids, pin_cpu_ids: this machine has no CPU {absent}, it has " in done.stderr.decode()


def test_a_group_that_no_mount_shows(needs_bpf, spin, peer, tmp_path):
    """As in a container: what lies outside its namespace is matched by what /proc says when a process is first seen."""
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-cgroup", "/../elsewhere", "-cgroup", "/") as a:
        a.wait_line("Control groups are told apart when a process is first seen")
        agents.wait_events(peer, p.pid, 3)
