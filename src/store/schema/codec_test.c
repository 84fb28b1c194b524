/* codec_test.c - lists of numbers: whatever was put comes back, cut ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/schema/codec.h"

enum { NUMBERS = 200 };

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 11 ^ *state;
}

/* Of a heap block of its own length, so that a read beyond it is seen. */
static size_t get_list(struct str bytes, size_t len, uint64_t *out)
{
	char *own = malloc(len + !len);
	size_t count;

	assert_non_null(own);
	memcpy(own, bytes.ptr, len);
	count = codec_get_list(str_from(own, len), out);
	free(own);
	return count;
}

/* bits: how long the numbers are, at most; runs of the same length as rows have them, and mixed. */
static void check_list(unsigned bits, bool mixed, uint64_t seed)
{
	uint64_t in[NUMBERS], out[NUMBERS * 10 + 1];
	struct buf b;

	buf_init(&b, 0);
	for (int i = 0; i < NUMBERS; i++) {
		unsigned n = mixed ? (unsigned)(next_random(&seed) % bits) + 1 : bits;

		in[i] = next_random(&seed) & (UINT64_MAX >> (64 - n));
		if (!mixed)
			in[i] |= UINT64_C(1) << (n - 1);
		codec_put(&b, in[i]);
	}
	assert_int_equal(get_list(buf_view(&b), b.len, out), NUMBERS);
	assert_memory_equal(in, out, sizeof(in));
	for (size_t len = 0; len < b.len; len++) {
		bool whole = !len || (uint8_t)b.ptr[len - 1] < 0x80;
		size_t count = get_list(buf_view(&b), len, out);

		assert_true(whole ? count < NUMBERS : count == SIZE_MAX);
		if (whole)
			assert_memory_equal(in, out, count * sizeof(*in));
	}
	buf_release(&b);
}

static void test_lists(void **state)
{
	(void)state;
	for (unsigned bits = 1; bits <= 64; bits++) {
		check_list(bits, false, bits);
		check_list(bits, true, 100 + bits);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lists) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
