#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/expand.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

static const struct {
	const char *name, *value;
} environment[] = {
	{ "ONE", "1" },
	{ "WORD", "hello" },
	{ "EMPTY", "" },
	{ "NAME", "WORD" },
	{ "MAP", "{a: 1, b: [x, y]}" },
	{ "LIST", "[1, 2]" },
	{ "SELF", "${env:SELF}" },
	{ "CHAIN", "${env:WORD} ${ONE}" },
	{ "DOLLARS", "a$$b" },
	{ "NULLY", "null" },
	{ "QUOTED", "\"x y\"" },
	{ "BROKEN", "[1" },
	{ "COLON", "Bearer a: b" },
	{ "DOUBLE", "${env:DOUBLE}${env:DOUBLE}" },
};

static const char *fake_getenv(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		if (strcmp(environment[i].name, name) == 0)
			return environment[i].value;
	return NULL;
}

/* in: the text of a scalar. kind, text and reference of what becomes of it. */
static const struct {
	const char *in;
	enum node_kind kind;
	const char *text;
	bool reference;
} rows[] = {
	{ "plain", NODE_SCALAR, "plain", false },
	{ "${env:ONE}", NODE_SCALAR, "1", true },
	{ "${ONE}", NODE_SCALAR, "1", true },
	{ "a${ONE}b${env:WORD}", NODE_SCALAR, "a1bhello", true },
	{ "${env:NOPE}", NODE_NULL, "", true },
	{ "a${env:NOPE}b", NODE_SCALAR, "ab", true },
	{ "${env:EMPTY}", NODE_NULL, "", true },
	{ "${env:NOPE:-dflt}", NODE_SCALAR, "dflt", true },
	{ "${NOPE:-dflt}", NODE_SCALAR, "dflt", true },
	{ "${env:NOPE:-}", NODE_SCALAR, "", true },
	{ "${env:EMPTY:-dflt}", NODE_NULL, "", true },
	{ "${env:ONE:-dflt}", NODE_SCALAR, "1", true },
	{ "${env:NOPE:-${env:WORD}}", NODE_SCALAR, "hello", true },
	{ "${env:NOPE:-${env:NOPE2:-deep}}", NODE_SCALAR, "deep", true },
	{ "${env:${NAME}}", NODE_SCALAR, "hello", true },
	{ "${env:CHAIN}", NODE_SCALAR, "hello 1", true },
	{ "$ONE", NODE_SCALAR, "$ONE", true },
	{ "$$", NODE_SCALAR, "$", true },
	{ "$${ONE}", NODE_SCALAR, "${ONE}", true },
	{ "$$${ONE}", NODE_SCALAR, "$1", true },
	{ "$$$${ONE}", NODE_SCALAR, "$${ONE}", true },
	{ "${ONE", NODE_SCALAR, "${ONE", true },
	{ "a}b", NODE_SCALAR, "a}b", false },
	{ "${env:MAP}", NODE_MAP, "{a: 1, b: [x, y]}", true },
	{ "${env:LIST}", NODE_LIST, "[1, 2]", true },
	{ "x${env:LIST}", NODE_SCALAR, "x[1, 2]", true },
	{ "${yaml:[1, 2]}", NODE_LIST, "[1, 2]", true },
	{ "${yaml:{a: 1}}", NODE_SCALAR, "{a: 1}",
	  true }, /* ends at the first brace, as in the Collector */
	{ "${env:NULLY}", NODE_NULL, "null", true },
	{ "${env:QUOTED}", NODE_SCALAR, "\"x y\"", true },
	{ "${env:BROKEN}", NODE_SCALAR, "[1", true },
	{ "${env:COLON}", NODE_MAP, "Bearer a: b", true },
	{ "${env:DOLLARS}", NODE_SCALAR, "a$b", true },
	{ "${file:/dev/null}", NODE_NULL, "", true },
};

static struct config_node *expand(struct arena *a, const char *text, struct problems *problems)
{
	struct expand x = { .arena = a, .problems = problems, .getenv = fake_getenv };
	static struct config_node n; /* what holds no reference is given back as it is */

	n = (struct config_node){ .kind = NODE_SCALAR,
				  .pos = { "t", 3, 7 },
				  .text = str_cstr(text) };

	return expand_tree(&x, &n);
}

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct problems problems;
		struct config_node *n;
		struct arena a;

		problems_init(&problems);
		arena_init(&a, 1024, 0);
		n = expand(&a, rows[i].in, &problems);
		if (!n || n->kind != rows[i].kind || !str_is(n->text, rows[i].text) ||
		    (n->reference.len > 0) != rows[i].reference)
			fail_msg("%s: kind %d, \"%.*s\"", rows[i].in, n ? (int)n->kind : -1,
				 STR_ARG(n ? n->text : STR("")));
		if (rows[i].reference)
			assert_true(str_is(n->reference, rows[i].in));
		assert_int_equal(n->pos.line, 3);
		arena_release(&a);
		problems_release(&problems);
	}
}

static const struct {
	const char *in, *want;
} bad[] = {
	{ "${env:1X}", "t:3:7: environment variable \"1X\" has invalid name" },
	{ "${}", "environment variable \"\" has invalid name" },
	{ "${a b}", "environment variable \"a b\" has invalid name" },
	{ "${foo:bar}", "scheme \"foo\" is not supported for uri \"foo:bar\"" },
	{ "${http://x/y}", "scheme \"http\" is not supported" },
	{ "${env:SELF}", "too many recursive expansions" },
	{ "${env:DOUBLE}", "too many recursive expansions" },
	{ "${file:/nonexistent}", "unable to read the file file:/nonexistent: open /nonexistent" },
	{ "${file:/dev/zero}", "more than" },
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct problems problems;
		struct arena a;

		problems_init(&problems);
		arena_init(&a, 1024, 0);
		if (expand(&a, bad[i].in, &problems))
			fail_msg("%s was accepted", bad[i].in);
		assert_int_equal(problems.error_count, 1);
		if (!strstr(problems.items[0].text, bad[i].want))
			fail_msg("wanted: %s\ngot: %s", bad[i].want, problems.items[0].text);
		arena_release(&a);
		problems_release(&problems);
	}
}

/* Unclosed and deeply nested references by the thousand end soon. */
static void test_hostile(void **state)
{
	static const char *const pieces[] = { "${", "${env:${", "$", "${a:-", "${yaml:${" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		for (int close = 0; close < 2; close++) {
			struct problems problems;
			struct arena a;
			struct buf b;

			buf_init(&b, 0);
			for (int k = 0; k < 100000; k++)
				buf_str(&b, str_cstr(pieces[i]));
			for (int k = 0; close && k < 200000; k++)
				buf_char(&b, '}');
			buf_char(&b, 0);
			problems_init(&problems);
			arena_init(&a, 1024, 0);
			(void)!expand(&a, b.ptr, &problems);
			assert_true(problems.error_count <= 1);
			arena_release(&a);
			problems_release(&problems);
			buf_release(&b);
		}
	}
}

static void test_file(void **state)
{
	char path[] = "/tmp/flametap-expand-test-XXXXXX", text[64];
	int fd = mkstemp(path);
	struct problems problems;
	struct config_node *n;
	struct arena a;

	(void)state;
	assert_int_equal(write(fd, "secret\n\n", 8), 8);
	close(fd);
	problems_init(&problems);
	arena_init(&a, 1024, 0);
	snprintf(text, sizeof(text), "Bearer ${file:%s}", path);
	n = expand(&a, text, &problems);
	assert_true(str_is(n->text, "Bearer secret"));
	unlink(path);
	arena_release(&a);
	problems_release(&problems);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
