#include "web/connect.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/compress.h"

enum { MESSAGE_BYTES_MOST = 1 << 20 };

/* ---- errors ---- */

static const struct connect_code {
	enum err_kind kind;
	const char *name;
	int http, grpc;
} CODES[] = {
	{ ERR_INVALID, "invalid_argument", 400, GRPC_INVALID_ARGUMENT },
	{ ERR_NOT_FOUND, "not_found", 404, GRPC_NOT_FOUND },
	{ ERR_PERMISSION, "permission_denied", 403, GRPC_PERMISSION_DENIED },
	{ ERR_UNAUTHENTICATED, "unauthenticated", 401, GRPC_UNAUTHENTICATED },
	{ ERR_LIMIT, "resource_exhausted", 429, GRPC_RESOURCE_EXHAUSTED },
	{ ERR_UNSUPPORTED, "unimplemented", 501, GRPC_UNIMPLEMENTED },
	{ ERR_BUSY, "unavailable", 503, GRPC_UNAVAILABLE },
	{ ERR_UNAVAILABLE, "unavailable", 503, GRPC_UNAVAILABLE },
	{ ERR_TIMEOUT, "deadline_exceeded", 504, GRPC_DEADLINE_EXCEEDED },
	{ ERR_CANCELLED, "canceled", 499, GRPC_CANCELLED },
	{ ERR_INTERNAL, "internal", 500, GRPC_INTERNAL },
};

static const struct connect_code *code_of(enum err_kind kind)
{
	for (size_t i = 0; i < ARRAY_LEN(CODES); i++)
		if (CODES[i].kind == kind)
			return &CODES[i];
	return &CODES[ARRAY_LEN(CODES) - 1];
}

void connect_refuse(struct net_request *r, const struct err *err)
{
	const struct connect_code *code = code_of(err->kind);
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);
	AUTO(buf_release) struct buf body = { 0 };

	if (net_request_transport(r) == NET_GRPC) {
		net_reply_grpc_error(r, code->grpc, str_cstr(err->msg), (struct str){ 0 });
		return;
	}
	headers[count++] = (struct net_header){ "content-type", STR("application/json") };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	if (code->http == 401)
		headers[count++] = (struct net_header){ "www-authenticate", STR("Bearer") };
	buf_lit(&body, "{\"code\":");
	buf_json_string(&body, str_cstr(code->name));
	buf_lit(&body, ",\"message\":");
	buf_json_string(&body, str_cstr(err->msg));
	buf_lit(&body, "}");
	net_reply_http(r, code->http, headers, count, buf_view(&body));
}

/* ---- the request ---- */

static bool media_is(struct str type, const char *wanted)
{
	ptrdiff_t semicolon = str_find(type, ';');

	if (semicolon >= 0)
		type = str_head(type, (size_t)semicolon);
	return str_equal_nocase(str_trim(type), str_cstr(wanted));
}

static bool encoding_is_json(struct str name, bool *json, struct err *err)
{
	*json = str_is(name, "json");
	return *json || str_is(name, "proto") ||
	       err_set(err, ERR_INVALID, "encoding is \"%.*s\"; expected json or proto",
		       STR_ARG(str_head(name, 40)));
}

static bool unpack(struct web_ask *a, enum compression c, struct str bytes, struct str *out,
		   struct err *err)
{
	struct blob *plain = decompress(c, bytes, MESSAGE_BYTES_MOST, err);

	if (!plain)
		return false;
	*out = str_dup(&a->arena, blob_view(plain));
	blob_unref(plain);
	return true;
}

/* GET: the message is a parameter. */
static bool read_parameters(struct web_ask *a, struct str *message, struct err *err)
{
	struct str compression = params_get(&a->params, "compression");
	AUTO(buf_release) struct buf bytes = { 0 };
	enum compression c;

	if (!str_is(params_get(&a->params, "connect"), "v1"))
		return err_set(err, ERR_INVALID, "connect=v1 is missing");
	if (!params_has(&a->params, "message"))
		return err_set(err, ERR_INVALID, "the parameter message is missing");
	*message = params_get(&a->params, "message");
	if (!encoding_is_json(params_get(&a->params, "encoding"), &a->json, err))
		return false;
	if (str_is(params_get(&a->params, "base64"), "1")) {
		if (!base64_decode(*message, &bytes))
			return err_set(err, ERR_INVALID, "the parameter message is not base64");
		*message = str_dup(&a->arena, buf_view(&bytes));
	}
	if (!compression_parse(compression, &c))
		return err_set(err, ERR_UNSUPPORTED, "unknown compression \"%.*s\"",
			       STR_ARG(str_head(compression, 40)));
	return c == COMPRESSION_NONE || unpack(a, c, *message, message, err);
}

static bool read_version(const struct net_request *r, struct err *err)
{
	struct str version = net_request_header(r, "connect-protocol-version");

	return !version.ptr || str_is(version, "1") ||
	       err_set(err, ERR_INVALID, "connect-protocol-version is \"%.*s\"; expected 1",
		       STR_ARG(str_head(version, 20)));
}

static bool read_timeout(struct web_ask *a, const struct net_request *r, struct err *err)
{
	struct str text = net_request_header(r, "connect-timeout-ms");
	uint64_t ms, now = clock_monotonic_ns(), deadline = net_request_deadline_ns(r);

	if (deadline && deadline < a->deadline_ns)
		a->deadline_ns = deadline;
	if (!text.ptr)
		return true;
	if (text.len > 10 || !str_to_u64(text, &ms))
		return err_set(err, ERR_INVALID, "connect-timeout-ms is not a number: \"%.*s\"",
			       STR_ARG(str_head(text, 20)));
	if (now + ms * 1000000 < a->deadline_ns)
		a->deadline_ns = now + ms * 1000000;
	return true;
}

static bool read_body(struct web_ask *a, struct net_request *r, struct str body,
		      struct str *message, struct err *err)
{
	struct str type = net_request_header(r, "content-type");

	*message = body;
	if (net_request_transport(r) == NET_GRPC || media_is(type, "application/proto"))
		return true;
	a->json = media_is(type, "application/json");
	return a->json ||
	       err_set(err, ERR_UNSUPPORTED,
		       "content-type is \"%.*s\"; expected application/proto or application/json",
		       STR_ARG(str_head(type, 60)));
}

static bool read_message(struct web_ask *a, struct net_request *r, struct str body,
			 struct str *message, struct err *err)
{
	bool get = str_is(net_request_method(r), "GET");

	return read_version(r, err) && read_timeout(a, r, err) &&
	       (get ? read_parameters(a, message, err) : read_body(a, r, body, message, err));
}

bool connect_read(struct web_ask *a, struct net_request *r, struct blob *body,
		  const struct connect_method *m, struct err *err)
{
	AUTO(buf_release) struct buf made = { 0 };
	struct str message = { 0 };

	a->response = m->response;
	if (m->answer && body->len > MESSAGE_BYTES_MOST)
		return err_set(err, ERR_LIMIT, "a question of %zu bytes; at most %d are read",
			       body->len, MESSAGE_BYTES_MOST);
	if (!read_message(a, r, blob_view(body), &message, err))
		return false;
	if (a->json) {
		if (!proto_from_json(m->request, message, &made, err))
			return false;
		message = buf_view(&made);
	}
	a->message = str_dup(&a->arena, message);
	return true;
}

/* ---- the answer ---- */

static void reply(struct web_question *q)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);
	AUTO(buf_release) struct buf json = { 0 };
	struct str body = buf_view(&q->ask.body);
	struct err err;

	if (net_request_transport(q->request) == NET_GRPC) {
		net_reply_grpc(q->request, body);
		return;
	}
	if (q->ask.json) {
		if (!proto_to_json(q->ask.response, body, &json, &err)) {
			err.kind = ERR_INTERNAL;
			connect_refuse(q->request, &err);
			return;
		}
		body = buf_view(&json);
	}
	headers[count++] =
		(struct net_header){ "content-type", q->ask.json ? STR("application/json")
								 : STR("application/proto") };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	net_reply_http(q->request, 200, headers, count, body);
}

static void refuse(struct web_question *q, const struct err *err)
{
	connect_refuse(q->request, err);
}

const struct web_form connect_form = { reply, refuse };
