/*
 * The step over made-up stacks: frames of the interpreter, of compiled code, of builtins with and
 * without frames of their own, frames with a type; and what makes no sense.
 */
#include "agent/runtimes/v8/fake_v8_test.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"
#include "base/cleanup.h"

enum {
	CODE = 0x400000,
	CODE_BYTES = 0x10000,
	BUILTINS = CODE + 0x1000,
	BUILTINS_BYTES = 0x1000,
	NATIVE = CODE + 0x100,
	COMPILED = 0x800000,
	COMPILED_BYTES = 0x1000,
	STACK = 0x7000000,
	STACK_WORDS = 512,
	FRAME_WORDS = 8, /* of each made-up frame: six below FP, FP and the return address */
};

static struct rig {
	struct fake_v8 v8;
	struct unwind_store store;
	struct twin *twin;
	uint32_t executable, run;
	uint16_t slots[UNWIND_PROCESS_RUNTIMES];
	uint64_t stack[STACK_WORDS];
	uint64_t work, inner, builtin, array; /* JSFunctions, and a BytecodeArray */
} rig;

static bool read_word(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	struct rig *r = ctx;
	uint64_t at = address - STACK;

	if (at < sizeof(r->stack) && bytes <= sizeof(r->stack) - at) {
		memcpy(to, (const char *)r->stack + at, bytes);
		return true;
	}
	/* What lies behind a call: E8 and where to. */
	if (address >= COMPILED && address < COMPILED + COMPILED_BYTES && bytes == 8) {
		memcpy(to, "\x90\x90\x90\xe8\0\x10\0\0", 8);
		return true;
	}
	return fake_read(&r->v8, FAKE_PID, address, to, bytes);
}

static void attach(struct rig *r)
{
	const struct runtime_target target = { .pid = FAKE_PID, .memory = &r->v8.access };
	struct runtime_attachment found = { .data.step = UNWIND_STEP_V8 };

	assert_int_equal(v8_runtime.attach(&target, &r->v8.executable, &found), RUNTIME_ATTACHED);
	assert_int_equal(found.code_count, 1);
	found.data.v8.executable = r->executable;
	r->slots[0] = unwind_store_take_runtime(&r->store, &found.data);
	assert_int_not_equal(r->slots[0], 0);
}

static void make_objects(struct rig *r)
{
	struct fake_v8 *p = &r->v8;
	uint64_t script = fake_script(p, 1, 1);

	r->work = fake_function(p, fake_shared(p, 1, script));
	r->inner = fake_function(p, fake_shared(p, 1, script));
	r->builtin = fake_function(p, fake_shared(p, 1, 1));
	r->array = fake_bytecode(p, (const uint8_t *)"\1", 1, 0);
}

static int set_up(void **state)
{
	struct rig *r = &rig;
	struct err err;

	(void)state;
	memset(r, 0, sizeof(*r));
	fake_init(&r->v8, OFFSET_VERSION(12, 4));
	assert_true(unwind_store_open_local(&r->store, 1 << 20, &err));
	r->twin = twin_new();
	assert_true(unwind_store_take_executable(&r->store, &r->executable));
	assert_true(unwind_store_set_pages(&r->store, r->executable, 0, 0));
	assert_true(extents_take(&r->store.mapping_runs, 2, &r->run));
	r->store.mappings[r->run] = (struct unwind_mapping){ .start = CODE,
							     .end = CODE + CODE_BYTES,
							     .executable = r->executable };
	r->store.mappings[r->run + 1] = (struct unwind_mapping){ .start = COMPILED,
								 .end = COMPILED + COMPILED_BYTES,
								 .load_bias = UNWIND_BIAS_UNKNOWN,
								 .step = UNWIND_STEP_V8 };
	unwind_store_set_interpreter(&r->store, r->executable, UNWIND_STEP_V8,
				     (const uint64_t[]){ BUILTINS, BUILTINS + BUILTINS_BYTES },
				     (const uint64_t[]){ 0, 0 });
	r->store.executables[r->executable].flags |= EXECUTABLE_LOADED;
	attach(r);
	make_objects(r);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twin_free(rig.twin);
	unwind_store_close(&rig.store);
	return 0;
}

static uint64_t pc_of(char kind)
{
	if (kind == 'n')
		return NATIVE;
	return strchr("ibm", kind) ? BUILTINS + 100 : COMPILED + 100;
}

/* Words below FP of a frame. */
static void fill_frame(char kind, uint64_t fp)
{
	uint64_t *words = &rig.stack[(fp - STACK) / 8];

	words[-1] = 1; /* a context */
	words[-2] = kind == 'I' || kind == 'C' ? rig.inner : rig.work;
	if (kind == 'b')
		words[-2] = rig.builtin;
	if (kind == 'm' || kind == 'w')
		words[-1] = kind == 'm' ? 2 : 2 * (uint64_t)rig.v8.facts.offsets.frame_wasm;
	if (kind == 'i' || kind == 'I') {
		words[-4] = rig.array;
		words[-5] = fake_integer(63);
	}
	if (kind == 'x') /* a stack that something has written over */
		words[-2] = rig.array;
}

static enum unwind_end walk_from(uint64_t pc, bool interrupted)
{
	const struct twin_memory memory = { read_word, &rig };
	const struct unwind_cursor c = { .pc = pc,
					 .sp = STACK,
					 .fp = STACK + 8 * (FRAME_WORDS - 2),
					 .return_address = !interrupted };

	twin_start(rig.twin, &rig.store, &memory, &c, NULL);
	twin_run(rig.twin, rig.run, 2);
	twin_runtimes(rig.twin, 1u << UNWIND_STEP_V8, rig.slots);
	return twin_walk(rig.twin);
}

/*
 * Stacks, leaf first: "n" native; "i" and "I" the interpreter in work() and inner(); "c" and "C"
 * compiled code of them; "b" a builtin, "m" one without a function, "w" WebAssembly, "x" nonsense.
 */
static void make_stack(const char *stack)
{
	size_t count = strlen(stack);

	memset(rig.stack, 0, sizeof(rig.stack));
	for (size_t i = 0; i < count; i++) {
		uint64_t fp = STACK + 8 * (FRAME_WORDS * (i + 1) - 2);

		fill_frame(stack[i], fp);
		if (i + 1 < count) {
			rig.stack[(fp - STACK) / 8] = fp + (uint64_t)(8 * FRAME_WORDS);
			rig.stack[(fp - STACK) / 8 + 1] = pc_of(stack[i + 1]);
		}
	}
}

static void walk(const char *stack)
{
	make_stack(stack);
	walk_from(pc_of(stack[0]), false);
}

static char letter_of(const uint64_t *frame)
{
	uint64_t shared = 0;

	if ((frame[0] & 0xff) == FRAME_TAG_NATIVE)
		return 'n';
	if ((frame[0] & 0xff) != FRAME_TAG_V8)
		return '?';
	fake_read(&rig.v8, FAKE_PID, rig.inner - 1 + (uint64_t)rig.v8.facts.offsets.function_shared,
		  &shared, 8);
	return (V8_FRAME_WORD(frame[1]) == shared - 1 ? "IC?" : "icw")[V8_FRAME_KIND(frame[1])];
}

/* As stacks are written above; "?" without a file. */
static void check(const char *want)
{
	char got[UNWIND_FRAMES_MAX + 1];
	uint32_t count, n = 0;
	const uint64_t *words = twin_words(rig.twin, &count);

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff))
		got[n++] = letter_of(&words[i]);
	got[n] = 0;
	assert_string_equal(got, want);
}

static void walks_frames(void **state)
{
	static const struct {
		const char *stack, *frames;
	} cases[] = {
		{ "icn", "icn" },   { "nIcbcn", "nIcncn" }, { "ncCmn", "ncCnn" },
		{ "nwcn", "nwcn" }, { "nmbin", "nnnin" },   { "cccccccn", "cccccccn" },
		{ "nxcn", "n?cn" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		walk(cases[i].stack);
		check(cases[i].frames);
	}
}

/* A builtin that makes no frame was interrupted: FP is that of the compiled function below it. */
static void walks_builtins_without_frames(void **state)
{
	(void)state;
	make_stack("cn");
	rig.stack[0] = COMPILED + 200; /* behind a call */
	walk_from(BUILTINS + 100, true);
	check("ncn");
	make_stack("cn");
	walk_from(BUILTINS + 100, true); /* and nobody knows where it returns to */
	check("ncn");
	make_stack("bn");
	walk_from(BUILTINS + 100, true); /* one that has its own */
	check("nn");
}

static void reads_moved_functions(void **state)
{
	uint64_t moved = fake_function(&rig.v8, 1);

	(void)state;
	fake_word(&rig.v8, rig.work, 0, moved - 1); /* where it lies now */
	walk("icn");
	check("icn");
	fake_word(&rig.v8, rig.work, 0, 8); /* nowhere */
	walk("icn");
	check("n?n");
}

static void ends_on_cycles(void **state)
{
	(void)state;
	make_stack("ccn");
	rig.stack[FRAME_WORDS - 2] = STACK + 8 * (FRAME_WORDS - 2); /* its own caller */
	rig.stack[FRAME_WORDS - 1] = COMPILED + 100;
	assert_int_equal(walk_from(COMPILED + 100, false), UNWIND_END_NO_RULE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(walks_frames, set_up, tear_down),
		cmocka_unit_test_setup_teardown(walks_builtins_without_frames, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reads_moved_functions, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ends_on_cycles, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
