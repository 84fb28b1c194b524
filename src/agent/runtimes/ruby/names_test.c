/* Names of frames in made-up memory of every version of the table, also of methods and code that
 * are gone, replaced, or senseless. */
#include "agent/runtimes/ruby/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/ruby/ruby.h"
#include "bpf/records.h"

enum {
	BASE = 0x100000,
	BYTES = 64 << 10,
	PID = 7,
	BIAS = 0x4000,
	SYMBOLS = BASE + 64,
	CODES = 40,      /* instructions' words of an iseq */
	FIRST_ID = 1000, /* the first serial number of fake_id() */
	UNIT = 512,      /* names of an inner array */
	T_CLASS = 2,
	T_MODULE = 3,
	T_STRING = 5,
	T_ARRAY = 7,
	T_IMEMO = 0x1a,
	FLAG_0 = 1 << 12,
	FLAG_1 = 1 << 13,
};

static struct fake_ruby {
	uint8_t memory[BYTES];
	uint32_t used;
	uint32_t ids;
	uint64_t names; /* the elements of the inner array */
	struct runtime_memory access;
	struct ruby_facts facts;
	struct executable executable;
} ruby;

static struct process_info process = { .pid = PID, .start_unix_nano = 1 };

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct fake_ruby *r = ctx;
	uint64_t at = address - BASE;

	if (pid != PID || at > BYTES || bytes > BYTES - at)
		return false;
	memcpy(to, r->memory + at, bytes);
	return true;
}

static bool load_bias(void *ctx, uint32_t pid, const struct executable *e, uint64_t *bias)
{
	(void)ctx;
	(void)pid;
	(void)e;
	*bias = BIAS;
	return true;
}

static void put(uint64_t at, const void *data, size_t bytes)
{
	assert_true(at - BASE <= BYTES && bytes <= BYTES - (at - BASE));
	memcpy(ruby.memory + (at - BASE), data, bytes);
}

static void put_word(uint64_t at, uint64_t word)
{
	put(at, &word, sizeof(word));
}

static void put_half(uint64_t at, uint32_t half)
{
	put(at, &half, sizeof(half));
}

static uint64_t word_at(uint64_t at)
{
	uint64_t word = 0;

	assert_true(read_memory(&ruby, PID, at, &word, sizeof(word)));
	return word;
}

static uint64_t alloc(uint32_t bytes)
{
	uint64_t at = BASE + ruby.used;

	ruby.used += (bytes + 15) & ~15u;
	assert_true(ruby.used <= BYTES);
	return at;
}

/* Elsewhere if it is longer than an object holds. */
static uint64_t string(const char *text)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	size_t length = strlen(text);
	uint64_t at = alloc(64), elsewhere;

	if (length > 15) {
		elsewhere = alloc((uint32_t)length);
		put(elsewhere, text, length);
		put_word(at, T_STRING | FLAG_1);
		put_word(at + 16, length);
		put_word(at + 24, elsewhere);
		return at;
	}
	put_word(at, o->string_length < 0 ? T_STRING | length << 14 : T_STRING);
	if (o->string_length >= 0)
		put_word(at + (uint64_t)o->string_length, length);
	put(at + (uint64_t)o->string_embedded, text, length);
	return at;
}

static uint64_t array(uint64_t count, uint64_t *elements)
{
	uint64_t at = alloc(64);

	*elements = alloc((uint32_t)count * 8);
	put_word(at, T_ARRAY);
	put_word(at + 16, count);
	put_word(at + 32, *elements);
	return at;
}

static uint64_t id(const char *name)
{
	uint64_t serial = FIRST_ID + ruby.ids++;

	put_word(ruby.names + serial % UNIT * 16, string(name));
	return serial << 4;
}

static void set_up(uint32_t version)
{
	static struct offset_table table;
	uint64_t outer, elements;
	struct err err;

	memset(&ruby, 0, sizeof(ruby));
	if (!ruby_table_parse(&table, ruby_table_built_in(), &err))
		fail_msg("%s", err.msg);
	assert_true(ruby_table_find(&table, version, &ruby.facts.offsets));
	ruby.used = 256; /* the symbols lie before */
	ruby.access = (struct runtime_memory){ .read = read_memory,
					       .ctx = &ruby,
					       .load_bias = load_bias };
	ruby.facts.version = version;
	ruby.facts.symbols = SYMBOLS - BIAS;
	ruby.executable = (struct executable){ .id = 1,
					       .runtime_step = UNWIND_STEP_RUBY,
					       .runtime = &ruby.facts,
					       .runtime_bytes = sizeof(ruby.facts) };
	outer = array(FIRST_ID / UNIT + 1, &elements);
	put_word(SYMBOLS + 16, outer);
	put_word(elements + FIRST_ID / UNIT * 8, array((uint64_t)UNIT * 2, &ruby.names));
}

/* A class whose one variable is this: Ruby up to 3.1. */
static void put_variable(uint64_t class_value, const char *name, uint64_t value)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t ext = alloc(64), table = alloc(64), entry = alloc(24);

	put_word(class_value + (uint64_t)o->class_ext, ext);
	put_word(ext + (uint64_t)o->ext_variables, table);
	put_word(table + 40, 1);
	put_word(table + 48, entry);
	put_word(entry + 8, id(name));
	put_word(entry + 16, value);
}

static uint64_t class_of(uint64_t flags, const char *path)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t at = alloc(192);

	put_word(at, flags);
	if (o->class_path < 0)
		put_variable(at, "__classpath__", string(path));
	else
		put_word(at + (uint64_t)o->class_path, string(path));
	return at;
}

static uint64_t singleton(uint64_t of)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t at = alloc(192);

	put_word(at, T_CLASS | FLAG_0);
	if (o->class_attached < 0)
		put_variable(at, "__attached__", of);
	else
		put_word(at + (uint64_t)o->class_attached, of);
	return at;
}

static uint64_t imemo(uint32_t kind)
{
	uint64_t at = alloc(64);

	put_word(at, T_IMEMO | (uint64_t)kind << 12);
	return at;
}

/* type: of rb_method_definition_t, 0 a Ruby method, 1 one in C. */
static uint64_t method(uint64_t owner, uint64_t type, const char *name)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t at = imemo(RUBY_METHOD), definition = alloc(64);

	put_word(at + (uint64_t)o->method_owner, owner);
	put_word(at + (uint64_t)o->method_definition, definition);
	put_word(definition, type);
	put_word(definition + (uint64_t)o->definition_id, id(name));
	return at;
}

static uint64_t body_of(uint64_t iseq)
{
	return word_at(iseq + (uint64_t)ruby.facts.offsets.iseq_body);
}

static uint64_t code_of(uint64_t iseq)
{
	return word_at(body_of(iseq) + (uint64_t)ruby.facts.offsets.body_code);
}

/* Code that begins at line 10 of /a.rb, all of whose instructions are at line 12. */
static uint64_t iseq(const char *label, const char *base_label)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t at = imemo(RUBY_ISEQ), body = alloc(RUBY_BODY_BYTES), info = alloc(16), elements;
	uint64_t path = array(2, &elements);

	put_word(elements, string("a.rb"));
	put_word(elements + 8, string("/a.rb"));
	put_half(info, 12);
	put_word(at + (uint64_t)o->iseq_body, body);
	put_half(body + (uint64_t)o->body_size, CODES);
	put_word(body + (uint64_t)o->body_code, alloc(CODES * 8));
	put_word(body + (uint64_t)o->body_path, path);
	put_word(body + (uint64_t)o->body_label, string(label));
	put_word(body + (uint64_t)o->body_base_label, string(base_label));
	put_word(body + (uint64_t)o->body_first_line, o->first_line_tagged ? 10 << 1 | 1 : 10);
	put_word(body + (uint64_t)o->body_info, info);
	put_half(body + (uint64_t)o->body_info_count, 1);
	return at;
}

/* As the step makes it: behind the n-th instruction. */
static struct trace_frame frame_of(uint64_t code, uint64_t method_entry, uint32_t n)
{
	uint64_t pc = code_of(code) + n * UINT64_C(8);

	return (struct trace_frame){ .kind = FRAME_RUBY,
				     .executable = &ruby.executable,
				     .address = RUBY_FIRST(code, pc),
				     .extra = RUBY_SECOND(method_entry, pc) };
}

static struct trace_frame c_frame_of(uint64_t method_entry)
{
	uint64_t definition =
		word_at(method_entry + (uint64_t)ruby.facts.offsets.method_definition);

	return (struct trace_frame){ .kind = FRAME_RUBY,
				     .executable = &ruby.executable,
				     .address = RUBY_FIRST(method_entry, definition),
				     .extra = RUBY_SECOND_C };
}

/* file NULL: it could not be named. */
static void check(struct trace_frame f, const char *function, const char *file, uint32_t line)
{
	struct frame_names *names = frame_names_new(&ruby_names, &ruby.access, 1 << 16);
	const struct namer namer = frame_names_namer(names);
	struct frame_name name;

	assert_true(namer.name(namer.ctx, &f, &process, &name));
	assert_int_equal(name.line_count, 1);
	if (!str_is(name.lines[0].function, function) ||
	    !str_is(name.lines[0].file, file ? file : "") || name.lines[0].line != line)
		fail_msg("%.*s in %.*s:%u, not %s in %s:%u", STR_ARG(name.lines[0].function),
			 STR_ARG(name.lines[0].file), name.lines[0].line, function,
			 file ? file : "", line);
	assert_int_equal(name.fallback, !file);
	frame_names_free(names);
}

static const uint32_t versions[] = { OFFSET_VERSION(2, 7), OFFSET_VERSION(3, 1),
				     OFFSET_VERSION(3, 3) };
enum { VERSIONS = sizeof(versions) / sizeof(*versions) };

static void test_methods_and_blocks(void **state)
{
	uint64_t sale, total, open;

	(void)state;
	for (int i = 0; i < VERSIONS; i++) {
		set_up(versions[i]);
		sale = class_of(T_CLASS, "Shop::Warehouse::Sale");
		total = method(sale, 0, "total");
		open = method(singleton(class_of(T_MODULE, "Shop")), 0, "open");
		check(frame_of(iseq("total", "total"), total, 3), "Shop::Warehouse::Sale#total",
		      "/a.rb", 12);
		check(frame_of(iseq("block in total", "total"), total, 3),
		      "block in Shop::Warehouse::Sale#total", "/a.rb", 12);
		check(frame_of(iseq("<=>", "<=>"), total, 3), "Shop::Warehouse::Sale#<=>", "/a.rb",
		      12);
		check(frame_of(iseq("open", "open"), open, 3), "Shop.open", "/a.rb", 12);
		check(frame_of(iseq("<main>", "<main>"), 0, 3), "<main>", "/a.rb", 12);
		check(frame_of(iseq("<class:Sale>", "<class:Sale>"), total, 3), "<class:Sale>",
		      "/a.rb", 12);
	}
}

static void test_c_methods(void **state)
{
	uint64_t each;

	(void)state;
	for (int i = 0; i < VERSIONS; i++) {
		set_up(versions[i]);
		each = method(class_of(T_CLASS, "Array"), 1, "each");
		check(c_frame_of(each), "Array#each", "", 0);
		ruby.facts.symbols = 0; /* then it has no name to show */
		check(c_frame_of(each), "[ruby]", NULL, 0);
	}
}

/* A wrong name would be worse than none. */
static void test_what_was_replaced(void **state)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	struct trace_frame f;
	uint64_t code, each, map;

	(void)state;
	for (int i = 0; i < VERSIONS; i++) {
		set_up(versions[i]);
		code = iseq("work", "work");
		f = frame_of(code, 0, 3);
		check(frame_of(code, 0, CODES), "work", "/a.rb", 12);
		check(frame_of(code, 0, CODES + 1), "[ruby]", NULL, 0);
		put_word(body_of(code) + (uint64_t)o->body_code, BASE);
		check(f, "[ruby]", NULL, 0);
		code = iseq("work", "work");
		f = frame_of(code, 0, 3);
		put_word(code, T_STRING);
		check(f, "[ruby]", NULL, 0);

		each = method(class_of(T_CLASS, "Array"), 1, "each");
		map = method(class_of(T_CLASS, "Array"), 1, "map");
		f = c_frame_of(each);
		put_word(each + (uint64_t)o->method_definition,
			 word_at(map + (uint64_t)o->method_definition));
		check(f, "[ruby]", NULL, 0);
		/* A method in Ruby has no frame of this kind. */
		check(c_frame_of(method(class_of(T_CLASS, "Array"), 0, "each")), "[ruby]", NULL, 0);
	}
}

/* What cannot be read of a frame is left out; it has the rest. */
static void test_memory_without_sense(void **state)
{
	const struct ruby_offsets *o = &ruby.facts.offsets;
	uint64_t code, owner;

	(void)state;
	for (int i = 0; i < VERSIONS; i++) {
		set_up(versions[i]);
		owner = alloc(192);
		put_word(owner, T_ARRAY); /* no class */
		check(frame_of(iseq("work", "work"), method(owner, 0, "work"), 3), "work", "/a.rb",
		      12);
		check(frame_of(iseq("work", "work"), BASE + BYTES, 3), "work", "/a.rb", 12);
		code = iseq("work", "work");
		put_word(body_of(code) + (uint64_t)o->body_info, BASE + BYTES);
		check(frame_of(code, 0, 3), "work", "/a.rb", 0);
		put_half(body_of(code) + (uint64_t)o->body_size, UINT32_MAX);
		check(frame_of(code, 0, 3), "[ruby]", NULL, 0);
		code = iseq("work", "work");
		put_word(word_at(body_of(code) + (uint64_t)o->body_label), 0); /* no string */
		check(frame_of(code, 0, 3), "[ruby]", NULL, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_methods_and_blocks),
		cmocka_unit_test(test_c_methods),
		cmocka_unit_test(test_what_was_replaced),
		cmocka_unit_test(test_memory_without_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
