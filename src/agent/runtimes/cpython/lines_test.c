/*
 * Lines of instructions, against what the interpreters themselves say: tests/fixtures/cpython
 * holds tables and lines as CPython 3.6 to 3.13 printed them (tests/support/cpython_lines.py); and
 * what no interpreter writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/runtimes/cpython/lines.h"
#include "base/cleanup.h"

enum { TABLE_MOST = 4096, LINE_MOST = 64 << 10 };

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	while (hex[0] != '-' && n < TABLE_MOST && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		out[n++] = (uint8_t)byte;
	return n;
}

/* Checks the pairs of one code object; returns how many there are. */
static unsigned check_code(const char *version, unsigned kind, unsigned first, struct bytes table,
			   char *pairs)
{
	unsigned count = 0;
	char *rest = pairs, *pair;

	while ((pair = strsep(&rest, " \n")) != NULL) {
		unsigned want, got;
		int at;

		if (sscanf(pair, "%d=%u", &at, &want) != 2)
			continue;
		got = cpython_line((enum cpython_lines)kind, table, first, at);
		if (got != want)
			fail_msg("%s, code at line %u: offset %d is line %u, not %u", version,
				 first, at, want, got);
		count++;
	}
	return count;
}

static void test_what_interpreters_say(void **state)
{
	static const char path[] = "tests/fixtures/cpython/lines.txt";
	FILE *f = fopen(path, "re");
	char *line = malloc(LINE_MOST), *hex = malloc(LINE_MOST), version[8];
	uint8_t table[TABLE_MOST];
	unsigned kind, first, codes = 0, pairs = 0, kinds = 0;
	int at;

	(void)state;
	assert_non_null(f);
	while (fgets(line, LINE_MOST, f)) {
		assert_int_equal(
			sscanf(line, "%7s %u %u %65535s %n", version, &kind, &first, hex, &at), 4);
		pairs += check_code(version, kind, first,
				    (struct bytes){ table, from_hex(hex, table) }, line + at);
		codes++;
		kinds |= 1u << kind;
	}
	assert_int_equal(kinds, 7);
	assert_true(codes > 60 && pairs > 2000);
	fclose(f);
	free(line);
	free(hex);
}

static void test_by_hand(void **state)
{
	static const struct {
		const char *what;
		enum cpython_lines kind;
		uint8_t table[8];
		size_t bytes;
		uint32_t first;
		int32_t at;
		uint32_t want;
	} cases[] = {
		{ "no table", CPYTHON_LNOTAB, { 0 }, 0, 7, 4, 7 },
		{ "no table", CPYTHON_LINETABLE, { 0 }, 0, 7, 4, 0 },
		{ "no table", CPYTHON_LOCATIONS, { 0 }, 0, 7, 4, 0 },
		{ "before the first instruction", CPYTHON_LOCATIONS, { 0x80, 0 }, 2, 7, -2, 7 },
		{ "half a pair", CPYTHON_LNOTAB, { 2, 1, 2 }, 3, 7, 100, 8 },
		{ "half a pair", CPYTHON_LINETABLE, { 2, 1, 2 }, 3, 7, 3, 0 },
		{ "no line", CPYTHON_LINETABLE, { 2, 0x80, 2, 1 }, 4, 7, 1, 0 },
		{ "a line behind none", CPYTHON_LINETABLE, { 2, 0x80, 2, 1 }, 4, 7, 3, 8 },
		{ "negative lines", CPYTHON_LNOTAB, { 0, 0x80 }, 2, 7, 0, 0 },
		{ "cut inside a number", CPYTHON_LOCATIONS, { 0xe8, 0x7f }, 2, 7, 0, 0 },
		{ "no line", CPYTHON_LOCATIONS, { 0xf8, 0xd1, 0, 0 }, 4, 7, 0, 0 },
		{ "one line on", CPYTHON_LOCATIONS, { 0xf8, 0xd9, 0, 0 }, 4, 7, 2, 8 },
		{ "past the end", CPYTHON_LOCATIONS, { 0xd8, 0, 0 }, 3, 7, 2, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t got = cpython_line(cases[i].kind,
					    (struct bytes){ cases[i].table, cases[i].bytes },
					    cases[i].first, cases[i].at);

		if (got != cases[i].want)
			fail_msg("case %zu, %s: line %u, not %u", i, cases[i].what, got,
				 cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_interpreters_say),
		cmocka_unit_test(test_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
