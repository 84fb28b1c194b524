/*
 * Names of code objects in made-up memory: texts of every width, code that is gone or replaced by
 * the time it is asked for, memory that runs out; and the table of offsets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/cpython/cpython.h"
#include "agent/runtimes/cpython/names.h"
#include "agent/runtimes/cpython/text.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum { BASE = 0x10000, BYTES = 64 << 10, CODE = BASE + 64, PID = 7 };

struct rig {
	uint8_t memory[BYTES];
	uint32_t used, reads;
	bool gone;
	struct runtime_memory access;
	struct cpython_names *names;
	struct cpython_facts facts;
	struct executable executable;
	struct process_info process;
};

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct rig *r = ctx;
	uint64_t at = address - BASE;

	r->reads++;
	if (r->gone || pid != PID || at > BYTES || bytes > BYTES - at)
		return false;
	memcpy(to, r->memory + at, bytes);
	return true;
}

static void put(struct rig *r, uint64_t at, const void *data, size_t bytes)
{
	assert_true(at - BASE + bytes <= BYTES);
	memcpy(r->memory + (at - BASE), data, bytes);
}

static void put_word(struct rig *r, uint64_t at, uint64_t word)
{
	put(r, at, &word, sizeof(word));
}

/* A str of `count` characters of `kind` bytes. */
static uint64_t put_text(struct rig *r, const void *data, size_t count, uint32_t kind, bool ascii)
{
	uint64_t at = BASE + r->used;
	uint32_t state = kind << 2 | 1u << 5 | (uint32_t)ascii << 6;

	put_word(r, at + (uint64_t)r->facts.offsets.text_length, count);
	put(r, at + (uint64_t)r->facts.offsets.text_state, &state, sizeof(state));
	put(r, at + (uint64_t)(ascii ? r->facts.offsets.text_ascii : r->facts.offsets.text_other),
	    data, count * kind);
	r->used += (uint32_t)(128 + count * kind + 7) & ~7u;
	return at;
}

static uint64_t put_ascii(struct rig *r, const char *text)
{
	return put_text(r, text, strlen(text), 1, true);
}

static uint64_t put_bytes(struct rig *r, const void *data, size_t count)
{
	uint64_t at = BASE + r->used;

	put_word(r, at + (uint64_t)r->facts.offsets.bytes_length, count);
	put(r, at + (uint64_t)r->facts.offsets.bytes_data, data, count);
	r->used += (uint32_t)(64 + count + 7) & ~7u;
	return at;
}

/* A code object at CODE; returns the cookie that the step would make of it. */
static uint32_t put_code(struct rig *r, uint64_t file, uint64_t name, uint64_t qualified,
			 uint64_t lines, uint32_t first)
{
	const struct cpython_offsets *o = &r->facts.offsets;

	put_word(r, CODE + (uint64_t)o->code_file, file);
	put_word(r, CODE + (uint64_t)o->code_name, name);
	put_word(r, CODE + (uint64_t)o->code_qualified_name, qualified);
	put_word(r, CODE + (uint64_t)o->code_lines, lines);
	put(r, CODE + (uint64_t)o->code_line, &first, sizeof(first));
	return (uint32_t)cpython_cookie(file, name, qualified, first);
}

static void set_up(struct rig *r, size_t memory_bytes)
{
	struct offset_table table;
	struct err err;

	memset(r, 0, sizeof(*r));
	if (!cpython_table_parse(&table, cpython_table_built_in(), &err))
		fail_msg("%s", err.msg);
	r->used = 1024;
	r->access = (struct runtime_memory){ .read = read_memory, .ctx = r };
	r->facts.minor = 13;
	assert_true(cpython_table_find(&table, 13, &r->facts.offsets));
	r->executable = (struct executable){ .runtime_step = UNWIND_STEP_CPYTHON,
					     .runtime = &r->facts,
					     .runtime_bytes = sizeof(r->facts) };
	r->process = (struct process_info){ .pid = PID, .start_unix_nano = 1 };
	r->names = cpython_names_new(&r->access, memory_bytes);
}

static struct trace_frame frame_of(struct rig *r, uint64_t code, uint32_t cookie, uint32_t at)
{
	return (struct trace_frame){ .kind = FRAME_CPYTHON,
				     .executable = &r->executable,
				     .address = code,
				     .extra = (uint64_t)at << 32 | cookie };
}

static void check(struct rig *r, const struct trace_frame *f, const char *function,
		  const char *file, uint32_t line)
{
	const struct namer namer = cpython_names_namer(r->names);
	struct frame_name name;

	assert_true(namer.name(namer.ctx, f, &r->process, &name));
	assert_int_equal(name.line_count, 1);
	if (!str_is(name.lines[0].function, function) || !str_is(name.lines[0].file, file) ||
	    name.lines[0].line != line)
		fail_msg("%.*s in %.*s:%u, not %s in %s:%u", STR_ARG(name.lines[0].function),
			 STR_ARG(name.lines[0].file), name.lines[0].line, function, file, line);
	assert_int_equal(name.fallback, file[0] == 0);
	assert_int_equal(name.final, file[0] != 0);
}

static void test_a_function(void **state)
{
	static const uint8_t lines[] = { 0xd0, 0, 0, 0xd9, 0, 0 }; /* 1 unit, 2 units */
	const struct namer *n;
	struct namer namer;
	struct trace_frame f;
	struct rig r;
	uint32_t cookie, reads;

	(void)state;
	set_up(&r, 1 << 20);
	namer = cpython_names_namer(r.names);
	n = &namer;
	cookie = put_code(&r, put_ascii(&r, "/src/x.py"), put_ascii(&r, "run"),
			  put_ascii(&r, "Job.run"), put_bytes(&r, lines, sizeof(lines)), 40);
	f = frame_of(&r, CODE, cookie, 2);
	n->prepare(n->ctx, &f, &r.process);
	reads = r.reads;
	r.gone = true; /* the process has ended: what prepare() read is there still */
	check(&r, &f, "Job.run", "/src/x.py", 41);
	f = frame_of(&r, CODE, cookie, 0);
	check(&r, &f, "Job.run", "/src/x.py", 40);
	f = frame_of(&r, CODE, cookie, (uint32_t)-2);
	check(&r, &f, "Job.run", "/src/x.py", 40);
	assert_int_equal(r.reads, reads);
	/* Another image of the pid is another matter. */
	r.process.start_unix_nano = 2;
	check(&r, &f, "[python]", "", 0);
	cpython_names_free(r.names);
}

static void test_an_address_used_again(void **state)
{
	struct cpython_names_stats stats;
	struct trace_frame first, second;
	struct rig r;
	uint64_t file;

	(void)state;
	set_up(&r, 1 << 20);
	file = put_ascii(&r, "a.py");
	first = frame_of(&r, CODE, put_code(&r, file, put_ascii(&r, "f"), put_ascii(&r, "f"), 0, 1),
			 0);
	second = frame_of(&r, CODE,
			  put_code(&r, file, put_ascii(&r, "g"), put_ascii(&r, "g"), 0, 9), 0);
	/* The first is gone before anybody asked: no name is better than a wrong one. */
	check(&r, &first, "[python]", "", 0);
	check(&r, &second, "g", "a.py", 0);
	cpython_names_stats(r.names, &stats);
	assert_int_equal(stats.read, 1);
	assert_int_equal(stats.refused, 1);
	/* 0: BPF could not read it; then what is there now is our best knowledge. */
	second = frame_of(&r, CODE, 0, 0);
	check(&r, &second, "g", "a.py", 0);
	cpython_names_free(r.names);
}

static void test_texts(void **state)
{
	static const uint8_t latin[] = { 'n', 0xe4, 'h' };
	static const uint16_t two[] = { 0x65e5, 'x', 0xd800 };
	static const uint32_t four[] = { 0x1f40d, 0x110000 };
	static char lengthy[CPYTHON_TEXT_MOST + 10];
	struct rig r;

	(void)state;
	set_up(&r, 1 << 20);
	memset(lengthy, 'a', sizeof(lengthy) - 1);
	const struct {
		uint64_t at;
		const char *want;
	} cases[] = {
		{ put_ascii(&r, ""), "" },
		{ put_text(&r, latin, 3, 1, false), "n\xc3\xa4h" },
		{ put_text(&r, two, 3, 2, false), "\xe6\x97\xa5x\xef\xbf\xbd" },
		{ put_text(&r, four, 2, 4, false), "\xf0\x9f\x90\x8d\xef\xbf\xbd" },
		{ put_ascii(&r, lengthy), NULL },
		{ 0, NULL },                  /* nowhere */
		{ BASE + BYTES - 8, NULL },   /* memory ends */
		{ BASE + BYTES - 200, NULL }, /* zeros: no str */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf out = { 0 };
		bool ok = cpython_read_text(&r.access, &r.facts.offsets, PID, cases[i].at, &out);

		assert_int_equal(ok, cases[i].want != NULL || i == 4);
		if (i == 4) {
			assert_int_equal(out.len, CPYTHON_TEXT_MOST + 3);
			assert_true(str_has_suffix(buf_view(&out), STR("a...")));
		} else if (ok && !str_is(buf_view(&out), cases[i].want)) {
			fail_msg("case %zu: %.*s", i, (int)out.len, out.ptr);
		}
	}
	/* A short one right before the end of memory. */
	r.used = BYTES - 48;
	put(&r, BASE + r.used + 16, &(uint64_t){ 3 }, 8);
	put(&r, BASE + r.used + 32, &(uint32_t){ 1u << 2 | 1u << 5 | 1u << 6 }, 4);
	put(&r, BASE + r.used + 40, "end", 3);
	AUTO(buf_release) struct buf out = { 0 };

	assert_true(cpython_read_text(&r.access, &r.facts.offsets, PID, BASE + r.used, &out));
	assert_true(str_is(buf_view(&out), "end"));
	cpython_names_free(r.names);
}

static void test_memory_runs_out(void **state)
{
	struct cpython_names_stats stats;
	struct trace_frame f;
	struct rig r;
	uint64_t name, file;
	uint32_t reads;

	(void)state;
	set_up(&r, 8 << 10);
	name = put_ascii(&r, "some_function_name");
	file = put_ascii(&r, "some/file.py");
	for (uint32_t i = 1; i <= 200; i++) {
		f = frame_of(&r, CODE, put_code(&r, file, name, name, 0, i), 0xffffffff);
		check(&r, &f, "some_function_name", "some/file.py", i);
	}
	cpython_names_stats(r.names, &stats);
	assert_int_equal(stats.read, 200);
	assert_true(stats.bytes <= 8 << 10);
	assert_true(stats.evicted > 100 && stats.evicted < 200);
	/* The last one is there still. */
	reads = r.reads;
	check(&r, &f, "some_function_name", "some/file.py", 200);
	assert_int_equal(r.reads, reads);
	cpython_names_free(r.names);
}

/* ---- the table ---- */

static void test_built_in_table(void **state)
{
	static struct offset_table t;
	struct cpython_offsets o;
	struct err err;

	(void)state;
	if (!cpython_table_parse(&t, cpython_table_built_in(), &err))
		fail_msg("%s", err.msg);
	for (uint32_t minor = 6; minor <= 15; minor++) {
		assert_true(cpython_table_find(&t, minor, &o));
		if (!cpython_offsets_usable(&o, &err))
			fail_msg("3.%u: %s", minor, err.msg);
	}
	assert_false(cpython_table_find(&t, 5, &o));
	assert_false(cpython_table_find(&t, 16, &o));
}

/* Only what a free-threaded build says of copies of code counts, and it compiles none. */
static void test_debug_offsets_of_free_threads(void **state)
{
	uint64_t debug[95] = { 0 };
	const struct bytes whole = { (const uint8_t *)debug, sizeof(debug) };
	struct cpython_offsets o = { .interpreter_jit = 7 };

	(void)state;
	memcpy(debug, "xdebugpy", 8);
	debug[1] = 0x030e00f0;
	for (int i = 3; i < 95; i++)
		debug[i] = (uint64_t)i * 8;
	assert_true(cpython_offsets_from_debug(&o, whole, 14));
	assert_int_equal(o.frame_tlbc, -1);
	assert_int_equal(o.code_tlbc, -1);
	assert_int_equal(o.interpreter_jit, 7);
	debug[2] = 1;
	assert_true(cpython_offsets_from_debug(&o, whole, 14));
	assert_int_equal(o.frame_tlbc, 304);
	assert_int_equal(o.code_tlbc, 392);
	assert_int_equal(o.interpreter_jit, -1);
}

static void test_debug_offsets(void **state)
{
	uint64_t debug[73] = { 0 };
	struct cpython_offsets o = { .owner_shim = 3, .loop = 2, .lines = 2 }, before = o;

	(void)state;
	memcpy(debug, "xdebugpy", 8);
	debug[1] = 0x030d00f0;
	for (int i = 3; i < 73; i++)
		debug[i] = (uint64_t)i * 8;
	const struct bytes whole = { (const uint8_t *)debug, sizeof(debug) };

	assert_true(cpython_offsets_from_debug(&o, whole, 13));
	assert_int_equal(o.frame_owner, 264);
	assert_int_equal(o.code_file, 280);
	assert_int_equal(o.text_other, 560 + 16);
	assert_int_equal(o.owner_shim, 3);
	o = before;
	assert_false(cpython_offsets_from_debug(&o, whole, 12));
	assert_false(cpython_offsets_from_debug(&o, (struct bytes){ whole.ptr, 560 }, 13));
	assert_false(cpython_offsets_from_debug(&o, whole, 14)); /* what it says is 3.13 */
	debug[1] = 0x031000f0;
	assert_false(cpython_offsets_from_debug(&o, whole, 16));
	debug[1] = 0x030d00f0;
	debug[5] = UINT64_MAX;
	assert_false(cpython_offsets_from_debug(&o, whole, 13));
	assert_memory_equal(&o, &before, sizeof(o));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_function),
		cmocka_unit_test(test_an_address_used_again),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_memory_runs_out),
		cmocka_unit_test(test_built_in_table),
		cmocka_unit_test(test_debug_offsets),
		cmocka_unit_test(test_debug_offsets_of_free_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
