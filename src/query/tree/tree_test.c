/* tree_test.c - trees of a few stacks, written down: what is kept, in which order, with which sums.
 */
#include "base/cleanup.h"
#include "query/rows_for_tests.h"

/* main calls work and rest; work recurses once. */
static const struct test_row shop[] = {
	{ "shop", NULL, "main;work;copy", 4, 0, NULL },
	{ "shop", NULL, "main;work", 2, 0, NULL },
	{ "shop", NULL, "main;work;work;copy", 1, 0, NULL },
	{ "shop", NULL, "main;rest", 3, 0, NULL },
	{ "depot", NULL, "boot", 1, 0, NULL },
};

static const struct {
	const char *name;
	struct query_tree_options options;
	struct query_filter filter;
	bool filtered;
	const char *want;
} trees[] = {
	{ "heavier children first",
	  { 0 },
	  { 0 },
	  false,
	  "all 11 0| main 10 0|  work 7 2|   copy 4 4|   work 1 0|    copy 1 1|  rest 3 3| boot 1 "
	  "1" },
	{ "from the leaves up",
	  { .inverted = true },
	  { 0 },
	  false,
	  "all 11 0| copy 5 0|  work 5 0|   main 4 4|   work 1 0|    main 1 1| rest 3 0|  main 3 "
	  "3| "
	  "work 2 0|  main 2 2| boot 1 1" },
	{ "light nodes become `other`",
	  { .share_least = 0.25 },
	  { 0 },
	  false,
	  "all 11 0| main 10 0|  work 7 2|   copy 4 4|   (other) 1 1|  rest 3 3| (other) 1 1" },
	{ "a group is outermost",
	  { .group_by = { "service.name", 12 }, .share_least = 0.25 },
	  { 0 },
	  false,
	  "all 11 0| shop 10 0|  main 10 0|   work 7 2|    copy 4 4|    (other) 1 1|   rest 3 3| "
	  "(other) 1 1" },
	{ "focus keeps whole stacks",
	  { 0 },
	  { FILTER_FOCUS, FIELD_FUNCTION, { "rest", 4 } },
	  true,
	  "all 3 0| main 3 0|  rest 3 3" },
	{ "ignore leaves stacks out",
	  { 0 },
	  { FILTER_IGNORE, FIELD_FUNCTION, { "work|boot", 9 } },
	  true,
	  "all 3 0| main 3 0|  rest 3 3" },
	{ "what hidden frames cost is their callers'",
	  { 0 },
	  { FILTER_HIDE, FIELD_FUNCTION, { "work|boot", 9 } },
	  true,
	  "all 11 1| main 10 2|  copy 5 5|  rest 3 3" },
	{ "stacks begin at a frame",
	  { 0 },
	  { FILTER_SHOW_FROM, FIELD_FUNCTION, { "work", 4 } },
	  true,
	  "all 7 0| work 7 2|  copy 4 4|  work 1 0|   copy 1 1" },
	{ "a recursion is one frame",
	  { 0 },
	  { FILTER_RECURSION, FIELD_FUNCTION, { 0 } },
	  true,
	  "all 11 0| main 10 0|  work 7 2|   copy 5 5|  rest 3 3| boot 1 1" },
};

static void trees_are_as_written_down(void **state)
{
	struct profiles *p = test_rows(shop, ARRAY_LEN(shop));
	struct source *source = profiles_source_new(p);
	AUTO(buf_release) struct buf got = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
		struct query_request r = { .source = source,
					   .filters = { trees[i].filter },
					   .filter_count = trees[i].filtered };
		struct query *q = test_begin(&r);
		struct query_tree t;
		struct err err;

		if (!query_flamegraph(q, &trees[i].options, &t, &err))
			fail_msg("%s: %s", trees[i].name, err.msg);
		test_tree_text(&t, &got);
		test_same_text(trees[i].name, &got, trees[i].want);
		query_end(q);
	}
	source_free(source);
	profiles_free(p);
}

/* Of 300 functions that cost less and less, as many as were asked for, and what the others cost. */
static void the_heaviest_nodes_are_kept(void **state)
{
	enum { FUNCTIONS = 300, KEPT = 7 };
	struct test_row rows[FUNCTIONS];
	char names[FUNCTIONS][16];
	struct query_tree_options o = { .nodes_most = KEPT };
	struct query_tree t;
	struct query_request r = { 0 };
	struct profiles *p;
	struct query *q;
	struct err err;
	int64_t kept = 0;

	(void)state;
	for (int i = 0; i < FUNCTIONS; i++) {
		snprintf(names[i], sizeof(names[i]), "f%d", i);
		rows[i] = (struct test_row){ .stack = names[i], .value = 1000 - i };
	}
	p = test_rows(rows, FUNCTIONS);
	r.source = profiles_source_new(p);
	q = test_begin(&r);
	if (!query_flamegraph(q, &o, &t, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(t.node_count, KEPT + 1); /* `other` is one more */
	for (uint32_t i = 1; i < KEPT; i++) {
		assert_int_equal(t.nodes[i].total[0], 1000 - ((int64_t)i - 1));
		kept += t.nodes[i].total[0];
	}
	assert_int_equal(t.nodes[KEPT].frame, QUERY_FRAME_OTHER);
	assert_int_equal(t.nodes[KEPT].total[0], t.total[0] - kept);
	assert_int_equal(t.pruned_nodes, FUNCTIONS - (KEPT - 1));
	query_end(q);
	source_free(r.source);
	profiles_free(p);
}

static void a_diff_has_both_sides(void **state)
{
	static const struct test_row before[] = { { NULL, NULL, "main;work", 5, 0, NULL },
						  { NULL, NULL, "main;gone", 1, 0, NULL } };
	static const struct test_row after[] = { { NULL, NULL, "main;work", 2, 0, NULL },
						 { NULL, NULL, "main;new", 4, 0, NULL } };
	struct profiles *p[] = { test_rows(before, 2), test_rows(after, 2) };
	struct query_request r[2] = { { .source = profiles_source_new(p[0]) },
				      { .source = profiles_source_new(p[1]) } };
	struct query *left = test_begin(&r[0]), *right = test_begin(&r[1]);
	AUTO(buf_release) struct buf got = { 0 };
	struct query_tree t;
	struct err err;

	(void)state;
	if (!query_diff(left, right, NULL, &t, &err))
		fail_msg("%s", err.msg);
	test_tree_text(&t, &got);
	test_same_text("diff", &got,
		       "all 6 0 : 6 0| main 6 0 : 6 0|  work 5 5 : 2 2|  new 0 0 : 4 4|  gone 1 1 "
		       ": 0 0");
	query_end(right);
	query_end(left);
	for (int i = 0; i < 2; i++) {
		source_free(r[i].source);
		profiles_free(p[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_are_as_written_down),
		cmocka_unit_test(the_heaviest_nodes_are_kept),
		cmocka_unit_test(a_diff_has_both_sides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
