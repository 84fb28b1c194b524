/* compress_torn_test.c - what comes out of cut and damaged gzip and zstd data. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "net/compress_torn.h"

enum { PLAIN_BYTES = 300000, LIMIT = 1 << 20 };

/* Text that packs to about a third, so that every part of the packed bytes matters. */
static void make_plain(struct buf *out)
{
	uint32_t x = 1;

	while (out->len < PLAIN_BYTES) {
		x = x * 1664525 + 1013904223;
		buf_printf(out, "frame %u;", x >> 12);
	}
}

static const enum compression kinds[] = { COMPRESSION_GZIP, COMPRESSION_ZSTD };

static void gives_the_head_of_what_is_cut(void **state)
{
	AUTO(buf_release) struct buf plain = { 0 };

	(void)state;
	make_plain(&plain);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		AUTO(buf_release) struct buf packed = { 0 };
		size_t last = 0, used;
		struct err err;

		assert_true(compress_into(kinds[i], 0, buf_view(&plain), &packed, &err));
		for (size_t part = 1; part <= 8; part++) {
			struct str in = str_head(buf_view(&packed), packed.len * part / 8);
			struct blob *got = decompress_torn(kinds[i], in, LIMIT, &used, &err);
			struct str text = got ? blob_view(got) : (struct str){ 0 };

			if (!str_equal(text, str_head(buf_view(&plain), text.len)))
				fail_msg("%s, %zu/8: not the head of it",
					 compression_name(kinds[i]), part);
			assert_true(part == 8 ? err.kind == ERR_NONE : err.kind == ERR_INVALID);
			if (part < 8)
				assert_non_null(strstr(err.msg, "cut short"));
			assert_true(text.len >= last && (part < 4 || text.len > PLAIN_BYTES / 4));
			last = text.len;
			blob_unref(got);
		}
		assert_int_equal(last, plain.len);
	}
}

static void stops_at_damage_and_at_the_limit(void **state)
{
	AUTO(buf_release) struct buf plain = { 0 };

	(void)state;
	make_plain(&plain);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		AUTO(buf_release) struct buf packed = { 0 };
		struct blob *got;
		size_t used;
		struct err err;

		assert_true(compress_into(kinds[i], 0, buf_view(&plain), &packed, &err));
		got = decompress_torn(kinds[i], buf_view(&packed), 1000, &used, &err);
		assert_int_equal(err.kind, ERR_LIMIT);
		assert_int_equal(blob_view(got).len, 1000);
		blob_unref(got);
		memset(packed.ptr + packed.len * 3 / 4, 0xff, 64);
		got = decompress_torn(kinds[i], buf_view(&packed), LIMIT, &used, &err);
		assert_int_equal(err.kind, ERR_INVALID);
		assert_true(got && blob_view(got).len > PLAIN_BYTES / 4);
		blob_unref(got);
	}
}

static void gives_all_members(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		AUTO(buf_release) struct buf packed = { 0 };
		struct blob *got;
		size_t used;
		struct err err;

		assert_true(compress_into(kinds[i], 0, STR("one,"), &packed, &err));
		assert_true(compress_into(kinds[i], 0, STR("two"), &packed, &err));
		got = decompress_torn(kinds[i], str_head(buf_view(&packed), packed.len - 2), LIMIT,
				      &used, &err);
		assert_true(got && str_has_prefix(blob_view(got), STR("one,")));
		assert_int_equal(err.kind, ERR_INVALID);
		blob_unref(got);
		got = decompress_torn(kinds[i], buf_view(&packed), LIMIT, &used, &err);
		assert_true(got && str_is(blob_view(got), "one,two"));
		assert_int_equal(err.kind, ERR_NONE);
		blob_unref(got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_the_head_of_what_is_cut),
		cmocka_unit_test(stops_at_damage_and_at_the_limit),
		cmocka_unit_test(gives_all_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
