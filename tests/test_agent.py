"""flametap agent on the real kernel: known programs, a gRPC server of grpcio as the peer, reports read by Google's protobuf."""

import datetime
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import agents
import program
import pyroscope
import receivers
from ports import free_port
from agents import needs_bpf  # noqa: F401

KNOWN = ["known_leaf", "known_middle", "known_outer", "main"]


@pytest.fixture(scope="module")
def spin(tmp_path_factory):
    return agents.compile_spin(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def peer():
    with receivers.GrpcReceiver() as r:
        yield r


# ---- what arrives ----

def test_a_known_stack_arrives_named(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-tags", "team=blue") as a:
        found = agents.wait_events(peer, p.pid, 10)
        a.wait_line(r"Captured \d+ stack traces from 1 processes")
        a.wait_line(rf"Sent profile batch to {peer.address} \(\d+ samples\)")
        for line in ("Interpreter tracers: ", "eBPF tracer loaded", "Attached tracer program"):
            a.wait_line(line)
    user = [[f for f in e.frames if f.kind != "kernel"] for e in found]
    whole = [e for e in user if [n for f in e for n in f.names][-5 - len(KNOWN):] and
             KNOWN[1:] == [n for f in e for n in f.names if n in KNOWN[1:]]]
    assert len(whole) >= 0.9 * len(found), found[0].frames
    e = found[-1]
    assert e.resource["process.executable.name"] == spin.name and e.resource["process.executable.path"] == str(spin)
    assert e.resource["team"] == "blue" and e.resource["host.name"] == os.uname().nodename
    assert e.resource["host.arch"] in ("amd64", "arm64") and e.resource["os.type"] == "linux"
    assert e.attributes["thread.name"] == spin.name[:15] and e.attributes["thread.id"] == p.pid
    assert e.attributes["cpu.logical_number"] in range(os.cpu_count())
    assert abs(e.time_ns - agents.now_ns()) < 60e9
    own = [f for f in e.frames if f.file == spin.name]
    assert own and all(f.kind == "native" for f in own)
    note = subprocess.run(["readelf", "-n", spin], capture_output=True, text=True, check=True).stdout
    assert own[0].mapping_attributes["process.executable.build_id.gnu"] == re.search(r"Build ID: (\w+)", note).group(1)
    symbols = subprocess.run(["nm", spin], capture_output=True, text=True, check=True).stdout
    outer = int(re.search(r"(\w+) T known_outer", symbols).group(1), 16)
    caller = next(f for f in own if "known_outer" in f.names)
    assert outer <= caller.location.address < outer + 64  # in the file's own addresses
    assert caller.mapping.memory_start <= caller.location.address < caller.mapping.memory_limit


def kernel_build_id():
    note = pathlib.Path("/sys/kernel/notes").read_bytes()
    at = note.index(b"\x03\0\0\0GNU\0")  # type, name; before them the lengths of name and content
    return note[at + 8:at + 8 + int.from_bytes(note[at - 4:at], "little")].hex()


def test_each_report_is_conformant_and_accounts_for_itself(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path):
        agents.wait_events(peer, p.pid, 15)
        kernel = program.wait_for(lambda: next((f for e in agents.events(peer) for f in e.frames if f.file == "vmlinux"), None),
                                  what="a kernel frame")
    reports = agents.reports(peer)
    for n, body in enumerate((peer.bodies[0], peer.bodies[-1])):
        (tmp_path / f"{n}.pb").write_bytes(body)
        program.run("check", tmp_path / f"{n}.pb", check=0)
    for r in reports:
        host = r.host
        assert host["flametap.sampled"] == len(r.events())
        assert host["flametap.window_ns"] <= host["end"] - host["begin"]
        for resource, profile in r.profiles():
            sample, period = profile.sample_type, profile.period_type
            assert (r.text(sample.type_strindex), r.text(sample.unit_strindex)) == ("samples", "count")
            assert (r.text(period.type_strindex), r.text(period.unit_strindex)) == ("cpu", "nanoseconds")
            assert profile.period == 50_000_000
            assert all(not s.values for s in profile.samples)
        assert all("process.pid" in e.resource for e in r.events())
    found = [e for r in reports for e in r.events()]
    named = [e for e in found if e.resource.get("process.executable.name")]
    assert len(named) >= 0.9 * len(found), {e.resource["process.pid"] for e in found if e not in named}
    assert len({r.host["begin"] for r in reports}) == len(reports) >= 2
    hash128 = 0x6c62272e07bb014262b821756295c58d  # FNV-1a of the build id's digits
    for digit in kernel_build_id().encode():
        hash128 = (hash128 ^ digit) * 0x1000000000000000000013b % 2**128
    assert kernel.mapping_attributes == {"process.executable.build_id.gnu": kernel_build_id(),
                                         "process.executable.build_id.htlhash": f"{hash128:032x}"}


def test_without_native_symbols_as_the_reference_sends_them(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-native-symbols=false"):
        found = agents.wait_events(peer, p.pid, 5)
    native = [f for e in found for f in e.frames if f.kind == "native"]
    assert native and not any(f.lines for f in native)
    assert all(f.file and f.location.address for f in native)


def test_who_says_it_comes_from_the_environment(needs_bpf, spin, peer, tmp_path):
    env = program.environment(OTEL_SERVICE_NAME="shop", OTEL_RESOURCE_ATTRIBUTES="zone=a%2Cb,env=test,service.name=not-this")
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-tags", "env=prod", env=env):
        e = agents.wait_events(peer, p.pid, 1)[0]
    assert e.resource["service.name"] == "shop"
    assert (e.resource["zone"], e.resource["env"]) == ("a,b", "prod")


def test_a_process_says_its_own_service_name(needs_bpf, spin, peer, tmp_path):
    os.environ["OTEL_SERVICE_NAME"] = "of-the-process"
    try:
        p = agents.Spinning(spin)
    finally:
        del os.environ["OTEL_SERVICE_NAME"]
    with p, agents.agent(peer, tmp_path, "-pid", p.pid, "-service-name", "of-the-flag"):
        e = agents.wait_events(peer, p.pid, 1)[0]
    assert e.resource["service.name"] == "of-the-process"


def test_to_stdout_beside_the_backend(needs_bpf, spin):
    with agents.Spinning(spin), program.backend("-receiver", "stdout", "-with-agent") as b:
        program.wait_for(lambda: b"Function: known_middle" in b.stdout, what="the known stack on stdout", every=0.2)
        assert f"process.executable.path: {spin}".encode() in b.stdout


# ---- nothing is lost ----

def captured(a):
    return sum(int(m.group(1)) for m in re.finditer(r"Captured (\d+) stack", a.log))


def test_the_collector_is_away_for_a_while(needs_bpf, spin, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    with agents.Spinning(spin) as p:
        a = agents.agent(address, tmp_path, "-pid", p.pid, "-samples-per-second", "97")
        with a:
            away = time.monotonic() + (60 if program.LONG else 1.5)
            while time.monotonic() < away:
                a.wait_line("Captured", after=len(a.lines))  # reports that nobody takes
            with receivers.GrpcReceiver(address=address) as peer:
                back = agents.now_ns()
                agents.wait_events(peer, p.pid, 5, after_ns=back)
                assert a.stop() == 0
                # What still waited for its retry lies in the spool, for the next start.
                with agents.agent(peer, tmp_path, "-process-filter", "^none-of-this-name$"):
                    program.wait_for(lambda: len(agents.events(peer)) >= captured(a), what="what was spooled", every=0.1)
                reports = agents.reports(peer)
    reports.sort(key=lambda r: r.host["begin"])
    assert reports[0].host["end"] < back
    assert sum(len(r.events()) for r in reports) == captured(a)
    assert len({r.message.SerializeToString() for r in reports}) == len(reports)  # none twice
    assert not any(k.startswith("flametap.dropped") for r in reports for k in r.host)


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_sigterm_sends_the_last_report(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p:
        a = agents.agent(peer, tmp_path, "-pid", p.pid, "-reporter-interval", "1h", "-samples-per-second", "97")
        with a:
            began = cpu_ticks(p.pid)  # its own time, however busy the machine: some 30 samples, in no report yet
            program.wait_for(lambda: cpu_ticks(p.pid) - began >= 0.3 * os.sysconf("SC_CLK_TCK"), what="CPU time of the program")
            assert not peer.bodies
            assert a.stop() == 0
        assert len(agents.events(peer, p.pid)) > 5


def test_two_sigterms_at_once_are_one(needs_bpf, spin, peer, tmp_path):
    """As timeout(1) sends them, and systemd: to all processes of a unit."""
    with agents.Spinning(spin) as p:
        a = agents.agent(peer, tmp_path, "-pid", p.pid, "-reporter-interval", "1h", "-samples-per-second", "97")
        with a:
            time.sleep(0.3)
            for pid in [a.pid, *agents.parts(a).values(), a.pid]:
                os.kill(pid, signal.SIGTERM)
            assert a.stop() == 0
        assert agents.events(peer, p.pid)


# ---- processes and privileges ----

def test_worker_without_capabilities_and_sampler_without_network(needs_bpf, peer, tmp_path):
    with agents.agent(peer, tmp_path) as a:
        parts = agents.parts(a)
        worker, sampler = agents.status(parts["flametap-worker"]), agents.status(parts["flametap-sample"])
        sockets = [os.readlink(f) for f in pathlib.Path(f"/proc/{parts['flametap-sample']}/fd").iterdir() if f.exists()]
        program.wait_for(lambda: peer.bodies, what="a report")
    assert int(worker["CapEff"], 16) == int(worker["CapPrm"], 16) == 0
    six = sum(1 << n for n in (2, 19, 34, 38, 39, 40))  # linux/capability.h
    assert int(sampler["CapEff"], 16) & ~six == 0 and int(sampler["CapEff"], 16) & (1 << 39)
    for s in (worker, sampler):
        assert (s["Seccomp"], s["NoNewPrivs"]) == ("2", "1")
    assert sum(s.startswith("socket:") for s in sockets) <= 2  # its seam; stderr may be another's


def test_the_worker_is_another_user(needs_bpf, spin, peer, tmp_path):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-user", "nobody") as a:
        worker = agents.status(agents.parts(a)["flametap-worker"])
        agents.wait_events(peer, p.pid, 3)
    assert worker["Uid"].split() == ["65534"] * 4


def log_time(line):
    """Seconds; a difference of two of them is meant."""
    return datetime.datetime.fromisoformat(line.split()[0].rstrip("Z")).timestamp()


def test_a_killed_sampler_comes_back(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid) as a:
        agents.wait_events(peer, p.pid, 1)
        os.kill(agents.parts(a)["flametap-sample"], signal.SIGKILL)
        gone, again = (log_time(a.wait_line(what)) for what in ("The sampler is gone", "Sampling again"))
        found = agents.wait_events(peer, p.pid, 3, after_ns=agents.now_ns())
    covered = [r.host for r in agents.reports(peer)[1:] if r.host["begin"] < max(e.time_ns for e in found)]
    unsampled = sum(h["end"] - h["begin"] - h["flametap.window_ns"] for h in covered)
    assert unsampled / 1e9 >= (again - gone) / 2, (unsampled, again - gone)  # the log's clock has milliseconds


def test_a_killed_worker_comes_back(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid) as a:
        agents.wait_events(peer, p.pid, 1)
        lines = len(a.lines)
        os.kill(agents.parts(a)["flametap-worker"], signal.SIGKILL)
        a.wait_line("starting it again", after=lines)
        a.wait_line("eBPF tracer loaded", after=lines)
        agents.wait_events(peer, p.pid, 3, after_ns=agents.now_ns())


def as_nobody(*capabilities):
    """A wrapper that runs a program as nobody with these capabilities and no others."""
    caps = ",".join(f"+{c}" for c in capabilities)
    keep = ["--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}"] if capabilities else ["--inh-caps", "-all"]
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *keep]


def open_to_all(path):
    """A copy that nobody may run: build folders may be closed."""
    folder = pathlib.Path("/tmp") / f"flametap-test-{os.getpid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    copy = folder / "flametap"
    shutil.copy(path, copy)
    copy.chmod(0o755)
    return folder, copy


@pytest.fixture
def public():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("SKIPPED ALOUD: needs root and setpriv")
    folder, copy = open_to_all(program.existing_path())
    folder.chmod(0o777)
    yield folder, copy
    shutil.rmtree(folder)


SIX = ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore", "syslog"]


def numbers(names):
    table = {"bpf": 39, "perfmon": 38, "sys_ptrace": 19, "dac_read_search": 2, "checkpoint_restore": 40, "syslog": 34, "sys_admin": 21}
    return [f"cap_{table[n]}" for n in names]


def test_another_user_with_the_six_capabilities(needs_bpf, spin, peer, public):
    folder, copy = public
    with agents.Spinning(spin) as p, agents.agent(peer, folder, "-pid", p.pid, name=copy, wrapper=as_nobody(*numbers(SIX))) as a:
        found = agents.wait_events(peer, p.pid, 5)
        assert not a.find_line("capability is missing")
    assert any("known_middle" in e.names for e in found)


def test_the_capabilities_of_the_seeds_systemd_unit(needs_bpf, spin, peer, public):
    folder, copy = public
    wrapper = as_nobody(*numbers(["sys_admin", "perfmon", "sys_ptrace"]))
    with agents.Spinning(spin) as p, agents.agent(peer, folder, "-pid", p.pid, name=copy, wrapper=wrapper) as a:
        agents.wait_events(peer, p.pid, 5)
        a.wait_line("CAP_DAC_READ_SEARCH")  # the one that it lacks is named
        assert not a.find_line("CAP_BPF|CAP_SYSLOG|CAP_CHECKPOINT_RESTORE")


@pytest.mark.parametrize("words", [("agent", "-collection-agent", "127.0.0.1:1", "-disable-tls"), ("record", "-d", "1s", "-o", "x.otlp"),
                                   ("backend", "-with-agent", "-grpc-address", "127.0.0.1:0", "-http-address", "")])
def test_refused_without_privileges(needs_bpf, public, words):
    folder, copy = public
    env = program.environment(HOME=str(folder))
    done = subprocess.run([*as_nobody(), str(copy), *words], capture_output=True, env=env, cwd=folder, timeout=program.HANG, check=False)
    text = done.stderr.decode()
    assert done.returncode == 1
    assert "cap_bpf: not held, so no BPF program can be loaded; 'flametap doctor' says what to do" in text, text


@pytest.mark.parametrize("missing,state,exit_status", [("bpf", "missing", 1), ("perfmon", "missing", 1), ("syslog", "limits", 0),
                                                       ("sys_ptrace", "limits", 0), ("checkpoint_restore", "limits", 0)])
def test_doctor_names_what_is_missing(needs_bpf, public, missing, state, exit_status):
    _, copy = public
    wrapper = as_nobody(*numbers([c for c in SIX if c != missing]))
    done = subprocess.run([*wrapper, str(copy), "doctor", "--json"], capture_output=True, timeout=program.HANG, check=False)
    report = json.loads(done.stdout)
    finding = next(f for f in report["findings"] if f["name"] == f"cap_{missing}")
    assert (finding["state"], finding["found"]) == (state, "not held") and finding["costs"] and finding["fix"]
    assert done.returncode == exit_status and report["can_profile"] == (exit_status == 0)
    others = [f for f in report["findings"] if f["name"].startswith("cap_") and f["name"] != f"cap_{missing}"]
    assert len(others) == 5 and all(f["state"] == "ok" for f in others)


def test_doctor_for_people():
    text = program.run("doctor").stdout.decode()
    assert re.search(r"^(ok|limits|missing) +cap_bpf ", text, re.M) and re.search(r"^Profiling (works|cannot start)", text, re.M)


# ---- filters ----

def test_the_filter_changes_with_sighup(needs_bpf, spin, peer, tmp_path):
    other = tmp_path / "known_other"
    shutil.copy(spin, other)
    config = tmp_path / "agent.conf"
    config.write_text("# which\nprocess-filter ^known_spin$\nno-such-key 5\n")
    with agents.Spinning(spin) as p, agents.Spinning(other) as q, agents.agent(peer, tmp_path, "-config", config) as a:
        agents.wait_events(peer, p.pid, 3)
        assert not agents.events(peer, q.pid)
        config.write_text("process-filter=^known_other$\n")
        lines = len(a.lines)
        a.signal(signal.SIGHUP)
        a.wait_line("were read again", after=lines)
        changed = agents.now_ns()
        agents.wait_events(peer, q.pid, 3)
        assert not [e for e in agents.events(peer, p.pid) if e.time_ns > changed]
        config.write_text("process-filter [\n")
        a.signal(signal.SIGHUP)
        a.wait_line("the old one goes on", after=lines)
        agents.wait_events(peer, q.pid, 1, after_ns=agents.now_ns())


def cpu_seconds(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_a_reload_leaves_nothing_unsampled(needs_bpf, spin, peer, tmp_path):
    """Another filter, another tag: the sampler goes on. What a program did between the signal and 'read again' was sampled as usual."""
    config = tmp_path / "agent.conf"
    config.write_text("samples-per-second 199\nprocess-filter ^known_spin$\n")
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-config", config) as a:
        agents.wait_events(peer, p.pid, 3)
        spent, windows, processes = 0, [], agents.children(a.pid)

        def reload(text):
            config.write_text("samples-per-second " + text)
            lines = len(a.lines)
            begun, cpu = agents.now_ns(), cpu_seconds(p.pid)
            a.signal(signal.SIGHUP)
            a.wait_line("were read again", after=lines)
            windows.append((begun, agents.now_ns()))
            return cpu_seconds(p.pid) - cpu

        for change in ("199\nprocess-filter ^known_\n", "199\nprocess-filter ^known_\ntags again=yes\n", "199\nprocess-filter known_spin\n"):
            spent += reload(change)
            agents.wait_events(peer, p.pid, 3, after_ns=windows[-1][1])
            assert agents.children(a.pid) == processes
        sampled = [e for e in agents.events(peer, p.pid) if any(begun <= e.time_ns < ended for begun, ended in windows)]
        assert len(sampled) >= 0.6 * 199 * spent - len(windows), f"{len(sampled)} samples in {spent:.2f} s of CPU time"
        reload("97\nprocess-filter known_spin\n")  # this takes another sampler
        assert agents.children(a.pid) != processes
        agents.wait_events(peer, p.pid, 3, after_ns=windows[-1][1])


# ---- record ----

def test_record_a_command_into_each_format(needs_bpf, spin, tmp_path):
    late = []
    for ending in ("folded", "txt", "otlp", "pb", "json", "pb.gz", "pprof"):
        out = tmp_path / f"out.{ending}"
        done = program.run("record", "-d", "500ms", "-o", out, "--", "timeout", "0.6", spin, check=0)
        assert re.search(rb"Recorded \d+ samples in \d\.\d s: .*, \d+ bytes", done.stderr), done.stderr
        data = out.read_bytes()
        if ending in ("folded", "txt"):
            lines = [line for line in data.decode().splitlines() if "known_middle" in line]
            assert lines and all(re.fullmatch(r"known_spin;.*main;known_outer;known_middle.* \d+", line) for line in lines)
        elif ending in ("pb.gz", "pprof"):
            profile = pyroscope.CLASSES["Profile"].FromString(gzip.decompress(data))
            assert "known_middle" in list(profile.string_table)
            late.append(profile.duration_nanos / 1e9 - 0.5)
        elif ending == "json":
            assert "known_middle" in json.loads(data)["dictionary"]["stringTable"]
        else:
            assert any("known_middle" in e.names for e in agents.Report(data).events())
            program.run("check", out, check=0)
    assert -0.001 <= min(late) < 0.25, late  # neither loading nor writing is time that was sampled


def test_ctrl_c_keeps_what_was_recorded(needs_bpf, spin, tmp_path):
    out = tmp_path / "out.folded"
    with agents.Spinning(spin) as p:
        r = program.Server("record", "-p", p.pid, "-d", "1h", "-v", "-o", out, ready=False)
        r.wait_line("Attached tracer program")
        time.sleep(0.5)
        r.signal(signal.SIGINT)
        assert r.process.wait(program.HANG) == 0
    assert "known_outer" in out.read_text()


def test_record_ends_with_its_command(needs_bpf, tmp_path):
    out = tmp_path / "out.folded"
    program.run("record", "-o", out, "--", "sh", "-c", "echo from the command; exit 3", check=3)
    assert out.exists()
    program.run("record", "-o", out, "--", "sh", "-c", "kill -9 $$", check=128 + 9)
    program.run("record", "-d", "1h", "-o", out, "--", "sh", "-c", "exit 3", check=0)


@pytest.mark.parametrize("how", ["duration", "signal"])
def test_record_ends_its_command(needs_bpf, tmp_path, how):
    """When its time is over, or when it is told to end: the command's stdout would stay open."""
    words = ("-d", "300ms") if how == "duration" else ("-d", "1h")
    command = [program.path(), "record", *words, "-o", tmp_path / "r.folded", "--", "sh", "-c", "echo begun; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as recording:
        if how == "signal":
            assert recording.stdout.readline() == "begun\n"
            recording.terminate()
        _, said = recording.communicate(timeout=program.HANG)
    assert recording.returncode == 0 and said.startswith("Recorded ") and (tmp_path / "r.folded").exists(), said


def test_record_tells_of_a_command_that_does_not_end(needs_bpf, tmp_path):
    ignoring = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
    command = [program.path(), "record", "-o", tmp_path / "r.folded", "--", sys.executable, "-c", ignoring]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as recording:
        pid = int(recording.stdout.readline())
        recording.terminate()
        recording.wait(program.HANG)
        os.kill(pid, signal.SIGKILL)  # it is there
        said = recording.stderr.read()
    assert recording.returncode == 0 and f"process {pid} goes on" in said, said


def test_record_ends_with_its_processes(needs_bpf, spin, tmp_path):
    with agents.Spinning(spin) as one, agents.Spinning(spin) as other:
        words = ("record", "-p", f"{one.pid},{other.pid}", "-d", "1h", "-o", tmp_path / "r.folded")
        with subprocess.Popen([program.path(), *map(str, words)], stderr=subprocess.PIPE, text=True) as recording:
            program.wait_for((tmp_path / "r.folded").exists, what="the file")
            one.process.kill()
            time.sleep(0.5)
            assert recording.poll() is None  # the other one runs
            other.process.kill()
            _, said = recording.communicate(timeout=program.HANG)
    assert recording.returncode == 0 and said.startswith("Recorded ") and (tmp_path / "r.folded").exists(), said


def test_record_of_a_shell_whose_child_runs_already(needs_bpf, spin, tmp_path):
    with subprocess.Popen(["sh", "-c", '"$0"; true', spin], stdout=subprocess.PIPE) as shell:
        try:
            assert shell.stdout.readline() == b"spinning\n"
            program.run("record", "-p", shell.pid, "-d", "500ms", "-o", tmp_path / "o.folded", check=0)
        finally:
            for child in agents.children(shell.pid):
                os.kill(child, signal.SIGKILL)
            shell.wait(program.HANG)
    assert re.search(r"known_spin;.*known_outer;known_middle", (tmp_path / "o.folded").read_text())


@pytest.mark.parametrize("file_exists", (False, True))
def test_record_of_what_cannot_be_recorded_touches_no_file(needs_bpf, tmp_path, file_exists):
    out, directory = tmp_path / "out.folded", tmp_path / "directory"
    directory.mkdir()
    if file_exists:
        out.write_text("older\n")
    for words, status, text in ((("--", "/no/such/command", "x"), 127, "/no/such/command: No such file"),
                                (("--", directory), 126, f"{directory}: Permission denied"),
                                (("-p", "1,4194305"), 1, "-p: there is no process 4194305")):
        done = program.run("record", "-o", out, *words, check=status)
        assert text in done.stderr.decode()
        assert out.read_text() == "older\n" if file_exists else not out.exists()


@pytest.mark.parametrize("words,text", [(("-o", "x.doc"), "expected a name that ends in"), ((), "-o FILE is missing"),
                                        (("-o", "x.pb", "-p", "1", "--all"), "exclude each other"),
                                        (("-o", "x.pb", "-d", "0s"), "-d is zero"), (("-o", "/no/such/dir/x.pb"), "/no/such/dir/x.pb")])
def test_record_says_what_is_wrong(words, text):
    done = program.run("record", *words)
    assert done.returncode in (1, 2) and text in done.stderr.decode()


def test_metrics_of_the_agent(needs_bpf, spin, peer, tmp_path):
    with agents.Spinning(spin) as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-metrics-address", "127.0.0.1:0") as a:
        agents.wait_events(peer, p.pid, 3)
        m = a.metrics()
        assert program.metric_sum(m, "flametap_agent_samples_total", receiver="profiling") >= 3
        assert program.metric_sum(m, "flametap_agent_reports_total") >= 1
        assert program.metric_sum(m, "flametap_agent_state", what="processes") >= 1
        assert program.metric_sum(m, "flametap_agent_state", what="symbol_bytes") > 0
        assert program.metric_sum(m, "flametap_agent_events", what="side_band_lost") == 0
        assert m["flametap_supervisor_worker_restarts"] == m["flametap_supervisor_sampler_restarts"] == 0
        program.wait_for(lambda: program.metric_sum(a.metrics(), "otelcol_exporter_sent_profile_samples") > 0, what="samples sent")


def test_the_seeds_distribution_configuration(needs_bpf, spin, tmp_path):
    """The collector with the receiver in the spelling of 2025, and the stdout exporter of that distribution."""
    config = tmp_path / "config.yaml"
    config.write_text("receivers:\n  profiling:\n    Tracers: \"perl,php,python,hotspot,ruby,v8,dotnet,go\"\n    SamplesPerSecond: 97\n"
                      "    reporter_interval: 500ms\n"
                      "exporters:\n  customprofilesexporter:\n    ignore_profiles_without_container_id: false\n"
                      "    export_resource_attributes: true\n    export_sample_attributes: true\n    export_stack_frames: true\n"
                      "service:\n  pipelines:\n    profiles:\n      receivers: [profiling]\n      exporters: [customprofilesexporter]\n")
    with agents.Spinning(spin), program.Server("collector", "--config", config, "--feature-gates=service.profilesSupport") as c:
        program.wait_for(lambda: b"Instrumentation: native, Function: known_middle" in c.stdout, what="the known stack", every=0.2)
        c.wait_line("Not offered yet")
