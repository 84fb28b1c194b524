#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"

static void assert_buf(struct buf *b, const char *want)
{
	if (b->failed || !str_is(buf_view(b), want))
		fail_msg("got \"%.*s\", want \"%s\"", STR_ARG(buf_view(b)), want);
	buf_reset(b);
}

static void test_numbers(void **state)
{
	static const int64_t signed_cases[] = { 0,   1,    -1,    9,         10,       99,
						100, -100, 12345, INT64_MAX, INT64_MIN };
	struct buf b;
	uint64_t v = 1;

	(void)state;
	buf_init(&b, 0);
	for (int digits = 1; digits <= 20; digits++, v = v * 10) {
		char want[32];

		for (uint64_t delta = 0; delta < 2; delta++) {
			snprintf(want, sizeof(want), "%llu", (unsigned long long)(v - delta));
			buf_u64(&b, v - delta);
			assert_buf(&b, want);
		}
	}
	buf_u64(&b, UINT64_MAX);
	assert_buf(&b, "18446744073709551615");
	for (size_t i = 0; i < ARRAY_LEN(signed_cases); i++) {
		char want[32];

		snprintf(want, sizeof(want), "%lld", (long long)signed_cases[i]);
		buf_i64(&b, signed_cases[i]);
		assert_buf(&b, want);
	}
	buf_release(&b);
}

static void test_json_string(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} cases[] = {
		{ STR(""), "\"\"" },
		{ STR("plain text"), "\"plain text\"" },
		{ STR("a\"b\\c"), "\"a\\\"b\\\\c\"" },
		{ STR("\n\r\t\b\f"), "\"\\n\\r\\t\\b\\f\"" },
		{ STR("\0\x01\x1f\x7f"), "\"\\u0000\\u0001\\u001f\x7f\"" },
		{ STR("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"" },
		{ STR("a\xff"
		      "b"),
		  "\"a\xef\xbf\xbd"
		  "b\"" },
		{ STR("\xe2\x82\"x"),
		  "\"\xef\xbf\xbd\xef\xbf\xbd\\\"x\"" }, /* a cut euro sign: each byte */
		{ STR("\xf0\x9f\x94\xa5"), "\"\xf0\x9f\x94\xa5\"" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_json_string(&b, cases[i].in);
		assert_buf(&b, cases[i].want);
	}
	buf_release(&b);
}

/* Strings are looked at eight bytes a time: each byte at each place of the eight, among bytes that
 * are nearly special. */
static void test_json_string_finds_each_byte_at_each_place(void **state)
{
	static const char around[] = "!#[]^ ~\x7f!#[]^ ~\x7f";
	struct buf b, one;

	(void)state;
	buf_init(&b, 0);
	buf_init(&one, 0);
	for (unsigned c = 0; c < 0x80; c++) {
		for (size_t at = 0; at < 16; at++) {
			char in[17], byte = (char)c;
			struct str want;

			memcpy(in, around, 16);
			in[at] = byte;
			buf_reset(&b);
			buf_reset(&one);
			buf_json_string(&b, str_from(in, 16));
			buf_json_string(&one, str_from(&byte, 1)); /* too short for the eight */
			want = str_from(one.ptr + 1, one.len - 2);
			assert_int_equal(b.len, 2 + 15 + want.len);
			assert_memory_equal(b.ptr + 1, around, at);
			assert_memory_equal(b.ptr + 1 + at, want.ptr, want.len);
			assert_memory_equal(b.ptr + 1 + at + want.len, around + at + 1, 15 - at);
		}
	}
	buf_release(&b);
	buf_release(&one);
}

/* RFC 4648, section 10. */
static void test_base64_and_hex(void **state)
{
	static const struct {
		const char *in, *base64, *hex;
	} cases[] = {
		{ "", "", "" },
		{ "f", "Zg==", "66" },
		{ "fo", "Zm8=", "666f" },
		{ "foo", "Zm9v", "666f6f" },
		{ "foob", "Zm9vYg==", "666f6f62" },
		{ "fooba", "Zm9vYmE=", "666f6f6261" },
		{ "foobar", "Zm9vYmFy", "666f6f626172" },
		{ "\xff\xfe\xfd", "//79", "fffefd" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_base64(&b, cases[i].in, strlen(cases[i].in));
		assert_buf(&b, cases[i].base64);
		buf_hex(&b, cases[i].in, strlen(cases[i].in));
		assert_buf(&b, cases[i].hex);
	}
	buf_release(&b);
}

static void test_printf(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 300);
	buf_printf(&b, "%s", "");
	assert_buf(&b, "");
	buf_printf(&b, "%d-%s", 7, "x");
	buf_printf(&b, "%290d", 1); /* grows in the middle */
	assert_false(b.failed);
	assert_int_equal(b.len, 293);
	buf_printf(&b, "%7d", 1); /* exactly to the limit */
	assert_false(b.failed);
	assert_int_equal(b.len, 300);
	buf_printf(&b, "x");
	assert_true(b.failed);
	buf_release(&b);
}

static void test_limit_is_remembered(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	buf_lit(&b, "12345678");
	buf_lit(&b, "abc");
	assert_true(b.failed);
	buf_char(&b, 'x'); /* would fit, but the text has a hole by now */
	buf_u64(&b, 1);
	buf_hex(&b, "x", 1);
	buf_base64(&b, "x", 1);
	buf_printf(&b, "x");
	assert_true(b.failed);
	assert_int_equal(b.len, 8);
	assert_null(buf_reserve(&b, SIZE_MAX));
	buf_reset(&b);
	buf_lit(&b, "0123456789");
	assert_false(b.failed);
	assert_int_equal(b.len, 10);
	buf_release(&b);
	assert_int_equal(b.limit_bytes, 10);
	buf_lit(&b, "1234");
	buf_i64(&b, -12345); /* exactly to the limit */
	assert_buf(&b, "1234-12345");
	buf_release(&b);
}

static void test_growth_is_geometric(void **state)
{
	struct buf b;
	size_t moves = 0, last_cap = 0;

	(void)state;
	buf_init(&b, 0);
	for (int i = 0; i < 1000000; i++) {
		buf_char(&b, 'x');
		if (b.cap != last_cap)
			moves++;
		last_cap = b.cap;
	}
	assert_true(moves < 20);
	assert_true(b.cap < 2 * b.len + 2);
	buf_trim(&b, 4096);
	assert_int_equal(b.len, 1000000); /* in use: kept */
	buf_reset(&b);
	buf_lit(&b, "rest");
	buf_trim(&b, 4096);
	assert_true(b.cap < 4096);
	assert_buf(&b, "rest");
	buf_release(&b);
}

static void test_take(void **state)
{
	struct buf b;
	size_t len;
	char *p;

	(void)state;
	buf_init(&b, 0);
	buf_lit(&b, "mine");
	p = buf_take(&b, &len);
	assert_int_equal(len, 4);
	assert_memory_equal(p, "mine", 4);
	free(p);
	assert_null(b.ptr);
	buf_lit(&b, "again");
	assert_buf(&b, "again");
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_json_string),
		cmocka_unit_test(test_json_string_finds_each_byte_at_each_place),
		cmocka_unit_test(test_base64_and_hex),
		cmocka_unit_test(test_printf),
		cmocka_unit_test(test_limit_is_remembered),
		cmocka_unit_test(test_growth_is_geometric),
		cmocka_unit_test(test_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
