/*
 * pid_namespace.h - pid and tid of the current task as the agent's own pid namespace numbers them.
 *
 * A task has a number in its own namespace and in each above it (struct pid, numbers[level]). The
 * helper tells those of its own alone; for a task of a namespace nested below ours (a container in
 * our container) ours is one of the others. At which level we are cannot be asked from inside: it
 * is looked for in the first task of our namespace or below that comes by, and noted.
 */
#pragma once
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "options.h"
#include "portable.h"

static volatile __u32 pidns_level; /* ours; 0: not known yet (it is the root's alone) */

/* At most so many namespaces lie within one another (MAX_PID_NS_LEVEL,
 * include/linux/pid_namespace.h). */
#define PID_NAMESPACE_LEVELS 32

/* The number of a task at one level; 0: it is not of our namespace there. */
static __always_inline u32 number_at(struct pid *pid, u32 level)
{
	struct upid *number = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			      level * bpf_core_type_size(struct upid);

	if (BPF_CORE_READ(number, ns, ns.inum) != (u32)options.pidns_ino)
		return 0;
	return (u32)BPF_CORE_READ(number, nr);
}

/* The number in our namespace of a task below it; 0: it is not below. */
static __noinline u32 number_in_ours(const struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 below = pid ? BPF_CORE_READ(pid, level) : 0, known = pidns_level, level, number;

	if (known)
		return below > known ? number_at(pid, known) : 0;
	for (level = 1; level < PID_NAMESPACE_LEVELS && level < below; level++) {
		number = number_at(pid, level);
		if (number) {
			pidns_level = level;
			return number;
		}
	}
	return 0;
}

/* pid and tid as user space knows them; false: neither in our pid namespace nor below. */
static __always_inline bool task_ids(struct task_struct *task, u32 *pid, u32 *tid)
{
	struct bpf_pidns_info ns;

	if (!options.pidns_ino) {
		*pid = KERNEL_FIELD(task, tgid);
		*tid = KERNEL_FIELD(task, pid);
		return true;
	}
	if (bpf_get_ns_current_pid_tgid(options.pidns_dev, options.pidns_ino, &ns, sizeof(ns)) ==
	    0) {
		if (!pidns_level)
			pidns_level = BPF_CORE_READ(task, thread_pid, level);
		*pid = ns.tgid;
		*tid = ns.pid;
		return true;
	}
	*tid = number_in_ours(task);
	*pid = *tid ? number_in_ours(BPF_CORE_READ(task, group_leader)) : 0;
	return *pid != 0;
}
