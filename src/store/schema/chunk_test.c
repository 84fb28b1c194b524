/* chunk_test.c - cells: what goes in comes out, in the fewest bytes; broken rows are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "store/schema/chunk.h"

enum { MOST = 4 };
static const struct {
	uint64_t v[MOST];
	uint32_t n;
	size_t number_bytes, id_bytes;
} cases[] = {
	{ { 0 }, 1, 0, 0 },
	{ { 7 }, 1, 0, 1 },
	{ { 7, 7, 7, 7 }, 4, 0, 4 },
	{ { 0, 7, 0, 0 }, 4, 4, 4 },
	{ { 1000, 1255, 1001 }, 3, 3, 6 },
	{ { 1000, 1256 }, 2, 4, 4 },
	{ { 1, (uint64_t)1 << 40 }, 2, 10, 12 },
	{ { (uint64_t)-1, 1 }, 2, 2, 16 },
	{ { (uint64_t)INT64_MIN, INT64_MAX, 0, 1 }, 4, 32, 32 },
	{ { UINT64_MAX, UINT64_MAX }, 2, 0, 2 },
	{ { UINT64_MAX, UINT64_MAX - 1, 0 }, 3, 3, 3 },
};

static struct cells cells_of(const struct packed_cells *p, uint32_t n)
{
	const uint8_t *bytes = (const uint8_t *)p->bytes.ptr;

	assert_int_equal(p->bytes.len % n, 0);
	return (struct cells){ bytes, bytes + p->bytes.len, p->base, (unsigned)(p->bytes.len / n) };
}

static void cells_come_back(void **state)
{
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct packed_cells numbers = cells_pack_numbers(&arena, cases[i].v, cases[i].n);
		struct packed_cells ids = cells_pack_ids(&arena, cases[i].v, cases[i].n);
		struct cells a = cells_of(&numbers, cases[i].n), b = cells_of(&ids, cases[i].n);

		if (numbers.bytes.len != cases[i].number_bytes ||
		    ids.bytes.len != cases[i].id_bytes)
			fail_msg("case %zu: %zu and %zu bytes", i, numbers.bytes.len,
				 ids.bytes.len);
		for (uint32_t k = 0; k < cases[i].n; k++)
			if (cells_number(&a, k) != cases[i].v[k] ||
			    cells_id(&b, k) != cases[i].v[k])
				fail_msg("case %zu, cell %u: %llu and %llu", i, k,
					 (unsigned long long)cells_number(&a, k),
					 (unsigned long long)cells_id(&b, k));
	}
	arena_release(&arena);
}

/* Rows that no writer makes: seq, bucket, n, last, runs, run_seq, run_first, series0, series, dt0,
 * dt, form0, form, value0, value, more. */
static const struct {
	const char *row;
	bool ok;
} rows[] = {
	{ "1, 2, 3, 9, 1, NULL, NULL, 4, NULL, 0, x'000102', 0, NULL, 1, NULL, NULL", true },
	{ "1, 2, 3, 9, 2, x'0002', x'0001', 4, x'0102', 0, x'000102', 0, NULL, 1, NULL, NULL",
	  true },
	{ "1, 2, 0, 9, 1, NULL, NULL, 4, NULL, 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, -1, 9, 1, NULL, NULL, 4, NULL, 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 4097, 9, 1, NULL, NULL, 4, NULL, 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 4, NULL, NULL, 4, NULL, 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 0, NULL, NULL, 4, NULL, 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 1, NULL, NULL, 4, NULL, 0, x'0001', 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 1, 9, 1, NULL, NULL, 4, NULL, 0, zeroblob(9), 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 2, x'0002', x'0101', 4, x'0102', 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 2, x'0002', x'0003', 4, x'0102', 0, NULL, 0, NULL, 1, NULL, NULL", false },
	{ "1, 2, 3, 9, 3, x'000204', x'000201', 4, x'010203', 0, NULL, 0, NULL, 1, NULL, NULL",
	  false },
	{ "1, 2, 3, 9, 2, x'0002', NULL, 4, x'0102', 0, NULL, 0, NULL, 1, NULL, NULL", false },
};

static void broken_rows_are_told(void **state)
{
	sqlite3 *db;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		sqlite3_stmt *s;
		char sql[400];
		struct chunk c;
		struct err err;
		bool row;

		snprintf(sql, sizeof(sql), "SELECT %s", rows[i].row);
		assert_true(db_prepare(db, sql, &s, &err) && db_step(db, s, &row, &err, "a row"));
		if (chunk_read(s, &c, &err) != rows[i].ok)
			fail_msg("%s", rows[i].row);
		assert_true(!rows[i].ok || (c.n == 3 && !cells_id(&c.stack, 2)));
		sqlite3_finalize(s);
	}
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_come_back),
		cmocka_unit_test(broken_rows_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
