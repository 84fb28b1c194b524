/*
 * Names of Java frames out of a machine's memory, made by hand (fake_vm_test.h): what is named, and
 * what is called "[unloaded]" because its memory is another's by now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/runtimes/hotspot/code_cache.h"
#include "agent/runtimes/hotspot/fake_vm_test.h"
#include "agent/runtimes/hotspot/names.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "bpf/records.h"

/* Where things lie. */
enum {
	SYMBOLS = 0x100, /* one each 64 bytes, by their index in the pool */
	POOL = 0x300,
	KLASS = 0x400,
	CONST_SELL = 0x500,
	CONST_BUY = 0x600,
	METHOD_SELL = 0x700,
	METHOD_BUY = 0x740,
	NMETHOD = 0x800,
	TABLES = NMETHOD + FAKE_NMETHOD_BYTES, /* metadata, scopes, PcDescs */
	STUB = 0xa00,
	STUB_NAME = 0xa80,
	MEMORY_BYTES = 0xb00,
	COMPILE_ID = 42,
};
enum {
	SYMBOL_NONE,
	SYMBOL_KLASS,
	SYMBOL_SELL,
	SYMBOL_BUY,
	SYMBOL_SIGNATURE,
	SYMBOL_FILE,
	SYMBOLS_END
};

struct rig {
	uint8_t bytes[MEMORY_BYTES];
	struct hotspot_layout layout;
	struct executable *libjvm;
	struct process_info *process;
	struct runtime_memory memory;
	struct hotspot_names *names;
	struct namer namer;
};

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct rig *r = ctx;

	assert_int_equal(pid, 7);
	if (address > MEMORY_BYTES || bytes > MEMORY_BYTES - address)
		return false;
	memcpy(to, r->bytes + address, bytes);
	return true;
}

static bool read_flat(void *ctx, uint64_t address, void *to, size_t bytes)
{
	return read_memory(ctx, 7, address, to, bytes);
}

static void put(struct rig *r, uint32_t at, uint64_t value, uint32_t bytes)
{
	memcpy(r->bytes + at, &value, bytes);
}

static void put_symbol(struct rig *r, uint32_t index, const char *text)
{
	uint32_t at = SYMBOLS + 64 * index;

	put(r, at + FAKE_SYMBOL_LENGTH, strlen(text), 2);
	memcpy(r->bytes + at + FAKE_SYMBOL_BODY, text, strlen(text));
	put(r, POOL + FAKE_POOL_BYTES + 8 * index, at | 1, 8); /* resolved ones have a bit set */
}

/* 8 bytes of code; line 7 from byte 0 on, 9 from byte 3 on. */
static void put_method(struct rig *r, uint32_t method, uint32_t const_method, uint32_t name)
{
	static const uint8_t lines[] = { 0 << 3 | 7, 3 << 3 | 2, 0 };

	put(r, method + FAKE_METHOD_CONST, const_method, 8);
	put(r, const_method + FAKE_CONST_POOL, POOL, 8);
	put(r, const_method + FAKE_CONST_SIZE, 8, 4);
	put(r, const_method + FAKE_CONST_FLAGS, 1, 2);
	put(r, const_method + FAKE_CONST_CODE_SIZE, 8, 2);
	put(r, const_method + FAKE_CONST_NAME, name, 2);
	put(r, const_method + FAKE_CONST_SIGNATURE, SYMBOL_SIGNATURE, 2);
	memcpy(r->bytes + const_method + FAKE_CONST_BYTES + 8, lines, sizeof(lines));
}

/* sell, inlined into buy, up to byte 20 of the code; then buy alone. */
static void put_nmethod(struct rig *r)
{
	enum { METADATA = TABLES, SCOPES = METADATA + 16, PCS = SCOPES + 8, END = PCS + 64 };
	uint32_t n = r->layout.major >= 20; /* in compressed integers */
	const uint8_t scopes[8] = { 0,
				    (uint8_t)n,
				    (uint8_t)(2 + n),
				    (uint8_t)(5 + n),
				    (uint8_t)(1 + n),
				    (uint8_t)(1 + n),
				    (uint8_t)(1 + n) };
	const int32_t pcs[4][2] = { { -1, 0 }, { 20, 4 }, { 40, 1 }, { INT32_MAX, 0 } };

	put(r, METADATA, METHOD_SELL, 8);
	put(r, METADATA + 8, METHOD_BUY, 8);
	memcpy(r->bytes + SCOPES, scopes, sizeof(scopes));
	for (uint32_t i = 0; i < 4; i++)
		memcpy(r->bytes + PCS + i * FAKE_PC_DESC_BYTES, pcs[i], sizeof(pcs[i]));
	put(r, NMETHOD + FAKE_NMETHOD_METHOD, METHOD_BUY, 8);
	put(r, NMETHOD + FAKE_NMETHOD_COMPILE_ID, COMPILE_ID, 4);
	if (r->layout.major < 23) {
		put(r, NMETHOD + FAKE_NMETHOD_SCOPES, SCOPES, 8);
		put(r, NMETHOD + FAKE_NMETHOD_PCS, PCS - NMETHOD, 4);
		put(r, NMETHOD + FAKE_NMETHOD_DEPENDENCIES, END - NMETHOD, 4);
		put(r, NMETHOD + FAKE_NMETHOD_METADATA, METADATA - NMETHOD, 4);
		return;
	}
	/* PcDescs come first there. */
	memmove(r->bytes + SCOPES + 64, r->bytes + SCOPES, 8);
	for (uint32_t i = 0; i < 4; i++)
		memcpy(r->bytes + SCOPES + i * FAKE_PC_DESC_BYTES, pcs[i], sizeof(pcs[i]));
	put(r, NMETHOD + FAKE_NMETHOD_IMMUTABLE, SCOPES - 8, 8);
	put(r, NMETHOD + FAKE_NMETHOD_PCS, 8, 4);
	put(r, NMETHOD + FAKE_NMETHOD_SCOPES, 8 + 64, 4);
	put(r, NMETHOD + FAKE_NMETHOD_IMMUTABLE_BYTES, 8 + 64 + 8, 4);
	put(r, NMETHOD + FAKE_BLOB_MUTABLE, METADATA - 4, 8);
	put(r, NMETHOD + FAKE_BLOB_RELOCATION_BYTES, 4, 4);
	put(r, NMETHOD + FAKE_BLOB_MUTABLE_BYTES, 4 + 16, 4);
}

static void set_up(struct rig *r, bool jdk25)
{
	static const char *const symbols[SYMBOLS_END] = { "",    "Shop", "sell",
							  "buy", "(I)V", "Shop.java" };
	struct executable facts = { .id = 1, .runtime_step = UNWIND_STEP_HOTSPOT };

	memset(r, 0, sizeof(*r));
	fake_vm_layout(&r->layout, jdk25);
	for (uint32_t i = 1; i < SYMBOLS_END; i++)
		put_symbol(r, i, symbols[i]);
	put(r, POOL + FAKE_POOL_HOLDER, KLASS, 8);
	put(r, POOL + FAKE_POOL_LENGTH, SYMBOLS_END, 4);
	put(r, POOL + FAKE_POOL_FILE, SYMBOL_FILE, 2);
	put(r, KLASS + FAKE_KLASS_NAME, SYMBOLS + 64 * SYMBOL_KLASS, 8);
	put_method(r, METHOD_SELL, CONST_SELL, SYMBOL_SELL);
	put_method(r, METHOD_BUY, CONST_BUY, SYMBOL_BUY);
	put_nmethod(r);
	put(r, STUB + FAKE_BLOB_NAME, STUB_NAME, 8);
	memcpy(r->bytes + STUB_NAME, "call stub", sizeof("call stub"));
	facts.runtime = &r->layout;
	facts.runtime_bytes = sizeof(r->layout);
	r->libjvm = executable_new(&facts);
	r->process = process_info_new(&(struct process_info){ .pid = 7, .start_unix_nano = 1 });
	r->memory = (struct runtime_memory){ .read = read_memory, .ctx = r };
	r->names = hotspot_names_new(&r->memory, 1 << 20);
	r->namer = hotspot_names_namer(r->names);
}

static void tear_down(struct rig *r)
{
	hotspot_names_free(r->names);
	process_info_unref(r->process);
	executable_unref(r->libjvm);
}

/* "function:line function:line", innermost first; "-": no name. */
static const char *name_of(struct rig *r, uint64_t address, uint64_t extra, char *out, size_t cap)
{
	const struct trace_frame frame = {
		.kind = FRAME_HOTSPOT, .executable = r->libjvm, .address = address, .extra = extra
	};
	struct frame_name name;
	size_t n = 0;

	snprintf(out, cap, "-");
	if (!r->namer.name(r->namer.ctx, &frame, r->process, &name))
		return out;
	for (uint32_t i = 0; i < name.line_count && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%.*s:%u", i ? " " : "",
				      STR_ARG(name.lines[i].function), name.lines[i].line);
	assert_int_equal(name.fallback, strcmp(out, "[unloaded]:0") == 0);
	return out;
}

#define INTERPRETED(bci, const_method) HOTSPOT_FRAME(HOTSPOT_INTERPRETED, bci, (const_method) >> 3)
#define COMPILED(at, id)               HOTSPOT_FRAME(HOTSPOT_COMPILED, at, id)

static const struct named {
	uint64_t address, extra;
	const char *want;
} named[] = {
	{ METHOD_SELL, INTERPRETED(0, CONST_SELL), "void Shop.sell(int):7" },
	{ METHOD_SELL, INTERPRETED(2, CONST_SELL), "void Shop.sell(int):7" },
	{ METHOD_SELL, INTERPRETED(3, CONST_SELL), "void Shop.sell(int):9" },
	{ METHOD_BUY, INTERPRETED(7, CONST_BUY), "void Shop.buy(int):9" },
	{ METHOD_SELL, INTERPRETED(0, CONST_BUY), "[unloaded]:0" },
	{ NMETHOD, COMPILED(12, COMPILE_ID), "void Shop.sell(int):7 void Shop.buy(int):9" },
	{ NMETHOD, COMPILED(20, COMPILE_ID), "void Shop.sell(int):7 void Shop.buy(int):9" },
	{ NMETHOD, COMPILED(21, COMPILE_ID), "void Shop.buy(int):9" },
	{ NMETHOD, COMPILED(4000, COMPILE_ID), "void Shop.buy(int):9" },
	{ NMETHOD, COMPILED(12, COMPILE_ID - 1), "[unloaded]:0" },
	{ STUB, HOTSPOT_FRAME(HOTSPOT_STUB, 5, STUB_NAME), "[call stub]:0" },
	{ STUB, HOTSPOT_FRAME(HOTSPOT_STUB, 5, STUB_NAME + 8), "[unloaded]:0" },
	{ STUB, HOTSPOT_FRAME(HOTSPOT_STUB, 5, 0), "[Interpreter]:0" },
	{ MEMORY_BYTES, INTERPRETED(0, CONST_SELL), "-" },
	{ MEMORY_BYTES, COMPILED(0, COMPILE_ID), "-" },
	{ MEMORY_BYTES, HOTSPOT_FRAME(HOTSPOT_STUB, 0, 8), "-" },
	{ METHOD_SELL, HOTSPOT_FRAME(9, 0, 1), "-" },
	{ 0, INTERPRETED(0, 0), "-" },
};

static void test_names(void **state)
{
	char got[200];

	(void)state;
	for (int jdk25 = 0; jdk25 < 2; jdk25++) {
		struct rig r;

		set_up(&r, jdk25);
		for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
			name_of(&r, named[i].address, named[i].extra, got, sizeof(got));
			if (strcmp(got, named[i].want) != 0)
				fail_msg("JDK %u, row %zu: %s, not %s", r.layout.major, i, got,
					 named[i].want);
		}
		tear_down(&r);
	}
}

/* A class is unloaded, code is freed, and the memory is another's: what was named stays named, and
 * what comes late is never called by the new one's name. */
static void test_memory_used_again(void **state)
{
	struct hotspot_names_stats stats;
	char got[200];
	struct rig r;

	(void)state;
	set_up(&r, false);
	name_of(&r, METHOD_SELL, INTERPRETED(0, CONST_SELL), got, sizeof(got));
	name_of(&r, NMETHOD, COMPILED(12, COMPILE_ID), got, sizeof(got));
	put(&r, METHOD_SELL + FAKE_METHOD_CONST, CONST_BUY, 8);
	put(&r, NMETHOD + FAKE_NMETHOD_COMPILE_ID, COMPILE_ID + 1, 4);
	/* seen before */
	assert_string_equal(name_of(&r, METHOD_SELL, INTERPRETED(0, CONST_SELL), got, sizeof(got)),
			    "void Shop.sell(int):7");
	assert_string_equal(name_of(&r, NMETHOD, COMPILED(12, COMPILE_ID), got, sizeof(got)),
			    "void Shop.sell(int):7 void Shop.buy(int):9");
	/* of the old, and not seen before */
	assert_string_equal(name_of(&r, METHOD_SELL, INTERPRETED(4, CONST_SELL), got, sizeof(got)),
			    "[unloaded]:0");
	/* the new */
	assert_string_equal(name_of(&r, METHOD_SELL, INTERPRETED(0, CONST_BUY), got, sizeof(got)),
			    "void Shop.buy(int):7");
	hotspot_names_stats(r.names, &stats);
	assert_int_equal(stats.unloaded, 1);
	assert_int_equal(stats.unreadable, 0);
	tear_down(&r);
}

/* A constant pool that leads out of itself, names without an end, tables that are too long: no
 * name, and no harm. */
static void test_senseless_memory(void **state)
{
	static const struct {
		uint32_t at;
		uint64_t value;
		uint32_t bytes;
	} harm[] = {
		{ POOL + FAKE_POOL_LENGTH, SYMBOL_SELL, 4 },
		{ POOL + FAKE_POOL_HOLDER, MEMORY_BYTES, 8 },
		{ CONST_SELL + FAKE_CONST_POOL, UINT64_MAX - 3, 8 },
		{ CONST_SELL + FAKE_CONST_NAME, 0, 2 },
		{ CONST_SELL + FAKE_CONST_SIGNATURE, UINT16_MAX, 2 },
		{ SYMBOLS + 64 * SYMBOL_SELL + FAKE_SYMBOL_LENGTH, UINT16_MAX, 2 },
		{ METHOD_SELL + FAKE_METHOD_CONST, 0, 8 },
	};
	char got[200];

	(void)state;
	for (size_t i = 0; i < sizeof(harm) / sizeof(*harm); i++) {
		struct rig r;

		set_up(&r, i % 2);
		put(&r, harm[i].at, harm[i].value, harm[i].bytes);
		if (strcmp(name_of(&r, METHOD_SELL, INTERPRETED(0, CONST_SELL), got, sizeof(got)),
			   "-") != 0)
			fail_msg("row %zu: %s", i, got);
		tear_down(&r);
	}
}

/* One heap of code and the interpreter in it; then what makes no sense of it. */
static void test_code_cache(void **state)
{
	enum { ARRAY = 0x20, HEAPS = 0x40, HEAP = 0x80, QUEUE = 0xe0 };
	static const struct {
		uint32_t at;
		uint64_t value;
		uint32_t bytes;
		enum err_kind want;
	} cases[] = {
		{ 0, 0, 0, ERR_NONE },
		{ FAKE_CODE_HEAPS, 0, 8, ERR_UNAVAILABLE },
		{ FAKE_CODE_HEAPS, MEMORY_BYTES, 8, ERR_UNAVAILABLE },
		{ ARRAY, 0, 4, ERR_UNAVAILABLE },
		{ ARRAY, HOTSPOT_HEAPS_MOST + 1, 4, ERR_INVALID },
		{ ARRAY + FAKE_ARRAY_DATA, 0, 8, ERR_UNAVAILABLE },
		{ HEAPS, 0, 8, ERR_UNAVAILABLE },
		{ HEAP + FAKE_HEAP_MEMORY + FAKE_SPACE_HIGH_BOUNDARY, 0x70000, 8, ERR_INVALID },
		{ HEAP + FAKE_HEAP_MEMORY + FAKE_SPACE_HIGH_BOUNDARY, UINT64_MAX, 8, ERR_INVALID },
		{ HEAP + FAKE_HEAP_SHIFT, 2, 4, ERR_INVALID },
		{ HEAP + FAKE_HEAP_SHIFT, 64, 4, ERR_INVALID },
		{ FAKE_INTERPRETER, 0, 8, ERR_UNAVAILABLE },
		{ QUEUE + FAKE_QUEUE_BUFFER, 0x70000, 8, ERR_INVALID },
		{ QUEUE + FAKE_QUEUE_LIMIT, INT32_MAX, 4, ERR_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct unwind_hotspot found = { 0 };
		struct err err = { 0 };
		struct rig r;
		bool ok;

		set_up(&r, i % 2);
		memset(r.bytes, 0, SYMBOLS);
		put(&r, FAKE_CODE_HEAPS, ARRAY, 8);
		put(&r, FAKE_INTERPRETER, QUEUE, 8);
		put(&r, ARRAY, 1, 4);
		put(&r, ARRAY + FAKE_ARRAY_DATA, HEAPS, 8);
		put(&r, HEAPS, HEAP, 8);
		put(&r, HEAP + FAKE_HEAP_MEMORY + FAKE_SPACE_LOW_BOUNDARY, 0x80000, 8);
		put(&r, HEAP + FAKE_HEAP_MEMORY + FAKE_SPACE_HIGH_BOUNDARY, 0x90000, 8);
		put(&r, HEAP + FAKE_HEAP_SEGMAP, 0x60000, 8);
		put(&r, HEAP + FAKE_HEAP_SHIFT, 7, 4);
		put(&r, QUEUE + FAKE_QUEUE_BUFFER, 0x80100, 8);
		put(&r, QUEUE + FAKE_QUEUE_LIMIT, 0x1000, 4);
		put(&r, cases[i].at, cases[i].value, cases[i].bytes);
		ok = hotspot_code_cache_read(
			&r.layout, 0, &(struct hotspot_memory){ read_flat, &r }, &found, &err);
		if (ok != (cases[i].want == ERR_NONE) || (!ok && err.kind != cases[i].want))
			fail_msg("row %zu: %d, %s", i, (int)err.kind, err.msg);
		if (ok) {
			assert_int_equal(found.code_start, 0x80000);
			assert_int_equal(found.code_end, 0x90000);
			assert_int_equal(found.heaps[0].segments, 0x60000);
			assert_int_equal(found.interpreter_end, 0x81100);
		}
		tear_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_memory_used_again),
		cmocka_unit_test(test_senseless_memory),
		cmocka_unit_test(test_code_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
