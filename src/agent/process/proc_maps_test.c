#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/sysmacros.h>

#include "agent/process/proc_maps.h"

static const struct {
	const char *line;
	bool ok;
	struct proc_mapping want;
	const char *path;
} cases[] = {
	{ "7f12a4000000-7f12a4022000 r-xp 00001000 08:01 1835                       "
	  "/usr/lib/libc.so.6",
	  true,
	  { .start = 0x7f12a4000000,
	    .end = 0x7f12a4022000,
	    .file_offset = 0x1000,
	    .device = 0x801,
	    .inode = 1835,
	    .executable = true },
	  "/usr/lib/libc.so.6" },
	{ "00400000-00401000 r--p 00000000 fe:01 7 /opt/a b/c (1)",
	  true,
	  { .start = 0x400000, .end = 0x401000, .device = 0xfe01, .inode = 7 },
	  "/opt/a b/c (1)" },
	{ "00400000-00401000 r-xp 00000000 fe:01 7 /tmp/x (deleted)",
	  true,
	  { .start = 0x400000, .end = 0x401000, .device = 0xfe01, .inode = 7, .executable = true },
	  "/tmp/x" },
	{ "7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]",
	  true,
	  { .start = 0x7ffd1000, .end = 0x7ffd3000, .executable = true },
	  "[vdso]" },
	{ "7f00-7f10 rwxp 00000000 00:00 0 ",
	  true,
	  { .start = 0x7f00, .end = 0x7f10, .executable = true },
	  "" },
	{ "7f00-7f10 rwxp 00000000 00:00 0",
	  true,
	  { .start = 0x7f00, .end = 0x7f10, .executable = true },
	  "" },
	{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
	  true,
	  { .start = 0xffffffffff600000, .end = 0xffffffffff601000, .executable = true },
	  "[vsyscall]" },
	{ "7f10-7f00 rwxp 00000000 00:00 0", false, { 0 }, "" }, /* ends before it starts */
	{ "7f00 7f10 rwxp 00000000 00:00 0", false, { 0 }, "" },
	{ "7f00-7f10 rw 00000000 00:00 0", false, { 0 }, "" },
	{ "7f00-7f10 rwxp 00000000 00:00 -1", false, { 0 }, "" },
	{ "11112222333344445-7f10 rwxp 00000000 00:00 0", false, { 0 }, "" }, /* 68 bits */
	{ "-7f10 rwxp 00000000 00:00 0", false, { 0 }, "" },
	{ "7f00-", false, { 0 }, "" },
	{ "", false, { 0 }, "" },
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct proc_mapping *want = &cases[i].want;
		struct proc_mapping got;
		bool ok = proc_maps_parse(str_cstr(cases[i].line), &got);

		if (ok != cases[i].ok)
			fail_msg("\"%s\": %d", cases[i].line, ok);
		if (!ok)
			continue;
		if (got.start != want->start || got.end != want->end ||
		    got.file_offset != want->file_offset || got.inode != want->inode ||
		    got.device != makedev(want->device >> 8, want->device & 0xff) ||
		    got.executable != want->executable || !str_is(got.path, cases[i].path))
			fail_msg("\"%s\": path \"%.*s\"", cases[i].line, STR_ARG(got.path));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
