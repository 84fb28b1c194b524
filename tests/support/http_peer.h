/*
 * http_peer.h - a small HTTP/1.1 server for tests, made of sockets alone, that answers as its
 * script says.
 *
 * One thread for each connection. `answer` gets the whole request and writes the whole answer, or
 * returns false to cut the connection.
 */
#pragma once
#include <stdatomic.h>
#include <strings.h>
#include "support/h2_peer.h"

struct http_peer_request {
	char head[8192]; /* request line and headers */
	char *body;
	size_t len;
	unsigned ordinal; /* of all requests of this peer, from 0 */
	int fd;
};

struct http_peer {
	bool (*answer)(struct http_peer_request *r, void *ctx);
	void *ctx;
	int listen_fd;
	uint16_t port;
	pthread_t thread;
	atomic_uint requests, connections;
	atomic_int stopping, running;
	atomic_int fds[64];
};

static inline void http_peer_write(struct http_peer_request *r, const void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(r->fd, (const char *)data + at, len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

/* headers: "Name: value\r\n"... or "" */
static inline bool http_peer_reply(struct http_peer_request *r, int status, const char *headers,
				   const void *body, size_t len)
{
	char head[1024];
	int n = snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n",
			 status, len, headers);

	http_peer_write(r, head, (size_t)n);
	http_peer_write(r, body, len);
	return true;
}

static inline bool http_peer_read(struct http_peer_request *r)
{
	size_t have = 0, want;
	char *end = NULL, *length;

	while (!end) {
		ssize_t n = recv(r->fd, r->head + have, 1, 0);

		if (n <= 0 || have + 2 > sizeof(r->head))
			return false;
		have++;
		r->head[have] = 0;
		end = strstr(r->head, "\r\n\r\n");
	}
	length = strcasestr(r->head, "\r\nContent-Length:");
	want = length ? strtoul(length + 17, NULL, 10) : 0;
	r->body = malloc(want + 1);
	for (r->len = 0; r->len < want;) {
		ssize_t n = recv(r->fd, r->body + r->len, want - r->len, 0);

		if (n <= 0)
			return false;
		r->len += (size_t)n;
	}
	r->body[want] = 0;
	return true;
}

struct http_peer_conn {
	struct http_peer *peer;
	int fd, slot;
};

static inline void *http_peer_serve(void *arg)
{
	struct http_peer_conn c = *(struct http_peer_conn *)arg;
	bool go_on = true;

	free(arg);
	while (go_on) {
		struct http_peer_request r = { .fd = c.fd };

		go_on = http_peer_read(&r);
		if (go_on) {
			r.ordinal = c.peer->requests++;
			go_on = c.peer->answer(&r, c.peer->ctx);
		}
		free(r.body);
	}
	c.peer->fds[c.slot] = -1;
	close(c.fd);
	c.peer->running--;
	return NULL;
}

static inline void *http_peer_main(void *arg)
{
	struct http_peer *p = arg;
	int fd;

	while ((fd = accept(p->listen_fd, NULL, NULL)) >= 0) {
		struct http_peer_conn *c = malloc(sizeof(*c));
		pthread_t thread;
		int slot = (int)(p->connections++ % 64);

		p->fds[slot] = fd;
		*c = (struct http_peer_conn){ .peer = p, .fd = fd, .slot = slot };
		p->running++;
		pthread_create(&thread, NULL, http_peer_serve, c);
		pthread_detach(thread);
	}
	return NULL;
}

static inline void http_peer_start(struct http_peer *p)
{
	for (int i = 0; i < 64; i++)
		p->fds[i] = -1;
	p->listen_fd = h2_peer_socket(&p->port, true);
	pthread_create(&p->thread, NULL, http_peer_main, p);
}

static inline void http_peer_stop(struct http_peer *p)
{
	shutdown(p->listen_fd, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->listen_fd);
	for (int i = 0; i < 64; i++)
		if (p->fds[i] >= 0)
			shutdown(p->fds[i], SHUT_RDWR);
	while (p->running)
		usleep(1000);
}
