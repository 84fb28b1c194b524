/*
 * h2_test.h - for the server's tests: a small blocking HTTP/2 client on nghttp2, apart from our own
 * client's code.
 *
 * Comes after server_test.h.
 */
#pragma once
#include <nghttp2/nghttp2.h>

struct h2_call {
	struct str body;
	size_t body_at;
	bool keep_open; /* no END_STREAM after the body */
	/* What came. */
	int http_status, grpc_status; /* -1 = none */
	char message[512], details[512], encodings[128];
	struct buf got;
	bool closed;
	uint32_t error_code;
	int32_t id;
};

struct h2_peer {
	int fd;
	nghttp2_session *session;
	bool goaway;
	uint32_t goaway_code;
	unsigned pings;
};

static inline int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
			       const uint8_t *name, size_t name_len, const uint8_t *value,
			       size_t value_len, uint8_t flags, void *user)
{
	struct h2_call *c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct str n = str_from(name, name_len);

	(void)flags;
	(void)user;
	if (!c)
		return 0;
	if (str_is(n, ":status"))
		c->http_status = atoi((const char *)value);
	else if (str_is(n, "grpc-status"))
		c->grpc_status = atoi((const char *)value);
	else if (str_is(n, "grpc-message"))
		snprintf(c->message, sizeof(c->message), "%.*s", (int)value_len,
			 (const char *)value);
	else if (str_is(n, "grpc-status-details-bin"))
		snprintf(c->details, sizeof(c->details), "%.*s", (int)value_len,
			 (const char *)value);
	else if (str_is(n, "grpc-accept-encoding"))
		snprintf(c->encodings, sizeof(c->encodings), "%.*s", (int)value_len,
			 (const char *)value);
	return 0;
}

static inline int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
			     const uint8_t *data, size_t len, void *user)
{
	struct h2_call *c = nghttp2_session_get_stream_user_data(session, id);

	(void)flags;
	(void)user;
	if (c)
		buf_append(&c->got, data, len);
	return 0;
}

static inline int h2_on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
	struct h2_call *c = nghttp2_session_get_stream_user_data(session, id);

	(void)user;
	if (c) {
		c->closed = true;
		c->error_code = error_code;
	}
	return 0;
}

static inline int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_peer *p = user;

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		p->goaway = true;
		p->goaway_code = frame->goaway.error_code;
	}
	if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		p->pings++;
	return 0;
}

static inline void h2_open(struct h2_peer *p, const struct server *s)
{
	nghttp2_session_callbacks *callbacks;

	memset(p, 0, sizeof(*p));
	p->fd = peer_connect(s);
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, h2_on_frame);
	nghttp2_session_client_new(&p->session, callbacks, p);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, NULL, 0);
}

static inline void h2_close(struct h2_peer *p)
{
	close(p->fd);
	nghttp2_session_del(p->session);
}

static inline ssize_t h2_read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
				   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_call *c = source->ptr;
	struct str rest = str_skip(c->body, c->body_at);

	(void)session;
	(void)id;
	(void)user;
	rest = str_head(rest, room);
	if (rest.len)
		memcpy(out, rest.ptr, rest.len);
	c->body_at += rest.len;
	if (c->body_at == c->body.len && c->keep_open)
		return rest.len ? (ssize_t)rest.len : NGHTTP2_ERR_DEFERRED;
	if (c->body_at == c->body.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)rest.len;
}

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0 };
}

/* extra: pairs of name and value, ended by NULL. The call and its body live until it is closed. */
static inline void h2_submit(struct h2_peer *p, struct h2_call *c, const char *method,
			     const char *path, const char *content_type, const char *const *extra,
			     struct str body)
{
	nghttp2_data_provider provider = { .source.ptr = c, .read_callback = h2_read_body };
	nghttp2_nv nv[16];
	size_t n = 0;

	nv[n++] = h2_nv(":method", method);
	nv[n++] = h2_nv(":scheme", "http");
	nv[n++] = h2_nv(":authority", "test");
	nv[n++] = h2_nv(":path", path);
	if (content_type)
		nv[n++] = h2_nv("content-type", content_type);
	for (; extra && *extra; extra += 2)
		nv[n++] = h2_nv(extra[0], extra[1]);
	c->body = body;
	c->http_status = c->grpc_status = -1;
	buf_init(&c->got, 0);
	c->id = nghttp2_submit_request(p->session, NULL, nv, n, body.ptr ? &provider : NULL, c);
	assert_true(c->id > 0);
}

/* Sends and receives once. False: the connection has ended. */
static inline bool h2_turn(struct h2_peer *p, bool receive)
{
	char in[65536];
	const uint8_t *out;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(p->session, &out)) > 0)
		if (!peer_send(p->fd, str_from(out, (size_t)n)))
			break; /* there may still be something to read */
	if (!receive)
		return true;
	n = recv(p->fd, in, sizeof(in), 0);
	return n > 0 && nghttp2_session_mem_recv(p->session, (uint8_t *)in, (size_t)n) == n;
}

static inline void h2_finish(struct h2_peer *p, struct h2_call *c)
{
	while (!c->closed)
		if (!h2_turn(p, true))
			fail_msg("the connection ended before the call did");
}

static inline void h2_call_release(struct h2_call *c)
{
	buf_release(&c->got);
}
