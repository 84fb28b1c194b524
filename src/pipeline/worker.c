#include "pipeline/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

enum { BATCHES_USUAL = 1024, RUN_USUAL = 64 };
static const size_t bytes_usual = (size_t)64 << 20;

struct worker {
	struct worker_options options;
	pthread_t thread;
	bool joined; /* the owner's */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	struct worker_item *ring; /* options.limit_batches slots */
	uint32_t first, count;    /* queued, not yet in work() */
	uint32_t busy_count;      /* in work() */
	size_t held_bytes;        /* queued and in work() */
	bool sleeping;            /* the thread waits: a push must wake it */
	bool stopping;
	uint64_t deadline_ns;
};

void worker_item_done(struct worker_item *item, const struct outcome *o)
{
	struct completion *done = item->done;

	batch_unref(item->batch);
	*item = (struct worker_item){ 0 };
	completion_done(done, o);
}

static void item_refuse(struct worker_item *item, enum err_kind kind, const char *why)
{
	struct outcome o = { .kind = OUTCOME_RETRY };

	err_set(&o.err, kind, "%s", why);
	worker_item_done(item, &o);
}

void worker_push(struct worker *w, struct batch *batch, struct completion *done)
{
	struct worker_item item = { .batch = batch, .done = done };
	size_t bytes = batch_bytes(batch);
	bool full, stopping, wake = false;

	pthread_mutex_lock(&w->lock);
	stopping = w->stopping;
	full = w->count + w->busy_count >= w->options.limit_batches ||
	       (w->held_bytes &&
		(bytes > w->options.limit_bytes || w->held_bytes > w->options.limit_bytes - bytes));
	if (!stopping && !full) {
		w->ring[(w->first + w->count++) % w->options.limit_batches] = item;
		w->held_bytes += bytes;
		wake = w->sleeping;
		w->sleeping = false;
	}
	pthread_mutex_unlock(&w->lock);
	if (wake)
		pthread_cond_signal(&w->wake);
	if (stopping)
		item_refuse(&item, ERR_UNAVAILABLE, "shutting down");
	else if (full)
		item_refuse(&item, ERR_BUSY, "sending queue is full");
}

/* Sleeps until something is pushed, the worker is stopped, or idle_ns passed: then false. */
static bool wait_locked(struct worker *w, bool idle_due)
{
	uint64_t until_ns = clock_monotonic_ns() + w->options.idle_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / SECOND_NS),
				  .tv_nsec = (long)(until_ns % SECOND_NS) };

	while (w->count == 0 && !w->stopping) {
		w->sleeping = true;
		if (!idle_due)
			pthread_cond_wait(&w->wake, &w->lock);
		else if (pthread_cond_timedwait(&w->wake, &w->lock, &until) == ETIMEDOUT)
			break;
	}
	w->sleeping = false;
	return w->count > 0 || w->stopping;
}

static uint32_t take_locked(struct worker *w, struct worker_item *run)
{
	uint32_t n = w->count < w->options.run_limit ? w->count : w->options.run_limit;

	for (uint32_t i = 0; i < n; i++)
		run[i] = w->ring[(w->first + i) % w->options.limit_batches];
	w->first = (w->first + n) % w->options.limit_batches;
	w->count -= n;
	w->busy_count = n;
	return n;
}

static size_t run_bytes(const struct worker_item *run, uint32_t count)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += batch_bytes(run[i].batch);
	return bytes;
}

static void run_work(struct worker *w, struct worker_item *run, uint32_t count, bool late)
{
	if (!late) {
		w->options.work(w->options.arg, run, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		item_refuse(&run[i], ERR_UNAVAILABLE, "interrupted due to shutdown");
}

static void *worker_loop(void *arg)
{
	struct worker *w = arg;
	struct worker_item *run = calloc(w->options.run_limit, sizeof(*run));
	/* Something was worked on since the last idle(), or it is to be called anyhow. */
	bool idle_due = w->options.idle_again;

	assert(run);
	pthread_setname_np(pthread_self(), w->options.name);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		size_t bytes;
		uint32_t count;
		bool late;

		if (!wait_locked(w, idle_due)) {
			pthread_mutex_unlock(&w->lock);
			w->options.idle(w->options.arg);
			idle_due = w->options.idle_again;
			pthread_mutex_lock(&w->lock);
			continue;
		}
		if (w->count == 0)
			break;
		late = w->stopping && clock_monotonic_ns() >= w->deadline_ns;
		count = take_locked(w, run);
		pthread_mutex_unlock(&w->lock);
		bytes = run_bytes(run, count);
		run_work(w, run, count, late);
		idle_due = w->options.idle && w->options.idle_ns;
		pthread_mutex_lock(&w->lock);
		w->busy_count = 0;
		w->held_bytes -= bytes;
	}
	pthread_mutex_unlock(&w->lock);
	free(run);
	return NULL;
}

static void options_complete(struct worker_options *o)
{
	if (!o->limit_bytes)
		o->limit_bytes = bytes_usual;
	if (!o->limit_batches)
		o->limit_batches = BATCHES_USUAL;
	if (!o->run_limit)
		o->run_limit = RUN_USUAL;
}

struct worker *worker_new(const struct worker_options *options, struct err *err)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int rc;

	assert(w && options->work);
	w->options = *options;
	options_complete(&w->options);
	w->ring = calloc(w->options.limit_batches, sizeof(*w->ring));
	assert(w->ring);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	rc = pthread_create(&w->thread, NULL, worker_loop, w);
	if (rc == 0)
		return w;
	w->joined = true;
	worker_free(w);
	errno = rc;
	err_set_errno(err, "cannot start thread %s", options->name);
	return NULL;
}

void worker_stop(struct worker *w, uint64_t deadline_ns)
{
	if (w->joined)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	w->deadline_ns = deadline_ns;
	pthread_mutex_unlock(&w->lock);
	pthread_cond_signal(&w->wake);
	pthread_join(w->thread, NULL);
	w->joined = true;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	worker_stop(w, 0);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w->ring);
	free(w);
}
