#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"

static void test_suggest(void **state)
{
	static const char *const flags[] = { "receiver", "grpc-address", "http-address",
					     "stdout.layout", "up" };
	static const struct {
		const char *word, *want;
	} cases[] = {
		{ "recevier", "receiver" },
		{ "reciever", "receiver" },
		{ "grpc-adress", "grpc-address" },
		{ "htpp-address", "http-address" },
		{ "STDOUT.Layout", "stdout.layout" },
		{ "receiver", "receiver" },
		{ "banana", NULL },
		{ "", NULL },
		{ "u", NULL }, /* one of one letter is not "near" */
		{ "xpc-address", "grpc-address" },
	};
	char long_word[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got = text_suggest(str_cstr(cases[i].word), flags, ARRAY_LEN(flags));

		if (!str_equal(str_cstr(got), str_cstr(cases[i].want)))
			fail_msg("\"%s\" suggests %s", cases[i].word, got ? got : "nothing");
	}
	memset(long_word, 'a', sizeof(long_word));
	assert_null(text_suggest(str_from(long_word, sizeof(long_word)), flags, ARRAY_LEN(flags)));
}

static void test_parse_size(void **state)
{
	static const struct {
		const char *in;
		bool ok;
		uint64_t want;
	} cases[] = {
		{ "1024", true, 1024 },
		{ "64MiB", true, 64 << 20 },
		{ "64 MiB", true, 64 << 20 },
		{ "64M", true, 64 << 20 },
		{ "64MB", true, 64000000 },
		{ "1kb", true, 1000 },
		{ " 2G ", true, UINT64_C(2) << 30 },
		{ "0", true, 0 },
		{ "7B", true, 7 },
		{ "16777215T", true, UINT64_C(16777215) << 40 },
		{ "16777216T", false, 0 }, /* 2^64 */
		{ "99999999999999999999", false, 0 },
		{ "", false, 0 },
		{ "MiB", false, 0 },
		{ "-1", false, 0 },
		{ "1.5G", false, 0 },
		{ "5 apples", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		uint64_t got = 0;
		bool ok = text_parse_size(str_cstr(cases[i].in), &got, &err);

		if (ok != cases[i].ok || got != cases[i].want)
			fail_msg("\"%s\": %d, %llu", cases[i].in, ok, (unsigned long long)got);
		if (!ok)
			assert_int_equal(err.kind, ERR_INVALID);
	}
}

static void test_utf8(void **state)
{
#define BAD "\xef\xbf\xbd"
	static const struct {
		struct str in;
		const char *want; /* NULL: valid, unchanged */
	} cases[] = {
		{ STR(""), NULL },
		{ STR("ascii that is longer than eight bytes"), NULL },
		{ STR("\xc3\xa9 \xe2\x82\xac \xf0\x90\x8d\x88 \xf4\x8f\xbf\xbf"), NULL },
		{ STR("\xed\x9f\xbf\xee\x80\x80"), NULL }, /* around the surrogates */
		{ STR("\xed\xa0\x80"), BAD BAD BAD },      /* U+D800 */
		{ STR("\xc0\xaf"), BAD BAD },              /* overlong slash */
		{ STR("\xe0\x9f\xbf"), BAD BAD BAD },
		{ STR("\xf0\x8f\xbf\xbf"), BAD BAD BAD BAD },
		{ STR("\xf4\x90\x80\x80"), BAD BAD BAD BAD }, /* U+110000 */
		{ STR("\xf5\x80"), BAD BAD },
		{ STR("\x80"), BAD },
		{ STR("a\xe2\x82"), "a" BAD BAD },
		{ STR("12345678\xff"
		      "12345678\xc3"),
		  "12345678" BAD "12345678" BAD },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str want = cases[i].want ? str_cstr(cases[i].want) : cases[i].in;

		if (utf8_valid(cases[i].in) != !cases[i].want)
			fail_msg("row %zu: validity", i);
		buf_reset(&b);
		utf8_append_clean(&b, cases[i].in);
		if (!str_equal(buf_view(&b), want))
			fail_msg("row %zu: \"%.*s\"", i, STR_ARG(buf_view(&b)));
	}
	buf_release(&b);
}

static void test_printable(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} cases[] = {
		{ STR("plain \xe2\x82\xac"), "plain \xe2\x82\xac" },
		{ STR("a\nb\tc\rd"), "a\\nb\\tc\\rd" },
		{ STR("\x1b[31mred\x7f\0"), "\\x1b[31mred\\x7f\\x00" },
		{ STR("\xc2\x9b"
		      "31m"),
		  "\\u009b31m" }, /* C1: the one-character ESC [ */
		{ STR("\xff\n"), BAD "\\n" },
		{ STR("\xc2"), BAD },
		{ STR(""), "" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_reset(&b);
		text_append_printable(&b, cases[i].in);
		if (!str_is(buf_view(&b), cases[i].want))
			fail_msg("row %zu: \"%.*s\"", i, STR_ARG(buf_view(&b)));
	}
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suggest),
		cmocka_unit_test(test_parse_size),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
