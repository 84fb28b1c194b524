/* The bias of a file that is mapped whole, in pieces, twice, or not at all. */
#include "agent/process/load_bias.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct executable_segment segments[] = { { 0x2000, 0x9000, 0x1000 } };
static const struct executable executable = { .filename = { "libx.so", 7 },
					      .segments = segments,
					      .segment_count = 1 };

static const struct {
	const char *maps;
	bool found;
	uint64_t bias;
} cases[] = {
	{ "7f0000002000-7f0000009000 r-xp 00001000 08:01 7   /usr/lib/libx.so\n", true,
	  0x7f0000000000 },
	{ "7f0000000000-7f0000002000 r--p 00000000 08:01 7   /usr/lib/libx.so\n"
	  "7f0000004000-7f0000009000 r-xp 00003000 08:01 7   /usr/lib/libx.so (deleted)\n",
	  true, 0x7f0000000000 },
	{ "7f0000002000-7f0000009000 r-xp 00001000 08:01 7   /usr/lib/otherlibx.so\n", false, 0 },
	{ "7f0000002000-7f0000009000 r-xp 00009000 08:01 7   /usr/lib/libx.so\n", false, 0 },
	{ "7f0000002000-7f0000009000 r-xp 00000000 08:01 7   /usr/lib/libx.so\n", false, 0 },
	{ "libx.so", false, 0 },
	{ "", false, 0 },
};

static void test_find(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bias = 0;

		if (load_bias_find(str_cstr(cases[i].maps), &executable, &bias) != cases[i].found ||
		    bias != cases[i].bias)
			fail_msg("%s: %#llx", cases[i].maps, (unsigned long long)bias);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_find) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
