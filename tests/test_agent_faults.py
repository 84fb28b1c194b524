"""What the agent has to bear: a kernel or privileges that lack something, a reader that stands still, files and /proc that change under it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

HERE = pathlib.Path(__file__).parent

# Kernel frames and user frames, both wanted: most of the time is the kernel's, the rest that of known functions.
IN_KERNEL = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static volatile unsigned long count;
__attribute__((noinline)) void known_reader(int fd, char *to) { count += read(fd, to, 1 << 16); }
__attribute__((noinline)) void known_middle(int fd, char *to)
{
	known_reader(fd, to);
	for (int i = 0; i < 20000; i++) count += i;
}
int main(void)
{
	static char to[1 << 16];
	int fd = open("/dev/zero", O_RDONLY);
	puts("spinning");
	fflush(stdout);
	for (;;) known_middle(fd, to);
}
"""

# A thread maps and unmaps files of code, another lets processes come and go that exec() at once; main has a known stack.
RESTLESS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long count;
static char *self, *other;
static void *maps(void *none)
{
	void *at[8] = { 0 };
	for (unsigned i = 0;; i++) { /* executable mappings come, move, lose their file and go */
		void **p = &at[i % 8];
		int fd;
		if (*p) munmap(*p, 1 << 14);
		unlink(other);
		fd = open(other, O_RDWR | O_CREAT, 0700);
		if (fd < 0 || ftruncate(fd, 1 << 14)) abort();
		*p = mmap(NULL, 1 << 14, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
		if (i % 64 == 0) usleep(500);
	}
	return none;
}
static void *births(void *none)
{
	for (;;) {
		pid_t pid = vfork();
		if (!pid) { execl(self, self, "end", NULL); _exit(1); }
		if (pid > 0) waitpid(pid, NULL, 0);
	}
	return none;
}
__attribute__((noinline)) void known_leaf(void) { for (int i = 0; i < 100000; i++) count += i; }
__attribute__((noinline)) void known_outer(void) { known_leaf(); count++; }
int main(int argc, char **argv)
{
	pthread_t t;
	if (argc < 2) return 2;
	if (!strcmp(argv[1], "end")) { for (int i = 0; i < 300000; i++) count += i; return 0; }
	self = argv[0];
	other = argv[1];
	pthread_create(&t, NULL, maps, NULL);
	pthread_create(&t, NULL, births, NULL);
	puts("spinning");
	fflush(stdout);
	for (;;) known_outer();
}
"""


def compile_c(folder, name, source, *words):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / name, folder / f"{name}.c", *words], check=True)
    return folder / name


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    compile_c(folder, "in_kernel", IN_KERNEL)
    compile_c(folder, "restless", RESTLESS, "-pthread")
    agents.compile_spin(folder)
    return folder


@pytest.fixture
def peer():
    with receivers.GrpcReceiver() as r:
        yield r


class Running(agents.Spinning):
    """A program with arguments, once it says that it spins."""

    def __init__(self, *words, **options):
        self.process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, **options)
        assert self.process.stdout.readline() == b"spinning\n"
        self.pid = self.process.pid


# ---- a kernel that lacks something ----

def hiding(*folders):
    """A wrapper: the program sees nothing in these folders."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("SKIPPED ALOUD: needs root and unshare(1)")
    mounts = " && ".join(f"mount -t tmpfs none {f}" for f in folders if os.path.isdir(f)) or "true"
    return ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$0" "$@"']


def doctor(wrapper, copy=None):
    done = subprocess.run([*wrapper, str(copy or program.existing_path()), "doctor", "--json"], capture_output=True, timeout=program.HANG,
                          check=False)
    report = json.loads(done.stdout)
    return {f["name"]: f for f in report["findings"]}, done.returncode


def test_without_btf(needs_bpf, tmp_path):
    """Programs cannot be fitted to such a kernel: it is said, by the doctor and by who wants to sample."""
    wrapper = hiding("/sys/kernel/btf")
    found, code = doctor(wrapper)
    assert code == 1 and found["btf"]["state"] == "missing" and "CONFIG_DEBUG_INFO_BTF" in found["btf"]["fix"]
    done = subprocess.run([*wrapper, str(program.existing_path()), "agent", "-collection-agent", "127.0.0.1:1", "-disable-tls",
                           "-spool-dir", tmp_path / "spool"], capture_output=True, env=program.environment(), timeout=program.HANG, check=False)
    text = done.stderr.decode()
    assert done.returncode == 1 and "btf: /sys/kernel/btf/vmlinux" in text and "'flametap doctor' says what to do" in text, text


def pid_namespace(*flags):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("SKIPPED ALOUD: needs root and unshare(1)")
    return ["unshare", "--pid", "--fork", *flags]


def test_proc_of_another_pid_namespace(needs_bpf, tmp_path):
    """What would be looked up there under a sampled pid is another process: refused, with the fix."""
    found, code = doctor(pid_namespace())
    assert code == 1 and found["pid_namespace"]["state"] == "missing" and "--mount-proc" in found["pid_namespace"]["fix"]
    done = subprocess.run([*pid_namespace(), str(program.existing_path()), "record", "--all", "-d", "1s", "-o", tmp_path / "x.folded"],
                          capture_output=True, env=program.environment(), timeout=program.HANG, check=False)
    assert done.returncode == 1 and b"/proc is another pid namespace's" in done.stderr and not (tmp_path / "x.folded").exists(), done.stderr


def test_in_a_container_with_containers_below(needs_bpf, programs, tmp_path):
    """The agent in a pid namespace of its own sees those nested in it, by the pids that its /proc has."""
    nested, out = tmp_path / "nested_spin", tmp_path / "all.otlp"
    nested.write_bytes((programs / "known_spin").read_bytes())
    nested.chmod(0o755)
    script = tmp_path / "container.sh"
    script.write_text(f"""
unshare --mount --pid --fork --mount-proc --kill-child {nested} > {tmp_path}/said & pid=$!
until grep -q spinning {tmp_path}/said; do sleep 0.05; done
for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != nested_spin ] || echo ${{p#/proc/}}; done > {tmp_path}/pid
{program.existing_path()} record --all -d 3s -o {out}; code=$?
kill $pid
exit $code
""")
    subprocess.run([*pid_namespace("--mount", "--mount-proc", "--kill-child"), "sh", script], env=program.environment(),
                   timeout=2 * program.HANG, check=True)
    pid = int((tmp_path / "pid").read_text())
    found = [e for e in agents.Report(out.read_bytes()).events() if e.resource.get("process.pid") == pid]
    assert len(found) >= 20 and all(e.resource["process.executable.name"] == nested.name for e in found), (pid, len(found))
    named = [e for e in found if {"known_leaf", "known_outer", "main"} <= set(e.names)]
    assert len(named) >= 0.8 * len(found), found[0].frames


def test_without_tracefs_memory_locks_and_resource_capability(needs_bpf, programs, peer, tmp_path):
    """Nothing mounted where events are described, no CAP_SYS_RESOURCE (24) in any set, and no byte of memory may be locked."""
    wrapper = [*hiding("/sys/kernel/tracing", "/sys/kernel/debug"), "prlimit", "--memlock=0:0",
               "setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"]
    found, code = doctor(wrapper)
    assert code == 0 and found["tracefs"] | {"found": 0} == {"name": "tracefs", "state": "ok", "found": 0, "costs": None, "fix": None}
    assert "not mounted" in found["tracefs"]["found"]
    with Running(programs / "known_spin") as p, agents.agent(peer, tmp_path, "-pid", p.pid, wrapper=wrapper) as a:
        sampler = agents.parts(a)["flametap-sample"]
        assert not int(agents.status(sampler)["CapBnd"], 16) & 1 << 24 and not int(agents.status(a.pid)["CapPrm"], 16) & 1 << 24
        assert "Max locked memory         0                    0" in pathlib.Path(f"/proc/{sampler}/limits").read_text()
        program.wait_for(lambda: any({"known_leaf", "known_outer", "main"} <= set(e.names) for e in agents.events(peer, p.pid)),
                         what="a whole stack", every=0.1)


# ---- privileges: what each of the six is for ----

SIX = {"dac_read_search": 2, "sys_ptrace": 19, "syslog": 34, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}


def as_nobody(*missing):
    caps = ",".join(f"+cap_{n}" for name, n in SIX.items() if name not in missing)
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}"]


@pytest.fixture
def public(tmp_path_factory):
    """A folder that nobody may use, with the program: build folders and pytest's may be closed."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("SKIPPED ALOUD: needs root and setpriv(1)")
    folder = pathlib.Path("/tmp") / f"flametap-faults-{os.getpid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o777)
    shutil.copy(program.existing_path(), folder / "flametap")
    (folder / "flametap").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


PYTHON = """
def known_python():
    return sum(range(20000))

print("spinning", flush=True)
while True:
    known_python()
"""


class Witnesses:
    """Programs of root's, each of which needs one more privilege to be seen whole."""

    def __init__(self, programs, folder):
        def copy(program_name, name, mode):
            shutil.copy(programs / program_name, folder / name)
            (folder / name).chmod(mode)
            return folder / name
        plain, closed, gone = copy("in_kernel", "plain", 0o755), copy("known_spin", "closed", 0o700), copy("known_spin", "gone", 0o755)
        self.running = {"plain": Running(plain), "closed": Running(closed), "gone": Running(gone),
                        "python": Running("/usr/bin/python3", "-c", PYTHON)}  # others may lie where only root may look
        gone.unlink()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.running.values():
            p.__exit__()

    @property
    def pids(self):
        return [p.pid for p in self.running.values()]

    def told(self, peer):
        """What of them has been told so far, by the privilege that it takes."""
        events = {name: agents.events(peer, p.pid) for name, p in self.running.items()}
        kernel = [f for e in events["plain"] for f in e.frames if f.kind == "kernel"]
        told = {
            "syslog": any(n and "+0x" not in n and not n.startswith("[") for f in kernel for n in f.names),
            "dac_read_search": any("known_leaf" in e.names for e in events["closed"]),
            "checkpoint_restore": any("known_leaf" in e.names for e in events["gone"]),
            "sys_ptrace": any("known_python" in e.names for e in events["python"]),
            "nothing more": any({"known_middle", "main"} <= set(e.names) for e in events["plain"]),
        }
        return {name for name, there in told.items() if there}, min(map(len, events.values())) if kernel else 0


def costs(missing, found):
    """What the doctor says that this privilege's lack costs, as Witnesses have it."""
    no_map_files = {"checkpoint_restore"} if missing in ("sys_ptrace", "dac_read_search") else set()
    older_kernel = {"dac_read_search", "nothing more"} if found["proc"]["state"] != "ok" else set()  # no mappings of others
    return {missing} - {None} | no_map_files | older_kernel


@pytest.mark.parametrize("missing", [None, "syslog", "dac_read_search", "checkpoint_restore", "sys_ptrace"])
def test_each_privilege_that_is_missing_costs_what_the_doctor_says(needs_bpf, programs, peer, public, missing):
    wrapper = as_nobody(missing)
    found, code = doctor(wrapper, public / "flametap")
    assert code == 0 and [name for name in SIX if found[f"cap_{name}"]["state"] != "ok"] == ([missing] if missing else [])
    lost = costs(missing, found)
    with Witnesses(programs, public) as w:
        with agents.agent(peer, public, "-pid", ",".join(map(str, w.pids)), "-samples-per-second", "97", name=public / "flametap",
                          wrapper=wrapper) as a:
            if missing:
                a.wait_line(f"capability is missing.*CAP_{missing.upper()}")
            everything = {*SIX, "nothing more"} - {"bpf", "perfmon"}
            program.wait_for(lambda: w.told(peer)[0] >= everything - lost and w.told(peer)[1] >= 20, what="what can be told", every=0.1)
            assert w.told(peer)[0] == everything - lost
            assert a.process.poll() is None


@pytest.mark.parametrize("missing", ["bpf", "perfmon"])
def test_without_what_it_cannot_do_without(needs_bpf, public, missing):
    done = subprocess.run([*as_nobody(missing), str(public / "flametap"), "agent", "-collection-agent", "127.0.0.1:1", "-disable-tls",
                           "-spool-dir", public / "spool"], capture_output=True, env=program.environment(), timeout=program.HANG, check=False)
    text = done.stderr.decode()
    assert done.returncode == 1 and f"cap_{missing}: not held" in text and "'flametap doctor' says what to do" in text, text


# ---- a reader that stands still ----

def test_a_full_ring_is_counted(needs_bpf, programs, peer, tmp_path):
    """The worker is stopped while deep stacks come, more than the ring holds: they are dropped, counted, told, and then it goes on."""
    built = ["gcc", "-O1", "-o", tmp_path / "deep_stack", HERE / "support" / "known_stack.c"]
    subprocess.run(built, check=True)
    deep = subprocess.Popen([tmp_path / "deep_stack", "deep", "899"])
    ticks = os.sysconf("SC_CLK_TCK")

    def cpu():
        fields = pathlib.Path(f"/proc/{deep.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks
    try:
        with agents.agent(peer, tmp_path, "-pid", deep.pid, "-samples-per-second", "1000", "-metrics-address", "127.0.0.1:0") as a:
            agents.wait_events(peer, deep.pid, 20)
            assert not any(k == "flametap.dropped.ring_full" for r in agents.reports(peer) for k in r.host)
            worker = agents.parts(a)["flametap-worker"]
            os.kill(worker, signal.SIGSTOP)
            try:
                stood = cpu()  # 14 KiB a sample, 1,000 samples a second of its time: some 28 MiB
                program.wait_for(lambda: cpu() - stood > 2, what="CPU time of the deep program")
            finally:
                os.kill(worker, signal.SIGCONT)
            again = agents.now_ns()
            agents.wait_events(peer, deep.pid, 50, after_ns=again)
            dropped = program.wait_for(lambda: sum(r.host.get("flametap.dropped.ring_full", 0) for r in agents.reports(peer)),
                                       what="what was dropped, in a report")
            assert program.metric_sum(a.metrics(), "flametap_agent_dropped_samples_total", reason="ring_full") >= dropped
            assert a.process.poll() is None and not a.find_line("starting it again")
    finally:
        deep.kill()
        deep.wait(program.HANG)
    assert dropped > 200
    deepest = max(sum(n == "dive" for n in e.names) for e in agents.events(peer, deep.pid) if e.time_ns > again)
    assert deepest == 900  # whole, as before


# ---- files and /proc that change under it ----

def test_processes_and_mappings_that_change_while_they_are_read(needs_bpf, programs, peer, tmp_path):
    with Running(programs / "restless", tmp_path / "code") as p, \
            agents.agent(peer, tmp_path, "-process-filter", "^restless$", "-samples-per-second", "197") as a:
        # where its mappings are is read beside the first samples: how many those are is the machine's
        first = program.wait_for(lambda: [e.time_ns for e in agents.events(peer, p.pid) if {"known_leaf", "known_outer"} <= set(e.names)],
                                 what="a whole stack", every=0.1)
        known = [e for e in agents.wait_events(peer, p.pid, 200, after_ns=min(first)) if "known_leaf" in e.names]
        whole = [e for e in known if "known_outer" in e.names]
        assert a.process.poll() is None and not a.find_line("starting it again")
        others = {e.resource["process.pid"] for e in agents.events(peer)} - {p.pid}
    assert len(known) >= 20 and len(whole) >= 0.95 * len(known), (len(whole), len(known))
    assert others  # the short ones


REWRITER = r"""
import os, sys, time
path, elf = sys.argv[1], open(sys.argv[2], "rb").read()
noise = bytes(i * 31 % 251 for i in range(len(elf)))
fd = os.open(path, os.O_RDWR)
print("spinning", flush=True)
while True:
    os.pwrite(fd, noise[:2048], 0)             # no program any more
    os.ftruncate(fd, 5000)                     # what was mapped behind is SIGBUS
    time.sleep(0.01)
    os.pwrite(fd, elf, 0)                      # a program again
    os.pwrite(fd, noise[:len(elf) // 2], len(elf) // 2)
    time.sleep(0.01)
    os.pwrite(fd, elf, 0)
    time.sleep(0.01)
"""


def test_a_library_that_is_rewritten_while_it_is_read(needs_bpf, programs, peer, tmp_path):
    """In place, again and again: sections vanish, change and come back under the reader of names and rows."""
    library = tmp_path / "rewritten.so"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], check=True,
                   input=b"int answer(void) { return 42; }\n" + b"".join(b"int f%d(int n) { return n + %d; }\n" % (i, i) for i in range(400)))
    original = tmp_path / "original"
    shutil.copy(library, original)
    holders = []
    # Each holder maps it anew and keeps a known stack of its own beside it; it never runs what it mapped.
    compile_c(tmp_path, "holder", r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long count;
__attribute__((noinline)) void known_leaf(void) { for (int i = 0; i < 100000; i++) count += i; }
__attribute__((noinline)) void known_outer(void) { known_leaf(); count++; }
int main(int argc, char **argv)
{
	puts("spinning");
	fflush(stdout);
	for (unsigned n = 0;; n++) {
		int fd = open(argv[argc - 1], O_RDONLY);
		void *at = mmap(NULL, 1 << 14, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
		for (int i = 0; i < 20; i++) known_outer();
		munmap(at, 1 << 14);
	}
}
""")
    try:
        with Running("python3", "-c", REWRITER, library, original) as writer:
            with agents.agent(peer, tmp_path, "-process-filter", "^holder$", "-samples-per-second", "97") as a:
                holders = [Running(tmp_path / "holder", library) for _ in range(2)]
                for h in holders:
                    agents.wait_events(peer, h.pid, 50)
                assert a.process.poll() is None and not a.find_line("starting it again"), a.log
            assert writer.process.poll() is None
    finally:
        for h in holders:
            h.__exit__()
    found = [e for h in holders for e in agents.events(peer, h.pid) if "known_leaf" in e.names]
    assert len(found) >= 50 and sum({"known_outer", "main"} <= set(e.names) for e in found) >= 0.95 * len(found)
