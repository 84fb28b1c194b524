/* Texts as Go's pcommon.Value.AsString() gives them; doubles as encoding/json writes them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "model/profiles.h"

static void assert_text(const struct any_value *v, const char *want)
{
	struct buf b;

	buf_init(&b, 0);
	any_value_append_text(&b, v);
	if (!str_is(buf_view(&b), want))
		fail_msg("%.*s, wanted %s", STR_ARG(buf_view(&b)), want);
	buf_release(&b);
}

static void test_doubles(void **state)
{
	static const struct {
		double v;
		const char *want;
	} cases[] = {
		{ 0, "0" },
		{ -0.0, "-0" },
		{ 1, "1" },
		{ -1.5, "-1.5" },
		{ 0.1, "0.1" },
		{ 100, "100" },
		{ 123456.789, "123456.789" },
		{ 1e20, "100000000000000000000" },
		{ 1e21, "1e+21" },
		{ 1.25e22, "1.25e+22" },
		{ 1e-6, "0.000001" },
		{ 1e-7, "1e-7" },
		{ 1.5e-10, "1.5e-10" },
		{ 5e-324, "5e-324" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" },
		{ 0.30000000000000004, "0.30000000000000004" },
		{ 9007199254740993.0, "9007199254740992" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_text(&(struct any_value){ .kind = ANY_DOUBLE, .real = cases[i].v },
			    cases[i].want);
	assert_text(&(struct any_value){ .kind = ANY_DOUBLE, .real = NAN }, "NaN");
	assert_text(&(struct any_value){ .kind = ANY_DOUBLE, .real = INFINITY }, "Infinity");
	assert_text(&(struct any_value){ .kind = ANY_DOUBLE, .real = -INFINITY }, "-Infinity");
}

static void test_scalars_and_trees(void **state)
{
	const struct any_value list[] = {
		{ .kind = ANY_INT, .integer = INT64_MIN },
		{ .kind = ANY_BOOL, .boolean = true },
		{ .kind = ANY_EMPTY },
		{ .kind = ANY_STRING, .string = STR("a<b>&\"\x7f\n\xe2\x80\xa8\xff") },
		{ .kind = ANY_BYTES, .string = STR("\1\2\3") },
		{ .kind = ANY_DOUBLE, .real = 2.5 },
		{ .kind = ANY_BYTES },
	};
	const struct any_value array = { .kind = ANY_ARRAY, .array = { list, ARRAY_LEN(list) } };
	const struct key_value pairs[] = {
		{ .key = STR("z"), .value = { .kind = ANY_INT, .integer = 1 } },
		{ .key = STR("a"), .value = { .kind = ANY_INT, .integer = 2 } },
		{ .key = STR("z"), .value = { .kind = ANY_INT, .integer = 3 } },
		{ .key = STR("m"), .value = array },
	};
	const struct any_value map = { .kind = ANY_KVLIST, .kvlist = { pairs, ARRAY_LEN(pairs) } };
	const char *json = "[-9223372036854775808,true,null,"
			   "\"a<b>&\\\"\x7f\\n\\u2028\\ufffd\",\"AQID\",2.5,null]";
	char want[256];

	(void)state;
	assert_text(&list[0], "-9223372036854775808");
	assert_text(&list[1], "true");
	assert_text(&list[2], "");
	assert_text(&list[3], "a<b>&\"\x7f\n\xe2\x80\xa8\xff"); /* plain text as it is */
	assert_text(&list[4], "AQID");
	assert_text(&list[6], "");
	assert_text(&array, json);
	/* Keys sorted; of equal ones the last. */
	snprintf(want, sizeof(want), "{\"a\":2,\"m\":%s,\"z\":3}", json);
	assert_text(&map, want);
	assert_text(&(struct any_value){ .kind = ANY_ARRAY }, "[]");
	assert_text(&(struct any_value){ .kind = ANY_KVLIST }, "{}");
}

static void test_equality_is_by_bits(void **state)
{
	const struct any_value nan = { .kind = ANY_DOUBLE, .real = NAN },
			       zero = { .kind = ANY_DOUBLE, .real = 0.0 },
			       minus = { .kind = ANY_DOUBLE, .real = -0.0 },
			       bytes = { .kind = ANY_BYTES, .string = STR("x") },
			       text = { .kind = ANY_STRING, .string = STR("x") };

	(void)state;
	assert_true(any_value_equal(&nan, &nan));
	assert_false(any_value_equal(&zero, &minus));
	assert_false(any_value_equal(&bytes, &text));
	assert_true(any_value_equal(&text, &text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_scalars_and_trees),
		cmocka_unit_test(test_equality_is_by_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
