#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <semaphore.h>
#include <libdeflate.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/client.h"
#include "net/server.h"
#include "support/h2_peer.h"

enum { WAIT_S = 60 }; /* none of what is tested takes that long */

/* A call and its answer, copied. */
struct waiter {
	struct client_call call;
	sem_t done;
	struct client_result result; /* without what it borrows */
	char message[512], body[512], details[2048];
	unsigned times;
};

static void waiter_done(struct client_call *call, const struct client_result *r)
{
	struct waiter *w = CONTAINER_OF(call, struct waiter, call);

	w->result = *r;
	w->times++;
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

static void call_start(struct grpc_client *c, struct waiter *w, struct blob *message,
		       uint64_t timeout_ns)
{
	*w = (struct waiter){ .call.done = waiter_done };
	sem_init(&w->done, 0, 0);
	grpc_client_call(c, "/test.Service/Method", message, timeout_ns, &w->call);
}

static void call_text(struct grpc_client *c, struct waiter *w, const char *text,
		      uint64_t timeout_ns)
{
	struct blob *message = blob_copy(str_cstr(text));

	call_start(c, w, message, timeout_ns);
	blob_unref(message);
	waiter_wait(w);
}

/* Loops, a peer and a client. */
struct bench {
	struct net_loops *loops;
	struct h2_peer peer;
	struct grpc_client *client;
	char endpoint[64];
};

static void bench_loops(struct bench *b)
{
	struct err err;

	b->loops = net_loops_new(&(struct net_loops_options){ .count = 1 }, &err);
	assert_non_null(b->loops);
}

static void bench_client(struct bench *b, struct grpc_client_options *o)
{
	struct err err = { 0 };

	snprintf(b->endpoint, sizeof(b->endpoint), "127.0.0.1:%u", b->peer.port);
	if (!o->endpoint)
		o->endpoint = b->endpoint;
	b->client = grpc_client_new(net_loops_pick(b->loops), o, &err);
	if (!b->client)
		fail_msg("%s", err.msg);
}

static void bench_start(struct bench *b, void (*script)(struct h2_peer_stream *, void *), void *ctx,
			struct grpc_client_options *o)
{
	b->peer.script = script;
	b->peer.ctx = ctx;
	h2_peer_start(&b->peer);
	bench_loops(b);
	bench_client(b, o);
}

static void bench_stop(struct bench *b)
{
	grpc_client_free(b->client);
	net_loops_free(b->loops);
	if (b->peer.script)
		h2_peer_stop(&b->peer);
}

/* Answers with the request's headers, so that the test can read them. */
static void script_headers(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	h2_peer_ok(s, s->headers, strlen(s->headers));
}

/* Answers with the request's message. */
static void script_echo(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	h2_peer_ok(s, s->len > 5 ? s->body + 5 : NULL, s->len > 5 ? s->len - 5 : 0);
}

static void test_headers(void **state)
{
	static const char *const want[] = {
		":method: POST\n",
		":scheme: http\n",
		":path: /test.Service/Method\n",
		"te: trailers\n",
		"content-type: application/grpc\n",
		"user-agent: flametap/" FLAMETAP_VERSION "\n",
		"grpc-accept-encoding: identity, gzip, deflate, zstd, snappy\n",
		"authorization: Bearer x\n",
		"x-tenant: 7\n",
		":authority: 127.0.0.1:",
	};
	static const struct client_header headers[] = { { "Authorization", "Bearer x" },
							{ "x-tenant", "7" } };
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_headers, NULL,
		    &(struct grpc_client_options){ .headers = headers, .header_count = 2 });
	call_text(b.client, &w, "hello", 3 * SECOND_NS);
	assert_true(w.result.ok);
	assert_true(w.result.sent);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!strstr(w.body, want[i]))
			fail_msg("no %s in:\n%s", want[i], w.body);
	assert_non_null(strstr(w.body, "grpc-timeout: "));
	assert_null(strstr(w.body, "grpc-encoding: "));
	call_text(b.client, &w, "no timeout", 0);
	assert_null(strstr(w.body, "grpc-timeout: "));
	assert_int_equal(b.peer.connections, 1);
	bench_stop(&b);
}

static void test_bad_options(void **state)
{
	static const struct {
		struct grpc_client_options o;
		struct client_header header;
		enum err_kind kind;
		const char *text;
	} cases[] = {
		{ { .endpoint = "nowhere" }, { 0 }, ERR_INVALID, "has no port" },
		{ { .endpoint = "https://a:1" }, { 0 }, ERR_INVALID, "asks for TLS" },
		{ { .endpoint = "a:1", .compression = COMPRESSION_LZ4 },
		  { 0 },
		  ERR_UNSUPPORTED,
		  "lz4" },
		{ { .endpoint = "a:1", .header_count = 1 },
		  { "te", "x" },
		  ERR_INVALID,
		  "belongs to gRPC" },
		{ { .endpoint = "a:1", .header_count = 1 },
		  { "grpc-timeout", "x" },
		  ERR_INVALID,
		  "belongs to gRPC" },
		{ { .endpoint = "a:1", .header_count = 1 },
		  { ":path", "x" },
		  ERR_INVALID,
		  "character" },
		{ { .endpoint = "a:1", .header_count = 1 },
		  { "a\r\nb", "x" },
		  ERR_INVALID,
		  "character" },
		{ { .endpoint = "a:1", .header_count = 1 },
		  { "a", "s3cret\r\n" },
		  ERR_INVALID,
		  "printable" },
		{ { .endpoint = "a:1", .header_count = 1 }, { "", "x" }, ERR_INVALID, "no name" },
	};
	struct bench b = { 0 };

	(void)state;
	bench_loops(&b);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct grpc_client_options o = cases[i].o;
		struct err err = { 0 };

		o.headers = &cases[i].header;
		assert_null(grpc_client_new(net_loops_pick(b.loops), &o, &err));
		assert_int_equal(err.kind, cases[i].kind);
		if (!strstr(err.msg, cases[i].text) || strstr(err.msg, "s3cret"))
			fail_msg("case %zu: %s", i, err.msg);
	}
	net_loops_free(b.loops);
}

/* Bodies larger than every window, through a peer with a small one, byte for byte. */
static void script_sum(struct h2_peer_stream *s, void *ctx)
{
	char text[64];

	(void)ctx;
	snprintf(text, sizeof(text), "%zu %u", s->len - 5,
		 libdeflate_crc32(0, s->body + 5, s->len - 5));
	h2_peer_ok(s, text, strlen(text));
}

static void test_big_body(void **state)
{
	enum { BYTES = 5 * 1024 * 1024 + 3 };
	struct bench b = { .peer.window = 10000 };
	struct blob *big = blob_new(BYTES);
	struct waiter w;
	char want[64];

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		big->ptr[i] = (char)(i * 2654435761u >> 13);
	big->len = BYTES;
	snprintf(want, sizeof(want), "%d %u", BYTES, libdeflate_crc32(0, big->ptr, BYTES));
	bench_start(&b, script_sum, NULL, &(struct grpc_client_options){ 0 });
	call_start(b.client, &w, big, 0);
	waiter_wait(&w);
	assert_string_equal(w.body, want);
	blob_unref(big);
	bench_stop(&b);
}

static void script_gunzip(struct h2_peer_stream *s, void *ctx)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	char out[4096];
	size_t len;

	(void)ctx;
	if (s->body[0] == 1 && strstr(s->headers, "grpc-encoding: gzip\n") &&
	    libdeflate_gzip_decompress(d, s->body + 5, s->len - 5, out, sizeof(out), &len) ==
		    LIBDEFLATE_SUCCESS)
		h2_peer_ok(s, out, len);
	else
		h2_peer_error(s, "13", "not gzip", NULL);
	libdeflate_free_decompressor(d);
}

static void test_gzip(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_gunzip, NULL,
		    &(struct grpc_client_options){ .compression = COMPRESSION_GZIP });
	call_text(b.client, &w, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  SECOND_NS * 5);
	assert_true(w.result.ok);
	assert_string_equal(w.body, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	bench_stop(&b);
}

/* What a peer may answer, and what comes of it. The n-th request gets the n-th answer. */
static void script_answers(struct h2_peer_stream *s, void *ctx)
{
	char huge[3000];

	(void)ctx;
	memset(huge, 'x', sizeof(huge));
	switch (s->ordinal) {
	case 0:
		h2_peer_error(s, "14", "try%20later", "CA4SBWxhdGVy");
		break;
	case 1:
		h2_peer_respond(s, "404", "text/plain", "404 page not found\n", 19, false, NULL);
		break;
	case 2:
		h2_peer_respond(s, "502", "text/html", "<h1>no</h1>", 11, false, NULL);
		break;
	case 3:
		h2_peer_reset(s, NGHTTP2_INTERNAL_ERROR);
		break;
	case 4:
		h2_peer_ok(s, huge, sizeof(huge)); /* more than the client's limit */
		break;
	case 5: /* the status stands in trailers, after a message cut short */
		snprintf(s->trailers[0], sizeof(s->trailers[0]), "0");
		h2_peer_respond(s, "200", "application/grpc", "\0\0\0\0\7abc", 8, true, NULL);
		break;
	case 6:
		h2_peer_respond(s, "200", "application/grpc", "", 0, false,
				NULL); /* no status at all */
		break;
	case 7:
		h2_peer_error(s, "12", "unknown service test.Service", NULL);
		break;
	default:
		h2_peer_ok(s, "fine", 4);
	}
}

static void test_answers(void **state)
{
	static const struct {
		bool ok;
		int status, http;
		const char *message;
	} want[] = {
		{ false, GRPC_UNAVAILABLE, 0, "try later" },
		{ false, GRPC_UNIMPLEMENTED, 404,
		  "HTTP status 404 with content-type \"text/plain\" instead of gRPC: 404 page not "
		  "found" },
		{ false, GRPC_UNAVAILABLE, 502,
		  "HTTP status 502 with content-type \"text/html\" instead of gRPC: <h1>no</h1>" },
		{ false, GRPC_INTERNAL, 0,
		  "the peer reset the call with HTTP/2 error INTERNAL_ERROR" },
		{ false, GRPC_RESOURCE_EXHAUSTED, 0,
		  "the answer has 3000 bytes, the limit here is 2000" },
		{ false, GRPC_INTERNAL, 0, "the answer is cut short: 3 of 7 bytes came" },
		{ false, GRPC_INTERNAL, 0, "the peer ended the call without a grpc-status" },
		{ false, GRPC_UNIMPLEMENTED, 0, "unknown service test.Service" },
		{ true, GRPC_OK, 0, "" },
	};
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_answers, NULL,
		    &(struct grpc_client_options){ .max_response_bytes = 2000 });
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		call_text(b.client, &w, "x", 0);
		if (w.result.ok != want[i].ok || w.result.grpc_status != want[i].status ||
		    w.result.http_status != want[i].http || strcmp(w.message, want[i].message) != 0)
			fail_msg("answer %zu: status %d, HTTP %d, \"%s\"", i, w.result.grpc_status,
				 w.result.http_status, w.message);
		assert_true(w.result.sent);
		if (i == 0)
			assert_memory_equal(w.details, "\x08\x0e\x12\x05later", 9);
	}
	assert_string_equal(w.body, "fine");
	assert_int_equal(b.peer.connections, 1); /* none of these costs the connection */
	bench_stop(&b);
}

static void test_refused(void **state)
{
	struct bench b = { 0 };
	int fd = h2_peer_socket(&b.peer.port, false);
	char text[160], say[200];
	uint64_t start_ns;
	struct waiter w;

	(void)state;
	bench_loops(&b);
	bench_client(&b, &(struct grpc_client_options){ .reconnect_min_ns = MILLI_NS,
							.reconnect_max_ns = MILLI_NS });
	grpc_client_state(b.client, text);
	assert_string_equal(text, "idle");
	call_text(b.client, &w, "x", 0); /* without a deadline: it is the refusal that ends it */
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_false(w.result.sent);
	snprintf(say, sizeof(say), "connecting to 127.0.0.1:%u: connection refused", b.peer.port);
	assert_string_equal(w.message, say);
	grpc_client_state(b.client, text);
	snprintf(say, sizeof(say),
		 "transient failure: connecting to 127.0.0.1:%u: connection refused", b.peer.port);
	assert_string_equal(text, say);

	/* Once the peer is there, the next call after the pause finds it. */
	close(fd);
	b.peer.script = script_echo;
	h2_peer_start(&b.peer);
	start_ns = clock_monotonic_ns();
	do
		call_text(b.client, &w, "again", 0);
	while (!w.result.ok && clock_monotonic_ns() - start_ns < WAIT_S * SECOND_NS);
	assert_string_equal(w.body, "again");
	grpc_client_state(b.client, text);
	assert_string_equal(text, "ready");
	bench_stop(&b);
}

static void wait_refused(struct grpc_client *c)
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_S * SECOND_NS;
	char text[160] = "";

	while (!strstr(text, "connection refused") && clock_monotonic_ns() < until_ns) {
		usleep(1000);
		grpc_client_state(c, text);
	}
}

static void test_wait_for_ready(void **state)
{
	struct bench b = { 0 };
	int fd = h2_peer_socket(&b.peer.port, false);
	struct blob *message = blob_copy(STR("patient"));
	struct waiter w, hurried;

	(void)state;
	bench_loops(&b);
	bench_client(&b, &(struct grpc_client_options){ .reconnect_min_ns = 5 * MILLI_NS,
							.reconnect_max_ns = 5 * MILLI_NS,
							.wait_for_ready = true });
	call_start(b.client, &w, message, 0);
	wait_refused(b.client);
	call_start(b.client, &hurried, message, 20 * MILLI_NS);
	waiter_wait(&hurried);
	assert_int_equal(hurried.result.grpc_status, GRPC_DEADLINE_EXCEEDED);
	assert_false(hurried.result.sent);
	assert_non_null(strstr(hurried.message, "connection refused"));
	close(fd);
	b.peer.script = script_echo;
	h2_peer_start(&b.peer);
	waiter_wait(&w);
	assert_string_equal(w.body, "patient");
	blob_unref(message);
	bench_stop(&b);
}

/* Drops the connection in the middle of the first call; the next one gets a new connection. */
static void script_drop_first(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	if (s->ordinal == 0)
		s->conn->drop = true;
	else
		h2_peer_ok(s, "ok", 2);
}

static void test_connection_cut(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_drop_first, NULL, &(struct grpc_client_options){ 0 });
	call_text(b.client, &w, "x", 0);
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_true(w.result.sent);
	call_text(b.client, &w, "x", 0);
	assert_true(w.result.ok);
	assert_int_equal(b.peer.connections, 2);
	bench_stop(&b);
}

static void script_silent(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	if (s->ordinal > 0)
		h2_peer_ok(s, "ok", 2);
}

static void test_deadline(void **state)
{
	uint64_t start_ns, timeout_ns = 25 * MILLI_NS;
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_silent, NULL, &(struct grpc_client_options){ 0 });
	do { /* a slow machine has not even sent it by then */
		timeout_ns *= 2;
		start_ns = clock_monotonic_ns();
		call_text(b.client, &w, "x", timeout_ns);
		assert_int_equal(w.result.grpc_status, GRPC_DEADLINE_EXCEEDED);
		assert_true(clock_monotonic_ns() - start_ns >= timeout_ns);
	} while (!w.result.sent && timeout_ns < WAIT_S * SECOND_NS);
	assert_true(w.result.sent);
	call_text(b.client, &w, "x",
		  0); /* on the same connection, and after the reset of the first */
	assert_true(w.result.ok);
	assert_int_equal(b.peer.connections, 1);
	assert_int_equal(b.peer.resets, 1);
	assert_int_equal(b.peer.reset_code, NGHTTP2_CANCEL);
	bench_stop(&b);
}

/* The peer says GOAWAY at the first call, but answers it; what it has not processed goes to a new
 * connection unseen. */
static void script_goaway(struct h2_peer_stream *s, void *ctx)
{
	bool processed = *(bool *)ctx;

	if (s->ordinal > 0) {
		h2_peer_ok(s, "new", 3);
		return;
	}
	h2_peer_goaway(s, processed ? s->id : 0, NGHTTP2_NO_ERROR, "maintenance");
	if (processed)
		h2_peer_ok(s, "old", 3);
}

static void test_goaway(void **state)
{
	static const struct {
		bool processed;
		const char *body;
	} cases[] = { { true, "old" }, { false, "new" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench b = { 0 };
		bool processed = cases[i].processed;
		struct waiter w;

		bench_start(&b, script_goaway, &processed, &(struct grpc_client_options){ 0 });
		call_text(b.client, &w, "x", 0);
		assert_true(w.result.ok);
		assert_string_equal(w.body, cases[i].body);
		call_text(b.client, &w, "x", 0);
		assert_string_equal(w.body, "new");
		assert_int_equal(b.peer.connections, 2);
		bench_stop(&b);
	}
}

/* A peer that refuses every time is asked twice, not for ever. */
static void script_refuse(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	h2_peer_reset(s, NGHTTP2_REFUSED_STREAM);
}

static void test_refused_stream(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_refuse, NULL, &(struct grpc_client_options){ 0 });
	call_text(b.client, &w, "x", 0);
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_false(w.result.sent);
	assert_int_equal(b.peer.requests, 2);
	bench_stop(&b);
}

/* More calls than the peer allows at once: the rest waits, all are answered, and none is above the
 * limit. */
static void test_many_calls(void **state)
{
	enum { CALLS = 200, LIMIT = 7 };
	struct bench b = { .peer.max_streams = LIMIT };
	struct waiter *w = calloc(CALLS, sizeof(*w));

	(void)state;
	bench_start(&b, script_echo, NULL, &(struct grpc_client_options){ 0 });
	for (int i = 0; i < CALLS; i++) {
		char text[24];
		struct blob *message;

		snprintf(text, sizeof(text), "call %d", i);
		message = blob_copy(str_cstr(text));
		call_start(b.client, &w[i], message, 15 * SECOND_NS);
		blob_unref(message);
	}
	for (int i = 0; i < CALLS; i++) {
		char text[24];

		snprintf(text, sizeof(text), "call %d", i);
		waiter_wait(&w[i]);
		assert_string_equal(w[i].body, text);
	}
	assert_int_equal(b.peer.connections, 1);
	free(w);
	bench_stop(&b);
}

/* Answers at the headers with an error, and never reads what follows: the client gives the rest up.
 */
static void script_early(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	h2_peer_error(s, "8", "too large", NULL);
}

static void test_early_answer(void **state)
{
	struct bench b = { .peer.early = true };
	struct blob *big = blob_new(4 << 20);
	struct waiter w;

	(void)state;
	memset(big->ptr, 'x', 4 << 20);
	big->len = 4 << 20;
	bench_start(&b, script_early, NULL, &(struct grpc_client_options){ 0 });
	call_start(b.client, &w, big, 10 * SECOND_NS);
	waiter_wait(&w);
	assert_int_equal(w.result.grpc_status, GRPC_RESOURCE_EXHAUSTED);
	assert_string_equal(w.message, "too large");
	blob_unref(big);
	bench_stop(&b);
}

/* Pings go out while a call waits, and keep the connection as long as they are answered. */
static void test_keepalive(void **state)
{
	struct blob *message = blob_copy(STR("x"));
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_start(&b, script_silent, NULL,
		    &(struct grpc_client_options){ .keepalive_time_ns = 20 * MILLI_NS,
						   .keepalive_timeout_ns = WAIT_S * SECOND_NS });
	call_start(b.client, &w, message, 2 * WAIT_S * SECOND_NS);
	for (int i = 0; i < WAIT_S * 1000 && b.peer.pings < 3; i++)
		usleep(1000);
	assert_true(b.peer.pings >= 3);
	assert_int_equal(sem_trywait(&w.done), -1);
	blob_unref(message);
	bench_stop(&b);
	waiter_wait(&w);
}

/* A dead peer is noticed long before the deadline. */
static void test_keepalive_unanswered(void **state)
{
	struct bench b = { .peer.no_ping_ack = true };
	struct waiter w;

	(void)state;
	bench_start(&b, script_silent, NULL,
		    &(struct grpc_client_options){ .keepalive_time_ns = 20 * MILLI_NS,
						   .keepalive_timeout_ns = 100 * MILLI_NS });
	call_text(b.client, &w, "x", 2 * WAIT_S * SECOND_NS);
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_string_equal(w.message, "the peer does not answer a keepalive ping");
	bench_stop(&b);
}

/* Peers that accept and then speak something else, or nothing. */
static void *foreign_main(void *arg)
{
	int *fd = arg;
	int c = accept(*fd, NULL, NULL);
	char junk[1024];

	if (recv(c, junk, sizeof(junk), 0) > 0)
		send(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 47, MSG_NOSIGNAL);
	while (recv(c, junk, sizeof(junk), 0) > 0)
		;
	close(c);
	return NULL;
}

static void test_foreign_peer(void **state)
{
	struct bench b = { 0 };
	int fd = h2_peer_socket(&b.peer.port, true);
	pthread_t thread;
	struct waiter w;

	(void)state;
	pthread_create(&thread, NULL, foreign_main, &fd);
	bench_loops(&b);
	bench_client(&b, &(struct grpc_client_options){ 0 });
	call_text(b.client, &w, "x", 0);
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_false(w.result.sent);
	assert_non_null(strstr(w.message, "speaks HTTP/1, not gRPC"));
	pthread_join(thread, NULL);
	close(fd);
	bench_stop(&b);
}

static void test_deaf_peer(void **state)
{
	uint64_t timeout_ns = 30 * MILLI_NS;
	struct waiter w;

	(void)state;
	do { /* a slow machine has not even connected by then */
		struct bench b = { .peer.deaf = true };

		timeout_ns *= 2;
		bench_start(&b, script_echo, NULL,
			    &(struct grpc_client_options){ .connect_timeout_ns = timeout_ns });
		call_text(b.client, &w, "x", 0);
		assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
		assert_false(w.result.sent);
		bench_stop(&b);
	} while (!strstr(w.message, "says nothing") && timeout_ns < WAIT_S * SECOND_NS);
	assert_non_null(strstr(w.message, "says nothing"));
}

static void test_unknown_host(void **state)
{
	struct bench b = { 0 };
	struct waiter w;

	(void)state;
	bench_loops(&b);
	bench_client(&b, &(struct grpc_client_options){ .endpoint = "no..such..host:4317" });
	call_text(b.client, &w, "x", 0);
	assert_int_equal(w.result.grpc_status, GRPC_UNAVAILABLE);
	assert_non_null(strstr(w.message, "connecting to no..such..host:4317: "));
	bench_stop(&b);
}

/* Freed with calls under way, waiting, and connecting: each is answered, once. */
static void test_free_with_calls(void **state)
{
	enum { CALLS = 20 };

	(void)state;
	for (int way = 0; way < 3; way++) {
		struct bench b = { .peer.max_streams = 3, .peer.deaf = way == 1 };
		struct waiter w[CALLS];
		struct blob *message = blob_copy(STR("x"));

		bench_start(&b, script_silent, NULL, &(struct grpc_client_options){ 0 });
		for (int i = 0; i < CALLS; i++)
			call_start(b.client, &w[i], message, 0);
		if (way == 2) { /* the loops end first */
			net_loops_free(b.loops);
			b.loops = NULL;
		}
		grpc_client_free(b.client);
		b.client = NULL;
		for (int i = 0; i < CALLS; i++) {
			waiter_wait(&w[i]);
			if (!w[i].result.ok)
				assert_int_equal(w[i].result.grpc_status, GRPC_CANCELLED);
		}
		blob_unref(message);
		bench_stop(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_big_body),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_wait_for_ready),
		cmocka_unit_test(test_connection_cut),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_goaway),
		cmocka_unit_test(test_refused_stream),
		cmocka_unit_test(test_many_calls),
		cmocka_unit_test(test_early_answer),
		cmocka_unit_test(test_keepalive),
		cmocka_unit_test(test_keepalive_unanswered),
		cmocka_unit_test(test_foreign_peer),
		cmocka_unit_test(test_deaf_peer),
		cmocka_unit_test(test_unknown_host),
		cmocka_unit_test(test_free_with_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
