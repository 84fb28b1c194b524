#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Printed by Go's Duration.String(). */
static const struct {
	uint64_t ns;
	const char *want;
} printed[] = {
	{ UINT64_C(0), "0s" },
	{ UINT64_C(1), "1ns" },
	{ UINT64_C(999), "999ns" },
	{ UINT64_C(1000), "1\xc2\xb5s" },
	{ UINT64_C(1100), "1.1\xc2\xb5s" },
	{ UINT64_C(999999), "999.999\xc2\xb5s" },
	{ UINT64_C(1000000), "1ms" },
	{ UINT64_C(1500000), "1.5ms" },
	{ UINT64_C(999999999), "999.999999ms" },
	{ UINT64_C(1000000000), "1s" },
	{ UINT64_C(1500000000), "1.5s" },
	{ UINT64_C(59999999999), "59.999999999s" },
	{ UINT64_C(60000000000), "1m0s" },
	{ UINT64_C(90000000000), "1m30s" },
	{ UINT64_C(3599999000000), "59m59.999s" },
	{ UINT64_C(3600000000000), "1h0m0s" },
	{ UINT64_C(5400000000000), "1h30m0s" },
	{ UINT64_C(9223372036854775807), "2562047h47m16.854775807s" },
};

static void test_append(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(printed); i++) {
		struct err err;
		uint64_t back;

		buf_reset(&b);
		duration_append(&b, printed[i].ns);
		if (!str_is(buf_view(&b), printed[i].want))
			fail_msg("%llu: got \"%.*s\", want \"%s\"",
				 (unsigned long long)printed[i].ns, STR_ARG(buf_view(&b)),
				 printed[i].want);
		assert_true(duration_parse(buf_view(&b), &back, &err));
		assert_true(back == printed[i].ns);
	}
	buf_release(&b);
}

static void test_parse(void **state)
{
	/* Accepted values are those of Go's time.ParseDuration(). */
	static const struct {
		const char *in;
		bool ok;
		uint64_t want_ns;
		const char *says;
	} cases[] = {
		{ "1m30s", true, UINT64_C(90000000000), NULL },
		{ "200ms", true, 200000000, NULL },
		{ "1.5h", true, UINT64_C(5400000000000), NULL },
		{ "0", true, 0, NULL },
		{ "0s", true, 0, NULL },
		{ "+5s", true, UINT64_C(5000000000), NULL },
		{ "1h2m3s4ms5us6ns", true, UINT64_C(3723004005006), NULL },
		{ "1.0000000000001s", true, 1000000000, NULL },
		{ ".5s", true, 500000000, NULL },
		{ "5.s", true, UINT64_C(5000000000), NULL },
		{ "1\xc2\xb5s", true, 1000, NULL },
		{ "1\xce\xbcs", true, 1000, NULL },
		{ "2562047h47m16.854775807s", true, INT64_MAX, NULL },
		{ "0.100000000000000000000h", true, UINT64_C(360000000000), NULL },
		{ "0.9223372036854775807h", true, UINT64_C(3320413933267), NULL },
		{ "2562047h47m16.854775808s", false, 0, "longer than" },
		{ "9999999h", false, 0, "longer than" }, /* more nanoseconds than 64 bits hold */
		{ "99999999999999999999s", false, 0, "longer than" },
		{ "10", false, 0, "missing unit in duration \"10\" (write \"10s\")" },
		{ "5x", false, 0, "unknown unit \"x\"" },
		{ "1d", false, 0, "unknown unit \"d\"" },
		{ "1s ", false, 0, "unknown unit \"s \"" },
		{ "-5s", false, 0, "negative" },
		{ "", false, 0, "invalid" },
		{ "+", false, 0, "invalid" },
		{ ".s", false, 0, "invalid" },
		{ "s", false, 0, "invalid" },
		{ "1s.", false, 0, "invalid" },
		{ "++1s", false, 0, "invalid" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		uint64_t ns = 77;
		bool ok = duration_parse(str_cstr(cases[i].in), &ns, &err);

		if (ok != cases[i].ok || ns != (ok ? cases[i].want_ns : 77))
			fail_msg("\"%s\": %d, %llu", cases[i].in, ok, (unsigned long long)ns);
		if (!ok && !strstr(err.msg, cases[i].says))
			fail_msg("\"%s\" says: %s", cases[i].in, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
