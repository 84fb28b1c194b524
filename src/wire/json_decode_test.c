#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "model/equal.h"
#include "wire/otlp_json.h"
#include "wire_fixtures.h"

static bool decode(struct str json, struct profiles **out, struct otlp_decode_report *report,
		   struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct blob *body = blob_copy(json);
	bool ok = otlp_json_decode(body, &options, out, report, err);

	blob_unref(body);
	return ok;
}

/* The one profile of the one scope of the one resource. */
#define PROFILE(fields) \
	"{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{" fields "}]}]}]}"
#define ATTRIBUTE(value)                                                                        \
	"{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"k\",\"value\":" value \
	"}]}}]}"
#define TWO_KEYS(strindex)                                                      \
	"{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"k\"," \
	"\"keyStrindex\":" strindex                                             \
	"}]}}],\"dictionary\":{\"stringTable\":[\"\",\"k\",\"other\"]}}"
#define LINK(fields) "{\"dictionary\":{\"linkTable\":[{},{" fields "}]}}"
#define TRACE_ID     "000102030405060708090a0b0c0d0e0f"

/* What is read shows in what is written: `want` is part of it. `unknown`: so many keys were passed
 * over. */
static const struct {
	const char *in, *want;
	uint32_t unknown;
} good[] = {
	{ "{}", "{\"dictionary\":{\"mappingTable\":[{}]", 0 },
	{ " \n{\t}\r\n", "{\"dictionary\"", 0 },
	{ "\xef\xbb\xbf{}", "{\"dictionary\"", 0 },
	{ "{\"resourceProfiles\":null,\"dictionary\":null}", "{\"dictionary\"", 0 },
	{ "{\"resourceProfiles\":[null]}", "[{\"resource\":{}}]", 0 },
	/* 64-bit numbers as strings, numbers, with an exponent */
	{ PROFILE("\"period\":\"5\""), "\"period\":\"5\"", 0 },
	{ PROFILE("\"period\":5"), "\"period\":\"5\"", 0 },
	{ PROFILE("\"period\":-5e0"), "\"period\":\"-5\"", 0 },
	{ PROFILE("\"period\":\"1.50e3\""), "\"period\":\"1500\"", 0 },
	{ PROFILE("\"period\":12300e-2"), "\"period\":\"123\"", 0 },
	{ PROFILE("\"period\":0.0e99999999999999999999"), "\"periodType\":{}}", 0 },
	{ PROFILE("\"period\":9223372036854775807"), "\"period\":\"9223372036854775807\"", 0 },
	{ PROFILE("\"period\":\"-9223372036854775808\""), "\"period\":\"-9223372036854775808\"",
	  0 },
	{ PROFILE("\"timeUnixNano\":18446744073709551615"),
	  "\"timeUnixNano\":\"18446744073709551615\"", 0 },
	{ PROFILE("\"period\":null"), "\"periodType\":{}}", 0 },
	{ PROFILE("\"droppedAttributesCount\":\"4294967295\""),
	  "\"droppedAttributesCount\":4294967295", 0 },
	/* spellings */
	{ PROFILE("\"time_unix_nano\":\"7\",\"duration_nano\":8"),
	  "\"timeUnixNano\":\"7\",\"durationNano\":\"8\"", 0 },
	{ PROFILE("\"timeNanos\":\"7\",\"durationNanos\":8"),
	  "\"timeUnixNano\":\"7\",\"durationNano\":\"8\"", 0 },
	{ PROFILE("\"samples\":[{\"value\":[1,\"2\"]}]"),
	  "\"samples\":[{\"values\":[\"1\",\"2\"]}]", 0 },
	{ PROFILE("\"sample\":[{\"values\":[1,\"2\"]}]"),
	  "\"samples\":[{\"values\":[\"1\",\"2\"]}]", 0 },
	{ "{\"dictionary\":{\"locationTable\":[{},{\"line\":[{\"line\":3}]}]}}",
	  "{\"lines\":[{\"line\":\"3\"}]}", 0 },
	/* unknown keys, whatever they hold */
	{ PROFILE("\"x\":{\"a\":[1,{\"b\":\"]\"}],\"c\":null},\"period\":1,\"y\":true"),
	  "\"period\":\"1\"", 2 },
	/* equal keys: the last scalar, joined lists */
	{ PROFILE("\"period\":1,\"period\":2"), "\"period\":\"2\"", 0 },
	{ PROFILE("\"samples\":[{\"stackIndex\":0}],\"samples\":[{}]"), "\"samples\":[{},{}]", 0 },
	/* ids: hex, hex in capitals, base64, base64url, odd ones */
	{ PROFILE("\"profileId\":\"" TRACE_ID "\""), "\"profileId\":\"" TRACE_ID "\"", 0 },
	{ LINK("\"traceId\":\"000102030405060708090A0B0C0D0E0F\""), "\"traceId\":\"" TRACE_ID "\"",
	  0 },
	{ LINK("\"traceId\":\"AAECAwQFBgcICQoLDA0ODw==\""), "\"traceId\":\"" TRACE_ID "\"", 0 },
	{ LINK("\"traceId\":\"AAECAwQFBgcICQoLDA0ODw\""), "\"traceId\":\"" TRACE_ID "\"", 0 },
	{ LINK("\"spanId\":\"-_8AAAAAAAA=\""), "\"spanId\":\"fbff000000000000\"", 0 },
	{ LINK("\"spanId\":\"0102030405060708\""), "\"spanId\":\"0102030405060708\"", 0 },
	{ LINK("\"spanId\":\"abcd\""), "\"spanId\":\"abcd\"", 0 },
	{ LINK("\"spanId\":\"\""), "{},{}", 0 },
	/* values of every kind */
	{ ATTRIBUTE("{\"stringValue\":\"\"}"), "{\"stringValue\":\"\"}", 0 },
	{ ATTRIBUTE("{\"boolValue\":false}"), "{\"boolValue\":false}", 0 },
	{ ATTRIBUTE("{\"boolValue\":\"true\"}"), "{\"boolValue\":true}", 0 },
	{ ATTRIBUTE("{\"intValue\":0}"), "{\"intValue\":\"0\"}", 0 },
	{ ATTRIBUTE("{\"doubleValue\":1.5}"), "{\"doubleValue\":1.5}", 0 },
	{ ATTRIBUTE("{\"doubleValue\":\"-0.25\"}"), "{\"doubleValue\":-0.25}", 0 },
	{ ATTRIBUTE("{\"doubleValue\":\"NaN\"}"), "{\"doubleValue\":\"NaN\"}", 0 },
	{ ATTRIBUTE("{\"doubleValue\":\"-Infinity\"}"), "{\"doubleValue\":\"-Infinity\"}", 0 },
	{ ATTRIBUTE("{\"bytesValue\":\"aGk=\"}"), "{\"bytesValue\":\"aGk=\"}", 0 },
	{ ATTRIBUTE("{\"arrayValue\":{\"values\":[{\"intValue\":1},{},null]}}"),
	  "{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},{},{}]}}", 0 },
	{ ATTRIBUTE("{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{\"boolValue\":true}}]}"
		    "}"),
	  "{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{\"boolValue\":true}}]}}", 0 },
	{ ATTRIBUTE("{\"stringValue\":null,\"intValue\":2}"), "{\"intValue\":\"2\"}", 0 },
	/* a key by text and by reference: the text; a reference to something else has no place */
	{ TWO_KEYS("1"), "[{\"key\":\"k\",\"value\":{}}]", 0 },
	{ TWO_KEYS("2"), "[{\"key\":\"k\",\"value\":{}}]", 1 },
	/* escapes */
	{ ATTRIBUTE("{\"stringValue\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}"),
	  "\"\\\"\\\\/\\b\\f\\n\\r\\t\"", 0 },
	{ ATTRIBUTE("{\"stringValue\":\"\\u0041\\u00fc\\u20AC\"}"), "\"A\xc3\xbc\xe2\x82\xac\"",
	  0 },
	{ ATTRIBUTE("{\"stringValue\":\"\\ud83d\\ude00\"}"), "\"\xf0\x9f\x98\x80\"", 0 },
	{ ATTRIBUTE("{\"stringValue\":\"\\ud83dx\\ude00\"}"), "\"\xef\xbf\xbdx\xef\xbf\xbd\"", 0 },
	{ ATTRIBUTE("{\"stringValue\":\"\\ud83d\\ud83d\\ude00\"}"),
	  "\"\xef\xbf\xbd\xf0\x9f\x98\x80\"", 0 },
	{ "{\"\\u0072esourceProfiles\":[{}]}", "[{\"resource\":{}}]", 0 },
	{ "{\"resourceProfiles\":[{\"resource\":{\"entityRefs\":[{\"type\":\"service\",\"idKeys\":["
	  "\"a\",\"b\"]}]}}]}",
	  "\"entityRefs\":[{\"type\":\"service\",\"idKeys\":[\"a\",\"b\"]}]", 0 },
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct otlp_decode_report report;
		struct profiles *p;
		struct buf out;
		struct err err;

		if (!decode(str_cstr(good[i].in), &p, &report, &err))
			fail_msg("%s: %s", good[i].in, err.msg);
		buf_init(&out, 0);
		assert_true(otlp_json_encode(p, &out, &err));
		if (str_search(buf_view(&out), str_cstr(good[i].want)) < 0)
			fail_msg("%s: %.*s", good[i].in, STR_ARG(buf_view(&out)));
		if (report.unknown_field_count != good[i].unknown)
			fail_msg("%s: %u keys unknown", good[i].in, report.unknown_field_count);
		buf_release(&out);
		profiles_free(p);
	}
}

static const struct {
	const char *in, *message;
} bad[] = {
	{ "", "byte 0" },
	{ "[]", "expected an object, found an array" },
	{ "{", "not closed" },
	{ "{}x", "something follows" },
	{ "{\"a\"}", "expected ':'" },
	{ "{\"a\":1,}", "a comma before the end" },
	{ "{\"a\":1 \"b\":2}", "expected ',' or '}'" },
	{ "{a:1}", "expected a key in double quotes" },
	{ "{nope", "expected a key in double quotes" },
	{ "{\"a\":[1,]}", "a comma before the end" },
	{ "{\"a\":01}", "not a number" },
	{ "{\"a\":-}", "not a number" },
	{ "{\"a\":1.}", "not a number" },
	{ "{\"a\":1e}", "not a number" },
	{ "{\"a\":truth}", "expected true, false or null" },
	{ "{\"a\":\"\n\"}", "a control character" },
	{ "{\"a\":\"\\x\"}", "no such escape" },
	{ "{\"a\":\"\\u12g4\"}", "four hex digits" },
	{ "{\"a\":\"\\ud800\\u12\"}", "four hex digits" },
	{ "{\"a\":\"b", "not closed" },
	{ "{\n \"resourceProfiles\": 1}",
	  "byte 23 (line 2, column 22): expected an array, found a number" },
	{ PROFILE("\"period\":1.5"), "\"1.5\" is no integer of this field's range" },
	{ PROFILE("\"period\":9223372036854775808"), "no integer" },
	{ PROFILE("\"period\":-9223372036854775809"), "no integer" },
	{ PROFILE("\"period\":1e30"), "no integer" },
	{ PROFILE("\"period\":1e99999999999999999999"), "no integer" },
	{ PROFILE("\"period\":\"\""), "no integer" },
	{ PROFILE("\"period\":\"0x10\""), "no integer" },
	{ PROFILE("\"period\":true"), "expected a number, found a bool" },
	{ PROFILE("\"timeUnixNano\":-1"), "no integer" },
	{ PROFILE("\"timeUnixNano\":18446744073709551616"), "no integer" },
	{ PROFILE("\"droppedAttributesCount\":4294967296"), "no integer" },
	{ PROFILE("\"samples\":[{\"stackIndex\":2147483648}]"), "no integer" },
	{ PROFILE("\"profileId\":\"***\""), "profile_id is neither base64 nor hex" },
	{ PROFILE("\"originalPayload\":\"A\""), "neither base64 nor hex" },
	{ ATTRIBUTE("{\"doubleValue\":1e999}"), "no double" },
	{ ATTRIBUTE("{\"doubleValue\":\"nan\"}"), "no double" },
	{ ATTRIBUTE("{\"boolValue\":1}"), "expected a bool" },
	{ ATTRIBUTE("{\"stringValue\":1}"), "expected a string, found a number" },
	{ "{\"dictionary\":[]}", "expected an object, found an array" },
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct otlp_decode_report report;
		struct profiles *p = NULL;
		struct err err = { 0 };

		if (decode(str_cstr(bad[i].in), &p, &report, &err))
			fail_msg("%s is taken", bad[i].in);
		assert_null(p);
		assert_int_equal(err.kind, ERR_INVALID);
		if (!strstr(err.msg, bad[i].message))
			fail_msg("%s: %s", bad[i].in, err.msg);
	}
}

static void test_nesting_is_limited(void **state)
{
	static const char *const open[] = { "[", "{\"a\":", "{\"arrayValue\":{\"values\":[" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(open); i++) {
		struct otlp_decode_report report;
		struct profiles *p;
		struct err err = { 0 };
		struct buf in;

		buf_init(&in, 0);
		buf_lit(&in,
			"{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"k\",");
		buf_str(&in, i == 2 ? STR("\"value\":") : STR("\"unknown\":"));
		for (int depth = 0; depth < 10000; depth++)
			buf_str(&in, str_cstr(open[i]));
		assert_false(decode(buf_view(&in), &p, &report, &err));
		assert_int_equal(err.kind, ERR_INVALID);
		buf_release(&in);
	}
}

static void test_references_out_of_range(void **state)
{
	struct otlp_decode_report report;
	struct profiles *p;
	struct err err;

	(void)state;
	assert_true(decode(STR(PROFILE("\"samples\":[{\"stackIndex\":-1,\"values\":[1]}]")), &p,
			   &report, &err));
	assert_int_equal(p->bad_index_count, 1);
	assert_int_equal(p->bad_indices[0].value, -1);
	profiles_free(p);
}

/* Cut anywhere, a body is refused: its last byte is the bracket that closes it. */
static void test_cut_anywhere(void **state)
{
	struct blob *json = fixture_read("v1.11.0-synthetic-offcpu-links", ".otlp.json");
	struct str text = str_trim(blob_view(json));
	struct otlp_decode_report report;
	struct profiles *p;
	struct err err;

	(void)state;
	for (size_t len = 0; len < text.len; len += 7)
		assert_false(decode(str_head(text, len), &p, &report, &err));
	blob_unref(json);
}

/* Seeded: each run sees the same bytes. Whatever is read can be written and read again. */
static void test_mutations(void **state)
{
	struct blob *json = fixture_read("v1.11.0-synthetic-offcpu-links", ".otlp.json");
	uint64_t seed = 42;
	uint32_t taken = 0;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct blob *copy = blob_copy(blob_view(json));
		struct otlp_decode_report report;
		struct profiles *p, *again;
		struct err err;
		struct buf out;

		for (int change = 0; change < 3; change++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			copy->ptr[(seed >> 33) % copy->len] =
				"{}[],:\"\\0129-e.naZ"[(seed >> 20) % 18];
		}
		if (decode(blob_view(copy), &p, &report, &err)) {
			taken++;
			buf_init(&out, 0);
			assert_true(otlp_json_encode(p, &out, &err));
			if (!decode(buf_view(&out), &again, &report, &err))
				fail_msg("round %d: %s", round, err.msg);
			profiles_free(again);
			profiles_free(p);
			buf_release(&out);
		}
		blob_unref(copy);
	}
	assert_in_range(taken, 100, 2900);
	blob_unref(json);
}

/* 0x0a is a line feed and the tag of field 1, 0x7b a brace and a length of 123. */
static void test_json_is_told_from_messages(void **state)
{
	static const struct {
		struct str body;
		bool json;
	} cases[] = {
		{ STR("{}"), true },
		{ STR("\n{}"), true },
		{ STR("\xef\xbb\xbf{}"), true },
		{ STR(" \r\n\t{\"resourceProfiles\":[]}"), true },
		{ STR("{\"\x01\":1}"), true }, /* bad JSON; a message does not begin with 0x7b */
		{ STR(""), false },
		{ STR("\n"), false },
		{ STR("\n\x7b\n\x20\n\x1e\n\fcontainer.id\x12\x0e\n\fabcdefabcdef\x12\x57"),
		  false },
		{ STR("\n\x7b\x12\x79\x12\x77"), false },
		{ STR("[]"), true },
		{ STR(" [ {}]"), true },
		{ STR("[\x0a\x01"), true },
		{ STR("[\x08\x01\x5c"), false }, /* a group, field 11 */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (otlp_looks_like_json(cases[i].body) != cases[i].json)
			fail_msg("case %zu", i);
}

static void test_other_encodings_are_named(void **state)
{
	static const struct {
		struct str body;
		const char *name;
	} cases[] = {
		{ STR("{\"resourceProfiles\":[]}"), NULL },
		{ STR("\xef\xbb\xbf{}"), NULL },
		{ STR(""), NULL },
		{ STR("\xff\xfe{\0}\0"), "UTF-16" },
		{ STR("\xfe\xff\0{\0}"), "UTF-16" },
		{ STR("{\0}\0"), "UTF-16" },
		{ STR("\0{\0}"), "UTF-16" },
		{ STR("\xff\xfe\0\0{\0\0\0}\0\0\0"), "UTF-32" },
		{ STR("{\0\0\0}\0\0\0"), "UTF-32" },
		{ STR("\0\0\0{\0\0\0}"), "UTF-32" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct blob *body = blob_copy(cases[i].body);
		struct otlp_decode_options options = { 0 };
		struct otlp_decode_report report;
		struct profiles *p = NULL;
		struct err err = { 0 };
		const char *name = otlp_json_encoding(cases[i].body);

		if (!name != !cases[i].name || (name && strcmp(name, cases[i].name) != 0))
			fail_msg("case %zu: %s", i, name ? name : "-");
		if (name && (otlp_json_decode(body, &options, &p, &report, &err) ||
			     !strstr(err.msg, name) || !strstr(err.msg, "UTF-8")))
			fail_msg("case %zu: \"%s\"", i, err.msg);
		blob_unref(body);
	}
}

static void test_json_of_something_else(void **state)
{
	static const struct {
		struct str body;
		const char *first; /* NULL: not foreign */
	} cases[] = {
		{ STR("{}"), NULL },
		{ STR("{\"resourceProfiles\":[]}"), NULL },
		{ STR("{\"foo\":1,\"resource_profiles\":[]}"), NULL },
		{ STR("{\"string_table\":[]}"), NULL },
		{ STR("{\"foo\":[{\"dictionary\":1}],\"bar\":2}"), "\"foo\"" },
		{ STR("{\"resource\":{},\"stack\":[]}"), "\"resource\"" },
		{ STR("{\"foo\":"), NULL }, /* bad JSON is told as that */
		{ STR("[]"), NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		bool foreign = otlp_json_is_foreign(cases[i].body, &err);

		if (foreign != (cases[i].first != NULL))
			fail_msg("case %zu: %d", i, foreign);
		if (foreign && !strstr(err.msg, cases[i].first))
			fail_msg("case %zu: %s", i, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_other_encodings_are_named),
		cmocka_unit_test(test_json_of_something_else),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_nesting_is_limited),
		cmocka_unit_test(test_references_out_of_range),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_json_is_told_from_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
