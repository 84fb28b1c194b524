#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "wire/pb_reader.h"
#include "wire/pb_writer.h"

/* From protobuf.dev/programming-guides/encoding and the limits of each length. */
static const struct {
	uint64_t v;
	const char *bytes;
	size_t len;
} varints[] = {
	{ 0, "\x00", 1 },
	{ 1, "\x01", 1 },
	{ 127, "\x7f", 1 },
	{ 128, "\x80\x01", 2 },
	{ 150, "\x96\x01", 2 },
	{ 16383, "\xff\x7f", 2 },
	{ 16384, "\x80\x80\x01", 3 },
	{ UINT32_MAX, "\xff\xff\xff\xff\x0f", 5 },
	{ (uint64_t)INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9 },
	{ UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 },
};

static void test_varints(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(varints); i++) {
		struct buf out;
		struct pb_writer w;

		buf_init(&out, 0);
		pw_begin(&w, &out, 0);
		assert_true(pw_room(&w, PW_VARINT_MOST));
		pw_put_varint(&w, varints[i].v);
		assert_true(pw_finish(&w));
		if (out.len != varints[i].len || memcmp(out.ptr, varints[i].bytes, out.len) != 0)
			fail_msg("%llu is wrong", (unsigned long long)varints[i].v);
		buf_release(&out);
	}
}

static void test_fields_and_nesting(void **state)
{
	static const char want[] =
		"before\x08\x96\x01\x12\x07\x0a\x05\x08\x01\x12\x01z\x19\x01\0\0\0\0\0\0\0"
		"\x22\x03\x01\x80\x01\x2a\x00";
	const uint32_t list[] = { 1, 128 };
	struct buf out;
	struct pb_writer w;
	size_t outer, inner;

	(void)state;
	buf_init(&out, 0);
	buf_lit(&out, "before");
	pw_begin(&w, &out, 0);
	pw_bytes(&w, 6, (struct str){ 0 });
	pw_bytes_present(&w, 5, (struct str){ 0 });
	pw_packed_u32(&w, 4, list, 2);
	pw_packed_u32(&w, 7, list, 0);
	pw_fixed64(&w, 3, 1);
	pw_fixed64(&w, 8, 0);
	outer = pw_mark(&w);
	inner = pw_mark(&w);
	pw_bytes(&w, 2, STR("z"));
	pw_uint(&w, 1, 1);
	pw_message(&w, 1, inner);
	pw_message(&w, 2, outer);
	pw_uint(&w, 1, 150);
	assert_true(pw_finish(&w));
	assert_int_equal(out.len, sizeof(want) - 1);
	assert_memory_equal(out.ptr, want, out.len);
	buf_release(&out);
}

/* A message far larger than the guess: moved while it grows, whole at the end. */
static void test_grows(void **state)
{
	enum { MANY = 100000 };
	struct buf out;
	struct pb_writer w;
	struct pb_reader r;

	(void)state;
	buf_init(&out, 0);
	pw_begin(&w, &out, 0);
	for (uint32_t i = MANY; i-- > 0;)
		pw_uint_present(&w, 1, i);
	assert_true(pw_finish(&w));
	r = pb_reader_of(buf_view(&out));
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(pb_tag(&r), PB_TAG(1, PB_VARINT));
		assert_int_equal(pb_varint(&r), i);
	}
	assert_false(pb_more(&r));
	buf_release(&out);
}

/* To the byte: what fits the limit is written, one byte more is not, whatever was asked for in
 * between. */
static void test_limit(void **state)
{
	uint32_t list[300];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(list); i++)
		list[i] = 1;
	for (int over = 0; over < 2; over++) {
		struct buf out;
		struct pb_writer w;
		bool ok;

		buf_init(&out, (size_t)(4 + 3 + 300 - over));
		buf_lit(&out, "kept");
		pw_begin(&w, &out, 0);
		pw_packed_u32(&w, 1, list, ARRAY_LEN(list));
		ok = pw_finish(&w);
		assert_int_equal(ok, !over);
		assert_int_equal(out.failed, over);
		assert_int_equal(out.len, over ? 4 : 4 + 3 + 300);
		assert_memory_equal(out.ptr, "kept", 4);
		buf_char(&out, 'x'); /* the buffer's own limit holds again */
		assert_true(out.failed);
		buf_release(&out);
	}
}

/* Long past the limit no byte more is taken than the overshoot. */
static void test_stops_at_the_limit(void **state)
{
	struct buf out;
	struct pb_writer w;

	(void)state;
	buf_init(&out, 1000);
	pw_begin(&w, &out, 0);
	for (uint32_t i = 0; i < 100000; i++)
		pw_bytes(&w, 1, STR("a string that is far from short"));
	assert_true(out.cap < 16384);
	assert_false(pw_finish(&w));
	assert_int_equal(out.len, 0);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_fields_and_nesting),
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_stops_at_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
