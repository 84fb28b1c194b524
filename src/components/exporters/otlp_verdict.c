#include "components/exporters/otlp_verdict.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "net/grpc_text.h"
#include "net/server.h"
#include "wire/otlp.h"

enum { PEER_TEXT_BYTES = 160 }; /* of what a peer says, in our messages */

/* What a peer says is shown on one line, and not at any length. */
static void peer_text(char out[PEER_TEXT_BYTES + 64], struct str text)
{
	struct buf clean;

	buf_init(&clean, 0);
	text_append_printable(&clean, str_head(str_trim(text), PEER_TEXT_BYTES));
	snprintf(out, PEER_TEXT_BYTES + 64, "%.*s", STR_ARG(buf_view(&clean)));
	buf_release(&clean);
}

static void verdict_accepted(struct verdict *v, int64_t rejected, struct str message)
{
	char text[PEER_TEXT_BYTES + 64];

	v->kind = VERDICT_OK;
	v->rejected_profiles = rejected > 0 ? (uint64_t)rejected : 0;
	peer_text(text, message);
	snprintf(v->warning, sizeof(v->warning), "%s", text);
}

/* gRPC. */

static const struct {
	enum verdict_kind verdict;
	enum err_kind err;
} grpc_meanings[] = {
	[GRPC_OK] = { VERDICT_OK, ERR_NONE },
	[GRPC_CANCELLED] = { VERDICT_RETRY, ERR_CANCELLED },
	[GRPC_UNKNOWN] = { VERDICT_PERMANENT, ERR_INTERNAL },
	[GRPC_INVALID_ARGUMENT] = { VERDICT_PERMANENT, ERR_INVALID },
	[GRPC_DEADLINE_EXCEEDED] = { VERDICT_RETRY, ERR_TIMEOUT },
	[GRPC_NOT_FOUND] = { VERDICT_PERMANENT, ERR_NOT_FOUND },
	[GRPC_ALREADY_EXISTS] = { VERDICT_PERMANENT, ERR_INVALID },
	[GRPC_PERMISSION_DENIED] = { VERDICT_PERMANENT, ERR_PERMISSION },
	[GRPC_RESOURCE_EXHAUSTED] = { VERDICT_TOO_LARGE, ERR_LIMIT },
	[GRPC_FAILED_PRECONDITION] = { VERDICT_PERMANENT, ERR_INVALID },
	[GRPC_ABORTED] = { VERDICT_RETRY, ERR_UNAVAILABLE },
	[GRPC_OUT_OF_RANGE] = { VERDICT_RETRY, ERR_UNAVAILABLE },
	[GRPC_UNIMPLEMENTED] = { VERDICT_PERMANENT, ERR_UNSUPPORTED },
	[GRPC_INTERNAL] = { VERDICT_PERMANENT, ERR_INTERNAL },
	[GRPC_UNAVAILABLE] = { VERDICT_RETRY, ERR_UNAVAILABLE },
	[GRPC_DATA_LOSS] = { VERDICT_RETRY, ERR_UNAVAILABLE },
	[GRPC_UNAUTHENTICATED] = { VERDICT_PERMANENT, ERR_UNAUTHENTICATED },
};

/* The RetryInfo of a google.rpc.Status; 0 = it has none. */
static uint64_t status_retry_ns(struct str details)
{
	struct str message;
	struct err err;
	uint64_t retry_ns = 0;
	int code;

	if (!details.len || !rpc_status_decode(details, &code, &message, &retry_ns, &err))
		return 0;
	return retry_ns;
}

static void grpc_refused(const struct client_result *r, struct verdict *v)
{
	enum err_kind kind = grpc_meanings[r->grpc_status].err;
	char text[PEER_TEXT_BYTES + 64];

	peer_text(text, r->message);
	if (r->grpc_status == GRPC_UNIMPLEMENTED)
		err_set(&v->err, kind,
			"UNIMPLEMENTED: the peer does not offer "
			"opentelemetry.proto.collector.profiles.v1development."
			"ProfilesService (an older peer, or one without a profiles pipeline): %s",
			text);
	else
		err_set(&v->err, v->kind == VERDICT_RETRY && kind == ERR_LIMIT ? ERR_BUSY : kind,
			"%s: %s", grpc_status_name(r->grpc_status), text);
}

void verdict_of_grpc(const struct client_result *r, struct verdict *out)
{
	struct str message = { 0 };
	int64_t rejected = 0;
	struct err err;

	*out = (struct verdict){ .kind = VERDICT_PERMANENT };
	if (r->ok) { /* an answer that can't be read takes nothing back: the status is OK */
		if (!otlp_decode_response(r->body, &rejected, &message, &err))
			message = STR("the peer accepted the request with an answer that is not an "
				      "ExportProfilesServiceResponse");
		verdict_accepted(out, rejected, message);
		return;
	}
	if (r->grpc_status <= GRPC_OK || (size_t)r->grpc_status >= ARRAY_LEN(grpc_meanings)) {
		err_set(&out->err, ERR_INTERNAL, "the peer answered with status %d",
			r->grpc_status);
		return;
	}
	out->kind = grpc_meanings[r->grpc_status].verdict;
	out->retry_after_ns = status_retry_ns(r->details);
	if (out->kind == VERDICT_TOO_LARGE && out->retry_after_ns)
		out->kind = VERDICT_RETRY;
	if (out->kind != VERDICT_RETRY)
		out->retry_after_ns = 0;
	grpc_refused(r, out);
}

/* HTTP. */

static enum err_kind http_err_kind(int status)
{
	switch (status) {
	case 401:
		return ERR_UNAUTHENTICATED;
	case 403:
		return ERR_PERMISSION;
	case 404:
	case 405:
	case 415:
		return ERR_UNSUPPORTED;
	case 413:
		return ERR_LIMIT;
	case 429:
		return ERR_BUSY;
	case 502:
	case 503:
	case 504:
		return ERR_UNAVAILABLE;
	default:
		return status >= 500 ? ERR_INTERNAL : ERR_INVALID;
	}
}

static enum verdict_kind http_verdict(int status)
{
	switch (status) {
	case 429:
	case 502:
	case 503:
	case 504:
		return VERDICT_RETRY;
	case 413:
		return VERDICT_TOO_LARGE;
	default:
		return VERDICT_PERMANENT;
	}
}

/* A google.rpc.Status says its message; any other text is shown as it came. */
static struct str http_message(struct str body)
{
	struct str message;
	struct err err;
	uint64_t retry_ns;
	int code;

	if (body.len && body.ptr[0] != '{' &&
	    rpc_status_decode(body, &code, &message, &retry_ns, &err) && message.len)
		return message;
	return body;
}

static void http_accepted(const struct client_result *r, bool json, struct verdict *v)
{
	struct str message = { 0 };
	int64_t rejected = 0;
	struct buf text;
	struct err err;
	bool ok;

	buf_init(&text, 0);
	if (json) {
		ok = !r->body.len || otlp_decode_response_json(r->body, &rejected, &text, &err);
		message = buf_view(&text);
	} else {
		ok = otlp_decode_response(r->body, &rejected, &message, &err);
	}
	if (!ok)
		message = STR("the peer accepted the request with an answer that is not an "
			      "ExportProfilesServiceResponse");
	verdict_accepted(v, rejected, message);
	buf_release(&text);
}

void verdict_of_http(const struct client_result *r, const char *url, bool json, struct verdict *out)
{
	char text[PEER_TEXT_BYTES + 64];

	*out = (struct verdict){ .kind = VERDICT_RETRY };
	if (r->ok) {
		http_accepted(r, json, out);
		return;
	}
	if (!r->http_status) { /* no answer at all */
		peer_text(text, r->message);
		err_set(&out->err, ERR_UNAVAILABLE, "%s", text);
		return;
	}
	out->kind = http_verdict(r->http_status);
	if (r->http_status == 429 || r->http_status == 503)
		out->retry_after_ns = r->retry_after_ns;
	peer_text(text, http_message(r->details));
	err_set(&out->err, http_err_kind(r->http_status),
		"request to %s responded with HTTP Status Code %d, Message=%s", url, r->http_status,
		text);
}
