/* page_file_test.c - rows read from pages are those that SQLite has; noise in one page costs that
 * page's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hash.h"
#include "store/db.h"
#include "store/salvage/page_file.h"

/* Rows short and long enough to go on in overflow pages, of every type. */
static const char FILL[] =
	"CREATE TABLE t(id INTEGER PRIMARY KEY, i, r, v, b);"
	"CREATE TABLE w(k TEXT, n INTEGER, b, PRIMARY KEY(k, n)) WITHOUT ROWID;"
	"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1500) "
	"INSERT INTO t SELECT n * 3, CASE n % 9 WHEN 0 THEN NULL WHEN 1 THEN 0 WHEN 2 THEN 1 ELSE "
	"(n * 2654435761) << (n % 40) END, n / 7.0, printf('%.*c', n % 97, 'x'), "
	"zeroblob(CASE WHEN n % 50 = 0 THEN n * 20 ELSE n % 5 END) FROM c;"
	"INSERT INTO w SELECT printf('%06d', id), -id, b FROM t;"
	"DELETE FROM t WHERE id % 21 = 0; DELETE FROM w WHERE n % 21 = 0;";

static uint64_t sum_sql(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s;
	uint64_t sum = 0;
	struct err err;

	assert_true(db_prepare(db, sql, &s, &err));
	while (sqlite3_step(s) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(s); i++) {
			int type = sqlite3_column_type(s, i);
			uint64_t bits = 0;
			double real;

			if (type == SQLITE_INTEGER) {
				bits = db_u64(s, i);
			} else if (type == SQLITE_FLOAT) {
				real = sqlite3_column_double(s, i);
				memcpy(&bits, &real, sizeof(bits));
			} else if (type != SQLITE_NULL) {
				bits = hash64(db_bytes(s, i));
			}
			sum += bits * (uint64_t)(i + 1) + (uint64_t)type * 1000003;
		}
	sqlite3_finalize(s);
	return sum;
}

static uint64_t sum_row(const struct page_row *row, bool table)
{
	static const int types[] = { [PAGE_NULL] = SQLITE_NULL,
				     [PAGE_INTEGER] = SQLITE_INTEGER,
				     [PAGE_REAL] = SQLITE_FLOAT,
				     [PAGE_BLOB] = SQLITE_BLOB,
				     [PAGE_TEXT] = SQLITE_TEXT };
	uint64_t sum = 0;

	for (uint32_t i = 0; i < row->count; i++) {
		const struct page_value *v = &row->values[i];
		bool id = table && i == 0;
		uint64_t bits = id ? (uint64_t)row->rowid : (uint64_t)v->integer;

		if (v->type == PAGE_REAL)
			memcpy(&bits, &v->real, sizeof(bits));
		if (v->type == PAGE_BLOB || v->type == PAGE_TEXT)
			bits = hash64(v->bytes);
		sum += bits * (i + 1) + (uint64_t)(id ? SQLITE_INTEGER : types[v->type]) * 1000003;
	}
	return sum;
}

struct read {
	uint64_t sum, rows;
};

static struct read read_tree(const struct page_file *f, uint32_t root, bool table)
{
	struct read out = { 0 };
	struct page_row row;
	struct arena arena;

	arena_init(&arena, 4096, 0);
	for (uint32_t page = 1; page <= f->page_count; page++) {
		if (f->owner[page] != root ||
		    f->kind[page] != (table ? PAGE_TABLE_LEAF : PAGE_INDEX))
			continue;
		for (uint32_t i = 0, n = page_cells(f, page); i < n; i++) {
			if (!page_row(f, page, i, &arena, &row))
				continue;
			out.sum += sum_row(&row, table);
			out.rows++;
		}
	}
	arena_release(&arena);
	return out;
}

static int64_t number(sqlite3 *db, const char *sql)
{
	struct err err;
	int64_t n;

	assert_true(db_number(db, sql, -1, &n, &err));
	return n;
}

static void make(const char *path, unsigned page_bytes, sqlite3 **db)
{
	struct err err;

	unlink(path);
	assert_int_equal(sqlite3_open(path, db), SQLITE_OK);
	assert_true(db_exec_f(*db, &err,
			      "PRAGMA page_size=%u; PRAGMA auto_vacuum=INCREMENTAL; "
			      "PRAGMA journal_mode=OFF; %s",
			      page_bytes, FILL));
}

static void rows_are_those_of_sqlite(void **state)
{
	static const unsigned sizes[] = { 512, 4096, 8192, 65536 };
	char path[] = "/tmp/page_file_testXXXXXX";

	(void)state;
	assert_true(close(mkstemp(path)) == 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct page_file f;
		struct read t, w;
		struct err err;
		sqlite3 *db;

		make(path, sizes[i], &db);
		assert_true(page_file_open(path, &f, &err));
		assert_int_equal(f.page_bytes, sizes[i]);
		t = read_tree(&f,
			      (uint32_t)number(db, "SELECT rootpage FROM sqlite_schema WHERE "
						   "name='t'"),
			      true);
		w = read_tree(&f,
			      (uint32_t)number(db, "SELECT rootpage FROM sqlite_schema WHERE "
						   "name='w'"),
			      false);
		assert_int_equal(t.rows, number(db, "SELECT count(*) FROM t"));
		assert_int_equal(w.rows, t.rows);
		assert_int_equal(t.sum, sum_sql(db, "SELECT * FROM t"));
		assert_int_equal(w.sum, sum_sql(db, "SELECT * FROM w"));
		page_file_close(&f);
		sqlite3_close(db);
	}
	unlink(path);
}

/* Of each page in turn: a row is lost only with its own page, or the one that it goes on in. */
static void noise_costs_its_own_page(void **state)
{
	char path[] = "/tmp/page_file_testXXXXXX";
	struct page_file whole, f;
	uint32_t root, most = 0;
	struct err err;
	sqlite3 *db;
	uint8_t *copy;

	(void)state;
	assert_true(close(mkstemp(path)) == 0);
	make(path, 4096, &db);
	root = (uint32_t)number(db, "SELECT rootpage FROM sqlite_schema WHERE name='t'");
	sqlite3_close(db);
	assert_true(page_file_open(path, &whole, &err));
	copy = malloc(whole.size);
	for (uint32_t page = 1; page <= whole.page_count; page++) {
		uint64_t rows, own = 0, all = read_tree(&whole, root, true).rows;

		memcpy(copy, whole.bytes, whole.size);
		for (uint32_t i = 0; i < 4096; i++)
			copy[(size_t)(page - 1) * 4096 + i] = (uint8_t)(i * 31 + 7 + page);
		page_file_of(str_from(copy, whole.size), &f);
		if (f.page_bytes != 4096) { /* the first page said so */
			page_file_close(&f);
			continue;
		}
		if (whole.owner[page] == root && whole.kind[page] == PAGE_TABLE_LEAF)
			own = page_cells(&whole, page);
		rows = read_tree(&f, root, true).rows;
		assert_true(rows <= all && rows + own + (own == 0) >= all);
		if (own)
			assert_int_equal(f.kind[page], PAGE_UNREADABLE);
		most += own > 0;
		page_file_close(&f);
	}
	assert_true(most > 10);
	free(copy);
	page_file_close(&whole);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_those_of_sqlite),
		cmocka_unit_test(noise_costs_its_own_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
