#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/exporters/otlp_verdict.h"
#include "net/server.h"

#define BYTES(literal)                          \
	{                                       \
		"" literal, sizeof(literal) - 1 \
	}

/* google.rpc.Status {code, message "m", details: RetryInfo {retry_delay: 2 s}}, by hand from
 * status.proto and error_details.proto. */
#define WITH_RETRY_INFO                                               \
	BYTES("\x08\x08\x12\x01m\x1a\x30\x0a\x28type.googleapis.com/" \
	      "google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x02")

static const struct {
	int status;
	struct str details;
	enum verdict_kind kind;
	enum err_kind err;
	uint64_t retry_s;
} grpc_cases[] = {
	/* OTLP specification, "Failures" */
	{ GRPC_CANCELLED, { 0 }, VERDICT_RETRY, ERR_CANCELLED, 0 },
	{ GRPC_UNKNOWN, { 0 }, VERDICT_PERMANENT, ERR_INTERNAL, 0 },
	{ GRPC_INVALID_ARGUMENT, { 0 }, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ GRPC_INVALID_ARGUMENT, WITH_RETRY_INFO, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ GRPC_DEADLINE_EXCEEDED, { 0 }, VERDICT_RETRY, ERR_TIMEOUT, 0 },
	{ GRPC_NOT_FOUND, { 0 }, VERDICT_PERMANENT, ERR_NOT_FOUND, 0 },
	{ GRPC_ALREADY_EXISTS, { 0 }, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ GRPC_PERMISSION_DENIED, { 0 }, VERDICT_PERMANENT, ERR_PERMISSION, 0 },
	{ GRPC_RESOURCE_EXHAUSTED, { 0 }, VERDICT_TOO_LARGE, ERR_LIMIT, 0 },
	{ GRPC_RESOURCE_EXHAUSTED, WITH_RETRY_INFO, VERDICT_RETRY, ERR_BUSY, 2 },
	{ GRPC_FAILED_PRECONDITION, { 0 }, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ GRPC_ABORTED, { 0 }, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ GRPC_OUT_OF_RANGE, { 0 }, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ GRPC_UNIMPLEMENTED, { 0 }, VERDICT_PERMANENT, ERR_UNSUPPORTED, 0 },
	{ GRPC_INTERNAL, { 0 }, VERDICT_PERMANENT, ERR_INTERNAL, 0 },
	{ GRPC_UNAVAILABLE, { 0 }, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ GRPC_UNAVAILABLE, WITH_RETRY_INFO, VERDICT_RETRY, ERR_UNAVAILABLE, 2 },
	{ GRPC_UNAVAILABLE, BYTES("\xff\xff\xff"), VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ GRPC_DATA_LOSS, { 0 }, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ GRPC_UNAUTHENTICATED, { 0 }, VERDICT_PERMANENT, ERR_UNAUTHENTICATED, 0 },
	{ 99, { 0 }, VERDICT_PERMANENT, ERR_INTERNAL, 0 },
};

static void test_grpc(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(grpc_cases); i++) {
		struct client_result r = { .grpc_status = grpc_cases[i].status,
					   .details = grpc_cases[i].details,
					   .message = STR("why\nnot") };
		struct verdict v;

		verdict_of_grpc(&r, &v);
		if (v.kind != grpc_cases[i].kind || v.err.kind != grpc_cases[i].err ||
		    v.retry_after_ns != grpc_cases[i].retry_s * SECOND_NS)
			fail_msg("case %zu: kind %d, err %d, retry %llu", i, v.kind, v.err.kind,
				 (unsigned long long)v.retry_after_ns);
		if (grpc_cases[i].status < 17 && !strstr(v.err.msg, "why\\nnot"))
			fail_msg("case %zu: %s", i, v.err.msg);
	}
}

static void test_old_peer(void **state)
{
	struct client_result r = { .grpc_status = GRPC_UNIMPLEMENTED,
				   .message = STR("unknown service x") };
	struct verdict v;

	(void)state;
	verdict_of_grpc(&r, &v);
	assert_non_null(strstr(
		v.err.msg, "opentelemetry.proto.collector.profiles.v1development.ProfilesService"));
	assert_non_null(strstr(v.err.msg, "unknown service x"));
}

static const struct {
	struct str body;
	bool json;
	uint64_t rejected;
	const char *warning;
} accepted_cases[] = {
	/* ExportProfilesServiceResponse {partial_success {rejected_profiles, error_message}} */
	{ { 0 }, false, 0, "" },
	{ BYTES("\x0a\x00"), false, 0, "" },
	{ BYTES("\x0a\x07\x08\x03\x12\x03odd"), false, 3, "odd" },
	{ BYTES("\x0a\x05\x12\x03odd"), false, 0, "odd" },
	{ BYTES("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false, 0, "" }, /* -1 */
	{ BYTES("<html>"), false, 0,
	  "the peer accepted the request with an answer that is not an "
	  "ExportProfilesServiceResponse" },
	{ { 0 }, true, 0, "" },
	{ BYTES("{}"), true, 0, "" },
	{ BYTES("{\"partialSuccess\":{\"rejectedProfiles\":\"3\",\"errorMessage\":\"odd\"}}"), true,
	  3, "odd" },
	{ BYTES("<html>"), true, 0,
	  "the peer accepted the request with an answer that is not an "
	  "ExportProfilesServiceResponse" },
};

static void test_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(accepted_cases); i++) {
		struct client_result r = { .ok = true,
					   .http_status = 200,
					   .body = accepted_cases[i].body };
		struct verdict v;

		for (int http = accepted_cases[i].json; http < 2; http++) {
			if (http)
				verdict_of_http(&r, "http://x/", accepted_cases[i].json, &v);
			else
				verdict_of_grpc(&r, &v);
			if (v.kind != VERDICT_OK ||
			    v.rejected_profiles != accepted_cases[i].rejected ||
			    strcmp(v.warning, accepted_cases[i].warning) != 0)
				fail_msg("case %zu: kind %d, rejected %llu, \"%s\"", i, v.kind,
					 (unsigned long long)v.rejected_profiles, v.warning);
		}
	}
}

static const struct {
	int status;
	uint64_t told_s;
	enum verdict_kind kind;
	enum err_kind err;
	uint64_t retry_s;
} http_cases[] = {
	/* OTLP specification, "OTLP/HTTP Response" */
	{ 0, 0, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ 400, 9, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ 401, 0, VERDICT_PERMANENT, ERR_UNAUTHENTICATED, 0 },
	{ 403, 0, VERDICT_PERMANENT, ERR_PERMISSION, 0 },
	{ 404, 0, VERDICT_PERMANENT, ERR_UNSUPPORTED, 0 },
	{ 413, 0, VERDICT_TOO_LARGE, ERR_LIMIT, 0 },
	{ 415, 0, VERDICT_PERMANENT, ERR_UNSUPPORTED, 0 },
	{ 429, 7, VERDICT_RETRY, ERR_BUSY, 7 },
	{ 429, 0, VERDICT_RETRY, ERR_BUSY, 0 },
	{ 302, 0, VERDICT_PERMANENT, ERR_INVALID, 0 },
	{ 500, 0, VERDICT_PERMANENT, ERR_INTERNAL, 0 },
	{ 502, 7, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
	{ 503, 7, VERDICT_RETRY, ERR_UNAVAILABLE, 7 },
	{ 504, 0, VERDICT_RETRY, ERR_UNAVAILABLE, 0 },
};

static void test_http(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(http_cases); i++) {
		struct client_result r = { .http_status = http_cases[i].status,
					   .message = STR("connection refused"),
					   .retry_after_ns = http_cases[i].told_s * SECOND_NS };
		struct verdict v;

		verdict_of_http(&r, "http://x/", false, &v);
		if (v.kind != http_cases[i].kind || v.err.kind != http_cases[i].err ||
		    v.retry_after_ns != http_cases[i].retry_s * SECOND_NS)
			fail_msg("%d: kind %d, err %d, retry %llu", http_cases[i].status, v.kind,
				 v.err.kind, (unsigned long long)v.retry_after_ns);
	}
}

static void test_http_message(void **state)
{
	static const struct {
		struct str body;
		const char *want;
	} cases[] = {
		{ BYTES("\x08\x03\x12\x08too\ttall"),
		  "request to http://x/ responded with HTTP Status Code 400, Message=too\\ttall" },
		{ BYTES("{\"code\":3,\"message\":\"bad\"}"),
		  "request to http://x/ responded with HTTP Status Code 400, "
		  "Message={\"code\":3,\"message\":\"bad\"}" },
		{ BYTES("404 page not found\n"), "request to http://x/ responded with HTTP Status "
						 "Code 400, Message=404 page not found" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct client_result r = { .http_status = 400, .details = cases[i].body };
		struct verdict v;

		verdict_of_http(&r, "http://x/", false, &v);
		assert_string_equal(v.err.msg, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grpc),         cmocka_unit_test(test_old_peer),
		cmocka_unit_test(test_accepted),     cmocka_unit_test(test_http),
		cmocka_unit_test(test_http_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
