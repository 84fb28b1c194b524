/*
 * reporter.h - takes traces, and every interval hands what came as one message to the pipeline.
 *
 * One thread of its own names frames and builds messages, so that the trace thread only counts. A
 * report that the pipeline does not take now is offered again; what is lost on the way, here or
 * before, is counted and stands in the next report. A window that fills up is sent early.
 *
 * Threads: reporter_add() on the trace thread; new, stop, free on the owner's; the namer is called
 * on the reporter's.
 */
#pragma once
#include "agent/report/message.h"
#include "base/metrics.h"
#include "pipeline/component.h"

enum { REPORT_LOSSES_MOST = WINDOW_REASONS };

struct reporter_options {
	struct report_options report; /* its strings and lists outlive the reporter */
	uint64_t interval_ns;
	double jitter;             /* 0..1: of the interval, to either side */
	uint32_t frame_cache_size; /* 0: the usual */
	size_t window_bytes;       /* 0: 32 MiB */
	bool send_error_frames, send_idle_frames;
	bool go_as_native;           /* without the tracer go */
	uint64_t min_process_age_ns; /* samples of younger processes are left out */
	const struct namer *namer;   /* NULL: nothing has a name */
	uint64_t naming_budget_ns;   /* of CPU per report */
	/* What was lost before it came here: counts since the start, by reason. May be NULL. */
	uint32_t (*losses)(void *ctx, struct report_count *out, uint32_t most);
	/* For how long was sampled since the start: probabilistic profiling, and times without a
	 * sampler. NULL: all the time. */
	uint64_t (*sampling_ns)(void *ctx);
	/* A report was built (the reporter's thread). May be NULL. */
	void (*reported)(void *ctx, const struct report_totals *totals);
	void *ctx; /* of these three */

	const char *id; /* the receiver's, for metrics: outlives the reporter */
	struct consumer *next;
	struct budget *budget; /* may be NULL */
	struct metrics *metrics;
};

struct reporter;

struct reporter *reporter_new(const struct reporter_options *options);
/* Sampling begins, and is over: no report covers time before, or after. Before it begins nothing is
 * reported, and nothing at all if it never does. */
void reporter_begins(struct reporter *r);
void reporter_ends(struct reporter *r);
void reporter_add(struct reporter *r, const struct trace *trace);
struct trace_sink reporter_sink(struct reporter *r);
/* Reports what there is now, without waiting for the interval. */
void reporter_flush(struct reporter *r);
/* Sends the last report and waits until the pipeline has answered for all, or the deadline
 * (monotonic ns). No trace may come any more. */
void reporter_stop(struct reporter *r, uint64_t deadline_ns);
void reporter_free(struct reporter *r); /* stops at once when still running; NULL is fine */
