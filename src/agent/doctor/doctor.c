#include "agent/doctor/doctor.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/doctor/privileges.h"
#include "agent/sample/variant.h"
#include "agent/seam.h"
#include "base/cleanup.h"

static const char AS_ROOT[] =
	"run as root, or give the program its capabilities: setcap "
	"cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore,cap_syslog"
	"=ep flametap; in a container: privileged, or cap_add these six";

/* `fix` and `costs` are for findings that are not fine. */
__attribute__((format(printf, 6, 7))) static void put(struct doctor_report *r, const char *name,
						      enum finding_state state, const char *costs,
						      const char *fix, const char *format, ...)
{
	struct finding *f = &r->findings[r->count];
	va_list ap;

	if (r->count == DOCTOR_FINDINGS_MOST)
		return;
	r->count++;
	*f = (struct finding){ .name = name,
			       .state = state,
			       .costs = state == FINDING_FINE ? NULL : costs,
			       .fix = state == FINDING_FINE ? NULL : fix };
	va_start(ap, format);
	vsnprintf(f->found, sizeof(f->found), format, ap);
	va_end(ap);
}

/* The first line of a small file, without its end; false when it can't be read. */
static bool read_line(const char *path, char *out, size_t room)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, out, room - 1);

	if (got < 0)
		return false;
	out[got] = 0;
	out[strcspn(out, "\n")] = 0;
	return true;
}

/* ---- privileges ---- */

static void look_at_capabilities(struct doctor_report *r)
{
	uint64_t effective = 0, permitted = 0;

	if (!capabilities_read(&effective, &permitted))
		effective = 0;
	for (int i = 0; i < SAMPLER_CAPABILITIES; i++) {
		const struct sampler_capability *c = &sampler_capabilities[i];
		bool there = capability_is_in(c, effective);
		bool by_admin = there && !(effective >> c->number & 1);

		put(r, c->finding,
		    there         ? FINDING_FINE
		    : c->required ? FINDING_MISSING
				  : FINDING_LIMITS,
		    c->costs, AS_ROOT, "%s%s", there ? "held" : "not held",
		    by_admin ? ", as CAP_SYS_ADMIN" : "");
	}
}

static void look_at_seccomp(struct doctor_report *r)
{
	char line[256];
	const char *mode = "0";
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "Seccomp:", 8) == 0) {
			mode = line + 8 + strspn(line + 8, " \t");
			break;
		}
	if (f)
		fclose(f);
	if (mode[0] == '0')
		put(r, "seccomp", FINDING_FINE, NULL, NULL, "no system call filter");
	else
		put(r, "seccomp", FINDING_FINE, NULL, NULL,
		    "a system call filter is set; bpf and perf_event say below what it lets "
		    "through");
}

/* ---- BPF and perf ---- */

static void look_at_bpf(struct doctor_report *r)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "doctor_try", 4, 4, 1, NULL);

	if (fd >= 0) {
		close(fd);
		put(r, "bpf", FINDING_FINE, NULL, NULL, "maps can be made");
		return;
	}
	put(r, "bpf", FINDING_MISSING, "nothing can be sampled",
	    errno == ENOSYS ? "a kernel with CONFIG_BPF_SYSCALL" : AS_ROOT,
	    "a map cannot be made: %s", strerror(errno));
}

static int try_event(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = { .type = type,
					.size = sizeof(attr),
					.config = config,
					.sample_period = 1000000000,
					.disabled = 1 };

	return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static void look_at_perf_event(struct doctor_report *r)
{
	AUTO(fd_close) int fd = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	int why = errno;

	if (fd >= 0)
		put(r, "perf_event", FINDING_FINE, NULL, NULL, "cpu-clock on CPU 0 opens");
	else
		put(r, "perf_event", FINDING_MISSING, "nothing can be sampled",
		    perf_needs_admin() ? "see perf_event_paranoid" : AS_ROOT,
		    "cpu-clock on CPU 0 does not open: %s", strerror(why));
}

/* This kernel asks for more than PERFMON: Debian's and Ubuntu's own level 3 and above. */
static void look_at_paranoid_admin(struct doctor_report *r, const char *level)
{
	uint64_t effective = 0, permitted;

	if (capabilities_read(&effective, &permitted) &&
	    capability_is_in(&sampler_capabilities[1], effective & ~(UINT64_C(1) << CAP_PERFMON)))
		put(r, "perf_event_paranoid", FINDING_FINE, NULL, NULL,
		    "%s: this kernel asks for CAP_SYS_ADMIN, so the sampler keeps it", level);
	else
		put(r, "perf_event_paranoid", FINDING_MISSING, "nothing can be sampled",
		    "sysctl kernel.perf_event_paranoid=2, or CAP_SYS_ADMIN",
		    "%s: this kernel refuses perf events to CAP_PERFMON alone", level);
}

static void look_at_paranoid(struct doctor_report *r)
{
	uint64_t effective = 0, permitted;
	char text[32];

	if (!read_line("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text))) {
		put(r, "perf_event_paranoid", FINDING_MISSING, "nothing can be sampled",
		    "a kernel with CONFIG_PERF_EVENTS", "not there");
		return;
	}
	if (perf_needs_admin()) {
		look_at_paranoid_admin(r, text);
		return;
	}
	if (capabilities_read(&effective, &permitted) &&
	    capability_is_in(&sampler_capabilities[1], effective))
		put(r, "perf_event_paranoid", FINDING_FINE, NULL, NULL,
		    "%s, which CAP_PERFMON overrides", text);
	else
		put(r, "perf_event_paranoid", FINDING_FINE, NULL, NULL, "%s", text);
}

/* The real thing: everything is loaded and attached, and taken away again. */
static void look_at_sampler(struct doctor_report *r)
{
	struct seam_options options = { .samples_per_second = 20 };
	struct seam *seam = seam_local_new();
	struct seam_maps maps;
	struct err err;
	bool ok = seam->ops->attach(seam, &options, &maps, &err);

	if (ok) {
		const int fds[] = { maps.ring,        maps.processes, maps.mappings,
				    maps.executables, maps.pages,     maps.rules,
				    maps.runtimes,    maps.counters,  maps.cgroups };

		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			close(fds[i]);
		ok = seam->ops->enable(seam, false, &err); /* waits for the programs */
	}
	if (ok)
		put(r, "sampler", FINDING_FINE, NULL, NULL, "loads and attaches");
	else
		put(r, "sampler", FINDING_MISSING, "nothing can be sampled",
		    "what is missing above; Linux 5.10 or newer with BTF", "%s", err.msg);
	seam_free(seam);
}

static void look_at_btf(struct doctor_report *r)
{
	struct stat st;

	if (stat("/sys/kernel/btf/vmlinux", &st) == 0)
		put(r, "btf", FINDING_FINE, NULL, NULL, "/sys/kernel/btf/vmlinux, %lld bytes",
		    (long long)st.st_size);
	else
		put(r, "btf", FINDING_MISSING, "BPF programs cannot find the kernel's structures",
		    "a kernel with CONFIG_DEBUG_INFO_BTF; in a container mount /sys",
		    "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

static void look_at_fentry(struct doctor_report *r)
{
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) == 1)
		put(r, "fentry", FINDING_FINE, NULL, NULL, "there, but not used");
	else
		put(r, "fentry", FINDING_FINE, NULL, NULL, "absent, and not needed");
}

/* ---- event sources ---- */

static bool has_pmu(const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	return access(path, F_OK) == 0;
}

static void look_at_probes(struct doctor_report *r)
{
	put(r, "uprobes", has_pmu("uprobe") ? FINDING_FINE : FINDING_LIMITS,
	    "no probes in programs (on-CPU profiling needs none)",
	    "a kernel with CONFIG_UPROBE_EVENTS", has_pmu("uprobe") ? "there" : "absent");
	put(r, "kprobes", has_pmu("kprobe") ? FINDING_FINE : FINDING_LIMITS,
	    "no probes in the kernel (on-CPU profiling needs none)",
	    "a kernel with CONFIG_KPROBE_EVENTS", has_pmu("kprobe") ? "there" : "absent");
}

static void look_at_tracefs(struct doctor_report *r)
{
	if (access("/sys/kernel/tracing/events/sched", F_OK) == 0 ||
	    access("/sys/kernel/debug/tracing/events/sched", F_OK) == 0)
		put(r, "tracefs", FINDING_FINE, NULL, NULL, "mounted, but not needed");
	else
		put(r, "tracefs", FINDING_FINE, NULL, NULL, "not mounted, and not needed");
}

static void look_at_hardware(struct doctor_report *r)
{
	AUTO(fd_close) int fd = try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);

	if (fd >= 0)
		put(r, "hardware_counters", FINDING_FINE, NULL, NULL, "there, but not used");
	else
		put(r, "hardware_counters", FINDING_FINE, NULL, NULL,
		    "absent (%s), and not needed: samples come by the clock", strerror(errno));
}

/* ---- names ---- */

/* Per-CPU variables come first, and are at 0 for everybody; hidden addresses are 0 to the end. */
static bool has_kernel_address(FILE *symbols)
{
	char line[256];

	while (fgets(line, sizeof(line), symbols))
		if (strchr("89abcdef", line[0]) && strspn(line, "0123456789abcdef") == 16)
			return true;
	return false;
}

static void look_at_kallsyms(struct doctor_report *r)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	bool readable = symbols != NULL, named = readable && has_kernel_address(symbols);

	if (symbols)
		fclose(symbols);
	if (named)
		put(r, "kallsyms", FINDING_FINE, NULL, NULL, "with addresses");
	else
		put(r, "kallsyms", FINDING_LIMITS, "kernel frames have no names",
		    "CAP_SYSLOG, and kernel.kptr_restrict below 2", "%s",
		    readable ? "without addresses" : "cannot be read");
}

static void look_at_lockdown(struct doctor_report *r)
{
	char line[128], *open_at, *close_at;

	if (!read_line("/sys/kernel/security/lockdown", line, sizeof(line))) {
		put(r, "lockdown", FINDING_FINE, NULL, NULL, "none is reported");
		return;
	}
	open_at = strchr(line, '[');
	close_at = open_at ? strchr(open_at, ']') : NULL;
	if (close_at)
		*close_at = 0;
	if (close_at && strcmp(open_at + 1, "confidentiality") == 0)
		put(r, "lockdown", FINDING_MISSING, "BPF may not read memory: nothing is sampled",
		    "boot with lockdown=integrity or none", "confidentiality");
	else
		put(r, "lockdown", FINDING_FINE, NULL, NULL, "%s", close_at ? open_at + 1 : line);
}

/* The place of the first file that we have mapped ourselves; needs the same as those of others. */
static bool own_map_file(char *path, size_t room)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long start, end;
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strchr(line, '/') && sscanf(line, "%llx-%llx", &start, &end) == 2;
	if (f)
		fclose(f);
	if (found)
		snprintf(path, room, "/proc/self/map_files/%llx-%llx", start, end);
	return found;
}

static void look_at_map_files(struct doctor_report *r)
{
	char path[96];
	int fd = own_map_file(path, sizeof(path)) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		close(fd);
		put(r, "map_files", FINDING_FINE, NULL, NULL, "deleted files can be opened");
	} else {
		put(r, "map_files", FINDING_LIMITS,
		    "programs and libraries that were replaced or deleted since they started have "
		    "no names and no unwind tables",
		    "CAP_CHECKPOINT_RESTORE in the machine's user namespace",
		    "/proc/PID/map_files cannot be opened: %s", strerror(errno));
	}
}

/* ---- where we are ---- */

static const uint64_t INITIAL_PID_NAMESPACE = 0xEFFFFFFC; /* include/linux/proc_ns.h: its inode */

static void look_at_pid_namespace(struct doctor_report *r)
{
	char self[24] = "";
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) != 0)
		put(r, "pid_namespace", FINDING_MISSING, "processes cannot be looked up",
		    "mount /proc", "/proc is not there: %s", strerror(errno));
	else if (readlink("/proc/self", self, sizeof(self) - 1) <= 0 || atoi(self) != getpid())
		put(r, "pid_namespace", FINDING_MISSING,
		    "what is sampled cannot be looked up: its pids are others' there",
		    "mount -t proc proc /proc, of this namespace (unshare --mount-proc)",
		    "/proc is another pid namespace's: this process is %s there, and %d here",
		    self[0] ? self : "unknown", (int)getpid());
	else if (st.st_ino == INITIAL_PID_NAMESPACE)
		put(r, "pid_namespace", FINDING_FINE, NULL, NULL, "the machine's");
	else
		put(r, "pid_namespace", FINDING_LIMITS,
		    "only processes of this pid namespace, the container's, and of those below it "
		    "are sampled",
		    "docker run --pid=host; hostPID: true in Kubernetes", "one of its own");
}

static void look_at_proc(struct doctor_report *r)
{
	if (access("/proc/1/maps", R_OK) == 0)
		put(r, "proc", FINDING_FINE, NULL, NULL, "other processes can be read");
	else
		put(r, "proc", FINDING_LIMITS,
		    "other users' processes cannot be looked at: no stacks and names",
		    "CAP_SYS_PTRACE; mount /proc without hidepid", "/proc/1/maps: %s",
		    strerror(errno));
}

static void look_at_memlock(struct doctor_report *r)
{
	uint64_t effective = 0, permitted;
	struct rlimit limit = { 0 };

	if (!maps_are_locked_memory())
		put(r, "memlock", FINDING_FINE, NULL, NULL,
		    "BPF memory is charged to the cgroup, no limit to raise");
	else if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
		put(r, "memlock", FINDING_FINE, NULL, NULL,
		    "unlimited; before Linux 5.11 it limits BPF maps");
	else if (capabilities_read(&effective, &permitted) &&
		 effective & (uint64_t)1 << CAP_SYS_RESOURCE)
		put(r, "memlock", FINDING_FINE, NULL, NULL,
		    "raised with CAP_SYS_RESOURCE; before Linux 5.11 it limits BPF maps");
	else
		put(r, "memlock", FINDING_LIMITS, "BPF maps may not fit into RLIMIT_MEMLOCK",
		    "ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd unit",
		    "%llu bytes; before Linux 5.11 it limits BPF maps",
		    (unsigned long long)limit.rlim_cur);
}

static void look_at_kernel(struct doctor_report *r)
{
	struct utsname u = { 0 };

	uname(&u);
	put(r, "kernel", FINDING_FINE, NULL, NULL, "Linux %s %s", u.release, u.machine);
}

static int keep_quiet(enum libbpf_print_level level, const char *format, va_list ap)
{
	(void)level, (void)format, (void)ap;
	return 0;
}

void doctor_look(struct doctor_report *r)
{
	libbpf_print_fn_t before = libbpf_set_print(keep_quiet);

	r->count = 0;
	look_at_kernel(r);
	look_at_capabilities(r);
	look_at_seccomp(r);
	look_at_lockdown(r);
	look_at_bpf(r);
	look_at_btf(r);
	look_at_perf_event(r);
	look_at_paranoid(r);
	look_at_sampler(r);
	look_at_memlock(r);
	look_at_kallsyms(r);
	look_at_map_files(r);
	look_at_proc(r);
	look_at_pid_namespace(r);
	look_at_tracefs(r);
	look_at_probes(r);
	look_at_fentry(r);
	look_at_hardware(r);
	libbpf_set_print(before);
}
