#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "base/cleanup.h"
#include "model/builder.h"

static struct any_value text(const char *s)
{
	return (struct any_value){ .kind = ANY_STRING, .string = str_cstr(s) };
}

static void test_zero_entries(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct err err;
	struct profiles *p;

	(void)state;
	assert_int_equal(builder_string(b, STR("")).v, 0);
	assert_int_equal(builder_stack(b, NULL, 0).v, 0);
	assert_int_equal(builder_link(b, &(struct link){ 0 }).v, 0);
	p = builder_finish(b, &err);
	assert_non_null(p);
	assert_true(p->sealed);
	assert_int_equal(p->dict.string_count, 1);
	assert_int_equal(p->dict.mapping_count, 1);
	assert_int_equal(p->dict.location_count, 1);
	assert_int_equal(p->dict.function_count, 1);
	assert_int_equal(p->dict.link_count, 1);
	assert_int_equal(p->dict.attribute_count, 1);
	assert_int_equal(p->dict.stack_count, 1);
	profiles_free(p);
}

/* Each pair differs in one respect, so that a key that forgets a field shows. */
static void test_mappings_are_told_apart(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct strindex name = builder_string(b, STR("libc.so.6"));
	struct attribute_index a =
		builder_attribute(b, &(struct attribute){ .key = name, .value = text("x") });
	const struct {
		struct mapping m;
		uint32_t attributes;
	} rows[] = {
		{ { .memory_start = 1 }, 0 },
		{ { .memory_limit = 1 }, 0 },
		{ { .file_offset = 1 }, 0 },
		{ { .filename = name }, 0 },
		{ { 0 }, 1 },
		{ { .memory_start = 1 }, 1 },
	};

	(void)state;
	for (int again = 0; again < 2; again++)
		for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
			assert_int_equal(builder_mapping(b, &rows[i].m, &a, rows[i].attributes).v,
					 i + 1);
	builder_free(b);
}

static void test_locations_are_told_apart(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct function_index f = builder_function(b, &(struct function){ .start_line = 3 });
	struct mapping_index m =
		builder_mapping(b, &(struct mapping){ .memory_start = 1 }, NULL, 0);
	struct attribute_index a = builder_attribute(b, &(struct attribute){ .value = text("x") });
	const struct {
		struct location l;
		struct line lines[2];
		uint32_t line_count, attribute_count;
	} rows[] = {
		{ { .address = 1 }, { { 0 } }, 0, 0 },
		{ { .mapping = m }, { { 0 } }, 0, 0 },
		{ { 0 }, { { 0 } }, 1, 0 },
		{ { 0 }, { { .line = 1 } }, 1, 0 },
		{ { 0 }, { { .column = 1 } }, 1, 0 },
		{ { 0 }, { { .function = f } }, 1, 0 },
		{ { 0 }, { { .function = f } }, 2, 0 },
		{ { 0 }, { { 0 }, { .function = f } }, 2, 0 },
		{ { 0 }, { { 0 } }, 0, 1 },
	};

	(void)state;
	for (int again = 0; again < 2; again++)
		for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
			assert_int_equal(builder_location(b, &rows[i].l, rows[i].lines,
							  rows[i].line_count, &a,
							  rows[i].attribute_count)
						 .v,
					 i + 1);
	builder_free(b);
}

static void test_functions_and_links_are_told_apart(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct strindex s = builder_string(b, STR("main"));
	const struct function functions[] = {
		{ .name = s }, { .system_name = s }, { .filename = s }, { .start_line = 1 }
	};
	const struct link links[] = { { .trace_id = { 1 } },
				      { .span_id = { 1 } },
				      { .span_id = { 0, 1 } } };

	(void)state;
	for (int again = 0; again < 2; again++) {
		for (uint32_t i = 0; i < ARRAY_LEN(functions); i++)
			assert_int_equal(builder_function(b, &functions[i]).v, i + 1);
		for (uint32_t i = 0; i < ARRAY_LEN(links); i++)
			assert_int_equal(builder_link(b, &links[i]).v, i + 1);
	}
	builder_free(b);
}

static void test_attributes_are_told_apart(void **state)
{
	static const struct any_value one = { .kind = ANY_INT, .integer = 1 };
	static const struct any_value two[] = { { .kind = ANY_INT, .integer = 1 },
						{ .kind = ANY_INT, .integer = 2 } };
	static const struct key_value pair = { .key = { "k", 1 },
					       .value = { .kind = ANY_BOOL, .boolean = true } };
	static const struct key_value pair2 = { .key = { "k", 1 }, .value = { .kind = ANY_BOOL } };
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct strindex s = builder_string(b, STR("unit"));
	const struct attribute rows[] = {
		{ .key = s },
		{ .unit = s },
		{ .value = { .kind = ANY_STRING } },
		{ .value = { .kind = ANY_BYTES } },
		{ .value = text("1") },
		{ .value = { .kind = ANY_INT } },
		{ .value = { .kind = ANY_INT, .integer = -1 } },
		{ .value = { .kind = ANY_BOOL } },
		{ .value = { .kind = ANY_BOOL, .boolean = true } },
		{ .value = { .kind = ANY_DOUBLE } },
		{ .value = { .kind = ANY_DOUBLE, .real = -0.0 } },
		{ .value = { .kind = ANY_DOUBLE, .real = (double)NAN } },
		{ .value = { .kind = ANY_ARRAY } },
		{ .value = { .kind = ANY_ARRAY, .array = { &one, 1 } } },
		{ .value = { .kind = ANY_ARRAY, .array = { two, 2 } } },
		{ .value = { .kind = ANY_KVLIST } },
		{ .value = { .kind = ANY_KVLIST, .kvlist = { &pair, 1 } } },
		{ .value = { .kind = ANY_KVLIST, .kvlist = { &pair2, 1 } } },
	};

	(void)state;
	for (int again = 0; again < 2; again++)
		for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
			assert_int_equal(builder_attribute(b, &rows[i]).v, i + 1);
	builder_free(b);
}

/* 100,000 strings and stacks: the tables grow, and what was found before is found again. */
static void test_tables_grow(void **state)
{
	enum { MANY = 100000 };
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct location_index ids[3];
	struct err err;
	struct profiles *p;
	char name[32];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		ids[i] = builder_location(b, &(struct location){ .address = i + 1 }, NULL, 0, NULL,
					  0);
	for (int again = 0; again < 2; again++)
		for (uint32_t i = 1; i <= MANY; i++) {
			int len = snprintf(name, sizeof(name), "frame %u", i);

			assert_int_equal(builder_string(b, str_from(name, (size_t)len)).v, i);
		}
	assert_int_equal(builder_stack(b, ids, 3).v, 1);
	assert_int_equal(builder_stack(b, ids, 2).v, 2);
	assert_int_equal(builder_stack(b, ids + 1, 2).v, 3);
	assert_int_equal(builder_stack(b, ids, 3).v, 1);
	p = builder_finish(b, &err);
	assert_non_null(p);
	assert_int_equal(p->dict.string_count, MANY + 1);
	assert_true(str_is(p->dict.strings[77], "frame 77"));
	assert_int_equal(p->dict.stacks[3].locations.count, 2);
	assert_int_equal(p->dict.stack_locations[p->dict.stacks[3].locations.first].v, ids[1].v);
	profiles_free(p);
}

static void test_nesting_of_messages(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	const struct key_value kv = { .key = STR("service.name"), .value = text("shop") };
	const int64_t values[] = { 5, 6 };
	const uint64_t timestamps[] = { 100, 101 };
	struct strindex type = builder_string(b, STR("cpu"));
	struct attribute_index a =
		builder_attribute(b, &(struct attribute){ .key = type, .value = text("v") });
	struct any_value comment = text("note");
	struct err err;
	struct profiles *p;

	(void)state;
	for (int r = 0; r < 2; r++) {
		builder_begin_resource(b)->attributes = builder_key_values(b, &kv, 1);
		for (int s = 0; s < 2; s++) {
			builder_begin_scope(b)->name = STR("scope");
			for (int f = 0; f < 2; f++) {
				builder_begin_profile(b)->sample_type.type = type;
				builder_profile_attributes(b, &a, 1);
				for (int i = 0; i < 3; i++)
					builder_sample(b, (struct stack_index){ 0 },
						       (struct link_index){ 0 }, &a, 1, values, 2,
						       timestamps, 2);
			}
		}
	}
	builder_extra(b, MESSAGE_PROFILE, builder_newest(b, MESSAGE_PROFILE), EXTRA_COMMENTS,
		      &comment);
	p = builder_finish(b, &err);
	assert_non_null(p);
	assert_int_equal(p->resource_count, 2);
	assert_int_equal(p->scope_count, 4);
	assert_int_equal(p->profile_count, 8);
	assert_int_equal(p->sample_count, 24);
	assert_int_equal(p->resources[1].scopes.first, 2);
	assert_int_equal(p->resources[1].scopes.count, 2);
	assert_int_equal(p->scopes[3].profiles.first, 6);
	assert_int_equal(p->profiles[7].samples.first, 21);
	assert_int_equal(p->profiles[7].samples.count, 3);
	assert_int_equal(p->values[p->samples[23].values.first + 1], 6);
	assert_int_equal(p->timestamps[p->samples[23].timestamps.first], 100);
	assert_int_equal(p->attribute_refs[p->profiles[7].attributes.first].v, a.v);
	assert_true(str_is(p->resources[1].attributes.ptr[0].value.string, "shop"));
	assert_true(p->resources[1].attributes.ptr[0].value.string.ptr != kv.value.string.ptr);
	assert_non_null(profiles_extra(p, MESSAGE_PROFILE, 7, EXTRA_COMMENTS));
	assert_null(profiles_extra(p, MESSAGE_PROFILE, 6, EXTRA_COMMENTS));
	profiles_free(p);
}

static void test_limit_is_an_error_at_the_end(void **state)
{
	struct builder *b = builder_new(
		&(struct builder_options){ .limit_bytes = 64 * 1024, .copy_strings = true });
	struct err err = { 0 };
	char name[32];

	(void)state;
	builder_begin_resource(b);
	builder_begin_scope(b);
	for (uint32_t i = 0; i < 100000; i++) {
		builder_string(b,
			       str_from(name, (size_t)snprintf(name, sizeof(name), "frame %u", i)));
		builder_begin_profile(b)->period = 1; /* what it gives can be written to even so */
		builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0,
			       NULL, 0, NULL, 0);
	}
	assert_null(builder_finish(b, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_non_null(strstr(err.msg, "65536"));
}

/* One message may hold very many bad indices, and every 0 of it is asked about: a look-up that
 * walks them takes minutes here. */
static void test_bad_indices_are_found_by_element(void **state)
{
	enum { COUNT = 200000 };
	struct builder *b = builder_new(&(struct builder_options){ 0 });
	struct bad_index bad = { .message = MESSAGE_STACK,
				 .index = 1,
				 .field = "location_indices",
				 .table = "location_table" };
	struct profiles *p;
	struct err err;

	(void)state;
	for (uint32_t i = COUNT; i-- > 0;) { /* every other element, the last first */
		bad.element = 2 * i;
		bad.value = i + 7;
		builder_bad_index(b, &bad);
	}
	bad = (struct bad_index){
		.message = MESSAGE_STACK, .index = 1, .field = "other", .value = 3
	};
	builder_bad_index(b, &bad);
	bad = (struct bad_index){ .message = MESSAGE_STACK, .index = 3, .field = "other" };
	builder_bad_index(b, &bad);
	p = builder_finish(b, &err);
	assert_non_null(p);
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct bad_index *found =
			profiles_bad_index(p, MESSAGE_STACK, 1, "location_indices", 2 * i);

		if (!found || found->value != i + 7)
			fail_msg("element %u: %s", 2 * i, found ? "another one" : "none");
		if (profiles_bad_index(p, MESSAGE_STACK, 1, "location_indices", 2 * i + 1))
			fail_msg("element %u has one", 2 * i + 1);
	}
	assert_int_equal(profiles_bad_index(p, MESSAGE_STACK, 1, "other", 0)->value, 3);
	assert_null(profiles_bad_index(p, MESSAGE_STACK, 2, "other", 0));
	assert_int_equal(profiles_bad_indices(p, MESSAGE_STACK, 0).count, 0);
	assert_int_equal(profiles_bad_indices(p, MESSAGE_STACK, 1).count, COUNT + 1);
	assert_int_equal(profiles_bad_indices(p, MESSAGE_STACK, 2).count, 0);
	assert_int_equal(profiles_bad_indices(p, MESSAGE_STACK, 3).count, 1);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zero_entries),
		cmocka_unit_test(test_mappings_are_told_apart),
		cmocka_unit_test(test_locations_are_told_apart),
		cmocka_unit_test(test_functions_and_links_are_told_apart),
		cmocka_unit_test(test_attributes_are_told_apart),
		cmocka_unit_test(test_tables_grow),
		cmocka_unit_test(test_nesting_of_messages),
		cmocka_unit_test(test_limit_is_an_error_at_the_end),
		cmocka_unit_test(test_bad_indices_are_found_by_element),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
