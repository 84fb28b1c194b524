/*
 * server_test.h - for the server's tests: a server on port 0, raw sockets to it, and what its
 * counters say.
 *
 * Includes come after cmocka's. Every wait is bounded by PEER_WAIT_S.
 */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/server.h"
#include "support/metric_text.h"

enum { PEER_WAIT_S = 60 };

struct server {
	struct budget budget;
	struct metrics *metrics;
	struct net_loops *loops;
	struct net_app *app;
	struct net_listener *listener;
	unsigned port;
	/* What handlers keep for later. */
	sem_t kept_one;
	struct net_request *kept;
	struct blob *kept_body;
};

/* Answers with the body that came. */
static inline void echo(struct net_request *r, struct blob *body, void *ctx)
{
	struct net_header type = { "content-type", net_request_header(r, "content-type") };

	(void)ctx;
	if (net_request_transport(r) == NET_GRPC)
		net_reply_grpc(r, blob_view(body));
	else
		net_reply_http(r, 200, &type, type.value.ptr ? 1 : 0, blob_view(body));
	blob_unref(body);
}

/* Leaves the answer to the test. */
static inline void keep(struct net_request *r, struct blob *body, void *ctx)
{
	struct server *s = ctx;

	s->kept = r;
	s->kept_body = body;
	sem_post(&s->kept_one);
}

static inline void wait_kept(struct server *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PEER_WAIT_S;
	assert_int_equal(sem_timedwait(&s->kept_one, &until), 0);
}

/* Call server_listen() once the app has its routes. */
static inline void server_init(struct server *s, struct net_app_options options,
			       size_t budget_bytes)
{
	struct err err;

	memset(s, 0, sizeof(*s));
	budget_init(&s->budget, budget_bytes);
	sem_init(&s->kept_one, 0, 0);
	s->metrics = metrics_new();
	s->loops = net_loops_new(&(struct net_loops_options){ .count = 2, .budget = &s->budget },
				 &err);
	assert_non_null(s->loops);
	options.metrics = s->metrics;
	s->app = net_app_new(&options);
	assert_non_null(s->app);
}

static inline void server_listen(struct server *s, struct tls_context *tls)
{
	struct err err = { 0 };

	s->listener = net_listen(s->loops, s->app, "127.0.0.1:0", tls, &err);
	if (!s->listener)
		fail_msg("%s", err.msg);
	s->port = (unsigned)atoi(strrchr(net_listener_address(s->listener), ':') + 1);
	assert_true(s->port > 0);
}

static inline void server_stop(struct server *s)
{
	net_listener_close(s->listener, clock_monotonic_ns() + PEER_WAIT_S * SECOND_NS);
	net_app_free(s->app);
	net_loops_free(s->loops);
	assert_int_equal(budget_used(&s->budget), 0); /* every byte was given back */
	metrics_free(s->metrics);
	sem_destroy(&s->kept_one);
}

/* series: "flametap_net_refused_total{reason=\"abuse\"}" */
static inline long long counter(struct server *s, const char *series)
{
	return metric_value(s->metrics, series);
}

static inline long long refused(struct server *s, const char *reason)
{
	char series[128];

	snprintf(series, sizeof(series), "flametap_net_refused_total{reason=\"%s\"}", reason);
	return counter(s, series);
}

/* Counts come from other threads, a moment later. */
static inline void wait_counter(struct server *s, const char *series, long long least)
{
	for (int i = 0; i < PEER_WAIT_S * 1000; i++) {
		if (counter(s, series) >= least)
			return;
		usleep(1000);
	}
	fail_msg("%s stays at %lld, want %lld", series, counter(s, series), least);
}

static inline void peer_connect_with(const struct server *s, int fd)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port) };
	const struct timeval wait = { .tv_sec = PEER_WAIT_S };

	assert_true(fd >= 0);
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
}

static inline int peer_connect(const struct server *s)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	peer_connect_with(s, fd);
	return fd;
}

/* False: the server has closed. */
static inline bool peer_send(int fd, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

/* Up to where `until` has come `times` times; NULL = to the end of the connection. False: it did
 * not come. */
static inline bool peer_read(int fd, struct buf *out, const char *until, unsigned times)
{
	for (;;) {
		struct str rest = buf_view(out);
		char part[65536];
		unsigned seen = 0;
		ssize_t n, at;

		while (until && (at = str_search(rest, str_cstr(until))) >= 0) {
			rest = str_skip(rest, (size_t)at + strlen(until));
			seen++;
		}
		if (until && seen >= times)
			return true;
		n = recv(fd, part, sizeof(part), 0);
		if (n <= 0)
			return !until && (n == 0 || errno == ECONNRESET);
		buf_append(out, part, (size_t)n);
	}
}
