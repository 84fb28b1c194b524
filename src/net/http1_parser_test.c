#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/http1_parser.h"

#define HOST "Host: a\r\n"

static const struct {
	const char *in;
	enum http1_result want;
} heads[] = {
	{ "GET / HTTP/1.1\r\n" HOST "\r\n", HTTP1_OK },
	{ "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", HTTP1_OK },
	{ "GET / HTTP/1.1\n" HOST "\n", HTTP1_OK }, /* bare LF may end a line: RFC 9112, 2.2 */
	{ "GET / HTTP/1.0\r\n\r\n", HTTP1_OK },
	{ "GET / HTTP/1.1\r\n" HOST, HTTP1_MORE },
	{ "GET / HT", HTTP1_MORE },
	{ "", HTTP1_MORE },
	{ "GET / HTTP/1.1\r\n\r\n", HTTP1_BAD }, /* no Host */
	{ "GET / HTTP/1.1\r\n" HOST HOST "\r\n", HTTP1_BAD },
	{ "GET / HTTP/2.0\r\n" HOST "\r\n", HTTP1_BAD_VERSION },
	{ "GET / HTTP/1.2\r\n" HOST "\r\n", HTTP1_BAD_VERSION },
	{ "GET / http/1.1\r\n" HOST "\r\n", HTTP1_BAD },
	{ "GET  / HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD },
	{ "GET /\r\n" HOST "\r\n", HTTP1_BAD },
	{ "G\x01T / HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD },
	{ "GET /a b HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD },
	{ "GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", HTTP1_BAD }, /* RFC 9112, 5.1 */
	{ "GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", HTTP1_BAD },
	{ "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", HTTP1_BAD },
	{ "GET / HTTP/1.1\r\n" HOST "nocolon\r\n\r\n", HTTP1_BAD },
	{ "GET / HTTP/1.1\r\n" HOST "a: b\rc\r\n\r\n", HTTP1_BAD },
	{ "GET / HTTP/1.1\r\n" HOST "a: \x7f\r\n\r\n", HTTP1_BAD },
	/* Smuggling. */
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	  HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
	  HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
	  HTTP1_UNKNOWN_CODING },
	{ "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", HTTP1_UNKNOWN_CODING },
	{ "POST / HTTP/1.1\r\n" HOST
	  "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
	  HTTP1_BAD },
	{ "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", HTTP1_OK },
	{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_BAD },
};

/* A copy without a byte behind it, so that ASan sees a read past the end. */
static struct str exact(struct str s)
{
	char *p = malloc(s.len ? s.len : 1);

	memcpy(p, s.ptr, s.len);
	return str_from(p, s.len);
}

static void test_heads(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct str in = exact(str_cstr(heads[i].in));
		struct http1_head head;
		const char *why = "";
		size_t used;
		enum http1_result rc = http1_parse_head(in, &head, &used, &why);

		if (rc != heads[i].want)
			fail_msg("row %zu gives %d (%s), want %d: %s", i, rc, why, heads[i].want,
				 heads[i].in);
		if (rc == HTTP1_OK)
			assert_int_equal(used, in.len);
		if (rc != HTTP1_OK && rc != HTTP1_MORE)
			assert_true(why[0]);
		free((char *)in.ptr);
	}
}

static void test_fields(void **state)
{
	static const char in[] = "POST /a?b=c HTTP/1.1\r\nhOST: x\r\nExpect: 100-Continue\r\n"
				 "Content-Length:   12  \r\nConnection: foo, Close\r\n\r\nbody";
	struct http1_head head;
	const char *why;
	size_t used;

	(void)state;
	assert_int_equal(http1_parse_head(str_cstr(in), &head, &used, &why), HTTP1_OK);
	assert_int_equal(used, sizeof(in) - 1 - 4);
	assert_true(str_is(head.method, "POST"));
	assert_true(str_is(head.target, "/a?b=c"));
	assert_int_equal(head.header_count, 4);
	assert_true(str_is(head.headers[2].value, "12"));
	assert_true(head.has_length && head.content_length == 12 && !head.chunked);
	assert_true(head.expect_continue && !head.keep_alive);
}

static void test_limits(void **state)
{
	struct http1_head head;
	const char *why;
	struct buf b;
	size_t used;

	(void)state;
	buf_init(&b, 0);
	buf_lit(&b, "GET / HTTP/1.1\r\n" HOST "a: ");
	while (b.len <= HTTP1_HEAD_BYTES_MOST)
		buf_char(&b, 'x');
	assert_int_equal(http1_parse_head(buf_view(&b), &head, &used, &why), HTTP1_TOO_LARGE);
	buf_reset(&b);
	buf_lit(&b, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP1_HEADERS_MOST; i++)
		buf_lit(&b, "a: b\r\n");
	buf_lit(&b, "\r\n");
	assert_int_equal(http1_parse_head(buf_view(&b), &head, &used, &why), HTTP1_TOO_LARGE);
	buf_release(&b);
}

static void test_whole_is_seen_at_any_cut(void **state)
{
	static const char in[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
	size_t scanned = 0;

	(void)state;
	for (size_t n = 0; n < sizeof(in) - 1; n++)
		assert_false(http1_head_is_whole(str_from(in, n), &scanned));
	assert_true(http1_head_is_whole(str_cstr(in), &scanned));
}

static const struct {
	const char *in, *body, *rest;
	enum http1_result want;
} bodies[] = {
	{ "3\r\nabc\r\n0\r\n\r\nnext", "abc", "next", HTTP1_OK },
	{ "3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: u\r\n\r\n", "abc0123456789", "", HTTP1_OK },
	{ "0\r\n\r\n", "", "", HTTP1_OK },
	{ "000\r\n\r\n", "", "", HTTP1_OK },
	{ "3\r\nab", "ab", "", HTTP1_MORE },
	{ "\r\n", "", NULL, HTTP1_BAD },
	{ "g\r\n", "", NULL, HTTP1_BAD },
	{ "-1\r\n", "", NULL, HTTP1_BAD },
	{ "3\nabc\r\n", "", NULL, HTTP1_BAD },
	{ "3 \r\nabc\r\n", "", NULL, HTTP1_BAD },
	{ "3\r\nabcd\r\n", "abc", NULL, HTTP1_BAD },
	{ "3\r\nabc\n0\r\n\r\n", "abc", NULL, HTTP1_BAD },
	{ "3;a\nb\r\nabc\r\n", "", NULL, HTTP1_BAD },
	{ "ffffffffffffffff\r\n", "", NULL, HTTP1_BAD },
	{ "0\r\nT: u\n\r\n", "", NULL, HTTP1_BAD },
};

static enum http1_result run_chunks(struct str in, size_t step, struct buf *body, struct str *rest)
{
	struct http1_chunked c = { 0 };
	enum http1_result rc = HTTP1_MORE;
	const char *why = "";

	*rest = in;
	for (size_t at = 0; at < in.len && rc == HTTP1_MORE; at += step) {
		struct str part = str_head(str_skip(in, at), step), data;

		do {
			rc = http1_chunked_next(&c, &part, &data, &why);
			buf_str(body, data);
		} while (rc == HTTP1_MORE && part.len);
		*rest = part.len ? str_from(part.ptr, (size_t)(in.ptr + in.len - part.ptr))
				 : str_skip(in, at + step);
	}
	return rc;
}

static void test_chunks(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		for (size_t step = 1; step < 40; step++) {
			struct str in = exact(str_cstr(bodies[i].in)), rest;
			enum http1_result rc;
			struct buf body;

			buf_init(&body, 0);
			rc = run_chunks(in, step, &body, &rest);
			if (rc != bodies[i].want || !str_is(buf_view(&body), bodies[i].body))
				fail_msg("row %zu step %zu: %d, body \"%.*s\"", i, step, rc,
					 STR_ARG(buf_view(&body)));
			if (rc == HTTP1_OK)
				assert_true(str_is(rest, bodies[i].rest));
			buf_release(&body);
			free((char *)in.ptr);
		}
}

static void test_endless_extensions_end(void **state)
{
	struct http1_chunked c = { 0 };
	enum http1_result rc = HTTP1_MORE;
	const char *why;
	struct str data;

	(void)state;
	for (int i = 0; i < 100000 && rc == HTTP1_MORE; i++) {
		struct str in = i ? STR("x") : STR("1;");

		rc = http1_chunked_next(&c, &in, &data, &why);
	}
	assert_int_equal(rc, HTTP1_TOO_LARGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heads),  cmocka_unit_test(test_fields),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_whole_is_seen_at_any_cut),
		cmocka_unit_test(test_chunks), cmocka_unit_test(test_endless_extensions_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
