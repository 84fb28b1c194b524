#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "components/ottl/message_for_tests.h"
#include "components/ottl/ottl.h"
#include "model/subset.h"

struct fixture {
	struct arena arena;
	struct problems problems;
	struct ottl o;
	struct buf text;
};

static void setup(struct fixture *f)
{
	arena_init(&f->arena, 4096, 0);
	problems_init(&f->problems);
	ottl_init(&f->o, &f->arena);
	buf_init(&f->text, 0);
}

static void teardown(struct fixture *f)
{
	ottl_release(&f->o);
	buf_release(&f->text);
	problems_release(&f->problems);
	arena_release(&f->arena);
}

/* As if it stood in double quotes at line 7, column 11 of a file. */
static struct ottl_code *compile(struct fixture *f, const char *text, enum ottl_context given,
				 bool statement)
{
	struct config_node *n =
		node_new(&f->arena, NODE_SCALAR, (struct config_pos){ "c.yaml", 7, 11 });
	struct ottl_source source = {
		.node = n, .path = "here", .given = given, .problems = &f->problems
	};
	struct ottl_code *code;

	n->text = str_dup(&f->arena, str_cstr(text));
	n->quoted = true;
	n->quote = '\'';
	code = statement ? ottl_compile_statement(&f->o, &source)
			 : ottl_compile_condition(&f->o, &source);
	buf_reset(&f->text);
	problems_write(&f->problems, false, &f->text);
	buf_char(&f->text, 0);
	return code;
}

/* ---- conditions: the samples of the message for which they hold ---- */

static const struct {
	const char *text, *want; /* a digit for each sample; "!": it fails at run time */
} conditions[] = {
	/* resource, scope, profile: true of all or none */
	{ "resource.attributes[\"service.name\"] == \"shop\"", "0123" },
	{ "resource.attributes[\"service.name\"] != \"shop\"", "" },
	{ "resource.attributes[\"absent\"] == nil", "0123" },
	{ "resource.attributes[\"absent\"] != nil", "" },
	{ "resource.attributes[\"replicas\"] == 3", "0123" },
	{ "resource.attributes[\"replicas\"] == 3.0", "0123" },
	{ "resource.attributes[\"replicas\"] == \"3\"", "" },
	{ "resource.attributes[\"replicas\"] > 2 and resource.attributes[\"replicas\"] <= 3",
	  "0123" },
	{ "resource.attributes[\"replicas\"] + 1 == 2 * 2", "0123" },
	{ "1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and -2 - 3 == -5 and "
	  "resource.attributes[\"replicas\"] == 3",
	  "0123" },
	{ "7 / 2 == 3 and 7 / 2.0 == 3.5 and 7.0 / 2 > 3.4 and resource.schema_url == \"\"",
	  "0123" },
	{ "resource.attributes[\"replicas\"] / 0 == 1", "!" },
	{ "resource.attributes[\"service.name\"] / 2 == 1", "!" },
	{ "9223372036854775807 + resource.attributes[\"replicas\"] == 1", "!" },
	{ "resource.attributes[\"on\"]", "0123" },
	{ "resource.attributes[\"service.name\"]", "!" },
	{ "not resource.attributes[\"on\"]", "" },
	{ "resource.attributes[\"list\"][1] == \"b\"", "0123" },
	{ "resource.attributes[\"list\"][2] == \"b\"", "!" },
	{ "resource.attributes[\"map\"][\"k\"] == 1", "0123" },
	{ "resource.attributes[\"map\"][\"none\"] == nil", "0123" },
	{ "resource.attributes[\"absent\"][\"none\"] == nil", "0123" },
	{ "ContainsValue(resource.attributes[\"list\"], \"a\")", "0123" },
	{ "ContainsValue([1, 2, resource.attributes[\"replicas\"]], 3)", "0123" },
	{ "Len(resource.attributes[\"list\"]) == 2 and Len(resource.attributes) == 5", "0123" },
	{ "Len(resource.attributes[\"replicas\"]) == 2", "!" },
	{ "scope.name == \"io.test\" and scope.version < \"2\"", "0123" },
	{ "instrumentation_scope.attributes[\"lib\"] == 0x00ff", "0123" },
	{ "profile.sample_type == \"cpu\" and profile.sample_type.unit == \"nanoseconds\"",
	  "0123" },
	{ "profile.period == 50000000 and profile.duration == 5 and profile.time_unix_nano == 1000",
	  "0123" },
	{ "profile.profile_id == 0x01020000000000000000000000000000", "0123" },
	{ "profile.profile_id.string == \"01020000000000000000000000000000\"", "0123" },
	{ "profile.attributes[\"team\"] == \"core\"", "0123" },
	{ "IsMatch(profile.attributes[\"team\"], \"^c.r\") and "
	  "IsMatch(profile.attributes[\"team\"], \"e$\")",
	  "0123" },
	{ "IsMatch(profile.attributes[\"absent\"], \".*\")", "" },
	{ "IsMatch(resource.attributes[\"replicas\"], \"^3$\")", "0123" },
	/* samples */
	{ "sample.attributes[\"thread.name\"] == \"idle\"", "13" },
	{ "IsMatch(sample.attributes[\"thread.name\"], \"^wor\")", "0" },
	{ "sample.attributes[\"thread.name\"] == nil", "2" },
	{ "profilesample.value >= 20", "123" },
	{ "sample.value == 10 or sample.value == 40", "03" },
	{ "not (sample.value == 10 or sample.value == 40) and sample.events == 1", "12" },
	{ "sample.depth == 2", "013" },
	{ "sample.leaf.function == \"poll\"", "1" },
	{ "sample.root.function == \"main\"", "013" },
	{ "sample.leaf.file == \"net.c\" and sample.leaf.binary == \"/bin/app\"", "1" },
	{ "sample.leaf.kind == \"kernel\"", "3" },
	{ "HasFrame(\"^poll$\")", "1" },
	{ "HasFrame(function=\"main|none\")", "013" },
	{ "HasFrame(file=\"net\")", "1" },
	{ "HasFrame(binary=\"vmlinux\")", "3" },
	{ "HasFrame(function=\"main\", file=\"net.c\")", "" }, /* of one frame */
	{ "HasFrame(function=\"poll\", file=\"net.c\", binary=\"app\", kind=\"native\")", "1" },
	{ "HasFrame(kind=\"kernel\") or HasFrame(\"poll\")", "13" },
	{ "HasFrame(function=\"work_inlined\")", "0" },
	{ "HasFrame(\"\")", "013" }, /* sample 2 has no stack */
	{ "sample.trace_id.string == \"aa000000000000000000000000000000\"", "2" },
	{ "sample.span_id == 0xbb00000000000000 and sample.trace_id != 0x00", "2" },
	{ "profile.attributes[\"team\"] == \"core\" and sample.value == 20", "1" },
	/* functions */
	{ "HasPrefix(\"abc\", \"ab\") and HasSuffix(\"abc\", \"bc\") and sample.value == 10", "0" },
	{ "HasPrefix(sample.attributes[\"thread.name\"], \"i\")", "!" }, /* sample 2 has none */
	{ "ToUpperCase(sample.leaf.function) == \"POLL\"", "1" },
	{ "ToLowerCase(\"ABC\") == Trim(\" abc \") and sample.value == 10", "0" },
	{ "Concat([sample.leaf.function, sample.value], \"-\") == \"poll-20\"", "1" },
	{ "Split(\"a,b,c\", \",\")[2] == \"c\" and sample.value == 10", "0" },
	{ "Substring(\"abcdef\", 1, 3) == \"bcd\" and sample.value == 10", "0" },
	{ "Substring(sample.leaf.function, 3, 9) == \"\"", "!" },
	{ "Int(\"12\") == 12 and Int(\"x\") == nil and Int(1.9) == 1 and sample.value == 10", "0" },
	{ "Double(\"1.5\") == 1.5 and String(15) == \"15\" and sample.value == 10", "0" },
	{ "IsInt(sample.value) and not IsString(sample.value) and sample.value == 10", "0" },
	{ "IsMap(resource.attributes[\"map\"]) and IsList(resource.attributes[\"list\"]) and "
	  "IsBool(true) and IsDouble(1.0)",
	  "0123" },
	{ "SHA256(\"abc\") == \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\" "
	  "and sample.value == 10",
	  "0" },
	{ "\"a\\\"b\\\\\" == \"a\\\"b\\\\\" and sample.value == 10", "0" },
};

/* "013", or "!" when it fails for one. */
static void holding(struct ottl_run *r, const struct ottl_code *c, char *start)
{
	char *out = start;
	struct err err;
	bool holds;

	for (uint32_t i = 0; i < TEST_SAMPLES; i++) {
		struct ottl_at at = { .sample = i };

		if (!ottl_holds(r, c, &at, &holds, &err)) {
			memcpy(start, "!", 2);
			return;
		}
		if (holds)
			*out++ = (char)('0' + i);
	}
	*out = 0;
}

static void test_conditions(void **state)
{
	struct profiles *p = test_message();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
		struct ottl_code *c;
		struct ottl_run *r;
		struct fixture f;
		char got[16];

		setup(&f);
		c = compile(&f, conditions[i].text, OTTL_INFER, false);
		if (!c)
			fail_msg("%s: %s", conditions[i].text, f.text.ptr);
		r = ottl_run_new(&f.o, p, NULL);
		for (int again = 0; again < 2; again++) { /* the second time out of the memos */
			holding(r, c, got);
			if (strcmp(got, conditions[i].want) != 0)
				fail_msg("%s: holds for \"%s\", not \"%s\"", conditions[i].text,
					 got, conditions[i].want);
		}
		ottl_run_free(r);
		teardown(&f);
	}
	profiles_free(p);
}

/* ---- what cannot work ---- */

static const struct {
	const char *text;
	enum ottl_context given;
	uint32_t column; /* of the file: 12 is the first character */
	const char *want;
} bad_conditions[] = {
	{ "", OTTL_INFER, 12, "expected a value, got the end" },
	{ "resource.attributes[\"a\"] == ", OTTL_INFER, 40, "expected a value, got the end" },
	{ "resorce.attributes[\"a\"] == 1", OTTL_INFER, 12,
	  "unknown name \"resorce\" (did you mean \"resource\"?)" },
	{ "attributes[\"a\"] == 1", OTTL_INFER, 12, "does not begin with its context" },
	{ "resource.atributes[\"a\"] == 1", OTTL_INFER, 12,
	  "resource has no \"atributes\" (did you mean \"attributes\"?)" },
	{ "resource.attributes[1] == 1", OTTL_INFER, 32, "expected a key" },
	{ "resource.attributes[\"a\" == 1", OTTL_INFER, 36,
	  "expected \"]\" behind the key, got ==" },
	{ "sample.value == \"1\"", OTTL_INFER, 12, "int cannot be compared with string" },
	{ "sample.value == nil", OTTL_INFER, 12, "int cannot be compared with nil" },
	{ "scope.name < 1", OTTL_INFER, 12, "string cannot be compared with int" },
	{ "resource.attributes < 1", OTTL_INFER, 12, "map cannot be compared with int" },
	{ "true < false and sample.value == 1", OTTL_INFER, 12,
	  "bool cannot be compared with bool" },
	{ "sample.value", OTTL_INFER, 12, "a condition must be bool, not int" },
	{ "sample.value == 1 and 2", OTTL_INFER, 34, "a condition must be bool, not int" },
	{ "not sample.value", OTTL_INFER, 16, "a condition must be bool, not int" },
	{ "sample.value + \"a\" == 1", OTTL_INFER, 27,
	  "what is calculated with must be int or float, not string" },
	{ "IsMach(sample.value, \"a\")", OTTL_INFER, 12,
	  "unknown function \"IsMach\" (did you mean \"IsMatch\"?)" },
	{ "IsMatch(sample.value)", OTTL_INFER, 12, "IsMatch() lacks its parameter \"pattern\"" },
	{ "IsMatch(sample.value, \"a\", 1)", OTTL_INFER, 39, "IsMatch() has 2 parameters" },
	{ "IsMatch(sample.value, patern=\"a\")", OTTL_INFER, 34,
	  "IsMatch() has no parameter \"patern\"" },
	{ "IsMatch(sample.value, 1)", OTTL_INFER, 34,
	  "pattern of IsMatch() must be string, not int" },
	{ "IsMatch(sample.value, scope.name)", OTTL_INFER, 34,
	  "pattern of IsMatch() must be written out" },
	{ "IsMatch(scope.name, \"a(\")", OTTL_INFER, 32, "bad regex \"a(\"" },
	{ "HasPrefix(sample.value, \"a\")", OTTL_INFER, 22,
	  "value of HasPrefix() must be string, not int" },
	{ "HasFrame()", OTTL_INFER, 12, "HasFrame() needs a parameter" },
	{ "HasFrame(function=\"a\", function=\"b\")", OTTL_INFER, 44,
	  "function of HasFrame() is given twice" },
	{ "HasFrame(\"a\")", OTTL_PROFILE, 12, "a sample cannot be seen from its profile" },
	{ "sample.value == 1", OTTL_RESOURCE, 12, "a sample cannot be seen from its resource" },
	{ "1 == 1", OTTL_INFER, 12, "no path in it says what it is about" },
	{ "scope.name == \"a", OTTL_INFER, 26, "the string has no closing \"" },
	{ "scope.name == \"\\d\"", OTTL_INFER, 27, "bad escape in a string" },
	{ "scope.name == 0x1", OTTL_INFER, 26, "an even number of hex digits" },
	{ "sample.value == 99999999999999999999", OTTL_INFER, 28, "does not fit 64 bits" },
	{ "sample.value == 1.2.3", OTTL_INFER, 31, "unexpected \".3\"" },
	{ "sample.value == 1 sample.value == 2", OTTL_INFER, 30, "unexpected \"sample\"" },
	{ "sample.value = 1", OTTL_INFER, 25, "write \"==\" to compare" },
	{ "sample.value == 1 && true", OTTL_INFER, 30, "unexpected \"&\"" },
	{ "(sample.value == 1", OTTL_INFER, 30,
	  "expected \")\" behind the expression, got the end" },
	{ "sample.trace_id[0] == 1", OTTL_INFER, 12,
	  "what has [...] behind it must be list or map, not bytes" },
};

static const struct {
	const char *text;
	uint32_t column;
	const char *want;
} bad_statements[] = {
	{ "sample.value == 1", 18, "expected \"(\" behind sample" },
	{ "\"x\"", 12, "a statement begins with an editor such as set(...)" },
	{ "sett(profile.period, 1)", 12, "unknown function \"sett\" (did you mean \"set\"?)" },
	{ "set(sample.value, 1)", 16, "value cannot be changed" },
	{ "set(1, 1)", 16, "target of set() must be a path" },
	{ "set(profile.period, \"a\")", 32, "value of set() must be nil or int, not string" },
	{ "set(profile.attributes[\"a\"][\"b\"], 1)", 39, "what is inside a value cannot be set" },
	{ "delete_key(profile.attributes, profile.profile_id.string)", 43,
	  "key of delete_key() must be written out" },
	{ "delete_key(profile.period, \"a\")", 23, "target of delete_key() must be map, not int" },
	{ "keep_keys(profile.attributes, [\"a\", 1])", 42, "must be a list of strings" },
	{ "replace_all_patterns(profile.attributes, \"vale\", \"a\", \"b\")", 53,
	  "must be \"key\" or \"value\"" },
	{ "merge_maps(profile.attributes, resource.attributes, \"x\")", 64,
	  "must be \"insert\", \"update\" or \"upsert\"" },
	{ "set(profile.period, 1) where profile.period", 41, "a condition must be bool, not int" },
	{ "set(profile.period, 1) if true", 35, "unexpected \"if\"" },
};

static void expect_bad(const char *text, enum ottl_context given, bool statement, uint32_t column,
		       const char *want)
{
	char place[32];
	struct fixture f;

	snprintf(place, sizeof(place), "c.yaml:7:%u: here: ", column);
	setup(&f);
	if (compile(&f, text, given, statement))
		fail_msg("%s: compiled", text);
	if (!strstr(f.text.ptr, want) || !strstr(f.text.ptr, place))
		fail_msg("%s: %s, not %s %s", text, f.text.ptr, place, want);
	teardown(&f);
}

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_conditions); i++)
		expect_bad(bad_conditions[i].text, bad_conditions[i].given, false,
			   bad_conditions[i].column, bad_conditions[i].want);
	for (size_t i = 0; i < ARRAY_LEN(bad_statements); i++)
		expect_bad(bad_statements[i].text, OTTL_INFER, true, bad_statements[i].column,
			   bad_statements[i].want);
}

/* ---- statements: what the message says afterwards ---- */

static const struct {
	const char *text;
	enum ottl_context given;
	const char *want; /* of describe() */
} statements[] = {
	{ "set(resource.attributes[\"a\"], 1)", OTTL_INFER, "resource: a=1" },
	{ "set(resource.attributes[\"service.name\"], \"x\")", OTTL_INFER,
	  "resource: service.name=x" },
	{ "set(resource.attributes[\"a\"], resource.attributes[\"absent\"])", OTTL_INFER, "" },
	{ "set(attributes[\"a\"], name)", OTTL_SCOPE, "scope: a=io.test" },
	{ "set(scope.name, Concat([scope.name, scope.version], \"/\"))", OTTL_INFER,
	  "scope.name io.test/1.2" },
	{ "set(profile.attributes[\"team\"], \"edge\") where profile.sample_type == \"cpu\"",
	  OTTL_INFER, "profile: team=edge" },
	{ "set(profile.attributes[\"team\"], \"edge\") where profile.sample_type == \"alloc\"",
	  OTTL_INFER, "" },
	{ "set(profile.sample_type.type, \"on_cpu\")", OTTL_INFER, "sample_type on_cpu" },
	{ "set(profile.period, profile.period * 2)", OTTL_INFER, "period 100000000" },
	{ "set(profile.profile_id.string, \"ff000000000000000000000000000000\")", OTTL_INFER,
	  "profile_id ff" },
	{ "set(sample.attributes[\"slow\"], true) where sample.value > 25", OTTL_INFER,
	  "sample 2: slow=true sample 3: slow=true" },
	{ "set(sample.attributes[\"leaf\"], sample.leaf.function) where sample.depth > 0",
	  OTTL_INFER, "sample 0: leaf=work_inlined sample 1: leaf=poll sample 3: leaf=sysret" },
	{ "set(sample.attributes[\"svc\"], resource.attributes[\"service.name\"]) where "
	  "HasFrame(\"poll\")",
	  OTTL_INFER, "sample 1: svc=shop" },
	{ "delete_key(resource.attributes, \"service.name\")", OTTL_INFER,
	  "resource: -service.name" },
	{ "delete_key(sample.attributes, \"thread.name\")", OTTL_INFER,
	  "sample 0: -thread.name sample 1: -thread.name sample 3: -thread.name" },
	{ "delete_matching_keys(resource.attributes, \"^(list|map)$\")", OTTL_INFER,
	  "resource: -list -map" },
	{ "keep_keys(resource.attributes, [\"on\", \"list\", \"map\", \"replicas\"])", OTTL_INFER,
	  "resource: -service.name" },
	{ "keep_matching_keys(resource.attributes, \"^[lmrs]\")", OTTL_INFER, "resource: -on" },
	{ "limit(resource.attributes, 2, [\"map\"])", OTTL_INFER, "resource: -on -list -replicas" },
	{ "limit(resource.attributes, 9)", OTTL_INFER, "" },
	{ "truncate_all(resource.attributes, 2)", OTTL_INFER, "resource: service.name=sh" },
	{ "replace_pattern(resource.attributes[\"service.name\"], \"s(h)o\", \"<$1>\")", OTTL_INFER,
	  "resource: service.name=<h>p" },
	{ "replace_pattern(sample.attributes[\"thread.name\"], \"[0-9]+$\", \"N\")", OTTL_INFER,
	  "sample 0: thread.name=worker-N" },
	{ "replace_all_patterns(resource.attributes, \"key\", \"^service\\\\.\", \"svc.\")",
	  OTTL_INFER, "resource: svc.name=shop -service.name" },
	{ "replace_all_patterns(sample.attributes, \"value\", \"^idle$\", \"-\")", OTTL_INFER,
	  "sample 1: thread.name=- sample 3: thread.name=-" },
	{ "merge_maps(profile.attributes, resource.attributes, \"update\")", OTTL_INFER, "" },
	{ "merge_maps(profile.attributes, resource.attributes[\"map\"], \"insert\")", OTTL_INFER,
	  "profile: k=1" },
	{ "set(profile.attributes, resource.attributes[\"map\"])", OTTL_INFER,
	  "profile: k=1 -team" },
};

static void apply_all(struct ottl_run *r, const struct ottl_code *c)
{
	uint32_t most = c->context == OTTL_SAMPLE ? TEST_SAMPLES : 1;
	struct err err;

	for (uint32_t i = 0; i < most; i++)
		if (!ottl_apply(r, c, &(struct ottl_at){ .sample = i }, &err))
			fail_msg("%.*s: %s", STR_ARG(c->text), err.msg);
}

/* What is left of a dictionary after the change is only what is used. */
static struct profiles *minimal(const struct profiles *p)
{
	bool all[64];
	struct profiles *out;
	struct err err;

	memset(all, true, sizeof(all));
	out = profiles_select(p, &(struct selection){ all, all }, &err);
	assert_non_null(out);
	return out;
}

static void test_statements(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
		struct profiles *p = test_message(), *small;
		struct edit *edit = edit_new(p);
		struct ottl_code *c;
		struct ottl_run *r;
		struct fixture f;
		struct buf got;

		setup(&f);
		buf_init(&got, 0);
		c = compile(&f, statements[i].text, statements[i].given, true);
		if (!c)
			fail_msg("%s: %s", statements[i].text, f.text.ptr);
		r = ottl_run_new(&f.o, p, edit);
		apply_all(r, c);
		test_describe_changes(p, &got);
		if (!str_is(buf_view(&got), statements[i].want))
			fail_msg("%s: \"%.*s\", not \"%s\"", statements[i].text, (int)got.len,
				 got.ptr, statements[i].want);
		small = minimal(p);
		buf_reset(&got);
		test_describe_changes(small, &got);
		assert_true(str_is(buf_view(&got), statements[i].want));
		profiles_free(small);
		ottl_run_free(r);
		edit_free(edit);
		buf_release(&got);
		teardown(&f);
		profiles_free(p);
	}
}

/* A regex that would need too long is an error, not a hang. */
static void test_limits(void **state)
{
	char deep[OTTL_DEPTH_MOST * 2 + 64];
	struct fixture f;
	size_t n = 0;

	(void)state;
	memset(deep, '(', OTTL_DEPTH_MOST + 1);
	n = OTTL_DEPTH_MOST + 1;
	memcpy(deep + n, "1", 2);
	setup(&f);
	assert_null(compile(&f, deep, OTTL_INFER, false));
	assert_non_null(strstr(f.text.ptr, "nested more than 200 deep"));
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_statements),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
