/*
 * The unwinder at every single instruction of C programs, from the kernel's first instruction for
 * them on, through the dynamic linker and libc (stepper_test.h).
 */
#include <stdio.h>

#ifdef __x86_64__

#include "agent/unwind/stepper_test.h"

/* Code without rows: a function that was called by one whose caller is not seen is passed over
 * where it has given its frame back (calls.h). */
static bool passed_over(struct stepper *s, enum unwind_end end, const uint64_t *words,
			uint32_t count)
{
	if (!s->without_rows || end != UNWIND_END_BOTTOM || count != s->depth + s->base_count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (frame_pc(s, words, i) != noted_pc(s, i ? i + 1 : 0))
			return false;
	return ++s->passed_over * 200 < s->checks + 4000;
}

/*
 * A walk that ends early must say why, and what it has found must be the begin of the truth. One
 * cause is known, and bounded: longjmp, in its last instructions, describes the frame that it jumps
 * to (BAD_CFA).
 */
static bool cut_short(struct stepper *s, enum unwind_end end, const uint64_t *words, uint32_t count)
{
	if (passed_over(s, end, words, count))
		return true;
	if (!count || count > s->depth)
		return false;
	for (uint32_t i = 1; i < count; i++)
		if (frame_pc(s, words, i) != s->shadow[s->depth - i].pc)
			return false;
	return end == UNWIND_END_BAD_CFA && count == 1 && ++s->longjmp <= 9;
}

/* ---- programs ---- */

static char work_dir[] = "/tmp/flametap-step-XXXXXX";

static const struct {
	const char *flags;
	bool always; /* the others with FLAMETAP_LONG */
} builds[] = {
	{ "gcc -O0", true },
	{ "gcc -O2", true },
	{ "gcc -O2 -fno-omit-frame-pointer -Wl,-z,now -s", true },
	{ "gcc -Os -static", true },
	{ "gcc -O2 -fno-asynchronous-unwind-tables -fno-omit-frame-pointer", true },
	{ "clang-14 -O1 -fno-asynchronous-unwind-tables -fno-omit-frame-pointer", false },
	{ "gcc -O3 -march=x86-64-v2 -fno-plt", false },
	{ "gcc -O2 -flto -no-pie", false },
	{ "clang-14 -O1", false },
	{ "clang-14 -O3", false },
};

static bool is_long(void)
{
	const char *whole = getenv("FLAMETAP_LONG");

	return whole && *whole;
}

/* On to the program's entry point, where the stack is empty again. Left out with FLAMETAP_LONG, and
 * for static programs, which begin there. */
static void run_to_entry(struct stepper *s)
{
	const struct file *program = &s->files[0];
	uint64_t entry = 0;

	for (uint32_t i = 0; i < s->mapping_count; i++)
		if (s->store.mappings[s->run + i].executable == program->id)
			entry = elf_file_entry(program->elf) +
				s->store.mappings[s->run + i].load_bias;
	assert_true(entry != 0);
	if (s->regs.rip != entry)
		run_to(s, entry);
}

static void step_through(const char *program, const char *flags)
{
	struct stepper *s = calloc(1, sizeof(*s));
	char *argv[] = { (char *)program, NULL };

	if (!stepper_open(s, argv)) {
		print_message("SKIPPED: %s: no ptrace here\n", flags);
		free(s);
		return;
	}
	s->excused = cut_short;
	s->without_rows = strstr(flags, "-fno-asynchronous-unwind-tables") != NULL;
	if (!is_long())
		run_to_entry(s);
	do {
		check(s);
	} while (step(s, 0));
	print_message("%s: %lu steps, %lu frames at most; cut short: %lu in "
		      "longjmp; %lu passed over; %lu wrong\n",
		      flags, s->checks, s->deepest, s->longjmp, s->passed_over, s->wrong);
	if (s->wrong)
		print_message("  first: %s\n", s->first_wrong);
	assert_int_equal(s->wrong, 0);
	assert_int_equal(s->signals, 2);
	assert_true(s->deepest > 8 && s->checks > 4000);
	stepper_close(s);
	free(s);
}

static void test_every_instruction(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(builds); i++) {
		char command[400], program[80];

		if (!builds[i].always && !is_long())
			continue;
		snprintf(program, sizeof(program), "%s/target%zu", work_dir, i);
		snprintf(command, sizeof(command),
			 "%s -g0 -o %s tests/support/step_target.c > %s/log 2>&1", builds[i].flags,
			 program, work_dir);
		if (system(command) != 0) {
			print_message("SKIPPED: %s does not compile here\n", builds[i].flags);
			continue;
		}
		step_through(program, builds[i].flags);
	}
}

static int make_work_dir(void **state)
{
	(void)state;
	return mkdtemp(work_dir) ? 0 : -1;
}

static int remove_work_dir(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", work_dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_instruction),
	};

	return cmocka_run_group_tests(tests, make_work_dir, remove_work_dir);
}

#else

int main(void)
{
	printf("SKIPPED: written for x86-64's registers\n");
	return 0;
}

#endif
