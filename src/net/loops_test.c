#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <semaphore.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "net/loops.h"
#include "net/loops_internal.h"

struct counted {
	struct net_task task;
	struct net_loop *loop;
	unsigned number, *seen;
	bool *in_order;
	sem_t *done;
};

static void counted_run(struct net_task *task)
{
	struct counted *c = (struct counted *)task;

	if (c->number != *c->seen || !net_loop_is_current(c->loop))
		*c->in_order = false;
	(*c->seen)++;
	sem_post(c->done);
}

static struct net_loops *loops(unsigned count)
{
	struct err err;
	struct net_loops *l = net_loops_new(&(struct net_loops_options){ .count = count }, &err);

	assert_non_null(l);
	return l;
}

static void test_tasks_run_in_order(void **state)
{
	enum { COUNT = 1000 };
	struct net_loops *l = loops(2);
	struct net_loop *loop = net_loops_pick(l);
	struct counted *tasks = calloc(COUNT, sizeof(*tasks));
	unsigned seen = 0;
	bool in_order = true;
	sem_t done;

	(void)state;
	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < COUNT; i++) {
		tasks[i] = (struct counted){ .task.run = counted_run,
					     .loop = loop,
					     .number = i,
					     .seen = &seen,
					     .in_order = &in_order,
					     .done = &done };
		net_loop_post(loop, &tasks[i].task);
	}
	for (unsigned i = 0; i < COUNT; i++)
		sem_wait(&done);
	assert_true(in_order);
	net_loops_free(l);
	free(tasks);
	sem_destroy(&done);
}

static void test_tasks_before_the_stop_run(void **state)
{
	struct net_loops *l = loops(1);
	struct net_loop *loop = net_loops_pick(l);
	struct counted tasks[50];
	unsigned seen = 0;
	bool in_order = true;
	sem_t done;

	(void)state;
	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < ARRAY_LEN(tasks); i++) {
		tasks[i] = (struct counted){ .task.run = counted_run,
					     .loop = loop,
					     .number = i,
					     .seen = &seen,
					     .in_order = &in_order,
					     .done = &done };
		net_loop_post(loop, &tasks[i].task);
	}
	net_loop_ref(loop);
	net_loops_free(l);
	assert_int_equal(seen, ARRAY_LEN(tasks));
	assert_true(in_order);
	net_loop_post(loop, &tasks[0].task); /* late: runs here */
	assert_int_equal(seen, ARRAY_LEN(tasks) + 1);
	net_loop_unref(loop);
	sem_destroy(&done);
}

struct timed {
	struct net_task task;
	struct net_loop *loop;
	struct net_timer *timer, *never, *left;
	uint64_t started_ns, fired_ns;
	unsigned fired;
	sem_t done;
};

static void timed_fire(void *arg)
{
	struct timed *t = arg;

	t->fired_ns = clock_monotonic_ns();
	if (++t->fired == 1) {
		net_timer_start(t->timer, 1);
		return;
	}
	net_timer_stop(t->never);
	net_timer_free(t->never);
	net_timer_free(t->timer);
	sem_post(&t->done);
}

static void timed_never(void *arg)
{
	((struct timed *)arg)->fired += 100;
}

static void timed_start(struct net_task *task)
{
	struct timed *t = (struct timed *)task;

	t->timer = net_timer_new(t->loop, timed_fire, t);
	t->never = net_timer_new(t->loop, timed_never, t);
	t->left = net_timer_new(t->loop, timed_never, t); /* for net_loops_free() to free */
	t->started_ns = clock_monotonic_ns();
	net_timer_start(t->timer, 20 * MILLI_NS);
	net_timer_start(t->never, SECOND_NS);
	net_timer_start(t->left, 100 * SECOND_NS);
}

static void test_timers(void **state)
{
	struct net_loops *l = loops(1);
	struct timed t = { .task.run = timed_start, .loop = net_loops_pick(l) };

	(void)state;
	sem_init(&t.done, 0, 0);
	net_loop_post(t.loop, &t.task);
	sem_wait(&t.done);
	assert_int_equal(t.fired, 2);
	assert_true(t.fired_ns - t.started_ns >= 20 * MILLI_NS);
	net_loops_free(l);
	assert_int_equal(t.fired, 2);
	sem_destroy(&t.done);
}

static void test_pick_takes_the_least_loaded(void **state)
{
	struct net_loops *l = loops(3);
	struct net_loop *first = net_loops_pick(l), *second;

	(void)state;
	atomic_fetch_add(&first->connections, 1);
	second = net_loops_pick(l);
	assert_ptr_not_equal(first, second);
	atomic_fetch_add(&second->connections, 2);
	atomic_fetch_add(&net_loops_pick(l)->connections, 3);
	assert_ptr_equal(net_loops_pick(l), first);
	net_loops_free(l);
}

static void test_too_many_are_refused(void **state)
{
	struct err err;

	(void)state;
	assert_null(net_loops_new(&(struct net_loops_options){ .count = 1000 }, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	net_loops_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks_run_in_order),
		cmocka_unit_test(test_tasks_before_the_stop_run),
		cmocka_unit_test(test_timers),
		cmocka_unit_test(test_pick_takes_the_least_loaded),
		cmocka_unit_test(test_too_many_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
