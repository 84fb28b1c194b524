#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipeline/spool_seen.h"

static struct hash128 hash_of(uint64_t n)
{
	return hash128(str_from((const char *)&n, sizeof(n)));
}

static void remembers_within_the_window(void **state)
{
	static const struct {
		uint64_t window_ns, age_ns;
		bool want;
	} cases[] = {
		{ 10 * SECOND_NS, 0, true },
		{ 10 * SECOND_NS, 10 * SECOND_NS - 1, true },
		{ 10 * SECOND_NS, 10 * SECOND_NS, false },
		{ 0, 0, false },
	};
	const uint64_t start = 1767225600 * SECOND_NS;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spool_seen s;

		spool_seen_init(&s, cases[i].window_ns);
		assert_int_equal(spool_seen_add(&s, hash_of(1), start), cases[i].window_ns != 0);
		if (spool_seen_has(&s, hash_of(1), start + cases[i].age_ns) != cases[i].want)
			fail_msg("row %zu", i);
		assert_false(spool_seen_has(&s, hash_of(2), start));
		spool_seen_release(&s);
	}
}

/* A clock that was set back makes nothing old. */
static void a_clock_set_back_forgets_nothing(void **state)
{
	struct spool_seen s;

	(void)state;
	spool_seen_init(&s, SECOND_NS);
	assert_true(spool_seen_add(&s, hash_of(1), 100 * SECOND_NS));
	assert_true(spool_seen_has(&s, hash_of(1), 50 * SECOND_NS));
	spool_seen_release(&s);
}

static void takes_the_last_ones_back(void **state)
{
	struct spool_seen s;

	(void)state;
	spool_seen_init(&s, SECOND_NS);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(spool_seen_add(&s, hash_of(i), 1));
	spool_seen_drop_last(&s, 30);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(spool_seen_has(&s, hash_of(i), 1), i < 70);
	spool_seen_drop_last(&s, 1000);
	assert_int_equal(s.count, 0);
	spool_seen_release(&s);
}

/* Against a plain array: additions, repetitions, expiry and taking back, in a seeded mix. */
static void agrees_with_a_plain_list(void **state)
{
	enum { OPERATIONS = 20000, KEYS = 3000 };
	static uint64_t added_at[KEYS];
	struct spool_seen s;
	uint64_t chance = 1, now = 1000;

	(void)state;
	spool_seen_init(&s, 500);
	for (int i = 0; i < OPERATIONS; i++) {
		uint64_t key;
		bool want;

		chance = chance * 6364136223846793005u + 1442695040888963407u;
		key = (chance >> 33) % KEYS;
		now += (chance >> 60) == 0;
		want = added_at[key] && now - added_at[key] < 500;
		if (spool_seen_has(&s, hash_of(key), now) != want)
			fail_msg("operation %d, key %llu", i, (unsigned long long)key);
		if (!want && (chance >> 20) % 2) {
			assert_true(spool_seen_add(&s, hash_of(key), now));
			added_at[key] = now;
			if ((chance >> 21) % 4 == 0) {
				spool_seen_drop_last(&s, 1);
				added_at[key] = 0;
			}
		}
	}
	spool_seen_release(&s);
}

static void is_bounded(void **state)
{
	struct spool_seen s;

	(void)state;
	spool_seen_init(&s, SECOND_NS);
	for (uint64_t i = 0; i < SPOOL_SEEN_MOST + 1000; i++)
		assert_true(spool_seen_add(&s, hash_of(i), 1));
	assert_int_equal(s.count, SPOOL_SEEN_MOST);
	assert_int_equal(s.cap, SPOOL_SEEN_MOST);
	assert_false(spool_seen_has(&s, hash_of(999), 1));
	assert_true(spool_seen_has(&s, hash_of(1000), 1));
	assert_true(spool_seen_has(&s, hash_of(SPOOL_SEEN_MOST + 999), 1));
	spool_seen_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remembers_within_the_window),
		cmocka_unit_test(a_clock_set_back_forgets_nothing),
		cmocka_unit_test(takes_the_last_ones_back),
		cmocka_unit_test(agrees_with_a_plain_list),
		cmocka_unit_test(is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
