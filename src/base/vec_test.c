/* vec_test.c - arrays that grow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/vec.h"

static void test_entries_are_kept(void **state)
{
	uint32_t *list = NULL, count = 0, cap = 0, moves = 0;

	(void)state;
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t before = cap;

		VEC_ROOM(list, count, cap);
		assert_true(count < cap);
		moves += cap != before;
		list[count++] = i;
	}
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(list[i], i);
	assert_int_equal(moves, 11); /* 16 doubled ten times is more than 10000 */
	free(list);
}

static void test_reserve(void **state)
{
	static const struct {
		size_t cap, need, want;
	} cases[] = {
		{ 0, 0, 0 }, { 0, 1, 16 }, { 0, 16, 16 }, { 0, 17, 32 },
		{ 3, 3, 3 }, { 3, 4, 6 },  { 3, 50, 96 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t cap = cases[i].cap;
		char *list = cap ? malloc(cap) : NULL;

		VEC_RESERVE(list, cases[i].need, cap);
		assert_int_equal(cap, cases[i].want);
		if (cases[i].need)
			list[cases[i].need - 1] = 1;
		free(list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries_are_kept),
		cmocka_unit_test(test_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
