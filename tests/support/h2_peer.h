/*
 * h2_peer.h - a small gRPC server for tests, made of sockets and nghttp2's server side alone
 * (nothing of src/net), that answers as its script says: well, badly, late, or not at all.
 *
 * One thread, one poll loop. `script` runs on that thread once a request has fully come (or, with
 * early, when its headers came) and answers with the h2_peer_*() functions.
 */
#pragma once
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { H2_PEER_CONNECTIONS = 16, H2_PEER_HEADERS = 4096 };

struct h2_peer;
struct h2_peer_conn {
	struct h2_peer *peer;
	int fd; /* -1 = free */
	nghttp2_session *session;
	bool drop; /* close without a word once the script returns */
};

struct h2_peer_stream {
	struct h2_peer_conn *conn;
	int32_t id;
	unsigned ordinal;              /* of all requests of this peer, from 0 */
	char headers[H2_PEER_HEADERS]; /* "name: value\n" ... */
	uint8_t *body;                 /* as it came, 5-byte prefix included */
	size_t len, cap;
	bool scripted;
	uint8_t *reply; /* DATA of the answer */
	size_t reply_len, reply_sent;
	char trailers[3]
		     [512]; /* grpc-status, grpc-message, grpc-status-details-bin; "" = leave out */
	bool with_trailers;
};

struct h2_peer {
	void (*script)(struct h2_peer_stream *s, void *ctx);
	void *ctx;
	bool early;           /* script runs at the headers */
	uint32_t max_streams; /* 0 = do not say */
	uint32_t window;      /* initial window, 0 = 65535 */
	int listen_fd, wake[2];
	uint16_t port;
	pthread_t thread;
	struct h2_peer_conn conns[H2_PEER_CONNECTIONS];
	atomic_uint requests, connections, pings, resets; /* seen */
	atomic_uint reset_code;
	bool deaf; /* accepts, but never reads or writes */
	bool no_ping_ack;
};

static inline void h2_peer_send(struct h2_peer_conn *c)
{
	while (c->session && !c->drop) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(c->session, &data);

		if (n <= 0)
			return;
		for (ssize_t at = 0; at < n;) {
			ssize_t w = send(c->fd, data + at, (size_t)(n - at), MSG_NOSIGNAL);

			if (w <= 0) {
				c->drop = true;
				return;
			}
			at += w;
		}
	}
}

static inline nghttp2_nv h2_peer_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
			     strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static inline size_t h2_peer_trailers(struct h2_peer_stream *s, nghttp2_nv *out)
{
	static const char *const names[] = { "grpc-status", "grpc-message",
					     "grpc-status-details-bin" };
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		if (s->trailers[i][0])
			out[n++] = h2_peer_nv(names[i], s->trailers[i]);
	return n;
}

static inline ssize_t h2_peer_read_reply(nghttp2_session *session, int32_t id, uint8_t *out,
					 size_t room, uint32_t *flags, nghttp2_data_source *source,
					 void *arg)
{
	struct h2_peer_stream *s = source->ptr;
	size_t left = s->reply_len - s->reply_sent;
	size_t n = left < room ? left : room;

	(void)arg;
	if (n)
		memcpy(out, s->reply + s->reply_sent, n);
	s->reply_sent += n;
	if (s->reply_sent == s->reply_len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->with_trailers) {
			nghttp2_nv nv[3];

			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			nghttp2_submit_trailer(session, id, nv, h2_peer_trailers(s, nv));
		}
	}
	return (ssize_t)n;
}

static inline void h2_peer_respond(struct h2_peer_stream *s, const char *status,
				   const char *content_type, const void *data, size_t len,
				   bool trailers, const char *encoding)
{
	nghttp2_nv nv[3] = { h2_peer_nv(":status", status),
			     h2_peer_nv("content-type", content_type),
			     h2_peer_nv("grpc-encoding", encoding ? encoding : "") };
	nghttp2_data_provider body = { .source.ptr = s, .read_callback = h2_peer_read_reply };

	s->reply = malloc(len ? len : 1);
	if (len)
		memcpy(s->reply, data, len);
	s->reply_len = len;
	s->with_trailers = trailers;
	nghttp2_submit_response(s->conn->session, s->id, nv, encoding ? 3 : 2, &body);
}

/* An OK with one message. */
static inline void h2_peer_ok(struct h2_peer_stream *s, const void *message, size_t len)
{
	uint8_t *framed = calloc(1, len + 5);

	for (int i = 0; i < 4; i++)
		framed[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	if (len)
		memcpy(framed + 5, message, len);
	snprintf(s->trailers[0], sizeof(s->trailers[0]), "0");
	h2_peer_respond(s, "200", "application/grpc", framed, len + 5, true, NULL);
	free(framed);
}

/* Headers alone, as gRPC servers answer errors. details is base64 already. */
static inline void h2_peer_error(struct h2_peer_stream *s, const char *status, const char *message,
				 const char *details)
{
	nghttp2_nv nv[5] = { h2_peer_nv(":status", "200"),
			     h2_peer_nv("content-type", "application/grpc") };

	snprintf(s->trailers[0], sizeof(s->trailers[0]), "%s", status);
	snprintf(s->trailers[1], sizeof(s->trailers[1]), "%s", message ? message : "");
	snprintf(s->trailers[2], sizeof(s->trailers[2]), "%s", details ? details : "");
	nghttp2_submit_response(s->conn->session, s->id, nv, 2 + h2_peer_trailers(s, nv + 2), NULL);
}

static inline void h2_peer_reset(struct h2_peer_stream *s, uint32_t code)
{
	nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id, code);
}

static inline void h2_peer_goaway(struct h2_peer_stream *s, int32_t last_id, uint32_t code,
				  const char *text)
{
	nghttp2_submit_goaway(s->conn->session, NGHTTP2_FLAG_NONE, last_id, code,
			      (const uint8_t *)text, strlen(text));
}

static inline int h2_peer_on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_peer_stream *s;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = calloc(1, sizeof(*s));
	s->conn = arg;
	s->id = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, s->id, s);
	return 0;
}

static inline int h2_peer_on_header(nghttp2_session *session, const nghttp2_frame *frame,
				    const uint8_t *name, size_t name_len, const uint8_t *value,
				    size_t value_len, uint8_t flags, void *arg)
{
	struct h2_peer_stream *s =
		nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	size_t at = s ? strlen(s->headers) : 0;

	(void)flags, (void)arg;
	if (s)
		snprintf(s->headers + at, sizeof(s->headers) - at, "%.*s: %.*s\n", (int)name_len,
			 (const char *)name, (int)value_len, (const char *)value);
	return 0;
}

static inline int h2_peer_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
				  const uint8_t *data, size_t len, void *arg)
{
	struct h2_peer_stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)flags, (void)arg;
	if (s) {
		if (s->cap - s->len < len) {
			s->cap = (s->cap + len) * 2;
			s->body = realloc(s->body, s->cap);
		}
		memcpy(s->body + s->len, data, len);
		s->len += len;
	}
	return 0;
}

static inline int h2_peer_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_peer_conn *c = arg;
	struct h2_peer *p = c->peer;
	struct h2_peer_stream *s;
	bool complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
		p->pings++;
		if (!p->no_ping_ack)
			nghttp2_submit_ping(session, NGHTTP2_FLAG_ACK, frame->ping.opaque_data);
	}
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		p->reset_code = frame->rst_stream.error_code;
		p->resets++;
	}
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (s && !s->scripted && (complete || (p->early && frame->hd.type == NGHTTP2_HEADERS))) {
		s->scripted = true;
		s->ordinal = p->requests++;
		p->script(s, p->ctx);
	}
	return 0;
}

static inline int h2_peer_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_peer_stream *s = nghttp2_session_get_stream_user_data(session, id);

	(void)code, (void)arg;
	if (s) {
		free(s->body);
		free(s->reply);
		free(s);
	}
	return 0;
}

static inline void h2_peer_accept(struct h2_peer *p)
{
	struct h2_peer_conn *c = NULL;
	nghttp2_session_callbacks *cb;
	nghttp2_option *option;
	nghttp2_settings_entry settings[2];
	size_t n = 0;

	for (int i = 0; i < H2_PEER_CONNECTIONS && !c; i++)
		if (p->conns[i].fd < 0)
			c = &p->conns[i];
	assert(c);
	*c = (struct h2_peer_conn){ .peer = p, .fd = accept(p->listen_fd, NULL, NULL) };
	assert(c->fd >= 0);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	p->connections++;
	if (p->deaf)
		return;
	nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, h2_peer_on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cb, h2_peer_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_peer_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, h2_peer_on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_peer_on_close);
	nghttp2_option_new(&option);
	nghttp2_option_set_no_auto_ping_ack(option, 1);
	nghttp2_session_server_new2(&c->session, cb, c, option);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	if (p->max_streams)
		settings[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
							  p->max_streams };
	if (p->window)
		settings[n++] =
			(nghttp2_settings_entry){ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, p->window };
	nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, n);
	h2_peer_send(c);
}

/* Streams that never ended are freed one by one: nghttp2_session_del() calls no callbacks. */
static inline void h2_peer_conn_close(struct h2_peer_conn *c)
{
	for (int32_t id = 1; c->session && id < 20000; id += 2)
		h2_peer_on_close(c->session, id, 0, c);
	nghttp2_session_del(c->session);
	c->session = NULL;
	close(c->fd);
	c->fd = -1;
}

static inline void h2_peer_turn(struct h2_peer_conn *c)
{
	uint8_t bytes[16384];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

	if (n <= 0 || nghttp2_session_mem_recv(c->session, bytes, (size_t)n) < 0)
		c->drop = true;
	h2_peer_send(c);
	if (c->drop ||
	    (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session)))
		h2_peer_conn_close(c);
}

static inline void *h2_peer_main(void *arg)
{
	struct h2_peer *p = arg;

	for (;;) {
		struct pollfd fds[2 + H2_PEER_CONNECTIONS] = {
			{ .fd = p->wake[0], .events = POLLIN },
			{ .fd = p->listen_fd, .events = POLLIN }
		};

		for (int i = 0; i < H2_PEER_CONNECTIONS; i++)
			fds[2 + i] = (struct pollfd){ .fd = p->deaf ? -1 : p->conns[i].fd,
						      .events = POLLIN };
		poll(fds, 2 + H2_PEER_CONNECTIONS, -1);
		if (fds[0].revents)
			break;
		for (int i = 0; i < H2_PEER_CONNECTIONS; i++)
			if (fds[2 + i].revents)
				h2_peer_turn(&p->conns[i]);
		if (fds[1].revents)
			h2_peer_accept(p);
	}
	for (int i = 0; i < H2_PEER_CONNECTIONS; i++)
		if (p->conns[i].fd >= 0)
			h2_peer_conn_close(&p->conns[i]);
	return NULL;
}

/* A socket bound to a free port of 127.0.0.1; listening or not. */
static inline int h2_peer_socket(uint16_t *port, bool listening)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(*port) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) != 0)
		abort();
	if (listening && listen(fd, 16) != 0)
		abort();
	*port = ntohs(a.sin_port);
	return fd;
}

/* The caller has zeroed p and set what it wants; port 0 = any. */
static inline void h2_peer_start(struct h2_peer *p)
{
	for (int i = 0; i < H2_PEER_CONNECTIONS; i++)
		p->conns[i].fd = -1;
	p->listen_fd = h2_peer_socket(&p->port, true);
	if (pipe2(p->wake, O_CLOEXEC) != 0 ||
	    pthread_create(&p->thread, NULL, h2_peer_main, p) != 0)
		abort();
}

static inline void h2_peer_stop(struct h2_peer *p)
{
	if (write(p->wake[1], "x", 1) != 1)
		abort();
	pthread_join(p->thread, NULL);
	close(p->listen_fd);
	close(p->wake[0]);
	close(p->wake[1]);
}
