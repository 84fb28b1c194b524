/* What is read of Go binaries for the labels of goroutines: versions, offsets, code. */
#include "agent/runtimes/go/go.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/cleanup.h"

static void test_versions(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		uint32_t minor;
	} cases[] = {
		{ "go1.13", true, 13 },
		{ "go1.23.4 X:nocoverageredesign", true, 23 },
		{ "go1.26rc1", true, 26 },
		{ "devel go1.27-5c6ee0d Thu", true, 27 },
		{ "devel +5c6ee0d Thu Jan 2", false, 0 },
		{ "go1.", false, 0 },
		{ "go2.1", false, 0 },
		{ "", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t minor = 0;

		if (go_version_minor(str_cstr(cases[i].text), &minor) != cases[i].ok ||
		    minor != cases[i].minor)
			fail_msg("%s: 1.%u", cases[i].text, minor);
	}
}

/* As the DWARF of programs of each version says. */
static void test_offsets(void **state)
{
	static const struct {
		uint32_t minor;
		uint16_t labels, curg;
		enum go_labels_form form;
	} cases[] = {
		{ 13, 344, 192, GO_LABELS_MAP },  { 16, 344, 192, GO_LABELS_MAP },
		{ 17, 360, 192, GO_LABELS_MAP },  { 19, 360, 192, GO_LABELS_MAP },
		{ 20, 360, 192, GO_LABELS_MAP },  { 21, 344, 192, GO_LABELS_MAP },
		{ 22, 344, 192, GO_LABELS_MAP },  { 23, 352, 192, GO_LABELS_MAP },
		{ 24, 352, 192, GO_LABELS_LIST }, { 25, 344, 184, GO_LABELS_LIST },
		{ 26, 352, 184, GO_LABELS_LIST }, { 30, 352, 184, GO_LABELS_LIST },
	};
	struct go_runtime r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (!go_offsets_of(cases[i].minor, &r) || r.g_labels != cases[i].labels ||
		    r.m_curg != cases[i].curg || r.form != cases[i].form || r.g_m != 48)
			fail_msg("1.%u: labels at %u, curg at %u, form %u", cases[i].minor,
				 r.g_labels, r.m_curg, r.form);
	assert_false(go_offsets_of(12, &r));
}

/* The first bytes of runtime.morestack. */
static void test_thread_local_storage(void **state)
{
	static const struct {
		const char *what;
		const char *code;
		size_t bytes;
		bool ok;
		struct go_tls want;
	} cases[] = {
		{ "1.26",
		  "\x64\x48\x8b\x3c\x25\xf8\xff\xff\xff\x48\x8b\x5f\x30",
		  13,
		  true,
		  { .offset = -8 } },
		{ "1.13",
		  "\x64\x48\x8b\x0c\x25\xf8\xff\xff\xff\x48\x8b\x59\x30",
		  13,
		  true,
		  { .offset = -8 } },
		{ "static, with a C library's",
		  "\x64\x48\x8b\x3c\x25\xa8\xff\xff\xff",
		  9,
		  true,
		  { .offset = -88 } },
		{ "pie",
		  "\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x39\x48\x8b\x5f\x30\x48",
		  16,
		  true,
		  { .offset = -8 } },
		{ "c-shared",
		  "\x48\x8b\x0d\xb1\x3f\x12\x00\x64\x48\x8b\x39\x48\x8b\x5f\x30\x48",
		  16,
		  true,
		  { .in_memory = true, .vaddr = 0xae000 + 7 + 0x123fb1 } },
		{ "cut short", "\x64\x48\x8b\x3c\x25\xf8\xff\xff", 8, false, { 0 } },
		{ "by a register that nobody set",
		  "\x90\x64\x48\x8b\x39\x48\x8b\x5f\x30\x48",
		  10,
		  false,
		  { 0 } },
		{ "by an argument",
		  "\x48\x8b\x4c\x24\x08\x90\x90\x64\x48\x8b\x39\x48\x8b\x5f\x30\x48",
		  16,
		  false,
		  { 0 } },
		{ "no such thing",
		  "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90",
		  12,
		  false,
		  { 0 } },
		{ "nothing", "", 0, false, { 0 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct bytes code = { (const uint8_t *)cases[i].code, cases[i].bytes };
		struct go_tls got = { 0 };

		if (go_tls_decode(code, 0xae000, &got) != cases[i].ok ||
		    got.in_memory != cases[i].want.in_memory ||
		    got.offset != cases[i].want.offset || got.vaddr != cases[i].want.vaddr)
			fail_msg("%s: %d, %#llx", cases[i].what, got.offset,
				 (unsigned long long)got.vaddr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_thread_local_storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
