#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/arena_mark.h"
#include "base/cleanup.h"

static void test_alignment_and_growth(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 64, 0);
	for (size_t i = 1; i < 5000; i++) {
		size_t n = i % 97;
		char *p = arena_alloc(&a, n);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 8, 0);
		memset(p, (int)i, n);
	}
	assert_true(a.reserved_bytes > 5000 * 40);
	assert_true(a.reserved_bytes < 5000 * 97 * 3);
	arena_release(&a);
	assert_int_equal(a.reserved_bytes, 0);
}

static void test_limit(void **state)
{
	static const struct {
		size_t limit, wish;
		bool ok;
	} cases[] = {
		{ 4096, 1000, true },       { 4096, 5000, false },
		{ 4096, SIZE_MAX, false },  { 4096, SIZE_MAX - 6, false },
		{ 0, SIZE_MAX - 6, false }, { 0, SIZE_MAX / 2 + 9, false },
		{ 4096, 0, true },          { 0, 3 * 1024 * 1024, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena a;
		void *p;

		arena_init(&a, 0, cases[i].limit);
		p = arena_alloc(&a, cases[i].wish);
		if ((p != NULL) != cases[i].ok)
			fail_msg("%zu bytes under the limit %zu: %p", cases[i].wish, cases[i].limit,
				 p);
		if (!p)
			assert_non_null(
				arena_alloc(&a, 16)); /* a refused wish leaves the arena usable */
		arena_release(&a);
	}
}

static void test_limit_is_never_passed(void **state)
{
	struct arena a;
	size_t total = 0;

	(void)state;
	arena_init(&a, 0, 10000);
	while (arena_alloc(&a, 24))
		total += 24;
	assert_true(a.reserved_bytes <= 10000);
	assert_true(total > 9000); /* the last, smaller block is used too */
	arena_release(&a);
}

static void test_array_overflow(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 0, 0);
	assert_null(arena_alloc_array(&a, SIZE_MAX / 4, 8));
	assert_null(arena_alloc_array(&a, SIZE_MAX, SIZE_MAX));
	assert_non_null(arena_alloc_array(&a, 3, 8));
	assert_non_null(arena_alloc_array(&a, 0, 8));
	arena_release(&a);
}

static void test_zalloc(void **state)
{
	static const char zeros[100];
	struct arena a;

	(void)state;
	arena_init(&a, 0, 0);
	memset(arena_alloc(&a, 100), 0xff, 100);
	arena_reset(&a);
	assert_memory_equal(arena_zalloc(&a, 100), zeros, 100);
	arena_release(&a);
}

static void test_grow(void **state)
{
	struct arena a;
	char *p, *q;

	(void)state;
	arena_init(&a, 1024, 0);
	p = arena_alloc(&a, 10);
	memcpy(p, "0123456789", 10);
	q = arena_grow(&a, p, 10, 100);
	assert_ptr_equal(p, q); /* newest: in place */
	assert_non_null(arena_alloc(&a, 8));
	q = arena_grow(&a, p, 100, 200);
	assert_ptr_not_equal(p, q);
	assert_memory_equal(q, "0123456789", 10);
	assert_ptr_equal(arena_grow(&a, q, 200, 50), q);
	assert_non_null(arena_grow(&a, NULL, 0, 8));
	assert_null(arena_grow(&a, q, 200, SIZE_MAX - 3));
	arena_release(&a);
}

static void test_reset_keeps_the_largest(void **state)
{
	struct arena a;
	size_t reserved;

	(void)state;
	arena_init(&a, 256, 0);
	for (int i = 0; i < 100; i++)
		arena_alloc(&a, 200);
	arena_alloc(&a, 50000);
	arena_reset(&a);
	reserved = a.reserved_bytes;
	assert_true(reserved >= 50000 && reserved < 60000);
	assert_non_null(arena_alloc(&a, 49000));
	assert_int_equal(a.reserved_bytes, reserved);
	arena_release(&a);
	arena_reset(&a);
}

/* What was before a mark stays, what came behind is given back, whatever blocks it took. */
static void test_rewind(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 256, 0);
	for (int before = 0; before < 4; before++) {
		struct arena_mark mark = arena_mark(&a);
		size_t reserved = a.reserved_bytes;
		char *kept;

		for (int i = 0; i < 50; i++)
			memset(arena_alloc(&a, 100 + (size_t)i * 60), i, 100);
		arena_rewind(&a, mark);
		assert_int_equal(a.reserved_bytes, reserved);
		assert_ptr_equal(a.next, mark.next);
		kept = arena_alloc(&a, 150);
		memset(kept, 'k', 150);
		mark = arena_mark(&a);
		memset(arena_alloc(&a, 9000), 'x', 9000);
		arena_rewind(&a, mark);
		assert_int_equal(kept[0], 'k');
		assert_int_equal(kept[149], 'k');
	}
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment_and_growth),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_limit_is_never_passed),
		cmocka_unit_test(test_array_overflow),
		cmocka_unit_test(test_zalloc),
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_reset_keeps_the_largest),
		cmocka_unit_test(test_rewind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
