/*
 * Hand-made messages of v1.8 and later, and the traps of the wire in any version: order, unpacked
 * lists, negative indices, zero entries, unknown fields, what tells the versions apart.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/message_for_tests.h"

/* A newest message in an order of one's choice, with zero entries as senders write them. */
static void newest_message(struct msg *request, bool dictionary_first, bool unpacked)
{
	struct msg profile = { .len = 0 }, dict = { .len = 0 }, m = { .len = 0 },
		   empty = { .len = 0 }, any = { .len = 0 };

	if (unpacked) {
		num(&m, 2, 1);
		num(&m, 2, 2);
		num(&m, 4, 7);
		num(&m, 4, 8);
		fixed(&m, 5, 100);
		fixed(&m, 5, 200);
	} else {
		fixed(&m, 5, 100); /* mixed: one so, one packed */
		bytes(&m, 5, "\xc8\0\0\0\0\0\0\0", 8);
		list(&m, 4, L(N(7)));
		num(&m, 4, 8);
		list(&m, 2, L(N(1), N(2)));
	}
	num(&m, 1, 1);
	sub(&profile, 2, &m);
	fixed(&profile, 3, 50);
	text(&profile, 7, "");
	sub(&profile, 5, &empty);
	sub(&dict, 1, &empty);
	sub(&dict, 2, &empty);
	sub(&dict, 3, &empty);
	bytes(&dict, 4, "\x12\x00\x0a\x00", 4);
	text(&dict, 5, "");
	text(&dict, 5, "k1");
	text(&dict, 5, "k2");
	bytes(&dict, 6, "\x12\x00", 2);
	text(&any, 1, "v");
	for (unsigned i = 1; i < 3; i++) {
		struct msg a = { .len = 0 };

		num(&a, 1, i);
		sub(&a, 2, &any);
		sub(&dict, 6, &a);
	}
	sub(&dict, 7, &empty);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 0); /* unpacked */
	sub(&dict, 7, &m);
	if (dictionary_first)
		sub(request, 2, &dict);
	request_add_profile(request, &profile);
	if (!dictionary_first)
		sub(request, 2, &dict);
}

static void test_newest_in_any_order(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct msg request = { .len = 0 };
		const struct sample *s;
		struct profiles *p;

		newest_message(&request, i & 1, i & 2);
		p = decode(&request, WIRE_V1_10);
		assert_int_equal(p->moved_entries, 0);
		assert_int_equal(p->bad_index_count, 0);
		assert_int_equal(p->unknown_field_count, 0);
		s = &p->samples[0];
		assert_int_equal(s->attributes.count, 2);
		assert_int_equal(s->values.count, 2);
		assert_int_equal(s->timestamps.count, 2);
		assert_int_equal(p->timestamps[s->timestamps.first + 1], 200);
		assert_int_equal(sample_total(p, &p->profiles[0], s).value, 15);
		assert_int_equal(sample_total(p, &p->profiles[0], s).events, 2);
		assert_int_equal(p->dict.stacks[1].locations.count, 1);
		profiles_free(p);
	}
}

/* Senders that begin their tables with real entries. */
static void test_missing_zero_entries(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct otlp_decode_options newest = { .version = WIRE_V1_10 };
	struct profiles *p;
	struct range stack;

	(void)state;
	list(&m, 4, L(N(3))); /* stack_index 0, which here is a real stack */
	sub(&profile, 2, &m);
	request_add_profile(&request, &profile);
	m = (struct msg){ .len = 0 };
	num(&m, 2, 0xaaa);
	sub(&dict, 2, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 2, 0xbbb);
	sub(&dict, 2, &m);
	m = (struct msg){ .len = 0 };
	list(&m, 1, L(N(0), N(1)));
	sub(&dict, 7, &m);
	sub(&request, 2, &dict);
	p = decode_with(&request, &newest, NULL);
	assert_true(p->moved_entries != 0);
	assert_int_equal(p->bad_index_count, 0);
	assert_int_equal(p->dict.locations[0].address, 0);
	stack = p->dict.stacks[p->samples[0].stack.v].locations;
	assert_int_equal(stack.count, 2);
	assert_int_equal(p->dict.locations[p->dict.stack_locations[stack.first].v].address, 0xaaa);
	assert_int_equal(p->dict.locations[p->dict.stack_locations[stack.first + 1].v].address,
			 0xbbb);
	profiles_free(p);
}

/* String 0 is a name: what names a thing shows it, what may be unset stays unset, one past the
 * table stays outside. */
static void test_string_0_is_a_name(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct otlp_decode_options newest = { .version = WIRE_V1_10 };
	const struct function *f;
	struct profiles *p;

	(void)state;
	num(&m, 1, 1);
	sub(&profile, 1, &m); /* sample_type: type 1, unit 0 */
	request_add_profile(&request, &profile);
	m = (struct msg){ .len = 0 };
	sub(&dict, 3, &m); /* the zero function stays zero */
	num(&m, 4, 7);
	sub(&dict, 3, &m); /* name 0 */
	num(&m, 1, 2);
	sub(&dict, 3, &m); /* name 2 of 2 */
	text(&dict, 5, "main");
	text(&dict, 5, "samples");
	sub(&request, 2, &dict);
	p = decode_with(&request, &newest, NULL);
	f = p->dict.functions;
	assert_int_equal(p->moved_entries, 1);
	assert_true(str_equal(profiles_string(p, f[0].name), STR("")));
	assert_true(str_equal(profiles_string(p, f[1].name), STR("main")));
	assert_int_equal(f[1].system_name.v, 0);
	assert_int_equal(f[2].name.v, 0);
	assert_int_equal(p->bad_index_count, 1);
	assert_true(str_equal(profiles_string(p, p->profiles[0].sample_type.unit), STR("main")));
	assert_true(str_equal(profiles_string(p, p->profiles[0].sample_type.type), STR("samples")));
	profiles_free(p);
}

/* Bad indices: a record each, the sample stays; strict refuses the profile that reaches one, and
 * only that. */
static void test_bad_indices(void **state)
{
	struct msg request = { .len = 0 }, dict = { .len = 0 }, empty = { .len = 0 }, m;
	struct otlp_decode_options strict = { .version = WIRE_V1_10, .strict = true };
	struct otlp_decode_options lenient = { .version = WIRE_V1_10 };
	struct otlp_decode_report report;
	const struct bad_index *bad;
	struct profiles *p;

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		struct msg profile = { .len = 0 };

		m = (struct msg){ .len = 0 };
		num(&m, 1, i < 2 ? i : i == 2 ? 7 : 0);
		if (i == 3)
			num(&m, 3, UINT64_MAX); /* link_index -1, in ten bytes */
		list(&m, 4, L(N(1)));
		sub(&profile, 2, &m);
		request_add_profile(&request, &profile);
	}
	sub(&dict, 2, &empty);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 9); /* Location 1: mapping_index 9 of 1 */
	sub(&dict, 2, &m);
	sub(&dict, 7, &empty);
	m = (struct msg){ .len = 0 };
	list(&m, 1, L(N(0), N(1)));
	sub(&dict, 7, &m);
	sub(&request, 2, &dict);

	p = decode_with(&request, &lenient, &report);
	assert_int_equal(report.bad_index_count, 3);
	assert_int_equal(p->refused_profile_count, 0);
	assert_string_equal(report.first_problem,
			    "resource_profiles[2].scope_profiles[0].profiles[0].samples[0].stack_"
			    "index is 7, stack_table has 2");
	bad = profiles_bad_index(p, MESSAGE_SAMPLE, 3, "link_index", 0);
	assert_non_null(bad);
	assert_int_equal(bad->value, -1);
	assert_int_equal(p->samples[3].link.v, 0);
	assert_non_null(profiles_bad_index(p, MESSAGE_LOCATION, 1, "mapping_index", 0));
	profiles_free(p);

	p = decode_with(&request, &strict, &report);
	assert_int_equal(report.refused_profiles, 3);
	assert_false(p->profiles[0].refused);
	assert_true(p->profiles[1].refused); /* stack 1 -> location 1 -> mapping 9 */
	assert_true(p->profiles[2].refused && p->profiles[3].refused);
	profiles_free(p);
}

/* v1.8: comments and temporality, which v1.9 has no more. */
static void test_v1_8_extras(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct profiles *p;

	(void)state;
	num(&m, 1, 1);
	num(&m, 3, 2);
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 };
	list(&m, 2, L(N(9)));
	list(&m, 3, L(N(1)));
	sub(&profile, 2, &m);
	list(&profile, 7, L(N(1), N(2)));
	text(&profile, 8, "");
	list(&profile, 12, L(N(1)));
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "one");
	text(&dict, 5, "two");
	bytes(&dict, 6, "\x12\x00", 2);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 1);
	sub(&dict, 6, &m);
	sub(&request, 2, &dict);
	p = decode(&request, WIRE_V1_8);
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_COMMENTS, "[\"one\",\"two\"]");
	assert_int_equal(extra(p, MESSAGE_PROFILE, 0, EXTRA_SAMPLE_TEMPORALITY)->integer, 2);
	assert_int_equal(p->profiles[0].attributes.count, 1);
	assert_int_equal(p->values[0], 9);
	profiles_free(p);
}

/* Without an id a payload with its format tells v1.8 (10, 11) from v1.9 (9, 10). */
static void test_payload_tells_v1_8(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct profiles *p;

	(void)state;
	list(&m, 2, L(N(9)));
	list(&m, 3, L(N(1)));
	sub(&profile, 2, &m);
	text(&profile, 10, "pprof");
	bytes(&profile, 11, "\xff\xff\xff", 3); /* no packed list */
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "one");
	bytes(&dict, 6, "\x12\x00", 2);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 1);
	sub(&dict, 6, &m);
	sub(&request, 2, &dict);
	p = decode(&request, WIRE_V1_8);
	assert_true(str_is(p->profiles[0].original_payload_format, "pprof"));
	profiles_free(p);
}

/* Samples that are the same from v1.8 on: what Profiles have beside them tells. */
static void test_profiles_tell_where_samples_do_not(void **state)
{
	static const struct {
		unsigned field;
		const char *bytes;
		enum wire_version want;
	} cases[] = {
		{ 8, "", WIRE_V1_8 },       { 12, "\x01", WIRE_V1_8 },  { 8, NULL, WIRE_V1_10 },
		{ 9, NULL, WIRE_V1_8 },     { 9, "pprof", WIRE_V1_10 }, { 7, "", WIRE_V1_10 },
		{ 11, "\x01", WIRE_V1_10 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
			   m = { .len = 0 };

		num(&m, 1, 0);
		fixed(&m, 5, 7);
		sub(&profile, 2, &m);
		if (cases[i].bytes)
			text(&profile, cases[i].field, cases[i].bytes);
		else
			num(&profile, cases[i].field, 3);
		request_add_profile(&request, &profile);
		text(&dict, 5, "");
		text(&dict, 5, "one");
		m = (struct msg){ .len = 0 };
		num(&m, 1, 1);
		sub(&dict, 6, &m);
		sub(&dict, 6, &m);
		sub(&request, 2, &dict);
		profiles_free(decode(&request, cases[i].want));
	}
}

/* Samples of a stack and field 2 only: what the field's entries can be decides, and what is assumed
 * is said. */
static void test_field_2_alone(void **state)
{
	static const struct {
		uint64_t entries[2]; /* LIST_END: one of them */
		bool unpacked, ambiguous;
		enum wire_version want;
	} cases[] = {
		{ { 1, 2 }, false, true, WIRE_V1_10 },
		{ { 2, 1 }, true, true, WIRE_V1_10 },
		{ { 1, LIST_END }, false, true, WIRE_V1_9 },
		{ { 7, LIST_END }, false, false, WIRE_V1_9 },
		{ { 1, 7 }, false, false, WIRE_V1_9 },
		{ { 2, 2 }, false, false, WIRE_V1_9 },
		{ { 0, 1 }, true, false, WIRE_V1_9 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
			   m = { .len = 0 };
		const uint64_t *e = cases[i].entries;
		struct otlp_decode_report report;
		const struct sample *s;
		struct profiles *p;

		num(&m, 1, 0);
		if (cases[i].unpacked) {
			num(&m, 2, e[0]);
			num(&m, 2, e[1]);
		} else {
			list(&m, 2, e[0], e[1], LIST_END);
		}
		sub(&profile, 2, &m);
		request_add_profile(&request, &profile);
		text(&dict, 5, "");
		for (unsigned key = 1; key < 4; key++) {
			struct msg a = { .len = 0 };

			text(&dict, 5, "key");
			num(&a, 1, key);
			sub(&dict, 6, &a);
		}
		sub(&request, 2, &dict);
		p = decode_with(&request, NULL, &report);
		if (report.version != cases[i].want ||
		    report.version_ambiguous != cases[i].ambiguous)
			fail_msg("case %zu: version %d, %s", i, report.version, report.evidence);
		assert_int_equal(cases[i].ambiguous, strstr(report.evidence, "assumed") != NULL);
		s = &p->samples[0];
		if (cases[i].want == WIRE_V1_10)
			assert_int_equal(s->attributes.count, 2);
		else
			assert_int_equal(s->values.count, e[1] == LIST_END ? 1 : 2);
		profiles_free(p);
	}
}

/* Unknown fields of every wire type, groups among them, are kept as they came. */
static void test_unknown_fields_are_kept(void **state)
{
	static const char unknown[] =
		"\xa8\x06\x05"                      /* 101: varint */
		"\xb3\x06\x0a\x01x\x13\x14\xb4\x06" /* 102: a group with a field and a group in it
						     */
		"\xbd\x06"
		"abcd"; /* 103: fixed32 */
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 };
	struct profiles *p;
	struct str kept;

	(void)state;
	memcpy(profile.b, unknown, sizeof(unknown) - 1);
	profile.len = sizeof(unknown) - 1;
	fixed(&profile, 3, 1);
	num(&profile, 104, 6);
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	sub(&request, 2, &dict);
	p = decode_with(&request, NULL, NULL);
	assert_int_equal(p->unknown_field_count, 4);
	kept = extra(p, MESSAGE_PROFILE, 0, EXTRA_UNKNOWN_FIELDS)->string;
	assert_int_equal(kept.len, sizeof(unknown) - 1 + 3);
	assert_memory_equal(kept.ptr, unknown, sizeof(unknown) - 1);
	profiles_free(p);
}

static void test_versions_by_name(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		enum wire_version want;
	} cases[] = {
		{ "1.3", true, WIRE_V1_3 },
		{ "v1.3.2", true, WIRE_V1_3 },
		{ "1.10", true, WIRE_V1_10 },
		{ "v1.11.0", true, WIRE_V1_10 },
		{ "auto", true, WIRE_AUTO },
		{ "1.8.0", true, WIRE_V1_8 },
		{ "1.2", false, 0 },
		{ "1.12", false, 0 },
		{ "2.0", false, 0 },
		{ "1", false, 0 },
		{ "", false, 0 },
		{ "1.7.x", false, 0 },
		{ "1.7.0.0", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum wire_version got;
		struct err err;

		if (wire_version_parse(str_cstr(cases[i].text), &got, &err) != cases[i].ok)
			fail_msg("\"%s\"", cases[i].text);
		if (cases[i].ok)
			assert_int_equal(got, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newest_in_any_order),
		cmocka_unit_test(test_missing_zero_entries),
		cmocka_unit_test(test_string_0_is_a_name),
		cmocka_unit_test(test_bad_indices),
		cmocka_unit_test(test_v1_8_extras),
		cmocka_unit_test(test_payload_tells_v1_8),
		cmocka_unit_test(test_profiles_tell_where_samples_do_not),
		cmocka_unit_test(test_field_2_alone),
		cmocka_unit_test(test_unknown_fields_are_kept),
		cmocka_unit_test(test_versions_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
