/*
 * The unwinder, kind of rule by kind and end by end, over hand-made tables and a hand-made stack:
 * what BPF runs is the same source (bpf/unwind.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "agent/process/modules.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"

enum {
	CODE = 0x400000, /* where the executable is mapped, elf_vaddr 0 */
	CODE_BYTES = 0x30000,
	JIT = 0x900000, /* anonymous code */
	JIT_BYTES = 0x1000,
	STACK = 0x7000000, /* the readable stack */
	WORDS = 512,
	STEP = 0x100, /* each rule holds for this many bytes of code */
};
#define SP STACK

/* A register that is known in a leaf only, and where the kernel's signal frame has it. */
#ifdef __aarch64__
enum { LEAF_REGISTER = UNWIND_REG_LR, SIGNAL_LEAF_REGISTER = 30, SIGNAL_FP = 29, SIGNAL_SP = 31 };
enum { SIGNAL_PC = 32 };
#else
enum { LEAF_REGISTER = UNWIND_REG_R10, SIGNAL_LEAF_REGISTER = 2, SIGNAL_FP = 10, SIGNAL_SP = 15 };
enum { SIGNAL_PC = 16 };
#endif

struct rig {
	struct unwind_store store;
	struct twin *twin;
	uint64_t words[WORDS];
	uint32_t executable, run;
	struct unwind_row rows[64];
	uint32_t row_count;
	uint32_t present;         /* words of them; 0: all */
	uint32_t reads, evict_at; /* at this read the tables go; 0: never */
};

static bool read_words(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	struct rig *r = ctx;
	uint64_t offset = address - STACK;
	uint64_t there = r->present ? r->present * 8 : sizeof(r->words);

	if (++r->reads == r->evict_at)
		unwind_store_evict(&r->store, r->executable);
	if (offset > there || bytes > there - offset)
		return false;
	memcpy(to, (const char *)r->words + offset, bytes);
	return true;
}

static void set_up(struct rig *r)
{
	struct err err;
	uint32_t run;

	memset(r, 0, sizeof(*r));
	assert_true(unwind_store_open_local(&r->store, 1 << 20, &err));
	r->twin = twin_new();
	assert_true(unwind_store_take_executable(&r->store, &r->executable));
	assert_true(unwind_store_set_pages(&r->store, r->executable, 0,
					   2)); /* the third page has no entry */
	assert_true(extents_take(&r->store.mapping_runs, 3, &run));
	r->run = run;
	r->store.mappings[run] = (struct unwind_mapping){ .start = CODE,
							  .end = CODE + CODE_BYTES,
							  .load_bias = CODE,
							  .executable = r->executable };
	r->store.mappings[run + 1] = (struct unwind_mapping){ .start = JIT,
							      .end = JIT + JIT_BYTES,
							      .load_bias = UNWIND_BIAS_UNKNOWN };
	r->store.mappings[run + 2] = (struct unwind_mapping){ .start = JIT + 0x10000,
							      .end = JIT + 0x11000,
							      .load_bias = UNWIND_BIAS_UNKNOWN,
							      .executable = UINT32_MAX };
}

static void tear_down(struct rig *r)
{
	twin_free(r->twin);
	unwind_store_close(&r->store);
}

/* The rule for the next STEP bytes of code; returns an address inside. */
static uint64_t add_rule(struct rig *r, struct unwind_rule rule)
{
	uint16_t index;

	assert_true(unwind_rules_intern(&r->store.rules, &rule, &index));
	r->rows[r->row_count] = (struct unwind_row){ (uint16_t)(r->row_count * STEP), index };
	return CODE + r->row_count++ * STEP + STEP / 2;
}

static void publish(struct rig *r)
{
	struct err err;

	assert_true(unwind_store_put_rows(&r->store, unwind_store_page(&r->store, r->executable, 0),
					  r->rows, r->row_count, &err));
}

static enum unwind_end walk_from(struct rig *r, uint64_t pc, uint64_t sp, uint64_t fp)
{
	struct unwind_cursor c = { .pc = pc, .sp = sp, .fp = fp, .leaf_known = 1 };
	const struct twin_memory memory = { read_words, r };

	c.leaf[LEAF_REGISTER - UNWIND_REG_LEAF] = SP + 64;
	c.leaf[UNWIND_REG_RDI - UNWIND_REG_LEAF] = 2;
	twin_start(r->twin, &r->store, &memory, &c, NULL);
	twin_run(r->twin, r->run, 3);
	return twin_walk(r->twin);
}

static enum unwind_end walk(struct rig *r, uint64_t pc, uint64_t fp)
{
	return walk_from(r, pc, SP, fp);
}

static uint32_t frames(const struct rig *r, uint64_t *out)
{
	uint32_t count, n = 0;
	const uint64_t *words = twin_words(r->twin, &count);

	for (uint32_t i = 0; i < count; i += 2) {
		out[n] = words[i + 1];
		if ((words[i] & 0xff) == FRAME_TAG_NATIVE) {
			assert_int_equal(words[i] >> 32, r->executable);
			out[n] += CODE;
		}
		n++;
	}
	return n;
}

static const struct unwind_rule stop_rule = { .kind = UNWIND_STOP };
/* push rbp; mov rbp, rsp: the frame of most code */
static const struct unwind_rule fp_frame = { .kind = UNWIND_CFA,
					     .cfa_base = UNWIND_REG_FP,
					     .cfa_offset = 16,
					     .fp_from = UNWIND_FROM_CFA,
					     .fp_offset = -16,
					     .ra_from = UNWIND_FROM_CFA,
					     .ra_offset = -8 };

static struct unwind_rule sp_frame(int32_t bytes)
{
	return (struct unwind_rule){ .kind = UNWIND_CFA,
				     .cfa_base = UNWIND_REG_SP,
				     .cfa_offset = bytes,
				     .fp_from = UNWIND_FROM_SAME,
				     .ra_from = UNWIND_FROM_CFA,
				     .ra_offset = -8 };
}

/* ---- rules: one frame of that kind, then a bottom
 * ------------------------------------------------ */

static void test_kinds(void **state)
{
	static const struct {
		const char *what;
		struct unwind_rule rule;
		uint32_t ra_word; /* where the return address lies on the stack */
		uint32_t fp_word; /* where FP is saved; 0: it stays */
		uint64_t fp;      /* at the start; 0: SP + 32 */
	} cases[] = {
		{ "SP + n",
		  { .kind = UNWIND_CFA,
		    .cfa_offset = 24,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  2,
		  0,
		  0 },
		{ "FP + 16",
		  { .kind = UNWIND_CFA,
		    .cfa_base = UNWIND_REG_FP,
		    .cfa_offset = 16,
		    .fp_from = UNWIND_FROM_CFA,
		    .fp_offset = -16,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  5,
		  4,
		  0 },
		{ "FP saved elsewhere",
		  { .kind = UNWIND_CFA,
		    .cfa_offset = 48,
		    .fp_from = UNWIND_FROM_CFA,
		    .fp_offset = -32,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  5,
		  2,
		  0 },
		{ "RA relative to SP",
		  { .kind = UNWIND_CFA,
		    .cfa_offset = 64,
		    .ra_from = UNWIND_FROM_SP,
		    .ra_offset = 8 },
		  1,
		  0,
		  0 },
		{ "RA and FP relative to FP",
		  { .kind = UNWIND_CFA,
		    .cfa_offset = 64,
		    .fp_from = UNWIND_FROM_FP,
		    .fp_offset = 0,
		    .ra_from = UNWIND_FROM_FP,
		    .ra_offset = 8 },
		  5,
		  4,
		  0 },
		{ "a leaf's register",
		  { .kind = UNWIND_CFA,
		    .cfa_base = LEAF_REGISTER,
		    .cfa_offset = 8,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  8,
		  0,
		  0 },
		{ "CFA in memory",
		  { .kind = UNWIND_CFA_DEREF,
		    .cfa_offset = 8,
		    .index = UNWIND_REG_NONE,
		    .post = 16 },
		  8,
		  0,
		  0 },
		{ "CFA in memory, indexed",
		  { .kind = UNWIND_CFA_DEREF,
		    .cfa_offset = -8,
		    .index = UNWIND_REG_RDI,
		    .post = 16 },
		  8,
		  0,
		  0 },
		{ "frame pointer", { .kind = UNWIND_FP }, 5, 4, 0 },
		{ "a plausible frame pointer", { .kind = UNWIND_NONE }, 5, 4, 0 },
		{ "PLT, before its push", { .kind = UNWIND_PLT, .cfa_offset = 11 }, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t pc, caller, got[8];
		enum unwind_end end;
		struct rig r;

		set_up(&r);
		pc = add_rule(&r, cases[i].rule) & ~15ull;
		caller = add_rule(&r, stop_rule);
		publish(&r);
		r.words[1] = SP + 56; /* what the CFA in memory is, less `post` */
		r.words[cases[i].ra_word] = caller;
		if (cases[i].fp_word)
			r.words[cases[i].fp_word] = 0;
		end = walk(&r, pc, SP + 32);
		if (end != UNWIND_END_BOTTOM)
			fail_msg("%s: end %u", cases[i].what, end);
		assert_int_equal(frames(&r, got), 2);
		assert_int_equal(got[0], pc);
		assert_int_equal(got[1], caller);
		if (cases[i].fp_word)
			assert_int_equal(twin_cursor(r.twin)->fp, 0);
		tear_down(&r);
	}
}

/* A PLT entry behind its push has one word more on the stack. */
static void test_plt_after_push(void **state)
{
	uint64_t pc, caller, got[8];
	struct rig r;

	(void)state;
	set_up(&r);
	pc = (add_rule(&r, (struct unwind_rule){ .kind = UNWIND_PLT, .cfa_offset = 11 }) & ~15ull) +
	     11;
	caller = add_rule(&r, stop_rule);
	publish(&r);
	r.words[1] = caller;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 2);
	assert_int_equal(got[1], caller);
	tear_down(&r);
}

/* A signal frame brings all registers back: the interrupted leaf may need one of its own. */
static void test_signal(void **state)
{
	uint64_t handler, trampoline, leaf, caller, got[8];
	struct unwind_rule by_register = { .kind = UNWIND_CFA,
					   .cfa_base = LEAF_REGISTER,
					   .cfa_offset = 8,
					   .ra_from = UNWIND_FROM_CFA,
					   .ra_offset = -8 };
	const uint32_t at = 20; /* word of the sigcontext */
	struct rig r;

	(void)state;
	set_up(&r);
	handler = add_rule(&r, sp_frame(8));
	trampoline = add_rule(
		&r, (struct unwind_rule){ .kind = UNWIND_SIGNAL, .cfa_offset = (at - 1) * 8 });
	leaf = add_rule(&r, by_register);
	caller = add_rule(&r, stop_rule);
	publish(&r);
	r.words[0] = trampoline;
	r.words[at + SIGNAL_LEAF_REGISTER] = SP + 480;
	r.words[at + SIGNAL_FP] = 77;
	r.words[at + SIGNAL_SP] = SP + 440;
	r.words[at + SIGNAL_PC] = leaf; /* no return address */
	r.words[60] = caller;           /* at SP + 480 + 8 - 8 */
	assert_int_equal(walk(&r, handler, 0), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 4);
	assert_int_equal(got[2], leaf);
	assert_int_equal(got[3], caller);
	assert_int_equal(twin_cursor(r.twin)->fp, 77);
	tear_down(&r);
}

/* ---- ends: each can be reached
 * -------------------------------------------------------------------- */

static enum unwind_end end_of(struct unwind_rule rule, uint64_t return_address, uint64_t fp)
{
	enum unwind_end end;
	struct rig r;
	uint64_t pc;

	set_up(&r);
	pc = add_rule(&r, rule);
	publish(&r);
	r.words[0] = return_address;
	end = walk(&r, pc, fp);
	tear_down(&r);
	return end;
}

static void test_ends(void **state)
{
	const struct unwind_rule leaf = sp_frame(8), none = { .kind = UNWIND_NONE },
				 fp = { .kind = UNWIND_FP };

	(void)state;
	assert_int_equal(end_of(stop_rule, 0, 0), UNWIND_END_BOTTOM);
	assert_int_equal(end_of(fp, 0, 0), UNWIND_END_BOTTOM); /* Go, and entry code: FP is 0 */
	assert_int_equal(end_of(leaf, 0, 0), UNWIND_END_ZERO_PC);
	assert_int_equal(end_of(leaf, 0x1234, 0), UNWIND_END_NO_MAPPING);
	assert_int_equal(end_of(leaf, CODE + 0x10010, 0),
			 UNWIND_END_NO_TABLE); /* its page is absent */
	assert_int_equal(end_of(leaf, JIT + 0x10010, 0), UNWIND_END_NO_TABLE); /* not opened */
	assert_int_equal(end_of(none, 0, 0), UNWIND_END_NO_RULE);
	assert_int_equal(end_of(none, 0, 3), UNWIND_END_NO_RULE);
	assert_int_equal(end_of(none, 0, SP - 8), UNWIND_END_NO_RULE);
	assert_int_equal(end_of(none, 0, SP + 33), UNWIND_END_NO_RULE);
	assert_int_equal(end_of(none, 0, SP + (2 << 20)), UNWIND_END_NO_RULE);
	assert_int_equal(end_of(sp_frame(WORDS * 8 + 8), 0, 0), UNWIND_END_UNREADABLE);
	assert_int_equal(end_of(fp, 0, SP + WORDS * 8), UNWIND_END_UNREADABLE);
	assert_int_equal(end_of(fp, 0, SP - 64), UNWIND_END_BAD_CFA);
	assert_int_equal(end_of((struct unwind_rule){ .kind = UNWIND_KIND_COUNT }, 0, 0),
			 UNWIND_END_BAD_RULE);
	assert_int_equal(end_of((struct unwind_rule){ .kind = UNWIND_CFA,
						      .cfa_offset = 8,
						      .ra_from = UNWIND_FROM_COUNT },
				0, 0),
			 UNWIND_END_BAD_RULE);
}

/* FP points to itself: frames that do not rise end the walk, however sure the table is. */
static void test_no_progress(void **state)
{
	struct rig r;
	uint64_t pc;

	(void)state;
	set_up(&r);
	pc = add_rule(&r, fp_frame);
	publish(&r);
	r.words[4] = SP + 32;
	r.words[5] = pc;
	assert_int_equal(walk(&r, pc, SP + 32), UNWIND_END_BAD_CFA);
	tear_down(&r);
}

/* A caller's frame that hangs on a register which only the leaf has. */
static void test_leaf_register(void **state)
{
	struct rig r;
	uint64_t pc, caller;

	(void)state;
	set_up(&r);
	pc = add_rule(&r, sp_frame(8));
	caller = add_rule(&r, (struct unwind_rule){ .kind = UNWIND_CFA,
						    .cfa_base = LEAF_REGISTER,
						    .ra_from = UNWIND_FROM_CFA });
	publish(&r);
	r.words[0] = caller;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_LEAF_REGISTER);
	tear_down(&r);
}

static void test_depth(void **state)
{
	uint64_t pc, got[UNWIND_FRAMES_MAX + 8];
	struct rig r;

	(void)state;
	set_up(&r);
	pc = add_rule(&r, (struct unwind_rule){ .kind = UNWIND_SIGNAL, .cfa_offset = 0 });
	publish(&r);
	r.words[SIGNAL_SP] = SP; /* a signal frame that returns into itself */
	r.words[SIGNAL_PC] = pc;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_DEPTH);
	assert_int_equal(frames(&r, got), UNWIND_FRAMES_MAX);
	tear_down(&r);
}

/* Anonymous code is walked by frame pointers and shown by its address. */
static void test_anonymous_code(void **state)
{
	uint64_t caller, got[8];
	struct rig r;

	(void)state;
	set_up(&r);
	caller = add_rule(&r, stop_rule);
	publish(&r);
	r.words[4] = SP + 100 * 8;
	r.words[5] = caller;
	assert_int_equal(walk(&r, JIT + 0x10, SP + 32), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 2);
	assert_int_equal(got[0], JIT + 0x10);
	assert_int_equal(got[1], caller);
	tear_down(&r);
}

/* A page that was missing is built; the walk goes on where it stood, no frame twice. */
static void test_goes_on(void **state)
{
	uint64_t pc, caller, got[8];
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r);
	pc = add_rule(&r, sp_frame(8));
	caller = add_rule(&r, stop_rule);
	r.words[0] = caller;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_NO_TABLE);
	assert_int_equal(twin_walk(r.twin), UNWIND_END_NO_TABLE);
	publish(&r);
	assert_int_equal(twin_walk(r.twin), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 2);
	assert_int_equal(got[1], caller);
	/* Evicted rows are asked for again, and what is full says so. */
	assert_int_equal(unwind_store_evict(&r.store, r.executable), 2);
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_NO_TABLE);
	for (uint32_t i = 0; i < 4; i++) {
		struct unwind_row *many = test_calloc(UNWIND_BLOCK_ROWS, sizeof(*many));
		bool fits = unwind_store_put_rows(&r.store,
						  unwind_store_page(&r.store, r.executable, 1),
						  many, UNWIND_BLOCK_ROWS, &err);

		assert_int_equal(fits, i < 3); /* the fourth block still holds what was evicted */
		test_free(many);
	}
	assert_int_equal(err.kind, ERR_LIMIT);
	unwind_store_tick(&r.store, 2 * STORE_GRACE_NS);
	publish(&r);
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_BOTTOM);
	tear_down(&r);
}

/* Frames of a runtime: without data, or known to be lost, they are shown as native, and the good
 * end is none. Walks that meet no such frame end well. */
static void test_lost_runtime(void **state)
{
	static const struct {
		bool through_loop, step_on, lost;
		enum unwind_end want;
	} cases[] = {
		{ true, true, true, UNWIND_END_RUNTIME },
		{ true, true, false, UNWIND_END_RUNTIME }, /* no data of the process */
		{ true, false, false, UNWIND_END_BOTTOM }, /* nobody asked for it */
		{ false, true, true, UNWIND_END_BOTTOM },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct unwind_cursor c = { .sp = SP, .leaf_known = 1 };
		static const uint16_t none[UNWIND_PROCESS_RUNTIMES];
		const uint32_t bit = 1u << UNWIND_STEP_CPYTHON;
		uint64_t leaf, loop, outer, got[UNWIND_FRAMES_MAX];
		struct rig r;
		const struct twin_memory memory = { read_words, &r };

		set_up(&r);
		leaf = add_rule(&r, sp_frame(16));
		loop = add_rule(&r, sp_frame(24));
		outer = add_rule(&r, stop_rule);
		publish(&r);
		unwind_store_set_interpreter(&r.store, r.executable, UNWIND_STEP_CPYTHON,
					     (const uint64_t[]){ loop - CODE - 8, loop - CODE + 8 },
					     (const uint64_t[]){ 0, 0 });
		r.words[1] = cases[i].through_loop ? loop : outer;
		r.words[4] = outer;
		c.pc = leaf;
		twin_start(r.twin, &r.store, &memory, &c, NULL);
		twin_run(r.twin, r.run, 3);
		twin_runtimes(r.twin, cases[i].step_on ? bit : 0, none);
		twin_lose(r.twin, cases[i].lost ? bit : 0);
		if (twin_walk(r.twin) != cases[i].want)
			fail_msg("case %zu: end is not %d", i, (int)cases[i].want);
		assert_int_equal(frames(&r, got), cases[i].through_loop ? 3 : 2);
		assert_int_equal(got[1], cases[i].through_loop ? loop : outer);
		tear_down(&r);
	}
}

/* What was found out of an address serves each further frame there, with every usual rule: the
 * tables go with the first read of the stack, and only an address not seen before needs them. */
static void test_known_addresses(void **state)
{
	static const struct {
		const char *what;
		struct unwind_rule rule;
		uint32_t words; /* of a frame: its return address is the last, its FP before that */
		bool fp;
	} cases[] = {
		{ "sp",
		  { .kind = UNWIND_CFA,
		    .cfa_base = UNWIND_REG_SP,
		    .cfa_offset = 16,
		    .fp_from = UNWIND_FROM_SAME,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  2,
		  false },
		{ "sp, fp saved",
		  { .kind = UNWIND_CFA,
		    .cfa_base = UNWIND_REG_SP,
		    .cfa_offset = 32,
		    .fp_from = UNWIND_FROM_CFA,
		    .fp_offset = -16,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  4,
		  false },
		{ "fp",
		  { .kind = UNWIND_CFA,
		    .cfa_base = UNWIND_REG_FP,
		    .cfa_offset = 16,
		    .fp_from = UNWIND_FROM_CFA,
		    .fp_offset = -16,
		    .ra_from = UNWIND_FROM_CFA,
		    .ra_offset = -8 },
		  4,
		  true },
		{ "sure fp", { .kind = UNWIND_FP }, 4, true },
	};
	enum { DEEP = 60 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t pc, last, got[DEEP + 8];
		struct rig r;

		set_up(&r);
		pc = add_rule(&r, cases[i].rule);
		/* Not in the same 4 KiB: those are remembered as a whole. */
		while (r.row_count * STEP < 1u << UNWIND_KNOWN_PAGE_SHIFT)
			add_rule(&r, sp_frame(8 + 8 * (int32_t)r.row_count));
		last = add_rule(&r, stop_rule);
		publish(&r);
		for (uint32_t n = 1; n <= DEEP; n++) {
			uint32_t at = n * cases[i].words - 1;

			r.words[at] = n < DEEP ? pc : last;
			r.words[at - 1] = SP + (at + cases[i].words - 1) * 8;
		}
		for (r.evict_at = 0; r.evict_at <= 1; r.evict_at++) {
			enum unwind_end end;
			uint32_t count;

			r.reads = 0;
			end = walk(&r, pc, cases[i].fp ? SP + (cases[i].words - 2) * 8 : 0);
			count = frames(&r, got);
			if (end != (r.evict_at ? UNWIND_END_NO_TABLE : UNWIND_END_BOTTOM) ||
			    count != DEEP + 1 || got[0] != pc || got[DEEP - 1] != pc ||
			    got[DEEP] != last)
				fail_msg("%s: end %d, %u frames", cases[i].what, (int)end, count);
			/* A window at a time, not a frame at a time. */
			assert_in_range(r.reads, 1, DEEP * 4 * 8 / UNWIND_WINDOW_BYTES + 1);
		}
		tear_down(&r);
	}
}

/* Stacks that end where their page ends, and ones that are not aligned. */
static void test_windows_of_the_stack(void **state)
{
	uint64_t pc, last, got[WORDS + 8];
	struct rig r;

	(void)state;
	set_up(&r);
	pc = add_rule(&r, sp_frame(8));
	last = add_rule(&r, stop_rule);
	publish(&r);
	for (uint32_t i = 0; i < WORDS; i++)
		r.words[i] = pc;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_UNREADABLE);
	assert_int_equal(frames(&r, got), WORDS + 1);
	r.words[WORDS - 1] = last;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), WORDS + 1);
	assert_int_equal(walk_from(&r, pc, SP + 8 * (WORDS - 1), 0), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 2);
	/* A copied stack may end anywhere. */
	r.present = 100;
	assert_int_equal(walk(&r, pc, 0), UNWIND_END_UNREADABLE);
	assert_int_equal(frames(&r, got), 100 + 1);
	r.present = 0;
	memset(r.words, 0, sizeof(r.words));
	memcpy((char *)r.words + 4, &pc, sizeof(pc));
	memcpy((char *)r.words + 12, &last, sizeof(last));
	assert_int_equal(walk_from(&r, pc, SP + 4, 0), UNWIND_END_BOTTOM);
	assert_int_equal(frames(&r, got), 3);
	tear_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),           cmocka_unit_test(test_plt_after_push),
		cmocka_unit_test(test_signal),          cmocka_unit_test(test_ends),
		cmocka_unit_test(test_no_progress),     cmocka_unit_test(test_leaf_register),
		cmocka_unit_test(test_depth),           cmocka_unit_test(test_anonymous_code),
		cmocka_unit_test(test_goes_on),         cmocka_unit_test(test_lost_runtime),
		cmocka_unit_test(test_known_addresses), cmocka_unit_test(test_windows_of_the_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
