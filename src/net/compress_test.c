#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "net/compress.h"

/* Made by Python's gzip and zlib, zstd(1), lz4(1) and python-snappy; not by us. */
static const char text[] = "flame flame flame graph: flame flame flame\n";
/* clang-format off */
static const unsigned char by_gzip[] = {
	0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0xcb, 0x49, 0xcc,
	0x4d, 0x55, 0x48, 0x43, 0x22, 0xd3, 0x8b, 0x12, 0x0b, 0x32, 0xac, 0x50, 0x84, 0xc0,
	0x24, 0x17, 0x00, 0xbf, 0xfd, 0x2f, 0x19, 0x2b, 0x00, 0x00, 0x00,
};
static const unsigned char by_zlib[] = {
	0x78, 0x9c, 0x4b, 0xcb, 0x49, 0xcc, 0x4d, 0x55, 0x48, 0x43, 0x22, 0xd3, 0x8b, 0x12,
	0x0b, 0x32, 0xac, 0x50, 0x84, 0xc0, 0x24, 0x17, 0x00, 0x55, 0xf3, 0x0f, 0x35,
};
static const unsigned char by_raw_deflate[] = {
	0x4b, 0xcb, 0x49, 0xcc, 0x4d, 0x55, 0x48, 0x43, 0x22, 0xd3, 0x8b, 0x12, 0x0b, 0x32,
	0xac, 0x50, 0x84, 0xc0, 0x24, 0x17, 0x00,
};
static const unsigned char by_zstd[] = {
	0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0xdd, 0x00, 0x00, 0x90, 0x66, 0x6c, 0x61, 0x6d,
	0x65, 0x20, 0x67, 0x72, 0x61, 0x70, 0x68, 0x3a, 0x66, 0x6c, 0x61, 0x6d, 0x65, 0x0a,
	0x02, 0x00, 0x36, 0x8f, 0x12, 0xae, 0x14, 0x01, 0x4c, 0x03, 0x82, 0x8d,
};
static const unsigned char by_lz4[] = {
	0x04, 0x22, 0x4d, 0x18, 0x64, 0x40, 0xa7, 0x19, 0x00, 0x00, 0x00, 0x68, 0x66, 0x6c,
	0x61, 0x6d, 0x65, 0x20, 0x06, 0x00, 0x69, 0x67, 0x72, 0x61, 0x70, 0x68, 0x3a, 0x13,
	0x00, 0x60, 0x66, 0x6c, 0x61, 0x6d, 0x65, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x73, 0x6d,
	0x4a, 0x8b,
};
static const unsigned char by_snappy[] = {
	0x2b, 0x14, 0x66, 0x6c, 0x61, 0x6d, 0x65, 0x20, 0x2e, 0x06, 0x00, 0x14, 0x67, 0x72,
	0x61, 0x70, 0x68, 0x3a, 0x32, 0x13, 0x00, 0x14, 0x66, 0x6c, 0x61, 0x6d, 0x65, 0x0a,
};
static const unsigned char by_snappy_framed[] = {
	0xff, 0x06, 0x00, 0x00, 0x73, 0x4e, 0x61, 0x50, 0x70, 0x59, 0x00, 0x20, 0x00, 0x00,
	0xb5, 0x09, 0x80, 0x65, 0x2b, 0x14, 0x66, 0x6c, 0x61, 0x6d, 0x65, 0x20, 0x2e, 0x06,
	0x00, 0x14, 0x67, 0x72, 0x61, 0x70, 0x68, 0x3a, 0x32, 0x13, 0x00, 0x14, 0x66, 0x6c,
	0x61, 0x6d, 0x65, 0x0a,
};
/* clang-format on */

static const struct foreign {
	enum compression kind;
	const unsigned char *bytes;
	size_t len;
} foreign[] = {
	{ COMPRESSION_GZIP, by_gzip, sizeof(by_gzip) },
	{ COMPRESSION_DEFLATE, by_zlib, sizeof(by_zlib) },
	{ COMPRESSION_DEFLATE, by_raw_deflate, sizeof(by_raw_deflate) },
	{ COMPRESSION_ZSTD, by_zstd, sizeof(by_zstd) },
	{ COMPRESSION_LZ4, by_lz4, sizeof(by_lz4) },
	{ COMPRESSION_SNAPPY, by_snappy, sizeof(by_snappy) },
	{ COMPRESSION_SNAPPY_FRAMED, by_snappy_framed, sizeof(by_snappy_framed) },
};

static const enum compression all[] = {
	COMPRESSION_NONE,   COMPRESSION_GZIP,          COMPRESSION_DEFLATE, COMPRESSION_ZSTD,
	COMPRESSION_SNAPPY, COMPRESSION_SNAPPY_FRAMED, COMPRESSION_LZ4,
};

static void test_reads_what_others_wrote(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		struct err err = { 0 };
		struct blob *b = decompress(foreign[i].kind,
					    str_from(foreign[i].bytes, foreign[i].len), 1000, &err);

		if (!b)
			fail_msg("row %zu: %s", i, err.msg);
		assert_true(str_is(blob_view(b), text));
		blob_unref(b);
	}
}

/* Whatever is cut off or follows, there is an error or the text, and never more than the limit. */
static void test_cut_input_is_an_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
		for (size_t len = 0; len < foreign[i].len; len++) {
			struct err err = { 0 };
			char *exact = malloc(len + 1); /* so that ASan sees a read past the end */
			struct blob *b;

			memcpy(exact, foreign[i].bytes, len);
			b = decompress(foreign[i].kind, str_from(exact, len), 1000, &err);
			if (b && str_is(blob_view(b), text))
				fail_msg("row %zu: %zu of %zu bytes were enough", i, len,
					 foreign[i].len);
			if (!b && err.kind != ERR_INVALID)
				fail_msg("row %zu, %zu bytes: kind %d, %s", i, len, err.kind,
					 err.msg);
			/* No bytes of zstd, and whole chunks of framed snappy, are valid. */
			if (b)
				assert_true(b->len == 0);
			blob_unref(b);
			free(exact);
		}
}

static struct buf compressed(enum compression kind, struct str in)
{
	struct err err = { 0 };
	struct buf out;

	buf_init(&out, 0);
	if (!compress_into(kind, 0, in, &out, &err))
		fail_msg("%s: %s", compression_name(kind), err.msg);
	return out;
}

static void test_round_trip(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 65535, 65536, 65537, 1000000 };
	char *data = malloc(1000000);
	uint32_t x = 1;

	(void)state;
	for (size_t i = 0; i < 1000000; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (char)(x >> 28); /* compressible, not trivial */
	}
	for (size_t k = 0; k < ARRAY_LEN(all); k++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			struct str in = str_from(data, sizes[i]);
			struct buf packed = compressed(all[k], in);
			struct err err = { 0 };
			struct blob *b = decompress(all[k], buf_view(&packed), sizes[i], &err);

			if (!b)
				fail_msg("%s of %zu: %s", compression_name(all[k]), sizes[i],
					 err.msg);
			assert_true(str_equal(blob_view(b), in));
			blob_unref(b);
			buf_release(&packed);
		}
	free(data);
}

static void test_a_bomb_costs_no_more_than_the_limit(void **state)
{
	enum { BOMB = 32 * 1024 * 1024, LIMIT = 100000 };
	char *zeros = calloc(1, BOMB);

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		struct buf packed = compressed(all[k], str_from(zeros, BOMB));
		struct budget budget;
		struct err err = { 0 };

		budget_init(&budget, 0);
		assert_null(decompress_charged(all[k], buf_view(&packed), LIMIT, &budget, &err));
		if (err.kind != ERR_LIMIT)
			fail_msg("%s: kind %d, %s", compression_name(all[k]), err.kind, err.msg);
		assert_int_equal(budget_used(&budget), 0);
		assert_true(atomic_load(&budget.peak_bytes) <= LIMIT);
		buf_release(&packed);
	}
	free(zeros);
}

/* A member of `size` zeros and a short one; announced is the last one's size alone. */
static struct buf two_members(enum compression kind, size_t size)
{
	char *zeros = calloc(1, size);
	struct buf packed = compressed(kind, str_from(zeros, size));
	struct buf small = compressed(kind, STR("x"));

	buf_str(&packed, buf_view(&small));
	buf_release(&small);
	free(zeros);
	return packed;
}

static void test_what_becomes_much_is_counted_first(void **state)
{
	enum { MIB = 1 << 20, BOMB = 100 * MIB };
	char *zeros = calloc(1, BOMB);
	struct buf packed[] = { compressed(COMPRESSION_GZIP, str_from(zeros, BOMB)),
				two_members(COMPRESSION_GZIP, BOMB) };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(packed); i++) {
		struct budget budget;
		struct err err = { 0 };
		struct blob *b;

		budget_init(&budget, 0);
		assert_null(decompress_charged(COMPRESSION_GZIP, buf_view(&packed[i]),
					       BOMB - 10 * MIB, &budget, &err));
		assert_int_equal(err.kind, ERR_LIMIT);
		assert_in_range(atomic_load(&budget.peak_bytes), 0, 64 * MIB);
		b = decompress(COMPRESSION_GZIP, buf_view(&packed[i]), 2 * (size_t)BOMB, &err);
		assert_non_null(b);
		assert_int_equal(b->len, BOMB + i);
		assert_true(b->cap <= BOMB + 2);
		blob_unref(b);
		buf_release(&packed[i]);
	}
	free(zeros);
}

static void test_the_budget_is_charged(void **state)
{
	enum { SIZE = 200000 };
	char *data = calloc(1, SIZE);

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		struct buf packed = compressed(all[k], str_from(data, SIZE));
		struct budget budget;
		struct err err = { 0 };
		struct blob *b;

		budget_init(&budget, SIZE / 2);
		assert_null(decompress_charged(all[k], buf_view(&packed), SIZE, &budget, &err));
		assert_int_equal(err.kind, ERR_BUSY);
		assert_int_equal(budget_used(&budget), 0);
		budget.limit_bytes = 4 * SIZE;
		b = decompress_charged(all[k], buf_view(&packed), 2 * SIZE, &budget, &err);
		assert_non_null(b);
		assert_true(budget_used(&budget) >= SIZE && budget_used(&budget) <= 2 * SIZE);
		blob_unref(b);
		assert_int_equal(budget_used(&budget), 0);
		buf_release(&packed);
	}
	free(data);
}

static void test_a_lying_size_costs_little(void **state)
{
	/* gzip: ISIZE says 4 GiB - 1; snappy: 1 GiB announced in 6 bytes. */
	unsigned char gzip[sizeof(by_gzip)];
	static const unsigned char snappy[] = { 0x80, 0x80, 0x80, 0x80, 0x04, 0x00 };
	struct budget budget;
	struct err err = { 0 };

	(void)state;
	memcpy(gzip, by_gzip, sizeof(gzip));
	memset(gzip + sizeof(gzip) - 4, 0xff, 4);
	budget_init(&budget, 0);
	assert_null(decompress_charged(COMPRESSION_GZIP, str_from(gzip, sizeof(gzip)),
				       (size_t)1 << 31, &budget, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	assert_null(decompress_charged(COMPRESSION_SNAPPY, str_from(snappy, sizeof(snappy)),
				       (size_t)1 << 31, &budget, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	assert_true(atomic_load(&budget.peak_bytes) < 100000);
}

static void test_gzip_members_follow_each_other(void **state)
{
	unsigned char two[2 * sizeof(by_gzip)];
	struct err err = { 0 };
	struct blob *b;

	(void)state;
	memcpy(two, by_gzip, sizeof(by_gzip));
	memcpy(two + sizeof(by_gzip), by_gzip, sizeof(by_gzip));
	b = decompress(COMPRESSION_GZIP, str_from(two, sizeof(two)), 1000, &err);
	assert_non_null(b);
	assert_int_equal(b->len, 2 * (sizeof(text) - 1));
	blob_unref(b);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool ok;
		enum compression kind;
	} cases[] = {
		{ "gzip", true, COMPRESSION_GZIP },
		{ "GZIP", true, COMPRESSION_GZIP },
		{ "x-gzip", true, COMPRESSION_GZIP },
		{ "deflate", true, COMPRESSION_DEFLATE },
		{ "zlib", true, COMPRESSION_DEFLATE },
		{ "zstd", true, COMPRESSION_ZSTD },
		{ "snappy", true, COMPRESSION_SNAPPY },
		{ "x-snappy-framed", true, COMPRESSION_SNAPPY_FRAMED },
		{ "lz4", true, COMPRESSION_LZ4 },
		{ "", true, COMPRESSION_NONE },
		{ "identity", true, COMPRESSION_NONE },
		{ "none", true, COMPRESSION_NONE },
		{ "br", false, 0 },
		{ "gzip, gzip", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum compression kind = COMPRESSION_NONE;

		if (compression_parse(str_cstr(cases[i].name), &kind) != cases[i].ok ||
		    (cases[i].ok && kind != cases[i].kind))
			fail_msg("\"%s\" is kind %d", cases[i].name, kind);
	}
	assert_int_equal(compression_sniff(str_from(by_gzip, sizeof(by_gzip))), COMPRESSION_GZIP);
	assert_int_equal(compression_sniff(str_from(by_zstd, sizeof(by_zstd))), COMPRESSION_ZSTD);
	assert_int_equal(compression_sniff(STR("x")), COMPRESSION_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_what_others_wrote),
		cmocka_unit_test(test_cut_input_is_an_error),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_a_bomb_costs_no_more_than_the_limit),
		cmocka_unit_test(test_what_becomes_much_is_counted_first),
		cmocka_unit_test(test_the_budget_is_charged),
		cmocka_unit_test(test_a_lying_size_costs_little),
		cmocka_unit_test(test_gzip_members_follow_each_other),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
