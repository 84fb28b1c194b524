/* Both clients over TLS to our own listener. The certificates are made by openssl(1) at run time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/client.h"
#include "net/server_test.h"
#include "support/h2_peer.h"

static char dir[] = "/tmp/flametap-client-XXXXXX";

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command))
		fail_msg("failed: %s", command);
}

/* CA.pem signs NAME.pem with NAME.key. */
static void make_certificate(const char *name, const char *ca, const char *names)
{
	run("cd %s && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
	    "%s.key -out %s.csr "
	    "-subj /CN=%s 2>openssl.log && printf 'subjectAltName=%s\n' > ext && openssl x509 -req "
	    "-in %s.csr -CA %s.pem "
	    "-CAkey %s.key -CAcreateserial -days 2 -extfile ext -out %s.pem 2>>openssl.log",
	    dir, name, name, name, names, name, ca, ca, name);
}

static void make_ca(const char *name)
{
	run("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
	    "-keyout %s.key -out %s.pem "
	    "-subj /CN=%s 2>openssl.log",
	    dir, name, name, name);
}

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	make_ca("ca");
	make_ca("other");
	make_certificate("server", "ca", "DNS:server.test,IP:127.0.0.1");
	make_certificate("elsewhere", "ca", "DNS:elsewhere.test");
	make_certificate("client", "ca", "DNS:client.test");
	make_certificate("stranger", "other", "DNS:stranger.test");
	setenv("no_proxy", "*", 1);
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	run("rm -r %s", dir);
	return 0;
}

/* A file of ours, or NULL; the caller's storage. */
static const char *file(char out[128], const char *name, const char *suffix)
{
	if (!name)
		return NULL;
	snprintf(out, 128, "%s/%s.%s", dir, name, suffix);
	return out;
}

struct waiter {
	struct client_call call;
	sem_t done;
	bool ok, sent;
	char message[256], body[64];
};

static void waiter_done(struct client_call *call, const struct client_result *r)
{
	struct waiter *w = CONTAINER_OF(call, struct waiter, call);

	w->ok = r->ok;
	w->sent = r->sent;
	snprintf(w->message, sizeof(w->message), "%.*s", STR_ARG(r->message));
	snprintf(w->body, sizeof(w->body), "%.*s", STR_ARG(r->body));
	sem_post(&w->done);
}

static void waiter_wait(struct waiter *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PEER_WAIT_S;
	assert_int_equal(sem_timedwait(&w->done, &until), 0);
}

static void waiter_init(struct waiter *w)
{
	*w = (struct waiter){ .call.done = waiter_done };
	sem_init(&w->done, 0, 0);
}

static const struct {
	const char *what;
	const char *server,
		*server_ca;           /* its certificate; the CA it wants clients to be signed by */
	const char *host;             /* of the endpoint */
	const char *ca, *cert, *name; /* the client's */
	bool skip_verify;
	const char *min, *max;
	bool ok;
} cases[] = {
	{ "a known CA", "server", NULL, "127.0.0.1", "ca", NULL, NULL, false, NULL, NULL, true },
	{ "by name", "server", NULL, "localhost", "ca", NULL, "server.test", false, NULL, NULL,
	  true },
	{ "TLS 1.2", "server", NULL, "127.0.0.1", "ca", NULL, NULL, false, NULL, "1.2", true },
	{ "TLS 1.3", "server", NULL, "127.0.0.1", "ca", NULL, NULL, false, "1.3", "1.3", true },
	{ "a wrong CA", "server", NULL, "127.0.0.1", "other", NULL, NULL, false, NULL, NULL,
	  false },
	{ "the system's CAs", "server", NULL, "127.0.0.1", NULL, NULL, NULL, false, NULL, NULL,
	  false },
	{ "a wrong CA, not looked at", "server", NULL, "127.0.0.1", "other", NULL, NULL, true, NULL,
	  NULL, true },
	{ "a wrong name", "elsewhere", NULL, "127.0.0.1", "ca", NULL, NULL, false, NULL, NULL,
	  false },
	{ "the wrong name expected", "elsewhere", NULL, "127.0.0.1", "ca", NULL, "elsewhere.test",
	  false, NULL, NULL, true },
	{ "mTLS", "server", "ca", "127.0.0.1", "ca", "client", NULL, false, NULL, NULL, true },
	{ "mTLS without a certificate", "server", "ca", "127.0.0.1", "ca", NULL, NULL, false, NULL,
	  NULL, false },
	{ "mTLS with a stranger's", "server", "ca", "127.0.0.1", "ca", "stranger", NULL, false,
	  NULL, NULL, false },
};

static struct tls_options client_options(size_t i, char text[3][128])
{
	return (struct tls_options){ .ca_file = file(text[0], cases[i].ca, "pem"),
				     .cert_file = file(text[1], cases[i].cert, "pem"),
				     .key_file = file(text[2], cases[i].cert, "key"),
				     .server_name = cases[i].name,
				     .insecure_skip_verify = cases[i].skip_verify,
				     .min_version = cases[i].min,
				     .max_version = cases[i].max };
}

static void start_server(struct server *s, struct tls_context *tls)
{
	server_init(s, (struct net_app_options){ 0 }, 0);
	net_app_route(s->app, "POST", "/echo", NULL, (struct net_handler){ echo, NULL });
	net_app_grpc_method(s->app, "/test.Service/Echo", (struct net_handler){ echo, NULL });
	server_listen(s, tls);
}

static struct tls_context *server_context(size_t i)
{
	char text[3][128];
	struct err err = { 0 };
	struct tls_context *c = tls_context_new(
		&(struct tls_options){ .server = true,
				       .cert_file = file(text[0], cases[i].server, "pem"),
				       .key_file = file(text[1], cases[i].server, "key"),
				       .ca_file = file(text[2], cases[i].server_ca, "pem") },
		&err);

	if (!c)
		fail_msg("%s", err.msg);
	return c;
}

static void check(size_t i, const char *client, struct waiter *w)
{
	if (w->ok != cases[i].ok)
		fail_msg("%s, %s: %s", client, cases[i].what, w->ok ? "passed" : w->message);
	if (w->ok)
		assert_string_equal(w->body, "hello");
	else
		assert_true(w->message[0] != 0);
	sem_destroy(&w->done);
}

static void call_grpc(size_t i, struct server *s)
{
	char text[3][128], endpoint[64];
	struct tls_options options = client_options(i, text);
	struct err err = { 0 };
	struct tls_context *tls;
	struct grpc_client *c;
	struct blob *message = blob_copy(STR("hello"));
	struct waiter w;

	options.alpn_h2_only = true;
	tls = tls_context_new(&options, &err);
	assert_non_null(tls);
	snprintf(endpoint, sizeof(endpoint), "https://%s:%u", cases[i].host, s->port);
	c = grpc_client_new(net_loops_pick(s->loops),
			    &(struct grpc_client_options){ .endpoint = endpoint, .tls = tls },
			    &err);
	assert_non_null(c);
	waiter_init(&w);
	grpc_client_call(c, "/test.Service/Echo", message, PEER_WAIT_S * SECOND_NS, &w.call);
	waiter_wait(&w);
	check(i, "gRPC", &w);
	blob_unref(message);
	grpc_client_free(c);
	tls_context_free(tls);
}

static void call_http(size_t i, struct server *s)
{
	char text[3][128], url[64];
	struct err err = { 0 };
	struct http_client *c = http_client_new(
		&(struct http_client_options){ .tls = client_options(i, text) }, &err);
	struct blob *body = blob_copy(STR("hello"));
	struct waiter w;

	if (!c)
		fail_msg("%s", err.msg);
	snprintf(url, sizeof(url), "https://%s:%u/echo", cases[i].host, s->port);
	waiter_init(&w);
	http_client_call(c, "POST", url, "text/plain", body, PEER_WAIT_S * SECOND_NS, &w.call);
	waiter_wait(&w);
	check(i, "HTTP", &w);
	blob_unref(body);
	http_client_free(c);
}

static void test_tls(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tls_context *tls = server_context(i);
		struct server s;

		start_server(&s, tls);
		call_grpc(i, &s);
		call_http(i, &s);
		server_stop(&s);
		tls_context_free(tls);
	}
}

static void call_fails_saying(struct net_loops *loops, unsigned port, struct tls_context *tls,
			      const char *says)
{
	struct blob *message = blob_copy(STR("hello"));
	struct err err = { 0 };
	struct grpc_client *c;
	char endpoint[64];
	struct waiter w;

	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", port);
	c = grpc_client_new(net_loops_pick(loops),
			    &(struct grpc_client_options){ .endpoint = endpoint, .tls = tls },
			    &err);
	assert_non_null(c);
	waiter_init(&w);
	grpc_client_call(c, "/test.Service/Echo", message, PEER_WAIT_S * SECOND_NS, &w.call);
	waiter_wait(&w);
	blob_unref(message);
	grpc_client_free(c);
	assert_false(w.ok);
	assert_false(w.sent);
	if (!strstr(w.message, says))
		fail_msg("%s", w.message);
	sem_destroy(&w.done);
}

/* TLS on one side only says so, rather than something about bytes. */
static void test_tls_on_one_side(void **state)
{
	struct tls_options any = { .insecure_skip_verify = true, .alpn_h2_only = true };
	struct tls_context *server_tls = server_context(0), *client_tls;
	struct h2_peer plain = { 0 };
	struct err err = { 0 };
	struct server s;

	(void)state;
	client_tls = tls_context_new(&any, &err);
	assert_non_null(client_tls);
	start_server(&s, server_tls);
	h2_peer_start(&plain);
	call_fails_saying(s.loops, s.port, NULL, "does it want TLS?");
	call_fails_saying(s.loops, plain.port, client_tls, "the peer does not speak TLS");
	h2_peer_stop(&plain);
	server_stop(&s);
	tls_context_free(client_tls);
	tls_context_free(server_tls);
}

/* A body much larger than a window and a record, there and back. */
static void test_large_body(void **state)
{
	enum { BYTES = 3 * 1024 * 1024 + 1 };
	struct tls_context *server_tls = server_context(0), *client_tls;
	char text[3][128], endpoint[64];
	struct blob *message = blob_new(BYTES);
	struct tls_options options = client_options(0, text);
	struct err err = { 0 };
	struct grpc_client *c;
	struct waiter w;
	struct server s;

	(void)state;
	memset(message->ptr, 'x', BYTES);
	message->len = BYTES;
	options.alpn_h2_only = true;
	client_tls = tls_context_new(&options, &err);
	start_server(&s, server_tls);
	snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", s.port);
	c = grpc_client_new(
		net_loops_pick(s.loops),
		&(struct grpc_client_options){ .endpoint = endpoint, .tls = client_tls }, &err);
	assert_non_null(c);
	waiter_init(&w);
	grpc_client_call(c, "/test.Service/Echo", message, PEER_WAIT_S * SECOND_NS, &w.call);
	waiter_wait(&w);
	if (!w.ok)
		fail_msg("%s", w.message);
	assert_int_equal(strlen(w.body), sizeof(w.body) - 1);
	sem_destroy(&w.done);
	blob_unref(message);
	grpc_client_free(c);
	server_stop(&s);
	tls_context_free(client_tls);
	tls_context_free(server_tls);
}

/* A name with several addresses, of which only one answers; and a socket in the file system. */
static void test_other_addresses(void **state)
{
	char path[128], endpoints[2][160];
	struct err err = { 0 };
	struct net_listener *local;
	struct server s;

	(void)state;
	start_server(&s, NULL);
	snprintf(path, sizeof(path), "unix://%s/socket", dir);
	local = net_listen(s.loops, s.app, path, NULL, &err);
	if (!local)
		fail_msg("%s", err.msg);
	snprintf(endpoints[0], sizeof(endpoints[0]), "dns:///localhost:%u", s.port);
	snprintf(endpoints[1], sizeof(endpoints[1]), "%s", path);
	for (int i = 0; i < 2; i++) {
		struct grpc_client *c = grpc_client_new(
			net_loops_pick(s.loops),
			&(struct grpc_client_options){ .endpoint = endpoints[i] }, &err);
		struct blob *message = blob_copy(STR("hello"));
		struct waiter w;

		assert_non_null(c);
		waiter_init(&w);
		grpc_client_call(c, "/test.Service/Echo", message, PEER_WAIT_S * SECOND_NS,
				 &w.call);
		waiter_wait(&w);
		if (!w.ok)
			fail_msg("%s: %s", endpoints[i], w.message);
		assert_string_equal(w.body, "hello");
		sem_destroy(&w.done);
		blob_unref(message);
		grpc_client_free(c);
	}
	net_listener_close(local, clock_monotonic_ns() + PEER_WAIT_S * SECOND_NS);
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_tls_on_one_side),
		cmocka_unit_test(test_large_body),
		cmocka_unit_test(test_other_addresses),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
