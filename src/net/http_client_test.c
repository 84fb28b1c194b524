#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <libdeflate.h>
#include <semaphore.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/client.h"
#include "support/http_peer.h"

enum { WAIT_S = 60 }; /* none of what is tested takes that long */

struct waiter {
	struct client_call call;
	sem_t done;
	struct client_result result; /* without what it borrows */
	char message[512], body[512], details[512];
	size_t body_len;
	unsigned times;
};

static void waiter_done(struct client_call *call, const struct client_result *r)
{
	struct waiter *w = CONTAINER_OF(call, struct waiter, call);

	w->result = *r;
	w->times++;
	w->body_len = r->body.len;
	snprintf(w->message, sizeof(w->message), "%.*s", STR_ARG(r->message));
	snprintf(w->body, sizeof(w->body), "%.*s", STR_ARG(r->body));
	snprintf(w->details, sizeof(w->details), "%.*s", STR_ARG(r->details));
	sem_post(&w->done);
}

static void waiter_wait(struct waiter *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	if (sem_timedwait(&w->done, &until) != 0)
		fail_msg("no answer within %d s", WAIT_S);
	assert_int_equal(w->times, 1);
}

static void post_start(struct http_client *c, struct waiter *w, const char *url, const char *text,
		       uint64_t timeout_ns)
{
	struct blob *body = blob_copy(str_cstr(text));

	*w = (struct waiter){ .call.done = waiter_done };
	sem_init(&w->done, 0, 0);
	http_client_call(c, "POST", url, "application/x-protobuf", body, timeout_ns, &w->call);
	blob_unref(body);
}

struct bench {
	struct http_peer peer;
	struct http_client *client;
	char url[128];
};

static void bench_start(struct bench *b, bool (*answer)(struct http_peer_request *, void *),
			const struct http_client_options *o)
{
	struct err err = { 0 };

	b->peer.answer = answer;
	http_peer_start(&b->peer);
	snprintf(b->url, sizeof(b->url), "http://127.0.0.1:%u/v1development/profiles",
		 b->peer.port);
	b->client = http_client_new(o, &err);
	if (!b->client)
		fail_msg("%s", err.msg);
}

static void bench_post(struct bench *b, struct waiter *w, const char *text)
{
	post_start(b->client, w, b->url, text, WAIT_S * SECOND_NS);
	waiter_wait(w);
}

static void bench_stop(struct bench *b)
{
	http_client_free(b->client);
	http_peer_stop(&b->peer);
}

static bool answer_head(struct http_peer_request *r, void *ctx)
{
	(void)ctx;
	return http_peer_reply(r, 200, "", r->head, strlen(r->head));
}

static void test_request(void **state)
{
	static const struct client_header headers[] = { { "Authorization", "Bearer x" },
							{ "X-Empty", "" } };
	static const char *const want[] = {
		"POST /v1development/profiles HTTP/1.1\r\n",
		"Content-Type: application/x-protobuf\r\n",
		"Content-Length: 5\r\n",
		"User-Agent: flametap/" FLAMETAP_VERSION "\r\n",
		"Authorization: Bearer x\r\n",
		"X-Empty:",
	};
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_head,
		    &(struct http_client_options){ .headers = headers, .header_count = 2 });
	bench_post(&b, &w, "hello");
	assert_true(w.result.ok);
	assert_int_equal(w.result.http_status, 200);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!strstr(w.body, want[i]))
			fail_msg("no %s in:\n%s", want[i], w.body);
	assert_null(strcasestr(w.body, "expect:"));
	for (int i = 0; i < 5; i++)
		bench_post(&b, &w, "again");
	assert_int_equal(b.peer.connections, 1); /* kept alive */
	bench_stop(&b);
}

static bool answer_gunzip(struct http_peer_request *r, void *ctx)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	char out[1024];
	size_t len = 0;
	bool ok = strstr(r->head, "Content-Encoding: gzip\r\n") &&
		  libdeflate_gzip_decompress(d, r->body, r->len, out, sizeof(out), &len) ==
			  LIBDEFLATE_SUCCESS;

	(void)ctx;
	libdeflate_free_decompressor(d);
	return http_peer_reply(r, ok ? 200 : 400, "", out, len);
}

static void test_gzip(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_gunzip,
		    &(struct http_client_options){ .compression = COMPRESSION_GZIP });
	bench_post(&b, &w, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	assert_true(w.result.ok);
	assert_string_equal(w.body, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	bench_stop(&b);
}

/* What a peer may answer, and what comes of it. */
static const struct {
	int status;
	const char *headers, *body;
	bool ok;
	uint64_t retry_s;
} answers[] = {
	{ 200, "", "", true, 0 },
	{ 202, "", "x", true, 0 },
	{ 400, "", "bad", false, 0 },
	{ 429, "Retry-After: 7\r\n", "slow down", false, 7 },
	{ 503, "Retry-After: 120\r\n", "", false, 120 },
	{ 503, "Retry-After: soon\r\n", "", false, 0 },
	{ 503, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "", false, 0 }, /* long past */
	{ 302, "Location: http://127.0.0.1:1/\r\n", "", false, 0 },
	{ 413, "", "too large", false, 0 },
};

static bool answer_table(struct http_peer_request *r, void *ctx)
{
	unsigned i = r->ordinal;

	(void)ctx;
	return http_peer_reply(r, answers[i].status, answers[i].headers, answers[i].body,
			       strlen(answers[i].body));
}

static void test_answers(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_table, &(struct http_client_options){ 0 });
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		char want[64];

		bench_post(&b, &w, "x");
		if (w.result.ok != answers[i].ok || w.result.http_status != answers[i].status ||
		    w.result.retry_after_ns != answers[i].retry_s * SECOND_NS)
			fail_msg("answer %zu: ok %d, status %d, retry %llu", i, w.result.ok,
				 w.result.http_status, (unsigned long long)w.result.retry_after_ns);
		assert_true(w.result.sent);
		assert_string_equal(answers[i].ok ? w.body : w.details, answers[i].body);
		snprintf(want, sizeof(want), "HTTP status %d", answers[i].status);
		assert_string_equal(w.message, answers[i].ok ? "" : want);
	}
	bench_stop(&b);
}

/* A date is turned into the time until then. */
static bool answer_date(struct http_peer_request *r, void *ctx)
{
	time_t then = time(NULL) + 100;
	struct tm tm;
	char header[128];

	(void)ctx;
	gmtime_r(&then, &tm);
	strftime(header, sizeof(header), "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
	return http_peer_reply(r, 503, header, "", 0);
}

static void test_retry_after_date(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_date, &(struct http_client_options){ 0 });
	bench_post(&b, &w, "x");
	assert_in_range(w.result.retry_after_ns, 60 * SECOND_NS, 100 * SECOND_NS);
	bench_stop(&b);
}

static bool answer_endless(struct http_peer_request *r, void *ctx)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	char junk[4096];

	(void)ctx;
	memset(junk, 'x', sizeof(junk));
	http_peer_write(r, head, sizeof(head) - 1);
	for (int i = 0; i < 10000; i++)
		http_peer_write(r, junk, sizeof(junk)); /* ends early once the client hangs up */
	return false;
}

static void test_response_is_bounded(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_endless,
		    &(struct http_client_options){ .max_response_bytes = 10000 });
	bench_post(&b, &w, "x");
	assert_true(w.result.ok);
	assert_int_equal(w.body_len, 10000);
	bench_stop(&b);
}

static bool answer_cut(struct http_peer_request *r, void *ctx)
{
	(void)ctx;
	if (r->ordinal == 0)
		return false;
	return http_peer_reply(r, 200, "", "ok", 2);
}

static void test_connection_cut(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_cut, &(struct http_client_options){ 0 });
	bench_post(&b, &w, "x");
	assert_false(w.result.ok);
	assert_int_equal(w.result.http_status, 0);
	assert_true(w.result.sent);
	assert_true(w.message[0] != 0);
	bench_post(&b, &w, "x");
	assert_true(w.result.ok);
	bench_stop(&b);
}

/* The first and the third request are answered; the peer dies with the second, which it has read,
 * on the connection of the first. */
struct dying {
	atomic_size_t bytes;
	atomic_int fd; /* of the first request */
	atomic_bool used_again;
};

static bool answer_odd(struct http_peer_request *r, void *ctx)
{
	struct dying *d = ctx;

	d->bytes += r->len;
	if (r->ordinal == 0)
		d->fd = r->fd;
	if (r->ordinal == 1) {
		d->used_again = d->fd == r->fd;
		return false;
	}
	return http_peer_reply(r, 200, "", "ok", 2);
}

/* Nobody but the caller repeats a request that the peer may have seen. */
static void test_no_request_is_repeated(void **state)
{
	static const size_t sizes[] = { 1, 5000, 3 << 20 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		char *text = malloc(sizes[i] + 1);
		struct dying d = { 0 };
		struct bench b = { .peer.ctx = &d };
		struct waiter w;

		assert_non_null(text);
		memset(text, 'x', sizes[i]);
		text[sizes[i]] = 0;
		bench_start(&b, answer_odd, &(struct http_client_options){ 0 });
		bench_post(&b, &w, text);
		assert_true(w.result.ok);
		bench_post(&b, &w, text);
		assert_false(w.result.ok);
		assert_true(w.result.sent);
		assert_int_equal(w.result.http_status, 0);
		assert_string_equal(w.message, "the connection ended before the answer");
		assert_int_equal(b.peer.requests, 2);
		assert_true(d.used_again);
		bench_post(&b, &w, text);
		assert_true(w.result.ok);
		assert_int_equal(b.peer.requests, 3);
		assert_int_equal(d.bytes, 3 * sizes[i]);
		bench_stop(&b);
		free(text);
	}
}

static bool answer_never(struct http_peer_request *r, void *ctx)
{
	char byte;

	(void)ctx;
	while (recv(r->fd, &byte, 1, 0) > 0)
		;
	return false;
}

static void test_timeout(void **state)
{
	uint64_t timeout_ns = 25 * MILLI_NS;
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, answer_never, &(struct http_client_options){ 0 });
	do { /* a slow machine has not even sent it by then */
		timeout_ns *= 2;
		post_start(b.client, &w, b.url, "x", timeout_ns);
		waiter_wait(&w);
		assert_false(w.result.ok);
		assert_int_equal(w.result.http_status, 0);
	} while (!w.result.sent && timeout_ns < WAIT_S * SECOND_NS);
	assert_true(w.result.sent);
	bench_stop(&b);
}

static void test_never_sent(void **state)
{
	static const struct {
		const char *url;
		const char *text; /* in the message */
	} cases[] = {
		{ "http://127.0.0.1:%u/", "Failed to connect" },
		{ "http://no..such..host:%u/", "resolve" },
		{ "ftp://127.0.0.1:%u/", "ftp" },
		{ "http://[::1:%u/", "URL" },
	};
	uint16_t port = 0;
	int fd = h2_peer_socket(&port, false);
	struct err err;
	struct http_client *c = http_client_new(&(struct http_client_options){ 0 }, &err);

	(void)state;
	assert_non_null(c);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct waiter w;
		char url[128], *at;

		snprintf(url, sizeof(url), "%s", cases[i].url);
		at = strstr(url, "%u");
		snprintf(at, (size_t)(url + sizeof(url) - at), "%u/",
			 port); /* the rest of the path is no matter */
		post_start(c, &w, url, "x", WAIT_S * SECOND_NS);
		waiter_wait(&w);
		assert_false(w.result.ok);
		assert_false(w.result.sent);
		if (!strcasestr(w.message, cases[i].text))
			fail_msg("%s: %s", url, w.message);
	}
	http_client_free(c);
	close(fd);
}

static void test_bad_options(void **state)
{
	static const struct {
		struct http_client_options o;
		struct client_header header;
		const char *text;
	} cases[] = {
		{ { .header_count = 1 }, { "Content-Length", "5" }, "belongs to the protocol" },
		{ { .header_count = 1 }, { "a b", "5" }, "character" },
		{ { .header_count = 1 }, { "a", "s3cret\r\nX: y" }, "control character" },
		{ { .header_count = 1 }, { "", "5" }, "no name" },
		{ { .tls.min_version = "1.0" }, { 0 }, "1.2 and 1.3" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_client_options o = cases[i].o;
		struct err err = { 0 };

		o.headers = &cases[i].header;
		assert_null(http_client_new(&o, &err));
		assert_int_equal(err.kind, ERR_INVALID);
		if (!strstr(err.msg, cases[i].text) || strstr(err.msg, "s3cret"))
			fail_msg("case %zu: %s", i, err.msg);
	}
}

static void test_free_with_calls(void **state)
{
	enum { CALLS = 20 };
	struct bench b = { 0 };
	struct waiter w[CALLS];

	(void)state;
	bench_start(&b, answer_never, &(struct http_client_options){ .max_connections = 3 });
	for (int i = 0; i < CALLS; i++)
		post_start(b.client, &w[i], b.url, "x", 0);
	http_client_free(b.client);
	b.client = NULL;
	for (int i = 0; i < CALLS; i++) {
		waiter_wait(&w[i]);
		assert_false(w[i].result.ok);
		assert_string_equal(w[i].message, "the client is closed");
	}
	bench_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_retry_after_date),
		cmocka_unit_test(test_response_is_bounded),
		cmocka_unit_test(test_connection_cut),
		cmocka_unit_test(test_no_request_is_repeated),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_never_sent),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_free_with_calls),
	};

	setenv("no_proxy", "*", 1); /* the peers are here, whatever this machine's way out is */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
