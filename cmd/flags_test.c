/* flags_test.c - Go's spelling of flags, their checks and suggestions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "flags.h"

static bool verbose;
static const char *address, *count, *wait, *colour, *version, *memory;
static struct flag_list configs;
static const char *const versions[] = { "1.1", "1.9", "1.10", "1.11", NULL };
static const char *const colours[] = { "auto", "always", "never", NULL };

static const struct flag flags[] = {
	FLAG("F", "verbose", FLAG_BOOL, &verbose, NULL, NULL, ""),
	FLAG("F", "grpc-address", FLAG_STRING, &address, "A", NULL, ""),
	FLAG("F", "count", FLAG_UINT, &count, "N", NULL, "", .least = 3, .most = 7),
	FLAG("F", "memory", FLAG_SIZE, &memory, "SIZE", NULL, ""),
	FLAG("F", "wait", FLAG_DURATION, &wait, "T", NULL, ""),
	FLAG("F", "color", FLAG_CHOICE, &colour, "WHEN", NULL, "", .choices = colours),
	FLAG("F", "version", FLAG_WIRE_VERSION, &version, "V", NULL, "", .choices = versions),
	FLAG("F", "config", FLAG_LIST, &configs, "URI", NULL, ""),
	{ 0 },
};

static const struct command command = {
	.name = "try",
	.words = "WORD...",
	.summary = "",
	.flags = flags,
	.words_max = 2,
};

static void reset(void)
{
	verbose = false;
	address = count = wait = colour = version = NULL;
	configs.count = 0;
}

static const struct {
	const char *line;  /* arguments, split at spaces */
	const char *error; /* a part of the message; NULL = fine */
	const char *address, *count;
	bool verbose;
	unsigned words, configs;
} cases[] = {
	{ "", NULL, NULL, NULL, false, 0, 0 },
	{ "-grpc-address a:1 -count 5", NULL, "a:1", "5", false, 0, 0 },
	{ "--grpc-address=a:1 file", NULL, "a:1", NULL, false, 1, 0 },
	{ "-grpc-address= -", NULL, "", NULL, false, 1, 0 },
	{ "-verbose one -verbose=false two", NULL, NULL, NULL, false, 2, 0 },
	{ "-verbose=true", NULL, NULL, NULL, true, 0, 0 },
	{ "-config a --config b --config=c", NULL, NULL, NULL, false, 0, 3 },
	{ "-- -verbose", NULL, NULL, NULL, false, 1, 0 },
	{ "-wait 1m30s -color never", NULL, NULL, NULL, false, 0, 0 },
	{ "-version 1.12", "did you mean \"1.1", NULL, NULL, false, 0, 0 },
	{ "-version 1.9.x", "can't be \"1.9.x\"", NULL, NULL, false, 0, 0 },
	{ "-version 1.9.", "can't be \"1.9.\"", NULL, NULL, false, 0, 0 },
	{ "-grpc-adress a", "did you mean -grpc-address?", NULL, NULL, false, 0, 0 },
	{ "-zzzzzz", "unknown flag -zzzzzz", NULL, NULL, false, 0, 0 },
	{ "-count", "-count needs a value: N", NULL, NULL, false, 0, 0 },
	{ "-count 5x", "whole number, not \"5x\"", NULL, NULL, false, 0, 0 },
	{ "-count -5", "whole number", NULL, NULL, false, 0, 0 },
	{ "-count 2", "-count is 3 to 7, not 2", NULL, NULL, false, 0, 0 },
	{ "-count 3", NULL, NULL, "3", false, 0, 0 },
	{ "-count 7", NULL, NULL, "7", false, 0, 0 },
	{ "-count 8", "-count is 3 to 7, not 8", NULL, NULL, false, 0, 0 },
	{ "-memory 64MiB", NULL, NULL, NULL, false, 0, 0 },
	{ "-memory lots", "-memory: size \"lots\"", NULL, NULL, false, 0, 0 },
	{ "-wait soon", "-wait", NULL, NULL, false, 0, 0 },
	{ "-color neverr", "did you mean \"never\"?", NULL, NULL, false, 0, 0 },
	{ "-color purple", "it takes auto, always, never", NULL, NULL, false, 0, 0 },
	{ "-verbose=maybe", "true or false, not \"maybe\"", NULL, NULL, false, 0, 0 },
	{ "a b c", "fewer words, not \"c\"", NULL, NULL, false, 0, 0 },
};

static int split(char *line, char **argv)
{
	int argc = 0;
	char *save = NULL;

	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return argc;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void check_parsed(size_t i, const struct words *words)
{
	if (!same(address, cases[i].address) || !same(count, cases[i].count) ||
	    verbose != cases[i].verbose || words->count != cases[i].words ||
	    configs.count != cases[i].configs)
		fail_msg("\"%s\": address %s count %s verbose %d words %u configs %u",
			 cases[i].line, address, count, verbose, words->count, configs.count);
}

static void parses_go_flags(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(ptr_free) char *line = strdup(cases[i].line);
		char *argv[16];
		struct words words;
		struct err err = { 0 };
		enum flags_outcome outcome;

		reset();
		outcome = flags_parse(&command, split(line, argv), argv, &words, &err);
		if (cases[i].error) {
			if (outcome != FLAGS_ERROR || !strstr(err.msg, cases[i].error))
				fail_msg("\"%s\": \"%s\"", cases[i].line, err.msg);
			continue;
		}
		if (outcome != FLAGS_GO)
			fail_msg("\"%s\": %s", cases[i].line, err.msg);
		check_parsed(i, &words);
		free(words.items);
	}
}

static void takes_versions_with_a_patch_number(void **state)
{
	static const char *const spellings[][2] = {
		{ "1.9", "1.9" },      { "v1.9.0", "1.9" }, { "1.9.2", "1.9" },
		{ "v1.11.0", "1.11" }, { "1.10", "1.10" },  { "1.1.0", "1.1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		char name[] = "try", flag[] = "-version", value[16];
		char *argv[] = { name, flag, value, NULL };
		struct words words;
		struct err err;

		snprintf(value, sizeof(value), "%s", spellings[i][0]);
		version = NULL;
		assert_int_equal(flags_parse(&command, 3, argv, &words, &err), FLAGS_GO);
		assert_string_equal(version, spellings[i][1]);
		free(words.items);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(takes_versions_with_a_patch_number),
					    cmocka_unit_test(parses_go_flags) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
