#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/server_internal.h"

/* RFC 9113, 3.4 */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* When memory is spent a connection is not read for a while, in the hope that some comes free; then
 * it is read again and what does not fit is refused with a retry hint. */
#define HOLD_NS       (250 * MILLI_NS)
#define HOLD_CHECK_NS (20 * MILLI_NS)
enum { HOLD_ROOM = 64 * 1024 };

uint64_t conn_now_ns(const struct conn *c)
{
	return uv_now(&c->stream.loop->uv) *
	       MILLI_NS; /* CLOCK_MONOTONIC, as clock_monotonic_ns() */
}

/* Time: one timer, set to the earliest instant of interest and never taken back; when it fires
 * early it looks again. */

static void conn_fired(uv_timer_t *timer);

void conn_wake_at(struct conn *c, uint64_t monotonic_ns)
{
	uint64_t now = conn_now_ns(c);
	uint64_t delay_ms = monotonic_ns > now ? (monotonic_ns - now) / MILLI_NS + 1 : 1;

	if (c->stream.closing || (c->wake_ns && c->wake_ns <= monotonic_ns))
		return;
	c->wake_ns = monotonic_ns;
	uv_timer_start(&c->timer, conn_fired, delay_ms, 0);
}

static uint64_t phase_time(const struct conn *c, enum conn_phase phase)
{
	const struct net_app_options *o = &c->app->options;

	switch (phase) {
	case CONN_TLS:
	case CONN_HEAD:
		return o->header_timeout_ns;
	case CONN_IDLE:
		return o->idle_timeout_ns;
	case CONN_LINGER:
		return LINGER_NS;
	case CONN_BODY:
	case CONN_RUNNING:
		break;
	}
	return 0; /* watched request by request */
}

void conn_set_phase(struct conn *c, enum conn_phase phase)
{
	uint64_t time = phase_time(c, phase);

	c->phase = phase;
	c->deadline_ns = time ? conn_now_ns(c) + time : 0;
	conn_wake_at(c,
		     time ? c->deadline_ns : conn_now_ns(c) + c->app->options.progress_timeout_ns);
}

static void least(uint64_t *a, uint64_t b)
{
	if (b < *a)
		*a = b;
}

/* Whose deadline is over, or whose body stopped coming. Lowers *next to the next instant of
 * interest. */
static struct net_request *find_late_request(struct conn *c, uint64_t now, uint64_t *next)
{
	for (struct net_request *r = c->requests; r; r = r->next) {
		if (r->answer || r->stream)
			continue;
		if ((r->deadline_ns && r->deadline_ns <= now) ||
		    (!r->body_done && r->moved_ns + c->app->options.progress_timeout_ns <= now))
			return r;
		if (r->deadline_ns)
			least(next, r->deadline_ns);
	}
	return NULL;
}

static void check_requests(struct conn *c, uint64_t now, uint64_t *next)
{
	struct net_request *r;

	/* From the start each time: an answer that goes out may end other requests too. */
	while (!c->stream.closing && (r = find_late_request(c, now, next))) {
		if (r->deadline_ns && r->deadline_ns <= now)
			request_expire(r);
		else
			request_refuse(r, REFUSED_BODY_TIMEOUT, 408, GRPC_DEADLINE_EXCEEDED,
				       "the request's body stopped coming");
	}
	if (c->requests)
		least(next, now + c->app->options.progress_timeout_ns);
}

void conn_written(struct conn *c)
{
	if (!net_stream_pending(&c->stream) || c->stalled_since_ns)
		return;
	c->stalled_since_ns = conn_now_ns(c);
	c->stalled_at_bytes = c->stream.sent_bytes;
	conn_wake_at(c, c->stalled_since_ns + c->app->options.progress_timeout_ns);
}

static bool check_stalled(struct conn *c, uint64_t now, uint64_t *next)
{
	if (!net_stream_pending(&c->stream)) {
		c->stalled_since_ns = 0;
		return false;
	}
	if (!c->stalled_since_ns || c->stalled_at_bytes != c->stream.sent_bytes) {
		c->stalled_since_ns = now;
		c->stalled_at_bytes = c->stream.sent_bytes;
	}
	if (now - c->stalled_since_ns < c->app->options.progress_timeout_ns) {
		least(next, c->stalled_since_ns + c->app->options.progress_timeout_ns);
		return false;
	}
	app_count_refusal(c->app, REFUSED_STALLED);
	return true;
}

static bool memory_spent(const struct conn *c)
{
	struct budget *b = net_loop_budget(c->stream.loop);

	return b && b->limit_bytes && budget_used(b) + HOLD_ROOM > b->limit_bytes;
}

static void check_held(struct conn *c, uint64_t now, uint64_t *next)
{
	if (!c->held_since_ns)
		return;
	if (memory_spent(c) && now - c->held_since_ns < HOLD_NS) {
		least(next, now + HOLD_CHECK_NS);
		return;
	}
	c->hold_spent = memory_spent(c);
	c->held_since_ns = 0;
	net_stream_resume(&c->stream);
}

static void handshake_failed(struct conn *c, const struct err *why)
{
	app_count_refusal(c->app, REFUSED_TLS);
	if (c->app->options.handshake_failed)
		c->app->options.handshake_failed(c->peer, why);
}

static void handshake_late(struct conn *c)
{
	struct err err;

	err_set(&err, ERR_TIMEOUT, "the TLS handshake takes too long (does the peer speak TLS?)");
	handshake_failed(c, &err);
}

static void check_phase(struct conn *c, uint64_t now, uint64_t *next)
{
	if (!c->deadline_ns)
		return;
	if (c->deadline_ns > now) {
		least(next, c->deadline_ns);
		return;
	}
	if (c->phase == CONN_TLS)
		handshake_late(c);
	if (c->phase == CONN_TLS || c->phase == CONN_LINGER) {
		conn_close(c);
	} else if (c->protocol) {
		c->protocol->timeout(c);
		if (!c->stream.closing && c->deadline_ns)
			least(next, c->deadline_ns > now ? c->deadline_ns : now + SECOND_NS);
	} else {
		conn_close(c); /* connected and said nothing: nobody waits for an answer */
	}
}

static void conn_fired(uv_timer_t *timer)
{
	struct conn *c = timer->data;
	uint64_t now = conn_now_ns(c), next = UINT64_MAX;

	c->wake_ns = 0;
	check_requests(c, now, &next);
	if (!c->stream.closing && check_stalled(c, now, &next)) {
		conn_close(c);
		return;
	}
	if (!c->stream.closing)
		check_held(c, now, &next);
	if (!c->stream.closing)
		check_phase(c, now, &next);
	if (!c->stream.closing && c->protocol && c->protocol->tick)
		c->protocol->tick(c, now, &next);
	if (!c->stream.closing && next != UINT64_MAX)
		conn_wake_at(c, next);
}

/* The stream's callbacks. */

static bool conn_may_read(struct net_stream *s)
{
	struct conn *c = (struct conn *)s;

	if (!memory_spent(c)) {
		c->hold_spent = false;
		return true;
	}
	if (c->hold_spent || !c->protocol)
		return true;
	c->held_since_ns = conn_now_ns(c);
	net_stream_pause(s);
	conn_wake_at(c, c->held_since_ns + HOLD_CHECK_NS);
	return false;
}

static void conn_opened(struct net_stream *s, struct str protocol)
{
	struct conn *c = (struct conn *)s;

	conn_set_phase(c, CONN_HEAD);
	if (str_is(protocol, "h2"))
		http2_start(c);
	else if (str_is(protocol, "http/1.1"))
		http1_start(c);
}

/* A ClientHello where no TLS is spoken: its sender would wait for an answer until it gives up. */
static bool is_handshake_record(const struct conn *c, struct str bytes)
{
	enum { TLS_HANDSHAKE = 22 }; /* RFC 8446, 5.1; no HTTP begins with a control character */

	return c->sniffed_len == 0 && bytes.len && bytes.ptr[0] == TLS_HANDSHAKE;
}

/* The first bytes decide: HTTP/2's preface, by prior knowledge, or HTTP/1.1. */
static void conn_sniff(struct conn *c, struct str bytes)
{
	struct str head;

	if (is_handshake_record(c, bytes)) {
		struct err err;

		err_set(&err, ERR_INVALID, "the peer speaks TLS, this address does not");
		handshake_failed(c, &err);
		conn_close(c);
		return;
	}

	while (bytes.len && c->sniffed_len < sizeof(c->sniffed) &&
	       bytes.ptr[0] == preface[c->sniffed_len]) {
		c->sniffed[c->sniffed_len++] = (unsigned char)bytes.ptr[0];
		bytes = str_skip(bytes, 1);
	}
	if (c->sniffed_len == sizeof(c->sniffed))
		http2_start(c);
	else if (bytes.len)
		http1_start(c);
	else
		return; /* undecided yet */
	head = str_from(c->sniffed, c->sniffed_len);
	if (head.len)
		c->protocol->data(c, head);
	if (bytes.len && !c->stream.closing)
		c->protocol->data(c, bytes);
}

static void conn_data(struct net_stream *s, struct str bytes)
{
	struct conn *c = (struct conn *)s;

	if (c->protocol)
		c->protocol->data(c, bytes);
	else
		conn_sniff(c, bytes);
}

static void conn_ended(struct net_stream *s)
{
	struct conn *c = (struct conn *)s;

	if (c->protocol)
		c->protocol->ended(c);
	else
		conn_close(c);
}

static void conn_drained(struct net_stream *s)
{
	struct conn *c = (struct conn *)s;

	c->stalled_since_ns = 0;
	if (c->protocol)
		c->protocol->drained(c);
}

static void conn_failed(struct net_stream *s, const struct err *why)
{
	if (!s->opened)
		handshake_failed((struct conn *)s, why);
}

static void conn_free_if_done(struct conn *c)
{
	struct listener_loop *home = c->home;

	if (!c->timer_closed || !c->stream_closed)
		return;
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		home->conns = c->next;
	free(c);
	listener_conn_closed(home);
}

static void conn_timer_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;

	c->timer_closed = true;
	conn_free_if_done(c);
}

static void conn_closed(struct net_stream *s)
{
	struct conn *c = (struct conn *)s;

	while (c->requests)
		request_detach(c->requests, false);
	if (c->protocol)
		c->protocol->release(c);
	c->protocol = NULL;
	c->stream_closed = true;
	uv_close((uv_handle_t *)&c->timer, conn_timer_closed);
}

static const struct net_stream_ops stream_ops = {
	.opened = conn_opened,
	.may_read = conn_may_read,
	.data = conn_data,
	.ended = conn_ended,
	.drained = conn_drained,
	.failed = conn_failed,
	.closed = conn_closed,
};

void conn_close(struct conn *c)
{
	net_stream_close(&c->stream);
}

void conn_drain(struct conn *c)
{
	c->draining = true;
	if (c->protocol)
		c->protocol->drain(c);
	else
		conn_close(c); /* nothing was asked yet */
}

/* On the connection's loop. The tls session was made by the listener, in stream.tls. */
void conn_start(struct conn *c)
{
	struct net_loop *loop = c->home->loop;

	c->next = c->home->conns;
	if (c->next)
		c->next->prev = c;
	c->home->conns = c;
	uv_timer_init(&loop->uv, &c->timer);
	c->timer.data = c;
	uv_update_time(&loop->uv);
	c->stream.loop = loop;
	conn_set_phase(c, CONN_TLS); /* a plain one is opened within net_stream_start() */
	net_stream_start(&c->stream, loop, c->fd, c->stream.tls, &stream_ops);
}
