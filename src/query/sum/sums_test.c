/* sums_test.c - values by stack: equal stacks, groups, gauges, and the ends of 64 bits. */
#include "base/cleanup.h"
#include "query/rows_for_tests.h"
#include "query/sum/frames.h"

static const struct {
	const char *name, *group_by;
	struct test_row rows[6];
	size_t count;
	const char *want; /* a sum a stack and group, sorted by their text; then the total */
} sums[] = {
	{ "equal stacks are one, whoever sent them",
	  "",
	  { { "a", NULL, "m;x", 1, 0, NULL },
	    { "b", NULL, "m;x", 2, 1, NULL },
	    { "a", "t", "m;y", 4, 2, NULL } },
	  3,
	  "3|4 = 7" },
	{ "a stack has a sum in each group",
	  "service.name",
	  { { "a", NULL, "m;x", 1, 0, NULL },
	    { "b", NULL, "m;x", 2, 1, NULL },
	    { "a", NULL, "m;x", 8, 2, NULL },
	    { NULL, NULL, "m;x", 16, 2, NULL } },
	  4,
	  "a 9|b 2|unknown_service 16 = 27" },
	{ "a group that samples say",
	  "thread.name",
	  { { "a", "t1", "m;x", 1, 0, NULL },
	    { "a", "t2", "m;x", 2, 1, NULL },
	    { "a", NULL, "m;x", 4, 2, NULL } },
	  3,
	  " 4|t1 1|t2 2 = 7" },
	{ "sums stop at the ends of 64 bits",
	  "",
	  { { "a", NULL, "m;x", INT64_MAX - 1, 0, NULL }, { "a", NULL, "m;x", 5, 1, NULL } },
	  2,
	  "9223372036854775807 = 9223372036854775807" },
	{ "values of both signs",
	  "",
	  { { "a", NULL, "m;x", 5, 0, NULL },
	    { "a", NULL, "m;x", -7, 1, NULL },
	    { "a", NULL, "m;y", -1, 2, NULL } },
	  3,
	  "-1|-2 = -3" },
	{ "a gauge is the average over its profiles",
	  "",
	  { { "a", NULL, "m;x", 100, 0, "inuse_space" },
	    { "a", NULL, "m;x", 50, 1, "inuse_space" },
	    { "a", NULL, "m;y", 30, 2, "inuse_space" } },
	  3,
	  "10|50 = 60" },
};

static int by_bytes(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void print_sums(const struct stack_sums *s, struct buf *out)
{
	char lines[8][64];

	assert_true(s->count <= 8);
	for (uint32_t i = 0; i < s->count; i++) {
		struct str group = s->groups ? s->groups[s->ptr[i].group] : STR("");

		snprintf(lines[i], sizeof(lines[i]), "%.*s%s%lld", STR_ARG(group),
			 s->groups ? " " : "", (long long)s->ptr[i].value);
	}
	qsort(lines, s->count, sizeof(lines[0]), by_bytes);
	for (uint32_t i = 0; i < s->count; i++)
		buf_printf(out, "%s%s", i ? "|" : "", lines[i]);
	buf_printf(out, " = %lld", (long long)s->total);
}

static void sums_are_as_written_down(void **state)
{
	AUTO(buf_release) struct buf got = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
		struct profiles *p = test_rows(sums[i].rows, sums[i].count);
		struct query_request r = { .source = profiles_source_new(p) };
		struct query *q = test_begin(&r);
		struct stack_sums s;
		struct err err;

		if (!stack_sums_make(q, str_cstr(sums[i].group_by), &s, &err))
			fail_msg("%s: %s", sums[i].name, err.msg);
		print_sums(&s, &got);
		test_same_text(sums[i].name, &got, sums[i].want);
		stack_sums_release(q, &s);
		query_end(q);
		source_free(r.source);
		profiles_free(p);
	}
}

static void a_cut_sum_is_said(void **state)
{
	static const struct test_row rows[] = { { "a", NULL, "m", INT64_MAX, 0, NULL },
						{ "a", NULL, "m", 1, 0, NULL } };
	struct profiles *p = test_rows(rows, 2);
	struct query_request r = { .source = profiles_source_new(p) };
	struct query *q = test_begin(&r);
	struct query_top top;
	struct err err;

	(void)state;
	assert_true(query_top(q, &top, &err));
	assert_true(query_facts(q).partial);
	assert_true(str_search(str_cstr(query_facts(q).reason), STR("64 bits")) >= 0);
	query_end(q);
	source_free(r.source);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_as_written_down),
		cmocka_unit_test(a_cut_sum_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
