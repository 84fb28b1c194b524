#include "query/sum/sum_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NUMBERS = 20000 };

static int64_t known[NUMBERS];
static bool met[NUMBERS];

static struct query *query_of(size_t limit_bytes)
{
	struct query *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	q->memory.limit_bytes = limit_bytes;
	arena_init(&q->memory.arena, 4096, limit_bytes);
	return q;
}

static void end(struct query *q, struct sum_table *t)
{
	sum_table_release(q, t);
	assert_int_equal(q->memory.heap_bytes, 0);
	arena_release(&q->memory.arena);
	free(q);
}

static uint64_t next(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

/* Every third number, one of them a sum of 0, and one too large to be held. */
static uint32_t fill(struct query *q, struct sum_table *t)
{
	uint64_t state = 7;
	uint32_t count = 0;

	memset(known, 0, sizeof(known));
	memset(met, 0, sizeof(met));
	for (unsigned i = 0; i < 5 * NUMBERS; i++) {
		uint64_t number = next(&state) % (NUMBERS / 3) * 3;
		int64_t value = (int64_t)(next(&state) % 1000) - 100;

		count += !met[number];
		met[number] = true;
		known[number] = engine_add(known[number], value);
		assert_true(sum_table_add(q, t, number, 0, value));
	}
	assert_true(sum_table_add(q, t, 3, 0, -known[3]) && sum_table_add(q, t, 6, 0, INT64_MAX) &&
		    sum_table_add(q, t, 6, 0, INT64_MAX));
	known[3] = 0;
	known[6] = INT64_MAX;
	return count;
}

static void all_are_listed_in_order(void **state)
{
	struct query *q = query_of(8 << 20);
	struct sum_table t = { 0 };
	uint32_t count = fill(q, &t), listed, at = 0;
	struct stack_sum *out = calloc(count, sizeof(*out));
	int64_t left_out = 0;

	(void)state;
	assert_non_null(out);
	assert_int_equal(t.count, count);
	sum_table_list(&t, count, out, &listed, &left_out);
	assert_int_equal(listed, count);
	assert_int_equal(left_out, 0);
	for (uint32_t i = 0; i < NUMBERS; i++) {
		if (!met[i])
			continue;
		assert_int_equal(out[at].stack, i);
		assert_int_equal(out[at].group, 0);
		assert_true(out[at++].value == known[i]);
	}
	assert_int_equal(at, count);
	free(out);
	end(q, &t);
}

static double weight(int64_t v)
{
	return v < 0 ? -(double)v : (double)v;
}

/* None that is left out is heavier by more than a 32nd than one that is listed. */
static void the_heaviest_are_listed(void **state)
{
	struct query *q = query_of(8 << 20);
	struct sum_table t = { 0 };
	uint32_t count = fill(q, &t), listed;
	struct stack_sum *out = calloc(count, sizeof(*out));

	(void)state;
	assert_non_null(out);
	for (uint32_t most = 0; most <= count; most += 1 + most / 2) {
		double least = 1e300;
		int64_t left_out = 0, sum = 0;
		uint32_t at = 0;

		sum_table_list(&t, most, out, &listed, &left_out);
		assert_int_equal(listed, most);
		for (uint32_t i = 0; i < listed; i++) {
			assert_true(i == 0 || out[i].stack > out[i - 1].stack);
			assert_true(out[i].value == known[out[i].stack]);
			if (weight(out[i].value) < least)
				least = weight(out[i].value);
		}
		for (uint32_t i = 0; i < NUMBERS; i++) {
			if (at < listed && out[at].stack == i)
				at++;
			else if (met[i] && weight(known[i]) > least * 33 / 32)
				fail_msg("of %u: %lld is left out, %f is listed", most,
					 (long long)known[i], least);
			else
				sum = engine_add(sum, known[i]);
		}
		assert_true(sum == left_out);
	}
	free(out);
	end(q, &t);
}

/* Where it would take too much: the caller has another way. */
static void what_is_far_apart_is_not_held(void **state)
{
	struct query *q = query_of(256 << 10);
	struct sum_table t = { 0 };
	uint32_t held = 0;

	(void)state;
	assert_false(sum_table_add(q, &t, UINT64_C(1) << 24, 0, 1));
	assert_false(sum_table_add(q, &t, UINT64_MAX, 0, 1));
	for (uint32_t i = 0; i < 1000; i++)
		held += sum_table_add(q, &t, (uint64_t)i * SUM_PAGE, 0, 1);
	assert_true(held > 0 && held < 100);
	assert_int_equal(t.count, held);
	end(q, &t);
}

static void the_first_group_of_a_number_is_held(void **state)
{
	struct query *q = query_of(8 << 20);
	struct sum_table t = { 0 };
	struct stack_sum out[3];
	int64_t left_out = 0;
	uint32_t listed;

	(void)state;
	assert_true(sum_table_add(q, &t, 7, 3, 10));
	assert_true(sum_table_add(q, &t, 8, 0, 1));
	assert_false(sum_table_add(q, &t, 7, 0, 100));
	assert_false(sum_table_add(q, &t, 8, 3, 100));
	assert_true(sum_table_add(q, &t, 7, 3, 5));
	assert_true(sum_table_add(q, &t, 9, UINT16_MAX - 1, 2));
	assert_false(sum_table_add(q, &t, 10, UINT16_MAX, 2)); /* too many groups */
	assert_int_equal(t.count, 3);
	sum_table_list(&t, 3, out, &listed, &left_out);
	assert_int_equal(listed, 3);
	assert_int_equal(out[2].group, UINT16_MAX - 1);
	assert_true(out[0].stack == 7 && out[0].group == 3 && out[0].value == 15);
	assert_true(out[1].stack == 8 && out[1].group == 0 && out[1].value == 1);
	end(q, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_listed_in_order),
		cmocka_unit_test(the_heaviest_are_listed),
		cmocka_unit_test(the_first_group_of_a_number_is_held),
		cmocka_unit_test(what_is_far_apart_is_not_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
