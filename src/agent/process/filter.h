/*
 * filter.h - which processes are sampled: by pid, by name, by cgroup (agent.h, struct
 * agent_filter).
 *
 * Immutable once made. Memory: its own copy. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

struct agent_filter;
struct filter;

struct filter_subject {
	struct str executable_name, comm;
	struct str command_line; /* arguments, each ended by NUL */
	struct str cgroups;      /* text of /proc/PID/cgroup */
	bool pid_wanted;         /* it is one of the filter's pids, or descends from one */
};

struct filter *filter_new(const struct agent_filter *options, struct err *err) MUST_CHECK;
void filter_free(struct filter *f);
bool filter_is_empty(const struct filter *f); /* wants everything */
bool filter_needs_command_line(const struct filter *f);
bool filter_needs_parents(const struct filter *f);
bool filter_needs_cgroups(const struct filter *f);
const uint32_t *filter_pids(const struct filter *f, uint32_t *count);
bool filter_lists(const struct filter *f, uint32_t pid); /* by number */
bool filter_wants(const struct filter *f, const struct filter_subject *s);
