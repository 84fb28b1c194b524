/*
 * programs.h - the BPF object of the sampler: loaded, its options set, its maps named.
 *
 * The maps are there at once and may be filled while the kernel still verifies the programs (60 ms
 * and more) and takes in the first rows (as long, waiting): that goes on on two threads, which
 * programs_wait() ends.
 *
 * Sampler side: needs the capabilities BPF and PERFMON. Memory: programs_free() closes every map
 * and program; what user space has mapped stays until it unmaps. Threads: one at a time.
 */
#pragma once
#include "agent/seam.h"

struct programs;
struct programs *programs_start(const struct seam_options *options, struct err *err) MUST_CHECK;
/* False: the programs do not load, now or whenever it is asked again. */
bool programs_wait(struct programs *p, struct err *err) MUST_CHECK;
/* Both. */
struct programs *programs_load(const struct seam_options *options, struct err *err) MUST_CHECK;
void programs_free(struct programs *p); /* waits, too */
/* To attach to a perf event; owned by p. After programs_wait(). */
int programs_sample_fd(const struct programs *p);
/* Duplicates of the maps' descriptors, for the worker. */
bool programs_maps(const struct programs *p, struct seam_maps *out, struct err *err) MUST_CHECK;
bool programs_add_blocks(struct programs *p, uint32_t index, int *fd, struct err *err) MUST_CHECK;
bool programs_drop_blocks(struct programs *p, uint32_t index, struct err *err) MUST_CHECK;
bool programs_run_time(const struct programs *p, uint64_t *ns, uint64_t *runs,
		       struct err *err) MUST_CHECK;
/* Loads a walker (enum unwind_walker) that knows these steps, of those that the options name: on a
 * thread of its own; until it is there, the stacks of its processes are copied. */
bool programs_load_walker(struct programs *p, uint32_t index, uint32_t steps,
			  struct err *err) MUST_CHECK;
/* Waits for one that was begun. */
bool programs_wait_walker(struct programs *p, uint32_t index, struct err *err) MUST_CHECK;
/* Instructions of a walker that the verifier went through. */
uint64_t programs_verified(const struct programs *p, uint32_t walker);
