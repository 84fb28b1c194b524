/*
 * What the kernel's verifier makes of the programs: they load with any set of runtimes, and each
 * runtime stays within its share of the verifier's work. Needs the capabilities BPF and PERFMON;
 * says so and skips without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <unistd.h>
#include "agent/kernel_test.h"
#include "agent/sample/programs.h"
#include "bpf/records.h"

enum { STEP_MOST = 20000, WALKER_MOST = 60000, ALL_MOST = 200000, BOUNDED_MOST = 500000 };
enum { NOT_COUNTED = 1 }; /* it loads; kernels before 5.16 do not tell the figure */

/* 0: no permission, or a machine without what libbpf reads there, as in a bare chroot. */
static uint64_t verified(uint32_t walker, uint32_t steps, bool bounded)
{
	const struct seam_options options = { .samples_per_second = 20,
					      .steps = UINT32_MAX,
					      .bounded_loops = bounded };
	struct err err;
	const char *why_not = no_kernel_for_tests();
	struct programs *p;
	uint64_t count;

	if (why_not) {
		print_message("SKIPPED: %s\n", why_not);
		return 0;
	}
	p = programs_load(&options, &err);
	if (!p && err.kind == ERR_PERMISSION) {
		print_message("SKIPPED: %s\n", err.msg);
		return 0;
	}
	if (!p)
		fail_msg("walker %u: %s", walker, err.msg);
	if (walker != UNWIND_WALKER_NATIVE && (!programs_load_walker(p, walker, steps, &err) ||
					       !programs_wait_walker(p, walker, &err)))
		fail_msg("walker %u: %s", walker, err.msg);
	count = programs_verified(p, walker);
	programs_free(p);
	return count ? count : NOT_COUNTED;
}

static void test_work_of_the_verifier(void **state)
{
	uint64_t native = verified(UNWIND_WALKER_NATIVE, 0, false), one, all;

	(void)state;
	if (!native)
		skip();
	print_message("native walk: %llu instructions verified\n", (unsigned long long)native);
	for (uint32_t step = UNWIND_STEP_NATIVE + 1; step < UNWIND_STEP_COUNT; step++) {
		one = verified(step, 1u << step, false);
		print_message("with runtime %u: %llu more\n", step,
			      (unsigned long long)(one > native ? one - native : 0));
		assert_in_range(one, 1, WALKER_MOST);
		if (one > native + STEP_MOST)
			fail_msg("runtime %u takes %llu instructions to verify; %d is the most",
				 step, (unsigned long long)(one - native), STEP_MOST);
	}
	all = verified(UNWIND_WALKER_ALL, UINT32_MAX, false);
	print_message("all of them: %llu\n", (unsigned long long)all);
	assert_in_range(all, 1, ALL_MOST);
}

/* The programs of kernels without bpf_loop: each turn of a loop counts. The kernel's own limit is 1
 * M. */
static void test_work_with_bounded_loops(void **state)
{
	uint64_t native = verified(UNWIND_WALKER_NATIVE, 0, true), all;

	(void)state;
	if (!native)
		skip();
	all = verified(UNWIND_WALKER_ALL, UINT32_MAX, true);
	print_message("bounded loops: native %llu, all of them %llu\n", (unsigned long long)native,
		      (unsigned long long)all);
	if (native == NOT_COUNTED)
		return;
	assert_in_range(native, 1, BOUNDED_MOST);
	/* The runtimes' steps are in it: options reach this compilation, too. */
	assert_in_range(all, native + 10000, BOUNDED_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work_of_the_verifier),
		cmocka_unit_test(test_work_with_bounded_loops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
