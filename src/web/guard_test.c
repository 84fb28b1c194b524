/* Who is let in, asked over real requests: the guard stands before a handler that answers with its
 * verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "net/server_test.h"
#include "web/internal.h"

static void verdict(struct net_request *r, struct blob *body, void *ctx)
{
	const char *why = "";
	int status = web_guard_check(ctx, r, &why);

	blob_unref(body);
	net_reply_http(r, status ? status : 200, NULL, 0, str_cstr(why));
}

static int asked(const struct server *s, const char *method, const char *headers)
{
	AUTO(buf_release) struct buf request = { 0 }, answer = { 0 };
	AUTO(fd_close) int fd = peer_connect(s);

	buf_printf(&request, "%s / HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n",
		   method, headers);
	assert_true(peer_send(fd, buf_view(&request)));
	assert_true(peer_read(fd, &answer, "\r\n\r\n", 1));
	buf_char(&answer, '\0');
	return atoi(answer.ptr + sizeof("HTTP/1.1"));
}

struct row {
	const char *method, *headers;
	int want;
};

static void check(const struct web_options *options, const struct row *rows, size_t count)
{
	struct web_guard guard;
	struct server s;
	struct err err;

	assert_true(web_guard_init(&guard, options, &err));
	server_init(&s, (struct net_app_options){ 0 }, 0);
	net_app_route(s.app, NULL, "/", NULL, (struct net_handler){ verdict, &guard });
	server_listen(&s, NULL);
	for (size_t i = 0; i < count; i++) {
		int got = asked(&s, rows[i].method, rows[i].headers);

		if (got != rows[i].want)
			fail_msg("%s %s: %d", rows[i].method, rows[i].headers, got);
	}
	server_stop(&s);
	web_guard_release(&guard);
}

static void test_on_loopback(void **state)
{
	static const struct web_options options = { .address = "127.0.0.1:4040",
						    .allowed_hosts = "tap.example, Other.Example" };
	static const struct row rows[] = {
		{ "GET", "Host: 127.0.0.1:4040\r\n", 200 },
		{ "GET", "Host: LocalHost\r\n", 200 },
		{ "GET", "Host: [::1]:80\r\n", 200 },
		{ "GET", "Host: tap.example\r\n", 200 },
		{ "GET", "Host: other.example:1\r\n", 200 },
		{ "GET", "Host: evil.example:4040\r\n", 421 },
		{ "GET", "Host: tap.example.evil\r\n", 421 },
		{ "GET", "Host: 127.0.0.2\r\n", 421 },
		{ "GET", "Host: [::1\r\n", 421 },
		{ "GET", "Host: localhost\r\nOrigin: http://evil.example\r\n", 200 },
		{ "POST", "Host: localhost\r\n", 200 },
		{ "POST", "Host: localhost:4040\r\nOrigin: http://LocalHost:4040\r\n", 200 },
		{ "POST", "Host: localhost\r\nOrigin: http://localhost:80\r\n", 200 },
		{ "POST", "Host: [::1]:4040\r\nOrigin: http://[::1]:4040\r\n", 200 },
		/* other pages of this machine */
		{ "POST", "Host: localhost:4040\r\nOrigin: http://localhost:9999\r\n", 403 },
		{ "POST", "Host: localhost:4040\r\nOrigin: http://localhost\r\n", 403 },
		{ "POST", "Host: localhost:4040\r\nOrigin: http://127.0.0.1:4040\r\n", 403 },
		{ "POST", "Host: localhost:4040\r\nOrigin: https://localhost:4040\r\n", 403 },
		{ "POST", "Host: localhost:80\r\nOrigin: https://localhost:80\r\n", 403 },
		{ "POST", "Host: tap.example:4040\r\nOrigin: http://tap.example:4040\r\n", 200 },
		{ "POST", "Host: tap.example:8443\r\nOrigin: https://tap.example:8443\r\n", 200 },
		{ "POST", "Host: tap.example:4040\r\nOrigin: http://tap.example:9999\r\n", 403 },
		{ "POST", "Host: localhost\r\nOrigin: https://tap.example\r\n", 200 },
		{ "POST", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403 },
		{ "POST", "Host: localhost\r\nOrigin: http://localhost.evil\r\n", 403 },
		{ "POST", "Host: localhost\r\nOrigin: null\r\n", 403 },
		{ "DELETE", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403 },
		{ "POST", "Host: evil.example\r\nOrigin: http://evil.example\r\n", 421 },
		{ "GET", "Host:\r\n", 421 },
	};

	(void)state;
	check(&options, rows, ARRAY_LEN(rows));
}

/* Any name that leads to the machine is ours, and the page is opened at it. */
static void test_on_all_addresses(void **state)
{
	static const struct web_options plain = { .address = "0.0.0.0:4040" };
	static const struct web_options tls = { .address = "0.0.0.0:4040", .tls_cert_file = "x" };
	static const struct row rows[] = {
		{ "POST", "Host: 192.0.2.2:4040\r\nOrigin: http://192.0.2.2:4040\r\n", 200 },
		{ "POST", "Host: box.lan:4040\r\nOrigin: http://box.lan:4040\r\n", 200 },
		{ "POST", "Host: box.lan\r\nOrigin: https://box.lan\r\n", 200 }, /* a proxy's */
		{ "POST", "Host: 192.0.2.2:4040\r\nOrigin: http://192.0.2.2:9999\r\n", 403 },
		{ "POST", "Host: 192.0.2.2:4040\r\nOrigin: http://192.0.2.3:4040\r\n", 403 },
		{ "POST", "Host: 192.0.2.2:4040\r\nOrigin: http://localhost:4040\r\n", 403 },
	};
	static const struct row tls_rows[] = {
		{ "POST", "Host: box.lan:4040\r\nOrigin: https://box.lan:4040\r\n", 200 },
		{ "POST", "Host: box.lan\r\nOrigin: https://box.lan:443\r\n", 200 },
		{ "POST", "Host: box.lan:4040\r\nOrigin: http://box.lan:4040\r\n", 403 },
	};

	(void)state;
	check(&plain, rows, ARRAY_LEN(rows));
	check(&tls, tls_rows, ARRAY_LEN(tls_rows));
}

static void test_token(void **state)
{
	static const struct web_options options = { .address = "0.0.0.0:4040", .token = "sesame" };
	static const struct row rows[] = {
		{ "GET", "Host: a.example\r\n", 401 },
		{ "GET", "Host: a.example\r\nAuthorization: Bearer sesame\r\n", 200 },
		{ "GET", "Host: a.example\r\nAuthorization: bEARER sesame\r\n", 200 },
		{ "GET", "Host: a.example\r\nAuthorization: Bearer sesam\r\n", 401 },
		{ "GET", "Host: a.example\r\nAuthorization: Bearer sesamesesame\r\n", 401 },
		{ "GET", "Host: a.example\r\nAuthorization: Bearer Sesame\r\n", 401 },
		{ "GET", "Host: a.example\r\nAuthorization: sesame\r\n", 401 },
		{ "GET", "Host: a.example\r\nCookie: a=b; flametap_4040=sesame; c=d\r\n", 200 },
		{ "GET", "Host: a.example\r\nCookie: xflametap_4040=sesame\r\n", 401 },
		{ "GET", "Host: a.example\r\nCookie: flametap_4041=sesame\r\n", 401 },
		{ "GET", "Host: a.example\r\nCookie: flametap_4040=\r\n", 401 },
	};

	(void)state;
	check(&options, rows, ARRAY_LEN(rows));
}

static void test_files_of_secrets(void **state)
{
	static const struct row rows[] = {
		{ "GET", "Host: localhost\r\n", 401 },
		{ "GET", "Host: localhost\r\nAuthorization: Basic YW5uOnB3OjE=\r\n",
		  200 }, /* ann:pw:1 */
		{ "GET", "Host: localhost\r\nAuthorization: basic YW5uOnB3OjE\r\n", 200 },
		{ "GET", "Host: localhost\r\nAuthorization: Basic YW5uOnB3\r\n", 401 }, /* ann:pw */
		{ "GET", "Host: localhost\r\nAuthorization: Basic Ym9iOg==\r\n", 200 }, /* bob: */
		{ "GET", "Host: localhost\r\nAuthorization: Basic IyB4OnkK\r\n", 401 },
		{ "GET", "Host: localhost\r\nAuthorization: Basic !\r\n", 401 },
		{ "GET", "Host: localhost\r\nAuthorization: Bearer one\r\n", 200 },
		{ "GET", "Host: localhost\r\nAuthorization: Bearer two\r\n", 200 },
		{ "GET", "Host: localhost\r\nAuthorization: Bearer \r\n", 401 },
		{ "GET", "Host: localhost\r\nAuthorization: Bearer ann:pw:1\r\n", 401 },
		{ "GET", "Host: localhost\r\nCookie: flametap_4040=one\r\n", 401 },
	};
	char basic[] = "/tmp/flametap-guard-XXXXXX", bearer[] = "/tmp/flametap-guard-XXXXXX";
	struct web_options options = { .address = "127.0.0.1:4040",
				       .basic_file = basic,
				       .bearer_file = bearer };
	AUTO(fd_close) int a = mkstemp(basic);
	AUTO(fd_close) int b = mkstemp(bearer);
	struct web_guard guard;
	struct err err;

	(void)state;
	assert_false(web_guard_init(&guard, &options, &err)); /* nothing in it */
	web_guard_release(&guard);
	assert_int_equal(dprintf(a, "# x:y\nann:pw:1\n\n bob: \n"), 23);
	assert_int_equal(dprintf(b, "one\n#three\ntwo"), 14);
	check(&options, rows, ARRAY_LEN(rows));
	assert_int_equal(dprintf(a, "carl\n"), 5);
	assert_false(web_guard_init(&guard, &options, &err)); /* no password */
	web_guard_release(&guard);
	unlink(basic);
	unlink(bearer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_on_loopback),
		cmocka_unit_test(test_on_all_addresses),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_files_of_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
