/* base64_test.c - reading base64; writing it is tested with buf.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"

static const struct {
	const char *text;
	bool ok;
	const char *bytes;
} cases[] = {
	/* RFC 4648, 10, with and without padding */
	{ "", true, "" },
	{ "Zg==", true, "f" },
	{ "Zg", true, "f" },
	{ "Zm8=", true, "fo" },
	{ "Zm8", true, "fo" },
	{ "Zm9v", true, "foo" },
	{ "Zm9vYg", true, "foob" },
	{ "Zm9vYmFy", true, "foobar" },
	/* both alphabets */
	{ "_-8=", true, "\xff\xef" },
	{ "/+8", true, "\xff\xef" },
	/* broken */
	{ "Z", false, "" },
	{ "Z Q", false, "" },
	{ "Zm9v!", false, "" },
	{ "Zg===", false, "" },
	{ "Z=g=", false, "" },
};

static void test_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf out = { 0 };
		bool ok = base64_decode(str_cstr(cases[i].text), &out);

		if (ok != cases[i].ok || (ok && !str_is(buf_view(&out), cases[i].bytes)))
			fail_msg("\"%s\": %d, \"%.*s\"", cases[i].text, ok,
				 STR_ARG(buf_view(&out)));
	}
}

/* What buf_base64() writes is read back, for every length of the last group. */
static void test_round_trip(void **state)
{
	uint8_t bytes[259];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		AUTO(buf_release) struct buf text = { 0 }, again = { 0 };

		buf_base64(&text, bytes, len);
		assert_true(base64_decode(buf_view(&text), &again));
		assert_true(str_equal(buf_view(&again), str_from((const char *)bytes, len)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
