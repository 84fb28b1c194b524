#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/worker.h"

#include <stdio.h>
#include <unistd.h>

#include "support/pipeline_fakes.h"

/* What the worker's functions saw; a gate holds work() until the test opens it. */
struct seen {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool gate_closed;
	uint32_t runs, items, largest_run, idles;
	int64_t last_value;
	bool ordered;
};

static void seen_init(struct seen *s)
{
	*s = (struct seen){ .lock = PTHREAD_MUTEX_INITIALIZER,
			    .changed = PTHREAD_COND_INITIALIZER,
			    .last_value = -1,
			    .ordered = true };
}

static void work(void *arg, struct worker_item *items, uint32_t count)
{
	const struct outcome ok = { .kind = OUTCOME_OK };
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->runs++;
	pthread_cond_broadcast(&s->changed);
	while (s->gate_closed)
		pthread_cond_wait(&s->changed, &s->lock);
	for (uint32_t i = 0; i < count; i++) {
		int64_t value = items[i].batch->profiles->values[0];

		s->ordered = s->ordered && value > s->last_value;
		s->last_value = value;
	}
	s->items += count;
	s->largest_run = count > s->largest_run ? count : s->largest_run;
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < count; i++)
		worker_item_done(&items[i], &ok);
}

static void idle(void *arg)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->idles++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void gate(struct seen *s, bool closed)
{
	pthread_mutex_lock(&s->lock);
	s->gate_closed = closed;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void wait_runs(struct seen *s, const uint32_t *counter, uint32_t n)
{
	pthread_mutex_lock(&s->lock);
	while (*counter < n)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static struct worker *make(struct seen *s, size_t limit_bytes, uint32_t limit_batches)
{
	struct worker_options o = { .name = "test",
				    .work = work,
				    .arg = s,
				    .limit_bytes = limit_bytes,
				    .limit_batches = limit_batches,
				    .run_limit = 8 };
	struct worker *w;
	struct err err;

	seen_init(s);
	w = worker_new(&o, &err);
	assert_non_null(w);
	return w;
}

/* While one run is held, the others queue, and come as one run, in order. */
static void test_runs(void **state)
{
	struct waiter waiters[9];
	struct seen s;
	struct worker *w = make(&s, 0, 0);

	(void)state;
	s.gate_closed = true;
	for (uint32_t i = 0; i < 9; i++) {
		waiter_init(&waiters[i]);
		worker_push(w, fake_batch(1, i, NULL), &waiters[i].completion);
		if (i == 0)
			wait_runs(&s, &s.runs, 1);
	}
	gate(&s, false);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(waiter_wait(&waiters[i]).kind, OUTCOME_OK);
	worker_free(w);
	assert_int_equal(s.runs, 2);
	assert_int_equal(s.largest_run, 8);
	assert_true(s.ordered);
}

static void test_full(void **state)
{
	struct waiter waiters[4];
	struct outcome o;
	struct seen s;
	struct worker *w = make(&s, 0, 3);

	(void)state;
	s.gate_closed = true;
	for (uint32_t i = 0; i < 4; i++) {
		waiter_init(&waiters[i]);
		worker_push(w, fake_batch(1, i, NULL), &waiters[i].completion);
		if (i == 0)
			wait_runs(&s, &s.runs, 1);
	}
	o = waiter_wait(&waiters[3]); /* at once: what is worked on counts, too */
	assert_int_equal(o.kind, OUTCOME_RETRY);
	assert_int_equal(o.err.kind, ERR_BUSY);
	gate(&s, false);
	assert_int_equal(waiter_wait(&waiters[2]).kind, OUTCOME_OK);
	worker_free(w);
}

/* One batch is always taken; a second that passes the bytes is not. */
static void test_bytes(void **state)
{
	struct waiter waiters[2];
	struct seen s;
	struct worker *w = make(&s, 1, 10);

	(void)state;
	s.gate_closed = true;
	for (uint32_t i = 0; i < 2; i++) {
		waiter_init(&waiters[i]);
		worker_push(w, fake_batch(100, i, NULL), &waiters[i].completion);
	}
	assert_int_equal(waiter_wait(&waiters[1]).err.kind, ERR_BUSY);
	gate(&s, false);
	assert_int_equal(waiter_wait(&waiters[0]).kind, OUTCOME_OK);
	worker_free(w);
}

struct opener {
	struct worker *worker;
	struct seen *seen;
};

/* Opens the gate once the worker refuses because it stops; until then its queue is full. */
static void *open_at_stop(void *arg)
{
	struct opener *o = arg;
	struct waiter w;

	do {
		usleep(200);
		waiter_init(&w);
		worker_push(o->worker, fake_batch(1, 9, NULL), &w.completion);
	} while (waiter_wait(&w).err.kind == ERR_BUSY);
	gate(o->seen, false);
	return NULL;
}

/* Past the deadline the rest is answered, not worked on; after the stop nothing is taken. */
static void test_stop(void **state)
{
	struct waiter waiters[4];
	struct seen s;
	struct worker *w = make(&s, 0, 3);
	struct opener o = { w, &s };
	pthread_t opener;

	(void)state;
	s.gate_closed = true;
	for (uint32_t i = 0; i < 3; i++) {
		waiter_init(&waiters[i]);
		worker_push(w, fake_batch(1, i, NULL), &waiters[i].completion);
		if (i == 0)
			wait_runs(&s, &s.runs, 1);
	}
	pthread_create(&opener, NULL, open_at_stop, &o);
	worker_stop(w, clock_monotonic_ns());
	pthread_join(opener, NULL);
	assert_int_equal(waiter_wait(&waiters[0]).kind, OUTCOME_OK);
	assert_int_equal(waiter_wait(&waiters[1]).err.kind, ERR_UNAVAILABLE);
	assert_int_equal(waiter_wait(&waiters[2]).err.kind, ERR_UNAVAILABLE);
	waiter_init(&waiters[3]);
	worker_push(w, fake_batch(1, 3, NULL), &waiters[3].completion);
	assert_int_equal(waiter_wait(&waiters[3]).err.kind, ERR_UNAVAILABLE);
	worker_free(w);
}

static void test_idle(void **state)
{
	struct worker_options o = {
		.name = "test", .work = work, .idle = idle, .idle_ns = 2 * MILLI_NS
	};
	struct waiter waiter;
	struct worker *w;
	struct seen s;
	struct err err;

	(void)state;
	seen_init(&s);
	o.arg = &s;
	w = worker_new(&o, &err);
	waiter_init(&waiter);
	worker_push(w, fake_batch(1, 1, NULL), &waiter.completion);
	wait_runs(&s, &s.idles, 1);
	usleep(10000);
	assert_int_equal(s.idles, 1); /* once a pause */
	worker_free(w);
}

static void *push_many(void *arg)
{
	struct worker *w = arg;

	for (uint32_t i = 0; i < 500; i++) {
		struct waiter waiter;

		waiter_init(&waiter);
		worker_push(w, fake_batch(1, i, NULL), &waiter.completion);
		assert_int_equal(waiter_wait(&waiter).kind, OUTCOME_OK);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];
	struct seen s;
	struct worker *w = make(&s, 0, 0);

	(void)state;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, push_many, w);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	worker_free(w);
	assert_int_equal(s.items, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),  cmocka_unit_test(test_full),
		cmocka_unit_test(test_bytes), cmocka_unit_test(test_stop),
		cmocka_unit_test(test_idle),  cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
