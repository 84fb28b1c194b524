/*
 * cgroups.h - the control groups that are sampled, as the kernel knows them: their paths are looked
 * up in the cgroup file systems that are mounted here, and BPF is told their numbers. It decides
 * then in its first instructions, for each sample by the groups that the task is in at that moment.
 *
 * A group may be made later, or made anew under its name: cgroups_publish() looks each second.
 * Where no mounted file system can show one of the paths (cgroup namespaces), BPF cannot be told,
 * and /proc/PID/cgroup is read when a process is first seen (filter.h).
 *
 * Memory: its own copies. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"
#include "bpf/records.h"

enum { CGROUP_MOUNTS_MOST = 32, CGROUPS_MOST = 1024 };

/* A hierarchy of control groups, mounted. */
struct cgroup_mount {
	uint32_t hierarchy; /* number in /proc/PID/cgroup; version 2: 0 */
	char *root;         /* the group that is mounted; "/" is the outermost that we may see */
	char *point;        /* where */
};
struct cgroup_mounts {
	struct cgroup_mount list[CGROUP_MOUNTS_MOST];
	uint32_t count;
};

/* mountinfo: text of /proc/self/mountinfo (proc(5)); own: of /proc/self/cgroup, which numbers the
 * hierarchies of version 1. What makes no sense is passed over. */
void cgroup_mounts_parse(struct cgroup_mounts *m, struct str mountinfo, struct str own);
void cgroup_mounts_release(struct cgroup_mounts *m);
/* The group that a text means, as a path below its hierarchy: "/sys/fs/cgroup/x", where a hierarchy
 * is mounted there, and "x" are "/x". *in: the mount whose folder was named; NULL: only a group
 * was, of any hierarchy. False: longer than `room`. */
bool cgroup_path(const struct cgroup_mounts *m, const char *text, char *out, size_t room,
		 const struct cgroup_mount **in);
/* Where the group `path` is or would be in a mount; false: the mount does not show it. */
bool cgroup_folder(const struct cgroup_mount *m, const char *path, char *out, size_t room);

struct cgroups;
/* names: as cgroup_path() takes them; links that lead into a mounted hierarchy are followed.
 * ERR_UNSUPPORTED: a kernel without control groups. */
struct cgroups *cgroups_new(const char *const *names, uint32_t count, struct err *err) MUST_CHECK;
void cgroups_free(struct cgroups *c); /* NULL is fine */
/* Can BPF be told all of them? */
bool cgroups_in_kernel(const struct cgroups *c);
/* The paths below their hierarchies, in the order of the names; the count is that of the names. */
const char *const *cgroups_paths(const struct cgroups *c);
/* By the last cgroups_publish(): how many are there, and is the one of this name? */
uint32_t cgroups_found(const struct cgroups *c);
bool cgroups_has(const struct cgroups *c, uint32_t i);
/* Brings the map (bpf/sample.bpf.c, cgroups) up to date, then the counters' by_cgroup; `was` is
 * what was published before, or NULL. At most once a second unless `was` is given. `c` NULL or
 * not in the kernel: every group is sampled. */
void cgroups_publish(struct cgroups *c, const struct cgroups *was, int map_fd,
		     struct sample_counters *counters, uint32_t cpu_count, uint64_t now_ns);
