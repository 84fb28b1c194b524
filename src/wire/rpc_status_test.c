#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "wire/otlp.h"

#define URL "type.googleapis.com/google.rpc.RetryInfo"

static const struct {
	int code;
	const char *message;
	uint64_t delay_ns;
	const char *bytes;
	size_t len;
	const char *json;
} rows[] = {
	{ 3, "bad", 0,
	  "\x08\x03\x12\x03"
	  "bad",
	  7, "{\"code\":3,\"message\":\"bad\"}" },
	{ 14, "busy", 1500000000,
	  "\x08\x0e\x12\x04"
	  "busy"
	  "\x1a\x36\x0a\x28" URL "\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01",
	  64,
	  "{\"code\":14,\"message\":\"busy\",\"details\":[{\"@type\":\"" URL
	  "\",\"retryDelay\":\"1.500s\"}]}" },
	{ 8, "", 5000000000, "\x08\x08\x1a\x30\x0a\x28" URL "\x12\x04\x0a\x02\x08\x05", 52,
	  "{\"code\":8,\"message\":\"\",\"details\":[{\"@type\":\"" URL
	  "\",\"retryDelay\":\"5s\"}]}" },
	{ 14, "", 1001, "\x08\x0e\x1a\x31\x0a\x28" URL "\x12\x05\x0a\x03\x10\xe9\x07", 53,
	  "{\"code\":14,\"message\":\"\",\"details\":[{\"@type\":\"" URL
	  "\",\"retryDelay\":\"0.000001001s\"}]}" },
};

static void test_statuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf out, json;
		struct str message;
		uint64_t delay_ns = 1;
		int code = -1;
		struct err err;

		buf_init(&out, 0);
		buf_init(&json, 0);
		rpc_status_encode(&out, rows[i].code, str_cstr(rows[i].message), rows[i].delay_ns);
		rpc_status_encode_json(&json, rows[i].code, str_cstr(rows[i].message),
				       rows[i].delay_ns);
		assert_int_equal(out.len, rows[i].len);
		assert_memory_equal(out.ptr, rows[i].bytes, out.len);
		assert_true(str_is(buf_view(&json), rows[i].json));
		assert_true(rpc_status_decode(buf_view(&out), &code, &message, &delay_ns, &err));
		assert_int_equal(code, rows[i].code);
		assert_true(str_is(message, rows[i].message));
		assert_int_equal(delay_ns, rows[i].delay_ns);
		for (size_t len = 0; len < out.len;
		     len++) /* cut anywhere: an error or a shorter status */
			if (rpc_status_decode(str_from(out.ptr, len), &code, &message, &delay_ns,
					      &err))
				assert_true(message.len <= out.len);
		buf_release(&out);
		buf_release(&json);
	}
}

static void test_foreign_details_are_passed_over(void **state)
{
	static const char bad_request[] = "\x08\x03\x1a\x08\x0a\x04x/ab\x12\x00\x1a\x02\x12\x00";
	struct str message;
	uint64_t delay_ns = 1;
	int code;
	struct err err;

	(void)state;
	assert_true(rpc_status_decode(str_from(bad_request, sizeof(bad_request) - 1), &code,
				      &message, &delay_ns, &err));
	assert_int_equal(code, 3);
	assert_int_equal(delay_ns, 0);
}

static void test_hostile_delays(void **state)
{
	static const struct {
		const char *duration;
		uint8_t len;
		uint64_t want_ns;
	} delays[] = {
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 0 },      /* -1 s */
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, UINT64_MAX }, /* 2^63-1 s */
		{ "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 0 },      /* -1 ns */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(delays); i++) {
		struct str message;
		uint64_t delay_ns = 1;
		int code;
		struct err err;
		struct buf b;
		uint8_t n = delays[i].len;

		buf_init(&b, 0);
		buf_char(&b, '\x1a');
		buf_char(&b, (char)(2 + 40 + 2 + 2 + n));
		buf_lit(&b, "\x0a\x28" URL "\x12");
		buf_char(&b, (char)(2 + n));
		buf_char(&b, '\x0a');
		buf_char(&b, (char)n);
		buf_append(&b, delays[i].duration, n);
		assert_true(rpc_status_decode(buf_view(&b), &code, &message, &delay_ns, &err));
		assert_int_equal(delay_ns, delays[i].want_ns);
		buf_release(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_foreign_details_are_passed_over),
		cmocka_unit_test(test_hostile_delays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
