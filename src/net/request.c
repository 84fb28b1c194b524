/* request.c - one request from its head to its answer: body, decompression, handler, who frees it.
 */
#include <assert.h>
#include <stdlib.h>

#include "net/server_internal.h"

/* Life. */

struct net_request *request_new(struct conn *c, enum net_transport transport)
{
	struct net_request *r = calloc(1, sizeof(*r));

	assert(r);
	r->app = c->app;
	atomic_fetch_add(&r->app->refs, 1);
	r->loop = c->stream.loop;
	net_loop_ref(r->loop);
	r->conn = c;
	r->transport = transport;
	r->moved_ns = conn_now_ns(c);
	r->body.announced = SIZE_MAX;
	header_list_init(&r->headers, HEADER_BYTES_MOST);
	memcpy(r->peer, c->peer, sizeof(r->peer));
	r->next = c->requests;
	if (r->next)
		r->next->prev = r;
	c->requests = r;
	c->request_count++;
	return r;
}

/* Kept until both the connection and the handler are done with it. */
void request_free_if_done(struct net_request *r)
{
	if (r->conn || r->handed)
		return;
	header_list_release(&r->headers);
	blob_unref(r->body.blob);
	answer_free(r->answer);
	net_loop_unref(r->loop);
	app_unref(r->app);
	free(r);
}

void request_detach(struct net_request *r, bool sent)
{
	struct conn *c = r->conn;

	if (r->next)
		r->next->prev = r->prev;
	if (r->prev)
		r->prev->next = r->next;
	else
		c->requests = r->next;
	c->request_count--;
	r->conn = NULL;
	atomic_store(&r->detached, true);
	atomic_store(&r->hung_up, true);
	if (r->stream && r->stream->closed)
		r->stream->closed(r, r->stream->ctx);
	r->stream = NULL;
	if (r->events)
		events_gone(r->events);
	r->gone = c->draining ? LATE_CLOSED : LATE_PEER_GONE;
	if (!sent && !r->handed && !r->answer && !r->body_done)
		app_count_refusal(r->app, REFUSED_BODY_CUT);
	else if (!sent && r->answer && !r->answer->open && !r->expired && !r->handed)
		app_count_late(r->app, r->gone);
	request_free_if_done(r);
}

size_t request_limit(const struct net_request *r)
{
	size_t limit = r->app->options.max_body_bytes;
	struct budget *budget = net_loop_budget(r->loop);

	/* What could never fit into the whole budget is too large, not too early. */
	if (budget && budget->limit_bytes && budget->limit_bytes < limit)
		return budget->limit_bytes;
	return limit;
}

void request_answer(struct net_request *r, struct answer *a)
{
	assert(r->conn && !r->answer);
	r->answer = a;
	blob_unref(r->body.blob); /* of a request refused half-way: nothing more of it is kept */
	r->body.blob = NULL;
	r->conn->protocol->answer(r->conn, r);
}

/* On the loop's thread: the handler's answer arrives. */
static void request_deliver(struct net_task *task)
{
	struct net_request *r = (struct net_request *)task;
	struct answer *a = r->handler_answer;

	r->handler_answer = NULL;
	r->handed = false;
	if (r->conn && !r->answer) {
		request_answer(r, a);
		return;
	}
	app_count_late(r->app, r->expired ? LATE_DEADLINE : r->gone);
	answer_free(a);
	request_free_if_done(r);
}

void request_reply(struct net_request *r, struct answer *a)
{
	assert(!r->handler_answer); /* one answer to a request */
	r->handler_answer = a;
	r->task.run = request_deliver;
	if (net_loop_is_current(r->loop))
		request_deliver(&r->task);
	else
		net_loop_post(r->loop, &r->task);
}

static void split_target(struct net_request *r)
{
	ptrdiff_t query = str_find(r->path, '?');

	if (query < 0)
		return;
	r->query = str_skip(r->path, (size_t)query + 1);
	r->path = str_head(r->path, (size_t)query);
}

static bool is_grpc(const struct net_request *r)
{
	struct str type = header_list_find(&r->headers, STR("content-type"));

	return str_has_prefix(type, STR("application/grpc")) &&
	       (type.len == 16 || type.ptr[16] == '+' || type.ptr[16] == ';');
}

static void refuse_too_large(struct net_request *r, size_t len)
{
	size_t limit = request_limit(r);

	if (len == SIZE_MAX)
		request_refuse(r, REFUSED_TOO_LARGE, 413, GRPC_RESOURCE_EXHAUSTED,
			       "request body is larger than the limit of %zu bytes", limit);
	else
		request_refuse(r, REFUSED_TOO_LARGE, 413, GRPC_RESOURCE_EXHAUSTED,
			       "request body of %zu bytes is larger than the limit of %zu bytes",
			       len, limit);
}

static void http_begin(struct net_request *r, size_t length)
{
	struct str encoding = header_list_find(&r->headers, STR("content-encoding"));

	if (!route_request(r))
		return;
	if (!compression_parse(str_trim(encoding), &r->compression)) {
		request_refuse(r, REFUSED_ENCODING, 415, GRPC_UNIMPLEMENTED,
			       "unsupported Content-Encoding: %.*s",
			       STR_ARG(str_head(encoding, 64)));
		return;
	}
	if (length != SIZE_MAX && length > request_limit(r)) {
		refuse_too_large(r, length);
		return;
	}
	r->body.announced = length;
}

void request_begin(struct net_request *r, size_t length)
{
	if (r->transport == NET_HTTP2 && is_grpc(r))
		r->transport = NET_GRPC;
	if (r->app->metrics.requests[r->transport])
		metric_add(r->app->metrics.requests[r->transport], 1);
	r->no_body = str_is(r->method, "HEAD");
	split_target(r);
	if (r->headers_too_large)
		request_refuse(r, REFUSED_HEADERS_TOO_LARGE, 431, GRPC_RESOURCE_EXHAUSTED,
			       "request header is larger than 64 KiB");
	else if (r->transport == NET_GRPC)
		grpc_begin(r);
	else if (is_grpc(r))
		request_refuse(r, REFUSED_VERSION, 505, GRPC_INTERNAL, "gRPC requires HTTP/2");
	else
		http_begin(r, length);
}

void request_data(struct net_request *r, struct str bytes)
{
	if (r->answer && !r->stream) /* refused already */
		return;
	r->moved_ns = conn_now_ns(r->conn);
	if (r->transport == NET_GRPC) {
		grpc_data(r, bytes);
		return;
	}
	switch (body_append(&r->body, bytes, request_limit(r), net_loop_budget(r->loop))) {
	case BODY_OK:
		break;
	case BODY_TOO_LARGE:
		refuse_too_large(r, SIZE_MAX);
		break;
	case BODY_NO_MEMORY:
		request_refuse_retry(r, "no memory left for the request, try again later");
		break;
	}
}

static void refuse_undecompressed(struct net_request *r, const struct err *err)
{
	if (err->kind == ERR_LIMIT)
		request_refuse(r, REFUSED_TOO_LARGE, 413, GRPC_RESOURCE_EXHAUSTED, "%s", err->msg);
	else if (err->kind == ERR_BUSY)
		request_refuse_retry(r, err->msg);
	else if (err->kind == ERR_UNSUPPORTED)
		request_refuse(r, REFUSED_ENCODING, 415, GRPC_UNIMPLEMENTED, "%s", err->msg);
	else
		request_refuse(r, REFUSED_BAD_COMPRESSION, 400, GRPC_INTERNAL, "%s", err->msg);
}

void request_complete(struct net_request *r)
{
	struct blob *body;

	if (r->answer && !r->answer->open)
		return;
	if (r->transport == NET_GRPC) {
		grpc_complete(r);
		if (r->body_done || r->answer)
			return;
	}
	r->body_done = true;
	body = body_take(&r->body);
	if (r->compression != COMPRESSION_NONE && body->len) {
		struct err err;
		struct blob *plain =
			decompress_charged(r->compression, blob_view(body), request_limit(r),
					   net_loop_budget(r->loop), &err);

		blob_unref(body);
		if (!plain) {
			refuse_undecompressed(r, &err);
			return;
		}
		body = plain;
	}
	r->handed = true;
	r->handler.handle(r, body, r->handler.ctx);
}

/* What handlers ask. */

enum net_transport net_request_transport(const struct net_request *r)
{
	return r->transport;
}

struct str net_request_method(const struct net_request *r)
{
	return r->method;
}

struct str net_request_path(const struct net_request *r)
{
	return r->path;
}

struct str net_request_query(const struct net_request *r)
{
	return r->query;
}

struct str net_request_header(const struct net_request *r, const char *name)
{
	return header_list_find(&r->headers, str_cstr(name));
}

const char *net_request_peer(const struct net_request *r)
{
	return r->peer;
}

uint64_t net_request_deadline_ns(const struct net_request *r)
{
	return r->deadline_ns;
}

const atomic_bool *net_request_gone(const struct net_request *r)
{
	return &r->detached;
}

const atomic_bool *net_request_hung_up(const struct net_request *r)
{
	return &r->hung_up;
}

struct net_loop *net_request_loop(const struct net_request *r)
{
	return r->loop;
}
