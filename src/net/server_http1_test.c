#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/resource.h>

#include "net/server_test.h"
#include "net/compress.h"

#define HOST "Host: a\r\n"
enum { BODY_LIMIT = 1000, BIG = 100000 };

static void big(struct net_request *r, struct blob *body, void *ctx)
{
	struct buf text;

	(void)ctx;
	buf_init(&text, 0);
	while (text.len < BIG)
		buf_lit(&text, "a line of a flame graph\n");
	net_reply_http(r, 200, NULL, 0, str_head(buf_view(&text), BIG));
	buf_release(&text);
	blob_unref(body);
}

/* The request as text, for what the accessors give. */
static void describe(struct net_request *r, struct blob *body, void *ctx)
{
	struct buf text;

	(void)ctx;
	buf_init(&text, 0);
	buf_printf(&text, "%.*s|%.*s|%.*s|%.*s|%.*s|%.*s", STR_ARG(net_request_method(r)),
		   STR_ARG(net_request_path(r)), STR_ARG(net_request_query(r)),
		   STR_ARG(net_request_header(r, "x-test")), STR_ARG(net_request_header(r, "host")),
		   STR_ARG(blob_view(body)));
	assert_int_equal(net_request_transport(r), NET_HTTP1);
	net_reply_http(r, 200, NULL, 0, buf_view(&text));
	buf_release(&text);
	blob_unref(body);
}

static void misdirected(struct net_request *r, struct blob *body, void *ctx)
{
	(void)ctx;
	net_reply_http(r, 421, NULL, 0, STR(""));
	blob_unref(body);
}

static void start(struct server *s, struct net_app_options options, size_t budget_bytes)
{
	if (!options.max_body_bytes)
		options.max_body_bytes = BODY_LIMIT;
	server_init(s, options, budget_bytes);
	net_app_route(s->app, "POST", "/echo", NULL, (struct net_handler){ echo, NULL });
	net_app_route(s->app, "POST", "/typed", "application/json, application/x-protobuf",
		      (struct net_handler){ echo, NULL });
	net_app_route(s->app, "GET", "/big", NULL, (struct net_handler){ big, NULL });
	net_app_route(s->app, "POST", "/keep", NULL, (struct net_handler){ keep, s });
	net_app_route(s->app, NULL, "/any/", NULL, (struct net_handler){ describe, NULL });
	net_app_route(s->app, "GET", "/any/exact", NULL, (struct net_handler){ big, NULL });
	net_app_route(s->app, "GET", "/status", NULL, (struct net_handler){ misdirected, NULL });
	for (size_t i = 0; i < 3; i++) /* one twice */
		net_app_route(s->app, i < 2 ? "GET" : "POST", "/several/",
			      i == 1 ? "text/plain" : NULL, (struct net_handler){ echo, NULL });
	net_app_route(s->app, "PUT", "/several/exact", NULL, (struct net_handler){ echo, NULL });
	server_listen(s, NULL);
}

static const struct {
	const char *request;
	const char *want;   /* how the answer begins */
	const char *also;   /* what it has somewhere */
	const char *reason; /* of the counter; NULL = not refused */
	bool closes;
} cases[] = {
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\n",
	  "content-length: 3\r\n\r\nabc", NULL, false },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n",
	  "content-length: 0\r\n\r\n", NULL, false },
	{ "POST /echo HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "content-length: 0\r\n",
	  NULL, false },
	{ "POST /echo HTTP/1.1\r\n" HOST
	  "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\nA: b\r\n\r\n",
	  "HTTP/1.1 200 OK\r\n", "\r\n\r\nabc", NULL, false },
	{ "POST /echo HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\n",
	  "connection: close\r\n", NULL, true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 1\r\n\r\na",
	  "HTTP/1.1 200 OK\r\n", "connection: close\r\n", NULL, true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
	  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "\r\n\r\nabc", NULL, false },
	{ "POST /echo HTTP/1.1\r\n" HOST "Expect: 200-ok\r\nContent-Length: 3\r\n\r\nabc",
	  "HTTP/1.1 417 ", "", "expectation", true },
	{ "PUT /any/x?y=1 HTTP/1.1\r\n" HOST "X-Test:  v \r\nContent-Length: 1\r\n\r\nz",
	  "HTTP/1.1 200 OK\r\n", "PUT|/any/x|y=1|v|a|z", NULL, false },
	{ "GET http://a/any/x HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "GET|/any/x|||a|",
	  NULL, false },
	{ "GET HTTP://b:1/any/x?q HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	  "GET|/any/x|q||b:1|", NULL, false }, /* not Host */
	{ "GET http://b?/any/ HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "", "not_found", false },
	{ "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
	  "HTTP/1.1 200 OK\r\n", "connection: keep-alive\r\n\r\nabc", NULL, false },
	{ "GET /status HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 421 Misdirected Request\r\n", "", NULL,
	  false },
	{ "PATCH /several/x HTTP/1.1\r\n" HOST "\r\n",
	  "HTTP/1.1 405 Method Not Allowed\r\nallow: GET, HEAD, POST\r\n",
	  "supported: [GET, HEAD, POST]", "method", false },
	{ "POST /several/exact HTTP/1.1\r\n" HOST "\r\n",
	  "HTTP/1.1 405 Method Not Allowed\r\nallow: PUT\r\n", "", "method", false },
	{ "HEAD /big HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "content-length: 100000\r\n",
	  NULL, false },
	{ "POST /typed HTTP/1.1\r\n" HOST
	  "Content-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 200 OK\r\n", "{}", NULL, false },
	{ "GET /nothing HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 Not Found\r\n",
	  "404 page not found", "not_found", false },
	{ "GET /echo HTTP/1.1\r\n" HOST "\r\n",
	  "HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\n",
	  "405 method not allowed, supported: [POST]", "method", false },
	{ "POST /typed HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 415 ",
	  "415 unsupported media type, supported: [application/json, application/x-protobuf]",
	  "media_type", true },
	{ "POST /typed HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}", "HTTP/1.1 415 ", "",
	  "media_type", true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 415 ", "unsupported Content-Encoding: br", "encoding", true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
	  "12345678901234567890",
	  "HTTP/1.1 400 ", "bad gzip data", "bad_compression", false },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", "HTTP/1.1 413 ",
	  "request body of 1001 bytes is larger than the limit of 1000 bytes", "too_large", true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
	  "HTTP/1.1 413 ", "", "too_large", true }, /* before the body is sent */
	{ "POST /echo HTTP/1.1\r\n" HOST
	  "Content-Type: application/grpc\r\nContent-Length: 0\r\n\r\n",
	  "HTTP/1.1 505 ", "gRPC requires HTTP/2", "http_version", false },
	{ "GET / HTTP/3.0\r\n" HOST "\r\n", "HTTP/1.1 505 ", "", "http_version", true },
	{ "nonsense\r\n\r\n", "HTTP/1.1 400 ", "malformed request line", "bad_request", true },
	{ "POST /echo HTTP/1.1\r\n" HOST
	  "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	  "HTTP/1.1 400 ", "both Transfer-Encoding and Content-Length", "bad_request", true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	  "HTTP/1.1 400 ", "malformed chunk size", "bad_request", true },
	{ "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 ", "",
	  "encoding", true },
	{ "PRI * HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "", "not_found", false },
};

/* Each row whole and byte by byte, and after it a good request where the connection stays. */
static void run_case(struct server *s, size_t i, bool in_bytes)
{
	static const char good[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nlast";
	struct str request = str_cstr(cases[i].request);
	long long before = cases[i].reason ? refused(s, cases[i].reason) : 0;
	int fd = peer_connect(s), on = 1;
	struct buf got;
	bool ok;

	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	buf_init(&got, 0);
	for (size_t at = 0; in_bytes && at < request.len; at++)
		if (!peer_send(fd, str_head(str_skip(request, at), 1)))
			break;
	if (!in_bytes)
		peer_send(fd, request);
	if (!cases[i].closes)
		peer_send(fd, str_cstr(good));
	ok = cases[i].closes ? peer_read(fd, &got, NULL, 0)
			     : peer_read(fd, &got, "\r\n\r\nlast", 1);
	if (!ok || !str_has_prefix(buf_view(&got), str_cstr(cases[i].want)) ||
	    str_search(buf_view(&got), str_cstr(cases[i].also)) < 0)
		fail_msg("row %zu, %s: %.*s", i, in_bytes ? "in bytes" : "whole",
			 STR_ARG(str_head(buf_view(&got), 400)));
	if (cases[i].reason && refused(s, cases[i].reason) != before + 1)
		fail_msg("row %zu: %s is %lld, was %lld", i, cases[i].reason,
			 refused(s, cases[i].reason), before);
	buf_release(&got);
	close(fd);
}

static void test_cases(void **state)
{
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		run_case(&s, i, false);
		run_case(&s, i, true);
	}
	assert_int_equal(counter(&s, "flametap_net_connections_total"), 2 * ARRAY_LEN(cases));
	server_stop(&s);
}

static void test_pipelined_answers_keep_their_order(void **state)
{
	enum { COUNT = 50 };
	struct server s;
	struct buf out, got;
	struct str rest;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	buf_init(&out, 0);
	buf_init(&got, 0);
	buf_lit(&out, "POST /keep HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx");
	for (int i = 0; i < COUNT; i++)
		buf_printf(&out, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nnr%04d",
			   i);
	fd = peer_connect(&s);
	assert_true(peer_send(fd, buf_view(&out)));
	wait_kept(&s);
	net_reply_http(s.kept, 202, NULL, 0, STR("first")); /* from this thread */
	blob_unref(s.kept_body);
	assert_true(peer_read(fd, &got, "nr", COUNT));
	rest = buf_view(&got);
	assert_true(str_has_prefix(rest, STR("HTTP/1.1 202 Accepted\r\n")));
	for (int i = 0; i < COUNT; i++) {
		ptrdiff_t at = str_search(rest, STR("\r\n\r\nnr"));
		char want[24];

		assert_true(at >= 0);
		rest = str_skip(rest, (size_t)at + 4);
		snprintf(want, sizeof(want), "nr%04d", i);
		if (i < COUNT - 1) /* the last may not have come whole */
			assert_true(str_has_prefix(rest, str_cstr(want)));
	}
	assert_int_equal(counter(&s, "flametap_net_connections"), 1);
	assert_int_equal(counter(&s, "flametap_net_requests_total{transport=\"http1\"}"),
			 COUNT + 1);
	close(fd);
	buf_release(&out);
	buf_release(&got);
	server_stop(&s);
}

static void test_large_answers_are_compressed_when_asked(void **state)
{
	static const struct {
		const char *accept;
		bool gzip;
	} rows[] = {
		{ "gzip", true }, { "deflate, gzip;q=0.5", true },  { "gzip;q=0", false },
		{ "br", false },  { "x, gzip ;q=0.000, y", false }, { "", false },
	};
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd = peer_connect(&s);
		struct buf out, got;
		ptrdiff_t body;

		buf_init(&out, 0);
		buf_init(&got, 0);
		buf_printf(&out,
			   "GET /big HTTP/1.1\r\n" HOST
			   "Connection: close\r\nAccept-Encoding: %s\r\n\r\n",
			   rows[i].accept);
		peer_send(fd, buf_view(&out));
		assert_true(peer_read(fd, &got, NULL, 0));
		body = str_search(buf_view(&got), STR("\r\n\r\n")) + 4;
		if (rows[i].gzip) {
			struct err err;
			struct blob *plain =
				decompress(COMPRESSION_GZIP, str_skip(buf_view(&got), (size_t)body),
					   BIG, &err);

			assert_non_null(plain);
			assert_int_equal(plain->len, BIG);
			assert_true(str_search(buf_view(&got), STR("content-encoding: gzip")) > 0);
			blob_unref(plain);
		} else {
			assert_int_equal(got.len - (size_t)body, BIG);
		}
		buf_release(&out);
		buf_release(&got);
		close(fd);
	}
	server_stop(&s);
}

static void test_compressed_bodies(void **state)
{
	static const enum compression kinds[] = { COMPRESSION_GZIP, COMPRESSION_DEFLATE,
						  COMPRESSION_ZSTD, COMPRESSION_SNAPPY,
						  COMPRESSION_LZ4,  COMPRESSION_SNAPPY_FRAMED };
	char *zeros = calloc(1, 10 * BODY_LIMIT);
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		for (int bomb = 0; bomb < 2; bomb++) {
			struct str plain = bomb ? str_from(zeros, 10 * BODY_LIMIT)
						: STR("compressed content here");
			struct buf packed, out, got;
			struct err err;
			int fd = peer_connect(&s);

			buf_init(&packed, 0);
			buf_init(&out, 0);
			buf_init(&got, 0);
			assert_true(compress_into(kinds[i], 0, plain, &packed, &err));
			buf_printf(&out,
				   "POST /echo HTTP/1.1\r\n" HOST
				   "Connection: close\r\nContent-Encoding: %s\r\nContent-Length: "
				   "%zu\r\n\r\n",
				   compression_name(kinds[i]), packed.len);
			buf_str(&out, buf_view(&packed));
			peer_send(fd, buf_view(&out));
			assert_true(peer_read(fd, &got, NULL, 0));
			if (str_search(buf_view(&got), bomb ? STR("HTTP/1.1 413 ") : plain) < 0)
				fail_msg("%s: %.*s", compression_name(kinds[i]),
					 STR_ARG(buf_view(&got)));
			buf_release(&packed);
			buf_release(&out);
			buf_release(&got);
			close(fd);
		}
	free(zeros);
	server_stop(&s);
}

static void test_too_large_headers(void **state)
{
	struct buf out, got;
	struct server s;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	fd = peer_connect(&s);
	buf_init(&out, 0);
	buf_init(&got, 0);
	buf_lit(&out, "GET /big HTTP/1.1\r\n" HOST "X: ");
	while (out.len < 100000)
		buf_lit(&out, "yyyyyyyyyyyyyyyyyyyy");
	peer_send(fd, buf_view(&out));
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_true(str_has_prefix(buf_view(&got), STR("HTTP/1.1 431 ")));
	assert_int_equal(refused(&s, "headers_too_large"), 1);
	close(fd);
	buf_release(&out);
	buf_release(&got);
	server_stop(&s);
}

static void test_slow_headers_end(void **state)
{
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ .header_timeout_ns = 50 * MILLI_NS }, 0);
	buf_init(&got, 0);
	for (int i = 0; i < 100 && got.len == 0; i++) { /* a slow peer has not spoken by then */
		fd = peer_connect(&s);
		peer_send(fd, STR("GET / HTTP/1.1\r\nHo"));
		assert_true(peer_read(fd, &got, NULL, 0));
		close(fd);
	}
	assert_true(str_has_prefix(buf_view(&got), STR("HTTP/1.1 408 ")));
	assert_int_equal(refused(&s, "header_timeout"), 1);
	buf_reset(&got);
	fd = peer_connect(&s); /* says nothing at all: just closed */
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_int_equal(got.len, 0);
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

static void test_idle_connections_end(void **state)
{
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ .idle_timeout_ns = 50 * MILLI_NS }, 0);
	buf_init(&got, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("GET /nothing HTTP/1.1\r\n" HOST "\r\n"));
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_true(str_has_prefix(buf_view(&got), STR("HTTP/1.1 404 ")));
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

static void test_spent_memory_is_refused_with_a_hint(void **state)
{
	struct server s;
	struct buf out, got;
	int fd, other;

	(void)state;
	start(&s,
	      (struct net_app_options){ .max_body_bytes = 1 << 20,
					.retry_hint_ns = 1500 * MILLI_NS },
	      300000);
	buf_init(&out, 0);
	buf_init(&got, 0);
	buf_printf(&out, "POST /keep HTTP/1.1\r\n" HOST "Content-Length: 200000\r\n\r\n");
	for (int i = 0; i < 200000; i++)
		buf_char(&out, 'x');
	fd = peer_connect(&s);
	assert_true(peer_send(fd, buf_view(&out)));
	wait_kept(&s);
	other = peer_connect(&s); /* its 200,000 bytes do not fit beside the first's */
	peer_send(other, buf_view(&out));
	assert_true(peer_read(other, &got, NULL, 0));
	if (!str_has_prefix(buf_view(&got), STR("HTTP/1.1 503 ")) ||
	    str_search(buf_view(&got), STR("retry-after: 2\r\n")) < 0)
		fail_msg("%.*s", STR_ARG(buf_view(&got)));
	assert_int_equal(refused(&s, "no_memory"), 1);
	close(other);
	blob_unref(s.kept_body);
	net_reply_http(s.kept, 200, NULL, 0, STR("done"));
	buf_reset(&got);
	assert_true(peer_read(fd, &got, "done", 1));
	peer_send(fd, buf_view(&out)); /* and now there is room again */
	wait_kept(&s);
	blob_unref(s.kept_body);
	net_reply_http(s.kept, 200, NULL, 0, STR("again"));
	assert_true(peer_read(fd, &got, "again", 1));
	close(fd);
	/* More than the whole budget can never fit: too large, no hint. */
	buf_reset(&got);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /keep HTTP/1.1\r\n" HOST "Content-Length: 300001\r\n\r\n"));
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_true(str_has_prefix(buf_view(&got), STR("HTTP/1.1 413 ")));
	close(fd);
	buf_release(&out);
	buf_release(&got);
	server_stop(&s);
}

static void test_an_answer_for_nobody_is_counted(void **state)
{
	static const char late[] = "flametap_net_late_replies_total{reason=\"peer_gone\"}";
	struct linger reset = { .l_onoff = 1 };
	struct server s;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /keep HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx"));
	wait_kept(&s);
	assert_false(atomic_load(net_request_gone(s.kept)));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd); /* RST */
	for (int i = 0; i < PEER_WAIT_S * 1000 && counter(&s, "flametap_net_connections") > 0; i++)
		usleep(1000);
	assert_true(atomic_load(net_request_gone(s.kept)));
	net_reply_http(s.kept, 200, NULL, 0, STR("anybody?"));
	blob_unref(s.kept_body);
	wait_counter(&s, late, 1);
	server_stop(&s);
}

static void test_a_cut_body_is_counted(void **state)
{
	struct server s;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc"));
	close(fd);
	wait_counter(&s, "flametap_net_refused_total{reason=\"body_cut\"}", 1);
	server_stop(&s);
}

static void test_a_body_that_stops_coming_ends(void **state)
{
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ .progress_timeout_ns = 50 * MILLI_NS }, 0);
	buf_init(&got, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc"));
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_true(str_has_prefix(buf_view(&got), STR("HTTP/1.1 408 ")));
	assert_int_equal(refused(&s, "body_timeout"), 1);
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

/* 200 answers of 100 kB that nobody reads: more than the kernel's buffers take. */
static void test_a_peer_that_does_not_read_ends(void **state)
{
	struct server s;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ .progress_timeout_ns = 50 * MILLI_NS }, 0);
	fd = peer_connect(&s);
	for (int i = 0; i < 200; i++)
		if (!peer_send(fd, STR("GET /big HTTP/1.1\r\n" HOST "\r\n")))
			break;
	wait_counter(&s, "flametap_net_refused_total{reason=\"stalled\"}", 1);
	close(fd);
	server_stop(&s);
}

static void test_too_many_connections_are_closed(void **state)
{
	struct server s;
	struct buf got;
	int first, second;

	(void)state;
	start(&s, (struct net_app_options){ .max_connections = 1 }, 0);
	buf_init(&got, 0);
	first = peer_connect(&s);
	peer_send(first, STR("GET /nothing HTTP/1.1\r\n" HOST "\r\n"));
	assert_true(peer_read(first, &got, "404 page not found", 1));
	buf_reset(&got);
	second = peer_connect(&s);
	assert_true(peer_read(second, &got, NULL, 0));
	assert_int_equal(got.len, 0);
	assert_int_equal(refused(&s, "too_many_connections"), 1);
	close(first);
	close(second);
	buf_release(&got);
	server_stop(&s);
}

/* The caller sees the end at once, and the server works on when there are descriptors again. */
static void test_no_file_descriptor_left(void **state)
{
	struct rlimit before, none;
	struct server s;
	struct buf got;
	int fd, lowest;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	buf_init(&got, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	lowest = dup(fd);
	close(lowest);
	none = (struct rlimit){ .rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	peer_connect_with(&s, fd);
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(got.len, 0);
	wait_counter(&s, "flametap_net_refused_total{reason=\"no_file_descriptor\"}", 1);
	close(fd);
	fd = peer_connect(&s);
	peer_send(fd, STR("GET /nothing HTTP/1.1\r\n" HOST "\r\n"));
	assert_true(peer_read(fd, &got, "404 page not found", 1));
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

struct closer {
	struct server *s;
	uint64_t deadline_ns;
	sem_t done;
};

static void *close_listener(void *arg)
{
	struct closer *c = arg;

	net_listener_close(c->s->listener, c->deadline_ns);
	c->s->listener = NULL;
	sem_post(&c->done);
	return NULL;
}

static void test_drain_lets_what_runs_finish(void **state)
{
	struct closer c = { .deadline_ns = clock_monotonic_ns() + PEER_WAIT_S * SECOND_NS };
	struct server s;
	pthread_t thread;
	struct buf got;
	int fd, idle;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	buf_init(&got, 0);
	c.s = &s;
	sem_init(&c.done, 0, 0);
	idle = peer_connect(&s);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /keep HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx"));
	wait_kept(&s);
	pthread_create(&thread, NULL, close_listener, &c);
	assert_true(peer_read(idle, &got, NULL, 0)); /* closed at once */
	assert_int_not_equal(sem_trywait(&c.done), 0);
	net_reply_http(s.kept, 200, NULL, 0, STR("finished"));
	blob_unref(s.kept_body);
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_true(str_search(buf_view(&got), STR("connection: close\r\n")) > 0);
	assert_true(str_search(buf_view(&got), STR("finished")) > 0);
	close(fd);
	pthread_join(thread, NULL);
	close(idle);
	buf_release(&got);
	server_stop(&s);
	sem_destroy(&c.done);
}

static void test_drain_ends_at_its_deadline(void **state)
{
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	buf_init(&got, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("POST /keep HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx"));
	wait_kept(&s);
	net_listener_close(s.listener, clock_monotonic_ns() + 20 * MILLI_NS);
	s.listener = NULL;
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_int_equal(got.len, 0);
	net_reply_http(s.kept, 200, NULL, 0, STR("too late")); /* the request still lives */
	blob_unref(s.kept_body);
	wait_counter(&s, "flametap_net_late_replies_total{reason=\"closed\"}", 1);
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_pipelined_answers_keep_their_order),
		cmocka_unit_test(test_large_answers_are_compressed_when_asked),
		cmocka_unit_test(test_compressed_bodies),
		cmocka_unit_test(test_too_large_headers),
		cmocka_unit_test(test_slow_headers_end),
		cmocka_unit_test(test_idle_connections_end),
		cmocka_unit_test(test_spent_memory_is_refused_with_a_hint),
		cmocka_unit_test(test_an_answer_for_nobody_is_counted),
		cmocka_unit_test(test_a_cut_body_is_counted),
		cmocka_unit_test(test_a_body_that_stops_coming_ends),
		cmocka_unit_test(test_a_peer_that_does_not_read_ends),
		cmocka_unit_test(test_too_many_connections_are_closed),
		cmocka_unit_test(test_no_file_descriptor_left),
		cmocka_unit_test(test_drain_lets_what_runs_finish),
		cmocka_unit_test(test_drain_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
