/* If-None-Match: lists, weak tags, the star (RFC 9110, 13.1.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "web/internal.h"

static void a_list_of_tags_holds_ours_or_not(void **state)
{
	static const struct {
		const char *list, *etag;
		bool in;
	} cases[] = {
		{ "", "\"a\"", false },
		{ "\"a\"", "\"a\"", true },
		{ "W/\"a\"", "\"a\"", true },
		{ "\"a\"", "W/\"a\"", true },
		{ "\"b\", W/\"a\" ,\"c\"", "W/\"a\"", true },
		{ "\"b\",\"c\"", "\"a\"", false },
		{ " * ", "\"a\"", true },
		{ "a", "\"a\"", false },
		{ "\"aa\"", "\"a\"", false },
		{ ",,", "\"a\"", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (web_etag_in(str_cstr(cases[i].list), str_cstr(cases[i].etag)) != cases[i].in)
			fail_msg("%s in %s", cases[i].etag, cases[i].list);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_list_of_tags_holds_ours_or_not) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
