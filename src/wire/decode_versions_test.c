/*
 * Hand-made messages of every version: what old versions have and the newest has not, and the traps
 * of the wire: order, unpacked lists, negative indices, zero entries, absence. Written with the few
 * lines below, not with our encoder.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/otlp.h"

enum { MSG_MOST = 1024 };

struct msg {
	uint8_t b[MSG_MOST];
	size_t len;
};

static void raw(struct msg *m, uint64_t varint)
{
	do {
		assert_true(m->len < MSG_MOST);
		m->b[m->len++] = (uint8_t)(varint > 127 ? (varint & 127) | 128 : varint);
		varint >>= 7;
	} while (varint);
}

static void num(struct msg *m, unsigned field, uint64_t v)
{
	raw(m, field << 3);
	raw(m, v);
}

static void fixed(struct msg *m, unsigned field, uint64_t v)
{
	raw(m, field << 3 | 1);
	memcpy(m->b + m->len, &v, 8);
	m->len += 8;
}

static void bytes(struct msg *m, unsigned field, const void *data, size_t len)
{
	raw(m, field << 3 | 2);
	raw(m, len);
	assert_true(m->len + len < MSG_MOST);
	if (len)
		memcpy(m->b + m->len, data, len);
	m->len += len;
}

static void text(struct msg *m, unsigned field, const char *s)
{
	bytes(m, field, s, strlen(s));
}

static void sub(struct msg *m, unsigned field, const struct msg *inner)
{
	bytes(m, field, inner->b, inner->len);
}

/* A packed list, ended by LIST_END. */
#define LIST_END UINT64_C(0xdeadbeefdeadbeef)
static void list(struct msg *m, unsigned field, uint64_t first, ...)
{
	struct msg packed = { .len = 0 };
	va_list ap;

	va_start(ap, first);
	for (uint64_t v = first; v != LIST_END; v = va_arg(ap, uint64_t))
		raw(&packed, v);
	va_end(ap);
	sub(m, field, &packed);
}
#define L(...) __VA_ARGS__, LIST_END
#define N(v)   UINT64_C(v)

static void key_string(struct msg *m, unsigned field, const char *key, const char *value)
{
	struct msg any = { .len = 0 }, kv = { .len = 0 };

	text(&any, 1, value);
	text(&kv, 1, key);
	sub(&kv, 2, &any);
	sub(m, field, &kv);
}

/* Profile -> ScopeProfiles -> ResourceProfiles, as field 1 of the request. */
static void request_add_profile(struct msg *request, const struct msg *profile)
{
	struct msg scope = { .len = 0 }, resource = { .len = 0 };

	sub(&scope, 2, profile);
	sub(&resource, 2, &scope);
	sub(request, 1, &resource);
}

static struct profiles *decode_with(const struct msg *m, const struct otlp_decode_options *o,
				    struct otlp_decode_report *report)
{
	struct blob *blob = blob_copy(str_from(m->b, m->len));
	struct profiles *p = NULL;
	struct err err = { 0 };

	if (!otlp_decode(blob, o, &p, report, NULL, &err))
		fail_msg("%s", err.msg);
	blob_unref(blob);
	return p;
}

static struct profiles *decode(const struct msg *m, enum wire_version want)
{
	struct otlp_decode_report report;
	struct profiles *p = decode_with(m, NULL, &report);

	if (report.version != want)
		fail_msg("is %s, wanted %s: %s", wire_version_name(report.version),
			 wire_version_name(want), report.evidence);
	return p;
}

static void assert_string(const struct profiles *p, struct strindex i, const char *want)
{
	struct str got = profiles_string(p, i);

	if (!str_is(got, want))
		fail_msg("\"%.*s\", wanted \"%s\"", STR_ARG(got), want);
}

static const struct any_value *extra(const struct profiles *p, enum message_kind message,
				     uint32_t index, enum extra_key key)
{
	const struct extra *e = profiles_extra(p, message, index, key);

	if (!e)
		fail_msg("%s %u has no %s", message_kind_name(message), index, extra_key_name(key));
	return &e->value;
}

static void assert_extra_text(const struct profiles *p, enum message_kind message, uint32_t index,
			      enum extra_key key, const char *want)
{
	struct buf b;

	buf_init(&b, 0);
	any_value_append_text(&b, extra(p, message, index, key));
	buf_char(&b, '\0');
	assert_string_equal(b.ptr, want);
	buf_release(&b);
}

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
		cmocka_unit_test(test_v1_3_loses_nothing),
		cmocka_unit_test(test_v1_3_split_container),
		cmocka_unit_test(test_several_sample_types),
		cmocka_unit_test(test_tables_of_each_profile),
		cmocka_unit_test(test_newest_in_any_order),
		cmocka_unit_test(test_missing_zero_entries),
		cmocka_unit_test(test_string_0_is_a_name),
		cmocka_unit_test(test_bad_indices),
		cmocka_unit_test(test_bad_runs_of_v1_7),
		cmocka_unit_test(test_v1_6),
		cmocka_unit_test(test_v1_8_extras),
		cmocka_unit_test(test_payload_tells_v1_8),
		cmocka_unit_test(test_profiles_tell_where_samples_do_not),
		cmocka_unit_test(test_unknown_fields_are_kept),
		cmocka_unit_test(test_versions_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
