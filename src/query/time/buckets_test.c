/* buckets_test.c - timelines and heat maps of a few events, and the order of a flame chart. */
#include "base/cleanup.h"
#include "query/rows_for_tests.h"

static const struct test_row rows[] = {
	{ "shop", "t1", "main;a", 1, 0, NULL },   { "shop", "t1", "main;b", 2, 3, NULL },
	{ "depot", "t2", "main;a", 4, 3, NULL },  { "shop", "t2", "main;a", 8, 5, NULL },
	{ "depot", "t1", "main;a", 16, 9, NULL },
};

static const struct {
	const char *name, *group_by;
	uint32_t steps, groups_most;
	struct source_range seconds;
	const char *want; /* a group a line: its label, its buckets */
} timelines[] = {
	{ "one line", "", 5, 0, { 0, 10 }, ": 1 6 8 0 16" },
	{ "a line a group", "service.name", 5, 0, { 0, 10 }, "depot: 0 4 0 0 16|shop: 1 2 8 0 0" },
	{ "a group of samples", "thread.name", 5, 0, { 0, 10 }, "t1: 1 2 0 0 16|t2: 0 4 8 0 0" },
	{ "the light ones together", "service.name", 2, 1, { 0, 10 }, "depot: 4 16|(other): 3 8" },
	{ "nothing outside the window", "", 2, 0, { 3, 7 }, ": 6 8" },
	{ "the end is not in it", "", 1, 0, { 0, 9 }, ": 15" },
};

static struct source_range window(struct source_range seconds)
{
	return (struct source_range){ BEGIN + seconds.from * SECOND, BEGIN + seconds.to * SECOND };
}

static void print_timeline(const struct query_timeline *t, struct buf *out)
{
	for (uint32_t i = 0; i < t->group_count; i++) {
		const struct query_group *g = &t->groups[i];

		buf_printf(out, "%s%.*s:", i ? "|" : "",
			   STR_ARG(g->other ? STR("(other)") : g->label));
		for (uint32_t k = 0; k < t->bucket_count; k++)
			buf_printf(out, " %lld", (long long)g->values[k]);
	}
}

static void timelines_are_as_written_down(void **state)
{
	struct profiles *p = test_rows(rows, ARRAY_LEN(rows));
	struct source *source = profiles_source_new(p);
	AUTO(buf_release) struct buf got = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(timelines); i++) {
		struct query_request r = { .source = source,
					   .range = window(timelines[i].seconds) };
		struct query_timeline_options o = { .steps = timelines[i].steps,
						    .groups_most = timelines[i].groups_most,
						    .group_by = str_cstr(timelines[i].group_by) };
		struct query *q = test_begin(&r);
		struct query_timeline t;
		struct err err;

		if (!query_timeline(q, &o, &t, &err))
			fail_msg("%s: %s", timelines[i].name, err.msg);
		print_timeline(&t, &got);
		test_same_text(timelines[i].name, &got, timelines[i].want);
		query_end(q);
	}
	source_free(source);
	profiles_free(p);
}

static void a_heat_map_cuts_columns_into_rows(void **state)
{
	struct profiles *p = test_rows(rows, ARRAY_LEN(rows));
	struct query_request r = { .source = profiles_source_new(p),
				   .range = window((struct source_range){ 0, 10 }) };
	struct query_heatmap_options o = { .column_ns = 5 * SECOND, .rows = 5 };
	/* Column by column; a row is a second. */
	static const int64_t want[] = { 1, 0, 0, 6, 0, 8, 0, 0, 0, 16 };
	struct query *q = test_begin(&r);
	struct query_heatmap h;
	struct err err;

	(void)state;
	if (!query_heatmap(q, &o, &h, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(h.columns, 2);
	assert_int_equal(h.rows, 5);
	assert_int_equal(h.most, 16);
	assert_memory_equal(h.values, want, sizeof(want));
	query_end(q);
	source_free(r.source);
	profiles_free(p);
}

/* Rows come in any order; boxes of a lane stand in the order of time. */
static void lanes_are_in_order(void **state)
{
	enum { EVENTS = 40 };
	struct test_row many[EVENTS];
	struct query_request r = { .range = window((struct source_range){ 0, EVENTS }) };
	struct query_chart c;
	struct profiles *p;
	struct query *q;
	uint64_t events = 0;
	struct err err;

	(void)state;
	for (uint32_t i = 0; i < EVENTS; i++) /* 7 has no part in common with 40 */
		many[i] = (struct test_row){ .service = i % 2 ? "a" : "b",
					     .thread = i % 3 ? "t1" : "t2",
					     .stack = i % 5 ? "main;x" : "main;y",
					     .value = 1000,
					     .at_s = 1 + i * 7 % (EVENTS - 1) };
	p = test_rows(many, EVENTS);
	r.source = profiles_source_new(p);
	q = test_begin(&r);
	if (!query_chart(q, NULL, &c, &err))
		fail_msg("%s", err.msg);
	assert_true(c.lane_count > 0);
	for (uint32_t l = 0; l < c.lane_count; l++) {
		events += c.lanes[l].events;
		assert_true(c.lanes[l].box_count > 0);
		for (uint32_t i = 1; i < c.lanes[l].box_count; i++)
			assert_true(c.lanes[l].boxes[i].from >= c.lanes[l].boxes[i - 1].from);
	}
	assert_int_equal(events, EVENTS);
	query_end(q);
	source_free(r.source);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timelines_are_as_written_down),
		cmocka_unit_test(a_heat_map_cuts_columns_into_rows),
		cmocka_unit_test(lanes_are_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
