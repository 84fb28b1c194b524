/*
 * Rows of Go's functions out of tables of all four layouts: the small ones of the fuzz corpus, made
 * by hand, and the go command itself, where there is one.
 */
#include "agent/unwind/pclntab.h"
#include <fcntl.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/unwind/rows_text_test.h"
#include "base/cleanup.h"

enum { TEXT = 0x401000, TABLE = 0x500000 };

/* As the fuzz target has it: flags, u16 length of the code, the code, the table. */
static struct image image_of_file(const char *name, bool stripped)
{
	uint8_t bytes[4096];
	char path[100];
	uint16_t code;
	struct image m;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "fuzz/corpus/unwind_go/%s", name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s cannot be read", path);
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	memcpy(&code, bytes + 1, sizeof(code));
	{
		const struct image_part parts[] = {
			{ ".text", TEXT, bytes + 3, code, true, false },
			{ stripped ? NULL : ".gopclntab", TABLE, bytes + 3 + code, len - 3 - code,
			  false, false },
			{ ".go.buildinfo", 0, "\xff Go buildinf:", 14, false, false },
		};

		m = image_make(bytes[0] & 1 ? EM_AARCH64 : EM_X86_64, 0, parts, 3);
	}
	return m;
}

/*
 * runtime.sigreturn__sigaction from the byte before it on; goexit at 10; main.leaf 20; main.f 30:
 * PUSHQ BP up to 37, MOVQ SP, BP, SUBQ; systemstack at 50, with a frame; morestack at 70, up to its
 * switch; asmcgocall at 90, without a frame.
 */
#define BEGIN "0:none fff:signal+40 1010:stop 1020:sp+8 "
#define SWITCHES                                                                             \
	" 1054:other_stack 1065:sp+8 1081:morestack(-8,192,104) 1090:sp+8 1094:other_stack " \
	"10a0:none"
#define END " 1051:sp+16 fp=*cfa-16" SWITCHES

static const struct {
	const char *file, *want;
} layouts[] = {
	/* by depth: whether a function uses FP for something else is not known */
	{ "go1_2", BEGIN "1037:sp+16 fp=*cfa-16 103e:sp+48 fp=*cfa-16 "
			 "1047:runsp+16[81000001] fp=*cfa-16" END },
	{ "go1_16", BEGIN "1037:sp+16 fp=*cfa-16 103e:sp+48 fp=*cfa-16 "
			  "1047:runsp+16[81000001] fp=*cfa-16" END },
	{ "go1_18", BEGIN "1037:sp+16 fp=*cfa-16 103e:sp+48 fp=*cfa-16 "
			  "1047:runsp+16[81000001] fp=*cfa-16" END },
	/* compiled code says so, and keeps FP */
	{ "go1_20", BEGIN "1037:runsp+16[8000003] fp=*cfa-16 1048:runsp+8[1000009]" SWITCHES },
	{ "go1_26_no_text",
	  BEGIN "1037:runsp+16[8000003] fp=*cfa-16 1048:runsp+8[1000009]" SWITCHES },
	{ "arm64", "0:none fff:signal+312 1010:stop 1020:sp+0 1037:sp+8 fp=*sp-8 ra=*sp+0 "
		   "103e:sp+40 fp=*sp-8 ra=*sp+0 1047:sp+8 fp=*sp-8 ra=*sp+0 1048:sp+0 "
		   "1051:other_stack 1065:sp+0 10a0:none" },
};

static void test_layouts(void **state)
{
	struct built b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
		struct image m = image_of_file(layouts[i].file, false);

		build(&m, TEXT, &b);
		assert_true(b.go);
		if (strcmp(b.text, layouts[i].want) != 0)
			fail_msg("%s\n got %s\nwant %s", layouts[i].file, b.text, layouts[i].want);
		free(m.bytes);
	}
}

/* Without section headers the table is found by its first bytes; without .text the text's begin
 * must be in the header. */
static void test_stripped(void **state)
{
	struct image m = image_of_file("go1_20", true);
	struct built b;

	(void)state;
	build(&m, TEXT, &b);
	assert_true(b.go);
	assert_string_equal(b.text, layouts[3].want);
	free(m.bytes);
}

/* ---- a real one ---- */

static struct elf_file *go_command(void)
{
	static const char *const places[] = { "/usr/local/go/bin/go", "/usr/lib/go/bin/go",
					      "/usr/bin/go" };
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		AUTO(fd_close) int fd = open(places[i], O_RDONLY | O_CLOEXEC);
		struct elf_file *f = fd < 0 ? NULL : elf_file_open(fd, &err);

		if (f)
			return f;
	}
	return NULL;
}

/* Every function of the symbol table has its name and begin in the table. */
static void test_names(void **state)
{
	struct elf_file *f = go_command();
	struct pclntab t;
	struct pclntab_function fn;
	uint32_t found = 0, walks = 0;

	(void)state;
	if (!f) {
		print_message("SKIPPED: no go command here\n");
		return;
	}
	assert_true(pclntab_open(f, &t));
	for (uint32_t i = 0; i < t.function_count; i++) {
		struct pclntab_walk w;
		uint64_t at;

		assert_true(pclntab_function(&t, i, &fn));
		assert_int_equal(pclntab_find(&t, fn.begin), i);
		assert_int_equal(pclntab_find(&t, fn.end - 1), i);
		found += str_is(pclntab_name(&t, &fn), "runtime.goexit") ||
			 str_is(pclntab_name(&t, &fn), "runtime.goexit.abi0") ||
			 str_is(pclntab_name(&t, &fn), "main.main");
		at = fn.begin;
		for (w = pclntab_walk(&t, &fn, fn.pcsp); pclntab_next(&w); at = w.end) {
			assert_int_equal(w.begin, at);
			assert_true(w.value >= 0 ||
				    str_is(pclntab_name(&t, &fn), "syscall.rawVforkSyscall"));
			walks++;
		}
		assert_false(w.r.failed);
		assert_true(!fn.pcsp || (at <= fn.end && fn.end - at < 64)); /* padding */
	}
	assert_int_equal(found, 2);
	assert_true(walks > t.function_count);
	print_message("%u functions, %u stretches of stack depth\n", t.function_count, walks);
	elf_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
