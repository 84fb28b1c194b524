#include "pipeline/sender.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipeline/sender_metrics.h"
#include "pipeline/spool.h"
#include "pipeline/spool_batch.h"

enum {
	MEMORY_WAIT_MS = 100,
	IN_MEMORY_MOST = 1024, /* requests of the spool that wait in memory */
	GATHERED_MOST = 32,    /* requests in flight to an exporter that gathers them */
};

/* A request on its way: queued, in flight, or waiting for its next attempt. */
struct item {
	struct item *next;
	struct completion completion; /* of an attempt */
	struct sender *sender;
	struct batch *batch;
	struct completion *done; /* NULL once answered */
	struct outcome outcome;  /* of the last attempt */
	uint64_t samples;
	size_t bytes;
	uint64_t sequence;            /* in the spool; 0 = none */
	uint64_t accepted_ns, due_ns; /* monotonic */
	uint32_t failures;
};

struct list {
	struct item *first, **last;
	uint64_t count;
};

struct sender {
	struct consumer consumer;
	struct sender_options o;
	struct sender_metrics metrics;
	pthread_t thread;
	bool running; /* the owner's */

	/* The thread's own. */
	struct list queue;   /* wait for a slot; of a spool those that memory has room for */
	struct list backoff; /* keep their slot and wait for due_ns */
	struct spool *spool;
	uint64_t spool_again_ns; /* no memory to read a record back: not before */
	uint64_t chance;         /* state of the random numbers */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;  /* for the thread */
	pthread_cond_t idle;  /* for drain and finish */
	struct list inbox;    /* new */
	struct list blocked;  /* new, and wait for room in the queue */
	struct list finished; /* an attempt has ended */
	uint32_t in_flight;
	uint64_t held_requests, held_samples, held_bytes; /* what queue_size and max_mib bound */
	uint64_t waiting; /* in queue or backoff: the thread tells */
	bool sleeping, draining, expired, ending;
	bool draining_seen, expired_seen; /* the thread has gone round with it */
};

static void list_init(struct list *l)
{
	*l = (struct list){ NULL, &l->first, 0 };
}

static void list_push(struct list *l, struct item *i)
{
	i->next = NULL;
	*l->last = i;
	l->last = &i->next;
	l->count++;
}

static struct item *list_pop(struct list *l)
{
	struct item *i = l->first;

	if (!i)
		return NULL;
	l->first = i->next;
	if (!l->first)
		l->last = &l->first;
	l->count--;
	return i;
}

static void list_move(struct list *to, struct list *from)
{
	list_init(to);
	if (!from->first)
		return;
	*to = *from;
	list_init(from);
}

/* Wakes the thread; the lock is held. */
static void wake_locked(struct sender *s)
{
	if (s->sleeping)
		pthread_cond_signal(&s->wake);
	s->sleeping = false;
}

static void item_answer(struct item *i, const struct outcome *o)
{
	struct completion *done = i->done;

	i->done = NULL;
	if (done)
		completion_done(done, o);
}

/* Gives up what the item holds, and its room in the queue; then answers, if nobody has. */
static void item_end(struct sender *s, struct item *i, const struct outcome *o)
{
	struct completion *done = i->done;
	struct outcome answer = *o; /* o may be the item's own */

	batch_unref(i->batch);
	pthread_mutex_lock(&s->lock);
	s->held_requests--;
	s->held_samples -= i->samples;
	s->held_bytes -= i->bytes;
	pthread_mutex_unlock(&s->lock);
	free(i);
	if (done)
		completion_done(done, &answer);
}

static uint64_t queue_load(const struct sender *s, uint64_t requests, uint64_t samples,
			   uint64_t bytes)
{
	switch (s->o.sending->queue.sizer) {
	case QUEUE_ITEMS:
		return samples;
	case QUEUE_BYTES:
		return bytes;
	default:
		return requests;
	}
}

/* An empty queue takes any request, however large. */
static bool has_room_locked(const struct sender *s, const struct item *i)
{
	const struct queue_options *q = &s->o.sending->queue;
	uint64_t load = queue_load(s, s->held_requests + 1, s->held_samples + i->samples,
				   s->held_bytes + i->bytes);

	if (s->held_requests == 0 || s->o.mode == SENDER_DIRECT)
		return true;
	if (s->held_bytes + i->bytes > q->max_bytes)
		return false;
	return s->o.mode == SENDER_SPOOL || load <= q->queue_size;
}

static void hold_locked(struct sender *s, struct item *i)
{
	s->held_requests++;
	s->held_samples += i->samples;
	s->held_bytes += i->bytes;
	list_push(&s->inbox, i);
	wake_locked(s);
}

static void item_refuse(struct sender *s, struct item *i, enum err_kind kind, const char *why)
{
	struct outcome o = { .kind = OUTCOME_RETRY };
	struct completion *done = i->done;

	err_set(&o.err, kind, "%s", why);
	metric_add(s->metrics.enqueue_failed, (int64_t)i->samples);
	batch_unref(i->batch);
	free(i);
	completion_done(done, &o);
}

static bool answers_on_enqueue(const struct sender *s)
{
	return s->o.mode == SENDER_MEMORY && !s->o.sending->queue.wait_for_result;
}

static void attempt_done(struct completion *c, const struct outcome *o)
{
	struct item *i = CONTAINER_OF(c, struct item, completion);
	struct sender *s = i->sender;

	pthread_mutex_lock(&s->lock);
	i->outcome = *o;
	list_push(&s->finished, i);
	wake_locked(s);
	pthread_mutex_unlock(&s->lock);
}

static struct item *item_new(struct sender *s, struct batch *batch, struct completion *done)
{
	struct item *i = calloc(1, sizeof(*i));

	assert(i);
	i->completion.done = attempt_done;
	i->sender = s;
	i->batch = batch;
	i->done = done;
	i->samples = batch_sample_count(batch);
	i->bytes = batch_bytes(batch);
	i->accepted_ns = clock_monotonic_ns();
	return i;
}

static void sender_consume(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct sender *s = CONTAINER_OF(self, struct sender, consumer);
	struct item *i = item_new(s, batch, done);
	enum { TAKEN, BLOCKED, FULL, STOPPING } verdict = TAKEN;
	struct outcome ok = outcome_ok();

	if (answers_on_enqueue(s))
		i->done = NULL; /* answered below, once the lock is free again */
	pthread_mutex_lock(&s->lock);
	if (s->draining)
		verdict = STOPPING;
	else if (has_room_locked(s, i))
		hold_locked(s, i);
	else if (s->o.sending->queue.block_on_overflow)
		verdict = BLOCKED;
	else
		verdict = FULL;
	if (verdict == BLOCKED) {
		i->done = done;
		list_push(&s->blocked, i);
	}
	pthread_mutex_unlock(&s->lock);
	if (verdict == FULL || verdict == STOPPING)
		i->done = done;
	if (verdict == FULL)
		item_refuse(s, i, ERR_BUSY, "sending queue is full");
	else if (verdict == STOPPING)
		item_refuse(s, i, ERR_UNAVAILABLE, "shutting down");
	else if (verdict == TAKEN && answers_on_enqueue(s))
		completion_done(done, &ok);
}

static double next_chance(struct sender *s)
{
	s->chance ^= s->chance << 13;
	s->chance ^= s->chance >> 7;
	s->chance ^= s->chance << 17;
	return (double)(s->chance >> 11) / (double)(UINT64_C(1) << 53);
}

static void drop(struct sender *s, struct item *i, enum drop_reason reason)
{
	sender_metrics_dropped(&s->metrics, s->o.id, i->samples, reason, &i->outcome.err,
			       i->done != NULL);
	if (i->sequence)
		spool_done(s->spool, i->sequence);
	item_end(s, i, &i->outcome);
}

/* The item's next attempt, or its end: its time is over, or the process stops. */
static void retry(struct sender *s, struct item *i, bool draining)
{
	const struct retry_options *r = &s->o.sending->retry;
	bool enabled = r->enabled && (s->o.mode != SENDER_DIRECT || s->o.retry);
	uint64_t now_ns = clock_monotonic_ns(), wait_ns;

	if (draining && i->sequence) { /* it stays in the spool for the next start */
		item_end(s, i, &i->outcome);
		return;
	}
	if (draining || !enabled) {
		drop(s, i, draining ? DROP_SHUTDOWN : DROP_NO_RETRY);
		return;
	}
	wait_ns = retry_interval_ns(r, ++i->failures, next_chance(s));
	if (wait_ns < i->outcome.retry_after_ns)
		wait_ns = i->outcome.retry_after_ns;
	if (!i->sequence && r->max_elapsed_time_ns &&
	    now_ns + wait_ns > i->accepted_ns + r->max_elapsed_time_ns) {
		drop(s, i, DROP_RETRIES_OVER);
		return;
	}
	sender_metrics_retry(&s->metrics, s->o.id, &i->outcome.err, wait_ns);
	i->due_ns = now_ns + wait_ns;
	list_push(&s->backoff, i);
}

static void attempt_ended(struct sender *s, struct item *i, bool draining)
{
	switch (i->outcome.kind) {
	case OUTCOME_OK:
		sender_metrics_sent(&s->metrics, s->o.id, i->samples, &i->outcome);
		if (i->sequence)
			spool_done(s->spool, i->sequence);
		item_end(s, i, &i->outcome);
		break;
	case OUTCOME_PERMANENT:
		drop(s, i, DROP_REFUSED);
		break;
	case OUTCOME_RETRY:
		retry(s, i, draining);
		break;
	}
}

static void attempt(struct sender *s, struct item *i)
{
	pthread_mutex_lock(&s->lock);
	s->in_flight++;
	metric_set(s->metrics.in_flight, s->in_flight);
	pthread_mutex_unlock(&s->lock);
	s->o.ops->consume(s->o.state, batch_ref(i->batch), &i->completion);
}

/* Memory that waits is half of what it may be: the rest is for what comes, and is read back. */
static bool has_memory(struct sender *s)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->held_bytes <= s->o.sending->queue.max_bytes / 2;
	pthread_mutex_unlock(&s->lock);
	return room;
}

/* Does the peer take what it gets, and is there room, so that what comes now waits in memory? */
static bool waits_in_memory(struct sender *s)
{
	return !s->backoff.count && s->queue.count < IN_MEMORY_MOST && has_memory(s);
}

/* Packing takes more than plain bytes do: it is for a peer that does not take them now. Where it is
 * slow, the spool packs once it is half full. */
static bool packs(const struct sender *s, bool draining)
{
	return draining || s->backoff.count;
}

/* New requests: into the spool, all with one commit, or into the queue. */
static void take_in(struct sender *s, struct list *inbox, bool draining)
{
	struct outcome ok = outcome_ok(), failed;
	struct err commit_err;
	struct list staged;
	struct item *i;
	bool committed;

	list_init(&staged);
	while ((i = list_pop(inbox))) {
		struct err err;

		if (s->o.mode != SENDER_SPOOL) {
			list_push(&s->queue, i);
			continue;
		}
		/* A repetition waits for the commit as well: what it repeats may be in it. */
		spool_set_packing(s->spool, packs(s, draining));
		if (spool_has_taken(s->spool, i->batch) ||
		    spool_stage(s->spool, i->batch, &i->sequence, &err)) {
			list_push(&staged, i);
			continue;
		}
		metric_add(s->metrics.enqueue_failed, (int64_t)i->samples);
		failed = outcome_of(&err);
		item_end(s, i, &failed);
	}
	if (!staged.first)
		return;
	committed = spool_commit(s->spool, &commit_err);
	while ((i = list_pop(&staged))) {
		if (!committed) {
			metric_add(s->metrics.enqueue_failed, (int64_t)i->samples);
			failed = outcome_of(&commit_err);
			item_end(s, i, &failed);
			continue;
		}
		if (!i->sequence) { /* a repetition */
			item_end(s, i, &ok);
			continue;
		}
		/* Sent out of memory, after those before it; or read back when its turn comes. */
		if (draining || !waits_in_memory(s)) {
			item_end(s, i, &ok);
			continue;
		}
		list_push(&s->queue, i);
		item_answer(i, &ok);
	}
}

/* Reads a record back into memory; NULL: none, or no memory for it now. */
static struct item *read_back(struct sender *s)
{
	struct spool_entry entry;
	struct batch *batch;
	struct item *i;
	struct err err;

	if (s->spool_again_ns > clock_monotonic_ns() || !spool_next(s->spool, &entry))
		return NULL;
	batch = spool_entry_batch(&entry, s->o.budget, &err);
	if (!batch && err_retryable(err.kind)) {
		spool_put_back(s->spool, entry.sequence);
		s->spool_again_ns = clock_monotonic_ns() + MEMORY_WAIT_MS * MILLI_NS;
	} else if (!batch) {
		spool_set_aside(s->spool, &entry, err.msg);
	}
	blob_unref(entry.body);
	if (!batch)
		return NULL;
	i = item_new(s, batch, NULL);
	i->sequence = entry.sequence;
	pthread_mutex_lock(&s->lock);
	s->held_requests++;
	s->held_samples += i->samples;
	s->held_bytes += i->bytes;
	pthread_mutex_unlock(&s->lock);
	return i;
}

/* The spool's next: out of memory where it is there still, else read back. NULL: none now. */
static struct item *next_of_spool(struct sender *s, bool draining)
{
	struct item *i;

	while ((i = s->queue.first)) {
		if (spool_take_if_next(s->spool, i->sequence))
			return list_pop(&s->queue);
		if (!draining && i->sequence >= spool_next_sequence(s->spool))
			break; /* others come before it */
		list_pop(&s->queue);
		item_end(s, i, &i->outcome); /* read back already, or it stays in the spool */
	}
	return draining ? NULL : read_back(s);
}

static uint32_t slots_used(struct sender *s)
{
	uint32_t in_flight;

	pthread_mutex_lock(&s->lock);
	in_flight = s->in_flight;
	pthread_mutex_unlock(&s->lock);
	return in_flight + (uint32_t)s->backoff.count;
}

/* May another request be in flight? */
static bool has_slot(struct sender *s)
{
	uint32_t used = slots_used(s);

	return s->o.mode == SENDER_DIRECT || used < s->o.sending->queue.num_consumers ||
	       (s->o.ops->gathers && used < GATHERED_MOST && has_memory(s));
}

/* Attempts that are due, then new ones while there are slots. */
static void send_out(struct sender *s, bool draining)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct list waiting;
	struct item *i;

	list_move(&waiting, &s->backoff);
	while ((i = list_pop(&waiting))) {
		if (draining && i->sequence)
			item_end(s, i, &i->outcome); /* stays in the spool */
		else if (draining || i->due_ns <= now_ns)
			attempt(s, i);
		else
			list_push(&s->backoff, i);
	}
	while (has_slot(s) && (i = s->spool ? next_of_spool(s, draining) : list_pop(&s->queue)))
		attempt(s, i);
}

/* When the thread must look again though nothing happens; 0 = never. */
static uint64_t next_due_ns(const struct sender *s)
{
	uint64_t due_ns = s->spool ? spool_settle_due_ns(s->spool) : 0;

	for (const struct item *i = s->backoff.first; i; i = i->next)
		if (!due_ns || i->due_ns < due_ns)
			due_ns = i->due_ns;
	if (s->spool_again_ns > clock_monotonic_ns() && (!due_ns || s->spool_again_ns < due_ns))
		due_ns = s->spool_again_ns;
	return due_ns;
}

static void sleep_locked(struct sender *s, uint64_t due_ns)
{
	struct timespec until = { .tv_sec = (time_t)(due_ns / SECOND_NS),
				  .tv_nsec = (long)(due_ns % SECOND_NS) };
	int rc = 0;

	s->sleeping = true;
	while (s->sleeping && rc != ETIMEDOUT)
		rc = due_ns ? pthread_cond_timedwait(&s->wake, &s->lock, &until)
			    : pthread_cond_wait(&s->wake, &s->lock);
	s->sleeping = false;
}

/* Lets in what waited for room; answers those that are answered on enqueue. */
static void unblock(struct sender *s)
{
	struct outcome ok = outcome_ok();

	for (;;) {
		struct completion *done = NULL;
		struct item *i;

		pthread_mutex_lock(&s->lock);
		i = s->blocked.first;
		if (i && has_room_locked(s, i)) {
			list_pop(&s->blocked);
			done = i->done;
			if (answers_on_enqueue(s))
				i->done = NULL;
			hold_locked(s, i);
		}
		pthread_mutex_unlock(&s->lock);
		if (!done)
			return;
		if (answers_on_enqueue(s))
			completion_done(done, &ok);
	}
}

static void report_size(struct sender *s)
{
	uint64_t requests = s->spool ? spool_pending(s->spool) : s->held_requests;

	metric_set(s->metrics.queue_size,
		   (int64_t)(s->spool ? requests
				      : queue_load(s, requests, s->held_samples, s->held_bytes)));
}

/* What came while the thread was busy, and so has woken nobody. */
static bool has_work_locked(const struct sender *s)
{
	return s->inbox.first || s->finished.first || s->draining_seen != s->draining ||
	       s->expired_seen != s->expired;
}

static void *sender_loop(void *arg)
{
	struct sender *s = arg;
	struct list inbox, finished;
	bool draining, expired;
	struct item *i;

	pthread_setname_np(pthread_self(), "sender");
	pthread_mutex_lock(&s->lock);
	for (;;) {
		list_move(&inbox, &s->inbox);
		list_move(&finished, &s->finished);
		s->in_flight -= (uint32_t)finished.count;
		metric_set(s->metrics.in_flight, s->in_flight);
		draining = s->draining;
		expired = s->expired;
		pthread_mutex_unlock(&s->lock);

		while ((i = list_pop(&finished)))
			attempt_ended(s, i, draining);
		take_in(s, &inbox, draining);
		if (!expired)
			send_out(s, draining);
		if (s->spool)
			spool_settle(s->spool);
		unblock(s);

		pthread_mutex_lock(&s->lock);
		s->waiting = s->queue.count + s->backoff.count;
		s->draining_seen = draining;
		s->expired_seen = expired;
		report_size(s);
		pthread_cond_broadcast(&s->idle);
		if (has_work_locked(s))
			continue;
		if (s->ending && s->in_flight == 0)
			break;
		sleep_locked(s, next_due_ns(s));
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

struct sender *sender_new(const struct sender_options *options)
{
	struct component_destination destination = { 0 };
	struct sender *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	assert(s);
	s->o = *options;
	s->consumer.consume = sender_consume;
	s->chance = clock_realtime_ns() | 1;
	list_init(&s->queue);
	list_init(&s->backoff);
	list_init(&s->inbox);
	list_init(&s->blocked);
	list_init(&s->finished);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_cond_init(&s->idle, &attr);
	pthread_condattr_destroy(&attr);
	if (s->o.ops->destination)
		destination = s->o.ops->destination(s->o.state);
	sender_metrics_init(&s->metrics, s->o.metrics, s->o.id, &destination);
	return s;
}

bool sender_start(struct sender *s, struct err *err)
{
	struct spool_options o = {
		.path = s->o.spool_path,
		.destination = s->o.destination,
		.id = s->o.id,
		.fsync = s->o.spool_fsync,
		.fsync_interval_ns = s->o.spool_fsync_interval_ns,
		.dedup_window_ns = s->o.dedup_window_ns,
		.budget = s->o.spool_budget,
		.metrics = s->o.metrics,
	};
	int rc;

	if (s->o.mode == SENDER_SPOOL) {
		s->spool = spool_open(&o, err);
		if (!s->spool)
			return false;
	}
	metric_set(s->metrics.queue_capacity,
		   s->o.mode == SENDER_MEMORY ? (int64_t)s->o.sending->queue.queue_size : 0);
	rc = pthread_create(&s->thread, NULL, sender_loop, s);
	s->running = rc == 0;
	if (rc == 0)
		return true;
	errno = rc;
	return err_set_errno(err, "cannot start the sender's thread");
}

struct consumer *sender_consumer(struct sender *s)
{
	return &s->consumer;
}

static bool drained_locked(const struct sender *s)
{
	return s->draining_seen && !has_work_locked(s) && s->in_flight == 0 && s->waiting == 0;
}

static void refuse_blocked(struct sender *s)
{
	struct list blocked;
	struct item *i;

	pthread_mutex_lock(&s->lock);
	list_move(&blocked, &s->blocked);
	pthread_mutex_unlock(&s->lock);
	while ((i = list_pop(&blocked)))
		item_refuse(s, i, ERR_UNAVAILABLE, "shutting down");
}

void sender_drain(struct sender *s, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
				  .tv_nsec = (long)(deadline_ns % SECOND_NS) };
	int rc = 0;

	if (!s->running)
		return;
	pthread_mutex_lock(&s->lock);
	s->draining = true;
	wake_locked(s);
	pthread_mutex_unlock(&s->lock);
	refuse_blocked(s);
	pthread_mutex_lock(&s->lock);
	while (!drained_locked(s) && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&s->idle, &s->lock, &until);
	s->expired = true;
	wake_locked(s);
	while (!s->expired_seen) /* no attempt may begin once the exporter is stopped */
		pthread_cond_wait(&s->idle, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void sender_finish(struct sender *s)
{
	struct item *i;

	if (!s->running)
		return;
	s->running = false;
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	wake_locked(s);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	while ((i = list_pop(&s->queue)) || (i = list_pop(&s->backoff))) {
		i->outcome.kind = OUTCOME_RETRY;
		err_set(&i->outcome.err, ERR_UNAVAILABLE, "interrupted due to shutdown");
		if (i->sequence)
			item_end(s, i, &i->outcome);
		else
			drop(s, i, DROP_SHUTDOWN);
	}
	spool_close(s->spool);
	s->spool = NULL;
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	sender_drain(s, 0);
	sender_finish(s);
	spool_close(s->spool); /* of a start that failed half-way */
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
