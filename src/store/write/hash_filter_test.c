/* hash_filter_test.c - nothing that is in is ever passed over; little of the rest gets through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/str.h"
#include "store/write/hash_filter.h"

static uint64_t nth(uint64_t n)
{
	return hash64(str_from(&n, sizeof(n)));
}

static void what_is_in_passes_and_little_else(void **state)
{
	static const struct {
		uint64_t rows, one_in;
	} cases[] = { { 0, UINT64_MAX }, { 1000, 10000 }, { 500000, 100 }, { 1500000, 8 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t *filter = calloc(HASH_FILTER_WORDS, sizeof(*filter));
		const uint64_t asked = 100000;
		uint64_t passed = 0;

		assert_non_null(filter);
		for (uint64_t n = 0; n < cases[i].rows; n++)
			hash_filter_add(filter, nth(n));
		for (uint64_t n = 0; n < cases[i].rows; n++)
			if (!hash_filter_may_have(filter, nth(n)))
				fail_msg("%zu: hash %zu is passed over", i, (size_t)n);
		for (uint64_t n = 0; n < asked; n++)
			passed += hash_filter_may_have(filter, nth(cases[i].rows + n));
		if (passed > asked / cases[i].one_in)
			fail_msg("%zu: %zu of %zu pass", i, (size_t)passed, (size_t)asked);
		free(filter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_passes_and_little_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
