/*
 * waits.c - questions about a time that is still to come: each is handed to the pool when it is
 * due.
 *
 * One thread, started with the first of them, looks each second at who has gone, so that those who
 * hung up hold no place.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "web/internal.h"

enum { WAITING_MOST = 64 };

struct web_waits {
	struct web_jobs *jobs;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool started, stopping;              /* guarded */
	struct web_wait *list[WAITING_MOST]; /* guarded */
	uint32_t count;                      /* guarded */
};

struct web_waits *web_waits_new(struct web_jobs *jobs)
{
	struct web_waits *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	w->jobs = jobs;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

/* Under the lock: takes one out that need not wait any more; NULL and when the next may be. */
static struct web_wait *take_due(struct web_waits *w, uint64_t now, uint64_t *next)
{
	*next = now + 1000000000;
	for (uint32_t i = 0; i < w->count; i++) {
		struct web_wait *one = w->list[i];

		if (now >= one->due_ns || atomic_load(one->gone)) {
			w->list[i] = w->list[--w->count];
			return one;
		}
		if (one->due_ns < *next)
			*next = one->due_ns;
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct web_waits *w = arg;

	pthread_setname_np(pthread_self(), "web-wait");
	pthread_mutex_lock(&w->lock);
	while (!w->stopping) {
		uint64_t next;
		struct web_wait *due = take_due(w, clock_monotonic_ns(), &next);
		struct timespec until = { (time_t)(next / 1000000000), (long)(next % 1000000000) };

		if (due) {
			pthread_mutex_unlock(&w->lock);
			web_jobs_add(w->jobs, due->job);
			pthread_mutex_lock(&w->lock);
		} else if (w->count) {
			pthread_cond_timedwait(&w->changed, &w->lock, &until);
		} else {
			pthread_cond_wait(&w->changed, &w->lock);
		}
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Under the lock. */
static bool enter(struct web_waits *w, struct web_wait *wait)
{
	if (w->stopping || w->count == WAITING_MOST)
		return false;
	if (!w->started && pthread_create(&w->thread, NULL, watch, w) != 0)
		return false;
	w->started = true;
	w->list[w->count++] = wait;
	pthread_cond_signal(&w->changed);
	return true;
}

void web_waits_add(struct web_waits *w, struct web_wait *wait)
{
	bool entered;

	pthread_mutex_lock(&w->lock);
	entered = enter(w, wait);
	pthread_mutex_unlock(&w->lock);
	if (!entered)
		wait->job->run(wait->job, true);
}

void web_waits_stop(struct web_waits *w)
{
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	while (w->count) {
		struct web_wait *one = w->list[--w->count];

		one->job->run(one->job, true);
	}
}

void web_waits_free(struct web_waits *w)
{
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
