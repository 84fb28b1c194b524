/*
 * in_cgroups.h - is the current task in one of the control groups of the map `cgroups`, or below?
 *
 * Version 1, 2 and both at once: a task has one group in each hierarchy (css_set.cgrp_links), and
 * each is looked at with all above it. The task's groups may change meanwhile: what is read is then
 * of before or after, and reads of memory that is gone fail or mislead for this one sample.
 */
#pragma once
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "portable.h"
#include "records.h"

enum { CGROUP_STEPS_MAX = 512 }; /* hierarchies times depth */

/* Group -> 1. Written by the worker; src/agent/process/cgroups.h says how many. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, GROWING_HASH);
	__type(key, struct unwind_cgroup);
	__type(value, u32);
	__uint(max_entries, 2048);
} cgroups SEC(".maps");

struct cgroup_walk {
	const struct list_head *link, *end; /* the next hierarchy's; where they end */
	struct cgroup_subsys_state *group;  /* NULL: the next hierarchy */
	u32 hierarchy;
	u32 found;
};

/* BPF_CORE_READ takes locals only: it would look for our own struct in the kernel. */
static int cgroup_step(u32 index, struct cgroup_walk *w)
{
	struct cgroup_subsys_state *self = w->group;
	const struct list_head *link = w->link;
	struct unwind_cgroup key = { 0 };
	struct cgroup *group;

	(void)index;
	if (self) {
		group = BPF_CORE_READ(self, cgroup);
	} else {
		struct cgrp_cset_link *l;

		if (!link || link == w->end)
			return 1;
		l = (void *)link - bpf_core_field_offset(struct cgrp_cset_link, cgrp_link);
		group = BPF_CORE_READ(l, cgrp);
		w->hierarchy = BPF_CORE_READ(group, root, hierarchy_id);
		self = (void *)group + bpf_core_field_offset(struct cgroup, self);
		w->link = BPF_CORE_READ(link, next);
	}
	key.id = BPF_CORE_READ(group, kn, id);
	key.hierarchy = w->hierarchy;
	if (bpf_map_lookup_elem(&cgroups, &key)) {
		w->found = 1;
		return 1;
	}
	w->group = BPF_CORE_READ(self, parent);
	return 0;
}

static __noinline int in_cgroups(void)
{
	struct task_struct *task = current_task();
	const struct list_head *links;
	struct css_set *set;
	struct cgroup_walk w = { 0 };

	if (!bpf_core_field_exists(task->cgroups))
		return 0;
	/* Read, not followed: older verifiers know no sums of pointers to kernel structs. */
	set = BPF_CORE_READ(task, cgroups);
	links = (void *)set + bpf_core_field_offset(struct css_set, cgrp_links);
	w.end = links;
	w.link = BPF_CORE_READ(links, next);
#ifdef BOUNDED_LOOPS
	for (u32 i = 0; i < CGROUP_STEPS_MAX; i++) {
		if (cgroup_step(i, &w))
			break;
	}
#else
	bpf_loop(CGROUP_STEPS_MAX, cgroup_step, &w, 0);
#endif
	return w.found;
}
