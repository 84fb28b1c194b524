/*
 * conn_http1.c - HTTP/1.1: one request at a time; what comes behind it (pipelining) waits, and so
 * answers keep their order.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/http1_parser.h"
#include "net/server_internal.h"

enum { WAITING_MOST = 64 * 1024, KEPT_MOST = 8 * 1024 };

enum http1_state {
	HTTP1_HEAD, /* a head is due, or has begun */
	HTTP1_BODY,
	HTTP1_RUNS,    /* the handler has it */
	HTTP1_CLOSING, /* the last answer is out; further input is thrown away */
};

struct http1 {
	enum http1_state state;
	struct buf in;  /* received and not yet used */
	size_t scanned; /* of `in`, for the end of the head */
	struct net_request *request;
	bool chunked, keep_alive, working, ended;
	bool chunks_known; /* the request is of HTTP/1.1: the answer may be cut into chunks */
	struct http1_chunked chunks;
	uint64_t body_left;
};

static const char *reason_phrase(int status)
{
	static const struct {
		int status;
		const char *phrase;
	} phrases[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 425, "Too Early" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return ""; /* RFC 9112, 4: may be empty */
}

/* Out. */

/* RFC 9110, 8.6 and 6.4.1: no content, no Content-Length. */
static bool status_has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

static void write_answer(struct conn *c, const struct answer *a, bool head_only, bool keep_alive)
{
	struct buf out;

	buf_init(&out, 0);
	buf_printf(&out, "HTTP/1.1 %d %s\r\n", a->status, reason_phrase(a->status));
	for (uint32_t i = 0; i < a->headers.count; i++) {
		buf_str(&out, header_list_name(&a->headers, i));
		buf_lit(&out, ": ");
		buf_str(&out, header_list_value(&a->headers, i));
		buf_lit(&out, "\r\n");
	}
	if (a->open) {
		if (c->http1->chunks_known)
			buf_lit(&out, "transfer-encoding: chunked\r\n");
	} else if (status_has_body(a->status)) {
		buf_lit(&out, "content-length: ");
		buf_u64(&out, a->body.len);
		buf_lit(&out, "\r\n");
	}
	if (!keep_alive)
		buf_lit(&out, "connection: close\r\n");
	else if (!c->http1->chunks_known) /* RFC 9112, C.2.2: HTTP/1.0 closes unless it is told */
		buf_lit(&out, "connection: keep-alive\r\n");
	buf_lit(&out, "\r\n");
	if (!a->open && !head_only && status_has_body(a->status))
		buf_str(&out, buf_view(&a->body));
	net_stream_write(&c->stream, buf_view(&out));
	conn_written(c);
	buf_release(&out);
}

/* What has come of an open answer. RFC 9112, 7.1: as one chunk, and the last one when it has ended;
 * 6.1: to a client of HTTP/1.0 as it is, the end of the connection ends it. */
static void write_open(struct conn *c, struct answer *a, bool head_only)
{
	bool chunked = c->http1->chunks_known;
	struct buf out;

	buf_init(&out, 0);
	if (a->body.len && !head_only) {
		if (chunked)
			buf_printf(&out, "%zx\r\n", a->body.len);
		buf_str(&out, buf_view(&a->body));
		if (chunked)
			buf_lit(&out, "\r\n");
	}
	if (chunked && !a->open && !head_only)
		buf_lit(&out, "0\r\n\r\n");
	buf_reset(&a->body);
	if (out.len)
		net_stream_write(&c->stream, buf_view(&out));
	conn_written(c);
	buf_release(&out);
}

static void http1_work(struct conn *c, struct str bytes);

static void http1_finish(struct conn *c)
{
	c->http1->state = HTTP1_CLOSING;
	buf_release(&c->http1->in);
	net_stream_finish(&c->stream);
	conn_set_phase(c, CONN_LINGER);
}

/* The handler's answer, or the server's own in the middle of the body. */
static void http1_answer(struct conn *c, struct net_request *r)
{
	struct http1 *h = c->http1;
	bool whole = h->state == HTTP1_RUNS;
	bool keep_alive = whole && h->keep_alive && !c->draining && !h->ended;

	if (c->stream.closing)
		return;
	assert(r == h->request);
	if (r->answer->open || r->answer->head_sent) {
		keep_alive = keep_alive && h->chunks_known;
		if (!r->answer->head_sent)
			write_answer(c, r->answer, r->no_body, h->chunks_known);
		r->answer->head_sent = true;
		write_open(c, r->answer, r->no_body);
		if (r->answer->open)
			return;
	} else {
		write_answer(c, r->answer, r->no_body, keep_alive);
	}
	h->request = NULL;
	request_detach(r, true);
	if (!keep_alive) {
		http1_finish(c);
		return;
	}
	h->state = HTTP1_HEAD;
	h->scanned = 0;
	conn_set_phase(c, h->in.len ? CONN_HEAD : CONN_IDLE);
	if (h->working) /* our caller's loop goes on with what is left */
		return;
	net_stream_resume(&c->stream);
	if (h->in.len)
		http1_work(c, STR(""));
}

/* In. */

/* "http://host/path" into "host" and "/path"; false: not of that form. */
static bool split_absolute(struct str target, struct str *authority, struct str *path)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		struct str scheme = str_cstr(schemes[i]), rest;
		size_t end = 0;

		if (!str_equal_nocase(str_head(target, scheme.len), scheme))
			continue;
		rest = str_skip(target, scheme.len);
		while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
			end++;
		*authority = str_head(rest, end);
		*path = str_skip(rest, end);
		return true;
	}
	return false;
}

/* RFC 9112, 3.2.2: the authority of an absolute target stands in the place of Host. */
static void add_headers(struct net_request *r, const struct http1_head *head)
{
	struct str authority = { 0 }, path = head->target;
	bool absolute = split_absolute(head->target, &authority, &path);
	struct buf target;

	buf_init(&target, 0);
	if (absolute && (!path.len || path.ptr[0] != '/'))
		buf_char(&target, '/');
	buf_str(&target, path);
	header_list_add(&r->headers, STR(":method"), head->method);
	header_list_add(&r->headers, STR(":path"), buf_view(&target));
	if (absolute)
		header_list_add(&r->headers, STR("host"), authority);
	for (unsigned i = 0; i < head->header_count; i++) {
		const struct http1_header *h = &head->headers[i];

		if (absolute && str_equal_nocase(h->name, STR("host")))
			continue;
		if (!header_list_add(&r->headers, h->name, h->value))
			r->headers_too_large = true;
	}
	r->method = header_list_value(&r->headers, 0);
	r->path = header_list_value(&r->headers, 1);
	buf_release(&target);
}

/* A request whose head is refused: only its Content-Type is read, for the form of the answer. */
static struct net_request *headless_request(struct conn *c, struct str head)
{
	struct http1 *h = c->http1;
	struct net_request *r = request_new(c, NET_HTTP1);
	struct str type =
		http1_find_field(str_head(head, HTTP1_HEAD_BYTES_MOST), STR("content-type"));

	h->request = r;
	h->keep_alive = false;
	if (type.ptr)
		header_list_add(&r->headers, STR("content-type"), type);
	return r;
}

static void refuse_head(struct conn *c, struct str head, enum http1_result why, const char *text)
{
	struct net_request *r = headless_request(c, head);

	switch (why) {
	case HTTP1_TOO_LARGE:
		request_refuse(r, REFUSED_HEADERS_TOO_LARGE, 431, GRPC_RESOURCE_EXHAUSTED, "%s",
			       text);
		break;
	case HTTP1_BAD_VERSION:
		request_refuse(r, REFUSED_VERSION, 505, GRPC_UNIMPLEMENTED, "%s", text);
		break;
	case HTTP1_UNKNOWN_CODING:
		request_refuse(r, REFUSED_ENCODING, 501, GRPC_UNIMPLEMENTED, "%s", text);
		break;
	default:
		request_refuse(r, REFUSED_BAD_REQUEST, 400, GRPC_INVALID_ARGUMENT, "%s", text);
	}
}

static void begin_body(struct conn *c, const struct http1_head *head)
{
	struct http1 *h = c->http1;

	h->state = HTTP1_BODY;
	h->chunked = head->chunked;
	h->body_left = head->has_length ? head->content_length : 0;
	h->chunks = (struct http1_chunked){ 0 };
	conn_set_phase(c, CONN_BODY);
}

static void http1_begin(struct conn *c, const struct http1_head *head)
{
	struct http1 *h = c->http1;
	struct net_request *r = request_new(c, NET_HTTP1);
	bool has_body = head->chunked || (head->has_length && head->content_length);
	size_t length = head->chunked
				? SIZE_MAX
				: (head->content_length > SIZE_MAX - 1 ? SIZE_MAX - 1
								       : head->content_length);

	h->request = r;
	h->keep_alive = head->keep_alive;
	h->chunks_known = head->minor > 0;
	add_headers(r, head);
	begin_body(c, head);
	if (!has_body)
		h->state = HTTP1_RUNS; /* so that a refusal keeps the connection */
	if (head->bad_expect) {
		request_refuse(r, REFUSED_EXPECTATION, 417, GRPC_INVALID_ARGUMENT,
			       "only Expect: 100-continue is understood");
		return;
	}
	request_begin(r, length);
	if (h->request != r || h->state != (has_body ? HTTP1_BODY : HTTP1_RUNS))
		return; /* refused */
	if (!has_body)
		h->state = HTTP1_BODY; /* ends at once */
	else if (head->expect_continue)
		net_stream_write(&c->stream, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

static bool read_head(struct conn *c, struct str *rest)
{
	struct http1 *h = c->http1;
	struct http1_head head;
	const char *why = "";
	enum http1_result rc;
	size_t used;

	if (!rest->len)
		return false;
	if (c->phase == CONN_IDLE)
		conn_set_phase(c, CONN_HEAD);
	if (!http1_head_is_whole(*rest, &h->scanned))
		return false;
	rc = http1_parse_head(*rest, &head, &used, &why);
	if (rc == HTTP1_MORE) {
		h->scanned = rest->len;
		return false;
	}
	if (rc != HTTP1_OK) {
		refuse_head(c, *rest, rc, why);
		return false;
	}
	h->scanned = 0;
	*rest = str_skip(*rest, used);
	http1_begin(c, &head);
	return true;
}

static void body_ended(struct conn *c)
{
	struct http1 *h = c->http1;

	h->state = HTTP1_RUNS;
	conn_set_phase(c, CONN_RUNNING);
	request_complete(h->request);
}

static bool read_plain_body(struct conn *c, struct str *rest)
{
	struct http1 *h = c->http1;
	struct str piece =
		str_head(*rest, h->body_left < rest->len ? (size_t)h->body_left : rest->len);

	*rest = str_skip(*rest, piece.len);
	h->body_left -= piece.len;
	if (piece.len)
		request_data(h->request, piece);
	if (h->state != HTTP1_BODY) /* refused */
		return true;
	if (h->body_left)
		return false;
	body_ended(c);
	return true;
}

static bool read_chunked_body(struct conn *c, struct str *rest)
{
	struct http1 *h = c->http1;
	const char *why = "";
	struct str piece;
	enum http1_result rc = http1_chunked_next(&h->chunks, rest, &piece, &why);

	if (piece.len)
		request_data(h->request, piece);
	if (h->state != HTTP1_BODY)
		return true;
	if (rc == HTTP1_OK) {
		body_ended(c);
		return true;
	}
	if (rc == HTTP1_MORE)
		return rest->len > 0;
	request_refuse(h->request, REFUSED_BAD_REQUEST, 400, GRPC_INVALID_ARGUMENT, "%s", why);
	return true;
}

/* One step; false: nothing more can be done with what is there. */
static bool http1_step(struct conn *c, struct str *rest)
{
	struct http1 *h = c->http1;

	switch (h->state) {
	case HTTP1_HEAD:
		return read_head(c, rest);
	case HTTP1_BODY:
		return h->chunked ? read_chunked_body(c, rest) : read_plain_body(c, rest);
	case HTTP1_RUNS:
	case HTTP1_CLOSING:
		break;
	}
	return false;
}

/* Keeps what is left for later. `rest` may point into `in`. */
static void keep_rest(struct http1 *h, struct str rest)
{
	if (!rest.len) {
		buf_reset(&h->in);
		buf_trim(&h->in, KEPT_MOST);
	} else if (h->in.len && rest.ptr >= h->in.ptr && rest.ptr < h->in.ptr + h->in.len) {
		memmove(h->in.ptr, rest.ptr, rest.len);
		h->in.len = rest.len;
	} else {
		buf_reset(&h->in);
		buf_str(&h->in, rest);
	}
}

static void http1_end_when_idle(struct conn *c)
{
	struct http1 *h = c->http1;

	if (h->state == HTTP1_HEAD && (c->draining || h->ended))
		http1_finish(c);
	else if (h->ended && h->state == HTTP1_BODY)
		conn_close(c); /* its body will never be whole */
	else if (h->ended && h->request && h->request->answer && h->request->answer->open)
		conn_close(c); /* nobody waits for events any more */
}

/* Works on what was kept and on `bytes`. */
static void http1_work(struct conn *c, struct str bytes)
{
	struct http1 *h = c->http1;
	struct str rest = bytes;

	if (h->in.len) {
		buf_str(&h->in, bytes);
		rest = buf_view(&h->in);
	}
	h->working = true;
	while (!c->stream.closing && h->state != HTTP1_CLOSING && http1_step(c, &rest))
		;
	h->working = false;
	if (c->stream.closing || h->state == HTTP1_CLOSING)
		return;
	keep_rest(h, rest);
	if (h->state == HTTP1_RUNS && h->in.len > WAITING_MOST)
		net_stream_pause(&c->stream);
	else if (h->state != HTTP1_RUNS)
		net_stream_resume(&c->stream);
	http1_end_when_idle(c);
}

static void http1_data(struct conn *c, struct str bytes)
{
	if (c->http1->state != HTTP1_CLOSING)
		http1_work(c, bytes);
}

/* The peer sends no more, but may still read: what runs is answered, then the connection ends. */
static void http1_ended(struct conn *c)
{
	c->http1->ended = true;
	if (c->http1->request)
		atomic_store(&c->http1->request->hung_up, true);
	http1_end_when_idle(c);
}

static void http1_drained(struct conn *c)
{
	struct net_request *r = c->http1->request;

	if (r && r->events)
		events_drained(r->events);
}

static void http1_drain(struct conn *c)
{
	struct http1 *h = c->http1;

	if (h->state == HTTP1_HEAD && !h->in.len)
		http1_finish(c);
}

static void http1_timeout(struct conn *c)
{
	struct http1 *h = c->http1;

	if (h->state != HTTP1_HEAD || !h->in.len) {
		if (h->state == HTTP1_HEAD)
			conn_close(c); /* idle */
		return;
	}
	request_refuse(headless_request(c, buf_view(&h->in)), REFUSED_HEAD_TIMEOUT, 408,
		       GRPC_DEADLINE_EXCEEDED, "no complete request header in time");
}

static void http1_release(struct conn *c)
{
	buf_release(&c->http1->in);
	free(c->http1);
	c->http1 = NULL;
}

static const struct conn_protocol protocol = {
	.data = http1_data,
	.ended = http1_ended,
	.drained = http1_drained,
	.answer = http1_answer,
	.drain = http1_drain,
	.timeout = http1_timeout,
	.release = http1_release,
};

void http1_start(struct conn *c)
{
	struct http1 *h = calloc(1, sizeof(*h));

	assert(h);
	buf_init(&h->in, 0);
	c->http1 = h;
	c->protocol = &protocol;
}
