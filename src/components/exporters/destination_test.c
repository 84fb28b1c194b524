#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "components/exporters/destination.h"

#include "base/cleanup.h"

/* The rows with a name or a loopback address are what the Collector 0.159 shows for them. */
static const struct {
	bool url;
	const char *text, *address, *port, *path;
} cases[] = {
	{ false, "127.0.0.1:46399", "127.0.0.1", "46399", "" },
	{ false, "http://localhost:46399", "http://localhost:46399", "", "" },
	{ false, "dns:///localhost:46399", "dns:///localhost:46399", "", "" },
	{ false, "[::1]:4317", "::1", "4317", "" },
	{ false, "[::1", "[::1", "", "" },
	{ false, "[::1]x", "[::1]x", "", "" },
	{ false, "host", "host", "", "" },
	{ false, "", "", "", "" },
	{ false, "unix:///run/otlp.sock", "unix:///run/otlp.sock", "", "" },
	{ true, "http://127.0.0.1:46398/base/v1development/profiles", "127.0.0.1", "46398",
	  "/base/v1development/profiles" },
	{ true, "http://localhost/v1development/profiles", "localhost", "",
	  "/v1development/profiles" },
	{ true, "https://localhost:7777/x/y", "localhost", "7777", "/x/y" },
	{ true, "https://[::1]:7777/x?key=1#y", "::1", "7777", "/x" },
	{ true, "https://[::1]/x", "::1", "", "/x" },
	{ true, "http://user:secret@host:1", "host", "1", "" },
	{ true, "http://host?x", "host", "", "" },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str text = str_cstr(cases[i].text);
		struct component_destination d =
			cases[i].url ? destination_of_url(text) : destination_of_endpoint(text);

		if (!str_is(d.address, cases[i].address) || !str_is(d.port, cases[i].port) ||
		    !str_is(d.path, cases[i].path))
			fail_msg("%s: \"%.*s\" \"%.*s\" \"%.*s\"", cases[i].text,
				 STR_ARG(d.address), STR_ARG(d.port), STR_ARG(d.path));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
