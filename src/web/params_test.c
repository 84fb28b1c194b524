#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "web/params.h"

/* "name=value;name=value;" of what was read. */
static void shown(const struct params *p, struct buf *out)
{
	for (uint32_t i = 0; i < p->count; i++) {
		buf_str(out, p->ptr[i].name);
		buf_char(out, '=');
		buf_str(out, p->ptr[i].value);
		buf_char(out, ';');
	}
}

static void test_queries(void **state)
{
	static const struct {
		const char *in, *want; /* want NULL: refused */
	} cases[] = {
		{ "", "" },
		{ "&&", "" },
		{ "a=1", "a=1;" },
		{ "a=1&b=2&a=3", "a=1;b=2;a=3;" },
		{ "a", "a=;" },
		{ "=x", "=x;" },
		{ "a==b=c", "a==b=c;" },
		{ "a=x+y%20z", "a=x y z;" },
		{ "%61%3d=%26%3B", "a==&;;" },
		{ "a=%e2%82%ac%FF", "a=\xe2\x82\xac\xff;" },
		{ "a=%2B%25", "a=+%;" },
		{ "a=%", NULL },
		{ "a=%4", NULL },
		{ "a=%4g", NULL },
		{ "a=% 1", NULL },
		{ "%=1", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf text = { 0 };
		struct arena arena;
		struct params p;
		struct err err = { 0 };
		bool ok;

		arena_init(&arena, 256, 0);
		ok = params_parse(&arena, str_cstr(cases[i].in), &p, &err);
		if (ok != (cases[i].want != NULL))
			fail_msg("%s: %s", cases[i].in, ok ? "was read" : err.msg);
		if (!ok)
			assert_int_equal(err.kind, ERR_INVALID);
		else
			shown(&p, &text);
		if (ok && !str_is(buf_view(&text), cases[i].want))
			fail_msg("%s gives %.*s", cases[i].in, STR_ARG(buf_view(&text)));
		arena_release(&arena);
	}
}

static void test_zero_bytes_stay(void **state)
{
	struct arena arena;
	struct params p;
	struct err err;

	(void)state;
	arena_init(&arena, 256, 0);
	assert_true(params_parse(&arena, STR("q=a%00b"), &p, &err));
	assert_true(str_equal(params_get(&p, "q"), STR("a\0b")));
	arena_release(&arena);
}

static bool parse_many(struct arena *arena, unsigned count, struct params *p, struct err *err)
{
	AUTO(buf_release) struct buf text = { 0 };

	for (unsigned i = 0; i < count; i++)
		buf_printf(&text, "a%u=b&", i);
	return params_parse(arena, buf_view(&text), p, err);
}

static void test_limits(void **state)
{
	AUTO(buf_release) struct buf text = { 0 };
	struct arena arena;
	struct params p;
	struct err err;

	(void)state;
	arena_init(&arena, 256, 0);
	assert_true(parse_many(&arena, PARAMS_MOST, &p, &err));
	assert_int_equal(p.count, PARAMS_MOST);
	assert_false(parse_many(&arena, PARAMS_MOST + 1, &p, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	buf_lit(&text, "a=");
	while (text.len < PARAMS_BYTES_MOST)
		buf_char(&text, 'x');
	assert_true(params_parse(&arena, buf_view(&text), &p, &err));
	assert_int_equal(params_get(&p, "a").len, PARAMS_BYTES_MOST - 2);
	buf_char(&text, 'x');
	assert_false(params_parse(&arena, buf_view(&text), &p, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	arena_release(&arena);
}

static void test_numbers(void **state)
{
	static const struct {
		const char *in;
		bool ok;
		uint32_t want;
	} cases[] = {
		{ "", true, 7 },
		{ "n=", true, 7 },
		{ "n=2", true, 2 },
		{ "n=9", true, 9 },
		{ "n=1", false, 0 },
		{ "n=10", false, 0 },
		{ "n=-2", false, 0 },
		{ "n=2x", false, 0 },
		{ "n=4294967298", false, 0 },
		{ "n=99999999999999999999", false, 0 },
		{ "n=3&n=x", true, 3 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena arena;
		struct params p;
		struct err err;
		uint32_t got = 0;
		bool ok;

		arena_init(&arena, 256, 0);
		assert_true(params_parse(&arena, str_cstr(cases[i].in), &p, &err));
		ok = params_u32(&p, "n", 2, 9, 7, &got, &err);
		if (ok != cases[i].ok || (ok && got != cases[i].want))
			fail_msg("%s: %d, %u", cases[i].in, ok, got);
		arena_release(&arena);
	}
}

static void test_unknown_names(void **state)
{
	static const struct {
		const char *in, *unknown; /* unknown NULL: all are known */
	} cases[] = {
		{ "", NULL },
		{ "to=1&from=2&to=3", NULL },
		{ "form=1", "form" },
		{ "from=1&fro=2", "fro" },
		{ "from+to=1", "from to" },
		{ "=1", "" },
		{ "FROM=1", "FROM" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena arena;
		struct params p;
		struct err err = { 0 };
		char want[64];
		bool ok;

		arena_init(&arena, 256, 0);
		assert_true(params_parse(&arena, str_cstr(cases[i].in), &p, &err));
		ok = params_known(&p, "from to", &err);
		snprintf(want, sizeof(want), "no parameter \"%s\" here; there are from to",
			 cases[i].unknown ? cases[i].unknown : "");
		if (ok != !cases[i].unknown || (!ok && !strstr(err.msg, want)))
			fail_msg("%s: %s", cases[i].in, ok ? "all known" : err.msg);
		arena_release(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queries), cmocka_unit_test(test_zero_bytes_stay),
		cmocka_unit_test(test_limits),  cmocka_unit_test(test_unknown_names),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
