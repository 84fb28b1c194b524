/* Extents against a map of one flag per item; nothing is given out twice or before its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/unwind/extents.h"

enum { ITEMS = 500, STEPS = 20000, HELD = 64, GRACE = 10 };

static void test_against_flags(void **state)
{
	struct held {
		uint32_t first, count;
	} held[HELD];
	uint64_t busy_until[ITEMS] = { 0 }; /* UINT64_MAX: out */
	uint32_t held_count = 0, refused = 0;
	struct extents e;

	(void)state;
	srand(5);
	extents_init(&e, 0, ITEMS);
	for (uint64_t now = 1; now < STEPS; now++) {
		uint32_t count = 1 + (uint32_t)rand() % 40, first;

		extents_reclaim(&e, now, GRACE);
		if (held_count < HELD && rand() % 2) {
			if (!extents_take(&e, count, &first)) {
				refused++;
				continue;
			}
			assert_true(first + count <= ITEMS);
			for (uint32_t i = first; i < first + count; i++) {
				assert_true(busy_until[i] <= now);
				busy_until[i] = UINT64_MAX;
			}
			held[held_count++] = (struct held){ first, count };
		} else if (held_count) {
			uint32_t which = (uint32_t)rand() % held_count;
			struct held h = held[which];

			held[which] = held[--held_count];
			extents_retire(&e, h.first, h.count, now);
			for (uint32_t i = h.first; i < h.first + h.count; i++)
				busy_until[i] = now + GRACE;
		}
	}
	assert_true(refused > 0); /* it was full now and then */
	while (held_count) {
		held_count--;
		extents_retire(&e, held[held_count].first, held[held_count].count, STEPS);
	}
	extents_reclaim(&e, STEPS + GRACE, GRACE);
	assert_int_equal(e.used, 0);
	assert_int_equal(e.free_count, 1); /* all of it is one piece again */
	assert_int_equal(e.free[0].count, ITEMS);
	extents_release(&e);
}

static void test_edges(void **state)
{
	struct extents e;
	uint32_t first;

	(void)state;
	extents_init(&e, 3, 2);
	assert_false(extents_take(&e, 0, &first));
	assert_false(extents_take(&e, 3, &first));
	assert_true(extents_take(&e, 2, &first));
	assert_int_equal(first, 3);
	assert_false(extents_take(&e, 1, &first));
	extents_release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_against_flags),
					    cmocka_unit_test(test_edges) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
