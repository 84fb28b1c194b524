#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "wire/otlp.h"

static const struct {
	int64_t rejected;
	const char *message, *json;
	const char *bytes;
	size_t len;
} responses[] = {
	{ 0, "", "{}", "", 0 },
	{ 3, "", "{\"partialSuccess\":{\"rejectedProfiles\":\"3\"}}", "\x0a\x02\x08\x03", 4 },
	{ 0, "old", "{\"partialSuccess\":{\"errorMessage\":\"old\"}}", "\x0a\x05\x12\x03old", 7 },
	{ 2, "a\"b",
	  "{\"partialSuccess\":{\"rejectedProfiles\":\"2\",\"errorMessage\":\"a\\\"b\"}}",
	  "\x0a\x07\x08\x02\x12\x03"
	  "a\"b",
	  9 },
};

static void test_responses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(responses); i++) {
		struct buf out, json, json_message;
		struct str message;
		int64_t rejected = -1;
		struct err err;

		buf_init(&out, 0);
		buf_init(&json, 0);
		buf_init(&json_message, 0);
		otlp_encode_response(&out, responses[i].rejected, str_cstr(responses[i].message));
		otlp_encode_response_json(&json, responses[i].rejected,
					  str_cstr(responses[i].message));
		assert_true(
			str_equal(buf_view(&out), str_from(responses[i].bytes, responses[i].len)));
		assert_true(str_is(buf_view(&json), responses[i].json));
		assert_true(otlp_decode_response(buf_view(&out), &rejected, &message, &err));
		assert_int_equal(rejected, responses[i].rejected);
		assert_true(str_is(message, responses[i].message));
		rejected = -1;
		assert_true(
			otlp_decode_response_json(buf_view(&json), &rejected, &json_message, &err));
		assert_int_equal(rejected, responses[i].rejected);
		assert_true(str_is(buf_view(&json_message), responses[i].message));
		buf_release(&out);
		buf_release(&json);
		buf_release(&json_message);
	}
}

static void test_foreign_json_response(void **state)
{
	struct buf message;
	int64_t rejected;
	struct err err;

	(void)state;
	buf_init(&message, 0);
	assert_true(otlp_decode_response_json(
		STR(" {\"x\":[1,{}],\"partial_success\":{\"rejected_profiles\":7,"
		    "\"errorMessage\":\"\\u00fc\"}} "),
		&rejected, &message, &err));
	assert_int_equal(rejected, 7);
	assert_true(str_is(buf_view(&message), "\xc3\xbc"));
	assert_true(otlp_decode_response_json(STR("{\"partialSuccess\":null}"), &rejected, &message,
					      &err));
	assert_int_equal(rejected, 0);
	assert_false(otlp_decode_response_json(STR("<html>"), &rejected, &message, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	buf_release(&message);
}

static void test_cut_responses(void **state)
{
	struct buf out;
	struct err err;
	int64_t rejected;
	struct str message;

	(void)state;
	buf_init(&out, 0);
	otlp_encode_response(&out, 300, STR("some text"));
	for (size_t len = 1; len < out.len; len++)
		assert_false(
			otlp_decode_response(str_from(out.ptr, len), &rejected, &message, &err));
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_responses),
		cmocka_unit_test(test_foreign_json_response),
		cmocka_unit_test(test_cut_responses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
