/* hex_test.c - hex digits and percent-escapes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hex.h"

static void test_every_character(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";
		const char *low = c ? strchr(digits, c) : NULL,
			   *high = c ? strchr(capitals, c) : NULL;
		int want = low ? (int)(low - digits) : high ? (int)(high - capitals) : -1;

		assert_int_equal(hex_value((char)c), want);
	}
}

static const struct {
	struct str text;
	size_t len;
	bool ok;
} texts[] = {
	{ STR("00ffAb10"), 4, true },
	{ STR("00ffAb1"), 4, false },
	{ STR("00ffAb100"), 4, false },
	{ STR("00ffAb1g"), 4, false },
	{ STR("\x10"
	      "0ffAb10"),
	  4, false },
	{ STR(""), 0, true },
	{ STR("00"), 0, false },
};

static void test_bytes(void **state)
{
	static const uint8_t want[] = { 0x00, 0xff, 0xab, 0x10 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		uint8_t out[4] = { 1, 1, 1, 1 };

		if (hex_decode(texts[i].text, out, texts[i].len) != texts[i].ok)
			fail_msg("%.*s", STR_ARG(texts[i].text));
		if (texts[i].ok && texts[i].len)
			assert_memory_equal(out, want, sizeof(want));
	}
}

static const struct {
	const char *in, *want;
} escapes[] = {
	{ "a%2Fb%2fc", "a/b/c" }, { "%41", "A" },   { "100%", "100%" }, { "%4", "%4" },
	{ "%zz%41", "%zzA" },     { "%%41", "%A" }, { "", "" },
};

static void test_escapes(void **state)
{
	AUTO(buf_release) struct buf out = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
		buf_reset(&out);
		percent_decode(&out, str_cstr(escapes[i].in));
		if (!str_is(buf_view(&out), escapes[i].want))
			fail_msg("%s: %.*s", escapes[i].in, STR_ARG(buf_view(&out)));
	}
	for (int c = 0; c < 256; c++) {
		buf_reset(&out);
		percent_append(&out, (unsigned char)c);
		assert_int_equal(out.len, 3);
		assert_int_equal(percent_escape_at(buf_view(&out), 0), c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_character),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
