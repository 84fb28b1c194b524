#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/options.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "pipeline/expand.h"
#include "pipeline/node.h"
#include "pipeline/yaml_out.h"

struct inner {
	uint32_t n;
	const char *s;
};

struct all {
	bool flag, opt_given;
	uint32_t u32;
	uint64_t u64, duration, mib, size;
	double real;
	const char *text, *secret, *needed;
	int choice;
	struct config_strings list;
	struct config_pairs map, headers;
	struct inner section, optional;
	const struct config_node *any;
};

static const char *const choices[] = { "red", "green", NULL };
static const struct config_field inner_fields[] = {
	{ .name = "n",
	  .kind = CONFIG_UINT32,
	  .offset = offsetof(struct inner, n),
	  .default_text = "7" },
	{ .name = "s", .kind = CONFIG_STRING, .offset = offsetof(struct inner, s) },
	{ 0 },
};

#define F(member, a_kind, ...)                                                           \
	{                                                                                \
		.name = #member, .kind = a_kind, .offset = offsetof(struct all, member), \
		__VA_ARGS__                                                              \
	}
static const struct config_field fields[] = {
	F(flag, CONFIG_BOOL, .default_text = "true", .help = "a flag"),
	F(u32, CONFIG_UINT32, .default_text = "20", .aliases = { "SamplesPerSecond", "!old" },
	  .min = 1, .max = 1000),
	F(u64, CONFIG_UINT64),
	F(duration, CONFIG_DURATION, .default_text = "1m30s", .min = 1e6, .max = 3600e9),
	F(mib, CONFIG_SIZE_MIB, .default_text = "64"),
	F(size, CONFIG_SIZE, .default_text = "1MiB"),
	F(real, CONFIG_DOUBLE, .default_text = "0.5", .min = 0, .max = 1),
	F(text, CONFIG_STRING, .default_text = "localhost:4317"),
	F(secret, CONFIG_SECRET),
	F(choice, CONFIG_ENUM, .choices = choices, .default_text = "green"),
	F(list, CONFIG_STRINGS, .default_text = "a, b"),
	F(map, CONFIG_MAP),
	F(headers, CONFIG_MAP, .secret_values = true),
	F(section, CONFIG_SECTION, .fields = inner_fields),
	F(optional, CONFIG_OPTIONAL, .fields = inner_fields,
	  .offset_enabled = offsetof(struct all, opt_given)),
	F(any, CONFIG_ANY),
	{ 0 },
};
static const struct config_field required_fields[] = { F(needed, CONFIG_STRING, .required = true),
						       { 0 } };

struct loaded {
	struct all all;
	struct arena arena;
	struct problems problems;
	struct config_node *node;
};

static const char *fake_getenv(const char *name)
{
	return strcmp(name, "TOKEN") == 0 ? "s3cret" : strcmp(name, "NUM") == 0 ? "33" : NULL;
}

static void load(struct loaded *l, const struct config_field *table, const char *yaml)
{
	struct expand x = { .arena = &l->arena, .problems = &l->problems, .getenv = fake_getenv };
	uint32_t nodes = NODES_MOST;
	struct config_node *raw;

	*l = (struct loaded){ 0 };
	arena_init(&l->arena, 1024, 0);
	problems_init(&l->problems);
	raw = node_parse(&l->arena, str_cstr(yaml), "o", &nodes, &l->problems);
	if (!raw)
		fail_msg("%s: %s", yaml, l->problems.items[0].text);
	l->node = expand_tree(&x, raw);
	assert_non_null(l->node);
	options_fill(table, &l->all, l->node, "p", &l->arena, &l->problems);
}

static void unload(struct loaded *l)
{
	arena_release(&l->arena);
	problems_release(&l->problems);
}

static void test_defaults(void **state)
{
	struct loaded l;

	(void)state;
	load(&l, fields, "");
	assert_int_equal(l.problems.count, 0);
	assert_true(l.all.flag);
	assert_int_equal(l.all.u32, 20);
	assert_int_equal(l.all.duration, 90000000000);
	assert_int_equal(l.all.mib, 64 << 20);
	assert_int_equal(l.all.size, 1 << 20);
	assert_true(l.all.real == 0.5);
	assert_string_equal(l.all.text, "localhost:4317");
	assert_null(l.all.secret);
	assert_int_equal(l.all.choice, 1);
	assert_int_equal(l.all.list.count, 2);
	assert_string_equal(l.all.list.items[1], "b");
	assert_false(l.all.list.given);
	assert_int_equal(l.all.section.n, 7);
	assert_false(l.all.opt_given);
	assert_null(l.all.any);
	unload(&l);
}

static void test_values(void **state)
{
	struct loaded l;

	(void)state;
	load(&l, fields,
	     "flag: false\nSamplesPerSecond: 99\nu64: \"18446744073709551615\"\nduration: 2s\n"
	     "mib: ${NUM}\nsize: 3KiB\nreal: 1e-1\ntext: 8080\nsecret: ${env:TOKEN}\nCHOICE: Red\n"
	     "list: [x, \"${TOKEN}\", 3]\nmap: {a: 1, b: }\nheaders: {Authorization: \"Bearer "
	     "${TOKEN}\"}\nsection: {n: 8}\noptional:\nany: {deep: [1]}\n");
	assert_int_equal(l.problems.count, 0);
	assert_false(l.all.flag);
	assert_int_equal(l.all.u32, 99);
	assert_true(l.all.u64 == UINT64_MAX);
	assert_int_equal(l.all.mib, 33 << 20);
	assert_int_equal(l.all.size, 3072);
	assert_true(l.all.real == 0.1);
	assert_string_equal(l.all.text, "8080"); /* a number keeps its text */
	assert_string_equal(l.all.secret, "s3cret");
	assert_int_equal(l.all.choice, 0);
	assert_int_equal(l.all.list.count, 3);
	assert_string_equal(l.all.list.items[1], "s3cret");
	assert_true(l.all.list.given);
	assert_int_equal(l.all.map.count, 2);
	assert_string_equal(l.all.map.items[1].value, "");
	assert_string_equal(l.all.headers.items[0].value, "Bearer s3cret");
	assert_int_equal(l.all.section.n, 8);
	assert_true(l.all.opt_given); /* a null key enables it */
	assert_int_equal(l.all.optional.n, 7);
	assert_int_equal(l.all.any->kind, NODE_MAP);
	unload(&l);
}

static const struct {
	const char *yaml, *want;
} bad[] = {
	{ "u32: -1", "must be a whole number, got \"-1\"" },
	{ "u32: 1.5", "must be a whole number" },
	{ "u32: 0", "is 0, must be between 1 and 1000" },
	{ "u64: 18446744073709551616", "must be a whole number" },
	{ "mib: 17592186044416", "must be at most 17592186044415" },
	{ "duration: 2h", "\"duration\" is 7200s, must be between 0.001s and 3600s" },
	{ "duration: -1s", "must be a duration such as" },
	{ "duration: [1s]", "must be a single value, got slice" },
	{ "size: many", "must be a size such as 64MiB" },
	{ "real: nan", "must be a number" },
	{ "real: 1.5", "must be between 0 and 1" },
	{ "real: 1x", "must be a number" },
	{ "text: [a]", "must be text, got slice" },
	{ "choice: gren", "(did you mean \"green\"?); valid values: red, green" },
	{ "list: {a: 1}", "must be a list, got map" },
	{ "list: [[a]]", "item 0 is a slice" },
	{ "map: 3", "must be a map of text, got \"3\"" },
	{ "map: {a: [1]}", "\"a\" is a slice" },
	{ "section: x", "p::section: must be a map, got string" },
	{ "section: {m: 1}", "p::section: unknown key \"m\"" },
	{ "optional: {n: x}", "p::optional: \"n\" must be a whole number" },
	{ "secrt: 1", "unknown key \"secrt\" (did you mean \"secret\"?)" },
	{ "u32: ${env:TOKEN}", "must be a whole number, got string" }, /* the value is not shown */
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct loaded l;

		load(&l, fields, bad[i].yaml);
		if (l.problems.error_count != 1 || !strstr(l.problems.items[0].text, bad[i].want))
			fail_msg("%s: wanted %s\ngot %s", bad[i].yaml, bad[i].want,
				 l.problems.count ? l.problems.items[0].text : "nothing");
		assert_null(strstr(l.problems.items[0].text, "s3cret"));
		unload(&l);
	}
}

static void test_required(void **state)
{
	struct loaded l;

	(void)state;
	load(&l, required_fields, "{}");
	assert_int_equal(l.problems.error_count, 1);
	assert_string_equal(l.problems.items[0].text, "o:1:1: p: requires a non-empty \"needed\"");
	unload(&l);
}

static char *printed(const struct loaded *l)
{
	struct yaml_out *y;
	struct buf out;
	size_t len;

	buf_init(&out, 0);
	y = yaml_out_new(&out);
	yaml_map_begin(y);
	options_print(fields, &l->all, l->node, y);
	yaml_map_end(y);
	yaml_out_free(y);
	buf_char(&out, 0);
	return buf_take(&out, &len);
}

static const char want_printed[] = "flag: true\n"
				   "u32: 20\n"
				   "u64: 0\n"
				   "duration: 1m30s\n"
				   "mib: 64\n"
				   "size: 1MiB\n"
				   "real: 0.1\n"
				   "text: '8080'\n"
				   "secret: '[REDACTED]'\n"
				   "choice: green\n"
				   "list:\n- x\n- ${TOKEN}\n- 'null'\n- a$$$${b\n"
				   "map:\n  k: 'yes'\n  'no': a\n"
				   "headers:\n  A: '[REDACTED]'\n  B: Bearer ${TOKEN}\n"
				   "section:\n  n: 7\n"
				   "optional:\n  n: 7\n  s: ''\n"
				   "any:\n  x: 1\n  y: '1'\n  z: []\n  w: ${NUM}\n";

/* References as written, secrets hidden, quotes where they are needed; printed again it is the
 * same. */
static void test_print(void **state)
{
	char *first, *second;
	struct loaded l, again;

	(void)state;
	load(&l, fields,
	     "real: 0.1\ntext: 8080\nsecret: hunter2\nlist: [x, \"${TOKEN}\", \"null\", "
	     "\"a$$$${b\"]\nmap: {k: \"yes\", \"no\": a}\nheaders: {A: b, B: \"Bearer ${TOKEN}\"}\n"
	     "optional: {s: \"\"}\nany: {x: 1, y: \"1\", z: [], w: \"${NUM}\"}\n");
	assert_int_equal(l.problems.count, 0);
	first = printed(&l);
	load(&again, fields, first);
	assert_int_equal(again.problems.count, 0);
	second = printed(&again);
	assert_string_equal(second, first);
	assert_null(strstr(first, "hunter2"));
	assert_null(strstr(first, "s3cret"));
	assert_string_equal(first, want_printed);
	free(first);
	free(second);
	unload(&l);
	unload(&again);
}

/* As after an error in the middle: nothing is emitted, nothing leaks, nothing aborts. */
static void test_half_a_tree_is_given_up(void **state)
{
	(void)state;
	for (int depth = 0; depth < 4; depth++) {
		struct yaml_out *y;
		struct buf out;

		buf_init(&out, 0);
		y = yaml_out_new(&out);
		yaml_map_begin(y);
		yaml_key(y, STR("a"));
		for (int i = 0; i < depth; i++)
			yaml_list_begin(y, i % 2);
		if (depth == 3)
			yaml_list_end(y);
		yaml_out_free(y);
		buf_release(&out);
	}
}

static void test_help(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	options_help(fields, &out);
	buf_char(&out, 0);
	assert_non_null(
		strstr(out.ptr, "  flag                            a flag (bool, default true)\n"));
	assert_non_null(strstr(out.ptr, "(choice: red|green, default green)"));
	assert_non_null(strstr(out.ptr, "    n       ")); /* nested */
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_required),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_half_a_tree_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
