/* TLS over memory and over a real socket. The certificates are made by openssl(1) at run time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/server_test.h"
#include "net/tls_internal.h"

static char dir[] = "/tmp/flametap-tls-XXXXXX";

static const char *file(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

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

/* ca.pem signs NAME.pem with NAME.key, for DNS:server.test and IP:127.0.0.1. */
static void make_certificate(const char *name, const char *ca)
{
	run("cd %s && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
	    "%s.key "
	    "-out %s.csr -subj /CN=%s 2>openssl.log && "
	    "printf 'subjectAltName=DNS:server.test,IP:127.0.0.1\\n' > ext && "
	    "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 "
	    "-extfile ext -out %s.pem 2>>openssl.log",
	    dir, name, name, name, name, ca, ca, name);
}

static void make_ca(const char *name)
{
	run("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
	    "-keyout %s.key -out %s.pem -subj /CN=%s 2>openssl.log",
	    dir, name, name, name);
}

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	make_ca("ca");
	make_ca("other-ca");
	make_certificate("server", "ca");
	make_certificate("client", "ca");
	make_certificate("stranger", "other-ca");
	run("cd %s && echo nonsense > bad.pem && cat server.pem ca.pem > chain.pem", dir);
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	run("rm -r %s", dir);
	return 0;
}

static struct tls_context *context(struct tls_options options)
{
	struct err err = { 0 };
	struct tls_context *c = tls_context_new(&options, &err);

	if (!c)
		fail_msg("%s", err.msg);
	return c;
}

static struct tls_options server_options(void)
{
	return (struct tls_options){ .server = true,
				     .cert_file = file("server.pem"),
				     .key_file = file("server.key") };
}

static struct tls_options client_options(void)
{
	return (struct tls_options){ .ca_file = file("ca.pem"), .alpn_h2_only = true };
}

/* Carries what one side has to say to the other. */
static bool carry(struct tls_session *from, struct tls_session *to, struct err *err)
{
	char bytes[1000];
	size_t n;

	while ((n = tls_session_output(from, bytes, sizeof(bytes))))
		if (!tls_session_feed(to, str_from(bytes, n), err))
			return false;
	return true;
}

/* A handshake in memory. False: one of them refused, whose words are in err. */
static bool shake(struct tls_session *client, struct tls_session *server, struct err *err)
{
	bool client_done = false, server_done = false, ended;
	char byte;
	size_t n;

	for (int i = 0; i < 10 && !(client_done && server_done); i++) {
		if (!tls_session_handshake(client, &client_done, err) ||
		    !carry(client, server, err) ||
		    !tls_session_handshake(server, &server_done, err) ||
		    !carry(server, client, err))
			return false;
	}
	/* In TLS 1.3 a client learns only now that its certificate was refused. */
	return client_done && server_done && tls_session_read(client, &byte, 1, &n, &ended, err);
}

static const struct {
	const char *label;
	const char *client_ca, *client_cert, *server_client_ca, *name;
	const char *server_min, *client_max;
	bool skip, ok;
	const char *says;
} handshakes[] = {
	{ "plain", "ca", NULL, NULL, "server.test", NULL, NULL, false, true, "" },
	{ "by address", "ca", NULL, NULL, "127.0.0.1", NULL, NULL, false, true, "" },
	{ "TLS 1.2", "ca", NULL, NULL, "server.test", NULL, "1.2", false, true, "" },
	{ "wrong name", "ca", NULL, NULL, "other.test", NULL, NULL, false, false,
	  "hostname mismatch" },
	{ "wrong address", "ca", NULL, NULL, "127.0.0.2", NULL, NULL, false, false,
	  "IP address mismatch" },
	{ "unknown CA", "other-ca", NULL, NULL, "server.test", NULL, NULL, false, false,
	  "certificate refused: " },
	{ "unchecked", "other-ca", NULL, NULL, "other.test", NULL, NULL, true, true, "" },
	{ "mTLS", "ca", "client", "ca", "server.test", NULL, NULL, false, true, "" },
	{ "mTLS without", "ca", NULL, "ca", "server.test", NULL, NULL, false, false,
	  "peer did not return a certificate" },
	{ "mTLS stranger", "ca", "stranger", "ca", "server.test", NULL, NULL, false, false,
	  "certificate refused: " },
	{ "too old", "ca", NULL, NULL, "server.test", "1.3", "1.2", false, false,
	  "unsupported protocol" },
};

static void test_handshakes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(handshakes); i++) {
		struct tls_options so = server_options(), co = { .alpn_h2_only = true };
		char ca[128], client_ca[128], cert[128], key[128];
		struct tls_context *sc, *cc;
		struct tls_session *s, *c;
		struct err err = { 0 };
		bool ok;

		snprintf(ca, sizeof(ca), "%s/%s.pem", dir, handshakes[i].client_ca);
		co.ca_file = ca;
		if (handshakes[i].server_client_ca) {
			snprintf(client_ca, sizeof(client_ca), "%s/%s.pem", dir,
				 handshakes[i].server_client_ca);
			so.ca_file = client_ca;
		}
		if (handshakes[i].client_cert) {
			snprintf(cert, sizeof(cert), "%s/%s.pem", dir, handshakes[i].client_cert);
			snprintf(key, sizeof(key), "%s/%s.key", dir, handshakes[i].client_cert);
			co.cert_file = cert;
			co.key_file = key;
		}
		so.min_version = handshakes[i].server_min;
		co.max_version = handshakes[i].client_max;
		co.insecure_skip_verify = handshakes[i].skip;
		sc = context(so);
		cc = context(co);
		s = tls_session_new(sc, NULL, &err);
		c = tls_session_new(cc, handshakes[i].name, &err);
		assert_true(s && c);
		ok = shake(c, s, &err);
		if (ok != handshakes[i].ok || (!ok && !strstr(err.msg, handshakes[i].says)))
			fail_msg("%s: %d, %s", handshakes[i].label, ok, err.msg);
		if (ok)
			assert_true(str_is(tls_session_alpn(s), "h2"));
		tls_session_free(s);
		tls_session_free(c);
		tls_context_free(sc);
		tls_context_free(cc);
	}
}

static void test_errors_name_the_file(void **state)
{
	static const struct {
		const char *cert, *key, *ca, *min;
		const char *says;
	} cases[] = {
		{ "none.pem", "server.key", NULL, NULL, "none.pem: No such file" },
		{ "server.pem", "none.key", NULL, NULL, "none.key: No such file" },
		{ "bad.pem", "server.key", NULL, NULL, "no usable certificate in " },
		{ "server.pem", "bad.pem", NULL, NULL, "no usable private key in " },
		{ "server.pem", "client.key", NULL, NULL, "client.key does not belong" },
		{ "server.pem", "server.key", "bad.pem", NULL, "no usable CA certificate in " },
		{ "server.pem", "server.key", NULL, "1.4", "unsupported TLS version: \"1.4\"" },
		{ NULL, "server.key", NULL, NULL,
		  "TLS configuration must include both certificate and key for server "
		  "connections" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tls_options o = { .server = true, .min_version = cases[i].min };
		struct err err = { 0 };

		o.cert_file = cases[i].cert ? file(cases[i].cert) : NULL;
		o.key_file = file(cases[i].key);
		o.ca_file = cases[i].ca ? file(cases[i].ca) : NULL;
		assert_null(tls_context_new(&o, &err));
		if (!strstr(err.msg, cases[i].says))
			fail_msg("row %zu: %s", i, err.msg);
	}
}

static void start(struct server *s, struct tls_context *tls)
{
	server_init(s, (struct net_app_options){ 0 }, 0);
	net_app_route(s->app, "POST", "/echo", NULL, (struct net_handler){ echo, NULL });
	server_listen(s, tls);
}

/* openssl s_client sends a request; what it prints comes back. */
static void s_client(const struct server *s, const char *options, const char *request,
		     struct buf *out)
{
	char command[1024], part[4096];
	size_t n;
	FILE *f;

	/* With a request it waits for the server's end, without one it ends by itself. */
	snprintf(command, sizeof(command),
		 "printf '%s' | timeout 10 openssl s_client -connect 127.0.0.1:%u %s %s 2>&1",
		 request, s->port, options, request[0] ? "-ign_eof" : "");
	f = popen(command, "r");
	assert_non_null(f);
	while ((n = fread(part, 1, sizeof(part), f)))
		buf_append(out, part, n);
	pclose(f);
}

static void test_a_server_with_tls(void **state)
{
	struct tls_context *tls = context(server_options());
	struct server s;
	struct buf got;
	int fd;

	(void)state;
	start(&s, tls);
	buf_init(&got, 0);
	s_client(&s, "-alpn http/1.1",
		 "POST /echo HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\nContent-Length: "
		 "11\\r\\n\\r\\nover TLS ok",
		 &got);
	if (str_search(buf_view(&got), STR("over TLS ok")) < 0)
		fail_msg("%.*s", STR_ARG(buf_view(&got)));
	assert_true(str_search(buf_view(&got), STR("ALPN protocol: http/1.1")) > 0);
	buf_reset(&got);
	s_client(&s, "-alpn h2", "", &got);
	assert_true(str_search(buf_view(&got), STR("ALPN protocol: h2")) > 0);
	/* Plain text to a TLS port. */
	buf_reset(&got);
	fd = peer_connect(&s);
	peer_send(fd, STR("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_true(peer_read(fd, &got, NULL, 0));
	assert_int_equal(refused(&s, "tls"), 1);
	close(fd);
	buf_release(&got);
	server_stop(&s);
	tls_context_free(tls);
}

static void test_a_bad_reload_keeps_the_old(void **state)
{
	struct tls_context *tls;
	struct err err = { 0 };
	struct server s;
	struct buf got;

	(void)state;
	run("cd %s && cp server.pem live.pem && cp server.key live.key", dir);
	tls = context((struct tls_options){
		.server = true, .cert_file = file("live.pem"), .key_file = file("live.key") });
	start(&s, tls);
	buf_init(&got, 0);
	run("cp %s/bad.pem %s/live.pem", dir, dir);
	assert_false(tls_context_reload(tls, &err));
	assert_non_null(strstr(err.msg, "live.pem"));
	s_client(&s, "", "", &got);
	assert_true(str_search(buf_view(&got), STR("subject=CN = server")) > 0);
	run("cd %s && cp client.pem live.pem && cp client.key live.key", dir);
	assert_true(tls_context_reload(tls, &err));
	buf_reset(&got);
	s_client(&s, "", "", &got);
	assert_true(str_search(buf_view(&got), STR("subject=CN = client")) > 0);
	buf_release(&got);
	server_stop(&s);
	tls_context_free(tls);
}

static void test_large_transfer_in_memory(void **state)
{
	enum { SIZE = 1000000 };
	struct tls_context *sc = context(server_options()), *cc = context(client_options());
	char *sent = malloc(SIZE), *got = malloc(SIZE + 1);
	struct tls_session *s, *c;
	struct err err = { 0 };
	bool ended;
	size_t n;

	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		sent[i] = (char)(i * 31 >> 3);
	s = tls_session_new(sc, NULL, &err);
	c = tls_session_new(cc, "server.test", &err);
	assert_true(shake(c, s, &err));
	assert_true(tls_session_write(c, str_from(sent, SIZE), &err));
	tls_session_goodbye(c);
	assert_true(carry(c, s, &err));
	assert_true(tls_session_read(s, got, SIZE + 1, &n, &ended, &err));
	assert_int_equal(n, SIZE);
	assert_true(ended);
	assert_memory_equal(sent, got, SIZE);
	tls_session_free(s);
	tls_session_free(c);
	tls_context_free(sc);
	tls_context_free(cc);
	free(sent);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handshakes),
		cmocka_unit_test(test_errors_name_the_file),
		cmocka_unit_test(test_large_transfer_in_memory),
		cmocka_unit_test(test_a_server_with_tls),
		cmocka_unit_test(test_a_bad_reload_keeps_the_old),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
