"""Is what the agent says true: how much, when, and in what; and does it bear programs that do odd things to their files."""

import contextlib
import os
import pathlib
import subprocess
import time

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

PHASES = r"""
#include <stdio.h>
#include <time.h>
static volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void burn(void) { for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void phase_even(double until) { while (now() < until) burn(); sink++; }
__attribute__((noinline)) void phase_odd(double until) { while (now() < until) burn(); sink++; }
int main(void)
{
	puts("spinning");
	fflush(stdout);
	for (;;) { /* a fifth of a second each; the clock says which */
		double t = now();
		long fifth = (long)(t * 5);
		(fifth % 2 ? phase_odd : phase_even)((fifth + 1) / 5.0);
	}
}
"""

LIBRARY = r"""
static volatile unsigned long sink;
__attribute__((noinline)) void late_leaf(void) { for (int i = 0; i < 100000; i++) sink += i; }
__attribute__((noinline)) void late_entry(void) { late_leaf(); sink++; }
"""

ODD = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void known_leaf(void) { for (int i = 0; i < 100000; i++) sink += i; }
__attribute__((noinline)) void known_outer(void) { known_leaf(); sink++; }
static void *map_file(const char *path, const char *content, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);
	if (fd < 0 || write(fd, content, len) != (ssize_t)len || ftruncate(fd, 1 << 20) != 0)
		abort();
	void *at = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}
/* mov 262144, loop; ret: machine code that burns, whatever its file says of itself */
static const unsigned char loop[] = { 0xb9, 0x00, 0x00, 0x04, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
int main(int argc, char **argv)
{
	char content[4096] = "";
	void (*entry)(void) = known_outer;
	void *at;
	if (argc < 3) return 2;
	if (!strcmp(argv[1], "dlopen")) {
		void *library = dlopen(argv[2], RTLD_NOW);
		entry = library ? (void (*)(void))dlsym(library, "late_entry") : NULL;
	} else { /* a file with an ELF header and noise, or noise alone, that is run, then made something else */
		for (size_t i = 0; i < sizeof(content); i++) content[i] = (char)(i * 31 + 7);
		if (!strcmp(argv[1], "garbage-elf")) memcpy(content, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\76\0\1\0\0\0", 24);
		memcpy(content + 2048, loop, sizeof(loop));
		at = map_file(argv[2], content, sizeof(content));
		if (!at) abort();
		entry = (void (*)(void))((char *)at + 2048);
		if (!strcmp(argv[1], "fifo")) { unlink(argv[2]); if (mkfifo(argv[2], 0600)) abort(); }
		if (!strcmp(argv[1], "truncated") && truncate(argv[2], 3000)) abort();
		if (!strcmp(argv[1], "deleted")) unlink(argv[2]);
	}
	if (!entry) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	puts("spinning");
	fflush(stdout);
	for (;;) { entry(); known_outer(); }
}
"""


def compile_c(folder, name, source, *words):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / name, folder / f"{name}.c", *words], check=True)
    return folder / name


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    compile_c(folder, "phases", PHASES)
    compile_c(folder, "odd_files", ODD, "-ldl")
    compile_c(folder, "late.so", LIBRARY, "-shared", "-fPIC")
    agents.compile_spin(folder)
    return folder


@pytest.fixture
def peer():
    with receivers.GrpcReceiver() as r:
        yield r


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Spinning(agents.Spinning):
    def __init__(self, *words):
        self.process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"spinning\n"
        self.pid = self.process.pid


# ---- how much, when ----

def test_samples_are_cpu_time(needs_bpf, programs, peer, tmp_path):
    """97 a second of CPU: what the kernel counted as CPU time of the process, and what we counted, agree."""
    with Spinning(programs / "known_spin") as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-samples-per-second", "97"):
        first = agents.wait_events(peer, p.pid, 1)[0].time_ns
        begin_ns, begin = agents.now_ns(), cpu_seconds(p.pid)
        time.sleep(4)
        end_ns, end = agents.now_ns(), cpu_seconds(p.pid)
        agents.wait_events(peer, p.pid, 1, after_ns=end_ns + 10**9)
        counted = [e for e in agents.events(peer, p.pid) if begin_ns <= e.time_ns < end_ns]
    expected = 97 * (end - begin)
    # A clock tick of CPU time at each end; the phase of the sampling clock; and where a process shares its CPU, chance.
    assert first <= begin_ns and abs(len(counted) - expected) <= 4 + 3 * expected**0.5, (len(counted), expected)


def test_times_are_right(needs_bpf, programs, peer, tmp_path):
    """The function that runs is told by the clock: each sample's time must agree with its stack, to 10 ms."""
    with Spinning(programs / "phases") as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-samples-per-second", "97"):
        found = agents.wait_events(peer, p.pid, 150)
    wrong, judged = [], 0
    for e in found:
        names = [n for n in e.names if n.startswith("phase_")]
        into = (e.time_ns % 200_000_000) / 1e6  # ms since the phase's begin
        if not names or into < 10 or into > 190:
            continue
        judged += 1
        if names != ["phase_odd" if e.time_ns // 200_000_000 % 2 else "phase_even"]:
            wrong.append((e.time_ns, names))
    # The program itself may be held up where it changes phases, on a machine that does other work.
    assert judged >= 100 and len(wrong) <= judged // 20, (judged, wrong)


# ---- odd files ----

def test_a_library_that_comes_later(needs_bpf, programs, peer, tmp_path):
    with Spinning(programs / "odd_files", "dlopen", programs / "late.so") as p, agents.agent(peer, tmp_path, "-pid", p.pid):
        program.wait_for(lambda: [e for e in agents.events(peer, p.pid) if {"late_leaf", "late_entry", "main"} <= set(e.names)],
                         what="names in the library", every=0.1)


@pytest.mark.parametrize("how", ["noise", "garbage-elf", "fifo", "truncated", "deleted"])
def test_what_is_mapped_is_no_program(needs_bpf, programs, peer, tmp_path, how):
    """Code runs in a file that is none, or has become something else; the program around it keeps its stacks, the agent its life."""
    odd = tmp_path / "odd.bin"
    with Spinning(programs / "odd_files", how, odd) as p, agents.agent(peer, tmp_path, "-pid", p.pid) as a:
        program.wait_for(lambda: [e for e in agents.events(peer, p.pid) if {"known_leaf", "known_outer", "main"} <= set(e.names)][5:],
                         what="whole stacks beside the odd file", every=0.1)
        inside = program.wait_for(lambda: [e for e in agents.events(peer, p.pid) if "known_leaf" not in e.names
                                           and e.frames and not any(f.kind == "kernel" for f in e.frames)],
                                  what="samples in the odd file", every=0.1)
        assert all(e.names and all(e.names) for e in inside), inside[0].frames  # something is said of each, never silence
        assert a.process.poll() is None


def test_an_executable_that_was_replaced(needs_bpf, programs, peer, tmp_path):
    """As an upgrade does it: another program has the name now, and the one that runs keeps its own names."""
    path = tmp_path / "upgraded"
    path.write_bytes((programs / "known_spin").read_bytes())
    path.chmod(0o755)
    with Spinning(path) as p:
        path.unlink()
        path.write_bytes((programs / "phases").read_bytes())
        path.chmod(0o755)
        with agents.agent(peer, tmp_path, "-pid", p.pid):
            found = agents.wait_events(peer, p.pid, 10)
    assert not any(n.startswith("phase_") for e in found for n in e.names)
    assert any({"known_leaf", "known_outer"} <= set(e.names) for e in found), found[-1].frames


SPIN_32 = r"""
.globl _start
_start:
	mov $4, %eax
	mov $1, %ebx
	mov $text, %ecx
	mov $9, %edx
	int $0x80
spin:	jmp spin
.data
text:	.ascii "spinning\n"
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="SKIPPED ALOUD: 32-bit code of x86 alone")
def test_a_32_bit_process_is_counted_and_not_walked(needs_bpf, peer, tmp_path):
    source, path = tmp_path / "spin.s", tmp_path / "spin32"
    source.write_text(SPIN_32)
    subprocess.run(["as", "--32", "-o", tmp_path / "spin.o", source], check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-o", path, tmp_path / "spin.o"], check=True)
    try:
        spinning = Spinning(path)
    except (OSError, AssertionError) as e:  # a kernel without CONFIG_IA32_EMULATION, or not of this machine
        pytest.skip(f"SKIPPED ALOUD: no 32-bit program runs here: {e}")
    with spinning as p, agents.agent(peer, tmp_path, "-pid", p.pid, "-send-error-frames"):
        found = agents.wait_events(peer, p.pid, 10)
        counted = program.wait_for(lambda: sum(r.host.get("flametap.cut.compat", 0) for r in agents.reports(peer)), what="the reason")
    assert counted >= 5
    assert all([f for f in e.frames if f.kind != "kernel"][0].kind == "abort-marker" for e in found), found[0].frames
    assert all(e.resource["process.executable.name"] == "spin32" for e in found)


# ---- little room ----

def v1_group(controller, **settings):
    folder = pathlib.Path(f"/sys/fs/cgroup/{controller}/flametap-test-{os.getpid()}")
    try:
        folder.mkdir()
        for name, value in settings.items():
            (folder / name.replace("__", ".")).write_text(str(value))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"SKIPPED ALOUD: no cgroup of version 1 for {controller} can be made here: {error}")
    return folder


def test_within_the_limits_of_the_seeds_unit(needs_bpf, programs, peer, tmp_path):
    """MemoryMax=512M, CPUQuota=10%: the agent works there, is never killed, and stays far below the memory."""
    groups = [v1_group("cpu", cpu__cfs_period_us=100000, cpu__cfs_quota_us=10000), v1_group("memory", memory__limit_in_bytes=512 << 20)]
    enter = "; ".join(f"echo $$ > {g}/cgroup.procs" for g in groups)
    try:
        with Spinning(programs / "known_spin") as p:
            with agents.agent(peer, tmp_path, "-pid", p.pid, wrapper=("sh", "-c", f'{enter}; exec "$0" "$@"')) as a:
                found = agents.wait_events(peer, p.pid, 40)
                assert a.process.poll() is None
            peak = int((groups[1] / "memory.max_usage_in_bytes").read_text())
            stat = dict(line.split() for line in (groups[0] / "cpu.stat").read_text().splitlines())
    finally:
        for g in groups:
            def gone(g=g):
                with contextlib.suppress(OSError):
                    g.rmdir()
                return not g.exists()
            program.wait_for(gone, what=f"the end of {g}")
    assert sum({"known_outer", "main"} <= set(e.names) for e in found) >= 0.8 * len(found)
    assert 0 < peak < 256 << 20 and int(stat["nr_periods"]) > 0, (peak, stat)
