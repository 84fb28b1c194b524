#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "net/grpc_internal.h"

#include "base/clock.h"
#include "net/server.h"
#include "net/tls_internal.h"

enum {
	RECORD_BYTES = 16384, /* of plain text in a TLS record */
	UNACKED_MS_MOST = 30000,
	CIPHER_KEEP_BYTES = 32768,
};

static void conn_timer(void *arg);

struct grpc_conn *grpc_conn_new(struct grpc_client *c)
{
	struct grpc_conn *conn = calloc(1, sizeof(*conn));

	assert(conn);
	conn->client = c;
	conn->timer = net_timer_new(c->loop, conn_timer, conn);
	h2_out_init(&conn->out);
	buf_init(&conn->cipher, 0);
	return conn;
}

bool grpc_conn_usable(const struct grpc_conn *conn)
{
	return conn->state == GRPC_CONN_READY && !conn->draining;
}

/* The end. */

void grpc_conn_unpin(struct grpc_conn *conn)
{
	if (conn->resolving || conn->handle_open)
		return;
	grpc_client_gone(conn->client, conn);
	uv_freeaddrinfo(conn->addresses);
	h2_out_release(&conn->out);
	buf_release(&conn->cipher);
	free(conn);
}

static void conn_handle_closed(uv_handle_t *handle)
{
	struct grpc_conn *conn = handle->data;

	conn->handle_open = false;
	grpc_conn_unpin(conn);
}

static void conn_fail_calls(struct grpc_conn *conn, const struct err *why)
{
	struct grpc_call *call;

	while ((call = conn->calls.first)) {
		grpc_call_remove(&conn->calls, call);
		call->conn = NULL;
		grpc_call_fail(call, why->kind == ERR_CANCELLED ? GRPC_CANCELLED : GRPC_UNAVAILABLE,
			       why->msg);
		grpc_call_free(call);
	}
	conn->active_count = 0;
}

void grpc_conn_close(struct grpc_conn *conn, const struct err *why)
{
	struct grpc_client *client = conn->client;
	bool was_ready = conn->state == GRPC_CONN_READY;
	bool is_last = !conn->resolving && !conn->handle_open;
	bool client_lives = !client->dead;

	if (conn->state == GRPC_CONN_CLOSED)
		return;
	assert(!conn->in_session);
	conn->state = GRPC_CONN_CLOSED;
	net_timer_free(conn->timer);
	conn->timer = NULL;
	if (conn->resolving)
		uv_cancel((uv_req_t *)&conn->resolver);
	/* A handle that is already closing is that of an address given up: dial_handle_closed()
	 * unpins. */
	if (conn->handle_open && !uv_is_closing(&conn->handle))
		uv_close(&conn->handle, conn_handle_closed);
	nghttp2_session_del(conn->session);
	conn->session = NULL;
	tls_session_free(conn->tls);
	conn->tls = NULL;
	grpc_client_lost(client, conn, why, was_ready);
	conn_fail_calls(conn, why);
	if (is_last)
		grpc_conn_unpin(conn);
	if (client_lives)
		grpc_client_pump(client);
}

static void conn_close_with(struct grpc_conn *conn, const char *reason)
{
	struct err why;

	err_set(&why, ERR_UNAVAILABLE, "%s%s%s", reason, conn->goaway[0] ? " after GOAWAY " : "",
		conn->goaway);
	grpc_conn_close(conn, &why);
}

/* Keepalive. */

static void keepalive_start(struct grpc_conn *conn)
{
	if (conn->client->keepalive_time_ns)
		net_timer_start(conn->timer, conn->client->keepalive_time_ns);
	else
		net_timer_stop(conn->timer);
}

void grpc_conn_ready(struct grpc_conn *conn)
{
	conn->state = GRPC_CONN_READY;
	keepalive_start(conn);
	grpc_client_ready(conn->client, conn);
}

static void keepalive_ping(struct grpc_conn *conn)
{
	nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
	conn->ping_waits = true;
	net_timer_start(conn->timer, conn->client->keepalive_timeout_ns);
	grpc_conn_flush(conn);
}

static void keepalive_due(struct grpc_conn *conn)
{
	const struct grpc_client *c = conn->client;
	uint64_t quiet_ns = clock_monotonic_ns() - conn->last_read_ns;

	if (conn->ping_waits && quiet_ns >= c->keepalive_timeout_ns)
		conn_close_with(conn, "the peer does not answer a keepalive ping");
	else if (quiet_ns < c->keepalive_time_ns)
		net_timer_start(conn->timer, c->keepalive_time_ns - quiet_ns);
	else if (!conn->active_count && !c->keepalive_without_calls)
		keepalive_start(conn);
	else
		keepalive_ping(conn);
}

static void conn_timer(void *arg)
{
	struct grpc_conn *conn = arg;

	if (conn->state == GRPC_CONN_READY)
		keepalive_due(conn);
	else
		grpc_dial_timeout(conn);
}

/* Writing. */

static bool encrypt_chunk(struct grpc_conn *conn, char *chunk, size_t *len, struct err *err)
{
	bool ok = *len == 0 || tls_session_write(conn->tls, str_from(chunk, *len), err);

	*len = 0;
	return ok;
}

/* Gathers small pieces, so that a frame's header does not become a TLS record of its own. */
static bool encrypt_out(struct grpc_conn *conn, struct err *err)
{
	char *chunk = conn->client->loop->send_scratch;
	size_t len = 0;
	unsigned count;
	const uv_buf_t *bufs = h2_out_bufs(&conn->out, 0, &count);

	for (unsigned i = 0; i < count; i++) {
		struct str rest = str_from(bufs[i].base, bufs[i].len);

		while (rest.len) {
			struct str part = str_head(rest, RECORD_BYTES - len);

			memcpy(chunk + len, part.ptr, part.len);
			len += part.len;
			rest = str_skip(rest, part.len);
			if (len == RECORD_BYTES && !encrypt_chunk(conn, chunk, &len, err))
				return false;
		}
	}
	h2_out_reset(&conn->out);
	return encrypt_chunk(conn, chunk, &len, err);
}

static void take_cipher(struct grpc_conn *conn)
{
	for (;;) {
		char *to = buf_reserve(&conn->cipher, RECORD_BYTES);
		size_t n = tls_session_output(conn->tls, to, RECORD_BYTES);

		if (!n)
			return;
		buf_advance(&conn->cipher, n);
	}
}

static void conn_written(uv_write_t *request, int status)
{
	struct grpc_conn *conn = request->data;
	struct grpc_client *client = conn->client;

	conn->writing = false;
	h2_out_reset(&conn->out);
	buf_reset(&conn->cipher);
	buf_trim(&conn->cipher, CIPHER_KEEP_BYTES);
	if (conn->state == GRPC_CONN_CLOSED)
		return;
	if (status) {
		conn_close_with(conn, uv_strerror(status));
		return;
	}
	grpc_conn_flush(conn);
	grpc_client_pump(client);
}

static const uv_buf_t *out_bufs(struct grpc_conn *conn, size_t skip, uv_buf_t *one, unsigned *count)
{
	if (!conn->tls)
		return h2_out_bufs(&conn->out, skip, count);
	*one = uv_buf_init(conn->cipher.ptr + skip, (unsigned)(conn->cipher.len - skip));
	*count = 1;
	return one;
}

/* True when all is written; else a write is under way, or the connection is closed. */
static bool conn_write(struct grpc_conn *conn)
{
	size_t total = conn->tls ? conn->cipher.len : conn->out.total_bytes;
	unsigned count;
	uv_buf_t one;
	const uv_buf_t *bufs = out_bufs(conn, 0, &one, &count);
	int n = uv_try_write(&conn->stream, bufs, count);

	if (n < 0 && n != UV_EAGAIN) {
		conn_close_with(conn, uv_strerror(n));
		return false;
	}
	if (n > 0 && (size_t)n == total) {
		h2_out_reset(&conn->out);
		buf_reset(&conn->cipher);
		return true;
	}
	bufs = out_bufs(conn, n > 0 ? (size_t)n : 0, &one, &count);
	conn->write.data = conn;
	n = uv_write(&conn->write, &conn->stream, bufs, count, conn_written);
	if (n)
		conn_close_with(conn, uv_strerror(n));
	else
		conn->writing = true;
	return false;
}

/* Puts what is due into `out`, or with TLS into `cipher`. */
static bool conn_gather(struct grpc_conn *conn, struct err *err)
{
	if (conn->session) {
		int rc;

		conn->in_session = true;
		rc = nghttp2_session_send(conn->session);
		conn->in_session = false;
		if (rc)
			return err_set(err, ERR_UNAVAILABLE, "HTTP/2: %s", nghttp2_strerror(rc));
	}
	if (!conn->tls)
		return true;
	if (conn->out.total_bytes && !encrypt_out(conn, err))
		return false;
	take_cipher(conn);
	return true;
}

static bool conn_through(const struct grpc_conn *conn)
{
	return conn->session && !nghttp2_session_want_read(conn->session) &&
	       !nghttp2_session_want_write(conn->session);
}

void grpc_conn_flush(struct grpc_conn *conn)
{
	struct err err;

	while (conn->state != GRPC_CONN_CLOSED && !conn->writing) {
		if (!conn_gather(conn, &err)) {
			grpc_conn_close(conn, &err);
			return;
		}
		if (!(conn->tls ? conn->cipher.len : conn->out.total_bytes))
			break;
		if (!conn_write(conn))
			return;
	}
	if (conn->state != GRPC_CONN_CLOSED && conn_through(conn))
		conn_close_with(conn, "the peer ended the connection");
}

/* Reading. */

static void conn_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct grpc_conn *conn = handle->data;

	(void)suggested;
	*out = uv_buf_init(conn->client->loop->recv_scratch, NET_LOOP_SCRATCH);
}

static bool http2_begin(struct grpc_conn *conn, struct err *err)
{
	conn->state = GRPC_CONN_SETTINGS;
	return grpc_session_start(conn, err);
}

static bool tls_handshake(struct grpc_conn *conn, struct err *err)
{
	bool finished = false;
	struct str alpn;

	if (!tls_session_handshake(conn->tls, &finished, err))
		return false;
	if (!finished)
		return true;
	alpn = tls_session_alpn(conn->tls);
	if (!str_is(alpn, "h2"))
		return err_set(err, ERR_UNAVAILABLE,
			       "the peer's TLS offers \"%.*s\" instead of h2 (gRPC needs HTTP/2)",
			       STR_ARG(alpn));
	return http2_begin(conn, err);
}

static bool tls_plain_came(struct grpc_conn *conn, struct err *err)
{
	char *plain = conn->client->loop->plain_scratch;
	bool ended = false;
	size_t len;

	while (tls_session_read(conn->tls, plain, NET_LOOP_SCRATCH, &len, &ended, err)) {
		if (!len)
			return !ended ||
			       err_set(err, ERR_UNAVAILABLE, "the peer closed the connection");
		if (!grpc_session_receive(conn, (const uint8_t *)plain, len, err))
			return false;
	}
	return false;
}

/* TLS records begin with their type, 20 to 23, and version 3.x (RFC 8446, 5.1). */
static bool first_bytes_are_tls(struct str bytes)
{
	return bytes.len < 2 ||
	       ((uint8_t)bytes.ptr[0] >= 20 && (uint8_t)bytes.ptr[0] <= 23 && bytes.ptr[1] == 3);
}

static bool conn_receive(struct grpc_conn *conn, struct str bytes, struct err *err)
{
	if (!conn->tls)
		return grpc_session_receive(conn, (const uint8_t *)bytes.ptr, bytes.len, err);
	if (!conn->heard && !first_bytes_are_tls(bytes))
		return err_set(
			err, ERR_UNAVAILABLE,
			"the peer does not speak TLS, this client was told to (tls: insecure)");
	if (!tls_session_feed(conn->tls, bytes, err))
		return false;
	if (conn->state == GRPC_CONN_HANDSHAKE && !tls_handshake(conn, err))
		return false;
	return conn->state == GRPC_CONN_HANDSHAKE || tls_plain_came(conn, err);
}

/* Whatever is still due (a TLS alert, a GOAWAY) gets one try. */
static void conn_last_words(struct grpc_conn *conn)
{
	const uv_buf_t *bufs;
	uv_buf_t one;
	unsigned count;
	struct err err;

	if (conn->writing || !conn_gather(conn, &err) ||
	    !(conn->tls ? conn->cipher.len : conn->out.total_bytes))
		return;
	bufs = out_bufs(conn, 0, &one, &count);
	(void)uv_try_write(&conn->stream, bufs, count);
}

static const char *conn_end_reason(const struct grpc_conn *conn, ssize_t n)
{
	if (n != UV_EOF)
		return uv_strerror((int)n);
	if (conn->heard)
		return "the peer closed the connection";
	return conn->tls ? "the peer closed the connection without a word (does it speak TLS?)"
			 : "the peer closed the connection without a word (does it want TLS?)";
}

static void conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct grpc_conn *conn = stream->data;
	struct grpc_client *client = conn->client;
	struct err err;

	if (n == 0 || conn->state == GRPC_CONN_CLOSED)
		return;
	if (n < 0) {
		conn_close_with(conn, conn_end_reason(conn, n));
		return;
	}
	conn->last_read_ns = clock_monotonic_ns();
	if (conn->ping_waits) {
		conn->ping_waits = false;
		keepalive_start(conn); /* not only when the answer's time would be over */
	}
	if (conn_receive(conn, str_from(bytes->base, (size_t)n), &err)) {
		conn->heard = true;
		grpc_conn_flush(conn);
	} else {
		conn_last_words(conn);
		grpc_conn_close(conn, &err);
	}
	grpc_client_pump(client);
}

/* Tells the peer, where that goes without waiting. */
void grpc_conn_goodbye(struct grpc_conn *conn, const struct err *why)
{
	if (conn->state == GRPC_CONN_READY) {
		nghttp2_session_terminate_session(conn->session, NGHTTP2_NO_ERROR);
		conn_last_words(conn);
	}
	grpc_conn_close(conn, why);
}

/* A peer that is gone without a word is noticed while data waits for its acknowledgement. */
static void socket_options(struct grpc_conn *conn)
{
	unsigned most_ms = UNACKED_MS_MOST;
	uv_os_fd_t fd;

	if (conn->handle.type != UV_TCP)
		return;
	uv_tcp_nodelay(&conn->tcp, 1);
	if (uv_fileno(&conn->handle, &fd) == 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof(most_ms));
}

static bool conn_begin(struct grpc_conn *conn, struct err *err)
{
	struct grpc_client *c = conn->client;
	int rc = uv_read_start(&conn->stream, conn_alloc, conn_read);

	if (rc)
		return err_set(err, ERR_UNAVAILABLE, "%s", uv_strerror(rc));
	if (!c->tls)
		return http2_begin(conn, err);
	conn->tls = tls_session_new(
		c->tls, c->endpoint.kind == ENDPOINT_UNIX ? "localhost" : c->endpoint.host, err);
	if (!conn->tls)
		return false;
	conn->state = GRPC_CONN_HANDSHAKE;
	return tls_handshake(conn, err);
}

void grpc_conn_connected(struct grpc_conn *conn)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct err err;

	socket_options(conn);
	net_timer_start(conn->timer,
			conn->dial_deadline_ns > now_ns ? conn->dial_deadline_ns - now_ns : 0);
	conn->last_read_ns = now_ns;
	if (conn_begin(conn, &err))
		grpc_conn_flush(conn);
	else
		grpc_conn_close(conn, &err);
}
