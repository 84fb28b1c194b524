/* Which compilation of the BPF programs is chosen for which kernel, and what the others are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "agent/kernel_test.h"
#include "agent/sample/variant.h"
#include "base/cleanup.h"

static void test_choice(void **state)
{
	static const struct {
		const char *kernel;
		struct kernel_features has;
		enum variant chosen;
		const char *refused; /* NULL: it is not */
	} cases[] = {
		{ "5.4", { .ring_buffer = false, .task_read = false }, 0, "no BPF ring buffer" },
		{ "ring buffer alone", { .ring_buffer = true }, 0, "no bpf_probe_read_kernel" },
		{ "5.10", { .ring_buffer = true, .task_read = true }, VARIANT_BOUNDED, NULL },
		{ "5.19",
		  { .loop = true, .ring_buffer = true, .task_read = true },
		  VARIANT_BOUNDED,
		  NULL },
		{ "6.1",
		  { .loop = true, .growing_hash = true, .ring_buffer = true, .task_read = true },
		  VARIANT_LOOP,
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum variant chosen = VARIANT_LOOP;
		struct err err = { 0 };
		bool ok = variant_choose(&cases[i].has, &chosen, &err);

		if (ok != !cases[i].refused || (ok && chosen != cases[i].chosen))
			fail_msg("%s: ok %d, variant %d: %s", cases[i].kernel, ok, chosen, err.msg);
		if (!ok && (!strstr(err.msg, cases[i].refused) || !strstr(err.msg, "Linux 5.10")))
			fail_msg("%s: \"%s\"", cases[i].kernel, err.msg);
	}
}

/* A kernel that has bpf_loop has what came before it. */
static void test_this_kernel(void **state)
{
	const char *why_not = no_kernel_for_tests();
	struct kernel_features f;

	(void)state;
	if (why_not) {
		print_message("SKIPPED: %s\n", why_not);
		skip();
	}
	f = kernel_features_probe();
	assert_true(f.ring_buffer);
	assert_true(f.task_read);
	if (f.loop)
		assert_false(maps_are_locked_memory());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_this_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
