#include "agent/runtimes/offset_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

static const char *const fields[] = { "one", "two" };

static const struct {
	const char *text, *error; /* NULL: none */
} cases[] = {
	{ "version 7.4 8.10\none 1 2 \n# comment\n\ntwo\t- 1048576\n", NULL },
	{ "one 1\n", "line 1: one: more values than 0" },
	{ "version 7.4\none 1\n", "no line for two" },
	{ "version 7.4\none 1\none 2\ntwo 1\n", "line 3: a second line for one" },
	{ "version 7.4\nversion 7.4\n", "line 2: a second list" },
	{ "version x\n", "line 1: \"x\" is not a version" },
	{ "version 7\n", "line 1: \"7\" is not a version" },
	{ "version\n", "line 1: no version" },
	{ "version 7.4\none 1 2\n", "line 2: one: more values than 1" },
	{ "version 7.4 8.0\none 1\n", "line 2: one: 1 values for 2" },
	{ "version 7.4\none 1073741825\n", "line 2: one: \"1073741825\" is not a number" },
	{ "version 7.4\none -1\n", "line 2: one: \"-1\" is not a number" },
	{ "version 7.4\nthree 1\n", "line 2: \"three\" is not a field" },
};

static void test_parse(void **state)
{
	static struct offset_table t;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool ok = offset_table_parse(&t, fields, 2, str_cstr(cases[i].text), &err);

		if (ok != !cases[i].error ||
		    (!ok && !str_has_prefix(str_cstr(err.msg), str_cstr(cases[i].error))))
			fail_msg("case %zu: %s", i, ok ? "it was taken" : err.msg);
	}
}

static void test_find(void **state)
{
	static struct offset_table t;
	const int32_t *row;
	struct err err;

	(void)state;
	assert_true(offset_table_parse(&t, fields, 2, str_cstr(cases[0].text), &err));
	row = offset_table_find(&t, OFFSET_VERSION(8, 10));
	assert_non_null(row);
	assert_int_equal(row[0], 2);
	assert_int_equal(row[1], 1048576);
	assert_int_equal(offset_table_find(&t, OFFSET_VERSION(7, 4))[1], -1);
	assert_null(offset_table_find(&t, OFFSET_VERSION(8, 1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
