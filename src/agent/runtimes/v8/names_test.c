/* Names of frames in made-up memory of several versions: strings of every kind, byte code, baseline
 * and optimized code with what was inlined, and objects that make no sense. */
#include "agent/runtimes/v8/names.h"

#include <stdio.h>

#include "agent/process/process_info.h"
#include "agent/runtimes/v8/fake_v8_test.h"
#include "base/cleanup.h"

static struct fake_v8 v8;
static struct process_info process = { .pid = FAKE_PID, .start_unix_nano = 1 };
static const uint32_t versions[] = { OFFSET_VERSION(7, 8), OFFSET_VERSION(9, 4),
				     OFFSET_VERSION(11, 3), OFFSET_VERSION(13, 6),
				     OFFSET_VERSION(14, 6) };
static const char source[] = "one\ntwo two\nthree\n";
enum { TWO = 4, SECOND_TWO = 8, THREE = 12 };

static struct trace_frame frame_of(enum v8_frame_kind kind, uint64_t word, uint64_t extra)
{
	return (struct trace_frame){ .kind = FRAME_V8,
				     .executable = &v8.executable,
				     .address = V8_FIRST(kind, word),
				     .extra = extra };
}

/* lines: "function file:line:column", the innermost first, by blanks and semicolons. */
static void check(struct trace_frame f, const char *lines)
{
	struct frame_names *names = frame_names_new(&v8_names, &v8.access, 1 << 16);
	const struct namer namer = frame_names_namer(names);
	struct frame_name name;
	char text[512];

	for (int again = 0; again < 2; again++) { /* read, then remembered */
		size_t len = 0;

		assert_true(namer.name(namer.ctx, &f, &process, &name));
		for (uint32_t i = 0; i < name.line_count; i++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s %.*s:%u:%u",
						i ? "; " : "", STR_ARG(name.lines[i].function),
						STR_ARG(name.lines[i].file), name.lines[i].line,
						name.lines[i].column);
		assert_string_equal(text, lines);
	}
	frame_names_free(names);
}

static uint64_t script(void)
{
	return fake_script(&v8, fake_string(&v8, "/a.js"), fake_string(&v8, source));
}

static struct trace_frame interpreted(uint64_t shared, uint64_t array, uint32_t offset)
{
	return frame_of(V8_KIND_INTERPRETED, shared - 1,
			V8_SECOND(array - 1, offset + (uint64_t)v8.facts.offsets.bytecode_first));
}

static void names_byte_code(void **state)
{
	static const uint8_t code[] = { 10, 0, 1, 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		const int64_t rows[][2] = { { 0, 0 }, { 2, 0 } };
		int64_t places[2][2];
		uint64_t shared, array;

		memcpy(places, rows, sizeof(rows));
		places[0][1] = fake_position(TWO, -1);
		places[1][1] = fake_position(THREE, -1);
		fake_init(&v8, versions[i]);
		shared = fake_shared(&v8, fake_string(&v8, "work"), script());
		array = fake_bytecode(&v8, code, sizeof(code), fake_positions(&v8, places, 2));
		check(interpreted(shared, array, 0), "work /a.js:2:1");
		check(interpreted(shared, array, 1), "work /a.js:2:1");
		check(interpreted(shared, array, 3), "work /a.js:3:1");
		check(interpreted(shared, array, V8_OFFSET_MOST), "work /a.js:0:0");
		check(interpreted(shared, shared, 0), "work /a.js:0:0");
		check(interpreted(array, array, 0), "[v8] :0:0");
	}
}

static void names_scopes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		const struct v8_offsets *o = &v8.facts.offsets;
		uint64_t scope, array = 0;

		fake_init(&v8, versions[i]);
		array = fake_bytecode(&v8, (const uint8_t *)"", 0, 0);
		scope = fake_object(&v8, o->scope_type, 160);
		fake_word(&v8, scope, o->scope_count, fake_integer(1));
		fake_word(&v8, scope, o->scope_first, fake_string(&v8, "local"));
		fake_word(&v8, scope, o->scope_first + 8, fake_integer(0));
		check(interpreted(fake_shared(&v8, scope, script()), array, 0),
		      "(anonymous) /a.js:0:0");
		fake_word(&v8, scope, o->scope_first + 16, fake_string(&v8, ""));
		fake_word(&v8, scope, o->scope_first + 32, fake_string(&v8, "Shop.sell"));
		check(interpreted(fake_shared(&v8, scope, script()), array, 0),
		      "Shop.sell /a.js:0:0");
		fake_word(&v8, scope, o->scope_count, fake_integer(-1));
		check(interpreted(fake_shared(&v8, scope, 1), array, 0), "(anonymous) :0:0");
	}
}

static void names_strings(void **state)
{
	static const uint16_t wide[] = { 0xe4, 0xd83d, 0xde00, 0xd83d, 'x' };
	uint64_t text, two_byte, cons, deep;

	(void)state;
	fake_init(&v8, OFFSET_VERSION(11, 3));
	text = fake_string(&v8, "abcdef");
	two_byte = fake_object(&v8, FAKE_TWO_BYTE, 32);
	fake_word(&v8, two_byte, 8, (uint64_t)ARRAY_LEN(wide) << 32);
	fake_put(&v8, two_byte - 1 + 16, wide, sizeof(wide));
	cons = fake_string_of(&v8, FAKE_CONS, 12, text, text);
	deep = fake_string_of(&v8, FAKE_THIN, 6, text, 0);
	fake_word(&v8, deep, 16, deep); /* itself */
	check(interpreted(fake_shared(&v8, two_byte, 1), 1, 0), "\xc3\xa4\xf0\x9f\x98\x80x :0:0");
	check(interpreted(fake_shared(&v8, cons, 1), 1, 0), "abcdefabcdef :0:0");
	check(interpreted(fake_shared(&v8,
				      fake_string_of(&v8, FAKE_SLICED, 3, text, fake_integer(2)),
				      1),
			  1, 0),
	      "cde :0:0");
	check(interpreted(fake_shared(&v8, fake_string_of(&v8, FAKE_THIN, 6, text, 0), 1), 1, 0),
	      "abcdef :0:0");
	check(interpreted(
		      fake_shared(&v8, fake_string_of(&v8, FAKE_EXTERNAL, 3, 0, text - 1 + 16), 1),
		      1, 0),
	      "abc :0:0");
	check(interpreted(fake_shared(&v8, deep, 1), 1, 0), "(anonymous) :0:0");
}

static void names_baseline_code(void **state)
{
	static const uint8_t code[] = { 10, 0, 1, 1 }, counts[] = { 16, 32, 8, 8 };

	(void)state;
	for (size_t i = 2; i < ARRAY_LEN(versions); i++) {
		int64_t places[2][2] = { { 0, fake_position(TWO, -1) },
					 { 2, fake_position(THREE, -1) } };
		uint64_t shared, array, start;

		fake_init(&v8, versions[i]);
		shared = fake_shared(&v8, fake_string(&v8, "work"), script());
		array = fake_bytecode(&v8, code, sizeof(code), fake_positions(&v8, places, 2));
		start = fake_code(&v8, array, fake_bytes(&v8, counts, sizeof(counts)));
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 20), "work /a.js:2:1");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 47), "work /a.js:2:1");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 48), "work /a.js:3:1");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 200), "work /a.js:0:0");
		check(frame_of(V8_KIND_COMPILED, shared - 1, 0), "work /a.js:0:0");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 300), "work /a.js:0:0");
	}
}

/* work() called inner() at "two", and that leaf(), which is at "three". */
static void names_inlined_functions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		const struct v8_offsets *o = &v8.facts.offsets;
		int64_t places[2][2] = { { 10, fake_position(0, -1) },
					 { 20, fake_position(THREE, 1) } };
		uint64_t inlined[4] = { (uint64_t)fake_position(TWO, -1), 0,
					(uint64_t)fake_position(SECOND_TWO, 0), 1 };
		uint64_t literals[2], data[16] = { 0 }, shared, start;

		fake_init(&v8, versions[i]);
		shared = fake_shared(&v8, fake_string(&v8, "work"), script());
		literals[0] = fake_shared(&v8, fake_string(&v8, "inner"), script());
		literals[1] = fake_shared(&v8, fake_string(&v8, "leaf"), script()) | 2; /* weak */
		data[o->deopt_literals] = fake_array(&v8, literals, 2);
		data[o->deopt_inlined] = fake_bytes(&v8, (const uint8_t *)inlined, sizeof(inlined));
		start = fake_code(&v8, fake_array(&v8, data, ARRAY_LEN(data)),
				  fake_positions(&v8, places, 2));
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 12), "work /a.js:1:1");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 40),
		      "leaf /a.js:3:1; inner /a.js:2:5; work /a.js:2:1");
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 5), "work /a.js:0:0");
		fake_word(&v8, data[o->deopt_literals], 24, shared + 64); /* no function */
		check(frame_of(V8_KIND_COMPILED, shared - 1, start + 40), "work /a.js:0:0");
	}
}

static void names_other_frames(void **state)
{
	(void)state;
	fake_init(&v8, OFFSET_VERSION(13, 6));
	check(frame_of(V8_KIND_MARKED, (uint64_t)v8.facts.offsets.frame_wasm, 4096), "[wasm] :0:0");
	check(frame_of(V8_KIND_MARKED, (uint64_t)v8.facts.offsets.frame_regexp, 4096),
	      "[regexp] :0:0");
	check(frame_of(V8_KIND_MARKED, 60, 4096), "[v8 stub] :0:0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_byte_code),         cmocka_unit_test(names_scopes),
		cmocka_unit_test(names_strings),           cmocka_unit_test(names_baseline_code),
		cmocka_unit_test(names_inlined_functions), cmocka_unit_test(names_other_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
