#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "pipeline/handover.h"

static void count_free(void *what)
{
	++*(int *)what;
}

static void test_left_and_taken(void **state)
{
	static const int kind, other_kind;
	struct handover h = { .open = false };
	int one = 0, two = 0;

	(void)state;
	assert_false(handover_is_open(NULL));
	assert_null(handover_take(NULL, &kind, "a"));
	assert_false(handover_leave(NULL, &kind, "a", &one, count_free));
	/* nobody comes after */
	assert_false(handover_leave(&h, &kind, "a", &one, count_free));
	handover_open(&h);
	assert_true(handover_leave(&h, &kind, "a", &one, count_free));
	assert_true(handover_leave(&h, &kind, "a/2", &two, count_free));
	assert_null(handover_take(&h, &other_kind, "a"));
	assert_null(handover_take(&h, &kind, "b"));
	assert_ptr_equal(handover_take(&h, &kind, "a"), &one);
	assert_null(handover_take(&h, &kind, "a"));
	/* what is taken is the taker's; what is not is freed, once */
	handover_close(&h);
	handover_close(&h);
	assert_int_equal(one, 0);
	assert_int_equal(two, 1);
	assert_false(handover_is_open(&h));
}

static void test_room(void **state)
{
	static const int kind;
	struct handover h = { .open = true };
	char long_id[100] = { 0 };
	int freed = 0;

	(void)state;
	memset(long_id, 'x', sizeof(long_id) - 1);
	assert_false(handover_leave(&h, &kind, long_id, &freed, count_free));
	for (int i = 0; i < HANDOVERS_MOST; i++)
		assert_true(handover_leave(&h, &kind, "same", &freed, count_free));
	assert_false(handover_leave(&h, &kind, "same", &freed, count_free));
	handover_close(&h);
	assert_int_equal(freed, HANDOVERS_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_left_and_taken),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
