/*
 * Fields that no schema of ours has yet, under names that some version has elsewhere, in every
 * object of every fixture's JSON: the version stays, and all samples are there.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "wire/otlp_json.h"
#include "wire/schema.h"
#include "wire_fixtures.h"

static const struct {
	const char *name;
	enum wire_version version; /* as its keys tell: 1.9 and 1.10 have the same */
	uint32_t samples;
	bool long_only;
} fixtures[] = {
	{ "v1.3.1-experimental-oncpu-a", WIRE_V1_3, 117, false },
	{ "v1.3.1-experimental-oncpu-b", WIRE_V1_3, 131, true },
	{ "v1.4.0-oncpu-start", WIRE_V1_5, 93, true },
	{ "v1.4.0-oncpu-mixed", WIRE_V1_5, 144, true },
	{ "v1.5.0-synthetic-transcoded", WIRE_V1_5, 9, false },
	{ "v1.7.0-oncpu-start", WIRE_V1_7, 52, true },
	{ "v1.7.0-oncpu-mixed", WIRE_V1_7, 96, true },
	{ "v1.7.0-synthetic-transcoded", WIRE_V1_7, 9, false },
	{ "v1.8.0-oncpu-mixed-a", WIRE_V1_8, 102, true },
	{ "v1.8.0-oncpu-mixed-b", WIRE_V1_8, 110, true },
	{ "v1.8.0-synthetic-transcoded", WIRE_V1_8, 9, false },
	{ "v1.9.0-oncpu-mixed-a", WIRE_V1_10, 88, true },
	{ "v1.9.0-oncpu-mixed-b", WIRE_V1_10, 93, true },
	{ "v1.9.0-synthetic-transcoded", WIRE_V1_10, 9, false },
	{ "v1.11.0-oncpu-start", WIRE_V1_10, 29, false },
	{ "v1.11.0-oncpu-mixed", WIRE_V1_10, 132, true },
	{ "v1.11.0-oncpu-errframes-env", WIRE_V1_10, 80, true },
	{ "v1.11.0-synthetic-offcpu-links", WIRE_V1_10, 9, false },
	{ "v1.11.0-synthetic-offcpu-links-strindex", WIRE_V1_10, 9, false },
	{ "v1.11.0-oncpu-big", WIRE_V1_10, 1200, true },
};

/* The last ones are tables of another version. */
static const char *const keys[] = { "name",     "id",        "attributes", "type",     "key",
				    "comment",  "schemaUrl", "traceId",    "isFolded", "newField",
				    "function", "profile",   "mapping" };
enum { STRUCTURE_KEYS = 3 };

static const char *const values[] = {
	"null", "\"x\"",   "1",
	"[]",   "[1,[2]]", "{\"name\":{\"id\":[1,{\"type\":null}]},\"key\":\"y\"}"
};

static json_t *fixture_json(const char *name)
{
	struct blob *text = fixture_read_json(name);
	json_t *root = json_loadb(text->ptr, text->len, 0, NULL);

	assert_non_null(root);
	blob_unref(text);
	return root;
}

/* Where the object's own schema has such a key, another value would be a fault of the sender. */
static uint32_t put_everywhere(json_t *object, const struct schema_message *m, const char *key,
			       json_t *value)
{
	const struct schema_field *f = schema_field_by_key(m, str_cstr(key));
	uint32_t put = 0;
	const char *name;
	json_t *v, *entry;
	size_t i;

	json_object_foreach(object, name, v)
	{
		const struct schema_field *below = schema_field_by_key(m, str_cstr(name));

		if (!below || !below->message)
			continue;
		if (json_is_object(v))
			put += put_everywhere(v, below->message, key, value);
		json_array_foreach(v, i, entry) put +=
			put_everywhere(entry, below->message, key, value);
	}
	if (json_object_get(object, key) || (f && !json_is_null(value)))
		return put;
	json_object_set(object, key, value);
	return put + 1;
}

static void expect_all(size_t fixture, const json_t *whole, const char *key, const char *value)
{
	json_t *root = json_deep_copy(whole);
	json_t *foreign = json_loads(value, JSON_DECODE_ANY, NULL);
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p;
	struct blob *body;
	struct err err;
	uint32_t put;
	char *text;

	assert_non_null(foreign);
	put = put_everywhere(root, schema_request(fixtures[fixture].version), key, foreign);
	assert_true(put > 20);
	text = json_dumps(root, JSON_COMPACT);
	assert_non_null(text);
	body = blob_copy(str_cstr(text));
	if (!otlp_json_decode(body, &options, &p, &report, &err))
		fail_msg("%s, %s %s: %s", fixtures[fixture].name, key, value, err.msg);
	if (report.version != fixtures[fixture].version ||
	    p->sample_count != fixtures[fixture].samples)
		fail_msg("%s, %s %s: %u samples, %s", fixtures[fixture].name, key, value,
			 p->sample_count, report.evidence);
	assert_int_equal(report.unknown_field_count, json_is_null(foreign) ? 0 : put);
	profiles_free(p);
	blob_unref(body);
	free(text);
	json_decref(foreign);
	json_decref(root);
}

static void test_foreign_keys(void **state)
{
	bool all = getenv("FLAMETAP_LONG") != NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fixtures); i++) {
		/* v1.4 to v1.7 differ by their tables alone */
		bool old = fixtures[i].version >= WIRE_V1_4 && fixtures[i].version <= WIRE_V1_7;
		size_t count = ARRAY_LEN(keys) - (old ? STRUCTURE_KEYS : 0);
		json_t *whole;

		if (fixtures[i].long_only && !all)
			continue;
		whole = fixture_json(fixtures[i].name);
		for (size_t k = 0; k < count; k++)
			for (size_t v = 0; v < ARRAY_LEN(values); v++)
				expect_all(i, whole, keys[k], values[v]);
		json_decref(whole);
	}
}

/* More of them than samples, and another version has them: the samples decide. */
static void test_structure_decides(void **state)
{
	struct buf in;
	struct blob *body;
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p;
	struct err err;

	(void)state;
	buf_init(&in, 0);
	buf_lit(&in, "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"samples\":"
		     "[{\"values\":[1]}]}]}]}],\"dictionary\":{\"locationTable\":[{}");
	for (int i = 0; i < 100; i++)
		buf_lit(&in, ",{\"isFolded\":true}");
	buf_lit(&in, "]}}");
	body = blob_copy(buf_view(&in));
	assert_true(otlp_json_decode(body, &options, &p, &report, &err));
	assert_int_equal(report.version, WIRE_NEWEST);
	assert_int_equal(p->sample_count, 1);
	assert_int_equal(report.unknown_field_count, 100);
	profiles_free(p);
	blob_unref(body);
	buf_release(&in);
}

/* What a body is about is not passed over in silence, whoever chose the version. */
static void test_vanished_samples_are_an_error(void **state)
{
	static const struct {
		const char *in;
		enum wire_version version;
		bool good;
	} cases[] = {
		{ "{\"later\":{\"samples\":[{\"values\":[1]}]}}", WIRE_AUTO, false },
		{ "{\"samples\":[{\"values\":[1]}]}", WIRE_AUTO, false },
		{ "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"samples\":[{}]}]}]}"
		  "]"
		  "}",
		  WIRE_V1_3, false },
		{ "{\"later\":{\"samples\":[]}}", WIRE_AUTO, true },
		{ "{\"later\":{\"samples\":1}}", WIRE_AUTO, true },
		{ "{\"later\":{\"samples\":[{}]},\"resourceProfiles\":[{\"scopeProfiles\":["
		  "{\"profiles\":[{\"samples\":[{}]}]}]}]}",
		  WIRE_AUTO, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct otlp_decode_options options = { .version = cases[i].version };
		struct blob *body = blob_copy(str_cstr(cases[i].in));
		struct otlp_decode_report report;
		struct profiles *p = NULL;
		struct err err = { 0 };

		if (otlp_json_decode(body, &options, &p, &report, &err) != cases[i].good)
			fail_msg("%s: %s", cases[i].in, err.msg);
		if (!cases[i].good) {
			assert_int_equal(err.kind, ERR_INVALID);
			assert_non_null(strstr(err.msg, "no sample of this JSON body"));
		}
		profiles_free(p);
		blob_unref(body);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign_keys),
		cmocka_unit_test(test_structure_decides),
		cmocka_unit_test(test_vanished_samples_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
