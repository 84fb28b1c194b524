/* store_for_tests.h - a store in a directory of its own, for the tests of this folder; failures end
 * the test. */
#pragma once
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/reader.h"
#include "store/writer.h"
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
static inline bool test_store_put(struct test_store *t, const struct profiles *p, uint64_t number)
{
	struct store_request r = { .profiles = p,
				   .hash = { number, ~number },
				   .arrived_unix_ns = 1700000000000000000 + number };
	bool duplicate;
	struct err err;

	if (!store_writer_begin(t->w, &err) || !store_writer_put(t->w, &r, &duplicate, &err) ||
	    !store_writer_commit(t->w, &err))
		fail_msg("%s", err.msg);
	return !duplicate;
}

static inline struct store_snapshot *test_store_read(struct test_store *t)
{
	struct store_open_options options = { .location = t->path };
	struct store_snapshot *snap;
	struct err err;

	if (!store_open(&options, &t->reader, &err) || !store_begin(t->reader, &snap, &err))
		fail_msg("%s", err.msg);
	return snap;
}

static inline void test_store_end(struct test_store *t, struct store_snapshot *snap)
{
	store_end(snap);
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
