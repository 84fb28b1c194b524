/*
 * The twin over this very process, on whatever machine it was built for: a timer interrupts a chain
 * of known functions at random instructions, some of them with a frame pointer and some without, in
 * leaves that have no frame yet or no more; the signal handler walks what was interrupted, and each
 * stack must lead through the chain. This is what runs under qemu-user for arm64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include "agent/elf/elf_file.h"
#include "agent/unwind/store.h"
#include "agent/unwind/tables.h"
#include "agent/unwind/twin.h"
#include "base/clock.h"

enum { WALKS = 400, GIVE_UP_S = 60, DEPTH = 6 };

/* Each function in a section of its own, whose begin and end the linker tells. */
#define PLACED(name)    noinline, noclone, section("self_" #name)
#define PLACE(name)     extern const char __start_self_##name[], __stop_self_##name[]
#define IS_IN(pc, name) is_in(pc, __start_self_##name, __stop_self_##name)
#define FRAMELESS(name) __attribute__((PLACED(name), optimize("O2", "omit-frame-pointer")))
#define FRAMED(name)    __attribute__((PLACED(name), optimize("O0", "no-omit-frame-pointer")))

PLACE(leaf_plain);
PLACE(leaf_framed);
PLACE(chain_plain);
PLACE(chain_framed);

static struct walk_bench {
	struct unwind_store store;
	struct elf_file *elf;
	struct unwind_tables *tables;
	struct twin *twin;
	uint64_t bias, start, end, stack_top;
	uint32_t id, run;
	volatile uint32_t walks, whole, leaves[2];
	char wrong[200];
} bench;

/* ---- what is walked ---- */

static volatile uint64_t sink;

FRAMELESS(leaf_plain) static uint64_t leaf_plain(uint64_t x)
{
	for (int i = 0; i < 64; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

FRAMED(leaf_framed) static uint64_t leaf_framed(uint64_t x)
{
	for (int i = 0; i < 64; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

FRAMELESS(chain_plain) static uint64_t chain_plain(uint64_t x, int depth)
{
	uint64_t below = depth ? chain_plain(x + 1, depth - 1) : leaf_plain(x);

	sink += below;
	return below ^ leaf_framed(x);
}

FRAMED(chain_framed) static uint64_t chain_framed(uint64_t x, int depth)
{
	volatile uint64_t room[12];

	room[depth & 7] = depth ? chain_framed(x + 1, depth - 1) : chain_plain(x, DEPTH);
	sink += room[depth & 7];
	return room[depth & 7];
}

/* ---- the walk ---- */

/* Of stacks only, and past what AddressSanitizer has put between variables. */
__attribute__((no_sanitize("address"))) static bool read_own(void *ctx, uint64_t address, void *to,
							     uint32_t bytes)
{
	const volatile uint8_t *from = (const volatile uint8_t *)(uintptr_t)address;
	const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	(void)ctx;
	if (address < here || address + bytes > bench.stack_top)
		return false;
	for (uint32_t i = 0; i < bytes; i++)
		((volatile uint8_t *)to)[i] = from[i];
	return true;
}

static struct unwind_cursor interrupted(const ucontext_t *u)
{
	struct unwind_cursor c = { .leaf_known = LEAF_ALL };

#ifdef __aarch64__
	c.pc = u->uc_mcontext.pc;
	c.sp = u->uc_mcontext.sp;
	c.fp = u->uc_mcontext.regs[29];
	c.leaf[UNWIND_REG_LR - UNWIND_REG_LEAF] = u->uc_mcontext.regs[30];
#else
	static const uint8_t of_leaf[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSI,
					   REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					   REG_R12, REG_R13, REG_R14, REG_R15 };

	c.pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	c.sp = (uint64_t)u->uc_mcontext.gregs[REG_RSP];
	c.fp = (uint64_t)u->uc_mcontext.gregs[REG_RBP];
	for (size_t i = 0; i < sizeof(of_leaf); i++)
		c.leaf[i] = (uint64_t)u->uc_mcontext.gregs[of_leaf[i]];
#endif
	return c;
}

static bool is_in(uint64_t pc, const char *start, const char *stop)
{
	return pc >= (uint64_t)(uintptr_t)start && pc < (uint64_t)(uintptr_t)stop;
}

static bool is_known(uint64_t pc)
{
	return IS_IN(pc, leaf_plain) || IS_IN(pc, leaf_framed) || IS_IN(pc, chain_plain) ||
	       IS_IN(pc, chain_framed);
}

static uint64_t frame_pc(const uint64_t *words, uint32_t i)
{
	return words[2 * i + 1] + bench.bias;
}

/* Frames from the outermost inwards: DEPTH + 1 of chain_framed, then of chain_plain, then a leaf;
 * the interrupted one may be any of them. */
static bool is_chain(const uint64_t *words, uint32_t count)
{
	uint32_t at = count / 2, seen = 0;

	while (at && !IS_IN(frame_pc(words, at - 1), chain_framed))
		at--;
	for (; at && IS_IN(frame_pc(words, at - 1), chain_framed); at--)
		seen++;
	if (!seen || (at && seen != DEPTH + 1))
		return false;
	for (seen = 0; at && IS_IN(frame_pc(words, at - 1), chain_plain); at--)
		seen++;
	if (at > 1 || seen > DEPTH + 1 || (at && !seen))
		return false;
	bench.leaves[0] += at && IS_IN(frame_pc(words, 0), leaf_plain);
	bench.leaves[1] += at && IS_IN(frame_pc(words, 0), leaf_framed);
	return true;
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
	const struct twin_memory memory = { read_own, NULL };
	struct unwind_cursor c = interrupted(context);
	enum unwind_end end;
	const uint64_t *words;
	uint32_t count;

	(void)signal;
	(void)info;
	if (bench.walks >= WALKS || !is_known(c.pc))
		return;
	twin_start(bench.twin, &bench.store, &memory, &c, NULL);
	twin_run(bench.twin, bench.run, 1);
	end = twin_walk(bench.twin);
	words = twin_words(bench.twin, &count);
	bench.walks++;
	/* libc, which has no table here, ends the walk above main(). */
	if ((end == UNWIND_END_NO_MAPPING || end == UNWIND_END_BOTTOM) && is_chain(words, count))
		bench.whole++;
	else if (!bench.wrong[0])
		snprintf(bench.wrong, sizeof(bench.wrong), "end %d, %u frames, leaf %lx, first %lx",
			 (int)end, count / 2, (unsigned long)(c.pc - bench.bias),
			 (unsigned long)(count > 3 ? words[3] : 0));
}

/* ---- the test ---- */

static void build_all_pages(void)
{
	static struct unwind_row rows[UNWIND_BLOCK_ROWS];
	uint64_t first, pages;
	uint32_t count;
	struct err err;

	unwind_tables_pages(bench.tables, &first, &pages);
	assert_true(unwind_store_set_pages(&bench.store, bench.id, first, (uint32_t)pages));
	for (uint64_t i = first; i < first + pages; i++) {
		struct unwind_page *page = unwind_store_page(&bench.store, bench.id, i);

		if (unwind_tables_build_page(bench.tables, i, &bench.store.rules, rows,
					     UNWIND_BLOCK_ROWS, &count) != UNWIND_BUILD_ROWS)
			unwind_store_put_empty(page);
		else
			assert_true(unwind_store_put_rows(&bench.store, page, rows, count, &err));
	}
}

static void find_own_code(void)
{
	const uint64_t here = (uint64_t)(uintptr_t)leaf_plain;
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t offset;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &bench.start, &bench.end, &offset) == 3 &&
		    here >= bench.start && here < bench.end)
			break;
	}
	fclose(maps);
	assert_in_range(here, bench.start, bench.end - 1);
	assert_true(elf_file_load_bias(bench.elf, bench.start, offset, true, &bench.bias));
}

static uint64_t stack_top(void)
{
	pthread_attr_t attributes;
	void *lowest;
	size_t bytes;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
	assert_int_equal(pthread_attr_getstack(&attributes, &lowest, &bytes), 0);
	pthread_attr_destroy(&attributes);
	return (uint64_t)(uintptr_t)lowest + bytes;
}

static void test_interrupted_chains(void **state)
{
	const struct sigaction action = { .sa_sigaction = on_timer,
					  .sa_flags = SA_SIGINFO | SA_RESTART };
	const struct itimerval often = { .it_interval = { 0, 500 }, .it_value = { 0, 500 } };
	const struct itimerval never = { 0 };
	uint64_t give_up = clock_monotonic_ns() + GIVE_UP_S * SECOND_NS;
	struct err err;
	int fd;

	(void)state;
	bench.stack_top = stack_top();
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	bench.elf = elf_file_open(fd, &err);
	assert_non_null(bench.elf);
	bench.tables = unwind_tables_open(bench.elf, NULL, &err);
	assert_non_null(bench.tables);
	assert_true(unwind_store_open_local(&bench.store, 16 << 20, &err));
	assert_true(unwind_store_take_executable(&bench.store, &bench.id));
	bench.twin = twin_new();
	assert_non_null(bench.twin);
	find_own_code();
	build_all_pages();
	assert_true(extents_take(&bench.store.mapping_runs, 1, &bench.run));
	bench.store.mappings[bench.run] = (struct unwind_mapping){ .start = bench.start,
								   .end = bench.end,
								   .load_bias = bench.bias,
								   .executable = bench.id };
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	while (bench.walks < WALKS && clock_monotonic_ns() < give_up)
		sink += chain_framed(sink, DEPTH);
	setitimer(ITIMER_REAL, &never, NULL);
	print_message("%u walks, %u whole; in a leaf without a frame %u, with one %u\n",
		      bench.walks, bench.whole, bench.leaves[0], bench.leaves[1]);
	if (bench.whole != bench.walks)
		fail_msg("%s", bench.wrong);
	assert_in_range(bench.walks, WALKS / 10, WALKS);
	assert_in_range(bench.leaves[0], 1, WALKS);
	assert_in_range(bench.leaves[1], 1, WALKS);
	twin_free(bench.twin);
	unwind_tables_free(bench.tables);
	unwind_store_close(&bench.store);
	elf_file_free(bench.elf);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interrupted_chains),
	};

#ifdef __SANITIZE_THREAD__
	print_message(
		"SKIPPED: ThreadSanitizer delivers signals when it likes, not where they came\n");
	return 0;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
