/* store_test.c - what goes into an SQLite store comes out of it: whole requests, dedup, ids,
 * refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/equal.h"
#include "store/reader.h"
#include "store/store_for_tests.h"
#include "wire_fixtures.h"

static void assert_same(const struct profiles *got, const struct profiles *want, const char *name)
{
	struct err why;

	if (!profiles_equal(want, got, 0, &why))
		fail_msg("%s: %s", name, why.msg);
	assert_int_equal(got->source_version, want->source_version);
	assert_int_equal(got->unknown_field_count, want->unknown_field_count);
}

/* Every fixture in one store, twice opened, gives back each as it came, in order. */
static void test_fixtures_come_back(void **state)
{
	struct test_store t;
	struct err err;
	struct profiles *in[ARRAY_LEN(wire_fixtures)];
	struct store_snapshot *snap;
	uint64_t seq = 0;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		in[i] = test_fixture(wire_fixtures[i]);
		test_store_put(&t, in[i], 1000 + i);
		if (i % 7 == 0)
			test_store_reopen(&t);
	}
	snap = test_store_read(&t);
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		struct profiles *out;

		if (!store_next_request(snap, seq, 0, &seq, &out, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		assert_non_null(out);
		assert_same(out, in[i], wire_fixtures[i]);
		profiles_free(out);
		profiles_free(in[i]);
	}
	test_store_end(&t, snap);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
