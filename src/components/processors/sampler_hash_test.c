#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "components/processors/sampler_hash.h"

/* As the Collector's own tests have them. */
static void test_hashes_of_the_collector(void **state)
{
	static const char zeros[16];

	(void)state;
	assert_int_equal(sampler_hash(STR(""), 0), 0x3515);
	assert_int_equal(sampler_hash(str_from(zeros, sizeof(zeros)), 0), 0x2455);
}

static const struct {
	double percentage;
	uint64_t least; /* of the last 56 bits that is kept; UINT64_MAX: none */
} thresholds[] = {
	{ 100, 0 },
	{ 50, UINT64_C(1) << 55 },
	{ 25, UINT64_C(3) << 54 },
	{ 0, UINT64_MAX },
};

static void put(uint8_t id[16], uint64_t v)
{
	for (int i = 0; i < 7; i++)
		id[15 - i] = (uint8_t)(v >> 8 * i);
}

static void test_thresholds(void **state)
{
	uint8_t id[16] = { 0xff };

	(void)state;
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		uint64_t least = thresholds[i].least;

		put(id, least == UINT64_MAX ? (UINT64_C(1) << 56) - 1 : least);
		assert_int_equal(sampler_keeps_trace(id, thresholds[i].percentage),
				 least != UINT64_MAX);
		put(id, least == UINT64_MAX ? 0 : least - 1);
		if (least)
			assert_false(sampler_keeps_trace(id, thresholds[i].percentage));
	}
}

/* The share that is kept is the one asked for, whatever the seed. */
static void test_shares(void **state)
{
	(void)state;
	for (uint32_t seed = 0; seed < 3; seed++) {
		uint32_t kept = 0;

		for (uint32_t i = 0; i < 20000; i++)
			kept += sampler_keeps_hash(str_from(&i, sizeof(i)), seed, 15.3);
		assert_in_range(kept, 20000 * 143 / 1000, 20000 * 163 / 1000);
	}
	assert_true(sampler_keeps_hash(STR("x"), 1, 100));
	assert_false(sampler_keeps_hash(STR("x"), 1, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hashes_of_the_collector),
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
