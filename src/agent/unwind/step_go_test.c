/*
 * The unwinder at every single instruction of a Go program: main.work and all that it calls, the
 * growth of stacks, panics and what the runtime does on a thread's own stack for a goroutine
 * (stepper_test.h). Toolchains: go on the PATH, and Debian's 1.19; without any: skipped, aloud.
 */
#include <stdio.h>

#ifdef __x86_64__

#include <dirent.h>
#include "agent/unwind/pclntab.h"
#include "agent/unwind/stepper_test.h"

static char work_dir[] = "/tmp/flametap-step-go-XXXXXX";

/* Go 1.26 has ".abi0" behind names of assembly. */
static bool in_function(struct stepper *s, uint64_t pc, const char *name)
{
	struct pclntab t;
	struct pclntab_function f;
	struct str found;

	if (!pclntab_open(s->files[0].elf, &t) || !pclntab_function(&t, pclntab_find(&t, pc), &f))
		return false;
	found = pclntab_name(&t, &f);
	return str_is(found, name) || (str_has_prefix(found, str_cstr(name)) &&
				       str_is(str_skip(found, strlen(name)), ".abi0"));
}

/* mcall has left the goroutine for good, and gogo leaves the thread's stack: theirs end there. */
static bool has_left(struct stepper *s, enum unwind_end end, const uint64_t *words, uint32_t count)
{
	uint64_t last = count ? frame_pc(s, words, count - 1) : 0;

	if (end != UNWIND_END_BOTTOM || !count || count > s->depth + s->base_count ||
	    (!in_function(s, last, "runtime.mcall") && !in_function(s, last, "runtime.gogo") &&
	     !in_function(s, last, "gogo")))
		return false;
	s->left++;
	return true;
}

/* Before Go 1.21 nanotime1 and the like have no frame: whoever called them is passed over, nobody
 * else. */
static bool lacks_a_caller(struct stepper *s, enum unwind_end end, const uint64_t *words,
			   uint32_t count)
{
	uint32_t all = s->depth + 1 + s->base_count, skipped = 0;

	if (has_left(s, end, words, count))
		return true;
	if (end != UNWIND_END_BOTTOM)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t pc = frame_pc(s, words, i);

		if (i && i + skipped + 1 < all && pc != noted_pc(s, i + skipped) &&
		    in_function(s, frame_pc(s, words, i - 1), "runtime.nanotime1"))
			skipped++;
		if (i + skipped >= all || pc != noted_pc(s, i + skipped))
			return false;
	}
	if (!skipped || count + skipped != all)
		return false;
	s->passed_over++;
	return true;
}

static uint64_t go_function(const struct stepper *s, const char *name)
{
	struct pclntab t;
	struct pclntab_function f;

	assert_true(pclntab_open(s->files[0].elf, &t));
	for (uint32_t i = 0; i < t.function_count; i++)
		if (pclntab_function(&t, i, &f) && str_is(pclntab_name(&t, &f), name))
			return f.begin;
	fail_msg("no function %s", name);
	return 0;
}

/* Nobody may preempt the goroutine, or it would go on elsewhere. */
static void stop_other_threads(const struct stepper *s)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", s->pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		int status;

		if (tid <= 0 || tid == s->pid || ptrace(PTRACE_ATTACH, tid, NULL, NULL) != 0)
			continue;
		assert_int_equal(waitpid(tid, &status, __WALL), tid);
	}
	closedir(tasks);
}

/* Who has called main.work, by the twin itself: main.main, runtime.main and goexit. */
static void note_base(struct stepper *s)
{
	enum unwind_end end = unwind(s);
	uint32_t words;
	const uint64_t *w = twin_words(s->twin, &words);

	assert_int_equal(end, UNWIND_END_BOTTOM);
	assert_int_equal(words / 2, 4);
	for (uint32_t i = 1; i < words / 2; i++)
		s->base[s->base_count++] = frame_pc(s, w, i);
	assert_true(in_function(s, s->base[0] - 1, "main.main"));
	assert_true(in_function(s, s->base[1] - 1, "runtime.main"));
	assert_true(in_function(s, s->base[2] - 1, "runtime.goexit"));
}

static void step_through_go(const char *program, const char *version, bool old)
{
	struct stepper *s = calloc(1, sizeof(*s));
	char *argv[] = { (char *)program, NULL };
	uint64_t slot;

	if (!stepper_open(s, argv)) {
		print_message("SKIPPED: no ptrace here\n");
		free(s);
		return;
	}
	run_to(s, go_function(s, "main.work"));
	stop_other_threads(s);
	slot = s->own_stack = s->regs.rsp;
	s->excused = old ? lacks_a_caller : has_left;
	note_base(s);
	do {
		check(s);
		assert_true(step(s, 0));
	} while (!same_stack(s->regs.rsp, slot) || s->regs.rsp <= slot);
	print_message("%s: %lu steps, %lu frames at most, %lu left for good, %lu lack a caller, "
		      "%lu wrong\n",
		      version, s->checks, s->deepest, s->left, s->passed_over, s->wrong);
	if (s->wrong)
		print_message("  first: %s\n", s->first_wrong);
	/* The one instruction between growing the stack and storing BP, where systemstack's callee
	 * has no other way than BP. */
	assert_true(s->wrong <= (old ? s->checks / 1000 : 0));
	assert_true(s->left * 20 < s->checks && s->passed_over * 100 < s->checks);
	assert_true(s->deepest > 5 && s->checks > 2000);
	stepper_close(s);
	free(s);
}

/* "go version" says 1.13 to 1.20. */
static bool is_old(const char *go)
{
	char command[200];

	snprintf(command, sizeof(command), "%s version | grep -qE 'go1\\.(1[3-9]|20)'", go);
	return system(command) == 0;
}

/* Debian's go and the one on the PATH may be the same. */
static void test_go(void **state)
{
	static const char *const commands[] = { "go", "/usr/lib/go-1.19/bin/go" };
	bool had_old = false;

	(void)state;
	setenv("GODEBUG", "asyncpreemptoff=1", 1);
	setenv("GOGC", "off", 1);
	setenv("GOFLAGS", "", 1);
	setenv("GOTOOLCHAIN", "local", 1);
	if (!getenv("HOME") && !getenv("GOCACHE"))
		setenv("GOCACHE", work_dir, 1);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		char command[400], program[80];
		bool old = is_old(commands[i]);

		if (old && had_old)
			continue;
		snprintf(program, sizeof(program), "%s/gotarget%zu", work_dir, i);
		snprintf(command, sizeof(command),
			 "%s build -o %s tests/support/step_target.go > %s/log 2>&1", commands[i],
			 program, work_dir);
		if (system(command) != 0) {
			print_message("SKIPPED: no %s here\n", commands[i]);
			continue;
		}
		had_old = old;
		step_through_go(program, commands[i], old);
	}
}

static int make_work_dir(void **state)
{
	(void)state;
	return mkdtemp(work_dir) ? 0 : -1;
}

/* Go's cache is read-only. */
static int remove_work_dir(void **state)
{
	char command[120];

	(void)state;
	snprintf(command, sizeof(command), "chmod -R u+w %s; rm -rf %s", work_dir, work_dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_go),
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
