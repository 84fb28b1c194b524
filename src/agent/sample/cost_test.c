/*
 * What samples cost, from hand-made records: which kind a cost is counted under, and quantiles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "agent/sample/cost.h"

static struct sample_costs costs;

/* A record of `cpu`, with so many kernel words, then frames with these tags. */
static void add(uint16_t cpu, uint32_t took_before_ns, uint16_t kernel, const uint8_t *tags,
		uint32_t count)
{
	uint64_t words[64] = { 0 };
	struct sample_record r = { .cpu = cpu,
				   .took_before = (uint16_t)(took_before_ns / SAMPLE_TOOK_NS),
				   .kernel_count = kernel,
				   .frame_count = (uint16_t)count };
	uint32_t n = kernel;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t payload = tags[i] > FRAME_TAG_NATIVE ? 2 : 1;

		words[n] = FRAME_HEADER(tags[i], 0, payload, 1);
		words[n + 1] = ~UINT64_C(0); /* no header: must not be taken for one */
		n += 1 + payload;
	}
	r.word_count = (uint16_t)(n - kernel);
	sample_costs_add(&costs, &r, words);
}

static uint64_t median(enum sample_cost_kind kind)
{
	return sample_costs_quantile(&costs, kind, 0.5);
}

static void test_kinds(void **state)
{
	static const uint8_t native[] = { FRAME_TAG_NATIVE, FRAME_TAG_PC, FRAME_TAG_NATIVE };
	static const uint8_t mixed[] = { FRAME_TAG_NATIVE, FRAME_TAG_CPYTHON, FRAME_TAG_NATIVE };

	(void)state;
	costs = (struct sample_costs){ 0 };
	assert_int_equal(median(COST_NATIVE), 0);
	add(0, 0, 2, native, 3);     /* the first says nothing of another */
	add(1, 0, 0, mixed, 3);      /* another CPU's is none of its business */
	add(0, 8000, 0, mixed, 3);   /* of the native one */
	add(1, 14000, 5, NULL, 0);   /* of the mixed one on CPU 1 */
	add(0, 15000, 0, native, 3); /* of the mixed one on CPU 0 */
	add(1, 3000, 0, native, 3);  /* of the kernel's */
	add(0, 0, 0, native, 3);     /* dropped in between: not known */
	assert_in_range(median(COST_NATIVE), 8000 - COST_STEP_NS, 8000 + COST_STEP_NS);
	assert_in_range(median(COST_RUNTIME), 14000 - COST_STEP_NS, 14000 + COST_STEP_NS);
	assert_in_range(sample_costs_quantile(&costs, COST_RUNTIME, 1), 15000 - COST_STEP_NS,
			15000 + COST_STEP_NS);
	assert_in_range(median(COST_KERNEL), 3000 - COST_STEP_NS, 3000 + COST_STEP_NS);
}

static void test_quantiles(void **state)
{
	static const uint8_t native[] = { FRAME_TAG_NATIVE };

	(void)state;
	costs = (struct sample_costs){ 0 };
	add(7, 0, 0, native, 1);
	for (uint32_t i = 1; i <= 100; i++)
		add(7, i * 500, 0, native, 1);
	assert_in_range(median(COST_NATIVE), 25000 - COST_STEP_NS, 25000 + COST_STEP_NS);
	assert_in_range(sample_costs_quantile(&costs, COST_NATIVE, 0.9), 45000 - COST_STEP_NS,
			45000 + COST_STEP_NS);
	add(7, 1000000, 0, native, 1); /* longer than is told apart */
	assert_true(sample_costs_quantile(&costs, COST_NATIVE, 1) > 65000);
	/* A CPU that cannot be is left out. */
	add(SEAM_CPUS_MAX, 500, 0, native, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
