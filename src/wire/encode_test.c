#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "model/builder.h"
#include "model/equal.h"
#include "wire/check.h"
#include "wire/json_transcode.h"
#include "wire/otlp.h"
#include "wire_fixtures.h"

static struct profiles *decode(struct blob *body, enum wire_version version, const char *name)
{
	struct otlp_decode_options options = { .version = version };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct err err;

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	return p;
}

/* Encodes in a version and decodes again.
 */
/* What we write is what its version's schema reads, and refers to what is there. */
static void assert_conforms(struct blob *body, enum wire_version version, const char *name)
{
	static const char *const about_content[] = { "timestamp-window", "duplicate-entry",
						     "orphan-entry",     "sample-identity",
						     "function-empty",   "sample-shape" };
	struct check_result r;
	struct err err;

	assert_true(otlp_check(body, version, 0, &r, &err));
	for (uint32_t i = 0; i < r.count; i++) {
		bool content = false;

		for (size_t k = 0; k < ARRAY_LEN(about_content); k++)
			content |= strcmp(r.findings[i].rule, about_content[k]) == 0;
		if (!content)
			fail_msg("%s as %s: %s %.*s %.*s", name, wire_version_name(version),
				 r.findings[i].rule, STR_ARG(r.findings[i].path),
				 STR_ARG(r.findings[i].message));
	}
	check_result_release(&r);
}

static struct profiles *through(const struct profiles *p, enum wire_version version,
				const char *name)
{
	struct buf out;
	struct blob *body;
	struct profiles *again;
	struct err err;
	size_t len;
	char *heap;

	buf_init(&out, 0);
	if (!otlp_encode(p, version, &out, &err))
		fail_msg("%s as %s: %s", name, wire_version_name(version), err.msg);
	heap = buf_take(&out, &len);
	body = blob_adopt(heap, len);
	again = decode(body, version, name);
	if (strcmp(name, "full") != 0) /* those break rules on purpose */
		assert_conforms(body, version, name);
	blob_unref(body);
	return again;
}

static void assert_same(const struct profiles *a, const struct profiles *b, unsigned flags,
			const char *name, enum wire_version version)
{
	struct err why;

	if (!profiles_equal(a, b, flags, &why))
		fail_msg("%s through %s: %s", name, wire_version_name(version), why.msg);
}

static void test_fixtures_go_through_every_version(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		struct blob *body = fixture_read(wire_fixtures[i], ".pb");
		struct profiles *p = decode(body, WIRE_AUTO, wire_fixtures[i]);

		for (enum wire_version v = WIRE_V1_7; v <= WIRE_V1_10; v++) {
			struct profiles *again = through(p, v, wire_fixtures[i]);
			unsigned flags = 0;

			if (v != (enum wire_version)p->source_version)
				flags |= EQUAL_IGNORE_EXTRAS;
			if (v < WIRE_V1_10)
				flags |= EQUAL_IGNORE_REFERENCES;
			if ((v <= WIRE_V1_7) != (p->source_version <= WIRE_V1_7))
				flags |= EQUAL_TOTALS;
			assert_same(p, again, flags, wire_fixtures[i], v);
			profiles_free(again);
		}
		profiles_free(p);
		blob_unref(body);
	}
}

#define TRACE "000102030405060708090a0b0c0d0e0f"
#define SPAN  "0001020304050607"

/* Bodies with all that their version has and the newest has not; `raw` is appended: fields that no
 * version knows. */
static const struct {
	enum wire_version version;
	const char *json;
	uint32_t extras; /* at least */
} full[] = {
	{ WIRE_V1_7,
	  "{\"resourceProfiles\":[{\"resource\":{\"entityRefs\":[{\"type\":\"service\",\"idKeys\":["
	  "\"a\"]}]},"
	  "\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":[{\"typeStrindex\":1,"
	  "\"aggregationTemporality\":1},"
	  "{\"typeStrindex\":2,\"unitStrindex\":3,\"aggregationTemporality\":2}],\"sample\":["
	  "{\"locationsLength\":2,\"value\":[\"5\",\"50\"],\"attributeIndices\":[0],\"linkIndex\":"
	  "0,"
	  "\"timestampsUnixNano\":[\"1000\",\"1001\"]},"
	  "{\"locationsStartIndex\":1,\"locationsLength\":2,\"value\":[\"6\",\"-60\"],"
	  "\"linkIndex\":1},"
	  "{\"value\":[\"7\",\"70\"]}],\"locationIndices\":[0,1,0],\"timeNanos\":\"1000\","
	  "\"durationNanos\":\"100\","
	  "\"periodType\":{\"typeStrindex\":1,\"aggregationTemporality\":1},\"period\":\"9\","
	  "\"defaultSampleTypeIndex\":1,\"commentStrindices\":[1,3],\"profileId\":\"abcd\","
	  "\"droppedAttributesCount\":3,\"originalPayloadFormat\":\"jfr\",\"originalPayload\":"
	  "\"AAE=\","
	  "\"attributeIndices\":[1]}]}]}],\"dictionary\":{\"mappingTable\":[{\"memoryStart\":\"1\","
	  "\"memoryLimit\":\"2\",\"hasFunctions\":true,\"hasLineNumbers\":true},{"
	  "\"hasInlineFrames\":true,"
	  "\"hasFilenames\":true}],\"locationTable\":[{\"mappingIndex\":0,\"address\":\"1\","
	  "\"line\":[{\"functionIndex\":0,\"line\":\"1\"}]},{\"mappingIndex\":1,\"address\":\"2\","
	  "\"isFolded\":true}],"
	  "\"functionTable\":[{\"nameStrindex\":1}],\"linkTable\":[{\"traceId\":\"" TRACE
	  "\",\"spanId\":\"" SPAN "\"},"
	  "{\"traceId\":\"abcdef\",\"spanId\":\"" SPAN
	  "\"}],\"stringTable\":[\"\",\"cpu\",\"alloc\",\"bytes\",\"k\"],"
	  "\"attributeTable\":[{\"key\":\"k\",\"value\":{\"intValue\":\"1\"}},{\"key\":\"j\","
	  "\"value\":{}}],"
	  "\"attributeUnits\":[{\"attributeKeyStrindex\":4,\"unitStrindex\":3}]}}",
	  14 },
	{ WIRE_V1_8,
	  "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{"
	  "\"typeStrindex\":1,"
	  "\"aggregationTemporality\":2},\"sample\":[{\"stackIndex\":1,\"values\":[\"5\"],"
	  "\"linkIndex\":1}],"
	  "\"periodType\":{\"typeStrindex\":1,\"aggregationTemporality\":1},\"commentStrindices\":["
	  "1,2],"
	  "\"profileId\":\"" TRACE
	  "\"}]}]}],\"dictionary\":{\"mappingTable\":[{}],\"locationTable\":[{},{}],"
	  "\"functionTable\":[{}],\"linkTable\":[{},{\"traceId\":\"" TRACE "\",\"spanId\":\"ab\"}],"
	  "\"stringTable\":[\"\",\"cpu\",\"built by hand\"],\"attributeTable\":[{}],"
	  "\"stackTable\":[{},{\"locationIndices\":[1]}]}}",
	  4 },
	{ WIRE_V1_10,
	  "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"keyStrindex\":1,\"value\":{"
	  "\"arrayValue\":"
	  "{\"values\":[{\"stringValueStrindex\":1},{\"doubleValue\":\"NaN\"},{\"bytesValue\":\"AA="
	  "=\"}]}}}],"
	  "\"entityRefs\":[{\"type\":\"host\"}]},\"scopeProfiles\":[{\"profiles\":[{\"profileId\":"
	  "\"ab\"}]}]}],"
	  "\"dictionary\":{\"stringTable\":[\"\",\"k\"]}}",
	  2 },
};

static struct blob *body_of(const char *json, enum wire_version version, struct str raw)
{
	struct json_transcoded t;
	struct blob *body;
	struct err err;

	if (!json_transcode(str_cstr(json), version, 100, &t, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(t.unknown_keys, 0);
	buf_str(&t.protobuf, raw);
	body = blob_copy(buf_view(&t.protobuf));
	buf_release(&t.protobuf);
	return body;
}

static void test_what_old_versions_had_goes_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(full); i++) {
		enum wire_version v = full[i].version;
		struct blob *body =
			body_of(full[i].json, v, STR("\xd2\x3e\x02hi")); /* field 1002 */
		struct profiles *p = decode(body, v, "full"), *again = through(p, v, "full");

		if (p->extra_count <= full[i].extras)
			fail_msg("%s: %u extras", wire_version_name(v), p->extra_count);
		assert_int_equal(p->unknown_field_count, 1);
		assert_same(p, again, 0, "full", v);
		profiles_free(again);
		for (enum wire_version other = WIRE_V1_7; other <= WIRE_V1_10; other++) {
			if (other == v)
				continue;
			again = through(p, other, "full");
			assert_int_equal(again->unknown_field_count,
					 0); /* its number may mean something there */
			assert_int_equal(again->sample_count, p->sample_count);
			profiles_free(again);
		}
		profiles_free(p);
		blob_unref(body);
	}
}

/* Two profiles of one v1.7 profile are one again, with a value for each sample_type. */
static void test_split_profiles_are_joined(void **state)
{
	struct blob *body = body_of(full[0].json, WIRE_V1_7, STR(""));
	struct profiles *p = decode(body, WIRE_V1_7, "full");
	struct buf out;
	struct err err;

	(void)state;
	assert_int_equal(p->profile_count, 2);
	buf_init(&out, 0);
	assert_true(otlp_encode(p, WIRE_V1_7, &out, &err));
	/* Sample.value: field 3, packed: 5 and 50; 6 and -60 */
	assert_true(str_search(buf_view(&out), STR("\x1a\x02\x05\x32")) >= 0);
	assert_true(str_search(buf_view(&out),
			       STR("\x1a\x0b\x06\xc4\xff\xff\xff\xff\xff\xff\xff\xff\x01")) >= 0);
	buf_release(&out);
	profiles_free(p);
	blob_unref(body);
}

/* A sample_type that says nothing has its place beside the others, and its values. */
static void test_empty_sample_types_keep_their_place(void **state)
{
	static const char *const types[] = { "[{},{\"typeStrindex\":1}]",
					     "[{\"typeStrindex\":1},{}]", "[{},{}]", "[{}]" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct blob *body;
		struct profiles *p, *again;
		char json[400];

		snprintf(json, sizeof(json),
			 "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{"
			 "\"sampleType\":%s,"
			 "\"timeNanos\":1,\"durationNanos\":9,\"sample\":[{\"value\":[%s]}]}]}]}],"
			 "\"dictionary\":{\"stringTable\":[\"\",\"cpu\"]}}",
			 types[i], i < 3 ? "5,50" : "5");
		body = body_of(json, WIRE_V1_7, STR(""));
		p = decode(body, WIRE_V1_7, types[i]);
		assert_int_equal(p->profile_count, i < 3 ? 2 : 1);
		again = through(p, WIRE_V1_7, "full");
		assert_same(p, again, 0, types[i], WIRE_V1_7);
		profiles_free(again);
		profiles_free(p);
		blob_unref(body);
	}
}

/* What old samples count for, whatever their timestamps, in the shape that v1.8 and later allow. */
static const struct {
	const char *unit;
	const char *sample; /* of v1.7 */
	uint32_t timestamps, values;
	int64_t written[4];
} upgraded[] = {
	{ "count", "{\"value\":[1],\"timestampsUnixNano\":[1,2,3]}", 3, 0, { 0 } },
	{ "count", "{\"value\":[1],\"timestampsUnixNano\":[1]}", 1, 0, { 0 } },
	{ "count", "{\"value\":[1]}", 0, 1, { 1 } },
	{ "count", "{\"value\":[7],\"timestampsUnixNano\":[1,2,3]}", 3, 3, { 3, 2, 2 } },
	{ "nanoseconds", "{\"value\":[1],\"timestampsUnixNano\":[1,2]}", 2, 2, { 1, 0 } },
	{ "nanoseconds", "{\"value\":[12],\"timestampsUnixNano\":[5,4,6]}", 3, 3, { 4, 4, 4 } },
	{ "nanoseconds", "{\"value\":[-7],\"timestampsUnixNano\":[1,2]}", 2, 2, { -4, -3 } },
	{ "nanoseconds",
	  "{\"value\":[\"-9223372036854775808\"],\"timestampsUnixNano\":[1,2,3]}",
	  3,
	  3,
	  { -3074457345618258603, -3074457345618258603, -3074457345618258602 } },
	{ "nanoseconds", "{\"value\":[50],\"timestampsUnixNano\":[1]}", 1, 1, { 50 } },
	{ "nanoseconds", "{\"value\":[0],\"timestampsUnixNano\":[1,2]}", 2, 2, { 0, 0 } },
	{ "nanoseconds", "{\"timestampsUnixNano\":[1,2]}", 2, 0, { 0 } },
	{ "nanoseconds", "{\"value\":[3]}", 0, 1, { 3 } },
	{ "nanoseconds", "{}", 0, 1, { 0 } },
};

static void test_old_samples_take_the_new_shape(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(upgraded); i++)
		for (enum wire_version v = WIRE_V1_8; v <= WIRE_V1_10; v++) {
			char json[1024];
			struct blob *body;
			struct profiles *p, *again;

			snprintf(json, sizeof(json),
				 "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{"
				 "\"sampleType\":[{\"typeStrindex\":1,\"unitStrindex\":2}],"
				 "\"sample\":[%s]}]}]}],\"dictionary\":{\"stringTable\":[\"\","
				 "\"t\",\"%s\"]}}",
				 upgraded[i].sample, upgraded[i].unit);
			body = body_of(json, WIRE_V1_7, STR(""));
			p = decode(body, WIRE_V1_7, upgraded[i].sample);
			again = through(p, v, upgraded[i].sample);
			assert_int_equal(again->samples[0].timestamps.count,
					 upgraded[i].timestamps);
			assert_int_equal(again->samples[0].values.count, upgraded[i].values);
			for (uint32_t k = 0; k < upgraded[i].values; k++)
				assert_int_equal(again->values[k], upgraded[i].written[k]);
			profiles_free(again);
			profiles_free(p);
			blob_unref(body);
		}
}

static void test_refused_profiles_are_left_out(void **state)
{
	struct blob *body = fixture_read("v1.11.0-oncpu-start", ".pb");
	struct profiles *p = decode(body, WIRE_AUTO, "start"), *again;

	(void)state;
	p->profiles[0].refused = true; /* the only one of its resource */
	p->refused_profile_count = 1;
	for (enum wire_version v = WIRE_V1_7; v <= WIRE_V1_10; v++) {
		again = through(p, v, "start");
		assert_int_equal(again->profile_count, p->profile_count - 1);
		assert_int_equal(again->resource_count, p->resource_count - 1);
		profiles_free(again);
	}
	profiles_free(p);
	blob_unref(body);
}

static void test_versions_not_written(void **state)
{
	static const enum wire_version versions[] = { WIRE_AUTO, WIRE_V1_3, WIRE_V1_4, WIRE_V1_5,
						      WIRE_V1_6 };
	struct profiles *p = profiles_new(0, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct buf out;
		struct err err = { 0 };

		buf_init(&out, 0);
		assert_false(otlp_encode(p, versions[i], &out, &err));
		assert_int_equal(err.kind, ERR_UNSUPPORTED);
		assert_int_equal(out.len, 0);
		buf_release(&out);
	}
	profiles_free(p);
}

/* A buffer that is too small refuses, whatever its limit; one that is large enough takes it. */
static void test_limit_of_the_buffer(void **state)
{
	struct blob *body = fixture_read("v1.11.0-synthetic-offcpu-links", ".pb");
	struct profiles *p = decode(body, WIRE_AUTO, "links");
	struct buf out;
	struct err err;
	size_t len;

	(void)state;
	buf_init(&out, 0);
	assert_true(otlp_encode(p, WIRE_NEWEST, &out, &err));
	len = out.len;
	buf_release(&out);
	for (size_t limit = 1; limit <= len; limit = limit == len        ? len + 1
						     : limit + 101 > len ? len
									 : limit + 101) {
		bool ok;

		buf_init(&out, limit);
		ok = otlp_encode(p, WIRE_NEWEST, &out, &err);
		assert_int_equal(ok, limit >= len);
		if (!ok)
			assert_int_equal(err.kind, ERR_LIMIT);
		buf_release(&out);
	}
	profiles_free(p);
	blob_unref(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_go_through_every_version),
		cmocka_unit_test(test_what_old_versions_had_goes_back),
		cmocka_unit_test(test_split_profiles_are_joined),
		cmocka_unit_test(test_empty_sample_types_keep_their_place),
		cmocka_unit_test(test_old_samples_take_the_new_shape),
		cmocka_unit_test(test_refused_profiles_are_left_out),
		cmocka_unit_test(test_versions_not_written),
		cmocka_unit_test(test_limit_of_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
