/*
 * text_seeds_test.c - the layouts seed-000, seed-001 and typed against the texts in the seed
 * documents: each text is read back into a message, and the message must print as that text, in the
 * zone it was printed in.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/exporters/fixtures_for_tests.h"
#include "components/exporters/text.h"
#include "model/builder.h"

enum { FRAMES_MOST = 64, ATTRIBUTES_MOST = 32, TIMESTAMPS_MOST = 8 };

/* What stands in the file so far, and the sample at hand. */
struct reader {
	struct builder *b;
	bool typed;
	struct resource_profiles *resource;
	struct profile *profile;
	bool in_sample, in_frames;
	struct key_value resource_attributes[ATTRIBUTES_MOST];
	uint32_t resource_attribute_count;
	struct attribute_index attributes[ATTRIBUTES_MOST];
	uint32_t attribute_count;
	uint64_t timestamps[TIMESTAMPS_MOST];
	uint32_t timestamp_count;
	struct location_index frames[FRAMES_MOST];
	uint32_t frame_count;
};

static bool take_prefix(struct str *s, const char *prefix)
{
	if (!str_has_prefix(*s, str_cstr(prefix)))
		return false;
	*s = str_skip(*s, strlen(prefix));
	return true;
}

/* What stands before `separator`, which is taken off too; all of it when there is none. */
static struct str take_until(struct str *s, const char *separator)
{
	ptrdiff_t at = str_search(*s, str_cstr(separator));
	struct str head = at < 0 ? *s : str_head(*s, (size_t)at);

	*s = at < 0 ? STR("") : str_skip(*s, (size_t)at + strlen(separator));
	return head;
}

/* "2025-09-23 04:55:35.51787723 +0000 UTC" */
static uint64_t read_time(struct str s)
{
	struct tm tm = { 0 };
	char text[64];
	const char *rest;
	uint64_t ns = 0, scale = SECOND_NS;

	snprintf(text, sizeof(text), "%.*s", STR_ARG(s));
	rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
	assert_non_null(rest);
	if (*rest == '.') {
		for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
			scale /= 10;
			ns += (uint64_t)(*rest - '0') * scale;
		}
	}
	return (uint64_t)timegm(&tm) * SECOND_NS + ns;
}

static uint64_t read_number(struct str s)
{
	uint64_t n;

	if (!str_to_u64(s, &n))
		fail_msg("no number: %.*s", STR_ARG(s));
	return n;
}

/* "text (Str)", "7 (Int)", ["text"] (Slice); without kinds all is text, which prints alike */
static struct any_value read_value(const struct reader *r, struct str s, struct any_value *element)
{
	struct any_value v = { .kind = ANY_STRING, .string = s };

	if (!r->typed)
		return v;
	if (str_has_suffix(s, STR(" (Str)"))) {
		v.string.len -= strlen(" (Str)");
	} else if (str_has_suffix(s, STR(" (Int)"))) {
		v = (struct any_value){ .kind = ANY_INT };
		v.integer = (int64_t)read_number(str_head(s, s.len - strlen(" (Int)")));
	} else {
		assert_true(str_has_prefix(s, STR("[\"")) && str_has_suffix(s, STR("\"] (Slice)")));
		*element = (struct any_value){ .kind = ANY_STRING };
		element->string = str_from(s.ptr + 2, s.len - 2 - strlen("\"] (Slice)"));
		v = (struct any_value){ .kind = ANY_ARRAY };
		v.array.values = element;
		v.array.count = 1;
	}
	return v;
}

static void read_attribute(struct reader *r, struct str line)
{
	struct str key = take_until(&line, ": ");
	struct any_value element, v = read_value(r, line, &element);
	struct key_value kv;

	if (r->in_sample) {
		assert_true(r->attribute_count < ATTRIBUTES_MOST);
		r->attributes[r->attribute_count++] = builder_attribute(
			r->b, &(struct attribute){ .key = builder_string(r->b, key), .value = v });
		return;
	}
	assert_true(r->resource_attribute_count < ATTRIBUTES_MOST);
	kv = (struct key_value){ .key = key, .value = builder_any(r->b, &v) };
	r->resource_attributes[r->resource_attribute_count++] = kv;
}

static void read_period_type(struct reader *r, struct str line)
{
	r->profile->period_type.type = builder_string(r->b, take_until(&line, ", "));
	r->profile->period_type.unit = builder_string(r->b, take_until(&line, ", "));
	assert_true(str_is(line, "Unspecified]"));
}

static void read_profile_line(struct reader *r, struct str line)
{
	if (take_prefix(&line, "ProfileID: "))
		assert_true(str_is(line, "00000000000000000000000000000000"));
	else if (take_prefix(&line, "Time: "))
		r->profile->time_unix_nano = read_time(line);
	else if (take_prefix(&line, "Duration: "))
		r->profile->duration_nano = read_time(line);
	else if (take_prefix(&line, "PeriodType: ["))
		read_period_type(r, line);
	else if (take_prefix(&line, "Period: "))
		r->profile->period = (int64_t)read_number(line);
	else if (take_prefix(&line, "Dropped attributes count: "))
		r->profile->dropped_attributes_count = (uint32_t)read_number(line);
	else if (take_prefix(&line, "SampleType: "))
		r->profile->sample_type.type = builder_string(r->b, line);
	else
		fail_msg("unknown line of a profile: %.*s", STR_ARG(line));
}

static void read_frame(struct reader *r, struct str line)
{
	struct any_value type = { .kind = ANY_STRING, .string = take_until(&line, ", Function: ") };
	struct attribute_index a = builder_attribute(
		r->b, &(struct attribute){ .key = builder_string(r->b, STR("profile.frame.type")),
					   .value = type });
	struct function f = { .name = builder_string(r->b, take_until(&line, ", File: ")) };
	struct line l = { 0 };

	if (line.len) {
		f.filename = builder_string(r->b, take_until(&line, ", Line: "));
		l.line = (int64_t)read_number(take_until(&line, ", Column: "));
		l.column = (int64_t)read_number(line);
	}
	l.function = builder_function(r->b, &f);
	assert_true(r->frame_count < FRAMES_MOST);
	r->frames[r->frame_count++] = builder_location(r->b, &(struct location){ 0 }, &l, 1, &a, 1);
}

static void end_sample(struct reader *r)
{
	builder_sample(r->b, builder_stack(r->b, r->frames, r->frame_count),
		       (struct link_index){ 0 }, r->attributes, r->attribute_count, NULL, 0,
		       r->timestamps, r->timestamp_count);
	r->attribute_count = r->timestamp_count = r->frame_count = 0;
	r->in_sample = r->in_frames = false;
}

static void read_line(struct reader *r, struct str line)
{
	if (str_search(line, STR(" New Resource Profile ")) > 0) {
		r->resource = builder_begin_resource(r->b);
		builder_begin_scope(r->b);
	} else if (str_search(line, STR(" New Profile ")) > 0) {
		r->resource->attributes = builder_key_values(r->b, r->resource_attributes,
							     r->resource_attribute_count);
		r->profile = builder_begin_profile(r->b);
	} else if (str_search(line, STR(" New Sample ")) > 0) {
		r->in_sample = true;
	} else if (str_search(line, STR(" End Sample ")) > 0) {
		end_sample(r);
	} else if (take_prefix(&line, "Instrumentation: ")) {
		read_frame(r, line);
	} else if (take_prefix(&line, "  timestamp[") || take_prefix(&line, "  Timestamp[")) {
		take_until(&line, "]: ");
		assert_true(r->timestamp_count < TIMESTAMPS_MOST);
		r->timestamps[r->timestamp_count++] = read_number(take_until(&line, " ("));
	} else if (take_prefix(&line, "  ")) {
		if (r->profile && !r->in_sample)
			read_profile_line(r, line);
		else
			read_attribute(r, line);
	}
}

static struct profiles *read_text(struct str text, bool typed)
{
	struct reader r = { .b = builder_new(&(struct builder_options){ 0 }), .typed = typed };
	struct profiles *p;
	struct str line;
	struct err err;

	while (str_split(&text, '\n', &line))
		read_line(&r, line);
	p = builder_finish(r.b, &err);
	assert_non_null(p);
	return p;
}

static void assert_prints(const struct profiles *p, const struct text_options *options,
			  struct str want)
{
	struct text_renderer *t = text_renderer_new(options);
	struct buf got;
	struct render_out out = { .buf = &got };
	struct err err;

	buf_init(&got, 0);
	assert_true(text_render(t, p, &out, &err));
	assert_text_equal(buf_view(&got), want);
	buf_release(&got);
	text_renderer_free(t);
}

static void load(const char *path, struct buf *text)
{
	buf_init(text, 0);
	fixture_gunzip(path, text); /* reads plain files too */
	buf_char(text, '\n'); /* the program's last line is empty; the documents end before it */
}

static const struct {
	const char *path;
	enum text_layout layout;
	bool typed;
} seeds[] = {
	{ "tests/fixtures/stdout/seed-000.txt", TEXT_SEED_000, false },
	{ "tests/fixtures/stdout/seed-001.txt", TEXT_SEED_001, false },
	{ "tests/fixtures/stdout/seed-002.txt", TEXT_TYPED, true },
};

static void test_seeds(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
		struct text_options options = text_options_default(seeds[i].layout);
		struct profiles *p;
		struct buf text;

		print_message("%s\n", seeds[i].path);
		load(seeds[i].path, &text);
		p = read_text(buf_view(&text), seeds[i].typed);
		assert_prints(p, &options, buf_view(&text));
		profiles_free(p);
		buf_release(&text);
	}
}

/* One resource without container.id, one sample of a kernel and a native frame. */
static struct profiles *make_message(void)
{
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct strindex type_key = builder_string(b, STR("profile.frame.type"));
	struct attribute_index attributes[2], types[2];
	struct location_index frames[2];
	struct any_value v = { .kind = ANY_STRING, .string = STR("shop") };
	struct profile *profile;
	struct profiles *p;
	struct line line;
	struct err err;

	builder_begin_resource(b)->attributes = builder_key_values(
		b, &(struct key_value){ .key = STR("service.name"), .value = v }, 1);
	builder_begin_scope(b);
	profile = builder_begin_profile(b);
	profile->sample_type.type = builder_string(b, STR("samples"));
	v = (struct any_value){ .kind = ANY_DOUBLE, .real = 0.5 };
	attributes[0] = builder_attribute(
		b, &(struct attribute){ .key = builder_string(b, STR("host.load")), .value = v });
	builder_profile_attributes(b, attributes, 1);
	v = (struct any_value){ .kind = ANY_BOOL, .boolean = true };
	attributes[1] = builder_attribute(
		b, &(struct attribute){ .key = builder_string(b, STR("idle")), .value = v });
	v = (struct any_value){ .kind = ANY_STRING, .string = STR("kernel") };
	types[0] = builder_attribute(b, &(struct attribute){ .key = type_key, .value = v });
	v.string = STR("native");
	types[1] = builder_attribute(b, &(struct attribute){ .key = type_key, .value = v });
	line = (struct line){ .line = 9, .column = 2 };
	line.function = builder_function(
		b, &(struct function){ .name = builder_string(b, STR("do_exit")),
				       .filename = builder_string(b, STR("exit.c")) });
	frames[0] = builder_location(b, &(struct location){ 0 }, &line, 1, &types[0], 1);
	frames[1] = builder_location(b, &(struct location){ .address = 7 }, NULL, 0, &types[1], 1);
	builder_sample(b, builder_stack(b, frames, 2), (struct link_index){ 0 }, &attributes[1], 1,
		       NULL, 0, (const uint64_t[]){ 1 }, 1);
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

/* The switches of the customprofilesexporter, on the first sample of seed 002's kind. */
static void test_switches(void **state)
{
	static const char *kernel[] = { "kernel" };
	static const char *other[] = { "off_cpu" };
	static const struct {
		const char *what;
		struct text_options o;
		const char *want;
	} cases[] = {
		{ "no container.id",
		  { .ignore_profiles_without_container_id = true },
		  "--------------- New Resource Profile --------------\n"
		  "              SKIPPED (no container.id)\n"
		  "-------------- End Resource Profile ---------------\n\n" },
		{ "only headings",
		  { 0 },
		  "--------------- New Resource Profile --------------\n"
		  "------------------- New Profile -------------------\n"
		  "  ProfileID: 00000000000000000000000000000000\n"
		  "  Dropped attributes count: 0\n"
		  "  SampleType: samples\n"
		  "------------------- New Sample --------------------\n"
		  "------------------- End Sample --------------------\n"
		  "------------------- End Profile -------------------\n"
		  "-------------- End Resource Profile ---------------\n\n" },
		{ "files, one type",
		  { .stack_frames = true,
		    .function_file = true,
		    .sample_attributes = true,
		    .resource_attributes = true,
		    .profile_attributes = true,
		    .stack_frame_types = { kernel, 1, true } },
		  "--------------- New Resource Profile --------------\n"
		  "  service.name: shop (Str)\n"
		  "------------------- New Profile -------------------\n"
		  "  ProfileID: 00000000000000000000000000000000\n"
		  "  Dropped attributes count: 0\n"
		  "  SampleType: samples\n"
		  "  host.load: 0.5 (Double)\n"
		  "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
		  "------------------- New Sample --------------------\n"
		  "  idle: true (Bool)\n"
		  "---------------------------------------------------\n"
		  "Instrumentation: kernel, Function: do_exit, File: exit.c, Line: 9, Column: 2\n"
		  "------------------- End Sample --------------------\n"
		  "------------------- End Profile -------------------\n"
		  "-------------- End Resource Profile ---------------\n\n" },
		{ "another sample type",
		  { .stack_frames = true, .sample_types = { other, 1, true } },
		  "--------------- New Resource Profile --------------\n"
		  "-------------- End Resource Profile ---------------\n\n" },
	};
	struct profiles *p = make_message();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct text_options o = cases[i].o;

		print_message("%s\n", cases[i].what);
		o.layout = TEXT_TYPED;
		assert_prints(p, &o, str_cstr(cases[i].want));
	}
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_switches),
	};

	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1); /* needs no zone files */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
