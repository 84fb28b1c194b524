/*
 * rows_for_tests.h - messages written down as rows, and answers as text: the tables of the tests of
 * this folder's rooms. Failures end the test.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "model/builder.h"
#include "query/profiles_source.h"
#include "query/query.h"

#define SECOND UINT64_C(1000000000)
#define BEGIN  (1700000000 * SECOND)

/* A sample; NULL: it does not say. */
struct test_row {
	const char *service; /* of its resource */
	const char *thread;  /* thread.name, of itself */
	const char *stack;   /* "root;child;leaf", "" for none */
	int64_t value;
	uint64_t at_s;    /* its time, in seconds after BEGIN */
	const char *type; /* "cpu" in nanoseconds where it is NULL, else in bytes */
};
enum { TEST_FRAMES_MOST = 16 };

static inline struct stack_index test_stack(struct builder *b, const char *text)
{
	struct location_index of[TEST_FRAMES_MOST];
	struct str rest = str_cstr(text), name;
	uint32_t count = 0;

	while (str_split(&rest, ';', &name)) {
		struct function f = { .name = builder_string(b, name) };
		struct line line = { .function = builder_function(b, &f) };
		struct location l = { 0 };

		assert_true(count < TEST_FRAMES_MOST);
		/* Leaf first. */
		of[TEST_FRAMES_MOST - ++count] = builder_location(b, &l, &line, 1, NULL, 0);
	}
	return builder_stack(b, of + TEST_FRAMES_MOST - count, count);
}

static inline void test_row_put(struct builder *b, const struct test_row *r)
{
	struct key_value service = {
		.key = STR("service.name"),
		.value = { .kind = ANY_STRING, .string = str_cstr(r->service ? r->service : "") }
	};
	struct attribute thread = { .key = builder_string(b, STR("thread.name")),
				    .value = { .kind = ANY_STRING,
					       .string = str_cstr(r->thread ? r->thread : "") } };
	struct attribute_index of_sample;
	uint64_t at = BEGIN + r->at_s * SECOND;
	struct profile *p;

	builder_begin_resource(b)->attributes = builder_key_values(b, &service, r->service ? 1 : 0);
	builder_begin_scope(b);
	p = builder_begin_profile(b);
	p->time_unix_nano = at;
	p->duration_nano = SECOND;
	p->sample_type.type = builder_string(b, str_cstr(r->type ? r->type : "cpu"));
	p->sample_type.unit = builder_string(b, str_cstr(r->type ? "bytes" : "nanoseconds"));
	if (r->thread)
		of_sample = builder_attribute(b, &thread);
	builder_sample(b, test_stack(b, r->stack), (struct link_index){ 0 }, &of_sample,
		       r->thread ? 1 : 0, &r->value, 1, &at, 1);
}

static inline struct profiles *test_rows(const struct test_row *rows, size_t count)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct profiles *p;
	struct err err;

	for (size_t i = 0; i < count; i++)
		test_row_put(b, &rows[i]);
	p = builder_finish(b, &err);
	if (!p)
		fail_msg("%s", err.msg);
	return p;
}

static inline struct query *test_begin(const struct query_request *r)
{
	struct err err;
	struct query *q = query_begin(r, &err);

	if (!q)
		fail_msg("%.*s: %s", STR_ARG(r->selector), err.msg);
	return q;
}

/* "main 9 0|  work 9 4|  (other) 5 5": name, total and own value of each node, in order. */
static inline void test_tree_text(const struct query_tree *t, struct buf *out)
{
	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct query_node *n = &t->nodes[i];

		if (i)
			buf_char(out, '|');
		for (uint32_t k = 0; k < n->depth; k++)
			buf_char(out, ' ');
		if (n->frame == QUERY_FRAME_ROOT)
			buf_lit(out, "all");
		else if (n->frame == QUERY_FRAME_OTHER)
			buf_lit(out, "(other)");
		else
			query_frame_append_name(out, &t->frames.ptr[n->frame], QUERY_BY_FUNCTION);
		buf_printf(out, " %lld %lld", (long long)n->total[0], (long long)n->self[0]);
		if (t->total[1])
			buf_printf(out, " : %lld %lld", (long long)n->total[1],
				   (long long)n->self[1]);
	}
}

static inline void test_same_text(const char *row, struct buf *got, const char *want)
{
	if (!str_is(buf_view(got), want))
		fail_msg("%s:\n got  %.*s\n want %s", row, STR_ARG(buf_view(got)), want);
	buf_reset(got);
}
