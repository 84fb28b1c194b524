/*
 * sharing.c - equal questions are answered together.
 *
 * What an answer holds is settled when its run begins. So a question joins an equal one that still
 * waits for its turn, but none that runs already: samples may have been kept since, which its
 * client knows of. Those who come during a run are the next run, all together; however many ask,
 * there is one run of a question and one that waits.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "web/internal.h"

enum { JOINED_MOST = 1024 }; /* of all runs together; who comes then is refused */

struct web_share {
	struct web_sharing *all;
	struct hash128 key;
	bool running;
	struct web_question *waiting, **end; /* the first one is the next run's */
	struct web_share *next;
};

struct web_sharing {
	struct web_jobs *jobs;
	pthread_mutex_t lock;
	struct web_share *shares; /* guarded, as all in them */
	uint32_t joined;          /* guarded */
};

struct web_sharing *web_sharing_new(struct web_jobs *jobs)
{
	struct web_sharing *s = calloc(1, sizeof(*s));

	assert(s);
	s->jobs = jobs;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void web_sharing_free(struct web_sharing *s)
{
	if (!s)
		return;
	assert(!s->shares); /* the pool, which was freed before, has run or refused them all */
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct web_share *find(const struct web_sharing *s, struct hash128 key)
{
	for (struct web_share *x = s->shares; x; x = x->next)
		if (x->key.hi == key.hi && x->key.lo == key.lo)
			return x;
	return NULL;
}

static struct web_share *add_share(struct web_sharing *s, struct hash128 key)
{
	struct web_share *x = calloc(1, sizeof(*x));

	assert(x);
	*x = (struct web_share){ .all = s, .key = key, .end = &x->waiting, .next = s->shares };
	s->shares = x;
	return x;
}

void web_sharing_add(struct web_sharing *s, struct web_question *q, struct str key)
{
	struct hash128 hash = hash128(key);
	struct web_share *x;
	bool first = false, refused;

	pthread_mutex_lock(&s->lock);
	refused = s->joined == JOINED_MOST;
	if (!refused) {
		x = find(s, hash);
		if (!x)
			x = add_share(s, hash);
		first = !x->waiting && !x->running;
		q->share = x;
		*x->end = q;
		x->end = &q->with;
		s->joined++;
	}
	pthread_mutex_unlock(&s->lock);
	if (refused)
		q->job.run(&q->job, true);
	else if (first)
		web_jobs_add(s->jobs, &q->job);
}

void web_sharing_begin(struct web_question *q)
{
	struct web_share *x = q->share;

	pthread_mutex_lock(&x->all->lock);
	assert(x->waiting == q && !x->running);
	x->waiting = NULL;
	x->end = &x->waiting;
	x->running = true;
	pthread_mutex_unlock(&x->all->lock);
}

static void drop_share(struct web_sharing *s, struct web_share *x)
{
	struct web_share **at = &s->shares;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	free(x);
}

void web_sharing_end(struct web_share *x, uint32_t answered)
{
	struct web_sharing *s = x->all;
	struct web_question *next;

	pthread_mutex_lock(&s->lock);
	s->joined -= answered;
	x->running = false;
	next = x->waiting;
	if (!next)
		drop_share(s, x);
	pthread_mutex_unlock(&s->lock);
	if (next)
		web_jobs_add(s->jobs, &next->job);
}
