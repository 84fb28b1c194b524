/*
 * conn_http2.c - HTTP/2 by nghttp2: streams <-> requests and answers, gRPC's trailers, limits,
 * drain.
 *
 * Output is gathered in the loop's scratch memory and written once per batch of input. Callbacks of
 * nghttp2 only note that there is something to send (`busy`): sending inside of them is not
 * allowed.
 */
#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/http2_abuse.h"
#include "net/server_internal.h"

enum {
	STREAM_WINDOW = 1024 * 1024,
	CONNECTION_WINDOW = 4 * 1024 * 1024,
	PENDING_MOST = 256 * 1024, /* output the peer does not take; more is not made */
	HEADER_BYTES_ABUSE = 4 * HEADER_BYTES_MOST, /* of one block; then the connection ends */
	ANSWER_HEADERS_MOST = 64,
	MEDIA_TYPE_MOST = 256,
	ERR_TOO_MANY_CONTINUATIONS = -905,
};

struct http2 {
	nghttp2_session *session;
	struct http2_abuse abuse;
	size_t block_bytes;     /* of the header block coming in */
	uint64_t pinged_ns;     /* our ping that was not yet answered; 0 = none */
	uint64_t active_ns;     /* when the last frame came */
	bool busy;              /* inside of nghttp2 */
	const char *abuse_text; /* NULL: the peer is none that asks too much */
	bool going, gone;       /* GOAWAY: announced, final */
};

/* Debian 12's nghttp2 has it since its security updates, with a limit of 8: less than 256 KiB of
 * headers need, and a frame whose head comes in two pieces counts twice. http2_abuse counts, too.
 */
void nghttp2_option_set_max_continuations(nghttp2_option *option, size_t most)
	__attribute__((weak));
enum { CONTINUATIONS_MOST = 128 };

static const uint8_t drain_ping[8] = "draining";

/* Out. */

static void http2_end_if_over(struct conn *c)
{
	struct http2 *h = c->http2;

	if (c->stream.closing || nghttp2_session_want_read(h->session) ||
	    nghttp2_session_want_write(h->session))
		return;
	if (c->phase == CONN_LINGER)
		return;
	net_stream_finish(&c->stream);
	conn_set_phase(c, CONN_LINGER);
}

/* Gathers frames in the scratch memory, so that one write serves them all. */
static void http2_flush(struct conn *c)
{
	struct http2 *h = c->http2;
	char *out = c->stream.loop->send_scratch;
	size_t have = 0;

	if (h->busy || c->stream.closing)
		return;
	h->busy = true;
	while (!c->stream.closing && net_stream_pending(&c->stream) < PENDING_MOST) {
		const uint8_t *frame;
		ssize_t n = nghttp2_session_mem_send(h->session, &frame);

		if (n <= 0) {
			if (n < 0)
				conn_close(c);
			break;
		}
		if (have + (size_t)n > NET_LOOP_SCRATCH) {
			net_stream_write(&c->stream, str_from(out, have));
			have = 0;
		}
		memcpy(out + have, frame, (size_t)n); /* a frame is at most 16 KiB + 9 */
		have += (size_t)n;
	}
	h->busy = false;
	if (have)
		net_stream_write(&c->stream, str_from(out, have));
	conn_written(c);
	http2_end_if_over(c);
}

static nghttp2_nv field(struct str name, struct str value)
{
	return (nghttp2_nv){ .name = (uint8_t *)name.ptr,
			     .namelen = name.len,
			     .value = (uint8_t *)(value.ptr ? value.ptr : ""),
			     .valuelen = value.len };
}

static const struct str grpc_encodings = { "gzip,deflate,zstd,snappy,identity", 33 };

struct status_text {
	char digits[16];
};

static struct str status_text(struct status_text *t, int status)
{
	int n = snprintf(t->digits, sizeof(t->digits), "%d", status);

	return str_from(t->digits, (size_t)n);
}

static size_t grpc_trailers(nghttp2_nv *nv, const struct answer *a, struct status_text *status)
{
	size_t n = 0;

	nv[n++] = field(STR("grpc-status"), status_text(status, a->status));
	if (a->message.len)
		nv[n++] = field(STR("grpc-message"), buf_view(&a->message));
	if (a->details.len)
		nv[n++] = field(STR("grpc-status-details-bin"), buf_view(&a->details));
	return n;
}

static ssize_t answer_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t room,
			   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct net_request *r = source->ptr;
	struct answer *a = r->answer;
	struct str rest = str_skip(buf_view(&a->body), a->body_at);
	struct status_text status;
	nghttp2_nv trailers[3];

	if (rest.len > room)
		rest.len = room;
	if (rest.len)
		memcpy(out, rest.ptr, rest.len);
	a->body_at += rest.len;
	r->moved_ns = conn_now_ns(user);
	if (a->body_at < a->body.len)
		return (ssize_t)rest.len;
	if (a->open) {
		buf_reset(&a->body);
		a->body_at = 0;
		if (r->events)
			events_drained(r->events);
		return rest.len ? (ssize_t)rest.len : NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (a->grpc) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, stream_id, trailers,
					   grpc_trailers(trailers, a, &status)))
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)rest.len;
}

static int submit_grpc(struct http2 *h, struct net_request *r)
{
	struct answer *a = r->answer;
	nghttp2_data_provider provider = { .source.ptr = r, .read_callback = answer_read };
	struct status_text status;
	nghttp2_nv nv[8];
	size_t n = 0;

	nv[n++] = field(STR(":status"), STR("200"));
	nv[n++] = field(STR("content-type"), STR("application/grpc"));
	nv[n++] = field(STR("grpc-accept-encoding"), grpc_encodings);
	if (a->body.len || a->open)
		return nghttp2_submit_response(h->session, r->stream_id, nv, n, &provider);
	n += grpc_trailers(nv + n, a, &status); /* "Trailers-Only" */
	return nghttp2_submit_response(h->session, r->stream_id, nv, n, NULL);
}

/* RFC 9113, 8.2.2: what belongs to a HTTP/1.1 connection may not be sent. */
static bool is_connection_header(struct str name)
{
	static const char *const names[] = { "connection", "keep-alive", "transfer-encoding",
					     "upgrade", "proxy-connection" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

static int submit_http(struct http2 *h, struct net_request *r)
{
	struct answer *a = r->answer;
	nghttp2_data_provider provider = { .source.ptr = r, .read_callback = answer_read };
	struct status_text status, length;
	nghttp2_nv nv[ANSWER_HEADERS_MOST];
	size_t n = 0;

	nv[n++] = field(STR(":status"), status_text(&status, a->status));
	for (uint32_t i = 0; i < a->headers.count && n < ANSWER_HEADERS_MOST - 1; i++)
		if (!is_connection_header(header_list_name(&a->headers, i)))
			nv[n++] = field(header_list_name(&a->headers, i),
					header_list_value(&a->headers, i));
	if (a->status != 204 && a->status != 304 && !a->open)
		nv[n++] = field(STR("content-length"), status_text(&length, (int)a->body.len));
	if (r->no_body || (!a->body.len && !a->open) || a->status == 204 || a->status == 304)
		return nghttp2_submit_response(h->session, r->stream_id, nv, n, NULL);
	return nghttp2_submit_response(h->session, r->stream_id, nv, n, &provider);
}

static void http2_answer(struct conn *c, struct net_request *r)
{
	struct http2 *h = c->http2;
	int rc;

	if (c->stream.closing)
		return;
	if (r->submitted) {
		nghttp2_session_resume_data(h->session, r->stream_id);
	} else {
		r->submitted = true;
		r->moved_ns = conn_now_ns(c);
		rc = r->answer->grpc ? submit_grpc(h, r) : submit_http(h, r);
		if (rc)
			nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, r->stream_id,
						  NGHTTP2_INTERNAL_ERROR);
	}
	http2_flush(c);
}

/* In: nghttp2's callbacks. */

static struct net_request *request_of(nghttp2_session *session, int32_t stream_id)
{
	return nghttp2_session_get_stream_user_data(session, stream_id);
}

static int abuse(struct conn *c, const char *text)
{
	c->http2->abuse_text = text;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct conn *c = user;
	struct net_request *r;

	c->http2->block_bytes = 0;
	http2_abuse_header_block(&c->http2->abuse);
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0; /* trailers */
	r = request_new(c, NET_HTTP2);
	r->stream_id = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, r);
	return 0;
}

static const char too_many_header_bytes[] = "a header block of more than 262144 bytes";
static_assert(HEADER_BYTES_ABUSE == 262144, "as the text says");

/* False: the connection is to end. */
static bool count_field(struct conn *c, struct net_request *r, size_t name_len, size_t value_len)
{
	c->http2->block_bytes += name_len + value_len + 32; /* as RFC 9113, 6.5.2 counts */
	if (r && c->http2->block_bytes > HEADER_BYTES_MOST)
		r->headers_too_large = true;
	return c->http2->block_bytes <= HEADER_BYTES_ABUSE;
}

/* Of a request that is refused for its headers only the form of the answer matters. What fills the
 * list leaves no room for it, so it gets some of its own. */
static void keep_media_type(struct net_request *r, struct str name, struct str value)
{
	if (!str_is(name, "content-type") || value.len > MEDIA_TYPE_MOST ||
	    header_list_find(&r->headers, name).ptr)
		return;
	r->headers.text.limit_bytes += name.len + value.len;
	header_list_add(&r->headers, name, value);
}

static struct net_request *request_of_head(nghttp2_session *session, const nghttp2_frame *frame)
{
	return frame->headers.cat == NGHTTP2_HCAT_REQUEST ? request_of(session, frame->hd.stream_id)
							  : NULL; /* trailers */
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *user)
{
	struct net_request *r = request_of_head(session, frame);
	struct conn *c = user;

	(void)flags;
	if (!count_field(c, r, name_len, value_len))
		return abuse(c, too_many_header_bytes);
	if (r && r->headers_too_large)
		keep_media_type(r, str_from(name, name_len), str_from(value, value_len));
	else if (r && !header_list_add(&r->headers, str_from(name, name_len),
				       str_from(value, value_len)))
		r->headers_too_large = true;
	return 0;
}

/* A field that nghttp2 leaves out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     const uint8_t *name, size_t name_len, const uint8_t *value,
			     size_t value_len, uint8_t flags, void *user)
{
	(void)name;
	(void)value;
	(void)flags;
	return count_field(user, request_of_head(session, frame), name_len, value_len)
		       ? 0
		       : abuse(user, too_many_header_bytes);
}

static size_t content_length(const struct net_request *r)
{
	struct str text = header_list_find(&r->headers, STR("content-length"));
	uint64_t n;

	return text.ptr && str_to_u64(text, &n) && n < SIZE_MAX ? (size_t)n : SIZE_MAX;
}

static void headers_done(struct net_request *r)
{
	r->method = header_list_find(&r->headers, STR(":method"));
	r->path = header_list_find(&r->headers, STR(":path"));
	request_begin(r, content_length(r));
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct net_request *r;
	struct conn *c = user;

	if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) {
		if (c->http2->going && !c->http2->gone &&
		    !memcmp(frame->ping.opaque_data, drain_ping, sizeof(drain_ping))) {
			c->http2->gone = true;
			nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
					      nghttp2_session_get_last_proc_stream_id(session),
					      NGHTTP2_NO_ERROR, NULL, 0);
		}
	}
	if (frame->hd.type == NGHTTP2_SETTINGS && c->phase == CONN_HEAD && !c->request_count)
		conn_set_phase(c, CONN_IDLE); /* the preface is complete */
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	r = request_of(session, frame->hd.stream_id);
	if (!r)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
		conn_set_phase(c, CONN_RUNNING);
		headers_done(r);
	}
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	if (request_of(session, frame->hd.stream_id) == r)
		request_complete(r);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
		   size_t len, void *user)
{
	struct net_request *r = request_of(session, stream_id);

	(void)flags;
	(void)user;
	if (r)
		request_data(r, str_from(data, len));
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
			   void *user)
{
	struct net_request *r = request_of(session, stream_id);
	struct conn *c = user;

	if (!r)
		return 0;
	nghttp2_session_set_stream_user_data(session, stream_id, NULL);
	request_detach(r, error_code == NGHTTP2_NO_ERROR);
	if (!c->request_count)
		conn_set_phase(c, CONN_IDLE);
	return 0;
}

/* An answer that came before the request's end: the rest of it is not wanted (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct net_request *r;
	struct conn *c = user;

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		app_count_refusal(c->app, c->http2->abuse_text ? REFUSED_ABUSE : REFUSED_PROTOCOL);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	http2_abuse_worked(&c->http2->abuse);
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	r = request_of(session, frame->hd.stream_id);
	if (r && !nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id))
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_NO_ERROR);
	return 0;
}

static int note(struct conn *c, enum http2_glitch kind)
{
	return http2_abuse_note(&c->http2->abuse, kind, conn_now_ns(c))
		       ? abuse(c, http2_abuse_text(kind))
		       : 0;
}

/* Each frame, before anything of it is used. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
	struct conn *c = user;

	(void)session;
	switch (hd->type) {
	case NGHTTP2_HEADERS:
		return 0;
	case NGHTTP2_DATA:
		return hd->length || (hd->flags & NGHTTP2_FLAG_END_STREAM) ? 0
									   : note(c, GLITCH_EMPTY);
	case NGHTTP2_RST_STREAM:
		return note(c, GLITCH_RESET);
	case NGHTTP2_PING:
		return hd->flags & NGHTTP2_FLAG_ACK ? 0 : note(c, GLITCH_PING);
	case NGHTTP2_SETTINGS:
		return note(c, GLITCH_SETTINGS);
	case NGHTTP2_CONTINUATION:
		return note(c, GLITCH_CONTINUATION);
	case NGHTTP2_WINDOW_UPDATE:
		return note(c, GLITCH_WINDOW);
	default:
		return note(c, GLITCH_OTHER);
	}
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
			    void *user)
{
	(void)session;
	(void)frame;
	(void)error;
	return note(user, GLITCH_OTHER);
}

/* The peer's end, with the reason where it is ours to give. */
static void last_goaway(struct http2 *h)
{
	const char *text = h->abuse_text;

	if (text)
		nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
				      nghttp2_session_get_last_proc_stream_id(h->session),
				      NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)text,
				      strlen(text));
	else
		nghttp2_session_terminate_session(h->session, NGHTTP2_PROTOCOL_ERROR);
}

static void http2_data(struct conn *c, struct str bytes)
{
	struct http2 *h = c->http2;
	ssize_t n;

	h->active_ns = conn_now_ns(c);
	if (h->pinged_ns) { /* whatever comes shows that the peer lives */
		h->pinged_ns = 0;
		conn_wake_at(c, h->active_ns + c->app->options.keepalive_time_ns);
	}
	h->busy = true;
	n = nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes.ptr, bytes.len);
	h->busy = false;
	if (n < 0) {
		/* nghttp2's own limits; older headers do not name the second. */
		if (n == NGHTTP2_ERR_FLOODED)
			h->abuse_text = "too many frames that ask for an answer";
		else if (n == ERR_TOO_MANY_CONTINUATIONS)
			h->abuse_text = "too many CONTINUATION frames of one header block";
		last_goaway(h);
		http2_flush(c);
		if (!c->stream.closing && c->phase != CONN_LINGER) {
			net_stream_finish(&c->stream);
			conn_set_phase(c, CONN_LINGER);
		}
		return;
	}
	http2_flush(c);
}

/* Life. */

static void http2_ended(struct conn *c)
{
	conn_close(c);
}

static void http2_drained(struct conn *c)
{
	http2_flush(c);
}

/* First "no new streams, please", and with the answer to our ping the final word on which streams
 * we serve: what was on its way is not lost (RFC 9113, 6.8). */
static void http2_drain(struct conn *c)
{
	struct http2 *h = c->http2;

	if (h->going || c->stream.closing)
		return;
	h->going = true;
	nghttp2_submit_shutdown_notice(h->session);
	nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, drain_ping);
	http2_flush(c);
}

static void http2_go_away(struct conn *c)
{
	c->http2->going = c->http2->gone = true;
	nghttp2_session_terminate_session(c->http2->session, NGHTTP2_NO_ERROR);
	http2_flush(c);
}

/* No preface in time, or idle. */
static void http2_timeout(struct conn *c)
{
	if (c->request_count) {
		c->deadline_ns = 0;
		return;
	}
	http2_go_away(c);
}

/* Answers that the peer gives no window for would be kept for ever. */
static void reset_stalled(struct conn *c, uint64_t now_ns, uint64_t *next_ns)
{
	bool any = false;

	for (struct net_request *r = c->requests; r; r = r->next) {
		if (!r->answer || r->answer->open || r->reset)
			continue;
		if (now_ns - r->moved_ns < c->app->options.progress_timeout_ns) {
			if (r->moved_ns + c->app->options.progress_timeout_ns < *next_ns)
				*next_ns = r->moved_ns + c->app->options.progress_timeout_ns;
			continue;
		}
		app_count_refusal(c->app, REFUSED_STALLED);
		nghttp2_submit_rst_stream(c->http2->session, NGHTTP2_FLAG_NONE, r->stream_id,
					  NGHTTP2_CANCEL);
		r->reset = any = true;
	}
	if (any)
		http2_flush(c);
}

/* Keepalive: a silent peer is asked whether it lives. */
static void http2_tick(struct conn *c, uint64_t now_ns, uint64_t *next_ns)
{
	struct http2 *h = c->http2;
	uint64_t next;

	reset_stalled(c, now_ns, next_ns);
	if (c->stream.closing)
		return;
	if (h->pinged_ns && now_ns - h->pinged_ns >= c->app->options.keepalive_timeout_ns) {
		app_count_refusal(c->app, REFUSED_STALLED);
		conn_close(c);
		return;
	}
	if (!h->pinged_ns && now_ns - h->active_ns >= c->app->options.keepalive_time_ns) {
		h->pinged_ns = now_ns;
		nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
		http2_flush(c);
	}
	next = h->pinged_ns ? h->pinged_ns + c->app->options.keepalive_timeout_ns
			    : h->active_ns + c->app->options.keepalive_time_ns;
	if (next < *next_ns)
		*next_ns = next;
}

static void http2_release(struct conn *c)
{
	nghttp2_session_del(c->http2->session);
	free(c->http2);
	c->http2 = NULL;
}

static const struct conn_protocol protocol = {
	.data = http2_data,
	.ended = http2_ended,
	.drained = http2_drained,
	.answer = http2_answer,
	.drain = http2_drain,
	.timeout = http2_timeout,
	.tick = http2_tick,
	.release = http2_release,
};

static nghttp2_session *session_new(struct conn *c)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;
	nghttp2_option *option;
	int rc;

	rc = nghttp2_session_callbacks_new(&callbacks);
	assert(rc == 0);
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	rc = nghttp2_option_new(&option);
	assert(rc == 0);
	nghttp2_option_set_no_closed_streams(option, 1); /* keeps no record of them */
	if (nghttp2_option_set_max_continuations)
		nghttp2_option_set_max_continuations(option, CONTINUATIONS_MOST);
	rc = nghttp2_session_server_new2(&session, callbacks, c, option);
	assert(rc == 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

void http2_start(struct conn *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->app->options.max_concurrent_streams },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_BYTES_MOST },
	};
	struct http2 *h = calloc(1, sizeof(*h));

	assert(h);
	c->http2 = h;
	c->protocol = &protocol;
	h->session = session_new(c);
	h->abuse.since_ns = h->active_ns = conn_now_ns(c);
	nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));
	conn_wake_at(c, h->active_ns + c->app->options.keepalive_time_ns);
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}
