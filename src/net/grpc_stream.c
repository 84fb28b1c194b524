#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/grpc_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/grpc_text.h"
#include "net/server.h"

enum {
	PREFIX_BYTES = 5,
	HEADERS_FIXED = 10,  /* what every call has besides the user's */
	STREAMS_MOST = 1000, /* also where a peer allows more */
};

/* Requests out. */

static size_t call_total_bytes(const struct grpc_call *call)
{
	return PREFIX_BYTES + call->message->len;
}

static ssize_t body_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t room,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct grpc_call *call = source->ptr;
	size_t left = call_total_bytes(call) - call->sent_bytes;

	(void)session, (void)stream_id, (void)out, (void)arg;
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (left <= room)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)(left < room ? left : room);
}

/* A DATA frame: its header is copied, its payload goes out as a slice of the message. */
static int body_send(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
		     size_t len, nghttp2_data_source *source, void *arg)
{
	struct grpc_conn *conn = arg;
	struct grpc_call *call = source->ptr;

	(void)session, (void)frame;
	if (conn->out.total_bytes >= GRPC_OUT_LIMIT_BYTES)
		return NGHTTP2_ERR_WOULDBLOCK;
	h2_out_copy(&conn->out, header, 9);
	if (call->sent_bytes < PREFIX_BYTES) {
		size_t n = PREFIX_BYTES - call->sent_bytes;

		n = n < len ? n : len;
		h2_out_copy(&conn->out, call->prefix + call->sent_bytes, n);
		call->sent_bytes += n;
		len -= n;
	}
	h2_out_slice(&conn->out, call->message, call->sent_bytes - PREFIX_BYTES, len);
	call->sent_bytes += len;
	return 0;
}

static ssize_t frame_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags,
			  void *arg)
{
	struct grpc_conn *conn = arg;

	(void)session, (void)flags;
	if (conn->out.total_bytes >= GRPC_OUT_LIMIT_BYTES)
		return NGHTTP2_ERR_WOULDBLOCK;
	h2_out_copy(&conn->out, data, len);
	return (ssize_t)len;
}

static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct grpc_call *call;

	(void)arg;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (call)
		call->sent = true;
	return 0;
}

static nghttp2_nv header_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .namelen = strlen(name),
			     .value = (uint8_t *)(uintptr_t)value,
			     .valuelen = strlen(value) };
}

static size_t call_headers(const struct grpc_call *call, char timeout[GRPC_TIMEOUT_ROOM],
			   nghttp2_nv *out)
{
	const struct grpc_client *c = call->client;
	size_t n = 0;

	out[n++] = header_nv(":method", "POST");
	out[n++] = header_nv(":scheme", c->tls ? "https" : "http");
	out[n++] = header_nv(":path", call->path);
	out[n++] = header_nv(":authority", c->authority);
	out[n++] = header_nv("te", "trailers");
	out[n++] = header_nv("content-type", "application/grpc");
	out[n++] = header_nv("user-agent", c->user_agent);
	out[n++] = header_nv("grpc-accept-encoding", "identity, gzip, deflate, zstd, snappy");
	if (call->compressed)
		out[n++] = header_nv("grpc-encoding", compression_name(c->compression));
	if (call->deadline_ns != UINT64_MAX) {
		uint64_t now_ns = clock_monotonic_ns();

		grpc_timeout_format(timeout,
				    call->deadline_ns > now_ns ? call->deadline_ns - now_ns : 1);
		out[n++] = header_nv("grpc-timeout", timeout);
	}
	assert(n <= HEADERS_FIXED);
	for (uint32_t i = 0; i < c->header_count; i++)
		out[n++] = header_nv(c->headers[i].name, c->headers[i].value);
	return n;
}

static void call_prefix(struct grpc_call *call)
{
	uint32_t len = (uint32_t)call->message->len;

	call->prefix[0] = call->compressed;
	for (int i = 0; i < 4; i++)
		call->prefix[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

bool grpc_session_has_room(const struct grpc_conn *conn)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		conn->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return conn->active_count < (most < STREAMS_MOST ? most : STREAMS_MOST);
}

void grpc_session_submit(struct grpc_conn *conn, struct grpc_call *call)
{
	nghttp2_data_provider body = { .source.ptr = call, .read_callback = body_read };
	AUTO(ptr_free)
	nghttp2_nv *headers = calloc(HEADERS_FIXED + call->client->header_count, sizeof(*headers));
	char timeout[GRPC_TIMEOUT_ROOM];

	assert(headers);
	call_prefix(call);
	call->sent_bytes = 0;
	grpc_response_init(&call->response, call->client->max_response_bytes);
	call->conn = conn;
	call->stream_id = nghttp2_submit_request(conn->session, NULL, headers,
						 call_headers(call, timeout, headers), &body, call);
	grpc_call_append(&conn->calls, call);
	if (call->stream_id <
	    0) { /* out of memory: stream ids are looked after by has_room's caller */
		grpc_call_remove(&conn->calls, call);
		call->conn = NULL;
		grpc_call_fail(call, GRPC_INTERNAL, nghttp2_strerror(call->stream_id));
		grpc_call_free(call);
		return;
	}
	conn->active_count++;
}

void grpc_session_cancel(struct grpc_call *call)
{
	nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
				  NGHTTP2_CANCEL);
}

/* Answers in. */

static int header_came(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		       size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		       void *arg)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)flags, (void)arg;
	if (call)
		grpc_response_header(&call->response, str_from(name, name_len),
				     str_from(value, value_len));
	return 0;
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t stream_id,
		     const uint8_t *data, size_t len, void *arg)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	(void)flags, (void)arg;
	if (call && !grpc_response_data(&call->response, str_from(data, len)))
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_CANCEL);
	return 0;
}

static void settings_came(struct grpc_conn *conn)
{
	if (conn->state == GRPC_CONN_SETTINGS)
		grpc_conn_ready(conn);
}

static void goaway_came(struct grpc_conn *conn, const nghttp2_goaway *goaway)
{
	snprintf(conn->goaway, sizeof(conn->goaway), "%s%s%.*s",
		 nghttp2_http2_strerror(goaway->error_code), goaway->opaque_data_len ? " " : "",
		 (int)goaway->opaque_data_len,
		 goaway->opaque_data_len ? (const char *)goaway->opaque_data : "");
	if (goaway->error_code == NGHTTP2_ENHANCE_YOUR_CALM)
		conn->calm_asked = true;
	grpc_client_draining(conn->client, conn);
}

/* A peer may answer before it has read the whole request: the rest is not worth sending (RFC
 * 9113, 8.1). */
static void answer_ended(nghttp2_session *session, int32_t stream_id)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	if (call && call->sent_bytes < call_total_bytes(call))
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_NO_ERROR);
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct grpc_conn *conn = arg;

	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			settings_came(conn);
		break;
	case NGHTTP2_GOAWAY:
		goaway_came(conn, &frame->goaway);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			conn->ping_waits = false;
		break;
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
			answer_ended(session, frame->hd.stream_id);
		break;
	default:
		break;
	}
	return 0;
}

static void call_answered(struct grpc_call *call, uint32_t error_code)
{
	struct client_result result;

	/* REFUSED_STREAM, and streams above a GOAWAY's last: never processed (RFC 9113, 8.7). */
	if (error_code == NGHTTP2_REFUSED_STREAM && !call->response.http_status) {
		if (call->user && grpc_client_requeue(call->client, call))
			return;
		call->sent = false;
	}
	grpc_response_finish(&call->response, error_code, &result);
	result.sent = call->sent;
	grpc_call_done(call, &result);
	grpc_call_free(call);
}

static int stream_closed(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
			 void *arg)
{
	struct grpc_conn *conn = arg;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	if (!call)
		return 0;
	grpc_call_remove(&conn->calls, call);
	call->conn = NULL;
	conn->active_count--;
	call_answered(call, error_code);
	return 0;
}

/* The session. */

static nghttp2_session *session_new(struct grpc_conn *conn)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_send_callback(callbacks, frame_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, body_send);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, header_came);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
	if (nghttp2_session_client_new(&session, callbacks, conn) != 0)
		session = NULL;
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

bool grpc_session_start(struct grpc_conn *conn, struct err *err)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 65536 },
	};
	int rc;

	conn->session = session_new(conn);
	if (!conn->session)
		return err_set(err, ERR_INTERNAL, "cannot make an HTTP/2 session: out of memory");
	rc = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
				     ARRAY_LEN(settings));
	if (rc)
		return err_set(err, ERR_INTERNAL, "cannot begin HTTP/2: %s", nghttp2_strerror(rc));
	return true;
}

/* What else may listen there, told from its first bytes. */
static bool first_bytes_fit(const uint8_t *data, size_t len, struct err *err)
{
	if (len >= 5 && memcmp(data, "HTTP/", 5) == 0)
		return err_set(err, ERR_UNAVAILABLE,
			       "the peer speaks HTTP/1, not gRPC (is this the OTLP/HTTP port?)");
	if (len >= 3 && (data[0] == 0x15 || data[0] == 0x16) && data[1] == 0x03)
		return err_set(err, ERR_UNAVAILABLE,
			       "the peer speaks TLS, this client was told not to");
	return true;
}

bool grpc_session_receive(struct grpc_conn *conn, const uint8_t *data, size_t len, struct err *err)
{
	ssize_t rc;

	if (conn->state == GRPC_CONN_SETTINGS && !first_bytes_fit(data, len, err))
		return false;
	conn->in_session = true;
	rc = nghttp2_session_mem_recv(conn->session, data, len);
	conn->in_session = false;
	if (rc < 0)
		return err_set(err, ERR_UNAVAILABLE, "the peer broke HTTP/2: %s",
			       nghttp2_strerror((int)rc));
	return true;
}
