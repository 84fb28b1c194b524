/*
 * What each libjvm.so at hand says of itself, read from the file alone: the layout is complete and
 * plausible. JDKs: /usr/lib/jvm, and the folders in FLAMETAP_JDKS (colon-separated). None: skipped,
 * aloud.
 */
#include "agent/runtimes/hotspot/layout.h"

#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/cleanup.h"

static void check_layout(const char *path, const struct hotspot_layout *l)
{
	struct unwind_hotspot bpf = { 0 };

	print_message("%s: JDK %u, nmethod %u bytes, ConstMethod %u\n", path, l->major,
		      l->nmethod_bytes, l->const_bytes);
	assert_in_range(l->major, 8, 200);
	assert_in_range(l->nmethod_bytes, 150, 600);
	assert_in_range(l->const_bytes, 40, 80);
	assert_in_range(l->pc_desc_bytes, 16, 16);
	assert_true(l->block_header_bytes == 16 || l->block_header_bytes == 8);
	assert_true(l->blob_code_begin.bytes || l->blob_code_offset.bytes);
	hotspot_layout_for_bpf(l, &bpf);
	assert_int_equal(!!(bpf.flags & HOTSPOT_OFFSETS), l->major >= 23 || l->major == 8);
	assert_int_equal(!!(bpf.flags & HOTSPOT_SHORT_COMPLETE), l->major >= 23);
	assert_int_equal(!!(bpf.flags & HOTSPOT_SEVENTH_BCP), l->major == 8);
	assert_int_equal(bpf.const_bytes, l->const_bytes);
}

static bool check_file(const char *path)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct hotspot_layout layout;
	struct elf_file *elf;
	struct err err;

	if (fd < 0)
		return false;
	elf = elf_file_open(fd, &err);
	if (!elf)
		fail_msg("%s: %s", path, err.msg);
	assert_true(vm_structs_there(elf));
	if (!hotspot_layout_read(elf, &layout, &err))
		fail_msg("%s: %s", path, err.msg);
	check_layout(path, &layout);
	elf_file_free(elf);
	return true;
}

static uint32_t check_glob(const char *pattern)
{
	uint32_t count = 0;
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			count += check_file(found.gl_pathv[i]);
	globfree(&found);
	return count;
}

static void test_layouts(void **state)
{
	uint32_t count = check_glob("/usr/lib/jvm/*/lib/server/libjvm.so");
	const char *more = getenv("FLAMETAP_JDKS");
	struct str rest = str_cstr(more ? more : ""), folder;
	char pattern[512];

	(void)state;
	while (str_split(&rest, ':', &folder)) {
		if (!folder.len)
			continue;
		snprintf(pattern, sizeof(pattern), "%.*s/lib/server/libjvm.so", STR_ARG(folder));
		count += check_glob(pattern);
		snprintf(pattern, sizeof(pattern), "%.*s/jre/lib/amd64/server/libjvm.so",
			 STR_ARG(folder)); /* JDK 8 */
		count += check_glob(pattern);
	}
	if (!count) {
		print_message("SKIPPED: no libjvm.so here\n");
		skip();
	}
}

static void test_slots(void **state)
{
	const uint8_t copy[] = { 0xfe, 0xff, 0xff, 0xff, 0x34, 0x12, 7, 0 };
	const struct vm_slot number = { .offset = 0, .bytes = 4, .is_signed = true };
	const struct vm_slot word = { .offset = 4, .bytes = 2 };
	const struct vm_slot outside = { .offset = 6, .bytes = 4 };

	(void)state;
	assert_int_equal((int64_t)vm_slot_get(number, copy, sizeof(copy)), -2);
	assert_int_equal(vm_slot_get(word, copy, sizeof(copy)), 0x1234);
	assert_int_equal(vm_slot_get(outside, copy, sizeof(copy)), 0);
	assert_int_equal(vm_slot_get((struct vm_slot){ 0 }, copy, sizeof(copy)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
