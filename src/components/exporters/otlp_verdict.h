/*
 * otlp_verdict.h - what a peer's answer to an export means: kept, again later, never, or in smaller
 * pieces.
 *
 * Source: OTLP specification ("OTLP/gRPC Response", "OTLP/HTTP Response"), and the Collector's
 * exporters for what the specification leaves open. Threads: no state.
 */
#pragma once
#include "base/err.h"
#include "net/client.h"

enum verdict_kind {
	VERDICT_OK,
	VERDICT_RETRY,
	VERDICT_PERMANENT,
	VERDICT_TOO_LARGE, /* RESOURCE_EXHAUSTED without a RetryInfo, HTTP 413: smaller requests may
			      pass */
};

struct verdict {
	enum verdict_kind kind;
	struct err err;             /* not of VERDICT_OK */
	uint64_t retry_after_ns;    /* VERDICT_RETRY: what the peer asked for; 0 = nothing */
	uint64_t rejected_profiles; /* VERDICT_OK: partial success */
	char warning[240];          /* VERDICT_OK: its message */
};

void verdict_of_grpc(const struct client_result *r, struct verdict *out);
/* url: for the message. json: how the request was encoded, and so the answer. */
void verdict_of_http(const struct client_result *r, const char *url, bool json,
		     struct verdict *out);
