#include "agent/runtimes/hotspot/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/cleanup.h"

static const struct {
	const char *klass, *name, *signature;
	bool ok;
	const char *want;
} cases[] = {
	{ "java/lang/Object", "<init>", "()V", true, "void java.lang.Object.<init>()" },
	{ "Main", "main", "([Ljava/lang/String;)V", true, "void Main.main(java.lang.String[])" },
	{ "java/util/Map$Entry", "get", "(ILjava/lang/String;[[J)Z", true,
	  "boolean java.util.Map$Entry.get(int, java.lang.String, long[][])" },
	{ "a/B", "all", "(BCDFIJSZ)[La/B;", true,
	  "a.B[] a.B.all(byte, char, double, float, int, long, short, boolean)" },
	{ "Main$$Lambda$14/0x0000000800c03000", "run", "()V", true,
	  "void Main$$Lambda$14/0x0.run()" },
	{ "Main$$Lambda+0x00007f3a1c000a00", "run", "()V", true, "void Main$$Lambda/0x0.run()" },
	{ "Main", "take", "(Lx/Y$$Lambda/0x00007f3a;I)V", true,
	  "void Main.take(x.Y$$Lambda/0x0, int)" },
	/* no method descriptors */
	{ "a/B", "c", "", false, "a.B.c(...)" },
	{ "a/B", "c", "()", false, "a.B.c(...)" },
	{ "a/B", "c", "I", false, "a.B.c(...)" },
	{ "a/B", "c", "(", false, "a.B.c(...)" },
	{ "a/B", "c", "(L;)V", false, "a.B.c(...)" },
	{ "a/B", "c", "(La/B)V", false, "a.B.c(...)" },
	{ "a/B", "c", "([)V", false, "a.B.c(...)" },
	{ "a/B", "c", "(Q)V", false, "a.B.c(...)" },
	{ "a/B", "c", "()VV", false, "a.B.c(...)" },
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out;
		bool ok;

		buf_init(&out, 0);
		ok = java_method_name(str_cstr(cases[i].klass), str_cstr(cases[i].name),
				      str_cstr(cases[i].signature), &out);
		if (ok != cases[i].ok || !str_is(str_from(out.ptr, out.len), cases[i].want))
			fail_msg("%s %s %s: %.*s", cases[i].klass, cases[i].name,
				 cases[i].signature, (int)out.len, out.ptr);
		buf_release(&out);
	}
}

static void test_system_name(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	java_system_name(STR("a/B$$Lambda/0x00ff"), STR("<init>"), STR("(I)V"), &out);
	assert_true(str_is(str_from(out.ptr, out.len), "a/B$$Lambda/0x0.<init>(I)V"));
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_system_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
