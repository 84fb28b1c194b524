/* Which walker a process gets by its runtimes, and that each is asked for once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "agent/process/walkers.h"
#include "base/cleanup.h"

#define STEP(name) (1u << UNWIND_STEP_##name)

struct rig {
	struct seam seam; /* first */
	uint32_t asked, index, steps;
	bool refuse;
};

static bool fake_load_walker(struct seam *s, uint32_t index, uint32_t steps, struct err *err)
{
	struct rig *r = (struct rig *)(void *)s;

	r->asked++;
	r->index = index;
	r->steps = steps;
	return !r->refuse || err_set(err, ERR_UNSUPPORTED, "not here");
}

static const struct seam_ops fake_ops = { .load_walker = fake_load_walker };

static struct unwind_runtime known[] = {
	{ 0 },
	{ .step = UNWIND_STEP_CPYTHON },
	{ .step = UNWIND_STEP_GO },
	{ .step = UNWIND_STEP_PHP },
};
enum { CPYTHON = 1, GO, PHP };

static void test_walkers(void **state)
{
	static const struct {
		uint16_t runtimes[UNWIND_PROCESS_RUNTIMES];
		uint8_t walker;
		uint32_t asked, steps, unknown;
	} cases[] = {
		{ { 0 }, UNWIND_WALKER_NATIVE, 0, 0, 0 },
		{ { GO }, UNWIND_WALKER_NATIVE, 0, 0, 0 },
		{ { CPYTHON }, UNWIND_STEP_CPYTHON, 1, STEP(CPYTHON), UNWIND_STEP_CPYTHON },
		{ { GO, CPYTHON }, UNWIND_STEP_CPYTHON, 1, STEP(CPYTHON), UNWIND_STEP_CPYTHON },
		{ { PHP }, UNWIND_STEP_PHP, 1, STEP(PHP) | STEP(PCRE), 0 },
		{ { CPYTHON, PHP }, UNWIND_WALKER_ALL, 1, UINT32_MAX, UNWIND_WALKER_ALL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rig r = { .seam.ops = &fake_ops };
		struct sample_counters counters = { 0 };
		struct unwind_store store = { .runtimes = known,
					      .counters = &counters,
					      .cpu_count = 1 };
		struct process_table t = { .seam = &r.seam, .store = &store };

		print_message("case %zu\n", i);
		assert_int_equal(walkers_for(&t, cases[i].runtimes), cases[i].walker);
		assert_int_equal(walkers_for(&t, cases[i].runtimes), cases[i].walker);
		assert_int_equal(r.asked, cases[i].asked);
		assert_int_equal(r.steps, cases[i].steps);
		assert_int_equal(counters.unknown_walker, cases[i].unknown);
	}
}

/* What the sampler refuses is asked for once, and its processes are walked as native code. */
static void test_refused(void **state)
{
	static const uint16_t runtimes[UNWIND_PROCESS_RUNTIMES] = { PHP };
	struct rig r = { .seam.ops = &fake_ops, .refuse = true };
	struct unwind_store store = { .runtimes = known };
	struct process_table t = { .seam = &r.seam, .store = &store };

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(walkers_for(&t, runtimes), UNWIND_WALKER_NATIVE);
	assert_int_equal(r.asked, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walkers),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
