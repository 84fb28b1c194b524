/* Names as c++filt and rustfilt print them, names that are none, and names made to hurt. */
#include "agent/symbolize/demangle.h"
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "base/cleanup.h"

static const struct {
	const char *in, *want; /* NULL: not mangled */
} rows[] = {
	{ "_ZNSt6vectorIiSaIiEE9push_backERKi",
	  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
	{ "_Z3fooi", "foo(int)" },
	{ "_Z3fooi.cold", "foo(int) [clone .cold]" },
	{ "_Z3fooi.constprop.0.isra.0", "foo(int) [clone .constprop.0] [clone .isra.0]" },
	{ "_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const" },
	{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
	{ "_ZN67_$LT$std..path..PathBuf$u20$as$u20$core..convert..From$LT$T$GT$$GT$"
	  "4from17h1234567890abcdefE",
	  "<std::path::PathBuf as core::convert::From<T>>::from" },
	{ "_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function" },
	{ "_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo", "<mycrate::Example>::foo" },
	{ "_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}" },
	{ "main", NULL },
	{ "_start", NULL },
	{ "_Z", NULL },
	{ "_ZN", NULL },
	{ "_R", NULL },
	{ "_RNvC", NULL },
	{ "", NULL },
	{ "__libc_start_main", NULL },
	{ "_Zzzzzz", NULL },
};

static void test_rows(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool ok;

		buf_reset(&out);
		ok = demangle(str_cstr(rows[i].in), &out);
		if (ok != (rows[i].want != NULL) ||
		    !str_equal(buf_view(&out), str_cstr(rows[i].want)))
			fail_msg("%s: %d \"%.*s\"", rows[i].in, ok, STR_ARG(buf_view(&out)));
	}
	buf_release(&out);
}

/* Each level doubles the one before: 2^40 characters from 200 bytes; and depth without end. */
static void test_bombs(void **state)
{
	struct buf in, out;

	(void)state;
	buf_init(&in, 0);
	buf_init(&out, 0);
	buf_lit(&in, "_Z1f1XIiiE");
	for (int i = 0; i < 40; i++) {
		buf_lit(&in, "1XIS");
		if (i)
			buf_printf(&in, "%c", i < 10 ? '0' + i - 1 : 'A' + i - 10);
		buf_lit(&in, "_S_E");
	}
	demangle(buf_view(&in), &out);
	assert_true(out.len <= DEMANGLE_OUT_MOST);
	for (int length = 100; length <= DEMANGLE_IN_MOST; length += 333) {
		static const char *const fill[] = { "P", "1AI", "NK", "F", "L_Z1fI" };

		for (size_t k = 0; k < ARRAY_LEN(fill); k++) {
			buf_reset(&in);
			buf_reset(&out);
			buf_lit(&in, "_Z1f");
			while ((int)in.len < length - 8)
				buf_str(&in, str_cstr(fill[k]));
			buf_lit(&in, "i");
			demangle(buf_view(&in), &out);
			assert_true(out.len <= DEMANGLE_OUT_MOST);
		}
	}
	buf_release(&in);
	buf_release(&out);
}

/* Every C++ name of libstdc++ as c++filt has it. */
static void test_against_cxxfilt(void **state)
{
	FILE *p = popen(
		"f=/usr/lib/x86_64-linux-gnu/libstdc++.so.6; nm -D --defined-only $f 2> /dev/null "
		"| "
		"awk '{print $3}' | sed 's/@.*//' | grep ^_Z | sort -u > /tmp/demangle_test.$PPID; "
		"c++filt -i < /tmp/demangle_test.$PPID 2> /dev/null | paste "
		"/tmp/demangle_test.$PPID "
		"-; "
		"rm /tmp/demangle_test.$PPID",
		"r");
	char line[20000];
	uint32_t seen = 0;
	struct buf out;

	(void)state;
	assert_non_null(p);
	buf_init(&out, 0);
	while (fgets(line, sizeof(line), p)) {
		char *tab = strchr(line, '\t');

		if (!tab)
			continue;
		line[strcspn(line, "\n")] = 0;
		*tab = 0;
		buf_reset(&out);
		if (!demangle(str_cstr(line), &out))
			buf_str(&out, str_cstr(line));
		if (!str_is(buf_view(&out), tab + 1))
			fail_msg("%s\nis   %.*s\nnot  %s", line, STR_ARG(buf_view(&out)), tab + 1);
		seen++;
	}
	pclose(p);
	buf_release(&out);
	if (!seen) {
		print_message("no nm, c++filt or libstdc++ here: skipped\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_against_cxxfilt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
