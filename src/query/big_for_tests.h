/* big_for_tests.h - questions to one recorded body, for the tests of this folder; failures end the
 * test. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "formats/formats.h"
#include "query/profiles_source.h"
#include "query/query.h"

static struct profiles *big;
static struct source *source;

static inline struct blob *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct blob *b = blob_new(1 << 20);

	assert_non_null(f);
	b->len = fread(b->ptr, 1, b->cap, f);
	fclose(f);
	return b;
}

static inline int open_big(void **state)
{
	struct blob *b = read_file("tests/fixtures/otlp/v1.11.0-oncpu-big.pb");
	struct err err;

	(void)state;
	if (!format_read(b, &big, &err))
		fail_msg("%s", err.msg);
	blob_unref(b);
	source = profiles_source_new(big);
	return 0;
}

static inline int close_big(void **state)
{
	(void)state;
	source_free(source);
	profiles_free(big);
	return 0;
}

static inline struct query *ask(const char *selector)
{
	struct query_request r = { .source = source, .selector = str_cstr(selector) };
	struct err err;
	struct query *q = query_begin(&r, &err);

	if (!q)
		fail_msg("%s", err.msg);
	return q;
}

#define MUST(call)                               \
	do {                                     \
		struct err err;                  \
		if (!(call))                     \
			fail_msg("%s", err.msg); \
	} while (0)

static inline int64_t total_of(struct query *q)
{
	struct query_top top;

	MUST(query_top(q, &top, &err));
	return top.total[0];
}

static const int64_t EVENTS = 1643, PERIOD = 20408163; /* tests/fixtures/otlp/README.md */
