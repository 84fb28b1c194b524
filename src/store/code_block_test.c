/* code_block_test.c - blocks of code say what their rows say, stay few, and are dropped with what
 * they describe; a damaged one changes no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/builder.h"
#include "store/check.h"
#include "store/code_block.h"
#include "store/store_for_tests.h"

enum { AT_ONCE = 300 };

/* ---- what is put: stacks of ten of the locations from `first` on ---- */

static struct function_index function_of(struct builder *b, uint32_t i)
{
	char name[32], file[32];
	struct function f = { .start_line = (int64_t)i * 3 - 40 };

	snprintf(name, sizeof(name), "function_%u", i);
	snprintf(file, sizeof(file), "file_%u.c", i % 7);
	f.name = builder_string(b, str_cstr(name));
	if (i % 3)
		f.system_name = f.name;
	f.filename = builder_string(b, str_cstr(file));
	return builder_function(b, &f);
}

static struct location_index location_of(struct builder *b, uint32_t i)
{
	struct mapping m = { .memory_start = 0x400000, .memory_limit = 0x800000 };
	struct line lines[2] = { { .line = (int64_t)i - 9, .column = i % 5 }, { .line = 7 } };
	struct location l = { .address = UINT64_C(0xffffffff80000000) * (i & 1) + i };

	m.filename = builder_string(b, str_cstr(i % 2 ? "/bin/a" : "/bin/b"));
	l.mapping = builder_mapping(b, &m, NULL, 0);
	lines[0].function = function_of(b, i % 97);
	lines[1].function = function_of(b, i % 89);
	return builder_location(b, &l, lines, i % 3, NULL, 0);
}

static struct profiles *message_of(uint32_t first, uint32_t count, uint64_t time)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct profiles *p;
	struct err err;

	builder_begin_resource(b);
	builder_begin_scope(b);
	builder_begin_profile(b)->time_unix_nano = time;
	for (uint32_t i = 0; i < count; i += 10) {
		struct location_index at[10];
		int64_t value = 1;

		for (uint32_t k = 0; k < 10; k++)
			at[k] = location_of(b, first + i + k);
		builder_sample(b, builder_stack(b, at, 10), (struct link_index){ 0 }, NULL, 0,
			       &value, 1, NULL, 0);
	}
	p = builder_finish(b, &err);
	if (!p)
		fail_msg("%s", err.msg);
	return p;
}

static void put_locations(struct test_store *t, uint32_t first, uint64_t arrived)
{
	struct profiles *p = message_of(first, AT_ONCE, arrived);

	test_store_put_at(t, p, first, arrived);
	profiles_free(p);
}

/* ---- what is read ---- */

struct told {
	struct buf text;
	uint32_t count, most;
};

static void put_text(struct buf *b, struct str s)
{
	buf_char(b, ' ');
	buf_str(b, s);
}

static bool tell(void *arg, const struct source_location *l, struct err *err)
{
	struct told *t = arg;

	buf_printf(&t->text, "%llu %llx %llx", (unsigned long long)l->id,
		   (unsigned long long)l->address, (unsigned long long)l->mapping_limit);
	put_text(&t->text, l->frame_type);
	put_text(&t->text, l->mapping);
	for (uint32_t i = 0; i < l->line_count; i++) {
		const struct source_line *x = &l->lines[i];

		put_text(&t->text, x->function);
		put_text(&t->text, x->system_name);
		put_text(&t->text, x->file);
		buf_printf(&t->text, " %lld %lld %lld", (long long)x->line, (long long)x->column,
			   (long long)x->start_line);
	}
	buf_char(&t->text, '\n');
	return ++t->count < t->most || err_set(err, ERR_CANCELLED, "enough");
}

/* Every step-th location of the store, at most `most` of them, in words. */
static struct told locations_of(struct test_store *t, uint32_t step, uint32_t most)
{
	struct told told = { .most = most };
	struct source *snap;
	sqlite3_stmt *s = NULL;
	uint64_t *ids = NULL;
	size_t count = 0, cap = 0;
	struct err err;
	sqlite3 *db;

	buf_init(&told.text, 0);
	assert_int_equal(sqlite3_open_v2(t->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_true(db_prepare(db, "SELECT id FROM location ORDER BY id", &s, &err));
	for (uint32_t i = 0; sqlite3_step(s) == SQLITE_ROW; i++) {
		if (i % step)
			continue;
		if (count == cap) {
			cap = cap ? cap * 2 : 64;
			ids = realloc(ids, cap * sizeof(*ids));
			assert_non_null(ids);
		}
		ids[count++] = db_u64(s, 0);
	}
	sqlite3_finalize(s);
	sqlite3_close(db);
	snap = test_store_read(t);
	if (!source_locations(snap, ids, (uint32_t)count, tell, &told, &err) && told.count < most)
		fail_msg("%s", err.msg);
	test_store_end(t, snap);
	free(ids);
	return told;
}

static void fail_with(void *arg, const char *finding)
{
	(void)arg;
	fail_msg("%s", finding);
}

static void count_findings(void *arg, const char *finding)
{
	(void)finding;
	++*(int *)arg;
}

static void assert_whole(const struct test_store *t)
{
	struct err err;

	if (!store_check(t->path, fail_with, NULL, &err))
		fail_msg("%s", err.msg);
}

static const uint32_t ways[][2] = {
	{ 1, UINT32_MAX }, { 3, UINT32_MAX }, { 40, UINT32_MAX }, { 1, 500 }
};

/* Whatever is asked for, blocks give what rows give; so do damaged ones, and none. */
static void test_blocks_say_what_rows_say(void **state)
{
	static const char *const damage[] = {
		"UPDATE code_block SET bytes=substr(bytes, 1, 100) || x'07' || substr(bytes, 102)",
		"UPDATE code_block SET last=last + 1",
		"UPDATE code_block SET bytes=zeroblob(0)",
	};
	struct told want[ARRAY_LEN(ways)];
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	for (uint32_t i = 0; i < 5; i++)
		put_locations(&t, i * AT_ONCE, i);
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		want[i] = locations_of(&t, ways[i][0], ways[i][1]);
	assert_int_equal(want[0].count, 5 * AT_ONCE);
	assert_int_equal(test_store_number(&t, "SELECT count(*) FROM code_block"), 0);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"), 5 * AT_ONCE);
	assert_whole(&t);
	for (size_t k = 0; k <= ARRAY_LEN(damage); k++) {
		for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
			struct told got = locations_of(&t, ways[i][0], ways[i][1]);

			assert_int_equal(got.count, want[i].count);
			assert_int_equal(got.text.len, want[i].text.len);
			assert_memory_equal(got.text.ptr, want[i].text.ptr, got.text.len);
			buf_release(&got.text);
		}
		if (k < ARRAY_LEN(damage)) {
			int findings = 0;

			test_store_sql(t.path, damage[k]);
			assert_true(store_check(t.path, count_findings, &findings, &err));
			assert_int_equal(findings, 1);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		buf_release(&want[i].text);
	test_store_remove(&t);
}

/* Blocks swallow smaller ones: there are few, and little is written twice. */
static void test_blocks_stay_few(void **state)
{
	const uint32_t bodies = 20;
	uint64_t now = UINT64_C(1800000000) * 1000000000;
	struct test_store t;

	(void)state;
	test_store_make(&t);
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	for (uint32_t i = 0; i < bodies; i++) {
		put_locations(&t, i * AT_ONCE, now);
		test_store_reopen(&t); /* which makes them, too */
		assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"),
				 (i + 1) * AT_ONCE);
		assert_true(test_store_number(&t, "SELECT count(*) FROM code_block") <= 6);
	}
	assert_whole(&t);

	/* A hole in the middle gets one again, of what is left there. */
	test_store_sql(t.path, "DELETE FROM code_block WHERE first<=300 AND last>=300");
	test_store_reopen(&t);
	assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"), bodies * AT_ONCE);
	assert_whole(&t);
	test_store_remove(&t);
}

/* Retention takes the code of old stacks, and what blocks say of it. */
static void test_swept_code_leaves_its_blocks(void **state)
{
	uint64_t now = UINT64_C(1800000000) * 1000000000, hour = UINT64_C(3600) * 1000000000;
	struct test_store t;
	struct told kept;

	(void)state;
	test_store_make(&t);
	t.options.retention_ns = 24 * hour;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	put_locations(&t, 0, now);
	put_locations(&t, AT_ONCE, now);
	test_store_upkeep(&t);
	now += 20 * hour;
	put_locations(&t, AT_ONCE / 2, now);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"), 2 * AT_ONCE);
	now += 5 * hour;
	test_store_reopen(&t); /* the next look is due at once */
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT count(*) FROM location"), AT_ONCE);
	assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"), AT_ONCE);
	assert_int_equal(test_store_number(&t, "SELECT first FROM code_block"), 1);
	assert_whole(&t);
	now += 24 * hour;
	test_store_reopen(&t);
	put_locations(&t, 7 * AT_ONCE, now);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT count(*) FROM location"), AT_ONCE);
	assert_int_equal(test_store_number(&t, "SELECT sum(n) FROM code_block"), AT_ONCE);
	assert_whole(&t);
	kept = locations_of(&t, 1, UINT32_MAX);
	assert_int_equal(kept.count, AT_ONCE);
	buf_release(&kept.text);
	test_store_remove(&t);
}

/* Bytes cut anywhere, and numbers beyond their tables, end the reading and nothing else. */
static void test_bad_bytes(void **state)
{
	struct code_block_row made;
	struct test_store t;
	struct err err;
	sqlite3 *db;

	(void)state;
	test_store_make(&t);
	put_locations(&t, 0, 1);
	assert_int_equal(sqlite3_open_v2(t.path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	buf_init(&made.bytes, 0);
	if (!code_block_build(db, 1, AT_ONCE, &made, &err))
		fail_msg("%s", err.msg);
	sqlite3_close(db);
	assert_int_equal(made.n, AT_ONCE);
	for (size_t len = 0; len < made.bytes.len; len += len < 64 ? 1 : 13) {
		struct str cut = str_from(made.bytes.ptr, len);
		char *own = malloc(len + 1);
		struct code_location l;
		struct code_block b;
		uint32_t n = 0;
		bool ok;

		assert_non_null(own);
		memcpy(own, cut.ptr, len);
		ok = code_block_open(&b, 1, str_from(own, len));
		while (ok && code_block_next(&b, &l, &ok))
			n++;
		assert_true(n < AT_ONCE);
		code_block_close(&b);
		memset(own + len / 2, 0xff, len - len / 2);
		ok = code_block_open(&b, 1, str_from(own, len));
		while (ok && code_block_next(&b, &l, &ok))
			n++;
		assert_true(!ok || len < 4);
		code_block_close(&b);
		free(own);
	}
	buf_release(&made.bytes);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks_say_what_rows_say),
		cmocka_unit_test(test_blocks_stay_few),
		cmocka_unit_test(test_swept_code_leaves_its_blocks),
		cmocka_unit_test(test_bad_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
