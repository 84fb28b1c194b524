#include "base/clock.h"
#include "net/server_internal.h"

enum { STREAM_MESSAGE_MOST = 64 * 1024 };

/* "/package.Service/Method": the service, without the slash. */
static struct str service_of(struct str path)
{
	struct str rest = str_skip(path, 1);
	ptrdiff_t slash = str_find(rest, '/');

	return slash < 0 ? rest : str_head(rest, (size_t)slash);
}

static bool service_known(const struct net_app *app, struct str service)
{
	for (uint32_t i = 0; i < app->method_count; i++)
		if (str_equal(service_of(str_cstr(app->methods[i].path)), service))
			return true;
	return false;
}

static void refuse_unknown(struct net_request *r)
{
	struct str service = service_of(r->path);
	struct str method = str_skip(r->path, service.len + 2);

	if (service_known(r->app, service))
		request_refuse(r, REFUSED_UNKNOWN_METHOD, 404, GRPC_UNIMPLEMENTED,
			       "unknown method %.*s for service %.*s",
			       STR_ARG(str_head(method, 128)), STR_ARG(str_head(service, 128)));
	else
		request_refuse(r, REFUSED_UNKNOWN_METHOD, 404, GRPC_UNIMPLEMENTED,
			       "unknown service %.*s", STR_ARG(str_head(service, 200)));
}

static bool grpc_route(struct net_request *r)
{
	const struct grpc_method *m = app_find_method(r->app, r->path);

	if (m) {
		r->handler = m->handler;
		r->stream = m->stream;
		return true;
	}
	if (!r->app->grpc_fallback.handle) {
		refuse_unknown(r);
		return false;
	}
	/* It answers UNIMPLEMENTED in words of its own; what nobody takes counts here all the same.
	 */
	app_count_refusal(r->app, REFUSED_UNKNOWN_METHOD);
	r->handler = r->app->grpc_fallback;
	return true;
}

static bool note_encoding(struct net_request *r)
{
	struct str encoding = header_list_find(&r->headers, STR("grpc-encoding"));

	if (compression_parse(encoding, &r->compression) &&
	    r->compression != COMPRESSION_SNAPPY_FRAMED && r->compression != COMPRESSION_LZ4)
		return true;
	request_refuse(
		r, REFUSED_ENCODING, 415, GRPC_UNIMPLEMENTED,
		"grpc-encoding \"%.*s\" is not supported (gzip, deflate, zstd, snappy, identity)",
		STR_ARG(str_head(encoding, 64)));
	return false;
}

static bool note_timeout(struct net_request *r)
{
	struct str text = header_list_find(&r->headers, STR("grpc-timeout"));
	uint64_t timeout_ns, now = clock_monotonic_ns();

	if (!text.ptr)
		return true;
	if (!grpc_timeout_parse(text, &timeout_ns)) {
		request_refuse(r, REFUSED_BAD_FRAME, 400, GRPC_INTERNAL,
			       "malformed grpc-timeout \"%.*s\"", STR_ARG(str_head(text, 32)));
		return false;
	}
	r->deadline_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
	conn_wake_at(r->conn, r->deadline_ns);
	return true;
}

/* "application/grpc", "application/grpc+proto": the only message format there is here. */
static bool check_subtype(struct net_request *r)
{
	struct str type = header_list_find(&r->headers, STR("content-type"));
	struct str subtype = str_skip(type, 16);

	if (!subtype.len || subtype.ptr[0] == ';' ||
	    (str_has_prefix(subtype, STR("+proto")) && (subtype.len == 6 || subtype.ptr[6] == ';')))
		return true;
	request_refuse(r, REFUSED_MEDIA_TYPE, 415, GRPC_UNIMPLEMENTED,
		       "content-type \"%.*s\" is not supported, only application/grpc+proto",
		       STR_ARG(str_head(type, 64)));
	return false;
}

void grpc_begin(struct net_request *r)
{
	if (!str_is(r->method, "POST")) {
		request_refuse(r, REFUSED_METHOD, 405, GRPC_INTERNAL,
			       "gRPC needs the method POST, not %.*s",
			       STR_ARG(str_head(r->method, 32)));
		return;
	}
	if (check_subtype(r) && grpc_route(r) && note_encoding(r))
		(void)note_timeout(r);
}

static void refuse_frame(struct net_request *r, const char *text)
{
	request_refuse(r, REFUSED_BAD_FRAME, 400, GRPC_INTERNAL, "%s", text);
}

static bool message_begin(struct net_request *r)
{
	size_t limit = r->stream ? STREAM_MESSAGE_MOST : request_limit(r);

	if (!r->stream && r->message_count) {
		refuse_frame(r, "a unary call takes one message, got more");
		return false;
	}
	if (r->frames.compressed && r->compression == COMPRESSION_NONE) {
		refuse_frame(r, "compressed flag set without a grpc-encoding");
		return false;
	}
	if (r->frames.len > limit) {
		request_refuse(r, REFUSED_TOO_LARGE, 413, GRPC_RESOURCE_EXHAUSTED,
			       "received message larger than max (%u vs. %zu)", r->frames.len,
			       limit);
		return false;
	}
	r->body.announced = r->frames.len;
	return true;
}

static bool message_data(struct net_request *r, struct str piece)
{
	switch (body_append(&r->body, piece, request_limit(r), net_loop_budget(r->loop))) {
	case BODY_OK:
		return true;
	case BODY_TOO_LARGE:
		refuse_frame(r, "message is longer than announced");
		return false;
	case BODY_NO_MEMORY:
		break;
	}
	request_refuse_retry(r, "no memory left for the request, try again later");
	return false;
}

/* Streams: each message to its method; the methods that stream have small ones. */
static bool stream_message(struct net_request *r)
{
	struct blob *body = body_take(&r->body), *plain = body;
	struct err err;

	if (r->frames.compressed) {
		plain = decompress(r->compression, blob_view(body), STREAM_MESSAGE_MOST, &err);
		blob_unref(body);
		if (!plain) {
			refuse_frame(r, err.msg);
			return false;
		}
	}
	r->stream->message(r, blob_view(plain), r->stream->ctx);
	blob_unref(plain);
	return r->stream && (!r->answer || r->answer->open);
}

static bool message_end(struct net_request *r)
{
	r->message_count++;
	if (r->stream)
		return stream_message(r);
	if (!r->frames.compressed)
		r->compression = COMPRESSION_NONE; /* this message came plain */
	return true;
}

void grpc_data(struct net_request *r, struct str bytes)
{
	struct str piece;
	bool go_on = !r->answer || r->answer->open;

	while (go_on) {
		switch (grpc_frame_next(&r->frames, &bytes, &piece)) {
		case GRPC_FRAME_MORE:
			return;
		case GRPC_FRAME_BEGIN:
			go_on = message_begin(r);
			break;
		case GRPC_FRAME_DATA:
			go_on = message_data(r, piece);
			break;
		case GRPC_FRAME_END:
			go_on = message_end(r);
			break;
		case GRPC_FRAME_BAD:
			refuse_frame(r, "bad compressed flag, neither 0 nor 1");
			return;
		}
	}
}

void grpc_complete(struct net_request *r)
{
	if (!grpc_frame_at_boundary(&r->frames)) {
		request_refuse(r, REFUSED_BAD_FRAME, 400, GRPC_INTERNAL,
			       "message is cut short: %u of %u bytes",
			       r->frames.have < GRPC_PREFIX_BYTES ? r->frames.have : r->frames.got,
			       r->frames.have < GRPC_PREFIX_BYTES ? GRPC_PREFIX_BYTES
								  : r->frames.len);
		return;
	}
	if (r->stream) {
		r->body_done = true;
		r->stream->ended(r, r->stream->ctx);
		return;
	}
	if (!r->message_count)
		refuse_frame(r, "a unary call takes one message, got none");
}
