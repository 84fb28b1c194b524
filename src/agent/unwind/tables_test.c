/* Rows out of small images made here: every instruction, encodings, gaps, what is refused, pages.
 */
#include "agent/unwind/tables.h"
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/unwind/patterns.h"
#include "agent/unwind/rows_text_test.h"
#include "base/cleanup.h"

enum { TEXT = 0x401000, EH_FRAME = 0x300000 };

/* ---- CFI by hand ---- */

struct cfi {
	uint8_t bytes[2048];
	size_t len;
};

static void put(struct cfi *c, const void *bytes, size_t len)
{
	assert_true(c->len + len <= sizeof(c->bytes));
	memcpy(c->bytes + c->len, bytes, len);
	c->len += len;
}

static void put_uint(struct cfi *c, uint64_t v, size_t n)
{
	put(c, &v, n);
}

/* Lengths are written when the entry ends. */
static size_t begin_entry(struct cfi *c, bool wide)
{
	if (wide)
		put_uint(c, 0xffffffff, 4);
	put_uint(c, 0, wide ? 8 : 4);
	return c->len;
}

static void end_entry(struct cfi *c, size_t from, bool wide)
{
	uint64_t len = c->len - from;

	memcpy(c->bytes + from - (wide ? 8 : 4), &len, wide ? 8 : 4);
}

/* def_cfa rsp+8; ra at cfa-8: what every x86-64 compiler begins with. */
#define USUAL "\x0c\x07\x08\x90\x01"

/* "zR" with an encoding of 4 byte pcrel, unless told otherwise. */
static void put_cie(struct cfi *c, const char *letters, const void *data, size_t data_len,
		    const char *program, size_t program_len)
{
	size_t at = begin_entry(c, false);

	put_uint(c, 0, 4);
	put_uint(c, 1, 1);
	put(c, letters, strlen(letters) + 1);
	put(c, "\x01\x78\x10", 3); /* factors 1 and -8, RA in 16 */
	if (letters[0] == 'z') {
		put_uint(c, data_len, 1);
		put(c, data, data_len);
	}
	put(c, program, program_len);
	end_entry(c, at, false);
}

static void put_fde(struct cfi *c, size_t cie, uint64_t begin, uint32_t size, const char *program,
		    size_t program_len)
{
	size_t at = begin_entry(c, false);

	put_uint(c, c->len - cie, 4);
	put_uint(c, begin - (EH_FRAME + c->len), 4);
	put_uint(c, size, 4);
	put_uint(c, 0, 1);
	put(c, program, program_len);
	end_entry(c, at, false);
}

static struct image image_of(const struct cfi *c, const uint8_t *code, size_t code_len)
{
	const struct image_part parts[] = {
		{ ".eh_frame", EH_FRAME, c->bytes, c->len, false, false },
		{ ".text", TEXT, code, code_len, true, false },
	};

	return image_make(EM_X86_64, 0, parts, 2);
}

static uint8_t returns[0x30000];

static const char *result_of(const struct cfi *c, uint64_t address)
{
	static struct built b;
	struct image m = image_of(c, returns, sizeof(returns));

	build(&m, address, &b);
	free(m.bytes);
	return b.text;
}

/* One function of 64 bytes at TEXT, followed by 64 and more of nothing. */
static const struct {
	const char *program;
	size_t len;
	const char *want; /* behind "0:none " and before " 1040:none" */
} programs[] = {
#define PROGRAM(bytes, want)                   \
	{                                      \
		bytes, sizeof(bytes) - 1, want \
	}
	PROGRAM("", "1000:sp+8"),
	/* push at 1, three more, one byte each */
	PROGRAM("\x41\x0e\x10\x41\x0e\x18\x41\x0e\x20", "1000:runsp+8[111]"),
	/* push rbp; mov rsp,rbp */
	PROGRAM("\x41\x0e\x10\x86\x02\x43\x0d\x06", "1000:runsp+8[11000031]"),
	/* and leave at the end: sp+8 again, with FP back in its register */
	PROGRAM("\x41\x0e\x10\x86\x02\x43\x0d\x06\x70\x0c\x07\x08",
		"1000:runsp+8[11000031] 1034:sp+8"),
	/* push r15, push rbp, sub 24; add 24, pop rbp, pop r15 */
	PROGRAM("\x42\x0e\x10\x41\x0e\x18\x86\x03\x44\x0e\x30"
		"\x50\x0e\x18\x41\x0e\x10\x42\x0e\x08",
		"1000:runsp+8[2000012] 1007:sp+48 fp=*cfa-24 1017:runsp+24[81000021] fp=*cfa-24"),
	/* remember; add; ret; restore */
	PROGRAM("\x44\x0e\x28\x44\x0a\x0e\x08\x41\x0b",
		"1000:sp+8 1004:sp+40 1008:sp+8 1009:sp+40"),
	/* advance 1, 2 and 4 bytes wide */
	PROGRAM("\x02\x04\x0e\x28\x03\x04\x00\x0e\x48\x04\x04\x00\x00\x00\x0e\x28",
		"1000:sp+8 1004:sp+40 1008:sp+72 100c:sp+40"),
	/* the long forms, signed and not */
	PROGRAM("\x12\x07\x7e\x41\x13\x7d\x42\x05\x06\x02\x42\x11\x06\x03\x42\x2f\x06\x7e",
		"1000:runsp+16[1] 1003:sp+24 fp=*cfa-16 1005:sp+24 fp=*cfa-24 "
		"1007:sp+24 fp=*cfa+1008"),
	/* the CFA in r10, and *(rbp-8) */
	PROGRAM("\x45\x0c\x0a\x00\x45\x0f\x03\x76\x78\x06",
		"1000:sp+8 1005:r10+0 100a:deref*(fp-8)+0"),
	/* *(rsp+56+r9*8)+8, as in RSA code */
	PROGRAM("\x0f\x0a\x77\x38\x79\x00\x38\x1e\x22\x06\x23\x08", "1000:deref*(sp+8r9+56)+8"),
	/* FP at *(rbp+0), in r11, not kept; CFA + 16 is not a value that a rule has */
	PROGRAM("\x10\x06\x02\x76\x00\x42\x09\x06\x0b\x42\x07\x06\x42\x14\x06\x7e",
		"1000:sp+8 fp=*fp+0 1002:sp+8 fp=r11 1004:sp+8 fp=lost lost:fp"),
	/* RA in rdi: vfork */
	PROGRAM("\x41\x0e\x00\x09\x10\x05", "1000:sp+8 1001:sp+0 ra=rdi"),
	/* the linkage table's expression */
	PROGRAM("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", "1000:plt+11"),
	/* nobody called this */
	PROGRAM("\x07\x10", "1000:stop"),
	/* musl's __clone: the RA above the frame */
	PROGRAM("\x11\x10\x7f", "1000:stop"),
	/* what goes wrong holds from there on, or for one row */
	PROGRAM("\x44\x0e\x28\x44\x3f\x0e\x08", "1000:sp+8 1004:sp+40 1008:none lost:opcode"),
	PROGRAM("\x44\x0b", "1000:sp+8 1004:none lost:depth"),
	PROGRAM("\x44\x0f\x03\x77\x00\x13\x44\x0c\x07\x08",
		"1000:sp+8 1004:none 1008:sp+8 lost:expression"),
	PROGRAM("\x44\x0c\x20\x08\x44\x0c\x07\x08", "1000:sp+8 1004:none 1008:sp+8 lost:register"),
	PROGRAM("\x44\x0e\xff\xff\xff\xff\xff\x01", "1000:sp+8 1004:none lost:offset"),
	PROGRAM("\x44\x0e", "1000:sp+8 1004:none lost:opcode"),
	PROGRAM("\x44\x0f\x7f\x77", "1000:sp+8 1004:none lost:opcode"),
};

static void test_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		struct cfi c = { .len = 0 };
		char want[400];
		const char *lost = strstr(programs[i].want, " lost:"), *got;
		bool ends_in_none = strstr(programs[i].want, ":none lost") != NULL;
		int rows = lost ? (int)(lost - programs[i].want) : (int)strlen(programs[i].want);

		put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
		put_fde(&c, 0, TEXT, 64, programs[i].program, programs[i].len);
		snprintf(want, sizeof(want), "0:none %.*s%s%s", rows, programs[i].want,
			 ends_in_none ? "" : " 1040:none", lost ? lost : "");
		got = result_of(&c, TEXT);
		if (strcmp(got, want) != 0)
			fail_msg("program %zu:\n got %s\nwant %s", i, got, want);
	}
}

static void expect(const struct cfi *c, uint64_t address, const char *want)
{
	const char *got = result_of(c, address);

	if (strcmp(got, want) != 0)
		fail_msg("\n got %s\nwant %s", got, want);
}

static void test_augmentations(void **state)
{
	struct cfi c;

	(void)state;
	/* a personality, an LSDA, a signal frame, in the order of gcc */
	c.len = 0;
	put_cie(&c, "zPLRS", "\x9b\0\0\0\0\x1b\x1b", 7, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "", 0);
	expect(&c, TEXT, "0:none 1000:signal+40 1040:none");
	/* absolute addresses, no 'z' */
	c.len = 0;
	put_cie(&c, "", NULL, 0, USUAL, 5);
	{
		size_t at = begin_entry(&c, false);

		put_uint(&c, c.len, 4);
		put_uint(&c, TEXT, 8);
		put_uint(&c, 64, 8);
		put(&c, "\x44\x0e\x28", 3);
		end_entry(&c, at, false);
	}
	expect(&c, TEXT, "0:none 1000:sp+8 1004:sp+40 1040:none");
	/* an unknown letter behind those we need is left out by its length; before 'R' it hides it
	 */
	c.len = 0;
	put_cie(&c, "zRQ", "\x1b\x01\x02", 3, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "", 0);
	expect(&c, TEXT, "0:none 1000:sp+8 1040:none");
	c.len = 0;
	put_cie(&c, "zQR", "\x1b\x01\x02", 3, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "", 0);
	expect(&c, TEXT, "empty lost:cie");
	c.len = 0;
	put_cie(&c, "armcc+", NULL, 0, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "", 0);
	expect(&c, TEXT, "empty lost:cie");
}

static void test_damaged(void **state)
{
	struct cfi c = { .len = 0 };
	uint32_t far = 0x7fffffff;

	(void)state;
	put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "", 0);
	put_fde(&c, 0, TEXT + 256, 64, "", 0);
	/* the CIE's distance points before the section: only this FDE is lost */
	{
		size_t second = c.len;
		struct cfi broken = c;

		put_fde(&broken, 0, TEXT + 128, 64, "", 0);
		memcpy(broken.bytes + second + 4, &far, 4);
		put_fde(&broken, 0, TEXT + 512, 64, "", 0);
		expect(&broken, TEXT,
		       "0:none 1000:sp+8 1040:none 1100:sp+8 1140:none 1200:sp+8 1240:none "
		       "lost:fde");
	}
	/* cut within the last FDE: what is before stays */
	c.len -= 4;
	expect(&c, TEXT, "0:none 1000:sp+8 1040:none");
	/* nothing at all */
	c.len = 0;
	expect(&c, TEXT, "empty");
}

/* A function over three pages: each page begins with what holds there, runs included. */
static void test_pages(void **state)
{
	struct cfi c = { .len = 0 };

	(void)state;
	put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
	/* three pushes around the border at 0x410000, from 0x40fffe on; sub at 0x420010 */
	put_fde(&c, 0, TEXT, 0x28000,
		"\x04\xfe\xef\x00\x00\x0e\x10\x44\x0e\x18\x42\x0e\x20\x04\x0c\x00\x01\x00\x0e\x40",
		20);
	expect(&c, TEXT, "0:none 1000:sp+8 fffe:sp+16");
	expect(&c, 0x410000, "0:runsp+16[22]");
	expect(&c, 0x420000, "0:sp+32 10:sp+64 9000:none");
	expect(&c, 0x430000, "empty");
	expect(&c, 0x10000, "empty");
}

/* Padding between functions costs no row; what is longer, or no padding, has no rule. */
static void test_gaps(void **state)
{
	struct cfi c = { .len = 0 };
	static uint8_t code[0x400];
	struct image m;
	struct built b;

	(void)state;
	put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
	put_fde(&c, 0, TEXT, 0x31, "", 0);
	put_fde(&c, 0, TEXT + 0x40, 0x21, "\x44\x0e\x28", 3); /* behind 15 bytes of anything */
	put_fde(&c, 0, TEXT + 0x80, 0x11, "", 0);             /* behind 31 of returns */
	put_fde(&c, 0, TEXT + 0xb0, 0x10, "", 0);             /* behind 31 of something else */
	memset(code, 0x90, sizeof(code));
	code[0xa8] = 0xc3;
	m = image_of(&c, code, sizeof(code));
	build(&m, TEXT, &b);
	assert_string_equal(b.text, "0:none 1000:sp+8 1044:sp+40 1080:sp+8 1091:none 10b0:sp+8 "
				    "10c0:none");
	free(m.bytes);
}

/* Code without CFI whose rule its bytes tell: a linkage table, the entry point, musl's restorer. */
static void test_patterns(void **state)
{
	static const uint8_t entry[] = {
		0xff, 0x25, 1, 0, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 1, 0, 0, 0
	};
	static const uint8_t ibt[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0,    0,
				       0,    0xe9, 1,    0,    0,    0, 0x66, 0x90 };
	static const uint8_t first[] = { 0xff, 0x35, 2, 0, 0,    0,    0xff, 0x25,
					 4,    0,    0, 0, 0x0f, 0x1f, 0x40, 0 };
	static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t plt[64], text[0x400];
	struct image_part parts[] = {
		{ ".plt", TEXT, plt, sizeof(plt), true, false },
		{ ".plt.sec", TEXT + 0x100, ibt, sizeof(ibt), true, false },
		{ ".text", TEXT + 0x400, text, sizeof(text), true, false },
	};
	struct image m;
	struct built b;

	(void)state;
	memset(text, 0xc3, sizeof(text));
	memcpy(text + 0x200, restorer, sizeof(restorer));
	memcpy(plt, first, 16);
	memcpy(plt + 16, entry, 16);
	memcpy(plt + 32, entry, 16);
	memcpy(plt + 48, entry, 16);
	m = image_make(EM_X86_64, TEXT + 0x480, parts, 3);
	build(&m, TEXT, &b);
	assert_string_equal(b.text, "0:none 1000:runsp+16[6] 1010:plt+11 1040:none "
				    "1100:plt+9 1110:none 1480:stop 14c0:none "
				    "15ff:signal+40 1609:none");
	free(m.bytes);
}

#define BYTES(text) text, sizeof(text) - 1
/* begin, made and undone; all zero: no such function. */
static const struct {
	const char *code;
	size_t len;
	uint64_t phase;
	struct small_frame frame;
} small_frames[] = {
	/* rustc's main(): push %rax .. call; pop %rcx; ret, between padding */
	{ BYTES("\x50\x48\x89\xf1\xe8\x01\x02\x03\x04\x59\xc3\x0f\x1f\x44\0\0"),
	  0,
	  { 0, 1, 10, 8 } },
	{ BYTES("\x90\x50\xe8\x01\x02\x03\x04\x58\xc3"), 15, { 1, 2, 8, 8 } },
	{ BYTES("\xf3\x0f\x1e\xfa\x48\x83\xec\x18\xe8\1\2\3\4\x48\x83\xc4\x18\xc3"),
	  0,
	  { 0, 8, 17, 24 } },
	{ BYTES("\x48\x83\xec\x18\xe8\1\2\3\4\x48\x83\xc4\x28\xc3"), 0, { 0 } }, /* another size */
	{ BYTES("\x50\xe8\1\2\3\4\x59\xc3\x31\xc0"), 0, { 0 } }, /* code behind the return */
	{ BYTES("\x55\xe8\1\2\3\4\x5d\xc3"), 0, { 0 } },         /* a frame pointer */
	{ BYTES("\x31\x50\xe8\1\2\3\4\x59\xc3"), 15, { 0 } },    /* code before the begin */
	{ BYTES("\x50"), 0, { 0 } },
	{ BYTES("\x50\xc3"), 0, { 0 } },
	{ BYTES("\x90\x90"), 14, { 0 } },
	{ BYTES(""), 0, { 0 } },
};

static void test_small_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(small_frames); i++) {
		const struct small_frame *want = &small_frames[i].frame;
		struct bytes code = { (const uint8_t *)small_frames[i].code, small_frames[i].len };
		struct small_frame got = { 0 };
		bool found = patterns_small_frame(code, small_frames[i].phase, &got);

		if (found != (want->bytes != 0) ||
		    (found && (got.begin != want->begin || got.made != want->made ||
			       got.undone != want->undone || got.bytes != want->bytes)))
			fail_msg("row %zu: %d, %lu %lu %lu, %u bytes", i, found,
				 (unsigned long)got.begin, (unsigned long)got.made,
				 (unsigned long)got.undone, got.bytes);
	}
}

/* .debug_frame, DWARF 5's version 4 CIE, in the 32 and the 64 bit format. */
static void test_debug_frame(void **state)
{
	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		struct cfi c = { .len = 0 };
		size_t at = begin_entry(&c, wide), word = wide ? 8 : 4;
		struct image m;
		struct built b;

		put_uint(&c, UINT64_MAX, word);
		put(&c, "\x04\0\x08\x00\x01\x78\x10" USUAL, 12);
		end_entry(&c, at, wide);
		at = begin_entry(&c, wide);
		put_uint(&c, 0, word);
		put_uint(&c, TEXT + 16, 8);
		put_uint(&c, 32, 8);
		put(&c, "\x41\x0e\x10", 3);
		end_entry(&c, at, wide);
		{
			const struct image_part parts[] = {
				{ ".debug_frame", 0, c.bytes, c.len, false, false },
				{ ".text", TEXT, returns, 0x1000, true, false },
			};

			m = image_make(EM_X86_64, 0, parts, 2);
		}
		build(&m, TEXT, &b);
		assert_string_equal(b.text, "0:none 1010:runsp+8[1] 1030:none");
		free(m.bytes);
	}
}

/* Without section headers: through PT_GNU_EH_FRAME, with its table or without. */
static void test_header_only(void **state)
{
	(void)state;
	for (int table = 0; table < 2; table++) {
		struct cfi c = { .len = 0 }, h = { .len = 0 };
		size_t fde;
		struct image m;
		struct built b;

		put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
		fde = c.len;
		put_fde(&c, 0, TEXT, 64, "\x44\x0e\x28", 3);
		put(&h, table ? "\x01\x1b\x03\x3b" : "\x01\x1b\xff\xff", 4);
		put_uint(&h, EH_FRAME - (EH_FRAME - 0x1000 + 4), 4);
		put_uint(&h, 1, 4);
		put_uint(&h, TEXT - (EH_FRAME - 0x1000), 4);
		put_uint(&h, EH_FRAME + fde - (EH_FRAME - 0x1000), 4);
		{
			const struct image_part parts[] = {
				{ NULL, EH_FRAME - 0x1000, h.bytes, h.len, false, true },
				{ NULL, EH_FRAME, c.bytes, c.len, false, false },
				{ NULL, TEXT, returns, 0x1000, true, false },
			};

			m = image_make(EM_X86_64, 0, parts, 3);
		}
		build(&m, TEXT, &b);
		assert_string_equal(b.text, "0:none 1000:sp+8 1004:sp+40 1040:none");
		free(m.bytes);
	}
}

static void test_refused(void **state)
{
	const struct image_part data = { ".data", TEXT, returns, 64, false, false };
	struct image m = image_make(EM_X86_64, 0, &data, 1);
	struct err err = { 0 };
	struct elf_file *f = elf_file_from_memory(m.bytes, m.len, false, &err);

	(void)state;
	assert_non_null(f);
	assert_null(unwind_tables_open(f, NULL, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	elf_file_free(f);
	free(m.bytes);
}

/* A page that does not fit says so, and counts nothing. */
static void test_no_room(void **state)
{
	struct cfi c = { .len = 0 };
	struct unwind_row rows[4];
	struct unwind_rule array[16];
	struct unwind_rules rules;
	struct image m;
	struct elf_file *f;
	struct unwind_tables *t;
	struct err err = { 0 };
	uint32_t count = 77;

	(void)state;
	put_cie(&c, "zR", "\x1b", 1, USUAL, 5);
	put_fde(&c, 0, TEXT, 64, "\x44\x0e\x28\x44\x0e\x48\x44\x0e\x28", 9);
	m = image_of(&c, returns, 0x1000);
	f = elf_file_from_memory(m.bytes, m.len, false, &err);
	t = unwind_tables_open(f, NULL, &err);
	assert_non_null(t);
	unwind_rules_init(&rules, array, 16);
	assert_int_equal(unwind_tables_build_page(t, TEXT >> 16, &rules, rows, 4, &count),
			 UNWIND_BUILD_NO_ROOM);
	assert_int_equal(count, 77);
	assert_int_equal(unwind_tables_counts(t)->pages, 0);
	assert_int_equal(unwind_tables_counts(t)->fdes, 0);
	unwind_tables_free(t);
	unwind_rules_release(&rules);
	elf_file_free(f);
	free(m.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),    cmocka_unit_test(test_augmentations),
		cmocka_unit_test(test_damaged),     cmocka_unit_test(test_pages),
		cmocka_unit_test(test_gaps),        cmocka_unit_test(test_small_frames),
		cmocka_unit_test(test_patterns),    cmocka_unit_test(test_debug_frame),
		cmocka_unit_test(test_header_only), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_room),
	};

	memset(returns, 0xc3, sizeof(returns)); /* ret: no padding */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
