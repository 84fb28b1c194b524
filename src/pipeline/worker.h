/*
 * worker.h - one thread with a bounded queue, for exporters that block on local I/O (stdout, files,
 * SQLite).
 *
 * An exporter's consume() hands the batch over with worker_push() and returns at once; work() then
 * runs on the worker's thread with all that has queued meanwhile, so that one write or one commit
 * can serve many requests. What is being worked on still counts as queued. A full queue answers
 * OUTCOME_RETRY, ERR_BUSY: nothing is dropped silently.
 *
 *   static void work(void *arg, struct worker_item *items, uint32_t count)
 *   {
 *           ... write items[0..count) ...
 *           for (uint32_t i = 0; i < count; i++)
 *                   worker_item_done(&items[i], &outcome);
 *   }
 *
 * Threads: worker_push() any, concurrently; the rest the owner's.
 */
#pragma once
#include "pipeline/component.h"

struct worker;

struct worker_item {
	struct batch *batch; /* one reference, the item's */
	struct completion *done;
};

struct worker_options {
	const char *name; /* of the thread, at most 15 characters */
	/* On the worker's thread; 1 <= count <= run_limit. Finishes every item with
	 * worker_item_done() before it returns. */
	void (*work)(void *arg, struct worker_item *items, uint32_t count);
	/* When nothing was pushed for idle_ns after work(): flush, sync, rotate. NULL or idle_ns 0
	 * = never. Once per pause. */
	void (*idle)(void *arg);
	void *arg;
	uint64_t idle_ns;
	bool idle_again;        /* idle() every idle_ns of a pause, not once */
	size_t limit_bytes;     /* of batch_bytes(); 0 = 64 MiB. One batch is always taken, however
				   large */
	uint32_t limit_batches; /* 0 = 1024 */
	uint32_t run_limit;     /* most items of one work(); 0 = 64 */
};

struct worker *worker_new(const struct worker_options *options, struct err *err) MUST_CHECK;
/* Takes over the reference. Answers RETRY (ERR_BUSY: full; ERR_UNAVAILABLE: stopping) through
 * `done` before it returns. */
void worker_push(struct worker *w, struct batch *batch, struct completion *done);
/* Ends an item: gives up the batch, then answers. */
void worker_item_done(struct worker_item *item, const struct outcome *o);
/* Takes nothing more, works off the queue until the deadline (monotonic ns), answers the rest
 * RETRY, ERR_UNAVAILABLE, and joins the thread. A work() that is under way is waited for. Twice is
 * fine. */
void worker_stop(struct worker *w, uint64_t deadline_ns);
void worker_free(struct worker *w); /* stops at once when still running; NULL is fine */
