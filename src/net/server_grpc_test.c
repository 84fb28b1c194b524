#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/server_test.h"
#include "net/h2_test.h"
#include "net/compress.h"
#include "net/grpc_frame.h"
#include "net/proto_text.h"

enum { MESSAGE_LIMIT = 100000 };

static void refuse(struct net_request *r, struct blob *body, void *ctx)
{
	(void)ctx;
	net_reply_grpc_error(r, GRPC_INVALID_ARGUMENT, STR("50% bad\n"), STR("\x08\x03"));
	blob_unref(body);
}

static void start(struct server *s, struct net_app_options options, size_t budget_bytes)
{
	if (!options.max_body_bytes)
		options.max_body_bytes = MESSAGE_LIMIT;
	server_init(s, options, budget_bytes);
	net_app_grpc_method(s->app, "/t.Svc/Echo", (struct net_handler){ echo, NULL });
	net_app_grpc_method(s->app, "/t.Svc/Refuse", (struct net_handler){ refuse, NULL });
	net_app_grpc_method(s->app, "/t.Svc/Keep", (struct net_handler){ keep, s });
	net_app_route(s->app, "POST", "/echo", NULL, (struct net_handler){ echo, NULL });
	server_listen(s, NULL);
}

#define GRPC_TYPE "application/grpc"
#define BYTES(literal)                       \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

static const struct {
	const char *path, *type;
	const char *extra[5];
	struct str body;
	int want;
	const char *message;
	const char *reason;
} cases[] = {
	{ "/t.Svc/Echo", GRPC_TYPE, { 0 }, BYTES("\0\0\0\0\3abc"), GRPC_OK, "", NULL },
	{ "/t.Svc/Echo", GRPC_TYPE "+proto", { 0 }, BYTES("\0\0\0\0\0"), GRPC_OK, "", NULL },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { "te", "trailers", "grpc-encoding", "gzip" },
	  BYTES("\0\0\0\0\3abc"),
	  GRPC_OK,
	  "",
	  NULL }, /* flag 0 although an encoding is named */
	{ "/t.Svc/Echo",
	  GRPC_TYPE "+json",
	  { 0 },
	  BYTES("\0\0\0\0\2{}"),
	  GRPC_UNIMPLEMENTED,
	  "content-type \"application/grpc+json\" is not supported, only application/grpc+proto",
	  "media_type" },
	{ "/t.Svc/Refuse",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0\0\0"),
	  GRPC_INVALID_ARGUMENT,
	  "50%25 bad%0A",
	  NULL },
	{ "/t.Svc/None",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0\0\0"),
	  GRPC_UNIMPLEMENTED,
	  "unknown method None for service t.Svc",
	  "unknown_method" },
	{ "/no.Svc/None",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0\0\0"),
	  GRPC_UNIMPLEMENTED,
	  "unknown service no.Svc",
	  "unknown_method" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { "grpc-encoding", "br" },
	  BYTES("\1\0\0\0\1x"),
	  GRPC_UNIMPLEMENTED,
	  "grpc-encoding \"br\" is not supported (gzip, deflate, zstd, snappy, identity)",
	  "encoding" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\1\0\0\0\1x"),
	  GRPC_INTERNAL,
	  "compressed flag set without a grpc-encoding",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { "grpc-encoding", "identity" },
	  BYTES("\1\0\0\0\1x"),
	  GRPC_INTERNAL,
	  "compressed flag set without a grpc-encoding",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { "grpc-encoding", "gzip" },
	  BYTES("\1\0\0\0\1x"),
	  GRPC_INTERNAL,
	  "gzip data is cut short: 1 bytes",
	  "bad_compression" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\2\0\0\0\1x"),
	  GRPC_INTERNAL,
	  "bad compressed flag, neither 0 nor 1",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0\0\3ab"),
	  GRPC_INTERNAL,
	  "message is cut short: 2 of 3 bytes",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0"),
	  GRPC_INTERNAL,
	  "message is cut short: 3 of 5 bytes",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES(""),
	  GRPC_INTERNAL,
	  "a unary call takes one message, got none",
	  "bad_frame" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\0\0\1a\0\0\0\0\1b"),
	  GRPC_INTERNAL,
	  "a unary call takes one message, got more",
	  "bad_frame" },
	/* Refused by what the prefix announces, with nothing of it sent. */
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\0\1\x86\xa1"),
	  GRPC_RESOURCE_EXHAUSTED,
	  "received message larger than max (100001 vs. 100000)",
	  "too_large" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { 0 },
	  BYTES("\0\xff\xff\xff\xff"),
	  GRPC_RESOURCE_EXHAUSTED,
	  "received message larger than max (4294967295 vs. 100000)",
	  "too_large" },
	{ "/t.Svc/Echo",
	  GRPC_TYPE,
	  { "grpc-timeout", "soon" },
	  BYTES("\0\0\0\0\0"),
	  GRPC_INTERNAL,
	  "malformed grpc-timeout \"soon\"",
	  "bad_frame" },
};

static void test_cases(void **state)
{
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct h2_call c = { 0 };
		long long before = cases[i].reason ? refused(&s, cases[i].reason) : 0;

		h2_submit(&p, &c, "POST", cases[i].path, cases[i].type, cases[i].extra,
			  cases[i].body);
		h2_finish(&p, &c);
		if (c.http_status != 200 || c.grpc_status != cases[i].want ||
		    strcmp(c.message, cases[i].message))
			fail_msg("row %zu: HTTP %d, gRPC %d, \"%s\"", i, c.http_status,
				 c.grpc_status, c.message);
		if (c.grpc_status == GRPC_OK)
			assert_true(str_equal(buf_view(&c.got), cases[i].body));
		else
			assert_int_equal(c.got.len, 0);
		if (c.grpc_status == GRPC_INVALID_ARGUMENT)
			assert_string_equal(c.details, "CAM"); /* base64 without padding */
		assert_string_equal(c.encodings, "gzip,deflate,zstd,snappy,identity");
		if (cases[i].reason)
			assert_int_equal(refused(&s, cases[i].reason), before + 1);
		h2_call_release(&c);
	}
	assert_false(p.goaway); /* one connection served them all */
	assert_int_equal(counter(&s, "flametap_net_connections_total"), 1);
	assert_int_equal(counter(&s, "flametap_net_requests_total{transport=\"grpc\"}"),
			 ARRAY_LEN(cases));
	h2_close(&p);
	server_stop(&s);
}

static void test_compressed_messages(void **state)
{
	static const enum compression kinds[] = { COMPRESSION_GZIP, COMPRESSION_DEFLATE,
						  COMPRESSION_ZSTD, COMPRESSION_SNAPPY };
	char *zeros = calloc(1, 50 * MESSAGE_LIMIT);
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		for (int bomb = 0; bomb < 2; bomb++) {
			size_t len = bomb ? (kinds[i] == COMPRESSION_SNAPPY ? 12 : 50) *
						     (size_t)MESSAGE_LIMIT
					  : MESSAGE_LIMIT;
			const char *extra[] = { "grpc-encoding", compression_name(kinds[i]), NULL };
			struct h2_call c = { 0 };
			struct buf packed, framed;
			struct err err;

			buf_init(&packed, 0);
			buf_init(&framed, 0);
			assert_true(
				compress_into(kinds[i], 0, str_from(zeros, len), &packed, &err));
			grpc_frame_append(&framed, buf_view(&packed));
			framed.ptr[0] = 1;
			h2_submit(&p, &c, "POST", "/t.Svc/Echo", GRPC_TYPE, extra,
				  buf_view(&framed));
			h2_finish(&p, &c);
			if (c.grpc_status != (bomb ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK))
				fail_msg("%s: %d %s", extra[1], c.grpc_status, c.message);
			assert_string_equal(c.details, ""); /* no RetryInfo: it stays too large */
			if (!bomb)
				assert_int_equal(c.got.len, MESSAGE_LIMIT + GRPC_PREFIX_BYTES);
			h2_call_release(&c);
			buf_release(&packed);
			buf_release(&framed);
		}
	free(zeros);
	h2_close(&p);
	server_stop(&s);
}

static void test_http_over_h2(void **state)
{
	struct h2_call c = { 0 }, none = { 0 };
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/echo?x=1", "text/plain", NULL, STR("hello"));
	h2_submit(&p, &none, "GET", "/none", NULL, NULL, (struct str){ 0 });
	h2_finish(&p, &c);
	h2_finish(&p, &none);
	assert_int_equal(c.http_status, 200);
	assert_true(str_is(buf_view(&c.got), "hello"));
	assert_int_equal(none.http_status, 404);
	assert_int_equal(counter(&s, "flametap_net_requests_total{transport=\"http2\"}"), 2);
	h2_call_release(&c);
	h2_call_release(&none);
	h2_close(&p);
	server_stop(&s);
}

static void test_many_streams_at_once(void **state)
{
	enum { COUNT = 300, SIZE = 30000 };
	struct h2_call *calls = calloc(COUNT, sizeof(*calls));
	char *zeros = calloc(1, SIZE);
	struct buf framed;
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	buf_init(&framed, 0);
	grpc_frame_append(&framed, str_from(zeros, SIZE));
	for (int i = 0; i < COUNT; i++) /* nghttp2 keeps to the 100 that the server allows */
		h2_submit(&p, &calls[i], "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, buf_view(&framed));
	for (int i = 0; i < COUNT; i++) {
		h2_finish(&p, &calls[i]);
		assert_int_equal(calls[i].grpc_status, GRPC_OK);
		assert_int_equal(calls[i].got.len, framed.len);
		h2_call_release(&calls[i]);
	}
	buf_release(&framed);
	free(calls);
	free(zeros);
	h2_close(&p);
	server_stop(&s);
}

static void test_the_deadline_is_kept(void **state)
{
	static const char *const extra[] = { "grpc-timeout", "500m", NULL };
	struct h2_call c = { 0 };
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/t.Svc/Keep", GRPC_TYPE, extra, str_from("\0\0\0\0\1x", 6));
	h2_finish(&p, &c);
	assert_int_equal(c.grpc_status, GRPC_DEADLINE_EXCEEDED);
	wait_kept(&s);
	assert_true(net_request_deadline_ns(s.kept) > 0);
	assert_true(net_request_deadline_ns(s.kept) <= clock_monotonic_ns());
	net_reply_grpc(s.kept, STR("too late"));
	blob_unref(s.kept_body);
	wait_counter(&s, "flametap_net_late_replies_total{reason=\"deadline\"}", 1);
	assert_int_equal(refused(&s, "deadline"), 1);
	h2_call_release(&c);
	h2_close(&p);
	server_stop(&s);
}

static void test_a_cancelled_call_is_counted(void **state)
{
	struct h2_call c = { 0 };
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/t.Svc/Keep", GRPC_TYPE, NULL, str_from("\0\0\0\0\1x", 6));
	h2_turn(&p, false);
	wait_kept(&s);
	nghttp2_submit_rst_stream(p.session, NGHTTP2_FLAG_NONE, c.id, NGHTTP2_CANCEL);
	h2_turn(&p, false);
	/* Once a later call is answered, the reset was seen. */
	h2_call_release(&c);
	memset(&c, 0, sizeof(c));
	h2_submit(&p, &c, "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, str_from("\0\0\0\0\1x", 6));
	h2_finish(&p, &c);
	net_reply_grpc(s.kept, STR("anybody?"));
	blob_unref(s.kept_body);
	wait_counter(&s, "flametap_net_late_replies_total{reason=\"peer_gone\"}", 1);
	h2_call_release(&c);
	h2_close(&p);
	server_stop(&s);
}

static void test_spent_memory_gives_retry_info(void **state)
{
	enum { SIZE = 60000 };
	char *zeros = calloc(1, SIZE);
	struct h2_call first = { 0 }, second = { 0 }, third = { 0 };
	struct buf framed, want, encoded;
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ .retry_hint_ns = 2 * SECOND_NS }, 100000);
	h2_open(&p, &s);
	buf_init(&framed, 0);
	grpc_frame_append(&framed, str_from(zeros, SIZE));
	h2_submit(&p, &first, "POST", "/t.Svc/Keep", GRPC_TYPE, NULL, buf_view(&framed));
	h2_turn(&p, false);
	wait_kept(&s);
	h2_submit(&p, &second, "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, buf_view(&framed));
	h2_finish(&p, &second);
	assert_int_equal(second.grpc_status, GRPC_UNAVAILABLE);
	buf_init(&want, 0);
	buf_init(&encoded, 0);
	grpc_status_with_retry(&want, GRPC_UNAVAILABLE,
			       STR("no memory left for the request, try again later"),
			       2 * SECOND_NS);
	grpc_base64_encode(&encoded, buf_view(&want));
	assert_true(str_is(buf_view(&encoded), second.details));
	assert_int_equal(refused(&s, "no_memory"), 1);
	blob_unref(s.kept_body);
	net_reply_grpc(s.kept, STR(""));
	h2_finish(&p, &first);
	assert_int_equal(first.grpc_status, GRPC_OK);
	h2_submit(&p, &third, "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, buf_view(&framed));
	h2_finish(&p, &third);
	assert_int_equal(third.grpc_status, GRPC_OK);
	h2_call_release(&first);
	h2_call_release(&second);
	h2_call_release(&third);
	buf_release(&framed);
	buf_release(&want);
	buf_release(&encoded);
	free(zeros);
	h2_close(&p);
	server_stop(&s);
}

static void test_answers_from_another_thread_and_large(void **state)
{
	enum { SIZE = 3000000 }; /* more than the peer's window of 64 KiB */
	char *zeros = calloc(1, SIZE);
	struct h2_call c = { 0 };
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/t.Svc/Keep", GRPC_TYPE, NULL, str_from("\0\0\0\0\1x", 6));
	h2_turn(&p, false);
	wait_kept(&s);
	assert_int_equal(net_request_transport(s.kept), NET_GRPC);
	assert_true(str_is(net_request_path(s.kept), "/t.Svc/Keep"));
	assert_true(str_is(blob_view(s.kept_body), "x"));
	assert_true(strncmp(net_request_peer(s.kept), "127.0.0.1:", 10) == 0);
	blob_unref(s.kept_body);
	net_reply_grpc(s.kept, str_from(zeros, SIZE));
	h2_finish(&p, &c);
	assert_int_equal(c.grpc_status, GRPC_OK);
	assert_int_equal(c.got.len, SIZE + GRPC_PREFIX_BYTES);
	free(zeros);
	h2_call_release(&c);
	h2_close(&p);
	server_stop(&s);
}

static void *stop_listener(void *arg)
{
	struct server *s = arg;

	net_listener_close(s->listener, clock_monotonic_ns() + PEER_WAIT_S * SECOND_NS);
	s->listener = NULL;
	return NULL;
}

static void test_drain_sends_goaway_and_finishes(void **state)
{
	struct h2_call c = { 0 };
	pthread_t thread;
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ 0 }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/t.Svc/Keep", GRPC_TYPE, NULL, str_from("\0\0\0\0\1x", 6));
	h2_turn(&p, false);
	wait_kept(&s);
	pthread_create(&thread, NULL, stop_listener, &s);
	while (!p.goaway)
		assert_true(h2_turn(&p, true));
	assert_int_equal(p.goaway_code, NGHTTP2_NO_ERROR);
	assert_false(c.closed);
	blob_unref(s.kept_body);
	net_reply_grpc(s.kept, STR("done"));
	h2_finish(&p, &c);
	assert_int_equal(c.grpc_status, GRPC_OK);
	while (h2_turn(&p, true)) /* the server ends the connection by itself */
		;
	h2_close(&p);
	pthread_join(thread, NULL);
	h2_call_release(&c);
	server_stop(&s);
}

static void test_keepalive_pings(void **state)
{
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s,
	      (struct net_app_options){ .keepalive_time_ns = 20 * MILLI_NS,
					.keepalive_timeout_ns = 3600 * SECOND_NS },
	      0);
	h2_open(&p, &s);
	while (p.pings < 3)
		assert_true(h2_turn(&p, true));
	assert_false(p.goaway);
	h2_close(&p);
	server_stop(&s);
}

static void test_a_dead_peer_is_noticed(void **state)
{
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s,
	      (struct net_app_options){ .keepalive_time_ns = 10 * MILLI_NS,
					.keepalive_timeout_ns = 30 * MILLI_NS },
	      0);
	buf_init(&got, 0);
	fd = peer_connect(&s);
	peer_send(fd, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
	peer_send(fd, str_from("\0\0\0\4\0\0\0\0\0", 9)); /* SETTINGS, and never another word */
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_int_equal(refused(&s, "stalled"), 1);
	close(fd);
	buf_release(&got);
	server_stop(&s);
}

static void test_a_stream_whose_body_stops_ends(void **state)
{
	struct h2_call body = { .keep_open = true };
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ .progress_timeout_ns = 50 * MILLI_NS }, 0);
	h2_open(&p, &s);
	h2_submit(&p, &body, "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, str_from("\0\0\0\0\3a", 6));
	h2_finish(&p, &body);
	assert_int_equal(body.grpc_status, GRPC_DEADLINE_EXCEEDED);
	assert_int_equal(refused(&s, "body_timeout"), 1);
	h2_call_release(&body);
	h2_close(&p);
	server_stop(&s);
}

/* An answer that the peer gives no window for. The request itself must not take too long, which on
 * a slow machine it may: then with more time. */
static void test_a_stream_whose_answer_stops_ends(void **state)
{
	const nghttp2_settings_entry no_window = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0 };
	uint64_t timeout_ns = 200 * MILLI_NS;
	char *zeros = calloc(1, MESSAGE_LIMIT);
	struct h2_call answer;
	struct buf framed;
	struct h2_peer p;
	struct server s;

	(void)state;
	buf_init(&framed, 0);
	grpc_frame_append(&framed, str_from(zeros, MESSAGE_LIMIT));
	do {
		timeout_ns *= 2;
		start(&s, (struct net_app_options){ .progress_timeout_ns = timeout_ns }, 0);
		h2_open(&p, &s);
		nghttp2_session_set_local_window_size(p.session, NGHTTP2_FLAG_NONE, 0, 1);
		nghttp2_submit_settings(p.session, NGHTTP2_FLAG_NONE, &no_window, 1);
		answer = (struct h2_call){ 0 };
		h2_submit(&p, &answer, "POST", "/t.Svc/Echo", GRPC_TYPE, NULL, buf_view(&framed));
		h2_finish(&p, &answer);
		assert_int_equal(refused(&s, "stalled") + refused(&s, "body_timeout"), 1);
		h2_call_release(&answer);
		h2_close(&p);
		server_stop(&s);
	} while (answer.error_code != NGHTTP2_CANCEL && timeout_ns < PEER_WAIT_S * SECOND_NS);
	assert_int_equal(answer.error_code, NGHTTP2_CANCEL);
	buf_release(&framed);
	free(zeros);
}

static void test_idle_connections_get_goaway(void **state)
{
	struct h2_peer p;
	struct server s;

	(void)state;
	start(&s, (struct net_app_options){ .idle_timeout_ns = 30 * MILLI_NS }, 0);
	h2_open(&p, &s);
	while (h2_turn(&p, true))
		;
	assert_true(p.goaway);
	assert_int_equal(p.goaway_code, NGHTTP2_NO_ERROR);
	h2_close(&p);
	server_stop(&s);
}

static int health_status(const struct h2_call *c, size_t message)
{
	size_t at = message * 7; /* prefix and two bytes each */

	return c->got.len >= at + 7 ? c->got.ptr[at + 6] : -1;
}

static void test_health(void **state)
{
	struct h2_call c = { 0 }, unknown = { 0 }, watch = { .keep_open = true };
	struct h2_peer p;
	struct server s;

	(void)state;
	server_init(&s, (struct net_app_options){ 0 }, 0);
	net_app_grpc_method(s.app, "/t.Svc/Echo", (struct net_handler){ echo, NULL });
	net_app_grpc_health(s.app, false);
	server_listen(&s, NULL);
	h2_open(&p, &s);
	h2_submit(&p, &c, "POST", "/grpc.health.v1.Health/Check", GRPC_TYPE, NULL,
		  str_from("\0\0\0\0\7\x0a\5t.Svc", 12));
	h2_submit(&p, &unknown, "POST", "/grpc.health.v1.Health/Check", GRPC_TYPE, NULL,
		  str_from("\0\0\0\0\6\x0a\4t.Sv", 11));
	h2_submit(&p, &watch, "POST", "/grpc.health.v1.Health/Watch", GRPC_TYPE, NULL,
		  str_from("\0\0\0\0\0", 5));
	h2_finish(&p, &c);
	h2_finish(&p, &unknown);
	assert_int_equal(c.grpc_status, GRPC_OK);
	assert_int_equal(health_status(&c, 0), 2); /* NOT_SERVING */
	assert_int_equal(unknown.grpc_status, GRPC_NOT_FOUND);
	while (health_status(&watch, 0) < 0)
		assert_true(h2_turn(&p, true));
	assert_int_equal(health_status(&watch, 0), 2);
	net_app_grpc_health(s.app, true);
	while (health_status(&watch, 1) < 0)
		assert_true(h2_turn(&p, true));
	assert_int_equal(health_status(&watch, 1), 1); /* SERVING */
	h2_close(&p);
	h2_call_release(&c);
	h2_call_release(&unknown);
	h2_call_release(&watch);
	server_stop(&s);
}

/* FileDescriptorProtos: a.proto {package p; import b.proto; message M {nested N; field f} enum E
 * {V}; service S {rpc R}}, b.proto {message B}. */
static const struct net_proto_file files[] = {
	{ "a.proto", BYTES("\x0a\x07"
			   "a.proto"
			   "\x12\x01p"
			   "\x1a\x07"
			   "b.proto"
			   "\x22\x0d\x0a\x01M\x12\x03\x0a\x01"
			   "f\x1a\x03\x0a\x01N"
			   "\x2a\x08\x0a\x01"
			   "E\x12\x03\x0a\x01V"
			   "\x32\x08\x0a\x01S\x12\x03\x0a\x01R") },
	{ "b.proto", BYTES("\x0a\x07"
			   "b.proto"
			   "\x22\x03\x0a\x01"
			   "B") },
};

static const struct {
	unsigned field; /* of ServerReflectionRequest */
	const char *value;
	unsigned files; /* in the answer; 0 = an error */
} asks[] = {
	{ 3, "a.proto", 2 }, { 3, "b.proto", 1 }, { 3, "c.proto", 0 }, { 4, "p.M", 2 },
	{ 4, "p.M.f", 2 },   { 4, "p.M.N", 2 },   { 4, "p.E", 2 },     { 4, "p.E.V", 2 },
	{ 4, "p.S", 2 },     { 4, "p.S.R", 2 },   { 4, "B", 1 },       { 4, "p.B", 0 },
	{ 4, "p", 0 },       { 4, "", 0 },        { 4, "p.M.x", 0 },   { 4, "p.S.x", 0 },
};

static void test_reflection(void **state)
{
	static const char *const paths[] = {
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
	};
	struct h2_peer p;
	struct server s;

	(void)state;
	server_init(&s, (struct net_app_options){ 0 }, 0);
	net_app_grpc_reflection(s.app, files, ARRAY_LEN(files));
	server_listen(&s, NULL);
	h2_open(&p, &s);
	for (size_t k = 0; k < ARRAY_LEN(paths); k++)
		for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
			struct buf ask, framed;
			struct h2_call c = { 0 };
			struct str answer, list;
			struct proto_field f;
			unsigned count = 0;

			buf_init(&ask, 0);
			buf_init(&framed, 0);
			proto_put_bytes(&ask, asks[i].field, str_cstr(asks[i].value));
			grpc_frame_append(&framed, buf_view(&ask));
			h2_submit(&p, &c, "POST", paths[k], GRPC_TYPE, NULL, buf_view(&framed));
			h2_finish(&p, &c);
			assert_int_equal(c.grpc_status, GRPC_OK);
			answer = str_skip(buf_view(&c.got), GRPC_PREFIX_BYTES);
			assert_true(str_equal(proto_find(answer, 2), buf_view(&ask)));
			list = proto_find(answer, 4);
			while (proto_next(&list, &f))
				count++;
			if (count != asks[i].files ||
			    (count == 0) != (proto_find(answer, 7).len > 0))
				fail_msg("\"%s\": %u files", asks[i].value, count);
			h2_call_release(&c);
			buf_release(&ask);
			buf_release(&framed);
		}
	h2_close(&p);
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_compressed_messages),
		cmocka_unit_test(test_http_over_h2),
		cmocka_unit_test(test_many_streams_at_once),
		cmocka_unit_test(test_the_deadline_is_kept),
		cmocka_unit_test(test_a_cancelled_call_is_counted),
		cmocka_unit_test(test_spent_memory_gives_retry_info),
		cmocka_unit_test(test_answers_from_another_thread_and_large),
		cmocka_unit_test(test_drain_sends_goaway_and_finishes),
		cmocka_unit_test(test_keepalive_pings),
		cmocka_unit_test(test_a_dead_peer_is_noticed),
		cmocka_unit_test(test_a_stream_whose_body_stops_ends),
		cmocka_unit_test(test_a_stream_whose_answer_stops_ends),
		cmocka_unit_test(test_idle_connections_get_goaway),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_reflection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
