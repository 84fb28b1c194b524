/* large_pages_test.c - blocks side by side: none overlaps another, and all room comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "query/large_pages.h"

enum { BLOCKS = 64, STEPS = 20000, BYTES_MOST = 100000 };
static const size_t room = (size_t)4 << 20;

struct block {
	unsigned char *ptr, fill;
	size_t bytes;
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void expect_fill(const struct block *b)
{
	for (size_t i = 0; i < b->bytes; i++)
		assert_int_equal(b->ptr[i], b->fill);
}

static void drop(struct large_pages *l, struct block *b)
{
	expect_fill(b);
	large_pages_give_back(l, b->ptr, b->bytes);
	b->ptr = NULL;
}

static void take(struct large_pages *l, struct block *b, size_t bytes, bool zeros,
		 unsigned char fill)
{
	*b = (struct block){ large_pages_take(l, bytes, zeros), fill, bytes };
	if (!b->ptr)
		return;
	assert_true(large_pages_have(l, b->ptr) && large_pages_have(l, b->ptr + bytes - 1));
	assert_int_equal((uintptr_t)b->ptr % 64, 0);
	for (size_t i = 0; zeros && i < bytes; i++)
		assert_int_equal(b->ptr[i], 0);
	memset(b->ptr, fill, bytes);
}

/* Longer in its place, or shorter. */
static void change(struct large_pages *l, struct block *b, size_t bytes)
{
	size_t kept = bytes < b->bytes ? bytes : b->bytes;

	if (bytes < b->bytes)
		large_pages_shrink(l, b->ptr, b->bytes, bytes);
	else if (large_pages_grow(l, b->ptr, b->bytes, bytes) != b->ptr)
		return;
	b->bytes = kept;
	expect_fill(b);
	b->bytes = bytes;
	memset(b->ptr, b->fill, bytes);
}

static void test_many_blocks(void **state)
{
	struct block blocks[BLOCKS] = { { 0 } };
	struct large_pages l = { 0 };
	uint32_t random = 1;

	(void)state;
	assert_true(large_pages_map(&l, room));
	assert_int_equal((uintptr_t)l.base % (2 << 20), 0);
	for (uint32_t i = 0; i < STEPS; i++) {
		struct block *b = &blocks[next_random(&random) % BLOCKS];
		size_t bytes = next_random(&random) % BYTES_MOST + 1;

		if (!b->ptr)
			take(&l, b, bytes, i % 3 == 0, (unsigned char)(i % 255 + 1));
		else if (i % 2)
			change(&l, b, bytes);
		else
			drop(&l, b);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].ptr)
			drop(&l, &blocks[i]);
	assert_int_equal(l.gap_count, 0);
	assert_int_equal(l.top, 0);
	large_pages_release(&l);
	assert_null(l.base);
}

static void test_no_room(void **state)
{
	struct large_pages l = { 0 };
	char *a, *b;

	(void)state;
	assert_true(large_pages_map(&l, room));
	assert_null(large_pages_take(&l, room + 1, false));
	assert_null(large_pages_take(&l, SIZE_MAX, false));
	a = large_pages_take(&l, room - 128, false);
	assert_non_null(a);
	assert_null(large_pages_grow(&l, a, room - 128, room + 1));
	b = large_pages_take(&l, 64, false);
	assert_ptr_equal(b, a + room - 128);
	assert_null(large_pages_grow(&l, a, room - 128, room - 64)); /* b is in the way */
	assert_null(large_pages_take(&l, 128, false));
	large_pages_give_back(&l, a, room - 128);
	assert_ptr_equal(large_pages_take(&l, room - 128, true), a);
	large_pages_release(&l);
}

static void test_nothing_mapped(void **state)
{
	struct large_pages l = { 0 };
	char here;

	(void)state;
	assert_false(large_pages_have(&l, &here));
	assert_false(large_pages_have(&l, NULL));
	large_pages_release(&l);
	assert_false(large_pages_map(&l, SIZE_MAX / 2));
	assert_null(l.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_blocks),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_nothing_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
