#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "net/grpc_response.h"
#include "net/server.h"

#define BYTES(literal) "" literal, sizeof(literal) - 1

static const struct {
	const char *what;
	const char *headers[6][2];
	const char *data;
	size_t len;
	uint32_t reset;
	bool ok;
	int grpc_status, http_status;
	const char *message, *body;
} cases[] = {
	{ "a message",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\0\0\0\0\3abc"),
	  0,
	  true,
	  0,
	  0,
	  "",
	  "abc" },
	{ "an empty message",
	  { { ":status", "200" },
	    { "content-type", "application/grpc+proto" },
	    { "grpc-status", "0" } },
	  BYTES("\0\0\0\0\0"),
	  0,
	  true,
	  0,
	  0,
	  "",
	  "" },
	{ "OK without a message",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES(""),
	  0,
	  true,
	  0,
	  0,
	  "",
	  "" },
	{ "trailers only",
	  { { ":status", "200" },
	    { "content-type", "application/grpc" },
	    { "grpc-status", "14" },
	    { "grpc-message", "try%20later" } },
	  BYTES(""),
	  0,
	  false,
	  GRPC_UNAVAILABLE,
	  0,
	  "try later",
	  "" },
	{ "a status, then a reset",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "8" } },
	  BYTES(""),
	  8,
	  false,
	  GRPC_RESOURCE_EXHAUSTED,
	  0,
	  "",
	  "" },
	{ "a status out of range",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "77" } },
	  BYTES(""),
	  0,
	  false,
	  GRPC_UNKNOWN,
	  0,
	  "",
	  "" },
	{ "a status that is not a number",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "x" } },
	  BYTES(""),
	  0,
	  false,
	  GRPC_UNKNOWN,
	  0,
	  "",
	  "" },
	{ "a proxy",
	  { { ":status", "502" }, { "content-type", "text/html" } },
	  BYTES("<h1>bad gateway</h1>\n"),
	  0,
	  false,
	  GRPC_UNAVAILABLE,
	  502,
	  "HTTP status 502 with content-type \"text/html\" instead of gRPC: <h1>bad gateway</h1>",
	  "" },
	{ "a web server",
	  { { ":status", "200" }, { "content-type", "text/plain" } },
	  BYTES("hello"),
	  0,
	  false,
	  GRPC_UNKNOWN,
	  200,
	  "HTTP status 200 with content-type \"text/plain\" instead of gRPC: hello",
	  "" },
	{ "grpc-web is not gRPC",
	  { { ":status", "200" }, { "content-type", "application/grpc-web" } },
	  BYTES(""),
	  0,
	  false,
	  GRPC_UNKNOWN,
	  200,
	  "HTTP status 200 with content-type \"application/grpc-web\" instead of gRPC",
	  "" },
	{ "no status",
	  { { ":status", "200" }, { "content-type", "application/grpc" } },
	  BYTES(""),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the peer ended the call without a grpc-status",
	  "" },
	{ "a reset",
	  { { 0 } },
	  BYTES(""),
	  8,
	  false,
	  GRPC_CANCELLED,
	  0,
	  "the peer reset the call with HTTP/2 error CANCEL",
	  "" },
	{ "cut in the message",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\0\0\0\0\5abc"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer is cut short: 3 of 5 bytes came",
	  "" },
	{ "cut in the prefix",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\0\0\0"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer is cut short: 0 of 0 bytes came",
	  "" },
	{ "two messages",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\0\0\0\0\1a\0\0\0\0\1b"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer to a unary call holds more than one message",
	  "" },
	{ "a bad flag",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\2\0\0\0\1a"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer's compressed flag is 2, 0 or 1 is possible",
	  "" },
	{ "too large",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\0\0\0\4\1a"),
	  0,
	  false,
	  GRPC_RESOURCE_EXHAUSTED,
	  0,
	  "the answer has 1025 bytes, the limit here is 1024",
	  "" },
	{ "compressed with what?",
	  { { ":status", "200" }, { "content-type", "application/grpc" }, { "grpc-status", "0" } },
	  BYTES("\1\0\0\0\1a"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer is marked as compressed, but no grpc-encoding is given",
	  "" },
	{ "compressed with an unknown",
	  { { ":status", "200" },
	    { "content-type", "application/grpc" },
	    { "grpc-encoding", "brotli" },
	    { "grpc-status", "0" } },
	  BYTES("\1\0\0\0\1a"),
	  0,
	  false,
	  GRPC_INTERNAL,
	  0,
	  "the answer is compressed with \"brotli\", which was not offered",
	  "" },
	{ "gzip",
	  { { ":status", "200" },
	    { "content-type", "application/grpc" },
	    { "grpc-encoding", "gzip" },
	    { "grpc-status", "0" } }, /* of "abc", made by gzip(1) */
	  BYTES("\1\0\0\0\x17\x1f\x8b\x08\0\0\0\0\0\x02\x03\x4b\x4c\x4a\x06\0\xc2\x41\x24\x35\x03\0"
		"\0\0"),
	  0,
	  true,
	  0,
	  0,
	  "",
	  "abc" },
	{ "not compressed after all",
	  { { ":status", "200" },
	    { "content-type", "application/grpc" },
	    { "grpc-encoding", "gzip" },
	    { "grpc-status", "0" } },
	  BYTES("\0\0\0\0\1a"),
	  0,
	  true,
	  0,
	  0,
	  "",
	  "a" },
};

/* Each case in one piece and byte by byte. */
static void run_case(size_t i, size_t step)
{
	struct grpc_response r;
	struct client_result result;

	grpc_response_init(&r, 1024);
	for (size_t h = 0; h < 6 && cases[i].headers[h][0]; h++)
		grpc_response_header(&r, str_cstr(cases[i].headers[h][0]),
				     str_cstr(cases[i].headers[h][1]));
	for (size_t at = 0; at < cases[i].len; at += step)
		if (!grpc_response_data(
			    &r, str_head(str_from(cases[i].data + at, cases[i].len - at), step)))
			break;
	grpc_response_finish(&r, cases[i].reset, &result);
	if (result.ok != cases[i].ok || result.grpc_status != cases[i].grpc_status ||
	    result.http_status != cases[i].http_status ||
	    !str_is(result.message, cases[i].message) || !str_is(result.body, cases[i].body))
		fail_msg("%s: ok %d, status %d, HTTP %d, message \"%.*s\", body \"%.*s\"",
			 cases[i].what, result.ok, result.grpc_status, result.http_status,
			 STR_ARG(result.message), STR_ARG(result.body));
	assert_true(result.sent);
	grpc_response_release(&r);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		run_case(i, cases[i].len ? cases[i].len : 1);
		run_case(i, 1);
	}
}

static void test_details(void **state)
{
	struct grpc_response r;
	struct client_result result;

	(void)state;
	grpc_response_init(&r, 1024);
	grpc_response_header(&r, STR(":status"), STR("200"));
	grpc_response_header(&r, STR("content-type"), STR("application/grpc"));
	grpc_response_header(&r, STR("grpc-status"), STR("14"));
	grpc_response_header(&r, STR("grpc-status-details-bin"), STR("CA4SBWxhdGVy"));
	grpc_response_finish(&r, 0, &result);
	assert_true(str_equal(result.details, str_from("\x08\x0e\x12\x05later", 9)));
	grpc_response_header(&r, STR("grpc-status-details-bin"), STR("not base64!"));
	grpc_response_finish(&r, 0, &result);
	assert_int_equal(result.details.len, 0);
	assert_int_equal(result.grpc_status, GRPC_UNAVAILABLE);
	grpc_response_release(&r);
}

/* What an endless answer that is no gRPC leaves behind is bounded. */
static void test_text_is_bounded(void **state)
{
	struct grpc_response r;
	struct client_result result;
	char junk[5000];

	(void)state;
	memset(junk, 'x', sizeof(junk));
	grpc_response_init(&r, 1 << 20);
	grpc_response_header(&r, STR(":status"), STR("500"));
	for (int i = 0; i < 100; i++)
		assert_true(grpc_response_data(&r, str_from(junk, sizeof(junk))));
	grpc_response_finish(&r, 0, &result);
	assert_int_equal(result.details.len, 1024);
	grpc_response_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_details),
		cmocka_unit_test(test_text_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
