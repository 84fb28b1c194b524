/* salvage_test.c - what becomes of rows that are lost or damaged: the new store is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "store/salvage/check.h"
#include "store/salvage/salvage.h"
#include "store/store_for_tests.h"

static void fail_of_finding(void *arg, const char *finding)
{
	fail_msg("%s: %s", (const char *)arg, finding);
}

static void count_pages(void *arg, uint32_t pages, uint32_t of)
{
	uint32_t *seen = arg;

	assert_in_range(pages, *seen + 1, of);
	*seen = pages;
}

#define EMPTY_STACKS "SELECT count(*) > 0 FROM stack WHERE locations IS NULL"
#define NAMES        "SELECT count(*) FROM symbol"

static const struct {
	const char *damage, *asked;
	int64_t wanted;
} cases[] = {
	{ "SELECT 1", "SELECT length(hash) FROM request", 16 },
	{ "SELECT 1", "SELECT arrived - 1700000000000000000 FROM request", 7 },
	{ "UPDATE request SET arrived=0", "SELECT length(hash) FROM request", 0 },
	{ "UPDATE request SET hash=x'0011'", "SELECT length(hash) FROM request", 0 },
	{ "UPDATE request SET hash=x'0011'", "SELECT arrived > 1700000000000000007 FROM request",
	  1 },
	{ "UPDATE request SET arrived=9223372036854775807", "SELECT length(hash) FROM request",
	  16 },
	{ "UPDATE request SET arrived=9223372036854775807",
	  "SELECT arrived < 9000000000000000000 FROM request", 1 },
	{ "DELETE FROM profile", "SELECT count(*) FROM request", 0 },
	{ "DELETE FROM profile", "SELECT count(*) > 0 FROM samples", 1 },
	{ "DELETE FROM request", "SELECT count(*) FROM profile", 0 },
	{ "DELETE FROM bucket; DELETE FROM chunk_link", "SELECT sum(n) > 0 FROM bucket", 1 },
	{ "UPDATE chunk SET checksum=checksum + 1", "SELECT count(*) FROM chunk", 0 },
	{ "SELECT 1", EMPTY_STACKS, 0 },
	{ "DELETE FROM stack", EMPTY_STACKS, 1 },
	{ "UPDATE stack SET locations=x'80'", EMPTY_STACKS, 1 },
	{ "UPDATE stack SET locations=x'ffffffff7f'", EMPTY_STACKS, 1 },
	{ "DELETE FROM series; DELETE FROM string; DELETE FROM attribute; DELETE FROM attrset",
	  "SELECT count(DISTINCT type) = count(DISTINCT series_id) FROM samples", 1 },
	{ "INSERT INTO symbol VALUES('b', 1, '[[\"f\",\"\",\"f.c\",1,0,0]]')", NAMES, 1 },
	{ "INSERT INTO symbol VALUES('b', -1, '[]')", NAMES, 1 },
	{ "INSERT INTO symbol VALUES('b', 1, 'x')", NAMES, 0 },
	{ "INSERT INTO symbol VALUES('b', 1, '[\"x\"]')", NAMES, 0 },
	{ "INSERT INTO symbol VALUES('b', 1, x'5b5d')", NAMES, 0 },
	{ "INSERT INTO symbol VALUES(x'62', 1, '[]')", NAMES, 0 },
};

/* It is whole, answers, takes more, and gives every request that it says it has. */
static void assert_usable(struct test_store *saved, const struct store_salvaged *s,
			  const struct profiles *p, const char *damage)
{
	struct profiles *out = NULL;
	uint64_t seq = 0, requests = 0;
	struct source *snap;
	struct err err;

	if (!store_check(saved->path, fail_of_finding, (void *)damage, &err))
		fail_msg("%s: %s", damage, err.msg);
	test_store_open(saved);
	assert_true(test_store_put(saved, p, 1000));
	snap = test_store_read(saved);
	while (true) {
		if (!snap->ops->next_request(snap, seq, &seq, &out, &err))
			fail_msg("%s: %s", damage, err.msg);
		if (!out)
			break;
		profiles_free(out);
		requests++;
	}
	assert_int_equal(requests, s->requests + 1);
	test_store_end(saved, snap);
	store_writer_close(saved->w);
	saved->w = NULL;
}

static void what_is_lost_or_damaged_is_mended(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-synthetic-offcpu-links");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct store_salvaged s = { 0 };
		struct test_store t, saved;
		uint32_t pages = 0;
		struct err err;

		test_store_make(&t);
		test_store_put(&t, p, 7);
		store_writer_close(t.w);
		t.w = NULL;
		test_store_sql(t.path, cases[i].damage);
		saved = t;
		snprintf(saved.path, sizeof(saved.path), "%s/saved.db", t.dir);
		saved.options.path = saved.path;
		if (!store_salvage(t.path, saved.path, count_pages, &pages, &s, &err))
			fail_msg("%s: %s", cases[i].damage, err.msg);
		assert_int_equal(pages, test_store_number(&t, "PRAGMA page_count"));
		assert_int_equal(s.lost_pages.len, 0);
		if (test_store_number(&saved, cases[i].asked) != cases[i].wanted)
			fail_msg("%s: %s is %lld", cases[i].damage, cases[i].asked,
				 (long long)test_store_number(&saved, cases[i].asked));
		assert_usable(&saved, &s, p, cases[i].damage);
		buf_release(&s.lost_pages);
		test_store_remove(&t);
	}
	profiles_free(p);
}

static void what_is_no_store_leaves_nothing_behind(void **state)
{
	struct store_salvaged s = { 0 };
	uint32_t pages = 0;
	struct test_store t;
	char to[100];
	struct err err;

	(void)state;
	test_store_make(&t);
	snprintf(to, sizeof(to), "%s/saved.db", t.dir);
	assert_false(store_salvage("/nowhere/at.db", to, count_pages, &pages, &s, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	assert_false(store_salvage("/proc/self/exe", to, count_pages, &pages, &s, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	assert_int_not_equal(access(to, F_OK), 0);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lost_or_damaged_is_mended),
		cmocka_unit_test(what_is_no_store_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
