/* store_for_tests.h - a store in a directory of its own, for the tests of this folder; failures end
 * the test. */
#pragma once
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/db.h"
#include "store/store.h"
#include "store/write/writer.h"
#include "wire/otlp.h"
#include "wire_fixtures.h"

struct test_store {
	char dir[64], path[96];
	struct store_writer_options options;
	struct store_writer *w;
	struct store *reader;
	char aside[512];
};

static inline void test_store_open(struct test_store *t)
{
	struct err err;

	if (!store_writer_open(&t->options, &t->w, t->aside, &err))
		fail_msg("%s: %s", t->path, err.msg);
}

static inline void test_store_make(struct test_store *t)
{
	*t = (struct test_store){ .dir = "/tmp/flametap-store-XXXXXX" };
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->path, sizeof(t->path), "%s/test.db", t->dir);
	t->options.path = t->path;
	t->options.dedup_window_ns = 600 * (uint64_t)1000000000;
	t->options.durability = STORE_DURABLE_PROCESS;
	test_store_open(t);
}

static inline void test_store_reopen(struct test_store *t)
{
	store_writer_close(t->w);
	t->w = NULL;
	test_store_open(t);
}

static inline int test_store_remove_one(const char *path, const struct stat *st, int flag,
					struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline void test_store_remove(struct test_store *t)
{
	store_writer_close(t->w);
	nftw(t->dir, test_store_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* One request in a transaction of its own; was it new? */
static inline bool test_store_put_request(struct test_store *t, const struct store_request *r)
{
	bool duplicate;
	struct err err;

	if (!store_writer_begin(t->w, &err) || !store_writer_put(t->w, r, &duplicate, &err) ||
	    !store_writer_commit(t->w, &err))
		fail_msg("%s", err.msg);
	return !duplicate;
}

static inline bool test_store_put(struct test_store *t, const struct profiles *p, uint64_t number)
{
	return test_store_put_request(
		t, &(struct store_request){ .profiles = p,
					    .hash = { number, ~number },
					    .arrived_unix_ns = 1700000000000000000 + number });
}

/* A new one, of that time. */
static inline void test_store_put_at(struct test_store *t, const struct profiles *p,
				     uint64_t number, uint64_t arrived)
{
	assert_true(test_store_put_request(
		t, &(struct store_request){
			   .profiles = p, .hash = { number, 1 }, .arrived_unix_ns = arrived }));
}

/* options.now_unix_ns; its argument is the time. */
static inline uint64_t test_store_now(void *arg)
{
	return *(const uint64_t *)arg;
}

/* Upkeep, until there is nothing to do. */
static inline void test_store_upkeep(struct test_store *t)
{
	bool more = true;
	struct err err;

	for (int i = 0; more; i++) {
		if (!store_writer_upkeep(t->w, 0, &more, &err))
			fail_msg("%s", err.msg);
		assert_true(i < 100000);
	}
}

/* By a connection of its own. */
static inline void test_store_sql(const char *path, const char *sql)
{
	struct err err;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (!db_exec(db, sql, &err))
		fail_msg("%s: %s", sql, err.msg);
	sqlite3_close(db);
}

static inline int64_t test_store_number(const struct test_store *t, const char *sql)
{
	struct err err;
	sqlite3 *db;
	int64_t v;

	assert_int_equal(sqlite3_open_v2(t->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (!db_number(db, sql, -1, &v, &err))
		fail_msg("%s: %s", sql, err.msg);
	sqlite3_close(db);
	return v;
}

static inline struct source *test_store_read(struct test_store *t)
{
	struct store_open_options options = { .location = t->path };
	struct source *snap;
	struct err err;

	if (!store_open(&options, &t->reader, &err) || !store_begin(t->reader, &snap, &err))
		fail_msg("%s", err.msg);
	return snap;
}

static inline void test_store_end(struct test_store *t, struct source *snap)
{
	source_free(snap);
	store_close(t->reader);
	t->reader = NULL;
}

static inline struct profiles *test_fixture(const char *name)
{
	const struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct blob *body;
	struct err err;

	body = fixture_read(name, ".pb");
	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	blob_unref(body);
	return p;
}
