/* salvage_test.c - times, hashes and names of a store for the one that is made of it: those that
 * are whole, those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "store/salvage.h"
#include "store/store_for_tests.h"

static const uint64_t START = 1700000000000000000; /* test_store_put() counts from there */

static struct store_salvage *begin(const struct test_store *t)
{
	struct store_salvage *s;
	struct err err;

	if (!store_salvage_open(t->path, &s, &err))
		fail_msg("%s", err.msg);
	return s;
}

static void origins_are_read_where_they_are_whole(void **state)
{
	static const struct {
		const char *sql; /* done to it */
		bool ok, now;
	} cases[] = {
		{ "SELECT 1", true, false },
		{ "UPDATE request SET arrived=0", false, false },
		{ "UPDATE request SET arrived=CAST('x' AS BLOB)", false, false },
		{ "UPDATE request SET hash=x'0011'", false, false },
		{ "UPDATE request SET arrived=9223372036854775807", true, true },
		{ "DELETE FROM request", false, false },
	};
	struct profiles *p = test_fixture("v1.11.0-oncpu-start");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store_request r = { .hash = { 1, 2 }, .arrived_unix_ns = 3 };
		uint64_t before = clock_realtime_ns();
		struct store_salvage *s;
		struct test_store t;

		test_store_make(&t);
		test_store_put(&t, p, 7);
		test_store_sql(t.path, cases[i].sql);
		s = begin(&t);
		assert_int_equal(store_salvage_requests(s), cases[i].sql[0] != 'D');
		if (store_salvage_origin(s, 1, &r) != cases[i].ok)
			fail_msg("%s: not %d", cases[i].sql, cases[i].ok);
		assert_int_equal(r.hash.lo, cases[i].ok ? 7 : 1);
		assert_int_equal(r.hash.hi, cases[i].ok ? ~UINT64_C(7) : 2);
		if (cases[i].now)
			assert_in_range(r.arrived_unix_ns, before, clock_realtime_ns());
		else
			assert_int_equal(r.arrived_unix_ns, cases[i].ok ? START + 7 : 3);
		assert_false(store_salvage_origin(s, 2, &r));
		store_salvage_close(s);
		test_store_remove(&t);
	}
	profiles_free(p);
}

/* Readers take lines apart as SQLite's JSON: what is none would fail their questions. */
static void names_are_kept_that_readers_can_use(void **state)
{
	static const struct {
		const char *values;
		bool ok;
	} cases[] = {
		{ "'b', 1, '[[\"f\",\"\",\"f.c\",1,0,0]]'", true },
		{ "'b', -1, '[]'", true }, /* the highest address, looked for in vain */
		{ "'b', 1, 'x'", false },
		{ "'b', 1, '[\"x\"]'", false },
		{ "'b', 1, x'5b5d'", false },
		{ "'b', 'x', '[]'", false },
		{ "x'62', 1, '[]'", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store_salvaged_names names = { 0 };
		struct store_salvage *s;
		struct test_store from, to;
		struct err err;
		char sql[200];

		test_store_make(&from);
		test_store_make(&to);
		snprintf(sql, sizeof(sql),
			 "INSERT INTO symbol VALUES(%s); INSERT INTO symbol VALUES('c', 2, '[]')",
			 cases[i].values);
		test_store_sql(from.path, sql);
		test_store_sql(to.path, "INSERT INTO symbol VALUES('c', 2, '[[\"mine\"]]')");
		s = begin(&from);
		if (!store_salvage_names(s, to.path, &names, &err))
			fail_msg("%s: %s", cases[i].values, err.msg);
		if (names.addresses != (cases[i].ok ? 1 : 0) ||
		    names.lost != (cases[i].ok ? 0 : 1) || names.cut)
			fail_msg("%s: %d kept, %d lost", cases[i].values, (int)names.addresses,
				 (int)names.lost);
		snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM symbol WHERE (build_id, address, lines) IN "
			 "(VALUES(%s), ('c', 2, '[[\"mine\"]]'))",
			 cases[i].values);
		assert_int_equal(test_store_number(&to, sql), cases[i].ok + 1);
		store_salvage_close(s);
		test_store_remove(&from);
		test_store_remove(&to);
	}
}

static void what_cannot_be_opened_or_written_says_so(void **state)
{
	struct store_salvaged_names names = { 5, 5, true };
	struct store_salvage *s;
	struct test_store t;
	struct err err;

	(void)state;
	assert_false(store_salvage_open("/nowhere/at.db", &s, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	test_store_make(&t);
	s = begin(&t);
	assert_false(store_salvage_names(s, "/nowhere/at.db", &names, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	assert_int_equal(names.addresses, 5);
	store_salvage_close(s);
	store_salvage_close(NULL);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(origins_are_read_where_they_are_whole),
		cmocka_unit_test(names_are_kept_that_readers_can_use),
		cmocka_unit_test(what_cannot_be_opened_or_written_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
