#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "agent/chance.h"
#include "base/clock.h"

struct turns {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	unsigned on, off;
	bool now;
};

static void enable(void *ctx, bool on)
{
	struct turns *t = ctx;

	pthread_mutex_lock(&t->lock);
	assert_true(on != t->now); /* only changes are told */
	t->now = on;
	t->on += on;
	t->off += !on;
	pthread_cond_signal(&t->turned);
	pthread_mutex_unlock(&t->lock);
}

static void wait_for(struct turns *t, unsigned on, unsigned off)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&t->lock);
	while (t->on < on || t->off < off)
		assert_int_equal(pthread_cond_timedwait(&t->turned, &t->lock, &until), 0);
	pthread_mutex_unlock(&t->lock);
}

static void turns_init(struct turns *t)
{
	*t = (struct turns){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, true };
}

static void test_always(void **state)
{
	struct turns t;
	struct chance_options o = {
		.threshold = 100, .interval_ns = MILLI_NS, .enable = enable, .ctx = &t
	};

	(void)state;
	turns_init(&t);
	chance_free(chance_new(&o));
	assert_int_equal(t.on + t.off, 0);
}

/* At one half it goes on and off soon. */
static void test_half(void **state)
{
	struct turns t;
	struct chance_options o = {
		.threshold = 50, .interval_ns = MILLI_NS, .enable = enable, .ctx = &t
	};
	struct chance *c;

	(void)state;
	turns_init(&t);
	c = chance_new(&o);
	wait_for(&t, 3, 3);
	chance_free(c);
}

/* One in a hundred: nearly always off, from the first draw on. */
static void test_seldom(void **state)
{
	struct turns t;
	struct chance_options o = {
		.threshold = 1, .interval_ns = 3600 * SECOND_NS, .enable = enable, .ctx = &t
	};

	(void)state;
	turns_init(&t);
	for (int i = 0; i < 20; i++) {
		struct chance *c;

		t.now = true;
		c = chance_new(&o);
		chance_free(c); /* ends its thread in the middle of an interval */
	}
	assert_int_equal(t.on, 0); /* it begins as on: that is no change */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_always),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
