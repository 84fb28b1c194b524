#include "agent/report/deliveries.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

static const uint64_t RETRY_FIRST_NS = SECOND_NS / 2, RETRY_MOST_NS = 30 * SECOND_NS;

struct delivery {
	struct completion completion;
	struct deliveries *owner;
	struct delivery *next; /* lock */
	struct batch *batch;
	uint64_t samples, events;
	uint64_t due_ns;   /* lock; monotonic; while it waits */
	unsigned failures; /* lock */
	struct err why;    /* lock; of the last refusal */
	bool waits;        /* lock; else it is in the pipeline */
};

struct losses {
	uint64_t reports, events;
	struct err why; /* of the last one */
};

struct deliveries {
	struct consumer *next;
	struct receiver_metrics metrics;
	struct metric *lost;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	struct delivery *first, **last; /* lock; oldest first */
	unsigned count;                 /* lock */
	struct losses unsaid;           /* lock; since they were last told */
	bool finishing;                 /* lock: nothing is kept for a retry any more */
	bool abandoned;                 /* lock: the last answer frees */
};

struct deliveries *deliveries_new(struct consumer *next, struct metrics *metrics, const char *id,
				  struct metric *lost)
{
	struct deliveries *d = calloc(1, sizeof(*d));
	pthread_condattr_t attr;

	assert(d);
	d->next = next;
	d->last = &d->first;
	d->lost = lost;
	receiver_metrics_init(&d->metrics, metrics, id, "agent");
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->answered, &attr);
	pthread_condattr_destroy(&attr);
	return d;
}

static void destroy(struct deliveries *d)
{
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->answered);
	free(d);
}

/* lock held */
static void take_out(struct deliveries *d, struct delivery *gone)
{
	struct delivery **link = &d->first;

	while (*link != gone)
		link = &(*link)->next;
	*link = gone->next;
	if (d->last == &gone->next)
		d->last = link;
	d->count--;
}

static void delivery_free(struct delivery *v)
{
	batch_unref(v->batch);
	free(v);
}

/* lock held */
static void lose(struct deliveries *d, const struct delivery *v)
{
	d->unsaid.reports++;
	d->unsaid.events += v->events;
	d->unsaid.why = v->why;
	metric_add(d->lost, (int64_t)v->events);
}

/* lock held */
static void give_up(struct deliveries *d, struct delivery *v)
{
	lose(d, v);
	take_out(d, v);
	delivery_free(v);
}

static void log_refusal(const struct delivery *v, const struct outcome *o)
{
	static struct log_gate gate;
	uint64_t skipped;

	if (log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_WARN,
		    o->kind == OUTCOME_RETRY ? "A report was not taken now, and is kept for a while"
					     : "A report was refused for good",
		    LOG_S("error", o->err.msg), LOG_U("samples", v->samples),
		    LOG_U("similar_not_logged", skipped));
}

static uint64_t retry_wait_ns(unsigned failures, uint64_t hint_ns)
{
	uint64_t wait = RETRY_FIRST_NS << (failures < 6 ? failures : 6);

	if (wait > RETRY_MOST_NS)
		wait = RETRY_MOST_NS;
	return hint_ns > wait ? hint_ns : wait;
}

static void delivery_done(struct completion *c, const struct outcome *o)
{
	struct delivery *v = CONTAINER_OF(c, struct delivery, completion);
	struct deliveries *d = v->owner;
	bool destroy_now;

	if (o->kind != OUTCOME_OK)
		log_refusal(v, o);
	pthread_mutex_lock(&d->lock);
	v->why = o->err;
	if (o->kind == OUTCOME_RETRY && !d->finishing) {
		v->due_ns = clock_monotonic_ns() + retry_wait_ns(v->failures++, o->retry_after_ns);
		v->waits = true;
	} else {
		receiver_metrics_count(&d->metrics, v->samples, o);
		if (o->kind != OUTCOME_OK)
			lose(d, v);
		take_out(d, v);
		delivery_free(v);
	}
	destroy_now = d->abandoned && !d->count;
	pthread_cond_signal(&d->answered);
	pthread_mutex_unlock(&d->lock);
	if (destroy_now)
		destroy(d);
}

/* Without the lock: the answer may come at once. */
static void send(struct deliveries *d, struct delivery *v)
{
	consumer_consume(d->next, batch_ref(v->batch), &v->completion);
}

/* lock held: room for one more. */
static void make_room(struct deliveries *d)
{
	struct delivery *v = d->first;

	while (d->count >= DELIVERIES_MOST && v) {
		struct delivery *next = v->next;

		if (v->waits) {
			err_prefix(&v->why, "more than %d reports wait", DELIVERIES_MOST);
			give_up(d, v);
		}
		v = next;
	}
}

void deliveries_offer(struct deliveries *d, struct batch *batch, uint64_t events)
{
	struct delivery *v = calloc(1, sizeof(*v));
	bool full;

	assert(v);
	*v = (struct delivery){ .completion.done = delivery_done,
				.owner = d,
				.batch = batch,
				.samples = batch_sample_count(batch),
				.events = events };
	pthread_mutex_lock(&d->lock);
	make_room(d);
	full = d->count >= DELIVERIES_MOST; /* all of them on their way: a pipeline that hangs */
	if (full) {
		err_set(&v->why, ERR_BUSY, "%d reports are on their way and none is answered",
			DELIVERIES_MOST);
		lose(d, v);
	} else {
		*d->last = v;
		d->last = &v->next;
		d->count++;
	}
	pthread_mutex_unlock(&d->lock);
	if (full)
		delivery_free(v);
	else
		send(d, v);
}

/* The oldest that waits and is due, marked as on its way; NULL when there is none. */
static struct delivery *next_due(struct deliveries *d, uint64_t now_ns, uint64_t *soonest_ns)
{
	struct delivery *v;

	*soonest_ns = UINT64_MAX;
	pthread_mutex_lock(&d->lock);
	for (v = d->first; v; v = v->next) {
		if (!v->waits)
			continue;
		if (v->due_ns <= now_ns)
			break;
		if (v->due_ns < *soonest_ns)
			*soonest_ns = v->due_ns;
	}
	if (v)
		v->waits = false;
	pthread_mutex_unlock(&d->lock);
	return v;
}

uint64_t deliveries_run(struct deliveries *d, uint64_t now_ns)
{
	struct delivery *v;
	uint64_t soonest_ns;

	while ((v = next_due(d, now_ns, &soonest_ns)))
		send(d, v);
	return soonest_ns;
}

static struct losses take_losses(struct deliveries *d)
{
	struct losses lost;

	pthread_mutex_lock(&d->lock);
	lost = d->unsaid;
	d->unsaid = (struct losses){ 0 };
	pthread_mutex_unlock(&d->lock);
	return lost;
}

static void log_losses(const struct losses *lost, const char *message)
{
	if (lost->reports)
		LOG(LOG_ERROR, message, LOG_U("reports", lost->reports),
		    LOG_U("samples", lost->events), LOG_S("error", lost->why.msg));
}

uint64_t deliveries_take_lost(struct deliveries *d)
{
	struct losses lost = take_losses(d);

	log_losses(&lost, "Samples are lost: their reports could not be delivered");
	return lost.events;
}

static void give_up_waiting(struct deliveries *d)
{
	struct delivery *v = d->first;

	while (v) {
		struct delivery *next = v->next;

		if (v->waits)
			give_up(d, v);
		v = next;
	}
}

/* lock held; of those that nobody has answered for */
static struct losses count_open(const struct deliveries *d)
{
	struct losses open = { 0 };

	for (const struct delivery *v = d->first; v; v = v->next) {
		open.reports++;
		open.events += v->events;
	}
	return open;
}

void deliveries_finish(struct deliveries *d, uint64_t deadline_ns)
{
	struct losses lost, open;
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
				  .tv_nsec = (long)(deadline_ns % SECOND_NS) };

	pthread_mutex_lock(&d->lock);
	d->finishing = true;
	pthread_mutex_unlock(&d->lock);
	deliveries_run(d, UINT64_MAX - 1);
	pthread_mutex_lock(&d->lock);
	while (d->count && clock_monotonic_ns() < deadline_ns)
		pthread_cond_timedwait(&d->answered, &d->lock, &until);
	give_up_waiting(d);
	open = count_open(d);
	pthread_mutex_unlock(&d->lock);
	lost = take_losses(d);
	log_losses(&lost, "Samples are lost at the end: their reports could not be delivered");
	err_set(&open.why, ERR_BUSY, "no answer in time");
	log_losses(&open, "The end comes while reports are on their way: they may be lost");
}

void deliveries_free(struct deliveries *d)
{
	bool now;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->finishing = d->abandoned = true;
	give_up_waiting(d);
	now = d->count == 0;
	pthread_mutex_unlock(&d->lock);
	if (now)
		destroy(d);
}
