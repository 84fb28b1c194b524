#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "model/equal.h"
#include "wire/otlp_json.h"
#include "wire_fixtures.h"

static struct profiles *decode_protobuf(struct blob *body, const char *name)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct err err;

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	return p;
}

static struct profiles *decode_json(struct blob *body, const char *name,
				    struct otlp_decode_report *report)
{
	struct otlp_decode_options options = { 0 };
	struct profiles *p = NULL;
	struct err err;

	if (!otlp_json_decode(body, &options, &p, report, &err))
		fail_msg("%s: %s", name, err.msg);
	return p;
}

/* By the fixture's name. v1.4 and v1.5 have one schema, and v1.9 and later the same keys. */
static enum wire_version version_of_keys(const char *name)
{
	static const struct {
		const char *begin;
		enum wire_version version;
	} names[] = {
		{ "v1.3.", WIRE_V1_3 },   { "v1.4.", WIRE_V1_5 },   { "v1.5.", WIRE_V1_5 },
		{ "v1.7.", WIRE_V1_7 },   { "v1.8.", WIRE_V1_8 },   { "v1.9.", WIRE_V1_10 },
		{ "v1.10.", WIRE_V1_10 }, { "v1.11.", WIRE_V1_10 },
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(name, names[i].begin, strlen(names[i].begin)) == 0)
			return names[i].version;
	fail_msg("%s: of which version?", name);
	return WIRE_AUTO;
}

/* protojson of every schema version, made by the official descriptors, says what the protobuf body
 * says. */
static void test_protojson_of_every_version(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		const char *name = wire_fixtures[i];
		struct blob *protobuf = fixture_read(name, ".pb"), *json = fixture_read_json(name);
		struct otlp_decode_report report;
		struct profiles *a = decode_protobuf(protobuf, name),
				*b = decode_json(json, name, &report);
		struct err why;

		if (!profiles_equal(a, b, 0, &why))
			fail_msg("%s: %s (%s)", name, why.msg, report.evidence);
		if (report.unknown_field_count != a->unknown_field_count)
			fail_msg("%s: %u unknown, %s", name, report.unknown_field_count,
				 report.evidence);
		if (report.version != version_of_keys(name))
			fail_msg("%s is taken for %s: %s", name, wire_version_name(report.version),
				 report.evidence);
		profiles_free(a);
		profiles_free(b);
		blob_unref(protobuf);
		blob_unref(json);
	}
}

static void test_collectors_json(void **state)
{
	static const char name[] = "v1.11.0-synthetic-offcpu-links";
	struct blob *protobuf = fixture_read(name, ".pb"), *json = fixture_read(name, ".otlp.json");
	struct otlp_decode_report report;
	struct profiles *a = decode_protobuf(protobuf, name), *b = decode_json(json, name, &report);
	struct buf out;
	struct err err;

	(void)state;
	if (!profiles_equal(a, b, 0, &err))
		fail_msg("%s", err.msg);
	buf_init(&out, 0);
	assert_true(otlp_json_encode(a, &out, &err));
	assert_true(str_equal(buf_view(&out), str_trim(blob_view(json))));
	buf_release(&out);
	profiles_free(a);
	profiles_free(b);
	blob_unref(protobuf);
	blob_unref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_protojson_of_every_version),
		cmocka_unit_test(test_collectors_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
