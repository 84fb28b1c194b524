#include "net/plain_http.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/endpoint.h"
#include "net/http1_parser.h"

enum {
	HEAD_MOST = 32 << 10,
	READ_BYTES = 256 << 10,
	WAIT_SLICE_MS = 100,
};

struct plain_http {
	struct plain_http_options o;
	struct endpoint endpoint;
	int fd;
	bool used;          /* the connection has had a call before this one */
	bool began;         /* a call */
	struct buf request; /* as sent: it may have to be sent again */
	struct buf in;      /* what came */
	size_t at;          /* so far it was taken */
	uint64_t deadline_ns;
};

/* ---- the connection ---- */

bool plain_http_can(const char *url)
{
	static const char *const proxies[] = { "http_proxy", "all_proxy", "ALL_PROXY" };

	for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
		const char *proxy = getenv(proxies[i]);

		if (proxy && *proxy)
			return false;
	}
	return str_has_prefix(str_cstr(url), STR("http://"));
}

static void hang_up(struct plain_http *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->used = false;
	buf_reset(&c->in);
	c->at = 0;
}

static bool wait_for(struct plain_http *c, short events, uint64_t deadline_ns, struct err *err)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	for (;;) {
		int n;

		if (c->o.stopped && c->o.stopped(c->o.arg))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (clock_monotonic_ns() >= deadline_ns)
			return err_set(err, ERR_UNAVAILABLE, "no answer in time");
		n = poll(&p, 1, WAIT_SLICE_MS);
		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return err_set_errno(err, "poll");
	}
}

static bool connect_to(struct plain_http *c, const struct addrinfo *a, struct err *err)
{
	uint64_t deadline_ns = clock_monotonic_ns() + c->o.connect_timeout_ns;
	socklen_t len = sizeof(int);
	int failed = 0, on = 1;

	if (deadline_ns > c->deadline_ns)
		deadline_ns = c->deadline_ns;
	c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
	if (c->fd < 0)
		return err_set_errno(err, "socket");
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(c->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
		failed = errno;
	else if (!wait_for(c, POLLOUT, deadline_ns, err))
		return false;
	else if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failed, &len))
		failed = errno;
	return !failed || err_set(err, ERR_UNAVAILABLE, "connecting to %s: %s",
				  c->endpoint.authority, strerror(failed));
}

static bool dial(struct plain_http *c, struct err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC }, *found;
	bool ok = false;
	char port[8];
	int rc;

	snprintf(port, sizeof(port), "%u", c->endpoint.port);
	rc = getaddrinfo(c->endpoint.host, port, &hints, &found);
	if (rc)
		return err_set(err, ERR_UNAVAILABLE, "looking up %s: %s", c->endpoint.host,
			       gai_strerror(rc));
	for (struct addrinfo *a = found; a && !ok; a = a->ai_next) {
		hang_up(c);
		ok = connect_to(c, a, err);
		if (!ok && err->kind == ERR_CANCELLED)
			break;
	}
	freeaddrinfo(found);
	if (!ok)
		hang_up(c);
	return ok;
}

/* A kept connection that the peer has closed meanwhile, or on which it says what nobody asked. */
static bool is_stale(const struct plain_http *c)
{
	char byte;

	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* ---- the request ---- */

static bool send_all(struct plain_http *c, struct err *err)
{
	struct str rest = buf_view(&c->request);

	while (rest.len) {
		ssize_t n = send(c->fd, rest.ptr, rest.len, MSG_NOSIGNAL);

		if (n >= 0)
			rest = str_skip(rest, (size_t)n);
		else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, ERR_UNAVAILABLE, "sending: %s", strerror(errno));
		else if (!wait_for(c, POLLOUT, c->deadline_ns, err))
			return false;
	}
	return true;
}

static bool send_afresh(struct plain_http *c, struct err *err)
{
	hang_up(c);
	return dial(c, err) && send_all(c, err);
}

static void put_request(struct plain_http *c, struct str target, struct str body)
{
	struct buf *b = &c->request;

	buf_reset(b);
	buf_lit(b, "POST ");
	buf_str(b, target);
	buf_printf(b, " HTTP/1.1\r\nHost: %s\r\nUser-Agent: flametap/" FLAMETAP_VERSION "\r\n",
		   c->endpoint.authority);
	for (uint32_t i = 0; i < c->o.header_count; i++)
		buf_printf(b, "%s: %s\r\n", c->o.headers[i].name, c->o.headers[i].value);
	buf_printf(b, "Content-Length: %zu\r\n\r\n", body.len);
	buf_str(b, body);
}

bool plain_http_begin(struct plain_http *c, struct str target, struct str body, struct err *err)
{
	bool ok;

	assert(!c->began);
	put_request(c, target, body);
	c->deadline_ns = clock_monotonic_ns() + c->o.timeout_ns;
	if (c->fd >= 0 && is_stale(c))
		hang_up(c);
	ok = c->fd >= 0 && send_all(c, err);
	if (!ok && (c->fd < 0 || err->kind == ERR_UNAVAILABLE))
		ok = send_afresh(c, err);
	if (!ok)
		hang_up(c);
	c->began = ok;
	return ok;
}

void plain_http_drop(struct plain_http *c)
{
	if (c->began)
		hang_up(c);
	c->began = false;
}

/* ---- the answer ---- */

struct head {
	int status;
	uint64_t length;
	bool has_length, chunked, closes;
};

/*
 * More of what the peer says; *ended: nothing more comes.
 *
 * A server that writes its answer in small pieces, without TCP_NODELAY (ClickHouse 18 does), sends
 * the second one when the first is acknowledged; the kernel would do that 40 ms later, hoping for
 * data to go along. So it is told to do it at once, each time, for it forgets.
 */
static bool read_more(struct plain_http *c, bool *ended, struct err *err)
{
	int on = 1;

	char *room = buf_reserve(&c->in, READ_BYTES);
	ssize_t n = -1;

	assert(room);
	*ended = false;
	while (n < 0) { /* mostly there is nothing yet: what comes is waited for first */
		if (!wait_for(c, POLLIN, c->deadline_ns, err))
			return false;
		n = recv(c->fd, room, READ_BYTES, 0);
		if (n < 0 && errno == ECONNRESET)
			n = 0;
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, ERR_UNAVAILABLE, "reading: %s", strerror(errno));
	}
	buf_advance(&c->in, (size_t)n);
	*ended = n == 0;
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
	return true;
}

static bool need_more(struct plain_http *c, struct err *err)
{
	bool ended;

	if (c->at == c->in.len) { /* all was taken: its room is free */
		buf_reset(&c->in);
		c->at = 0;
	}
	if (!read_more(c, &ended, err))
		return false;
	return !ended || err_set(err, ERR_UNAVAILABLE, "the connection ended before the answer");
}

static struct str came(const struct plain_http *c)
{
	return str_skip(buf_view(&c->in), c->at);
}

static bool take_field(struct str line, struct head *h)
{
	struct str name;

	if (!str_split(&line, ':', &name))
		return false;
	line = str_trim(line);
	if (str_equal_nocase(name, STR("content-length")))
		return h->has_length = str_to_u64(line, &h->length);
	if (str_equal_nocase(name, STR("transfer-encoding")))
		return h->chunked = str_equal_nocase(line, STR("chunked"));
	if (str_equal_nocase(name, STR("connection")))
		h->closes = str_equal_nocase(line, STR("close")) ||
			    (h->closes && !str_equal_nocase(line, STR("keep-alive")));
	return true;
}

/* "HTTP/1.1 200 OK" and fields; false: it is no HTTP. */
static bool parse_head(struct str text, struct head *out)
{
	struct head h = { 0 };
	struct str line, version;
	uint64_t status;

	if (!str_split(&text, '\n', &line) || !str_split(&line, ' ', &version) ||
	    !str_has_prefix(version, STR("HTTP/1.")) ||
	    !str_to_u64(str_head(line, line.len < 3 ? line.len : 3), &status))
		return false;
	h.status = (int)status;
	h.closes = str_is(version, "HTTP/1.0");
	while (str_split(&text, '\n', &line)) {
		line = str_trim(line);
		if (line.len && !take_field(line, &h))
			return false;
	}
	*out = h;
	return true;
}

static bool read_head(struct plain_http *c, struct head *out, struct err *err)
{
	ptrdiff_t end;

	do {
		while ((end = str_search(came(c), STR("\r\n\r\n"))) < 0) {
			if (came(c).len > HEAD_MOST)
				return err_set(err, ERR_UNAVAILABLE,
					       "the answer's head is longer than %d bytes",
					       HEAD_MOST);
			if (!need_more(c, err))
				return false;
		}
		if (!parse_head(str_head(came(c), (size_t)end + 2), out))
			return err_set(err, ERR_UNAVAILABLE, "the answer is no HTTP/1.1");
		c->at += (size_t)end + 4;
	} while (out->status < 200);
	return true;
}

static bool keep(struct plain_http *c, struct str some, struct buf *answer, struct err *err)
{
	if (answer->len + some.len > c->o.answer_most_bytes)
		return err_set(err, ERR_LIMIT, "the answer is larger than %zu bytes",
			       c->o.answer_most_bytes);
	buf_str(answer, some);
	return true;
}

/* So many bytes of what came or comes are the answer's. */
static bool take_bytes(struct plain_http *c, uint64_t count, struct buf *answer, struct err *err)
{
	while (count) {
		struct str some = came(c);

		if (!some.len && !need_more(c, err))
			return false;
		some = str_head(came(c), count < came(c).len ? (size_t)count : came(c).len);
		if (!keep(c, some, answer, err))
			return false;
		c->at += some.len;
		count -= some.len;
	}
	return true;
}

static bool take_chunks(struct plain_http *c, struct buf *answer, struct err *err)
{
	struct http1_chunked chunks = { 0 };
	enum http1_result rc = HTTP1_MORE;
	const char *why = "";

	while (rc == HTTP1_MORE) {
		struct str in, data;

		if (!came(c).len && !need_more(c, err))
			return false;
		in = came(c);
		rc = http1_chunked_next(&chunks, &in, &data, &why);
		if (rc != HTTP1_OK && rc != HTTP1_MORE)
			return err_set(err, ERR_UNAVAILABLE, "the answer's chunks: %s", why);
		if (!keep(c, data, answer, err))
			return false;
		c->at = c->in.len - in.len;
	}
	return true;
}

static bool take_rest(struct plain_http *c, struct buf *answer, struct err *err)
{
	bool ended = false;

	while (!ended)
		if (!take_bytes(c, came(c).len, answer, err) || !read_more(c, &ended, err))
			return false;
	return true;
}

static bool take_answer(struct plain_http *c, const struct head *h, struct buf *answer,
			struct err *err)
{
	if (h->chunked)
		return take_chunks(c, answer, err);
	if (h->has_length)
		return take_bytes(c, h->length, answer, err);
	return h->status == 204 || h->status == 304 || take_rest(c, answer, err);
}

/* What died before it said anything was dead already. */
static bool read_answer_head(struct plain_http *c, struct head *h, struct err *err)
{
	if (read_head(c, h, err))
		return true;
	return c->used && !c->in.len && err->kind == ERR_UNAVAILABLE &&
	       clock_monotonic_ns() < c->deadline_ns && send_afresh(c, err) && read_head(c, h, err);
}

bool plain_http_end(struct plain_http *c, int *status, struct buf *answer, struct err *err)
{
	struct head h = { 0 };
	bool ok;

	assert(c->began);
	c->began = false;
	buf_reset(answer);
	ok = read_answer_head(c, &h, err) && take_answer(c, &h, answer, err);
	if (ok)
		*status = h.status;
	if (!ok || h.closes || (!h.chunked && !h.has_length))
		hang_up(c);
	c->used = true;
	return ok;
}

/* ---- birth and death ---- */

struct plain_http *plain_http_new(const struct plain_http_options *options, struct err *err)
{
	struct str host = str_cstr(options->url);
	struct plain_http *c = calloc(1, sizeof(*c));
	ptrdiff_t end;

	assert(c);
	c->o = *options;
	c->fd = -1;
	buf_init(&c->request, 0);
	buf_init(&c->in, 0);
	end = str_find(str_skip(host, strlen("http://")), '/');
	if (end >= 0)
		host = str_head(host, strlen("http://") + (size_t)end);
	if (endpoint_parse(host, &c->endpoint, err))
		return c;
	plain_http_free(c);
	return NULL;
}

void plain_http_free(struct plain_http *c)
{
	if (!c)
		return;
	hang_up(c);
	buf_release(&c->request);
	buf_release(&c->in);
	free(c);
}
