/* id_list_test.c - lists of ids come out as a plain insertion puts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/id_list.h"

enum { MOST = 700 };

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33 ^ *state;
}

static size_t insert(uint64_t *list, size_t count, uint64_t id)
{
	size_t at = 0;

	while (at < count && list[at] < id)
		at++;
	if (at < count && list[at] == id)
		return count;
	memmove(&list[at + 1], &list[at], (count - at) * sizeof(*list));
	list[at] = id;
	return count + 1;
}

static void check(size_t count, uint64_t least, uint64_t spread, uint64_t seed)
{
	uint64_t ids[MOST], want[MOST + 1];
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		ids[i] = least + (spread ? next_random(&seed) % spread : next_random(&seed));
		kept = insert(want, kept, ids[i]);
	}
	assert_int_equal(id_list_sort(ids, count), kept);
	if (kept)
		assert_memory_equal(ids, want, kept * sizeof(*ids));
	assert_int_equal(id_list_sort(ids, kept), kept); /* in order already */
	if (kept)
		assert_memory_equal(ids, want, kept * sizeof(*ids));
}

static void test_sort(void **state)
{
	static const struct {
		uint64_t least, spread; /* 0: all numbers that there are */
	} cases[] = { { 0, 1 },   { 1, 50 },        { 1, 256 },
		      { 1, 257 }, { 70000, 40000 }, { UINT64_MAX - 300, 300 },
		      { 0, 0 } };
	static const size_t counts[] = { 0, 1, 2, 63, 64, 65, 255, MOST };

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
		for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
			check(counts[n], cases[c].least, cases[c].spread, c * 100 + n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sort) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
