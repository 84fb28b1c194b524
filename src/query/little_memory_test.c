/* little_memory_test.c - with less memory an answer is coarser and says so, then none; what it says
 * is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "query/big_for_tests.h"

static void little_memory_gives_a_coarser_answer_then_none(void **state)
{
	struct query_request r = { .source = source };
	bool coarse = false, refused = false;
	uint32_t stacks = 0;
	size_t enough = 0; /* the least limit that did for all stacks */

	(void)state;
	for (size_t limit = 2 << 20; limit > 16 << 10; limit = limit / 8 * 7) {
		struct query_top top;
		struct err err;
		struct query *q;

		r.limit_bytes = limit;
		q = query_begin(&r, &err);
		if (!q || !query_top(q, &top, &err)) {
			assert_int_equal(err.kind, ERR_LIMIT);
			refused = true;
		} else {
			assert_int_equal(top.total[0], EVENTS * PERIOD);
			assert_int_equal(query_facts(q).partial, top.unresolved[0] != 0);
			coarse |= query_facts(q).partial;
			if (!query_facts(q).partial) {
				stacks = top.stacks;
				enough = limit;
			} else if (limit > enough / 4 * 3) { /* a bit less says a bit less */
				assert_true(top.stacks > stacks / 4);
			}
		}
		query_end(q);
	}
	assert_true(coarse && refused);
}

/* Stacks that do not fit side by side, of few functions: what a batch that failed took is given
 * back where there is no run yet, so that some at a time do. */
static void many_deep_stacks_are_counted_some_at_a_time(void **state)
{
	enum { DEEP_STACKS = 6000, DEPTH = 60, FUNCTIONS = 2000 };
	struct query_request r = { .limit_bytes = 1280 << 10 }; /* their frames: 1.4 MB */
	struct blob *text = blob_new((size_t)DEEP_STACKS * DEPTH * 7);
	struct profiles *deep;
	struct query_top top;
	struct query *q;
	uint32_t seed = 1;

	(void)state;
	for (uint32_t i = 0; i < DEEP_STACKS; i++)
		for (uint32_t k = 0; k < DEPTH; k++) {
			seed = seed * 1664525 + 1013904223;
			text->len += (size_t)snprintf((char *)text->ptr + text->len, 16, "f%04u%s",
						      (seed >> 16) % FUNCTIONS,
						      k + 1 < DEPTH ? ";" : " 1\n");
		}
	MUST(format_read(text, &deep, &err));
	blob_unref(text);
	r.source = profiles_source_new(deep);
	MUST((q = query_begin(&r, &err)) && query_top(q, &top, &err));
	assert_int_equal(top.total[0], DEEP_STACKS);
	assert_int_equal(top.stacks, DEEP_STACKS);
	assert_int_equal(top.row_count, FUNCTIONS);
	assert_false(query_facts(q).partial);
	query_end(q);
	source_free(r.source);
	profiles_free(deep);
}

/* Whatever memory there is, frames are numbered as those are that could be made: the table of a
 * filter that keeps all is the one without. */
static void filters_with_little_memory_lose_nothing(void **state)
{
	struct query_request r = { .source = source, .filter_count = 2 };
	uint32_t answered = 0;

	(void)state;
	r.filters[0] = (struct query_filter){ .kind = FILTER_FOCUS, .pattern = STR(".") };
	r.filters[1] = (struct query_filter){ .kind = FILTER_IGNORE, .pattern = STR("^\001$") };
	for (size_t limit = 2 << 20; limit > 64 << 10; limit = limit / 64 * 63) {
		struct query_top top;
		struct err err;
		struct query *q;

		r.limit_bytes = limit;
		q = query_begin(&r, &err);
		if (q && query_top(q, &top, &err)) {
			assert_int_equal(top.total[0], EVENTS * PERIOD);
			for (uint32_t i = 0; i < top.row_count; i++)
				assert_true(top.rows[i].frame < top.frames.count);
			answered++;
		}
		query_end(q);
	}
	assert_true(answered > 10);
}

/* Whatever memory there is: a chart that is whole says what it says with more, and the others are
 * coarser, or refused with a reason. */
static void a_chart_is_coarser_before_it_is_refused(void **state)
{
	struct query_request r = { .source = source };
	bool coarse = false, refused = false;
	uint32_t lanes = 0;
	int64_t whole = 0;

	(void)state;
	for (size_t limit = 16 << 20; limit > 32 << 10; limit = limit / 4 * 3) {
		struct query_chart chart = { 0 };
		struct err err = { 0 };
		struct query *q;
		int64_t value = 0;

		r.limit_bytes = limit;
		q = query_begin(&r, &err);
		if (!q || !query_chart(q, NULL, &chart, &err)) {
			assert_int_equal(err.kind, ERR_LIMIT);
			assert_true(err.msg[0]);
			refused = true;
			query_end(q);
			continue;
		}
		for (uint32_t i = 0; i < chart.lane_count; i++)
			value += chart.lanes[i].value;
		if (!lanes) {
			lanes = chart.lanes_in_all;
			whole = value;
		}
		coarse |= query_facts(q).partial;
		if (!query_facts(q).partial) {
			assert_int_equal(chart.lanes_in_all, lanes);
			assert_int_equal(value, whole);
		}
		query_end(q);
	}
	assert_true(lanes && whole && coarse && refused);
}

/* Whatever memory there is: a table and a tree are given, coarser when they must be, or refused
 * with a reason, both of them where there is not next to none; totals stay what they are. */
static void a_tree_is_coarser_before_it_is_refused(void **state)
{
	enum { NEXT_TO_NONE = 256 << 10 };
	struct query_tree_options all = { .nodes_most = 1 << 20 };
	struct query_request r = { .source = source };
	uint32_t whole = 0;
	bool coarse = false;

	(void)state;
	for (size_t limit = 8 << 20; limit > 64 << 10; limit = limit / 8 * 7) {
		struct query_tree tree = { 0 };
		struct query_top top;
		struct err err = { 0 };
		struct query *q, *t;
		bool table, ok;

		r.limit_bytes = limit;
		t = query_begin(&r, &err);
		table = t && query_top(t, &top, &err);
		query_end(t);
		q = query_begin(&r, &err);
		ok = q && query_flamegraph(q, &all, &tree, &err);
		if (table != ok && limit > NEXT_TO_NONE)
			fail_msg("%zu bytes: table %d, tree %d: %s", limit, table, ok, err.msg);
		if (ok) {
			assert_int_equal(tree.total[0], EVENTS * PERIOD);
			assert_int_equal(tree.nodes[0].total[0], EVENTS * PERIOD);
			whole = whole ? whole : tree.node_count;
			coarse |= query_facts(q).partial && tree.node_count < whole;
		} else {
			assert_int_equal(err.kind, ERR_LIMIT);
		}
		query_end(q);
	}
	assert_true(coarse);
}

static int64_t of_first_level(const struct query_tree *t, uint64_t key)
{
	for (uint32_t i = 1; i < t->node_count; i++)
		if (t->nodes[i].depth == 1 && t->nodes[i].frame < t->frames.count &&
		    t->frames.ptr[t->nodes[i].frame].key == key)
			return t->nodes[i].total[0];
	return 0;
}

/* All its first level is in the other one, as heavy. */
static void assert_same_outside(const struct query_tree *t, const struct query_tree *whole)
{
	for (uint32_t i = 1; i < t->node_count; i++)
		if (t->nodes[i].depth == 1 && t->nodes[i].frame < t->frames.count)
			assert_int_equal(
				t->nodes[i].total[0],
				of_first_level(whole, t->frames.ptr[t->nodes[i].frame].key));
}

/* With runs cut short: the outer frames of a tree, and what a search matches,
 * weigh what they weigh with all the memory there is. */
static void what_is_cut_short_is_right_outside(void **state)
{
	static const struct query_tree_options ways[] = {
		{ .nodes_most = 400, .search = { "alloc|libc", 10 } },
		{ .nodes_most = 400, .search = { "alloc|libc", 10 }, .inverted = true },
	};
	struct query_request r = { .source = source };
	unsigned cut = 0;

	(void)state;
	for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
		struct query *q = ask("");
		struct query_tree_options all = ways[w];
		struct query_tree whole;

		all.nodes_most = 1 << 20;
		MUST(query_flamegraph(q, &all, &whole, &err));
		for (size_t limit = 640 << 10; limit > 256 << 10; limit -= 16 << 10) {
			struct query_tree t;
			struct query *little;
			struct err err;

			r.limit_bytes = limit;
			little = query_begin(&r, &err);
			if (little && query_flamegraph(little, &ways[w], &t, &err) &&
			    strstr(query_facts(little).reason, "told apart") && !t.unresolved[0]) {
				cut++;
				assert_int_equal(t.total[0], EVENTS * PERIOD);
				assert_int_equal(t.matched[0], whole.matched[0]);
				assert_same_outside(&t, &whole);
			}
			query_end(little);
		}
		query_end(q);
	}
	assert_true(cut > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(little_memory_gives_a_coarser_answer_then_none),
		cmocka_unit_test(many_deep_stacks_are_counted_some_at_a_time),
		cmocka_unit_test(filters_with_little_memory_lose_nothing),
		cmocka_unit_test(a_chart_is_coarser_before_it_is_refused),
		cmocka_unit_test(a_tree_is_coarser_before_it_is_refused),
		cmocka_unit_test(what_is_cut_short_is_right_outside),
	};

	return cmocka_run_group_tests(tests, open_big, close_big);
}
