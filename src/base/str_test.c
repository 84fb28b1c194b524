#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"

static void assert_str(struct str got, const char *want)
{
	if (!str_is(got, want))
		fail_msg("got \"%.*s\", want \"%s\"", STR_ARG(got), want);
}

static void test_split(void **state)
{
	static const struct {
		const char *in;
		const char *want[4];
	} cases[] = {
		{ "a,,b", { "a", "", "b" } }, { "a", { "a" } }, { "a,", { "a", "" } },
		{ ",", { "", "" } },          { "", { "" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str rest = str_cstr(cases[i].in), part;
		size_t count = 0;

		while (str_split(&rest, ',', &part)) {
			if (!cases[i].want[count])
				fail_msg("\"%s\" gives more parts than wanted", cases[i].in);
			assert_str(part, cases[i].want[count++]);
		}
		if (cases[i].want[count])
			fail_msg("\"%s\" gives %zu parts only", cases[i].in, count);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		const char *in;
		bool u_ok, i_ok;
		uint64_t u;
		int64_t i;
	} cases[] = {
		{ "0", true, true, 0, 0 },
		{ "007", true, true, 7, 7 },
		{ "9223372036854775807", true, true, INT64_MAX, INT64_MAX },
		{ "9223372036854775808", true, false, UINT64_C(9223372036854775808), 0 },
		{ "18446744073709551615", true, false, UINT64_MAX, 0 },
		{ "18446744073709551616", false, false, 0, 0 },
		{ "99999999999999999999999", false, false, 0, 0 },
		{ "-1", false, true, 0, -1 },
		{ "-9223372036854775808", false, true, 0, INT64_MIN },
		{ "-9223372036854775809", false, false, 0, 0 },
		{ "", false, false, 0, 0 },
		{ "-", false, false, 0, 0 },
		{ "--1", false, false, 0, 0 },
		{ "1 ", false, false, 0, 0 },
		{ "0x1", false, false, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t u = 77;
		int64_t s = 77;
		bool u_ok = str_to_u64(str_cstr(cases[i].in), &u);
		bool i_ok = str_to_i64(str_cstr(cases[i].in), &s);

		if (u_ok != cases[i].u_ok || u != (u_ok ? cases[i].u : 77))
			fail_msg("\"%s\" as u64: %d, %llu", cases[i].in, u_ok,
				 (unsigned long long)u);
		if (i_ok != cases[i].i_ok || s != (i_ok ? cases[i].i : 77))
			fail_msg("\"%s\" as i64: %d, %lld", cases[i].in, i_ok, (long long)s);
	}
}

static void test_search_and_compare(void **state)
{
	static const struct {
		const char *in, *needle;
		ptrdiff_t want;
	} cases[] = {
		{ "hello", "l", 2 },       { "hello", "lo", 3 }, { "hello", "hello", 0 },
		{ "hello", "hellos", -1 }, { "", "", 0 },        { "", "a", -1 },
		{ "abc", "", 0 },          { "aab", "ab", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ptrdiff_t at = str_search(str_cstr(cases[i].in), str_cstr(cases[i].needle));

		if (at != cases[i].want)
			fail_msg("\"%s\" in \"%s\": %td", cases[i].needle, cases[i].in, at);
	}
	assert_int_equal(str_find(STR("abc"), 'c'), 2);
	assert_int_equal(str_find((struct str){ 0 }, 'c'), -1);
	assert_true(str_compare(STR("a"), STR("b")) < 0);
	assert_true(str_compare(STR("ab"), STR("a")) > 0);
	assert_true(str_compare(STR("\xff"), STR("a")) > 0);
	assert_int_equal(str_compare((struct str){ 0 }, STR("")), 0);
	assert_true(str_equal_nocase(STR("Content-Type"), STR("content-tYPE")));
	assert_false(str_equal_nocase(STR("a["), STR("A{")));
	assert_true(str_has_suffix(STR("a.gz"), STR(".gz")));
	assert_false(str_has_suffix(STR("gz"), STR(".gz")));
	assert_true(str_has_prefix(STR("abc"), (struct str){ 0 }));
}

static void test_trim_skip_head(void **state)
{
	(void)state;
	assert_str(str_trim(STR(" \t a b\r\n")), "a b");
	assert_str(str_trim(STR(" \n")), "");
	assert_str(str_skip(STR("abc"), 2), "c");
	assert_str(str_skip(STR("abc"), 4), "");
	assert_str(str_head(STR("abc"), 2), "ab");
	assert_str(str_head(STR("abc"), 9), "abc");
}

static void test_arena_copies(void **state)
{
	struct arena a;
	struct str s;

	(void)state;
	arena_init(&a, 0, 1024);
	s = str_dup(&a, STR("a\0b"));
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.ptr, "a\0b", 4);
	assert_string_equal(str_dup_cstr(&a, STR("xyz")), "xyz");
	assert_str(str_printf(&a, "%s=%d", "n", 42), "n=42");
	assert_null(str_printf(&a, "%2000d", 1).ptr);
	assert_null(str_dup(&a, str_from("x", SIZE_MAX)).ptr);
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_search_and_compare),
		cmocka_unit_test(test_trim_skip_head),
		cmocka_unit_test(test_arena_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
