#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/grpc_frame.h"
#include "net/proto_text.h"

static void test_timeouts(void **state)
{
	static const struct {
		const char *in;
		bool ok;
		uint64_t want_ns;
	} cases[] = {
		{ "5S", true, 5 * SECOND_NS },
		{ "5000000u", true, 5 * SECOND_NS },
		{ "1H", true, 60 * MINUTE_NS },
		{ "2M", true, 2 * MINUTE_NS },
		{ "100m", true, 100 * MILLI_NS },
		{ "99999999n", true, 99999999 },
		{ "0n", true, 0 },
		{ "99999999H", true, UINT64_MAX }, /* 11,000 years: more than 64 bits of ns */
		{ "100000000n", false, 0 },        /* nine digits */
		{ "S", false, 0 },
		{ "", false, 0 },
		{ "5", false, 0 },
		{ "5s", false, 0 },
		{ "-5S", false, 0 },
		{ "5 S", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 0;
		bool ok = grpc_timeout_parse(str_cstr(cases[i].in), &ns);

		if (ok != cases[i].ok || ns != cases[i].want_ns)
			fail_msg("\"%s\": %d, %llu", cases[i].in, ok, (unsigned long long)ns);
	}
}

static void test_messages_are_encoded(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "plain text", "plain text" }, { "100%", "100%25" }, { "a\nb", "a%0Ab" },
		{ "\xc3\xa9", "%C3%A9" },       { "~", "~" },         { "\x7f", "%7F" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out;

		buf_init(&out, 0);
		grpc_message_encode(&out, str_cstr(cases[i].in));
		if (!str_is(buf_view(&out), cases[i].want))
			fail_msg("\"%s\" gives \"%.*s\"", cases[i].in, STR_ARG(buf_view(&out)));
		buf_release(&out);
	}
}

static void test_frames_at_any_cut(void **state)
{
	static const char wire[] = "\0\0\0\0\3abc\1\0\0\0\0\0\0\0\0\1z";
	struct str all = str_from(wire, sizeof(wire) - 1);

	(void)state;
	for (size_t step = 1; step <= all.len; step++) {
		struct grpc_frame_reader r = { 0 };
		unsigned ends = 0, compressed = 0;
		char got[8];
		size_t n = 0;

		for (size_t at = 0; at < all.len; at += step) {
			struct str in = str_head(str_skip(all, at), step), piece;
			enum grpc_frame_event e;

			while ((e = grpc_frame_next(&r, &in, &piece)) != GRPC_FRAME_MORE) {
				assert_int_not_equal(e, GRPC_FRAME_BAD);
				if (e == GRPC_FRAME_DATA) {
					assert_true(n + piece.len < sizeof(got));
					memcpy(got + n, piece.ptr, piece.len);
					n += piece.len;
				}
				ends += e == GRPC_FRAME_END;
				compressed += e == GRPC_FRAME_BEGIN && r.compressed;
			}
		}
		assert_int_equal(ends, 3);
		assert_int_equal(compressed, 1);
		assert_true(grpc_frame_at_boundary(&r));
		assert_true(n == 4 && !memcmp(got, "abcz", 4));
	}
}

static void test_bad_flag(void **state)
{
	struct grpc_frame_reader r = { 0 };
	struct str in = STR("\2"), piece;

	(void)state;
	assert_int_equal(grpc_frame_next(&r, &in, &piece), GRPC_FRAME_BAD);
}

static void test_retry_info(void **state)
{
	/* From google.rpc.status_pb2 and error_details_pb2 of Python's googleapis-common-protos. */
	static const char want[] = "\x08\x0e\x12\x04"
				   "busy\x1a\x36\x0a("
				   "type.googleapis.com/google.rpc.RetryInfo"
				   "\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	grpc_status_with_retry(&out, 14, STR("busy"), 1500 * MILLI_NS);
	assert_true(str_is(buf_view(&out), want));
	buf_reset(&out);
	grpc_base64_encode(&out, STR("ab"));
	assert_true(str_is(buf_view(&out), "YWI")); /* no padding */
	buf_release(&out);
}

static void test_proto_fields(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		unsigned fields;
		bool whole;
	} cases[] = {
		{ "\x08\x01\x12\x02hi", 6, 2, true },
		{ "\x0d\1\2\3\4\x11\1\2\3\4\5\6\7\10", 14, 2, true },
		{ "", 0, 0, true },
		{ "\x12\x05hi", 4, 0, false }, /* longer than the message */
		{ "\x08", 1, 0, false },       /* no value */
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 0, false },
		{ "\x0b", 1, 0, false },     /* a group */
		{ "\x00\x01", 2, 0, false }, /* field 0 */
		{ "\x0d\1\2\3", 4, 0, false },
		{ "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str in = str_from(cases[i].in, cases[i].len);
		struct proto_field f;
		unsigned n = 0;

		while (proto_next(&in, &f))
			n++;
		if (n != cases[i].fields || (in.len == 0) != cases[i].whole)
			fail_msg("row %zu: %u fields, %zu bytes left", i, n, in.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_messages_are_encoded),
		cmocka_unit_test(test_frames_at_any_cut),
		cmocka_unit_test(test_bad_flag),
		cmocka_unit_test(test_retry_info),
		cmocka_unit_test(test_proto_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
