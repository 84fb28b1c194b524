#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "components/exporters/safe_name.h"

#define TEXT(literal)                             \
	{                                         \
		("" literal), sizeof(literal) - 1 \
	}

static const struct {
	struct str in;
	const char *want;
} names[] = {
	{ TEXT("b1eba9dfaeba"), "b1eba9dfaeba" },
	{ TEXT("samples"), "samples" },
	{ TEXT("eu-\xc3\xbcn\xc3\xaf"), "eu-\xc3\xbcn\xc3\xaf" },
	{ TEXT("a b"), "a b" },
	{ TEXT("-rf"), "-rf" },
	{ TEXT("con:aux|*?"), "con:aux|*?" },
	{ TEXT(""), "%" },
	{ TEXT("%"), "%25" },
	{ TEXT("."), "%2E" },
	{ TEXT(".."), "%2E." },
	{ TEXT(".1.json.7-8.part"), "%2E1.json.7-8.part" },
	{ TEXT("a.b"), "a.b" },
	{ TEXT("../../etc"), "%2E.%2F..%2Fetc" },
	{ TEXT("/docker-ab.scope"), "%2Fdocker-ab.scope" },
	{ TEXT("%2F"), "%252F" },
	{ TEXT("x\0y"), "x%00y" },
	{ TEXT("\n\x1b[2J\x7f"), "%0A%1B[2J%7F" },
	{ TEXT("\xff\xfe"), "%FF%FE" },
	{ TEXT("\xc2\x9b"), "%C2%9B" }, /* C1: a terminal takes it for ESC [ */
	{ TEXT("\xe2\x82"), "%E2%82" }, /* cut short */
	{ TEXT("\xf0\x9f\x94\xa5"), "\xf0\x9f\x94\xa5" },
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct buf b;

		buf_init(&b, 0);
		buf_lit(&b, "dir/"); /* what stands before is no part of the name */
		safe_name_append(&b, names[i].in);
		if (!str_is(str_skip(buf_view(&b), 4), names[i].want))
			fail_msg("%.*s gives %.*s, not %s", STR_ARG(names[i].in),
				 STR_ARG(buf_view(&b)), names[i].want);
		buf_release(&b);
	}
}

static void make(struct buf *out, const char *unit, size_t count, char last)
{
	struct buf in;

	buf_init(&in, 0);
	buf_init(out, 0);
	for (size_t i = 0; i < count; i++)
		buf_str(&in, str_cstr(unit));
	buf_char(&in, last);
	safe_name_append(out, buf_view(&in));
	buf_release(&in);
}

/* Long names are cut between characters and stay different from each other. */
static void test_long_names(void **state)
{
	static const char *const units[] = { "a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x94\xa5",
					     "/" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		for (size_t count = 50; count < 300; count += 7) {
			struct buf a, b;

			make(&a, units[i], count, 'x');
			make(&b, units[i], count, 'y');
			assert_true(a.len <= 255 && b.len <= 255);
			assert_false(str_equal(buf_view(&a), buf_view(&b)));
			assert_true(utf8_valid(buf_view(&a)));
			assert_int_equal(str_find(buf_view(&a), '/'), -1);
			buf_release(&a);
			buf_release(&b);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
