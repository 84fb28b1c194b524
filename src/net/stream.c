#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READS_PER_EVENT = 4, PENDING_KEPT = 16 * 1024 };

static void stream_fail(struct net_stream *s, const struct err *why)
{
	if (s->closing)
		return;
	if (s->ops->failed)
		s->ops->failed(s, why);
	net_stream_close(s);
}

static void stream_event(uv_poll_t *poll, int status, int events);

static void stream_watch(struct net_stream *s)
{
	int events = 0;

	if (s->closing)
		return;
	if (!s->paused && !s->ended)
		events |= UV_READABLE;
	if (s->pending.len > s->pending_at)
		events |= UV_WRITABLE;
	if (events == s->events)
		return;
	s->events = events;
	if (events)
		uv_poll_start(&s->poll, events, stream_event);
	else
		uv_poll_stop(&s->poll);
}

/* Sending. */

static void stream_end_output(struct net_stream *s)
{
	if (s->finished)
		return;
	s->finished = true;
	shutdown(s->fd, SHUT_WR);
	if (s->ended)
		net_stream_close(s);
}

static void raw_send(struct net_stream *s, struct str bytes)
{
	while (bytes.len && s->pending.len == s->pending_at) {
		ssize_t n = send(s->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
		struct err err;

		if (n >= 0) {
			s->sent_bytes += (size_t)n;
			bytes = str_skip(bytes, (size_t)n);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			break;
		err_set_errno(&err, "send");
		stream_fail(s, &err);
		return;
	}
	if (bytes.len)
		buf_str(&s->pending, bytes);
	stream_watch(s);
}

static void tls_flush(struct net_stream *s)
{
	size_t n;

	while (!s->closing &&
	       (n = tls_session_output(s->tls, s->loop->send_scratch, NET_LOOP_SCRATCH)))
		raw_send(s, str_from(s->loop->send_scratch, n));
}

void net_stream_write(struct net_stream *s, struct str bytes)
{
	struct err err;

	if (s->closing || s->finishing || !bytes.len)
		return;
	if (!s->tls) {
		raw_send(s, bytes);
		return;
	}
	if (!tls_session_write(s->tls, bytes, &err)) {
		stream_fail(s, &err);
		return;
	}
	tls_flush(s);
}

size_t net_stream_pending(const struct net_stream *s)
{
	return s->pending.len - s->pending_at;
}

static void stream_writable(struct net_stream *s)
{
	struct str rest = str_skip(buf_view(&s->pending), s->pending_at);

	while (rest.len) {
		ssize_t n = send(s->fd, rest.ptr, rest.len, MSG_NOSIGNAL);
		struct err err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0) {
			err_set_errno(&err, "send");
			stream_fail(s, &err);
			return;
		}
		s->pending_at += (size_t)n;
		s->sent_bytes += (size_t)n;
		rest = str_skip(rest, (size_t)n);
	}
	if (rest.len)
		return;
	buf_reset(&s->pending);
	s->pending_at = 0;
	buf_trim(&s->pending, PENDING_KEPT);
	stream_watch(s);
	if (s->finishing)
		stream_end_output(s);
	else if (s->ops->drained)
		s->ops->drained(s);
}

void net_stream_finish(struct net_stream *s)
{
	if (s->closing || s->finishing)
		return;
	if (s->tls) {
		tls_session_goodbye(s->tls);
		tls_flush(s);
	}
	s->finishing = true;
	s->paused = false; /* so that the peer's end is seen */
	stream_watch(s);
	if (!s->closing && !net_stream_pending(s))
		stream_end_output(s);
}

/* Receiving. */

static void stream_ended(struct net_stream *s)
{
	if (s->ended || s->closing)
		return;
	s->ended = true;
	stream_watch(s);
	if (s->finished)
		net_stream_close(s);
	else if (!s->finishing)
		s->ops->ended(s);
}

static void stream_deliver(struct net_stream *s, struct str bytes)
{
	if (!s->finishing && !s->closing)
		s->ops->data(s, bytes);
}

static void stream_opened(struct net_stream *s)
{
	s->opened = true;
	s->ops->opened(s, s->tls ? tls_session_alpn(s->tls) : STR(""));
}

static bool tls_step(struct net_stream *s, struct str ciphertext, struct err *err)
{
	bool finished = s->opened, ended = false;
	size_t n;

	if (!tls_session_feed(s->tls, ciphertext, err))
		return false;
	if (!s->opened && !tls_session_handshake(s->tls, &finished, err))
		return false;
	tls_flush(s);
	if (!finished || s->closing)
		return true;
	if (!s->opened)
		stream_opened(s);
	while (!s->closing && !ended) {
		if (!tls_session_read(s->tls, s->loop->plain_scratch, NET_LOOP_SCRATCH, &n, &ended,
				      err))
			return false;
		if (n)
			stream_deliver(s, str_from(s->loop->plain_scratch, n));
		else
			break;
	}
	if (!s->closing)
		tls_flush(s);
	if (ended)
		stream_ended(s);
	return true;
}

static void stream_received(struct net_stream *s, struct str bytes)
{
	struct err err;

	if (!s->tls) {
		stream_deliver(s, bytes);
		return;
	}
	if (tls_step(s, bytes, &err))
		return;
	if (!s->closing)
		tls_flush(s); /* the alert that says why */
	stream_fail(s, &err);
}

/* False: stop for now. */
static bool stream_read_once(struct net_stream *s)
{
	ssize_t n = recv(s->fd, s->loop->recv_scratch, NET_LOOP_SCRATCH, 0);
	struct err err;

	if (n > 0) {
		stream_received(s, str_from(s->loop->recv_scratch, (size_t)n));
		return n == NET_LOOP_SCRATCH; /* less: the socket is empty */
	}
	if (n == 0) {
		stream_ended(s);
		return false;
	}
	if (errno == EINTR)
		return true;
	if (errno != EAGAIN && errno != EWOULDBLOCK) {
		err_set_errno(&err, "recv");
		stream_fail(s, &err);
	}
	return false;
}

static void stream_readable(struct net_stream *s)
{
	for (unsigned i = 0; i < READS_PER_EVENT; i++) {
		if (s->closing || s->paused || s->ended)
			return;
		if (s->ops->may_read && !s->finishing && !s->ops->may_read(s))
			return;
		if (!stream_read_once(s))
			return;
	}
}

static void stream_event(uv_poll_t *poll, int status, int events)
{
	struct net_stream *s = poll->data;
	struct err err;

	if (status < 0) {
		err_set(&err, ERR_IO, "poll: %s", uv_strerror(status));
		stream_fail(s, &err);
		return;
	}
	if (events & UV_WRITABLE)
		stream_writable(s);
	if (!s->closing && (events & UV_READABLE))
		stream_readable(s);
}

void net_stream_pause(struct net_stream *s)
{
	s->paused = true;
	stream_watch(s);
}

void net_stream_resume(struct net_stream *s)
{
	s->paused = false;
	stream_watch(s);
}

/* Life. */

static void stream_closed(uv_handle_t *handle)
{
	struct net_stream *s = handle->data;

	close(s->fd);
	s->fd = -1;
	tls_session_free(s->tls);
	buf_release(&s->pending);
	s->ops->closed(s);
}

void net_stream_close(struct net_stream *s)
{
	if (s->closing)
		return;
	s->closing = true;
	net_loop_remove_member(s->loop, &s->member);
	uv_close((uv_handle_t *)&s->poll, stream_closed);
}

static void stream_stop(struct net_member *m)
{
	net_stream_close(CONTAINER_OF(m, struct net_stream, member));
}

void net_stream_start(struct net_stream *s, struct net_loop *loop, int fd, struct tls_session *tls,
		      const struct net_stream_ops *ops)
{
	int rc;

	s->loop = loop;
	s->fd = fd;
	s->tls = tls;
	s->ops = ops;
	buf_init(&s->pending, 0);
	rc = uv_poll_init(&loop->uv, &s->poll, fd);
	assert(rc == 0);
	s->poll.data = s;
	s->member.stop = stream_stop;
	net_loop_add_member(loop, &s->member);
	stream_watch(s);
	if (!tls)
		stream_opened(s);
}
