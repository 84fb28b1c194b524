#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "net/server_internal.h"

enum { LIMIT = 1000000 };

static const struct {
	size_t announced; /* SIZE_MAX = not */
	size_t len, piece;
	size_t budget_bytes; /* 0 = no limit */
	enum body_verdict want;
	size_t charged_most; /* at any time */
} cases[] = {
	{ 0, 0, 1, 0, BODY_OK, 0 },
	{ 111000, 111000, 16384, 0, BODY_OK, 111000 },
	{ SIZE_MAX, 111000, 16384, 0, BODY_OK, 111000 + 65536 },
	{ SIZE_MAX, LIMIT, 1000, 0, BODY_OK, LIMIT },
	{ SIZE_MAX, LIMIT + 1, 1000, 0, BODY_TOO_LARGE, LIMIT },
	{ LIMIT, 1, 1, 0, BODY_OK, 4096 }, /* an announcement alone costs little */
	{ LIMIT, 70000, 100, 0, BODY_OK, 131072 },
	{ 100, 200, 50, 0, BODY_OK, 4096 }, /* a lie about the length is only a hint here */
	{ 500000, 500000, 10000, 200000, BODY_NO_MEMORY, 200000 },
	{ SIZE_MAX, 500000, 10000, 200000, BODY_NO_MEMORY, 200000 },
};

static void test_bodies(void **state)
{
	char *data = malloc(LIMIT + 1);

	(void)state;
	for (size_t i = 0; i < LIMIT + 1; i++)
		data[i] = (char)(i * 7 >> 2);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct body_in b = { .announced = cases[i].announced };
		struct str rest = str_from(data, cases[i].len);
		enum body_verdict verdict = BODY_OK;
		struct budget budget;
		struct blob *blob;

		budget_init(&budget, cases[i].budget_bytes);
		while (rest.len && verdict == BODY_OK) {
			struct str piece = str_head(rest, cases[i].piece);

			rest = str_skip(rest, piece.len);
			verdict = body_append(&b, piece, LIMIT, &budget);
		}
		if (verdict != cases[i].want ||
		    atomic_load(&budget.peak_bytes) > cases[i].charged_most)
			fail_msg("row %zu: verdict %d, %zu charged", i, verdict,
				 atomic_load(&budget.peak_bytes));
		blob = body_take(&b);
		if (verdict == BODY_OK) {
			assert_int_equal(blob->len, cases[i].len);
			assert_true(budget_used(&budget) >= cases[i].len);
			assert_memory_equal(blob->ptr, data, cases[i].len);
		}
		blob_unref(blob);
		assert_int_equal(budget_used(&budget), 0);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_bodies) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
