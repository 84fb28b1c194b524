/* Matching is right however many ways there are, and refused only where the pattern is to blame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/regex.h"

/* A name of about 1 kB, as C++ has them. */
static struct str long_name(struct buf *b, const char *end)
{
	buf_reset(b);
	for (int i = 0; i < 8; i++)
		buf_lit(b, "std::vector<std::pair<std::basic_string<char, std::char_traits<char> "
			   ">, std::map<int, std::basic_string<char> > > >::push_back");
	buf_str(b, str_cstr(end));
	return buf_view(b);
}

static const struct {
	const char *pattern, *end;
	enum regex_mode mode;
	bool want;
} cases[] = {
	{ "std.*<.*char.*emplace", "", REGEX_WITHIN, false },
	{ "std.*<.*char.*emplace", "::emplace_back", REGEX_WITHIN, true },
	{ ".*<.*>.*::emplace", "", REGEX_WITHIN, false },
	{ ".*<.*>.*::emplace", "::emplace(int)", REGEX_WITHIN, true },
	{ "std.*<.*char.*emplace", "::emplace_back", REGEX_WHOLE, false },
	{ "std.*<.*char.*emplace.*", "::emplace_back", REGEX_WHOLE, true },
	{ "std.*<.*char.*[e]mplace$", "::emplace", REGEX_WITHIN, true },
	{ "std.*<.*char.*[e]mplace$", "::emplace_", REGEX_WITHIN, false },
};

static void long_names_are_matched_whatever_the_pattern(void **state)
{
	AUTO(buf_release) struct buf name = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err;
		struct regex *r = regex_new(str_cstr(cases[i].pattern), cases[i].mode, &err);
		bool matches = !cases[i].want;

		assert_non_null(r);
		for (int n = 0; n < 3; n++) /* one that met the limit goes on as well */
			if (!regex_match(r, long_name(&name, cases[i].end), &matches, &err))
				fail_msg("%s: %s", cases[i].pattern, err.msg);
		if (matches != cases[i].want)
			fail_msg("%s: %d", cases[i].pattern, matches);
		regex_free(r);
	}
}

/* Not ERR_LIMIT: with fewer stacks or more memory it would be no better. */
static void a_pattern_that_cannot_be_bounded_is_to_blame(void **state)
{
	static const char *const patterns[] = { "(?<x>a+)+(?<y>a+)+\\k<x>\\k<y>Q?$",
						"(.*)*(.*)*(.*)*[a]c?$" };
	char text[2001];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 'b';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct err err;
		struct regex *r = regex_new(str_cstr(patterns[i]), REGEX_WITHIN, &err);
		bool matches;

		assert_non_null(r);
		if (regex_match(r, str_from(text, sizeof(text)), &matches, &err))
			fail_msg("%s: %d", patterns[i], matches);
		assert_int_equal(err.kind, ERR_INVALID);
		assert_non_null(strstr(err.msg, "steps on a text of 2001 bytes"));
		assert_non_null(strstr(err.msg, patterns[i]));
		regex_free(r);
	}
}

/* Whatever is no UTF-8 is a character each byte: what a dot stands for, and what is shown of it. */
static void bad_bytes_are_characters(void **state)
{
	static const struct {
		const char *pattern, *text;
		enum regex_mode mode;
		bool want;
	} rows[] = {
		{ ".+", "\xff\xfe\xc0\x80\x80", REGEX_WHOLE, true },
		{ ".{5}", "\xff\xfe\xc0\x80\x80", REGEX_WHOLE, true },
		{ "t.+", "t\xe9", REGEX_WHOLE, true },
		{ "fn.", "fn\xe9", REGEX_WITHIN, true },
		{ "fn[^x]$", "fn\xe9", REGEX_WITHIN, true },
		{ "fn\xef\xbf\xbd", "fn\xe9", REGEX_WHOLE, true },
		{ "gr\xc3\xbc.*n",
		  "gr\xc3\xbc\xdf"
		  "n",
		  REGEX_WHOLE, true },
		{ "fn\xc3\xa9", "fn\xe9", REGEX_WITHIN, false },
		{ "fn.", "fn", REGEX_WITHIN, false },
		{ "", "", REGEX_WHOLE, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err;
		struct regex *r = regex_new(str_cstr(rows[i].pattern), rows[i].mode, &err);
		bool matches = !rows[i].want;

		assert_non_null(r);
		if (!regex_match(r, str_cstr(rows[i].text), &matches, &err))
			fail_msg("row %zu: %s", i, err.msg);
		if (matches != rows[i].want)
			fail_msg("row %zu: %d", i, matches);
		regex_free(r);
	}
}

static const struct {
	const char *pattern, *subject, *replacement, *want; /* NULL: no match */
} replacements[] = {
	{ "o", "foo", "0", "f00" },
	{ "(\\w+)@(\\w+)", "a@b c@d", "$2<$1>", "b<a> d<c>" },
	{ "(?<user>\\w+)@", "me@x", "${user}: ", "me: x" },
	{ "x", "foo", "y", NULL },
	{ "(a)|(b)", "b", "[$1$2$9]", "[b]" },
	{ "", "ab", "-", "-a-b-" },
};

static void test_replace(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(replacements) / sizeof(replacements[0]); i++) {
		bool matches;
		struct regex *r;
		struct err err;
		struct buf out;

		buf_init(&out, 0);
		r = regex_new(str_cstr(replacements[i].pattern), REGEX_GROUPS, &err);
		assert_non_null(r);
		assert_true(regex_replace(r, str_cstr(replacements[i].subject),
					  str_cstr(replacements[i].replacement), &out, &matches,
					  &err));
		assert_int_equal(matches, replacements[i].want != NULL);
		if (matches && !str_is(buf_view(&out), replacements[i].want))
			fail_msg("%s: %.*s", replacements[i].pattern, (int)out.len, out.ptr);
		regex_free(r);
		buf_release(&out);
	}
}

static void test_groups(void **state)
{
	struct str groups[REGEX_GROUPS_MOST + 1];
	struct regex *r;
	struct err err;
	bool matches;

	(void)state;
	r = regex_new(STR("^(?<first>[a-z]+)(-(?<second>[0-9]+))?$"), REGEX_GROUPS, &err);
	assert_non_null(r);
	assert_int_equal(regex_group_count(r), 3);
	assert_string_equal(regex_group_name(r, 1), "first");
	assert_null(regex_group_name(r, 2));
	assert_string_equal(regex_group_name(r, 3), "second");
	assert_true(regex_groups(r, STR("ab-12"), groups, &matches, &err) && matches);
	assert_true(str_is(groups[1], "ab") && str_is(groups[3], "12"));
	assert_true(regex_groups(r, STR("ab"), groups, &matches, &err) && matches);
	assert_int_equal(groups[3].len, 0);
	assert_true(regex_groups(r, STR("!"), groups, &matches, &err) && !matches);
	regex_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(long_names_are_matched_whatever_the_pattern),
		cmocka_unit_test(bad_bytes_are_characters),
		cmocka_unit_test(a_pattern_that_cannot_be_bounded_is_to_blame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
