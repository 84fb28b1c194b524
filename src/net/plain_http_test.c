#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/plain_http.h"

/* A server that says to each request what stands next, on the connection it came by; a say that
 * begins with '!' ends the connection after it, "!" alone without a word. */
struct peer {
	int fd;
	const char *const *says;
	bool by_bytes; /* each in a segment of its own */
	pthread_t thread;
	unsigned connections;
	char asked[4096]; /* the last request */
	char url[64];
};

static void say(const struct peer *p, int fd, const char *text)
{
	size_t len = strlen(text), step = p->by_bytes ? 1 : len;

	for (size_t i = 0; i < len; i += step)
		assert_int_equal(send(fd, text + i, step, MSG_NOSIGNAL), (ssize_t)step);
}

/* Heads without a body, and the five bytes of the tests' questions. */
static bool hear(struct peer *p, int fd)
{
	size_t len = 0;

	for (;;) {
		ssize_t n = recv(fd, p->asked + len, sizeof(p->asked) - 1 - len, 0);
		char *end;

		if (n <= 0)
			return false;
		len += (size_t)n;
		p->asked[len] = 0;
		end = strstr(p->asked, "\r\n\r\n");
		if (end && strlen(end) == 4 + 5)
			return true;
	}
}

static void *serve(void *arg)
{
	struct peer *p = arg;
	const char *const *next = p->says;

	while (*next) {
		int fd = accept(p->fd, NULL, NULL);
		bool more = fd >= 0;

		if (fd < 0)
			break;
		p->connections++;
		while (more && *next && hear(p, fd)) {
			const char *text = *next++;

			more = *text != '!';
			say(p, fd, text + !more);
		}
		if (!more || *next) {
			close(fd);
			continue;
		}
		(void)recv(fd, p->asked + sizeof(p->asked) - 1, 1, 0); /* until it hangs up */
		close(fd);
	}
	return NULL;
}

static void peer_start(struct peer *p, const char *const *says, bool by_bytes)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	*p = (struct peer){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
			    .says = says,
			    .by_bytes = by_bytes };
	assert_int_equal(bind(p->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(p->fd, 4), 0);
	assert_int_equal(getsockname(p->fd, (struct sockaddr *)&a, &len), 0);
	snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%u/", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
}

static void peer_end(struct peer *p)
{
	shutdown(p->fd, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->fd);
}

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

static struct plain_http *client_of(const char *url, bool (*stopped)(const void *), const void *arg)
{
	static const struct client_header headers[] = { { "X-Who", "me" } };
	struct plain_http_options o = {
		.url = url,
		.headers = headers,
		.header_count = 1,
		.connect_timeout_ns = 30 * SECOND_NS,
		.timeout_ns = 60 * SECOND_NS,
		.answer_most_bytes = 20,
		.stopped = stopped,
		.arg = arg,
	};
	struct err err;
	struct plain_http *c = plain_http_new(&o, &err);

	assert_non_null(c);
	return c;
}

static bool ask(struct plain_http *c, int *status, struct buf *answer, struct err *err)
{
	return plain_http_begin(c, STR("/?a=b"), STR("12345"), err) &&
	       plain_http_end(c, status, answer, err);
}

#define LENGTH(n, body) "HTTP/1.1 200 OK\r\ncontent-length:" #n "\r\n\r\n" body
#define CHUNKS          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static const struct {
	const char *says[2];
	int status; /* 0: it fails so */
	const char *body;
	enum err_kind kind;
} cases[] = {
	{ { LENGTH(5, "hello") }, 200, "hello", 0 },
	{ { LENGTH(0, "") }, 200, "", 0 },
	{ { CHUNKS "5\r\nhello\r\n00A;x=y\r\n, and more\r\n0\r\n\r\n" },
	  200,
	  "hello, and more",
	  0 },
	{ { CHUNKS "0\r\nTrailer: x\r\nOther: y\r\n\r\n" }, 200, "", 0 },
	{ { "HTTP/1.1 100 Continue\r\n\r\n" LENGTH(2, "ok") }, 200, "ok", 0 },
	{ { "HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nwhy" }, 500, "why", 0 },
	{ { "HTTP/1.1 204 Nothing\r\n\r\n" }, 204, "", 0 },
	{ { "!HTTP/1.0 200 OK\r\n\r\nall of it" }, 200, "all of it", 0 },
	{ { "!HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" },
	  200,
	  "ok",
	  0 },
	{ { "!" LENGTH(5, "hell") }, 0, "", ERR_UNAVAILABLE },
	{ { "!" CHUNKS "5\r\nhello\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" CHUNKS "5\r\nhello!\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" CHUNKS "many\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" CHUNKS "ffffffffffffffffffff\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" CHUNKS "fffffff\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!SSH-2.0-x\r\n\r\n" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" }, 0, "", ERR_UNAVAILABLE },
	{ { "!" LENGTH(21, "123456789012345678901") }, 0, "", ERR_LIMIT },
	{ { "!" CHUNKS "14\r\n12345678901234567890\r\n1\r\n1\r\n0\r\n\r\n" }, 0, "", ERR_LIMIT },
};

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		size_t at = i / 2;
		struct plain_http *c;
		struct buf answer;
		struct peer peer;
		struct err err = { 0 };
		int status = 0;
		bool ok;

		print_message("%s\n", cases[at].says[0]);
		peer_start(&peer, cases[at].says, i % 2);
		c = client_of(peer.url, never, NULL);
		buf_init(&answer, 0);
		ok = ask(c, &status, &answer, &err);
		assert_int_equal(ok, cases[at].status != 0);
		assert_int_equal(status, cases[at].status);
		if (ok)
			assert_true(str_is(buf_view(&answer), cases[at].body));
		else
			assert_int_equal(err.kind, cases[at].kind);
		plain_http_free(c);
		peer_end(&peer);
		assert_string_equal(peer.asked + strlen(peer.asked) - 5, "12345");
		assert_non_null(strstr(peer.asked, "POST /?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
		assert_non_null(strstr(peer.asked, "\r\nX-Who: me\r\n"));
		assert_non_null(strstr(peer.asked, "\r\nContent-Length: 5\r\n"));
		buf_release(&answer);
	}
}

static void test_a_connection_is_kept(void **state)
{
	/* The second one is ended behind the first call of it, and what is asked then comes again.
	 */
	static const char *const says[] = { LENGTH(1, "1"),
					    LENGTH(1, "2"),
					    "!" LENGTH(1, "3"),
					    LENGTH(1, "4"),
					    "!",
					    LENGTH(1, "5"),
					    NULL };
	struct plain_http *c;
	struct buf answer;
	struct peer peer;
	struct err err;
	int status;

	(void)state;
	peer_start(&peer, says, false);
	c = client_of(peer.url, never, NULL);
	buf_init(&answer, 0);
	for (char i = '1'; i <= '5'; i++) {
		assert_true(ask(c, &status, &answer, &err));
		assert_int_equal(answer.ptr[0], i);
	}
	plain_http_free(c);
	peer_end(&peer);
	assert_int_equal(peer.connections, 3);
	buf_release(&answer);
}

static void test_dropped(void **state)
{
	static const char *const says[] = { LENGTH(1, "1"), LENGTH(1, "2"), NULL };
	struct plain_http *c;
	struct buf answer;
	struct peer peer;
	struct err err;
	int status;

	(void)state;
	peer_start(&peer, says, false);
	c = client_of(peer.url, never, NULL);
	buf_init(&answer, 0);
	assert_true(plain_http_begin(c, STR("/?a=b"), STR("12345"), &err));
	plain_http_drop(c);
	plain_http_drop(c);
	assert_true(ask(c, &status, &answer, &err)); /* on another connection */
	plain_http_free(c);
	peer_end(&peer);
	buf_release(&answer);
}

static bool when_set(const void *arg)
{
	return *(const bool *)arg;
}

static void test_stopped_and_nobody(void **state)
{
	static const char *const says[] = { NULL };
	struct plain_http *c;
	struct buf answer;
	struct peer peer;
	struct err err;
	bool stop = true;
	int status;

	(void)state;
	peer_start(&peer, says, false); /* its listener takes connections that nobody serves */
	c = client_of(peer.url, when_set, &stop);
	buf_init(&answer, 0);
	assert_false(ask(c, &status, &answer, &err));
	assert_int_equal(err.kind, ERR_CANCELLED);
	stop = false;
	peer_end(&peer);
	assert_false(ask(c, &status, &answer, &err));
	assert_int_equal(err.kind, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "connecting to 127.0.0.1:"));
	plain_http_free(c);
	buf_release(&answer);
}

static void test_what_it_can(void **state)
{
	(void)state;
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	assert_true(plain_http_can("http://127.0.0.1:8123/"));
	assert_false(plain_http_can("https://127.0.0.1:8123/"));
	setenv("http_proxy", "http://proxy:3128", 1);
	assert_false(plain_http_can("http://127.0.0.1:8123/"));
	unsetenv("http_proxy");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),     cmocka_unit_test(test_a_connection_is_kept),
		cmocka_unit_test(test_dropped),     cmocka_unit_test(test_stopped_and_nobody),
		cmocka_unit_test(test_what_it_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
