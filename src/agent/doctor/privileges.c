#include "agent/doctor/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Older headers of the system lack the newest ones. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

const struct sampler_capability sampler_capabilities[SAMPLER_CAPABILITIES] = {
	{ "cap_bpf", "CAP_BPF", CAP_BPF, true, true, "no BPF program can be loaded" },
	{ "cap_perfmon", "CAP_PERFMON", CAP_PERFMON, true, true,
	  "other processes cannot be sampled" },
	{ "cap_sys_ptrace", "CAP_SYS_PTRACE", CAP_SYS_PTRACE, false, false,
	  "of other users' processes memory cannot be read: frames of language runtimes are not "
	  "shown, nor those of files that were replaced or deleted; older kernels do not show "
	  "mappings either: stacks end at the first frame" },
	{ "cap_dac_read_search", "CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH, false, false,
	  "programs and libraries that only their owner may read, or that were replaced or deleted "
	  "since they started, have no names and no unwind tables" },
	{ "cap_checkpoint_restore", "CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE, true, false,
	  "programs and libraries that were replaced or deleted since they started have no names "
	  "and no unwind tables" },
	{ "cap_syslog", "CAP_SYSLOG", CAP_SYSLOG, true, false, "kernel frames have no names" },
};

bool capabilities_read(uint64_t *effective, uint64_t *permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		return false;
	*effective = (uint64_t)data[1].effective << 32 | data[0].effective;
	*permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
	return true;
}

static bool has(uint64_t set, unsigned number)
{
	return set >> number & 1;
}

bool capability_is_in(const struct sampler_capability *c, uint64_t set)
{
	return has(set, c->number) || (c->admin_will_do && has(set, CAP_SYS_ADMIN));
}

static bool set_capabilities(uint64_t effective, uint64_t permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)effective, .permitted = (uint32_t)permitted },
		{ .effective = (uint32_t)(effective >> 32),
		  .permitted = (uint32_t)(permitted >> 32) },
	};

	return syscall(SYS_capset, &header, data) == 0;
}

static bool paranoid_above_two(void)
{
	char text[16] = "";
	int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return got > 0 && atoi(text) > 2;
}

/* Is a perf event refused to who may not? */
static bool clock_is_refused(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 1000000000,
					.disabled = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return errno == EACCES || errno == EPERM;
	close(fd);
	return false;
}

bool perf_needs_admin(void)
{
	uint64_t effective, permitted;
	bool refused;

	if (!paranoid_above_two() || !capabilities_read(&effective, &permitted) ||
	    !has(permitted, CAP_PERFMON))
		return false;
	if (!set_capabilities(UINT64_C(1) << CAP_PERFMON, permitted))
		return false;
	refused = clock_is_refused();
	set_capabilities(effective, permitted);
	return refused;
}

uint64_t capabilities_of_sampler(uint64_t permitted, bool perf_admin)
{
	uint64_t keep = perf_admin ? permitted & UINT64_C(1) << CAP_SYS_ADMIN : 0;

	for (int i = 0; i < SAMPLER_CAPABILITIES; i++) {
		const struct sampler_capability *c = &sampler_capabilities[i];

		if (has(permitted, c->number))
			keep |= UINT64_C(1) << c->number;
		else if (c->admin_will_do && has(permitted, CAP_SYS_ADMIN))
			keep |= UINT64_C(1) << CAP_SYS_ADMIN;
	}
	return keep;
}
