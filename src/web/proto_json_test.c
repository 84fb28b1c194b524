/* Messages to JSON and back, by protojson's rules; trees as Pyroscope's clients read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "web/pyro.h"

static const struct connect_method *const merge = &pyro_methods[PYRO_MERGE_STACKTRACES];
static const struct connect_method *const series = &pyro_methods[PYRO_SELECT_SERIES];

static const struct {
	const char *json;
	bool ok;
	const char *type;
	int64_t start;
	int format;
} requests[] = {
	{ "{}", true, "", 0, 0 },
	{ "{\"profileTypeID\":\"a:b:c\",\"start\":\"17\",\"format\":\"PROFILE_FORMAT_TREE\"}", true,
	  "a:b:c", 17, 2 },
	{ "{\"profile_typeID\":\"x\",\"start\":17,\"format\":3}", true, "x", 17, 3 },
	{ "{\"start\":null,\"other\":{\"a\":[1,2]}}", true, "", 0, 0 },
	{ "{\"start\":\"1\",\"start\":\"2\"}", true, "", 2, 0 },
	{ "{\"format\":\"NO_SUCH\"}", false, "", 0, 0 },
	{ "{\"format\":9}", false, "", 0, 0 },
	{ "{\"start\":\"9223372036854775808\"}", false, "", 0, 0 },
	{ "{\"start\":{}}", false, "", 0, 0 },
	{ "null", true, "", 0, 0 },
	{ "[]", false, "", 0, 0 },
	{ "", false, "", 0, 0 },
};

static void test_requests_in_json(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		AUTO(buf_release) struct buf protobuf = { 0 };
		struct pyro_request r;
		struct err err;
		bool ok = proto_from_json(merge->request, str_cstr(requests[i].json), &protobuf,
					  &err) &&
			  pyro_request_read(merge->request, buf_view(&protobuf), &r, &err);

		if (ok != requests[i].ok)
			fail_msg("%s: %s", requests[i].json, ok ? "read" : err.msg);
		if (ok && (!str_is(r.profile_type, requests[i].type) ||
			   r.start != requests[i].start || (int)r.format != requests[i].format))
			fail_msg("%s: read as something else", requests[i].json);
	}
}

static void test_there_and_back(void **state)
{
	static const char json[] =
		"{\"profileTypeID\":\"a\",\"labelSelector\":\"{b=\\\"c\\\"}\",\"start\":\"-1\","
		"\"groupBy\":[\"x\",\"\"],\"step\":0.5,"
		"\"aggregation\":\"TIME_SERIES_AGGREGATION_TYPE_AVERAGE\"}";
	AUTO(buf_release) struct buf protobuf = { 0 }, again = { 0 };
	struct err err;

	(void)state;
	assert_true(proto_from_json(series->request, str_cstr(json), &protobuf, &err));
	assert_true(proto_to_json(series->request, buf_view(&protobuf), &again, &err));
	buf_char(&again, '\0');
	assert_string_equal(again.ptr, json);
}

/* total 10 = a (6: own 1, twice b below: 2 and 3) + other (4). */
static void test_tree_merges_brothers_of_one_name(void **state)
{
	struct query_frame frames[] = {
		{ .function = STR("a"), .binary = STR("x") },
		{ .function = STR("b"), .binary = STR("x") },
		{ .function = STR("b"), .binary = STR("y") },
	};
	struct query_node nodes[] = {
		{ QUERY_FRAME_ROOT, 0, { 10, 0 }, { 0, 0 } },
		{ 0, 1, { 6, 0 }, { 1, 0 } },
		{ 2, 2, { 3, 0 }, { 3, 0 } },
		{ 1, 2, { 2, 0 }, { 2, 0 } },
		{ QUERY_FRAME_OTHER, 1, { 4, 0 }, { 4, 0 } },
	};
	static const int64_t want[][8] = { { 0, 10, 0, 0 },
					   { 0, 6, 1, 1, 0, 4, 4, 3 },
					   { 1, 5, 5, 2 } };
	struct query_tree in = {
		.nodes = nodes, .node_count = 5, .frames = { frames, 3 }, .total = { 10, 0 }
	};
	AUTO(buf_release) struct buf bytes = { 0 };
	struct pyro_levels levels;
	struct pyro_tree t;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096, 0);
	pyro_tree_make(&in, &arena, &t);
	assert_int_equal(t.node_count, 4);
	assert_int_equal(t.name_count, 4);
	pyro_levels_make(&t, 1, &arena, &levels);
	assert_int_equal(levels.count, 3);
	assert_int_equal(levels.max_self, 5);
	assert_int_equal(levels.levels[1].count, 8);
	for (uint32_t i = 0; i < levels.count; i++)
		assert_memory_equal(levels.levels[i].values, want[i],
				    levels.levels[i].count * sizeof(int64_t));
	pyro_tree_bytes(&t, &bytes);
	assert_int_equal(bytes.len, 19);
	assert_memory_equal(bytes.ptr,
			    "\0\0\2"
			    "\1a\1\1"
			    "\1b\5\0"
			    "\5other\4\0",
			    19);
	arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests_in_json),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_tree_merges_brothers_of_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
