/*
 * fanout.h - one batch to several consumers, one answer back.
 *
 * The answer is OK only when every branch kept the batch. When one asks for a repetition (RETRY)
 * while others have kept it, the fan-out remembers by the request's hash who did, for dedup_window,
 * and hands the repetition only to the rest: nothing is kept twice. A branch that refused for good
 * is not asked again either; the answer then is PERMANENT. What is remembered is bounded: past
 * FANOUT_MEMORY requests the oldest is forgotten, counted in flametap_fanout_forgotten_total.
 * Threads: consumers are called on the thread that brings the batch, the answer comes on the last
 * branch's.
 */
#pragma once
#include "pipeline/component.h"

enum { FANOUT_BRANCHES_MOST = 64, FANOUT_MEMORY = 1024 };

struct fanout;

struct fanout_options {
	const char *name; /* label of its metrics: "receivers::otlp", "pipelines::profiles" */
	struct consumer **branches;
	uint32_t count; /* 1 .. FANOUT_BRANCHES_MOST */
	uint64_t dedup_window_ns;
	struct metrics *metrics; /* may be NULL */
};

struct fanout *fanout_new(const struct fanout_options *options);
struct consumer *fanout_consumer(struct fanout *f);
void fanout_free(struct fanout *f); /* NULL is fine */
