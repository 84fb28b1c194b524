/*
 * Hand-made messages of v1.3 to v1.7: what they have and the newest version has not, tables of
 * each profile, several sample types, absence.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/message_for_tests.h"

/* Everything that only v1.3 has, in one message. */
static void v1_3_message(struct msg *request)
{
	struct msg container = { .len = 0 }, profile = { .len = 0 }, m;
	static const char *const strings[] = { "",     "cpu",     "nanoseconds", "abc123", "kernel",
					       "main", "comment", "drop.*",      "keep.*", "color",
					       "red",  "bytes",   "size" };

	m = (struct msg){ .len = 0 };
	num(&m, 1, 1);
	num(&m, 2, 2);
	num(&m, 3, 2); /* cumulative */
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 }; /* Sample */
	num(&m, 7, 1);
	num(&m, 8, 2);
	num(&m, 9, 77);
	list(&m, 2, L(N(5)));
	list(&m, 10, L(N(0)));
	list(&m, 13, L(N(111), N(222)));
	{
		struct msg label = { .len = 0 };

		num(&label, 1, 9);
		num(&label, 2, 10);
		sub(&m, 3, &label);
		label = (struct msg){ .len = 0 };
		num(&label, 1, 12);
		num(&label, 3, 64);
		num(&label, 4, 11);
		sub(&m, 3, &label);
	}
	sub(&profile, 2, &m);
	m = (struct msg){ .len = 0 }; /* a second Sample, pprof's way */
	list(&m, 1, L(N(1), N(0)));
	list(&m, 2, L(N(6)));
	sub(&profile, 2, &m);
	m = (struct msg){ .len = 0 }; /* Mapping, at index 0 and real */
	num(&m, 1, 42);
	num(&m, 2, 0x1000);
	num(&m, 3, 0x2000);
	num(&m, 5, 5);
	num(&m, 6, 3); /* build_id "abc123" */
	num(&m, 7, 1);
	num(&m, 11, 1);
	sub(&profile, 3, &m);
	m = (struct msg){ .len = 0 }; /* Location 0: no mapping_index, which is mapping 0 */
	num(&m, 3, 0x1234);
	num(&m, 6, 4);
	sub(&profile, 4, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 3, 0x5678);
	num(&m, 5, 1); /* is_folded */
	{
		struct msg line = { .len = 0 };

		num(&line, 2, 9);
		sub(&m, 4, &line); /* function_index absent: function 0 */
	}
	sub(&profile, 4, &m);
	m = (struct msg){ .len = 0 }; /* Function */
	num(&m, 1, 43);
	num(&m, 2, 5);
	num(&m, 5, 3);
	sub(&profile, 5, &m);
	for (size_t i = 0; i < ARRAY_LEN(strings); i++)
		text(&profile, 6, strings[i]);
	num(&profile, 7, 7);
	num(&profile, 8, 8);
	num(&profile, 9, 1000);
	num(&profile, 10, 500);
	list(&profile, 13, L(N(6), N(5)));
	num(&profile, 14, 1);
	list(&profile, 15, L(N(1), N(0), N(1)));
	key_string(&profile, 16, "thread.name", "worker");
	m = (struct msg){ .len = 0 }; /* AttributeUnit of a key that no attribute has */
	num(&m, 1, 12);
	num(&m, 2, 11);
	sub(&profile, 17, &m);

	bytes(&container, 1, "0123456789abcdef", 16);
	fixed(&container, 2, 900);
	fixed(&container, 3, 2000);
	key_string(&container, 4, "who", "me");
	num(&container, 5, 3);
	text(&container, 6, "pprof");
	text(&container, 7, "PAYLOAD");
	sub(&container, 8, &profile);
	request_add_profile(request, &container);
}

static void test_v1_3_loses_nothing(void **state)
{
	struct msg request = { .len = 0 };
	const struct profile *profile;
	const struct location *l;
	struct profiles *p;

	(void)state;
	v1_3_message(&request);
	p = decode(&request, WIRE_V1_3);
	assert_int_equal(p->profile_count, 1);
	assert_int_equal(p->unknown_field_count, 0);
	assert_int_equal(p->bad_index_count, 0);
	profile = &p->profiles[0];
	assert_string(p, profile->sample_type.type, "cpu");
	assert_string(p, profile->sample_type.unit, "nanoseconds");
	assert_int_equal(profile->time_unix_nano, 1000);
	assert_int_equal(profile->duration_nano, 500);
	assert_int_equal(profile->dropped_attributes_count, 3);
	assert_memory_equal(profile->profile_id, "0123456789abcdef", 16);
	assert_true(str_is(profile->original_payload_format, "pprof"));
	assert_true(str_is(profile->original_payload, "PAYLOAD"));
	assert_true(str_is(profiles_attribute(p, profile->attributes, STR("who"))->string, "me"));
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_PROFILE_ATTRIBUTES, "{\"who\":\"me\"}");
	assert_int_equal(extra(p, MESSAGE_PROFILE, 0, EXTRA_SAMPLE_TEMPORALITY)->integer, 2);
	assert_int_equal(extra(p, MESSAGE_PROFILE, 0, EXTRA_START_TIME)->integer, 900);
	assert_int_equal(extra(p, MESSAGE_PROFILE, 0, EXTRA_END_TIME)->integer, 2000);
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_COMMENTS, "[\"comment\",\"main\"]");
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_DROP_FRAMES, "drop.*");
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_KEEP_FRAMES, "keep.*");
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_DEFAULT_SAMPLE_TYPE, "cpu");
	assert_extra_text(p, MESSAGE_PROFILE, 0, EXTRA_ATTRIBUTE_UNITS,
			  "[{\"key\":\"size\",\"unit\":\"bytes\"}]");

	assert_int_equal(p->sample_count, 2);
	assert_int_equal(extra(p, MESSAGE_SAMPLE, 0, EXTRA_STACKTRACE_ID)->integer, 77);
	assert_extra_text(p, MESSAGE_SAMPLE, 0, EXTRA_LABELS,
			  "[{\"key\":\"color\",\"str\":\"red\"},{\"key\":\"size\",\"num\":64,\"num_"
			  "unit\":\"bytes\"}]");
	assert_int_equal(p->samples[0].timestamps.count, 2);
	assert_int_equal(p->timestamps[1], 222);
	assert_int_equal(p->values[p->samples[1].values.first], 6);
	assert_int_equal(p->samples[0].link.v, 0);
	/* run 1, length 2 of [1, 0, 1] is [0, 1]; the second sample names [1, 0] itself */
	assert_int_equal(p->dict.stack_count, 3);
	assert_true(p->samples[0].stack.v != p->samples[1].stack.v);
	l = &p->dict.locations
		     [p->dict.stack_locations[p->dict.stacks[p->samples[0].stack.v].locations.first]
			      .v];
	assert_int_equal(l->address, 0x1234);
	assert_int_equal(p->dict.mappings[l->mapping.v].memory_start, 0x1000);
	assert_true(str_is(location_frame_type(p, l), "kernel"));
	assert_extra_text(p, MESSAGE_LOCATION, 1, EXTRA_LOCATION_TYPE, "kernel");
	assert_int_equal(extra(p, MESSAGE_LOCATION, 2, EXTRA_IS_FOLDED)->boolean, true);
	assert_string(p, p->dict.functions[p->dict.lines[0].function.v].name, "main");
	assert_int_equal(extra(p, MESSAGE_FUNCTION, 1, EXTRA_ID)->integer, 43);
	assert_int_equal(extra(p, MESSAGE_MAPPING, 1, EXTRA_ID)->integer, 42);
	assert_extra_text(p, MESSAGE_MAPPING, 1, EXTRA_BUILD_ID, "abc123");
	assert_int_equal(extra(p, MESSAGE_MAPPING, 1, EXTRA_BUILD_ID_KIND)->integer, 1);
	assert_int_equal(extra(p, MESSAGE_MAPPING, 1, EXTRA_HAS_FUNCTIONS)->boolean, true);
	assert_true(str_is(profiles_attribute(p, p->dict.mappings[1].attributes,
					      STR("process.executable.build_id.htlhash"))
				   ->string,
			   "abc123"));
	profiles_free(p);
}

/* v1.3's container in two parts, which add up. */
static void test_v1_3_split_container(void **state)
{
	struct msg request = { .len = 0 }, container = { .len = 0 }, a = { .len = 0 },
		   b = { .len = 0 };
	struct msg sample = { .len = 0 };
	struct profiles *p;

	(void)state;
	text(&a, 6, "");
	list(&sample, 2, L(N(1)));
	sub(&a, 2, &sample);
	sub(&b, 2, &sample);
	num(&b, 12, 99);
	fixed(&container, 2, 7);
	sub(&container, 8, &a);
	sub(&container, 8, &b);
	request_add_profile(&request, &container);
	p = decode(&request, WIRE_V1_3);
	assert_int_equal(p->sample_count, 2);
	assert_int_equal(p->profiles[0].period, 99);
	assert_int_equal(p->profiles[0].time_unix_nano,
			 7); /* no time_nanos: the container's start */
	profiles_free(p);
}

/* v1.3's location_index beside a run of location_indices: the run is the stack, the list is kept
 * where it says something else. */
static void test_v1_3_location_index_beside_a_run(void **state)
{
	static const struct {
		uint64_t start, length, a, b;
		const char *kept; /* NULL: the run's own */
		uint32_t bad;
	} cases[] = {
		{ 0, 2, 1, 0, NULL, 0 },    { 0, 2, 0, 1, "[0,1]", 0 },
		{ 0, 1, 1, 0, "[1,0]", 0 }, { 1, 2, 1, 9, "[1,9]", 1 },
		{ 7, 2, 1, 0, "[1,0]", 1 }, { 1, UINT64_MAX, 9, 8, "[9,8]", 3 },
		{ 0, 0, 1, 0, NULL, 0 }, /* no run: the list is the stack */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg request = { .len = 0 }, container = { .len = 0 }, profile = { .len = 0 },
			   m = { .len = 0 };
		struct profiles *p;

		list(&m, 1, L(cases[i].a, cases[i].b));
		num(&m, 7, cases[i].start);
		num(&m, 8, cases[i].length);
		sub(&profile, 2, &m);
		for (uint64_t address = 100; address < 102; address++) {
			m = (struct msg){ .len = 0 };
			num(&m, 3, address);
			sub(&profile, 4, &m);
		}
		text(&profile, 6, "");
		list(&profile, 15, L(N(1), N(0), N(1)));
		fixed(&container, 2, 1000);
		sub(&container, 8, &profile);
		request_add_profile(&request, &container);
		p = decode(&request, WIRE_V1_3);
		if (cases[i].kept)
			assert_extra_text(p, MESSAGE_SAMPLE, 0, EXTRA_LOCATION_INDEX,
					  cases[i].kept);
		else
			assert_null(profiles_extra(p, MESSAGE_SAMPLE, 0, EXTRA_LOCATION_INDEX));
		assert_int_equal(p->bad_index_count, cases[i].bad);
		profiles_free(p);
	}
}

/* Two sample types make two profiles that share stacks; each with its own value. v1.7, dictionary
 * behind the resources. */
static void test_several_sample_types(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct profiles *p;

	(void)state;
	num(&m, 1, 1);
	num(&m, 2, 2);
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 3);
	num(&m, 3, 1);
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 2, 1);
	list(&m, 3, L(N(10), N(20)));
	num(&m, 5, 0);  /* link 0, explicitly: a real one */
	num(&m, 31, 5); /* unknown */
	sub(&profile, 2, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 2, 1);
	list(&m, 3, L(N(30)));
	sub(&profile, 2, &m);
	list(&profile, 3, L(N(0)));
	num(&profile, 4, 50);
	num(&profile, 9, 1);
	request_add_profile(&request, &profile);
	m = (struct msg){ .len = 0 }; /* location 0, real, without a mapping */
	num(&m, 2, 0xabc);
	sub(&dict, 2, &m);
	m = (struct msg){ .len = 0 };
	bytes(&m, 1, "tttttttttttttttt", 16);
	bytes(&m, 2, "sss", 3); /* a span id of an odd length */
	sub(&dict, 4, &m);
	text(&dict, 5, "");
	text(&dict, 5, "a");
	text(&dict, 5, "count");
	text(&dict, 5, "b");
	key_string(&dict, 6, "k", "v");
	m = (struct msg){ .len = 0 };
	num(&m, 1, 3);
	sub(&dict, 7, &m); /* a unit for a key "b" that is not there */
	sub(&request, 2, &dict);

	p = decode(&request, WIRE_V1_7);
	assert_int_equal(p->profile_count, 2);
	assert_int_equal(p->sample_count, 4);
	assert_string(p, p->profiles[0].sample_type.type, "a");
	assert_string(p, p->profiles[1].sample_type.type, "b");
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(extra(p, MESSAGE_PROFILE, i, EXTRA_SAMPLE_TYPE_ORDINAL)->integer,
				 i);
		assert_int_equal(extra(p, MESSAGE_PROFILE, i, EXTRA_DEFAULT_SAMPLE_TYPE)->integer,
				 1);
		assert_int_equal(p->profiles[i].samples.count, 2);
		assert_int_equal(p->profiles[i].time_unix_nano, 50);
	}
	assert_int_equal(extra(p, MESSAGE_PROFILE, 1, EXTRA_SAMPLE_TEMPORALITY)->integer, 1);
	assert_int_equal(sample_total(p, &p->profiles[0], &p->samples[0]).value, 10);
	assert_int_equal(sample_total(p, &p->profiles[0], &p->samples[1]).value, 30);
	assert_int_equal(sample_total(p, &p->profiles[1], &p->samples[2]).value, 20);
	assert_int_equal(p->samples[3].values.count, 0); /* the second sample has no second value */
	assert_int_equal(p->samples[2].stack.v, p->samples[0].stack.v);
	assert_int_equal(p->dict.links[p->samples[0].link.v].trace_id[0], 't');
	assert_int_equal(p->samples[1].link.v, 0);
	assert_true(id_is_zero(p->dict.links[1].span_id, 8));
	assert_extra_text(p, MESSAGE_LINK, 1, EXTRA_ODD_SPAN_ID, "c3Nz");
	assert_int_equal(p->unknown_field_count, 1);
	assert_int_equal(extra(p, MESSAGE_SAMPLE, 0, EXTRA_UNKNOWN_FIELDS)->string.len, 3);
	assert_null(profiles_extra(p, MESSAGE_SAMPLE, 2, EXTRA_UNKNOWN_FIELDS));
	assert_non_null(profiles_extra(p, MESSAGE_DICTIONARY, 0, EXTRA_ATTRIBUTE_UNITS));
	profiles_free(p);
}

/* Two profiles of v1.4, each with tables of its own: index 1 is another string in each. */
static void test_tables_of_each_profile(void **state)
{
	struct msg request = { .len = 0 };
	struct profiles *p;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct msg profile = { .len = 0 }, m = { .len = 0 };

		num(&m, 1, 1);
		sub(&profile, 1, &m);
		text(&profile, 10, "");
		text(&profile, 10, i ? "second" : "first");
		m = (struct msg){ .len = 0 };
		num(&m, 1, 1);
		sub(&profile, 6, &m); /* Function */
		m = (struct msg){ .len = 0 };
		num(&m, 2, 1);
		list(&m, 4, L(N(0)));
		sub(&profile, 2, &m); /* Sample of one location */
		m = (struct msg){ .len = 0 };
		{
			struct msg line = { .len = 0 };

			num(&line, 1, 0);
			sub(&m, 3, &line);
		}
		sub(&profile, 4, &m);
		list(&profile, 5, L(N(0)));
		key_string(&profile, 7, "same.key", i ? "2" : "1");
		key_string(&profile, 18, "by.value", "x");
		request_add_profile(&request, &profile);
	}
	p = decode(&request, WIRE_V1_4);
	assert_int_equal(p->bad_index_count, 0);
	assert_int_equal(p->profile_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const char *want = i ? "second" : "first";
		const struct sample *s = &p->samples[p->profiles[i].samples.first];
		struct range stack = p->dict.stacks[s->stack.v].locations;
		const struct location *l =
			&p->dict.locations[p->dict.stack_locations[stack.first].v];

		assert_string(p, p->profiles[i].sample_type.type, want);
		assert_string(p, p->dict.functions[p->dict.lines[l->lines.first].function.v].name,
			      want);
		assert_true(str_is(profiles_attribute(p, s->attributes, STR("same.key"))->string,
				   i ? "2" : "1"));
		assert_true(str_is(
			profiles_attribute(p, p->profiles[i].attributes, STR("by.value"))->string,
			"x"));
	}
	profiles_free(p);
}

/* Old versions: runs that pass their list, in 64-bit arithmetic. */
static void test_bad_runs_of_v1_7(void **state)
{
	static const struct {
		uint64_t start, length;
		const char *field;
	} cases[] = {
		{ 4, 0, "locations_start_index" },
		{ 0, 4, "locations_length" },
		{ 3, 1, "locations_length" },
		{ UINT64_MAX, 1, "locations_start_index" },
		{ 1, UINT64_MAX, "locations_length" },
		{ 3, 0, NULL },
		{ 0, 3, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
			   m = { .len = 0 };
		struct otlp_decode_options o = { .version = WIRE_V1_7 };
		struct profiles *p;

		num(&m, 1, cases[i].start);
		num(&m, 2, cases[i].length);
		sub(&profile, 2, &m);
		list(&profile, 3, L(N(0), N(0), N(0)));
		request_add_profile(&request, &profile);
		m = (struct msg){ .len = 0 };
		num(&m, 2, 1);
		sub(&dict, 2, &m);
		sub(&request, 2, &dict);
		p = decode_with(&request, &o, NULL);
		assert_int_equal(p->bad_index_count, cases[i].field != NULL);
		assert_int_equal(profiles_bad_index(p, MESSAGE_SAMPLE, 0, "stack_index", 0) != NULL,
				 cases[i].field != NULL);
		if (cases[i].field)
			assert_string_equal(p->bad_indices[0].origin.field, cases[i].field);
		assert_int_equal(p->sample_count, 1);
		profiles_free(p);
	}
}

/* v1.6: a file has its tables at the top; an Export request has none and is refused with that
 * reason. */
static void test_v1_6(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, m = { .len = 0 };
	struct blob *blob;
	struct profiles *p;
	struct err err = { 0 };

	(void)state;
	num(&m, 2, 1);
	list(&m, 3, L(N(1)));
	sub(&profile, 2, &m);
	list(&profile, 3, L(N(0)));
	num(&profile, 4, 77);
	request_add_profile(&request, &profile);
	blob = blob_copy(str_from(request.b, request.len));
	assert_false(otlp_decode(blob, NULL, &p, NULL, NULL, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(strstr(err.msg, "v1.6"));
	blob_unref(blob);

	m = (struct msg){ .len = 0 };
	num(&m, 2, 0x42);
	sub(&request, 3, &m);
	text(&request, 6, "");
	p = decode(&request, WIRE_V1_6);
	assert_int_equal(p->sample_count, 1);
	assert_int_equal(p->profiles[0].time_unix_nano, 77);
	assert_int_equal(p->dict.locations[1].address, 0x42);
	assert_int_equal(p->dict.stacks[p->samples[0].stack.v].locations.count, 1);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v1_3_loses_nothing),
		cmocka_unit_test(test_v1_3_split_container),
		cmocka_unit_test(test_v1_3_location_index_beside_a_run),
		cmocka_unit_test(test_several_sample_types),
		cmocka_unit_test(test_tables_of_each_profile),
		cmocka_unit_test(test_bad_runs_of_v1_7),
		cmocka_unit_test(test_v1_6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
