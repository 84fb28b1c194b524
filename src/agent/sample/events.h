/*
 * events.h - perf events of the sampler: a cpu-clock per CPU that runs the sampling program, and a
 * dummy event per CPU whose ring carries the side band (fork, exec, exit, mmap with build ids,
 * kernel symbols).
 *
 * CPUs that come online later are followed by events_refresh(). The clocks are started one after
 * another, so that CPUs are not sampled at one moment. Memory: events_free() closes all.
 * Threads: one at a time.
 */
#pragma once
#include "agent/seam.h"
#include "base/str.h"

enum { SIDE_BAND_BYTES = 128 * 1024 }; /* per CPU; half of it wakes the reader */

struct events;
/* The clocks stand still; the side band runs. */
struct events *events_new(const struct seam_options *options, struct err *err) MUST_CHECK;
void events_free(struct events *e);
/* What the clocks run, those of CPUs that come later too. Once, before they are enabled. */
bool events_bind(struct events *e, int program_fd, struct err *err) MUST_CHECK;
bool events_enable(struct events *e, bool on, struct err *err) MUST_CHECK;
/* Opens what is missing on CPUs that are online now, closes it on those that went. */
bool events_refresh(struct events *e, struct err *err) MUST_CHECK;
/* The same, for CPUs that the caller says are online, in ascending order. */
bool events_follow(struct events *e, const uint32_t *cpus, uint32_t count,
		   struct err *err) MUST_CHECK;
/* Descriptor of a side band not handed out yet (owned by e), or -1. */
int events_next_side_band(struct events *e, uint32_t *cpu);
/* "0-3,8,10-11" into cpus; false: not such a list, or more than cap. */
bool cpu_list_parse(struct str text, uint32_t *cpus, uint32_t cap, uint32_t *count,
		    struct err *err) MUST_CHECK;
