/* known_test.c - what is known is the right row; what waits for `lookup` is never forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "store/known.h"

static struct hash128 nth(uint32_t n)
{
	return hash128(str_from(&n, sizeof(n)));
}

static void kinds_and_hashes_are_told_apart(void **state)
{
	struct hash128 h = nth(1), upper = h, lower = h;
	struct known k;

	(void)state;
	known_init(&k, 1 << 20);
	upper.hi ^= 1;
	lower.lo ^= UINT64_C(1) << 40;
	known_cache(&k, KIND_STACK, h, 7);
	assert_int_equal(known_cached(&k, KIND_STACK, h), 7);
	assert_int_equal(known_cached(&k, KIND_LOCATION, h), 0);
	assert_int_equal(known_cached(&k, KIND_STACK, upper), 0);
	assert_int_equal(known_cached(&k, KIND_STACK, lower), 0);
	known_forget(&k, KIND_STACK, h);
	assert_int_equal(known_find(&k, KIND_STACK, h), 0);
	known_release(&k);
}

/* As ClickHouse's encoder has them: what was known of a day says nothing of another. */
static void kinds_of_days(void **state)
{
	enum { DAYS = 3000 };
	struct hash128 h = { UINT64_MAX, 5 };
	struct known k;

	(void)state;
	known_init(&k, 1 << 20);
	for (uint32_t day = 1; day <= DAYS; day++) {
		enum store_kind kind = (enum store_kind)(KIND_STACK | (18000 + day) << 8);

		assert_int_equal(known_cached(&k, kind, h), 0);
		known_cache(&k, kind, h, day);
		assert_int_equal(known_cached(&k, kind, h), day);
	}
	known_release(&k);
}

static bool is_odd(void *arg, enum store_kind kind, uint32_t id)
{
	(void)arg;
	return kind == KIND_STACK && id % 2;
}

/* A flood that a small cache cannot hold. */
static void pending_ones_stay(void **state)
{
	enum { ROWS = KNOWN_PENDING_MOST };
	struct known k;

	(void)state;
	known_init(&k, 4096);
	for (uint32_t i = 1; i <= ROWS; i++)
		known_add(&k, KIND_STACK, nth(i), i);
	for (uint32_t i = 1; i <= ROWS; i++)
		assert_int_equal(known_find(&k, KIND_STACK, nth(i)), i);
	known_purge(&k, is_odd, NULL);
	known_sort_pending(&k);
	assert_int_equal(k.pending_count, ROWS / 2);
	for (uint32_t i = 1; i < k.pending_count; i++)
		assert_true((int64_t)k.pending[i - 1].hash.hi <= (int64_t)k.pending[i].hash.hi);
	for (uint32_t i = 1; i <= ROWS; i++)
		assert_int_equal(known_find(&k, KIND_STACK, nth(i)), i % 2 ? 0 : i);
	known_clear(&k);
	for (uint32_t i = 1; i <= ROWS; i++)
		assert_int_equal(known_find(&k, KIND_STACK, nth(i)), 0);
	known_release(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_and_hashes_are_told_apart),
		cmocka_unit_test(kinds_of_days),
		cmocka_unit_test(pending_ones_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
