/* Names of frames in made-up memory, also of functions that are gone, replaced, or senseless. */
#include "agent/runtimes/php/names.h"

#include "agent/process/process_info.h"
#include "agent/runtimes/php/fake_php_test.h"
#include "bpf/records.h"

static struct fake_php php;
static struct process_info process = { .pid = FAKE_PID, .start_unix_nano = 1 };

static uint64_t word_of(uint64_t function, int32_t offset)
{
	uint64_t word = 0;

	assert_true(fake_read(&php, FAKE_PID, function + (uint64_t)offset, &word, sizeof(word)));
	return word;
}

/* As the step makes it. */
static struct trace_frame frame_of(uint64_t function, uint32_t at)
{
	const struct php_offsets *o = &php.facts.offsets;
	uint64_t cookie = php_cookie(word_of(function, o->function_name),
				     word_of(function, o->function_class),
				     word_of(function, o->function_code));

	return (struct trace_frame){ .kind = FRAME_PHP,
				     .executable = &php.executable,
				     .address = PHP_FIRST(PHP_KIND_FUNCTION, function, cookie),
				     .extra = PHP_SECOND(cookie, at) };
}

static struct trace_frame other_frame(enum php_frame_kind kind, uint64_t address, uint64_t extra)
{
	return (struct trace_frame){ .kind = FRAME_PHP,
				     .executable = &php.executable,
				     .address = PHP_FIRST(kind, address, 0),
				     .extra = extra };
}

/* file NULL: it could not be named. */
static void check(struct trace_frame f, const char *function, const char *file, uint32_t line)
{
	struct frame_names *names = frame_names_new(&php_names, &php.access, 1 << 16);
	const struct namer namer = frame_names_namer(names);
	struct frame_name name;

	for (int i = 0; i < 2; i++) { /* read, then remembered */
		assert_true(namer.name(namer.ctx, &f, &process, &name));
		assert_int_equal(name.line_count, 1);
		if (!str_is(name.lines[0].function, function) ||
		    !str_is(name.lines[0].file, file ? file : "") || name.lines[0].line != line)
			fail_msg("%.*s in %.*s:%u, not %s in %s:%u",
				 STR_ARG(name.lines[0].function), STR_ARG(name.lines[0].file),
				 name.lines[0].line, function, file ? file : "", line);
		assert_int_equal(name.fallback, !file);
		assert_int_equal(name.final, file != NULL);
	}
	frame_names_free(names);
}

static void test_functions(void **state)
{
	const uint32_t bytes = 32;
	uint64_t plain, method, internal, anonymous;

	(void)state;
	fake_init(&php, OFFSET_VERSION(8, 4));
	plain = fake_function(&php, PHP_USER, 0, NULL, "work", "/a.php");
	method = fake_function(&php, PHP_USER, 0, "Shop\\Sale", "total", "/b.php");
	internal = fake_function(&php, PHP_INTERNAL, 0, NULL, "usort", NULL);
	anonymous = fake_function(&php, PHP_USER, 0, "class@anonymous", "run", "/b.php");
	check(frame_of(plain, 3 * bytes), "work", "/a.php", 13);
	check(frame_of(method, 0), "Shop\\Sale::total", "/b.php", 10);
	check(frame_of(anonymous, 0), "class@anonymous::run", "/b.php", 10);
	check(frame_of(internal, PHP_AT_UNKNOWN), "usort", "", 0);
	/* Lines that are not known, or would lie behind the code. */
	check(frame_of(plain, PHP_AT_UNKNOWN), "work", "/a.php", 0);
	check(frame_of(plain, FAKE_CODES * bytes), "work", "/a.php", 0);
	check(frame_of(plain, 3 * bytes + 1), "work", "/a.php", 0);
}

static void test_what_does_not_stay(void **state)
{
	uint64_t file, name;

	(void)state;
	fake_init(&php, OFFSET_VERSION(8, 2));
	file = fake_string(&php, "/a.php", 0);
	name = fake_string(&php, "{closure}", 0);
	check(other_frame(PHP_KIND_MAIN, file, 17), "{main}", "/a.php", 17);
	check(other_frame(PHP_KIND_INCLUDE, file, 1), "include", "/a.php", 1);
	check(other_frame(PHP_KIND_EVAL, file, 1), "eval", "/a.php", 1);
	check(other_frame(PHP_KIND_CLOSURE, name, PHP_CLOSURE(file, 77)), "{closure}", "/a.php",
	      77);
	check(other_frame((enum php_frame_kind)7, file, 1), "[php]", NULL, 0);
	check(other_frame(PHP_KIND_MAIN, 0, 1), "[php]", NULL, 0);
	check(other_frame(PHP_KIND_CLOSURE, name, 0), "[php]", NULL, 0);
}

static void test_replaced_functions(void **state)
{
	const struct php_offsets *o = &php.facts.offsets;
	struct trace_frame f;
	uint64_t function, name;

	(void)state;
	for (int what = 0; what < 6; what++) {
		fake_init(&php, OFFSET_VERSION(7, 4));
		function = fake_function(&php, PHP_USER, 0, "A", "one", "/a.php");
		f = frame_of(function, 0);
		name = word_of(function, o->function_name);
		switch (what) {
		case 0: /* another function is there */
			fake_word(&php, function + (uint64_t)o->function_name,
				  fake_string(&php, "two", 0));
			break;
		case 1: /* another string is, which has a hash of its own */
			fake_word(&php, name + (uint64_t)o->string_hash, 12345);
			break;
		case 2:
			fake_word(&php, name + (uint64_t)o->string_length, UINT64_MAX);
			break;
		case 3:
			fake_word(&php, name + (uint64_t)o->string_length, 0);
			break;
		case 4:
			f.address += FAKE_BYTES;
			break;
		case 5:
			f.executable = NULL;
			break;
		}
		check(f, "[php]", NULL, 0);
	}
}

/* djb2, its top bit set: PHP's "one" has 0x800000000b88a2a7 or the like; computed here on its own.
 */
static void test_hash(void **state)
{
	const struct php_offsets *o = &php.facts.offsets;
	uint64_t function, name, hash = 5381;

	(void)state;
	fake_init(&php, OFFSET_VERSION(8, 4));
	function = fake_function(&php, PHP_USER, 0, NULL, "one", "/a.php");
	name = word_of(function, o->function_name);
	for (const char *c = "one"; *c; c++)
		hash = (hash << 5) + hash + (uint64_t)*c;
	fake_word(&php, name + (uint64_t)o->string_hash, hash | UINT64_C(1) << 63);
	check(frame_of(function, 0), "one", "/a.php", 10);
}

static void test_version(void **state)
{
	uint32_t version = 0;

	(void)state;
	assert_true(php_version_in(STR("x\0X-Powered-By: PHP/8.2.32-1~deb12\0"), &version));
	assert_int_equal(version, OFFSET_VERSION(8, 2));
	assert_false(php_version_in(STR("X-Powered-By: PHP/"), &version));
	assert_false(php_version_in(STR("X-Powered-By: PHP/8"), &version));
	assert_false(php_version_in(STR(""), &version));
}

static void test_resources_of_threads(void **state)
{
	static const struct {
		const char *code;
		size_t bytes;
		bool ok;
		uint64_t slot;
		int32_t offset;
	} cases[] = {
		{ "\x48\xc7\xc0\xf8\xff\xff\xff\xc3", 8, true, 0, -8 },
		{ "\xf3\x0f\x1e\xfa\x48\xc7\xc0\xf0\xff\xff\xff\xc3", 12, true, 0, -16 },
		{ "\x48\x8b\x05\x09\x01\x00\x00\xc3", 8, true, 0x1110, 0 },
		{ "\x55\x48\x89\xe5\x48\x8b\x05\x09\x01\x00\x00", 11, true, 0x1114, 0 },
		{ "\x48\x8b\x05\x09\x01\x00", 6, false, 0, 0 },
		{ "\x48\xc7\xc0\x00\x00\x00\x00\xc3", 8, false, 0, 0 },
		{ "\x31\xc0\xc3\x90\x90\x90\x90\x90", 8, false, 0, 0 },
		{ "", 0, false, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes code = { (const uint8_t *)cases[i].code, cases[i].bytes };
		int32_t offset;
		uint64_t slot;
		bool ok = php_decode_tls(code, 0x1000, &slot, &offset);

		if (ok != cases[i].ok ||
		    (ok && (slot != cases[i].slot || offset != cases[i].offset)))
			fail_msg("case %zu: %d, %#lx, %d", i, ok, (unsigned long)slot, offset);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_what_does_not_stay),
		cmocka_unit_test(test_replaced_functions),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_resources_of_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
