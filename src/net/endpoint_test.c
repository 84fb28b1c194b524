#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "net/endpoint.h"

static const struct {
	const char *in;
	bool ok;
	enum endpoint_kind kind;
	enum endpoint_scheme scheme;
	const char *host; /* or path */
	uint16_t port;
	const char *authority;
} cases[] = {
	{ "localhost:4317", true, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, "localhost", 4317,
	  "localhost:4317" },
	{ "http://10.0.0.1:80", true, ENDPOINT_TCP, ENDPOINT_HTTP, "10.0.0.1", 80, "10.0.0.1:80" },
	{ "http://a:80/", true, ENDPOINT_TCP, ENDPOINT_HTTP, "a", 80, "a:80" },
	{ "https://otel.example.com:443", true, ENDPOINT_TCP, ENDPOINT_HTTPS, "otel.example.com",
	  443, "otel.example.com:443" },
	{ "dns:///otel:4317", true, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, "otel", 4317, "otel:4317" },
	{ "dns:otel:4317", true, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, "otel", 4317, "otel:4317" },
	{ "passthrough:///otel:1", true, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, "otel", 1, "otel:1" },
	{ "[::1]:4317", true, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, "::1", 4317, "[::1]:4317" },
	{ "https://[fe80::1%eth0]:65535", true, ENDPOINT_TCP, ENDPOINT_HTTPS, "fe80::1%eth0", 65535,
	  "[fe80::1%eth0]:65535" },
	{ "unix:///run/otel.sock", true, ENDPOINT_UNIX, ENDPOINT_NO_SCHEME, "/run/otel.sock", 0,
	  "localhost" },
	{ "unix:otel.sock", true, ENDPOINT_UNIX, ENDPOINT_NO_SCHEME, "otel.sock", 0, "localhost" },
	{ .in = "" },
	{ .in = "localhost" },
	{ .in = "localhost:" },
	{ .in = ":4317" },
	{ .in = "localhost:0" },
	{ .in = "localhost:65536" },
	{ .in = "localhost:http" },
	{ .in = "::1:4317" },
	{ .in = "[::1:4317" },
	{ .in = "[::1]" },
	{ .in = "[::1]4317" },
	{ .in = "ftp://a:1" },
	{ .in = "http://a:80/v1/profiles" },
	{ .in = "http://user@a:80" },
	{ .in = "a b:80" },
	{ .in = "unix:" },
	{ .in = "unix:///"
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
		"234567890123456789"
		"01234567" },
};

static void test_endpoint_parse(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct endpoint e = { .port = 7 };
		struct err err = { 0 };
		bool ok = endpoint_parse(str_cstr(cases[i].in), &e, &err);

		if (ok != cases[i].ok)
			fail_msg("\"%s\": %s", cases[i].in, ok ? "was taken" : err.msg);
		if (!ok) {
			assert_int_equal(err.kind, ERR_INVALID);
			assert_int_equal(e.port, 7);
			assert_non_null(strstr(err.msg, "endpoint \""));
			continue;
		}
		if (e.kind != cases[i].kind || e.scheme != cases[i].scheme ||
		    e.port != cases[i].port)
			fail_msg("\"%s\": kind %d, scheme %d, port %u", cases[i].in, e.kind,
				 e.scheme, e.port);
		assert_string_equal(e.kind == ENDPOINT_UNIX ? e.path : e.host, cases[i].host);
		assert_string_equal(e.authority, cases[i].authority);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_endpoint_parse) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
