/* otlp_reply.c - answers of the OTLP receiver: success, partial success and google.rpc.Status, in
 * the request's own form. */
#include "components/receivers/otlp.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

static const char PROTOBUF_TYPE[] = "application/x-protobuf";
static const char JSON_TYPE[] = "application/json";

int otlp_grpc_code(enum err_kind kind, bool retryable)
{
	switch (kind) {
	case ERR_INVALID:
		return GRPC_INVALID_ARGUMENT;
	case ERR_LIMIT:
		return GRPC_RESOURCE_EXHAUSTED;
	case ERR_UNSUPPORTED:
		return GRPC_UNIMPLEMENTED;
	case ERR_NOT_FOUND:
		return GRPC_NOT_FOUND;
	case ERR_PERMISSION:
		return retryable ? GRPC_UNAVAILABLE : GRPC_PERMISSION_DENIED;
	case ERR_UNAUTHENTICATED:
		return GRPC_UNAUTHENTICATED;
	case ERR_TIMEOUT:
		return GRPC_DEADLINE_EXCEEDED;
	default:
		return retryable ? GRPC_UNAVAILABLE : GRPC_INTERNAL;
	}
}

int otlp_http_status(int grpc_code)
{
	switch (grpc_code) {
	case GRPC_OK:
		return 200;
	case GRPC_CANCELLED:
	case GRPC_DEADLINE_EXCEEDED:
	case GRPC_ABORTED:
	case GRPC_OUT_OF_RANGE:
	case GRPC_UNAVAILABLE:
	case GRPC_DATA_LOSS:
		return 503;
	case GRPC_RESOURCE_EXHAUSTED:
		return 429;
	case GRPC_INVALID_ARGUMENT:
		return 400;
	case GRPC_UNAUTHENTICATED:
		return 401;
	case GRPC_PERMISSION_DENIED:
		return 403;
	case GRPC_UNIMPLEMENTED:
	case GRPC_NOT_FOUND:
		return 404;
	default:
		return 500;
	}
}

static int grpc_code_of_http(int http_status)
{
	switch (http_status) {
	case 400:
	case 405:
	case 408:
	case 411:
	case 415:
	case 431:
		return GRPC_INVALID_ARGUMENT;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 413:
	case 429:
		return GRPC_RESOURCE_EXHAUSTED;
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_INTERNAL;
	}
}

bool otlp_request_is_json(const struct net_request *r)
{
	struct str type = net_request_header(r, "content-type");
	ptrdiff_t semicolon = str_find(type, ';');

	if (semicolon >= 0)
		type = str_head(type, (size_t)semicolon);
	return str_equal_nocase(str_trim(type), STR("application/json"));
}

static void encode_status(struct buf *out, bool json, int code, struct str message,
			  uint64_t retry_after_ns)
{
	if (json)
		rpc_status_encode_json(out, code, message, retry_after_ns);
	else
		rpc_status_encode(out, code, message, retry_after_ns);
}

void otlp_error_body(struct net_request *r, int http_status, struct str message, struct buf *out,
		     const char **content_type)
{
	bool json = otlp_request_is_json(r);

	*content_type = json ? JSON_TYPE : PROTOBUF_TYPE;
	encode_status(out, json, grpc_code_of_http(http_status), message, 0);
}

static void reply_http_status(struct net_request *r, int grpc_code, struct str message,
			      uint64_t retry_after_ns)
{
	bool json = otlp_request_is_json(r);
	int status = otlp_http_status(grpc_code);
	/* A body past a limit of ours can't be retried as it is: 413, not the 429 that invites it.
	 */
	bool too_large = grpc_code == GRPC_RESOURCE_EXHAUSTED && retry_after_ns == 0;
	uint64_t seconds = (retry_after_ns + SECOND_NS - 1) / SECOND_NS;
	AUTO(buf_release) struct buf body = { 0 };
	char after[24];
	struct net_header headers[2] = { { "content-type",
					   str_cstr(json ? JSON_TYPE : PROTOBUF_TYPE) } };
	size_t count = 1;

	if (retry_after_ns) {
		int n = snprintf(after, sizeof(after), "%llu", (unsigned long long)seconds);

		headers[count++] = (struct net_header){ "retry-after", str_from(after, (size_t)n) };
	}
	encode_status(&body, json, grpc_code, message, retry_after_ns);
	net_reply_http(r, too_large ? 413 : status, headers, count, buf_view(&body));
}

void otlp_reply_error(struct net_request *r, int grpc_code, struct str message,
		      uint64_t retry_after_ns)
{
	AUTO(buf_release) struct buf details = { 0 };

	if (net_request_transport(r) != NET_GRPC) {
		reply_http_status(r, grpc_code, message, retry_after_ns);
		return;
	}
	if (retry_after_ns)
		rpc_status_encode(&details, grpc_code, message, retry_after_ns);
	net_reply_grpc_error(r, grpc_code, message, buf_view(&details));
}

void otlp_reply_success(struct net_request *r, int64_t rejected, struct str message)
{
	AUTO(buf_release) struct buf body = { 0 };

	if (net_request_transport(r) == NET_GRPC) {
		otlp_encode_response(&body, rejected, message);
		net_reply_grpc(r, buf_view(&body));
		return;
	}
	bool json = otlp_request_is_json(r);
	struct net_header type = { "content-type", str_cstr(json ? JSON_TYPE : PROTOBUF_TYPE) };

	if (json)
		otlp_encode_response_json(&body, rejected, message);
	else
		otlp_encode_response(&body, rejected, message);
	net_reply_http(r, 200, &type, 1, buf_view(&body));
}
