/*
 * renderers_test.c - what the renderers do with bad indices, odd strings, inlined lines, references
 * and text without end; resolved JSON and folded stacks line by line.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/go_json.h"
#include "components/exporters/fixtures_for_tests.h"
#include "components/exporters/json_any.h"
#include "components/exporters/resolved_json.h"
#include "components/exporters/stack_file.h"
#include "components/exporters/text.h"
#include "formats/folded.h"
#include "model/builder.h"

static const struct config_strings all_types;

static struct any_value text(const char *s)
{
	return (struct any_value){ .kind = ANY_STRING, .string = str_cstr(s) };
}

static struct attribute_index attribute(struct builder *b, const char *key, struct any_value v,
					const char *unit)
{
	return builder_attribute(b,
				 &(struct attribute){ .key = builder_string(b, str_cstr(key)),
						      .value = v,
						      .unit = builder_string(b, str_cstr(unit)) });
}

static struct function_index function(struct builder *b, const char *name, const char *file)
{
	return builder_function(
		b, &(struct function){ .name = builder_string(b, str_cstr(name)),
				       .filename = builder_string(b, str_cstr(file)) });
}

/*
 * One sample: an inlined chain of two lines, a frame in a second file of the same name, one without
 * a name; odd strings, every kind of value, a unit, a link, two values with times out of order.
 */
static struct profiles *make_message(void)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct any_value bytes = { .kind = ANY_BYTES, .string = STR("\xff\x00") };
	struct any_value number = { .kind = ANY_INT, .integer = INT64_MIN };
	struct any_value real = { .kind = ANY_DOUBLE, .real = 2 };
	struct any_value list = { .kind = ANY_ARRAY };
	struct any_value elements[] = { number, text("a") };
	struct key_value resource = { .key = STR("service.name"), .value = text("sh\"op") };
	struct attribute_index attributes[5], type, build_ids[2];
	struct mapping_index mappings[2];
	struct location_index frames[4];
	struct line lines[2] = { { .line = 3 }, { .line = 9, .column = 2 } };
	struct strindex file;
	struct profile *profile;
	struct profiles *p;
	struct err err;

	list.array.values = elements;
	list.array.count = 2;
	builder_begin_resource(b)->attributes = builder_key_values(b, &resource, 1);
	builder_begin_scope(b)->name = STR("scope");
	profile = builder_begin_profile(b);
	profile->sample_type =
		(struct value_type){ builder_string(b, STR("cpu")), builder_string(b, STR("ns")) };
	profile->period = 7;
	attributes[0] = attribute(b, "bytes", bytes, "");
	attributes[1] = attribute(b, "int", number, "By");
	attributes[2] = attribute(b, "double", real, "");
	attributes[3] = attribute(b, "list", list, "");
	attributes[4] = attribute(b, "odd\x1b[2J", text("two  spaces"), "");
	type = attribute(b, "profile.frame.type", text("native"), "");
	build_ids[0] = attribute(b, "process.executable.build_id.gnu", text("aa"), "");
	build_ids[1] = attribute(b, "process.executable.build_id.htlhash", text("bb"), "");
	file = builder_string(b, STR("lib.so"));
	mappings[0] = builder_mapping(b, &(struct mapping){ .filename = file }, &build_ids[0], 1);
	mappings[1] = builder_mapping(b, &(struct mapping){ .filename = file }, &build_ids[1], 1);
	lines[0].function = function(b, "inner;<T>", "a.h");
	lines[1].function = function(b, "outer", "a.c");
	frames[0] =
		builder_location(b, &(struct location){ .address = 0x10, .mapping = mappings[0] },
				 lines, 2, &type, 1);
	frames[1] =
		builder_location(b, &(struct location){ .address = 0x20, .mapping = mappings[1] },
				 NULL, 0, &type, 1);
	frames[2] = builder_location(b, &(struct location){ .address = 5 }, NULL, 0, NULL, 0);
	builder_sample(b, builder_stack(b, frames, 3),
		       builder_link(b, &(struct link){ .trace_id = { 1 }, .span_id = { 2 } }),
		       attributes, 5, (const int64_t[]){ 30, 10 }, 2,
		       (const uint64_t[]){ 2000, 1000 }, 2);
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

static void test_resolved_json(void **state)
{
	static const char want[] =
		"{\"resource\":{\"service.name\":\"sh\\\"op\"},\"scope\":{\"name\":\"scope\"},"
		"\"profile\":{\"period\":7},\"sample_type\":\"cpu\",\"sample_unit\":\"ns\","
		"\"value\":40,"
		"\"events\":2,\"values\":[30,10],\"timestamps_unix_nano\":[2000,1000],"
		"\"trace_id\":\"01000000000000000000000000000000\",\"span_id\":"
		"\"0200000000000000\","
		"\"attributes\":{\"bytes\":{\"$bytes\":\"/wA=\"},\"int\":-9223372036854775808,"
		"\"double\":2.0,\"list\":[-9223372036854775808,\"a\"],\"odd\\u001b[2J\":\"two  "
		"spaces\"},"
		"\"attribute_units\":{\"int\":\"By\"},"
		"\"frames\":[{\"type\":\"native\",\"function\":\"inner;<T>\",\"file\":\"a.h\","
		"\"line\":3,"
		"\"inline\":true,\"address\":\"0x10\",\"mapping\":\"lib.so\"},"
		"{\"type\":\"native\",\"function\":\"outer\",\"file\":\"a.c\",\"line\":9,"
		"\"column\":2,"
		"\"address\":\"0x10\",\"mapping\":\"lib.so\"},"
		"{\"type\":\"native\",\"address\":\"0x20\",\"mapping\":\"lib.so\",\"build_id\":"
		"\"bb\"},"
		"{\"type\":\"unknown\",\"address\":\"0x5\"}],\"build_ids\":{\"lib.so\":\"aa\"}}\n";
	struct json_renderer *j = json_renderer_new(JSON_LINE_A_SAMPLE, &all_types);
	struct profiles *p = make_message();
	struct buf got;
	struct render_out out = { .buf = &got };
	struct err err;

	(void)state;
	buf_init(&got, 0);
	assert_true(json_render(j, p, &out, &err));
	assert_text_equal(buf_view(&got), str_cstr(want));
	buf_release(&got);
	json_renderer_free(j);
	profiles_free(p);
}

static const struct {
	struct folded_options options;
	const char *want;
} folded_cases[] = {
	{ { .annotate = false }, "[unknown]+0x5;lib.so+0x20;outer;inner:<T> 40\n" },
	{ { .annotate = true, .process = true, .thread = true },
	  "[unknown];[unknown];[unknown]+0x5;lib.so+0x20;outer;inner:<T>_[i] 40\n" },
};

static void test_folded(void **state)
{
	struct profiles *p = make_message();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(folded_cases); i++) {
		struct folded_renderer *f = folded_renderer_new(&folded_cases[i].options);
		struct buf got;
		struct render_out out = { .buf = &got };
		struct err err;

		buf_init(&got, 0);
		assert_true(folded_render(f, p, &out, &err));
		assert_text_equal(buf_view(&got), str_cstr(folded_cases[i].want));
		buf_release(&got);
		folded_renderer_free(f);
	}
	profiles_free(p);
}

static void render_text(const struct text_options *o, const struct profiles *p, struct buf *got)
{
	struct text_renderer *t = text_renderer_new(o);
	struct render_out out = { .buf = got };
	struct err err;

	buf_init(got, 0);
	assert_true(text_render(t, p, &out, &err));
	text_renderer_free(t);
}

static size_t count_of(struct str in, struct str what)
{
	size_t n = 0;

	for (ptrdiff_t at; (at = str_search(in, what)) >= 0; n++)
		in = str_skip(in, (size_t)at + what.len);
	return n;
}

/* As the reference: the text of whatever profile.frame.type is, "unknown" only without one. */
static void test_frame_types_that_are_no_names(void **state)
{
	const struct any_value number = { .kind = ANY_INT, .integer = -7 };
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct text_options o = text_options_default(TEXT_2026);
	struct attribute_index types[2];
	struct location_index frames[3];
	struct line line = { .line = 3 };
	struct profiles *p;
	struct buf got;
	struct err err;

	(void)state;
	builder_begin_resource(b);
	builder_begin_scope(b);
	builder_begin_profile(b);
	types[0] = attribute(b, "profile.frame.type", number, "");
	types[1] = attribute(b, "profile.frame.type", text(""), "");
	line.function = function(b, "f", "f.c");
	for (size_t i = 0; i < 3; i++)
		frames[i] = builder_location(b, &(struct location){ .address = i }, &line, i == 0,
					     &types[i % 2], i < 2);
	builder_sample(b, builder_stack(b, frames, 3), (struct link_index){ 0 }, NULL, 0, NULL, 0,
		       NULL, 0);
	p = builder_finish(b, &err);
	assert_non_null(p);
	render_text(&o, p, &got);
	assert_true(
		str_search(buf_view(&got),
			   STR("Instrumentation: -7, Function: f, File: f.c, Line: 3, Column: 0\n"
			       "Instrumentation: : Function: 0x0001, File: <unknown>\n"
			       "Instrumentation: unknown: Function: 0x0002, File: <unknown>\n")) >=
		0);
	buf_release(&got);
	/* Layout full has no column for such ones: they are attributes there. */
	o = text_options_default(TEXT_FULL);
	render_text(&o, p, &got);
	assert_int_equal(count_of(buf_view(&got), STR("profile.frame.type")), 2);
	buf_release(&got);
	profiles_free(p);
}

static void test_full(void **state)
{
	static const char *const wanted[] = {
		"request  wire -  resources 1  scopes 1  profiles 1  samples 1  timestamps 2\n",
		"    service.name                        str     sh\"op\n",
		"      sample_type       cpu  ns\n",
		"      sample 0  events 2  value 40 ns\n",
		"        link              trace 01000000000000000000000000000000  span "
		"0200000000000000\n",
		"        values            30  10\n",
		"          1000  1970-01-01 00:00:00.000001 +0000 UTC  value 10  #1\n"
		"          2000  1970-01-01 00:00:00.000002 +0000 UTC  value 30  #0\n",
		"          int                                 int     -9223372036854775808  unit "
		"By\n",
		"          bytes                               bytes   /wA=\n",
		"          \"odd\\u001b[2J\"                      str     \"two  spaces\"\n",
		"             0  native    inner;<T>                                 inline 1  at "
		"a.h:3:0  "
		"addr 0x10  in lib.so#1  build aa\n"
		"                native    outer                                     at a.c:9:2\n",
		"             1  native    -                                         "
		"addr 0x20  in lib.so#2  build bb\n",
		"             2  -         -                                         "
		"addr 0x5\n",
		"  #2  lib.so  memory 0x0-0x0  offset 0x0\n"
		"    process.executable.build_id.htlhash  str     bb\n",
	};
	struct text_options o = text_options_default(TEXT_FULL);
	struct profiles *p = make_message();
	struct buf got;

	(void)state;
	render_text(&o, p, &got);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		if (str_search(buf_view(&got), str_cstr(wanted[i])) < 0)
			fail_msg("not there: %s\n%.*s", wanted[i], STR_ARG(buf_view(&got)));
	}
	buf_release(&got);
	profiles_free(p);
}

/* On a terminal nobody's name may move the cursor; in a pipe the bytes go out as they came. */
static void test_printable(void **state)
{
	struct text_options o = text_options_default(TEXT_2026);
	struct profiles *p = make_message();
	struct buf got;

	(void)state;
	render_text(&o, p, &got);
	assert_true(str_search(buf_view(&got), STR("  odd\x1b[2J: two  spaces\n")) > 0);
	buf_release(&got);
	o.printable = true;
	render_text(&o, p, &got);
	assert_true(str_search(buf_view(&got), STR("  odd\\x1b[2J: two  spaces\n")) > 0);
	buf_release(&got);
	profiles_free(p);
}

#define BAD(message_, index_, element_, field_, table_, value_)                             \
	{                                                                                   \
		.message = message_, .index = index_, .element = element_, .field = field_, \
		.table = table_, .value = value_, .table_count = 5,                         \
	}

/* A message whose every index that can be wrong is, as lenient decoding leaves it. */
static struct profiles *make_bad_message(void)
{
	static const struct bad_index bad[] = {
		BAD(MESSAGE_RESOURCE, 0, 0, "key_strindex", "string_table", 89),
		BAD(MESSAGE_RESOURCE, 0, 0, "string_value_strindex", "string_table", 90),
		BAD(MESSAGE_PROFILE, 0, 0, "sample_type.type_strindex", "string_table", 91),
		BAD(MESSAGE_PROFILE, 0, 0, "period_type.unit_strindex", "string_table", 92),
		BAD(MESSAGE_SAMPLE, 0, 0, "attribute_indices", "attribute_table", 93),
		BAD(MESSAGE_SAMPLE, 0, 0, "link_index", "link_table", -3),
		BAD(MESSAGE_SAMPLE, 1, 0, "stack_index", "stack_table", 94),
		BAD(MESSAGE_STACK, 1, 1, "location_indices", "location_table", 95),
		BAD(MESSAGE_LOCATION, 1, 0, "mapping_index", "mapping_table", 96),
		BAD(MESSAGE_LINE, 0, 0, "function_index", "function_table", 97),
		BAD(MESSAGE_FUNCTION, 1, 0, "filename_strindex", "string_table", 98),
	};
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct key_value resource = { .value = { .kind = ANY_STRING } };
	struct location_index frames[3] = { 0 };
	struct attribute_index none = { 0 };
	struct line lines[2] = { { .line = 1 }, { .line = 2 } };
	struct profiles *p;
	struct err err;

	builder_begin_resource(b)->attributes = builder_key_values(b, &resource, 1);
	builder_begin_scope(b);
	builder_begin_profile(b);
	lines[1].function = function(b, "named", "");
	frames[0] = builder_location(b, &(struct location){ .address = 1 }, NULL, 0, NULL, 0);
	frames[2] = builder_location(b, &(struct location){ .address = 2 }, lines, 2, NULL, 0);
	builder_sample(b, builder_stack(b, frames, 3), (struct link_index){ 0 }, &none, 1, NULL, 0,
		       (const uint64_t[]){ 1 }, 1);
	builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0, NULL, 0,
		       (const uint64_t[]){ 1 }, 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		builder_bad_index(b, &bad[i]);
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

static void assert_shown(const char *what, struct str got, const int64_t *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char want[64];

		snprintf(want, sizeof(want), "<bad index %lld of 5>", (long long)values[i]);
		if (str_search(got, str_cstr(want)) < 0)
			fail_msg("%s shows no %s:\n%.*s", what, want, STR_ARG(got));
	}
}

/* What the line's samples share stands in it once: frames of a location with two lines are two. */
static void test_profile_lines(void **state)
{
	static const char want[] =
		"{\"resource\":{\"service.name\":\"sh\\\"op\"},\"scope\":{\"name\":\"scope\"},"
		"\"profile\":{\"period\":7},\"sample_type\":\"cpu\",\"sample_unit\":\"ns\","
		"\"samples\":[{\"value\":40,"
		"\"events\":2,\"values\":[30,10],\"timestamps_unix_nano\":[2000,1000],"
		"\"trace_id\":\"01000000000000000000000000000000\",\"span_id\":"
		"\"0200000000000000\",\"attributes\":0,\"attribute_units\":{\"int\":\"By\"},"
		"\"frames\":[0,1,2,3]}],"
		"\"attributes\":[{\"bytes\":{\"$bytes\":\"/wA=\"},\"int\":-9223372036854775808,"
		"\"double\":2.0,\"list\":[-9223372036854775808,\"a\"],\"odd\\u001b[2J\":\"two  "
		"spaces\"}],"
		"\"frames\":[{\"type\":\"native\",\"function\":\"inner;<T>\",\"file\":\"a.h\","
		"\"line\":3,"
		"\"inline\":true,\"address\":\"0x10\",\"mapping\":\"lib.so\"},"
		"{\"type\":\"native\",\"function\":\"outer\",\"file\":\"a.c\",\"line\":9,"
		"\"column\":2,"
		"\"address\":\"0x10\",\"mapping\":\"lib.so\"},"
		"{\"type\":\"native\",\"address\":\"0x20\",\"mapping\":\"lib.so\",\"build_id\":"
		"\"bb\"},"
		"{\"type\":\"unknown\",\"address\":\"0x5\"}],\"build_ids\":{\"lib.so\":\"aa\"}}\n";
	struct json_renderer *j = json_renderer_new(JSON_LINE_A_PROFILE, &all_types);
	struct profiles *p = make_message();
	struct buf got;
	struct render_out out = { .buf = &got };
	struct err err;

	(void)state;
	buf_init(&got, 0);
	for (int i = 0; i < 2; i++) { /* the second time from tables that were used */
		buf_reset(&got);
		assert_true(json_render(j, p, &out, &err));
		assert_text_equal(buf_view(&got), str_cstr(want));
	}
	buf_release(&got);
	json_renderer_free(j);
	profiles_free(p);
}

/* Frames by the thousand, whose numbers get long, and stacks longer than are looked at in a turn:
 * frame i of the line is location i, whatever order samples name them in. */
static void test_many_frames_in_a_line(void **state)
{
	enum { LOCATIONS = 12000, STACKS = 5 };
	static struct location_index frames[LOCATIONS];
	const struct str opening = STR("\"frames\":[");
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct json_renderer *j = json_renderer_new(JSON_LINE_A_PROFILE, &all_types);
	struct profiles *p;
	struct buf got, want;
	struct render_out out = { .buf = &got };
	struct err err;
	struct str text;

	(void)state;
	builder_begin_resource(b);
	builder_begin_scope(b);
	builder_begin_profile(b);
	for (uint32_t i = 0; i < LOCATIONS; i++)
		frames[i] = builder_location(b, &(struct location){ .address = i + 1 }, NULL, 0,
					     NULL, 0);
	for (uint32_t i = 0; i < STACKS; i++) /* from the leaf on, each some deeper */
		builder_sample(b, builder_stack(b, frames, LOCATIONS * (i + 1) / STACKS),
			       (struct link_index){ 0 }, NULL, 0, NULL, 0, NULL, 0);
	p = builder_finish(b, &err);
	assert_non_null(p);
	buf_init(&got, 0);
	buf_init(&want, 0);
	assert_true(json_render(j, p, &out, &err));
	text = buf_view(&got);
	for (uint32_t s = 0; s < STACKS; s++) {
		ptrdiff_t at = str_search(text, opening);

		buf_reset(&want);
		for (uint32_t i = 0; i < LOCATIONS * (s + 1) / STACKS; i++)
			buf_printf(&want, "%s%u", i ? "," : "", i);
		buf_char(&want, ']');
		assert_true(at >= 0);
		text = str_skip(text, (size_t)at + opening.len);
		assert_text_equal(str_head(text, want.len), buf_view(&want));
	}
	for (uint32_t i = 0; i < LOCATIONS; i++) {
		buf_reset(&want);
		buf_printf(&want, "{\"type\":\"unknown\",\"address\":\"0x%x\"}", i + 1);
		text = str_skip(text, i ? 1 : (size_t)str_search(text, opening) + opening.len);
		assert_text_equal(str_head(text, want.len), buf_view(&want));
		text = str_skip(text, want.len);
	}
	buf_release(&got);
	buf_release(&want);
	json_renderer_free(j);
	profiles_free(p);
}

static void test_bad_indices(void **state)
{
	static const int64_t classic[] = { 89, 90, 91, 92, 93, 94, 95, 96, 97, 98 };
	static const int64_t full[] = { 89, 90, 91, 92, 93, -3, 94, 95, 96, 97, 98 };
	static const int64_t json[] = { 91, 92, 93, -3, 94, 95, 96, 97, 98 };
	static const int64_t folded[] = { 94, 95, 96, 97 };
	struct folded_renderer *f = folded_renderer_new(&(struct folded_options){ 0 });
	struct json_renderer *j = json_renderer_new(JSON_LINE_A_SAMPLE, &all_types);
	struct json_renderer *lines = json_renderer_new(JSON_LINE_A_PROFILE, &all_types);
	struct profiles *p = make_bad_message();
	struct text_options o;
	struct buf got;
	struct render_out out = { .buf = &got };
	struct err err;

	(void)state;
	o = text_options_default(TEXT_2026);
	render_text(&o, p, &got);
	assert_shown("2026", buf_view(&got), classic, ARRAY_LEN(classic));
	assert_true(str_search(buf_view(&got),
			       STR("\n  <bad index 89 of 5>: <bad index 90 of 5>\n")) > 0);
	assert_true(str_search(buf_view(&got), STR("\n  <bad index 93 of 5>: \n")) > 0);
	assert_true(str_search(buf_view(&got), STR("File: <bad index 96 of 5>\n")) > 0);
	assert_true(str_search(buf_view(&got),
			       STR("Function: <bad index 97 of 5>, File: , Line: 1,")) > 0);
	assert_true(str_search(buf_view(&got), STR("named, File: <bad index 98 of 5>, Line: 2,")) >
		    0);
	assert_true(str_search(buf_view(&got),
			       STR("Function: <bad index 94 of 5>, File: , Line: 0,")) > 0);
	buf_release(&got);
	o = text_options_default(TEXT_FULL);
	render_text(&o, p, &got);
	assert_shown("full", buf_view(&got), full, ARRAY_LEN(full));
	buf_release(&got);
	buf_init(&got, 0);
	assert_true(json_render(j, p, &out, &err));
	assert_shown("json", buf_view(&got), json, ARRAY_LEN(json));
	buf_reset(&got);
	assert_true(json_render(lines, p, &out, &err));
	assert_shown("jsonl", buf_view(&got), json, ARRAY_LEN(json));
	buf_reset(&got);
	json_renderer_free(lines);
	assert_true(folded_render(f, p, &out, &err));
	assert_shown("folded", buf_view(&got), folded, ARRAY_LEN(folded));
	buf_release(&got);
	json_renderer_free(j);
	folded_renderer_free(f);
	profiles_free(p);
}

/* The files of the reference's layout: a sample with nothing, and one with all that can be wrong.
 */
static void test_stack_files(void **state)
{
	static const char *const wanted[] = {
		"{\n  \"container_id\": \"c\",\n"
		"  \"profile_id\": \"00000000000000000000000000000000\",\n"
		"  \"sample_type\": \"unknown\",\n"
		"  \"timestamps_unix_nano\": [\n    1\n  ],\n"
		"  \"attributes\": {\n    \"\\u003cbad index 93 of 5\\u003e\": \"\"\n  },\n"
		"  \"frames\": [\n"
		"    {\n      \"type\": \"unknown\",\n      \"address\": \"0x1\",\n"
		"      \"mapping\": \"\\u003cbad index 96 of 5\\u003e\"\n    },\n"
		"    {\n      \"type\": \"unknown\",\n"
		"      \"function\": \"\\u003cbad index 95 of 5\\u003e\"\n    },\n"
		"    {\n      \"type\": \"unknown\",\n"
		"      \"function\": \"\\u003cbad index 97 of 5\\u003e\",\n      \"line\": 1\n    "
		"},\n"
		"    {\n      \"type\": \"unknown\",\n      \"function\": \"named\",\n"
		"      \"file\": \"\\u003cbad index 98 of 5\\u003e\",\n      \"line\": 2\n    }\n  "
		"]\n}",
		"{\n  \"container_id\": \"c\",\n"
		"  \"profile_id\": \"00000000000000000000000000000000\",\n"
		"  \"sample_type\": \"unknown\",\n"
		"  \"timestamps_unix_nano\": [\n    1\n  ],\n"
		"  \"frames\": null\n}",
	};
	struct profiles *p = make_bad_message();
	struct stack_file f;
	struct buf got;

	(void)state;
	stack_file_init(&f);
	stack_file_begin(&f, p);
	buf_init(&got, 0);
	for (uint32_t i = 0; i < 2; i++) {
		buf_reset(&got);
		stack_file_append(&f, &got, STR("c"), &p->profiles[0], i);
		if (i == 0)
			assert_text_equal(buf_view(&got), str_cstr(wanted[i]));
		else /* its stack_index is bad */
			assert_true(str_search(buf_view(&got),
					       STR("\\u003cbad index 94 of 5\\u003e")) > 0);
	}
	p->bad_index_count = 0;
	buf_reset(&got);
	stack_file_append(&f, &got, STR("c"), &p->profiles[0], 1);
	assert_text_equal(buf_view(&got), str_cstr(wanted[1]));
	buf_release(&got);
	stack_file_release(&f);
	profiles_free(p);
}

/* A small body may stand for text without end: it is cut at the limit, and memory stays bounded. */
static bool count_bytes(void *ctx, struct str s, struct err *err)
{
	(void)err;
	*(size_t *)ctx += s.len;
	return true;
}

static struct profiles *make_endless_message(void)
{
	enum { DEPTH = 20000, SAMPLES = 20000, NAME = 200000 };
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct location_index *frames = calloc(DEPTH, sizeof(*frames));
	char *name = malloc(NAME);
	struct line lines[64] = { 0 };
	struct stack_index stack;
	struct profiles *p;
	struct err err;

	assert_true(name && frames);
	memset(name, 'n', NAME);
	builder_begin_resource(b);
	builder_begin_scope(b);
	builder_begin_profile(b);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		lines[i].function = builder_function(
			b, &(struct function){ .name = builder_string(b, str_from(name, NAME)) });
	for (size_t i = 0; i < DEPTH; i++)
		frames[i] = builder_location(b, &(struct location){ 0 }, lines, ARRAY_LEN(lines),
					     NULL, 0);
	stack = builder_stack(b, frames, DEPTH);
	for (size_t i = 0; i < SAMPLES; i++)
		builder_sample(b, stack, (struct link_index){ 0 }, NULL, 0, NULL, 0,
			       (const uint64_t[]){ 1 }, 1);
	p = builder_finish(b, &err);
	assert_non_null(p);
	free(name);
	free(frames);
	return p;
}

static void test_endless_text(void **state)
{
	struct profiles *p = make_endless_message();
	struct json_renderer *j = json_renderer_new(JSON_LINE_A_SAMPLE, &all_types);
	struct json_renderer *lines = json_renderer_new(JSON_LINE_A_PROFILE, &all_types);

	(void)state;
	for (int i = 0; i < 5; i++) {
		static const enum text_layout layouts[] = { TEXT_2026, TEXT_TYPED, TEXT_FULL };
		size_t bytes = 0;
		struct buf chunk;
		struct render_out out = { .buf = &chunk,
					  .chunk_bytes = 1 << 16,
					  .limit_bytes = 32 << 20,
					  .write = count_bytes,
					  .ctx = &bytes };
		struct err err = { 0 };

		buf_init(&chunk, 0);
		if (i < 3) {
			struct text_options o = text_options_default(layouts[i]);
			struct text_renderer *t = text_renderer_new(&o);

			assert_false(text_render(t, p, &out, &err));
			text_renderer_free(t);
		} else {
			assert_false(json_render(i == 3 ? j : lines, p, &out, &err));
		}
		assert_int_equal(err.kind, ERR_LIMIT);
		assert_true(bytes <= 32 << 20 && bytes > 31 << 20);
		assert_true(chunk.cap <= 1 << 20);
		buf_release(&chunk);
	}
	json_renderer_free(lines);
	json_renderer_free(j);
	profiles_free(p);
}

static const struct {
	struct str in;
	const char *go;
} strings[] = {
	{ { "a\"\\/\n\r\t\b\f\x01", 10 }, "\"a\\\"\\\\/\\n\\r\\t\\b\\f\\u0001\"" },
	{ { "<a>&\x7f", 5 }, "\"\\u003ca\\u003e\\u0026\x7f\"" },
	{ { "\xff\xe2\x82", 3 }, "\"\\ufffd\\ufffd\\ufffd\"" },
	{ { "\xe2\x80\xa8\xe2\x80\xa9\xe2\x82\xac", 9 }, "\"\\u2028\\u2029\xe2\x82\xac\"" },
};

static void test_go_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		struct buf got;

		buf_init(&got, 0);
		go_json_string(&got, strings[i].in);
		assert_text_equal(buf_view(&got), str_cstr(strings[i].go));
		buf_release(&got);
	}
}

static void test_numbers_in_json(void **state)
{
	static const struct {
		double in;
		const char *want;
	} cases[] = { { 1.5, "1.5" },
		      { 2, "2.0" },
		      { -0.0, "-0.0" },
		      { 1e21, "1e+21" },
		      { 1e-7, "1e-7" },
		      { (double)NAN, "{\"$double\":\"NaN\"}" },
		      { (double)-INFINITY, "{\"$double\":\"-Infinity\"}" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct any_value v = { .kind = ANY_DOUBLE, .real = cases[i].in };
		struct buf got;

		buf_init(&got, 0);
		json_any_append(&got, &v);
		if (!str_is(buf_view(&got), cases[i].want))
			fail_msg("%s: %.*s", cases[i].want, STR_ARG(buf_view(&got)));
		buf_char(&got, 0);
		assert_true(strtod(got.ptr, NULL) == cases[i].in || !isfinite(cases[i].in));
		buf_release(&got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resolved_json),
		cmocka_unit_test(test_profile_lines),
		cmocka_unit_test(test_many_frames_in_a_line),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_frame_types_that_are_no_names),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_bad_indices),
		cmocka_unit_test(test_endless_text),
		cmocka_unit_test(test_stack_files),
		cmocka_unit_test(test_go_strings),
		cmocka_unit_test(test_numbers_in_json),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
