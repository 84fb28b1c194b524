/*
 * The step over made-up stacks: native frames (by frame pointer) of execute_ex, of C between its
 * runs and of JIT code, and PHP's own list of frames, whole, cut, cyclic and senseless.
 */
#include "agent/runtimes/php/fake_php_test.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"

enum {
	CODE = 0x400000,
	CODE_BYTES = 0x10000,
	MACHINE = CODE + 0x1000, /* execute_ex */
	MACHINE_BYTES = 0x1000,
	NATIVE = CODE + 0x100,
	JIT = 0x800000,
	JIT_BYTES = 0x1000,
	EXPRESSION = 0x900000, /* compiled by PCRE2 */
	STACK = 0x7000000,
	STACK_WORDS = 256,
	GLOBALS = FAKE_BASE + 8,
};

static struct rig {
	struct fake_php php;
	struct unwind_store store;
	struct twin *twin;
	uint32_t executable, run;
	uint16_t slots[UNWIND_PROCESS_RUNTIMES];
	uint64_t stack[STACK_WORDS];
	uint32_t reads;
} rig;

static bool read_word(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	struct rig *r = ctx;
	uint64_t at = address - STACK;

	r->reads++;
	if (at < sizeof(r->stack) && bytes <= sizeof(r->stack) - at) {
		memcpy(to, (const char *)r->stack + at, bytes);
		return true;
	}
	return fake_read(&r->php, FAKE_PID, address, to, bytes);
}

static void attach(struct rig *r)
{
	const struct runtime_target target = { .pid = FAKE_PID, .memory = &r->php.access };
	struct runtime_attachment found = { .data.step = UNWIND_STEP_PHP };

	r->php.facts.globals = GLOBALS - (uint64_t)r->php.facts.offsets.globals_current;
	r->php.facts.body = MACHINE + MACHINE_BYTES;
	assert_int_equal(php_runtime.attach(&target, &r->php.executable, &found), RUNTIME_ATTACHED);
	found.data.php.executable = r->executable;
	r->slots[0] = unwind_store_take_runtime(&r->store, &found.data);
	assert_int_not_equal(r->slots[0], 0);
}

static int set_up(void **state)
{
	struct rig *r = &rig;
	struct err err;

	(void)state;
	memset(r, 0, sizeof(*r));
	fake_init(&r->php, OFFSET_VERSION(8, 4));
	assert_true(unwind_store_open_local(&r->store, 1 << 20, &err));
	r->twin = twin_new();
	assert_true(unwind_store_take_executable(&r->store, &r->executable));
	assert_true(unwind_store_set_pages(&r->store, r->executable, 0, 0));
	assert_true(extents_take(&r->store.mapping_runs, 3, &r->run));
	r->store.mappings[r->run] = (struct unwind_mapping){ .start = CODE,
							     .end = CODE + CODE_BYTES,
							     .executable = r->executable };
	r->store.mappings[r->run + 1] = (struct unwind_mapping){ .start = JIT,
								 .end = JIT + JIT_BYTES,
								 .load_bias = UNWIND_BIAS_UNKNOWN,
								 .step = UNWIND_STEP_PHP };
	r->store.mappings[r->run + 2] = (struct unwind_mapping){ .start = EXPRESSION,
								 .end = EXPRESSION + JIT_BYTES,
								 .load_bias = UNWIND_BIAS_UNKNOWN,
								 .step = UNWIND_STEP_PCRE };
	unwind_store_set_interpreter(&r->store, r->executable, UNWIND_STEP_PHP,
				     (const uint64_t[]){ MACHINE, MACHINE + MACHINE_BYTES },
				     (const uint64_t[]){ 0, 0 });
	r->store.executables[r->executable].flags |= EXECUTABLE_LOADED;
	attach(r);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twin_free(rig.twin);
	unwind_store_close(&rig.store);
	return 0;
}

static enum unwind_end walk_from(const struct unwind_cursor *c)
{
	const struct twin_memory memory = { read_word, &rig };

	twin_start(rig.twin, &rig.store, &memory, c, NULL);
	twin_run(rig.twin, rig.run, 3);
	twin_runtimes(rig.twin, 1u << UNWIND_STEP_PHP | 1u << UNWIND_STEP_PCRE, rig.slots);
	rig.reads = 0;
	return twin_walk(rig.twin);
}

/* What a stack is, leaf first: "n" native, "m" the machine, "j" JIT code; as frames with frame
 * pointers. Returns how the walk of it ends. */
static enum unwind_end walk(const char *stack, uint64_t newest)
{
	struct unwind_cursor c = { .sp = STACK, .fp = STACK, .return_address = 1 };
	uint64_t at = 0;

	memset(rig.stack, 0, sizeof(rig.stack));
	for (size_t i = 0; stack[i]; i++) {
		uint64_t pc = stack[i] == 'm'   ? MACHINE + 100
			      : stack[i] == 'j' ? JIT + 100
						: NATIVE;

		if (!i) {
			c.pc = pc;
			continue;
		}
		rig.stack[at] = STACK + at * 8 + 16;
		rig.stack[at + 1] = pc;
		at += 2;
	}
	fake_word(&rig.php, GLOBALS, newest);
	return walk_from(&c);
}

/* The frames found: "n" native, "?" without a file, else the letter of the function, "M", "I" and
 * "E" for files' code. */
static void check(const char *want, const uint64_t *functions)
{
	char got[UNWIND_FRAMES_MAX + 1];
	uint32_t count, n = 0;
	const uint64_t *words = twin_words(rig.twin, &count);

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff)) {
		uint32_t kind = PHP_FRAME_KIND(words[i + 1]);

		got[n] = '?';
		if ((words[i] & 0xff) == FRAME_TAG_NATIVE)
			got[n] = 'n';
		else if ((words[i] & 0xff) == FRAME_TAG_PHP && kind != PHP_KIND_FUNCTION)
			got[n] = "?CMIE???"[kind];
		for (int f = 0; functions && functions[f] && got[n] == '?'; f++)
			if (PHP_FRAME_ADDRESS(words[i + 1]) == functions[f])
				got[n] = (char)('a' + f);
		n++;
	}
	got[n] = 0;
	assert_string_equal(got, want);
}

enum { TOP = 1 << 17, CODE_FLAG = 1 << 16, OBJECT = 8 };

static uint64_t user(const char *name)
{
	return fake_function(&rig.php, PHP_USER, 0, NULL, name, "/a.php");
}

static uint64_t internal(const char *name)
{
	return fake_function(&rig.php, PHP_INTERNAL, 0, NULL, name, NULL);
}

static void test_runs_of_the_machine(void **state)
{
	uint64_t f[] = { user("burn"), user("callback"), internal("usort"), user("work"), 0 };
	uint64_t script = user(NULL), frame;

	(void)state;
	frame = fake_frame(&rig.php, script, 1, TOP | CODE_FLAG, 0);
	frame = fake_frame(&rig.php, script, 1, CODE_FLAG, frame);
	frame = fake_frame(&rig.php, f[3], 1, 0, frame);
	frame = fake_frame(&rig.php, f[2], 0, TOP, frame); /* the mark is not of its own run */
	frame = fake_frame(&rig.php, 0, 0, TOP, frame);    /* holds the place of something */
	frame = fake_frame(&rig.php, f[1], 1, TOP, frame);
	frame = fake_frame(&rig.php, f[0], 1, 0, frame);
	assert_int_equal(walk("nmnnmn", frame), UNWIND_END_BOTTOM);
	check("nabnncdIMn", f);
	assert_int_equal(walk("njnnmn", frame), UNWIND_END_BOTTOM);
	check("nabnncdIMn", f);
	/* More runs than frames: the machine itself is shown. */
	assert_int_equal(walk("mmm", frame), UNWIND_END_BOTTOM);
	check("abcdIMn", f);
	/* More frames than runs: something was not seen. */
	assert_int_equal(walk("mn", frame), UNWIND_END_RUNTIME);
	check("abn", f);
}

static void test_kinds(void **state)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t f[] = { fake_function(&rig.php, PHP_USER,
				       (uint32_t)(o->flag_copy | o->flag_passing), NULL, "copy",
				       "/a.php"),
			 0 };
	uint64_t closure = fake_function(&rig.php, PHP_USER, (uint32_t)o->flag_passing, NULL,
					 "{closure}", "/a.php");
	uint64_t eval = fake_function(&rig.php, PHP_EVAL, 0, NULL, NULL, "/a.php"), frame;
	const uint64_t *words;
	uint32_t count;

	(void)state;
	frame = fake_frame(&rig.php, eval, 5, TOP | CODE_FLAG, 0);
	frame = fake_frame(&rig.php, closure, 4, 0, frame);
	frame = fake_frame(&rig.php, f[0], 1, 0, frame);
	assert_int_equal(walk("mn", frame), UNWIND_END_BOTTOM);
	check("aCEn", f);
	words = twin_words(rig.twin, &count);
	assert_int_equal(words[5] & PHP_LINE_MOST, 14);
	assert_int_equal(words[8], 15);
}

static uint64_t generator(uint64_t frame, uint64_t waits_for)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t at = fake_alloc(&rig.php, 512);

	fake_word(&rig.php, at + (uint64_t)o->generator_frame, frame);
	fake_word(&rig.php, at + (uint64_t)o->generator_parent, waits_for);
	return at;
}

/* The frame that stands for the generators that wait, the outermost of which is `at`. */
static uint64_t stand_in(uint64_t at, uint64_t previous)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t frame = at + (uint64_t)o->generator_stand_in;

	fake_word(&rig.php, frame + (uint64_t)o->frame_object, at);
	fake_half(&rig.php, frame + (uint64_t)o->frame_info, OBJECT);
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, previous);
	return frame;
}

static void test_delegating_generators(void **state)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t f[] = { user("inner"), user("middle"), user("outer"), user("main"), 0 };
	uint64_t base = fake_frame(&rig.php, f[3], 1, TOP, 0);
	uint64_t inner_frame = fake_frame(&rig.php, f[0], 1, TOP, 0);
	uint64_t inner = generator(inner_frame, 0);
	uint64_t middle = generator(fake_frame(&rig.php, f[1], 1, TOP, 0), inner);
	uint64_t outer = generator(fake_frame(&rig.php, f[2], 1, TOP, 0), middle);

	(void)state;
	fake_word(&rig.php, inner_frame + (uint64_t)o->frame_previous, stand_in(outer, base));
	assert_int_equal(walk("mnmn", inner_frame), UNWIND_END_BOTTOM);
	check("anbcdn", f);
	/* Each waits for the other. */
	fake_word(&rig.php, inner + (uint64_t)o->generator_parent, outer);
	assert_int_equal(walk("mnmn", inner_frame), UNWIND_END_RUNTIME);
	check("annn", f);
	assert_true(rig.reads < 200);
}

/* A fiber that `caller` (a context) runs, whose outermost frame is `bottom`. */
static uint64_t fiber(uint64_t caller, uint64_t bottom)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t at = fake_alloc(&rig.php, 512);

	fake_word(&rig.php, at + (uint64_t)o->fiber_caller, caller);
	fake_word(&rig.php, at + (uint64_t)o->fiber_bottom, bottom);
	return at;
}

/* A context whose stack was left in C, called by the machine; `words` of registers. */
static uint64_t context(uint64_t at, uint32_t words)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t stack = fake_alloc(&rig.php, 256), frame = stack + 160;
	const uint8_t call[] = { 0xe8, 0, 0, 0, 0 };

	fake_put(&rig.php, FAKE_BASE + 32, call,
		 sizeof(call)); /* what unwind_returns() looks for */
	fake_word(&rig.php, stack + (words - 1) * 8, NATIVE);
	fake_word(&rig.php, stack + (words - 2) * 8, frame);
	fake_word(&rig.php, frame + 8, MACHINE + 100);
	fake_word(&rig.php, frame, frame + 16);
	fake_word(&rig.php, at + (uint64_t)o->context_stack, stack);
	return at;
}

static void test_fibers(void **state)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t f[] = { user("leaf"), user("task"), user("main"), internal("Fiber::start"), 0 };
	uint64_t frame = fake_frame(&rig.php, f[2], 1, TOP, 0), task, bottom;

	(void)state;
	frame = fake_frame(&rig.php, f[3], 1, 0, frame);
	bottom = fake_frame(&rig.php, internal(""), 1, 0, frame);
	task = fake_frame(&rig.php, f[0], 1, 0, fake_frame(&rig.php, f[1], 1, TOP, bottom));
	fake_word(&rig.php, GLOBALS + (uint64_t)o->globals_fiber - (uint64_t)o->globals_current,
		  fiber(context(fake_alloc(&rig.php, 64), 9), bottom));
	assert_int_equal(walk("nm", task), UNWIND_END_BOTTOM);
	check("nabndc", f);
	/* Its stack was left nowhere: on by C's frames, and what is left is not shown. */
	fake_word(&rig.php, GLOBALS + (uint64_t)o->globals_fiber - (uint64_t)o->globals_current,
		  fiber(fake_alloc(&rig.php, 64), bottom));
	assert_int_equal(walk("nmn", task), UNWIND_END_RUNTIME);
	check("nabn", f);
}

static void test_senseless_frames(void **state)
{
	const struct php_offsets *o = &rig.php.facts.offsets;
	uint64_t f[] = { user("f"), 0 }, frame = fake_frame(&rig.php, f[0], 1, 0, 0);

	(void)state;
	assert_int_equal(walk("mn", 0), UNWIND_END_BOTTOM); /* nothing runs */
	check("nn", f);
	assert_int_equal(walk("mn", 0x1234), UNWIND_END_RUNTIME);
	check("nn", f);
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, 0xdead);
	assert_int_equal(walk("mn", frame), UNWIND_END_RUNTIME);
	check("an", f);
	/* It calls itself for ever: as many as a stack may have. */
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, frame);
	assert_int_equal(walk("mn", frame), UNWIND_END_DEPTH);
	fake_word(&rig.php, frame + (uint64_t)o->frame_function, 0xdead);
	assert_int_equal(walk("mn", frame), UNWIND_END_RUNTIME);
	check("nn", f);
	/* A generator that nobody has resumed. */
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, 0);
	fake_word(&rig.php, frame + (uint64_t)o->frame_function, f[0]);
	fake_half(&rig.php, frame + (uint64_t)o->frame_info, (uint32_t)(o->frame_generator | TOP));
	assert_int_equal(walk("mn", frame), UNWIND_END_RUNTIME);
	check("nn", f);
	fake_half(&rig.php, frame + (uint64_t)o->frame_info, 0);
	/* Its function was freed: it is passed over. */
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, 0);
	fake_word(&rig.php, frame + (uint64_t)o->frame_function, f[0]);
	fake_half(&rig.php, f[0] + (uint64_t)o->function_type, 0x5678);
	assert_int_equal(walk("mn", frame), UNWIND_END_BOTTOM);
	check("nn", f);
	fake_word(&rig.php, frame + (uint64_t)o->frame_previous, frame);
	/* Stand-ins for nothing, for ever. */
	fake_word(&rig.php, frame + (uint64_t)o->frame_function, 0);
	assert_int_equal(walk("mn", frame), UNWIND_END_DEPTH);
	check("", f);
}

/* The word that leads to the newest frame is not there, or the runtime is not known yet. */
static void test_without_data(void **state)
{
	const struct php_offsets *o = &rig.php.facts.offsets;

	(void)state;
	rig.store.runtimes[rig.slots[0]].php.globals = (uint64_t)o->globals_current;
	assert_int_equal(walk("mn", 0), UNWIND_END_RUNTIME);
	check("nn", NULL);
	rig.slots[0] = 0;
	assert_int_equal(walk("mn", 0), UNWIND_END_RUNTIME);
	check("nn", NULL);
}

/* The first word that leads behind a call by register in the library is the return address. */
static void test_expressions(void **state)
{
	static const uint8_t calls[] = { 0, 0, 0, 0xe8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0 };
	uint64_t code = fake_alloc(&rig.php, 64);
	struct php_runtime *r = &rig.store.runtimes[rig.slots[0]].php;
	struct unwind_cursor c = { .pc = EXPRESSION + 8, .sp = STACK, .fp = 0x1234 };
	const uint64_t *words;
	uint32_t count;

	(void)state;
	fake_put(&rig.php, code, calls, sizeof(calls));
	r->pcre_start = code;
	r->pcre_end = code + 64;
	memset(rig.stack, 0, sizeof(rig.stack));
	rig.stack[6] = code + 8; /* a direct call */
	rig.stack[15] = 0x5678;  /* rbp */
	rig.stack[20] = code + 16;
	assert_int_equal(walk_from(&c), UNWIND_END_NO_MAPPING); /* the library is not mapped here */
	words = twin_words(rig.twin, &count);
	assert_int_equal(count, 4);
	assert_int_equal(words[1], EXPRESSION + 8);
	assert_int_equal(words[3], code + 16);
	assert_int_equal(twin_cursor(rig.twin)->fp, 0x5678);
	assert_int_equal(twin_cursor(rig.twin)->sp, STACK + 21 * 8);
	rig.stack[20] = 0; /* none */
	assert_int_equal(walk_from(&c), UNWIND_END_NO_RULE);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_runs_of_the_machine),   WITH_RIG(test_kinds),
		WITH_RIG(test_delegating_generators), WITH_RIG(test_senseless_frames),
		WITH_RIG(test_without_data),          WITH_RIG(test_fibers),
		WITH_RIG(test_expressions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
