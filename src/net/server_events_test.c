#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/server_test.h"

#define GET "GET /events HTTP/1.1\r\nHost: a\r\n\r\n"

struct feed {
	struct server server;
	struct net_events *events; /* of the newest request */
	sem_t opened;
};

static void open_events(struct net_request *r, struct blob *body, void *ctx)
{
	struct net_header type = { "content-type", STR("text/event-stream") };
	struct feed *f = ctx;

	blob_unref(body);
	f->events = net_reply_events(r, &type, 1);
	sem_post(&f->opened);
}

static void start(struct feed *f)
{
	struct net_app_options options = { .max_body_bytes = 1000 };

	memset(f, 0, sizeof(*f));
	sem_init(&f->opened, 0, 0);
	server_init(&f->server, options, 0);
	net_app_route(f->server.app, "GET", "/events", NULL,
		      (struct net_handler){ open_events, f });
	net_app_route(f->server.app, "POST", "/echo", NULL, (struct net_handler){ echo, NULL });
	server_listen(&f->server, NULL);
}

static int ask(struct feed *f)
{
	int fd = peer_connect(&f->server);

	assert_true(peer_send(fd, STR(GET)));
	sem_wait(&f->opened);
	return fd;
}

/* What comes until `end` has come. */
static void read_until(int fd, struct buf *got, const char *end)
{
	while (str_search(buf_view(got), str_cstr(end)) < 0) {
		char piece[512];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);

		if (n <= 0)
			fail_msg("ended before \"%s\": %.*s", end, (int)got->len, got->ptr);
		buf_append(got, piece, (size_t)n);
	}
}

/* The connection serves the next request: the answer before it was framed right. */
static void assert_goes_on(int fd, struct buf *got)
{
	assert_true(peer_send(
		fd, STR("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")));
	read_until(fd, got, "content-length: 3\r\n\r\nabc");
}

static void test_pieces_come_as_sent(void **state)
{
	AUTO(buf_release) struct buf got = { 0 };
	struct feed f;
	int fd;

	(void)state;
	start(&f);
	fd = ask(&f);
	read_until(fd, &got, "\r\n\r\n");
	assert_true(str_search(buf_view(&got), STR("transfer-encoding: chunked")) > 0);
	assert_true(str_search(buf_view(&got), STR("content-length")) < 0);
	assert_true(net_events_send(f.events, STR("data: one\n\n")));
	read_until(fd, &got, "b\r\ndata: one\n\n\r\n");
	assert_true(net_events_send(f.events, STR("data: two!\n\n")));
	read_until(fd, &got, "c\r\ndata: two!\n\n\r\n");
	net_events_close(f.events);
	read_until(fd, &got, "0\r\n\r\n");

	assert_goes_on(fd, &got);
	close(fd);
	server_stop(&f.server);
}

/* Before its head went out it is an ordinary answer, after that the last chunk. */
static void test_closed_at_once(void **state)
{
	AUTO(buf_release) struct buf got = { 0 };
	struct feed f;
	int fd;

	(void)state;
	start(&f);
	fd = ask(&f);
	assert_true(net_events_send(f.events, STR("data: last\n\n")));
	net_events_close(f.events);
	read_until(fd, &got, "data: last\n\n");
	assert_goes_on(fd, &got);
	close(fd);
	server_stop(&f.server);
}

static void test_client_gone(void **state)
{
	struct feed f;
	uint64_t end;
	int fd;

	(void)state;
	start(&f);
	fd = ask(&f);
	close(fd);
	end = clock_monotonic_ns() + PEER_WAIT_S * SECOND_NS;
	while (net_events_send(f.events, STR("data: x\n\n")))
		assert_true(clock_monotonic_ns() < end);
	net_events_close(f.events);
	server_stop(&f.server);
}

/* A peer that reads nothing gets the latest state once it reads again, without another text that
 * would push it out, and costs no memory. */
static void test_slow_client(void **state)
{
	AUTO(buf_release) struct buf got = { 0 }, text = { 0 };
	struct feed f;
	int fd;

	(void)state;
	start(&f);
	fd = ask(&f);
	for (int i = 0; i < 20000; i++) {
		buf_reset(&text);
		buf_printf(&text, "data: %d %01000d\n\n", i, 0);
		assert_true(net_events_send(f.events, buf_view(&text)));
	}
	read_until(fd, &got, "data: 19999 ");
	net_events_close(f.events);
	read_until(fd, &got, "\r\n0\r\n\r\n");
	close(fd);
	server_stop(&f.server);
}

/* HTTP/1.0 knows no chunks (RFC 9112, 6.1): the text as it is, in many pieces, up to the end. */
static void test_older_client(void **state)
{
	AUTO(buf_release) struct buf got = { 0 };
	struct feed f;
	ssize_t n;
	char piece[64];
	int fd;

	(void)state;
	start(&f);
	fd = peer_connect(&f.server);
	assert_true(peer_send(fd, STR("GET /events HTTP/1.0\r\nHost: a\r\n"
				      "Connection: keep-alive\r\n\r\n")));
	sem_wait(&f.opened);
	read_until(fd, &got, "connection: close\r\n\r\n");
	assert_true(str_search(buf_view(&got), STR("transfer-encoding")) < 0);
	buf_reset(&got);
	assert_true(net_events_send(f.events, STR("data: one\n\n")));
	read_until(fd, &got, "data: one\n\n");
	assert_true(net_events_send(f.events, STR("data: two!\n\n")));
	read_until(fd, &got, "data: two!\n\n");
	net_events_close(f.events);
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		buf_append(&got, piece, (size_t)n);
	assert_int_equal(n, 0);
	assert_true(str_equal(buf_view(&got), STR("data: one\n\ndata: two!\n\n")));
	close(fd);
	server_stop(&f.server);
}

/* What is appended comes whole and in order, or is refused once too much waits. */
static void test_appended_text_is_whole_or_refused(void **state)
{
	enum { MOST = 64 * 1024 };
	AUTO(buf_release) struct buf got = { 0 }, text = { 0 };
	enum net_events_fate fate = NET_EVENTS_SENT;
	const char *at, *next;
	struct feed f;
	int fd, sent = 0;

	(void)state;
	start(&f);
	fd = peer_connect(&f.server);
	assert_true(peer_send(fd, STR("GET /events HTTP/1.0\r\nHost: a\r\n\r\n")));
	sem_wait(&f.opened);
	for (; fate == NET_EVENTS_SENT && sent < 100000; sent++) {
		buf_reset(&text);
		buf_printf(&text, "data: %d %01000d\n\n", sent, 0);
		fate = net_events_append(f.events, buf_view(&text), MOST);
	}
	assert_int_equal(fate, NET_EVENTS_FULL); /* the peer reads nothing */
	assert_true(net_events_send(f.events, STR("data: latest\n\n")));
	assert_int_equal(net_events_append(f.events, STR("data: after\n\n"), MOST),
			 NET_EVENTS_SENT);
	read_until(fd, &got, "data: latest\n\ndata: after\n\n");
	net_events_close(f.events);
	buf_char(&got, '\0');
	at = strstr(got.ptr, "data: ");
	for (int i = 0; at && strncmp(at, "data: latest", 12) != 0; i++, at = next) {
		assert_int_equal(atoi(at + 6), i);
		next = strstr(at + 6, "data: ");
		assert_non_null(next);
		assert_int_equal(next - at, snprintf(NULL, 0, "data: %d ", i) + 1000 + 2);
	}
	assert_non_null(at);
	close(fd);
	server_stop(&f.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_come_as_sent),
		cmocka_unit_test(test_closed_at_once),
		cmocka_unit_test(test_client_gone),
		cmocka_unit_test(test_slow_client),
		cmocka_unit_test(test_older_client),
		cmocka_unit_test(test_appended_text_is_whole_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
