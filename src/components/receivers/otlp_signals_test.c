/* otlp_signals_test.c - counting what other signals' requests hold, in protobuf and in JSON; status
 * mapping. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "components/receivers/otlp.h"

/* Requests by hand: field 1 or 2, LEN, as resource -> scope -> item; a metric's gauge is field 5,
 * its data points field 1. */
static const struct {
	const char *what;
	int signal;
	struct str body;
	int64_t want; /* -1: refused */
} protobuf_cases[] = {
	{ "nothing", 0, { "", 0 }, 0 },
	{ "one span", 0, STR("\x0a\x04\x12\x02\x12\x00"), 1 },
	{ "three spans in two scopes", 0, STR("\x0a\x0a\x12\x04\x12\x00\x12\x00\x12\x02\x12\x00"),
	  3 },
	{ "a resource beside the scopes", 0, STR("\x0a\x06\x0a\x00\x12\x02\x12\x00"), 1 },
	{ "two log records", 2, STR("\x0a\x06\x12\x04\x12\x00\x12\x00"), 2 },
	{ "a gauge with two points", 1, STR("\x0a\x0a\x12\x08\x12\x06\x2a\x04\x0a\x00\x0a\x00"),
	  2 },
	{ "a metric without data", 1, STR("\x0a\x04\x12\x02\x12\x00"), 0 },
	{ "cut in the middle", 0, STR("\x0a\x7f\x12"), -1 },
	{ "no protobuf", 2, STR("hello"), -1 },
	{ "a span cut short", 0, STR("\x0a\x06\x12\x04\x12\x02\x0a\x05"), -1 },
	{ "an attribute's value that is none", 2,
	  STR("\x0a\x0e\x12\x0c\x12\x0a\x32\x08\x0a\x01k\x12\x03\x0a\x05v"), -1 },
	{ "a good attribute", 2, STR("\x0a\x0e\x12\x0c\x12\x0a\x32\x08\x0a\x01k\x12\x03\x0a\x01v"),
	  1 },
	{ "a field that nobody knows", 0, STR("\xfa\x01\x02hi"), 0 },
};

static void counts_items_of_protobuf(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(protobuf_cases); i++) {
		const struct otlp_signal *signal = &otlp_signals[protobuf_cases[i].signal];
		struct err err = { 0 };
		uint64_t count = 0;
		int64_t got = -1;

		if (otlp_signal_count_protobuf(signal, protobuf_cases[i].body, &count, &err))
			got = (int64_t)count;
		else
			assert_int_equal(err.kind, ERR_INVALID);
		if (got != protobuf_cases[i].want)
			fail_msg("%s: %lld instead of %lld", protobuf_cases[i].what, (long long)got,
				 (long long)protobuf_cases[i].want);
	}
}

static const struct {
	int signal;
	struct str body;
	int64_t want; /* -1: refused */
} json_cases[] = {
	{ 0, STR("{}"), 0 },
	{ 0, STR("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{},{\"name\":\"a\"}]}]}]}"), 2 },
	{ 0,
	  STR("{\"resource_spans\":[{\"resource\":{},\"scope_spans\":[{\"spans\":[{}]},{\"spans\":"
	      "null}]}]}"),
	  1 },
	{ 1,
	  STR("{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"m\",\"sum\":{"
	      "\"dataPoints\":[{},{},{\"asInt\":1}]}}]}]}]}"),
	  3 },
	{ 2, STR("{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{},{},{}]}]}]}"), 3 },
	{ 2, STR("{\"resourceLogs\":null}"), 0 },
	{ 2, STR("{\"resourceLogs\":7}"), -1 },
	{ 2, STR("{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[1]}]}]}"), -1 },
	{ 0, STR("{\"resourceSpans\":[}"), -1 },
	{ 0, STR("{} {}"), -1 },
	{ 0, STR("[]"), -1 },
	{ 2, STR("no json"), -1 },
	{ 2, STR(""), -1 },
};

static void counts_items_of_json(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(json_cases); i++) {
		const struct otlp_signal *signal = &otlp_signals[json_cases[i].signal];
		struct err err = { 0 };
		uint64_t count = 0;
		int64_t got = -1;

		if (otlp_signal_count_json(signal, json_cases[i].body, &count, &err))
			got = (int64_t)count;
		else
			assert_int_equal(err.kind, ERR_INVALID);
		if (got != json_cases[i].want)
			fail_msg("%.*s: %lld instead of %lld", STR_ARG(json_cases[i].body),
				 (long long)got, (long long)json_cases[i].want);
	}
}

/* Nested values end somewhere. */
static void refuses_endless_nesting(void **state)
{
	enum { LEVELS = 40000 };
	struct str body;
	uint64_t count;
	struct err err;
	char *text = malloc(10 * LEVELS), *at = text + 10 * LEVELS;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0, len = 0; i < LEVELS; i++) { /* array_value 5, values 1, ... */
		static const uint8_t path[] = { 0x0a, 0x12, 0x12, 0x2a };
		uint8_t tag = i >= LEVELS - 4 ? path[LEVELS - 1 - i] : i % 2 ? 0x2a : 0x0a;

		at -= 4;
		at[0] = (char)tag;
		at[1] = (char)((len & 0x7f) | 0x80);
		at[2] = (char)((len >> 7 & 0x7f) | 0x80);
		at[3] = (char)(len >> 14);
		len += 4;
	}
	body = str_from(at, (size_t)(text + 10 * LEVELS - at));
	assert_false(otlp_signal_count_protobuf(&otlp_signals[2], body, &count, &err));
	if (!strstr(err.msg, "deep"))
		fail_msg("%s", err.msg);
	free(text);
}

static const struct {
	enum err_kind kind;
	bool retryable;
	int grpc, http;
} status_cases[] = {
	{ ERR_INVALID, false, GRPC_INVALID_ARGUMENT, 400 },
	{ ERR_LIMIT, false, GRPC_RESOURCE_EXHAUSTED, 429 },
	{ ERR_UNSUPPORTED, false, GRPC_UNIMPLEMENTED, 404 },
	{ ERR_UNAUTHENTICATED, false, GRPC_UNAUTHENTICATED, 401 },
	{ ERR_PERMISSION, false, GRPC_PERMISSION_DENIED, 403 },
	{ ERR_BUSY, true, GRPC_UNAVAILABLE, 503 },
	{ ERR_IO, true, GRPC_UNAVAILABLE, 503 },
	{ ERR_IO, false, GRPC_INTERNAL, 500 },
	{ ERR_TIMEOUT, true, GRPC_DEADLINE_EXCEEDED, 503 },
};

static void maps_errors_to_statuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(status_cases); i++) {
		int grpc = otlp_grpc_code(status_cases[i].kind, status_cases[i].retryable);

		if (grpc != status_cases[i].grpc || otlp_http_status(grpc) != status_cases[i].http)
			fail_msg("%s: gRPC %d HTTP %d", err_kind_name(status_cases[i].kind), grpc,
				 otlp_http_status(grpc));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_items_of_protobuf),
		cmocka_unit_test(counts_items_of_json),
		cmocka_unit_test(refuses_endless_nesting),
		cmocka_unit_test(maps_errors_to_statuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
