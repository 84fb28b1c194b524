/* json_cut_test.c - JSON that ends too early, closed behind its last whole element. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "json_cut.h"

static const struct {
	const char *text, *closed; /* NULL: nothing to close */
} cases[] = {
	{ "{\"a\":[{\"b\":1},{\"c\":", "{\"a\":[{\"b\":1}]}" },
	{ "{\"a\":[{\"b\":1}", "{\"a\":[{\"b\":1}]}" },
	{ "{\"a\":[{\"b\":1}],\"t\":[\"\",\"x\",\"y", "{\"a\":[{\"b\":1}],\"t\":[\"\",\"x\"]}" },
	{ "{\"a\":[{\"s\":[{\"v\":1},{\"v\":2}],\"k\":{\"n\":",
	  "{\"a\":[{\"s\":[{\"v\":1},{\"v\":2}]}]}" },
	{ "{\"t\":[\"}]\\\"\",\"\\", "{\"t\":[\"}]\\\"\"]}" },
	{ "{\"a\":[{\"b\":1}]}", NULL },
	{ "{\"a\":{\"b\":1", NULL },
	{ "{", NULL },
	{ "", NULL },
};

static void closes_what_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf out = { 0 };
		bool cut = json_close_cut(str_cstr(cases[i].text), &out);

		if (cut != !!cases[i].closed || (cut && !str_is(buf_view(&out), cases[i].closed)))
			fail_msg("%s gives %.*s", cases[i].text, STR_ARG(buf_view(&out)));
	}
}

static void leaves_what_is_nested_too_deep(void **state)
{
	AUTO(buf_release) struct buf deep = { 0 }, out = { 0 };

	(void)state;
	buf_lit(&deep, "{\"a\":");
	for (int i = 0; i < 2000; i++)
		buf_lit(&deep, "[{},");
	assert_true(json_close_cut(buf_view(&deep), &out));
	assert_true(out.len < 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closes_what_is_cut),
		cmocka_unit_test(leaves_what_is_nested_too_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
