#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "net/grpc_text.h"
#include "net/server.h"

static void test_message_decode(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "plain", "plain" }, { "a%20b", "a b" },   { "%e2%82%AC", "\xe2\x82\xac" },
		{ "100%", "100%" },   { "100%2", "100%2" }, { "%zz%41", "%zzA" },
		{ "%%41", "%A" },     { "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out;

		buf_init(&out, 0);
		grpc_message_decode(&out, str_cstr(cases[i].in));
		if (!str_is(buf_view(&out), cases[i].want))
			fail_msg("\"%s\" gave \"%.*s\"", cases[i].in, STR_ARG(buf_view(&out)));
		buf_release(&out);
	}
}

static void test_timeout_format(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{ 1, "1n" },
		{ 99999999, "99999999n" },
		{ 100000000, "100000u" },
		{ 5000000000, "5000000u" },
		{ 100000000001, "100001m" }, /* rounded up: never less than asked for */
		{ 86400000000000, "86400000m" },
		{ 360000000000000, "360000S" },
		{ UINT64_MAX, "5124096H" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[GRPC_TIMEOUT_ROOM];

		grpc_timeout_format(out, cases[i].ns);
		if (strcmp(out, cases[i].want) != 0)
			fail_msg("%llu ns: \"%s\", not \"%s\"", (unsigned long long)cases[i].ns,
				 out, cases[i].want);
	}
}

static void test_status_mapping(void **state)
{
	static const struct {
		int http, grpc;
	} http_cases[] = {
		/* grpc/doc/http-grpc-status-mapping.md */
		{ 400, GRPC_INTERNAL },          { 401, GRPC_UNAUTHENTICATED },
		{ 403, GRPC_PERMISSION_DENIED }, { 404, GRPC_UNIMPLEMENTED },
		{ 429, GRPC_UNAVAILABLE },       { 502, GRPC_UNAVAILABLE },
		{ 503, GRPC_UNAVAILABLE },       { 504, GRPC_UNAVAILABLE },
		{ 200, GRPC_UNKNOWN },           { 301, GRPC_UNKNOWN },
		{ 413, GRPC_UNKNOWN },           { 500, GRPC_UNKNOWN },
	};
	static const struct {
		uint32_t code;
		int grpc;
	} h2_cases[] = {
		/* grpc/doc/PROTOCOL-HTTP2.md, Errors */
		{ 0, GRPC_INTERNAL },
		{ 1, GRPC_INTERNAL },
		{ 2, GRPC_INTERNAL },
		{ 3, GRPC_INTERNAL },
		{ 6, GRPC_INTERNAL },
		{ 7, GRPC_UNAVAILABLE },
		{ 8, GRPC_CANCELLED },
		{ 9, GRPC_INTERNAL },
		{ 11, GRPC_RESOURCE_EXHAUSTED },
		{ 12, GRPC_PERMISSION_DENIED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(http_cases); i++)
		assert_int_equal(grpc_status_from_http(http_cases[i].http), http_cases[i].grpc);
	for (size_t i = 0; i < ARRAY_LEN(h2_cases); i++)
		assert_int_equal(grpc_status_from_h2_error(h2_cases[i].code), h2_cases[i].grpc);
	assert_string_equal(grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
	assert_string_equal(grpc_status_name(14), "UNAVAILABLE");
	assert_string_equal(grpc_status_name(17), "UNKNOWN CODE");
	assert_string_equal(grpc_status_name(-1), "UNKNOWN CODE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message_decode),
		cmocka_unit_test(test_timeout_format),
		cmocka_unit_test(test_status_mapping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
