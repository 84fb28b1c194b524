#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/blob.h"
#include "base/budget.h"
#include "base/hash.h"

static void test_budget(void **state)
{
	static const struct {
		size_t limit, used, take;
		bool ok;
	} cases[] = {
		{ 100, 0, 100, true },     { 100, 0, 101, false },       { 100, 60, 40, true },
		{ 100, 60, 41, false },    { 100, 100, 0, true },        { 0, 0, SIZE_MAX, true },
		{ 0, 1, SIZE_MAX, false }, { 100, 60, SIZE_MAX, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct budget b;
		bool ok;

		budget_init(&b, cases[i].limit);
		assert_true(budget_take(&b, cases[i].used));
		ok = budget_take(&b, cases[i].take);
		if (ok != cases[i].ok)
			fail_msg("limit %zu, used %zu, take %zu: %d", cases[i].limit, cases[i].used,
				 cases[i].take, ok);
		assert_int_equal(budget_used(&b), cases[i].used + (ok ? cases[i].take : 0));
		assert_int_equal(b.peak_bytes, budget_used(&b));
		budget_give(&b, cases[i].used);
		assert_int_equal(budget_used(&b), ok ? cases[i].take : 0);
	}
}

static void test_blob_gives_its_charge_back_once(void **state)
{
	struct budget budget;
	struct blob *b = blob_copy(STR("body"));

	(void)state;
	budget_init(&budget, 10);
	assert_true(budget_take(&budget, 4));
	b->budget = &budget;
	b->charged_bytes = 4;
	assert_true(str_is(blob_view(b), "body"));
	assert_ptr_equal(blob_ref(b), b);
	blob_unref(b);
	assert_int_equal(budget_used(&budget), 4);
	blob_unref(b);
	assert_int_equal(budget_used(&budget), 0);
	blob_unref(NULL);
}

static void test_blob_kinds(void **state)
{
	struct blob *b = blob_new(10);
	char *heap = malloc(3);

	(void)state;
	assert_int_equal(b->len, 0);
	assert_int_equal(b->cap, 10);
	blob_unref(b);
	b = blob_new(0);
	blob_unref(b);
	b = blob_copy((struct str){ 0 });
	assert_int_equal(blob_view(b).len, 0);
	blob_unref(b);
	assert_non_null(heap);
	memcpy(heap, "abc", 3);
	b = blob_adopt(heap, 3);
	assert_true(str_is(blob_view(b), "abc"));
	blob_unref(b);
}

enum { ROUNDS = 20000 };

static void *ref_and_unref(void *arg)
{
	struct blob *b = arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (budget_take(b->budget, 3))
			budget_give(b->budget, 3);
		blob_unref(blob_ref(b));
	}
	blob_unref(b);
	return NULL;
}

static void test_threads(void **state)
{
	struct budget budget;
	struct blob *b = blob_copy(STR("shared"));
	pthread_t threads[4];

	(void)state;
	budget_init(&budget, 10);
	assert_true(budget_take(&budget, 6));
	b->budget = &budget;
	b->charged_bytes = 6;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ref_and_unref, blob_ref(b)), 0);
	blob_unref(b);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(budget_used(&budget), 0);
	assert_true(budget.peak_bytes <= 10);
}

/* Values from the Python package xxhash; what is kept on disk must not change with the library. */
static void test_hash(void **state)
{
	static const struct {
		struct str in;
		uint64_t h64;
		struct hash128 h128;
	} cases[] = {
		{ STR(""),
		  UINT64_C(0x2d06800538d394c2),
		  { .lo = UINT64_C(0x6001c324468d497f), .hi = UINT64_C(0x99aa06d3014798d8) } },
		{ STR("a"),
		  UINT64_C(0xe6c632b61e964e1f),
		  { .lo = UINT64_C(0xe6c632b61e964e1f), .hi = UINT64_C(0xa96faf705af16834) } },
		{ STR("flametap"),
		  UINT64_C(0xa5972455faf08d39),
		  { .lo = UINT64_C(0x80efd7da1f7c8ee5), .hi = UINT64_C(0x377e432b391f32b6) } },
		{ STR("0123456789abcdef0123456789abcdef"),
		  UINT64_C(0x01121d5b6c0ac055),
		  { .lo = UINT64_C(0xfe5f6378a7825dff), .hi = UINT64_C(0xcc9c4d5512a05c72) } },
		{ STR("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
		  UINT64_C(0xa5d1b4607dc83554),
		  { .lo = UINT64_C(0xa5d1b4607dc83554), .hi = UINT64_C(0x125237ea2ad7bc7a) } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hash128 h = hash128(cases[i].in);

		if (hash64(cases[i].in) != cases[i].h64 || h.lo != cases[i].h128.lo ||
		    h.hi != cases[i].h128.hi)
			fail_msg("hash of \"%.*s\"", STR_ARG(cases[i].in));
	}
	assert_int_equal(hash64((struct str){ 0 }), cases[0].h64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_blob_gives_its_charge_back_once),
		cmocka_unit_test(test_blob_kinds),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
