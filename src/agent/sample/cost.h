/*
 * cost.h - what samples cost in the kernel, sample by sample: the kernel's own statistics of BPF
 * programs know only the sum, and one long run hides many short ones.
 *
 * A record says how long the program ran for the record before it on the same CPU (its own end it
 * cannot know). Steps of 256 ns up to 65 us; what is longer counts as that. Memory: embedded, 3
 * KiB. Threads: one at a time.
 */
#pragma once
#include <stdint.h>
#include "agent/seam.h"
#include "bpf/records.h"

enum sample_cost_kind {
	COST_NONE,    /* nothing was sent before: not counted */
	COST_KERNEL,  /* no user frames */
	COST_NATIVE,  /* native user frames only */
	COST_RUNTIME, /* frames of a language runtime among them */
	COST_KINDS
};
enum { COST_STEPS = 256, COST_STEP_NS = 256 };

struct sample_costs {
	uint8_t kind_of[SEAM_CPUS_MAX]; /* by CPU: the last record */
	uint32_t counts[COST_KINDS][COST_STEPS];
};

/* In the order of the ring. `words` are the record's. */
void sample_costs_add(struct sample_costs *c, const struct sample_record *r, const uint64_t *words);
/* The cost that this share of all samples stays below, 0..1; 0: there are none. */
uint64_t sample_costs_quantile(const struct sample_costs *c, enum sample_cost_kind kind,
			       double share);
