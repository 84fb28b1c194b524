/* feed_test.c - what is in memory arrives in a table as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "store/write/feed.h"

struct fed_db {
	sqlite3 *db;
	struct feed feed;
};

static void open_fed(struct fed_db *x, const char *columns)
{
	struct err err;

	assert_int_equal(sqlite3_open(":memory:", &x->db), SQLITE_OK);
	x->feed = (struct feed){ 0 };
	assert_true(feed_attach(&x->feed, x->db, &err));
	assert_true(db_exec_f(x->db, &err, "CREATE TABLE t(%s)", columns));
}

static int64_t number(struct fed_db *x, const char *sql)
{
	struct err err;
	int64_t n;

	assert_true(db_number(x->db, sql, -1, &n, &err));
	return n;
}

static void values_of_all_types(void **state)
{
	static const struct {
		struct feed_value value;
		const char *want; /* quote(v) */
	} cases[] = {
		{ { .type = FEED_NULL }, "NULL" },
		{ { .type = FEED_INTEGER, .number = INT64_MIN }, "-9223372036854775808" },
		{ { .type = FEED_INTEGER }, "0" },
		{ { .type = FEED_REAL, .real = 1.5 }, "1.5" },
		{ { .type = FEED_TEXT, .ptr = "it's", .len = 4 }, "'it''s'" },
		{ { .type = FEED_TEXT, .ptr = "", .len = 0 }, "''" },
		{ { .type = FEED_BLOB, .ptr = "\0\1", .len = 2 }, "X'0001'" },
		{ { .type = FEED_BLOB, .ptr = "", .len = 0 }, "X''" },
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
	struct feed_value rows[COUNT][2];
	struct fed_db x;
	sqlite3_stmt *s;
	struct err err;

	(void)state;
	open_fed(&x, "id INTEGER PRIMARY KEY, v, more");
	for (size_t i = 0; i < COUNT; i++) {
		rows[i][0] = feed_number(i);
		rows[i][1] = cases[i].value;
	}
	x.feed = (struct feed){ .values = rows[0], .rows = COUNT, .columns = 2 };
	/* A column that the rows do not have is NULL. */
	assert_true(db_exec(x.db, "INSERT INTO t SELECT c0, c1, c2 FROM feed", &err));
	assert_int_equal(number(&x, "SELECT count(*) FROM t WHERE more IS NULL"), COUNT);
	assert_true(db_prepare(x.db, "SELECT quote(v) FROM t ORDER BY id", &s, &err));
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(sqlite3_step(s), SQLITE_ROW);
		assert_string_equal((const char *)sqlite3_column_text(s, 0), cases[i].want);
	}
	assert_int_equal(sqlite3_step(s), SQLITE_DONE);
	sqlite3_finalize(s);
	sqlite3_close(x.db);
}

static void one_statement_many_feeds(void **state)
{
	struct feed_value one[1] = { feed_number(1) }, two[2] = { feed_number(2), feed_number(3) };
	struct fed_db x;
	sqlite3_stmt *s;
	struct err err;

	(void)state;
	open_fed(&x, "v UNIQUE");
	assert_true(db_prepare(x.db, "INSERT INTO t SELECT c0 FROM feed", &s, &err));
	assert_true(db_run(x.db, s, &err, "nothing"));
	x.feed = (struct feed){ .values = one, .rows = 1, .columns = 1 };
	assert_true(db_run(x.db, s, &err, "one"));
	assert_false(db_run(x.db, s, &err, "one again"));
	assert_non_null(strstr(err.msg, "one again"));
	x.feed = (struct feed){ .values = two, .rows = 2, .columns = 1 };
	assert_true(db_run(x.db, s, &err, "two"));
	assert_int_equal(number(&x, "SELECT sum(v) FROM t"), 6);
	sqlite3_finalize(s);
	sqlite3_close(x.db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_all_types),
		cmocka_unit_test(one_statement_many_feeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
