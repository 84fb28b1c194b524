#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Printed by Go's time.Unix(s, ns).In(zone).String(). */
static const struct {
	const char *zone;
	uint64_t unix_ns;
	const char *want;
} instants[] = {
	{ "UTC", UINT64_C(0), "1970-01-01 00:00:00 +0000 UTC" },
	{ "UTC", UINT64_C(1), "1970-01-01 00:00:00.000000001 +0000 UTC" },
	{ "UTC", UINT64_C(1758276802457210575), "2025-09-19 10:13:22.457210575 +0000 UTC" },
	{ "UTC", UINT64_C(1758276802000000000), "2025-09-19 10:13:22 +0000 UTC" },
	{ "UTC", UINT64_C(1758276802120000000), "2025-09-19 10:13:22.12 +0000 UTC" },
	{ "UTC", UINT64_C(1761440399999999999), "2025-10-26 00:59:59.999999999 +0000 UTC" },
	{ "UTC", UINT64_C(1761440400000000000), "2025-10-26 01:00:00 +0000 UTC" },
	{ "UTC", UINT64_C(1709164800000000000), "2024-02-29 00:00:00 +0000 UTC" },
	{ "UTC", UINT64_C(951782400000000001), "2000-02-29 00:00:00.000000001 +0000 UTC" },
	{ "UTC", UINT64_C(4102444799999999999), "2099-12-31 23:59:59.999999999 +0000 UTC" },
	{ "UTC", UINT64_C(63593069999999999), "1972-01-07 00:44:29.999999999 +0000 UTC" },
	{ "UTC", UINT64_C(63593070000000000), "1972-01-07 00:44:30 +0000 UTC" },
	{ "UTC", UINT64_C(253402300), "1970-01-01 00:00:00.2534023 +0000 UTC" },
	{ "UTC", UINT64_C(9223372036854775807), "2262-04-11 23:47:16.854775807 +0000 UTC" },
	{ "UTC", UINT64_C(1743292799123456780), "2025-03-29 23:59:59.12345678 +0000 UTC" },
	{ "UTC", UINT64_C(9223372036854775808), "1677-09-21 00:12:43.145224192 +0000 UTC" },
	{ "UTC", UINT64_MAX, "1969-12-31 23:59:59.999999999 +0000 UTC" },
	{ "UTC", UINT64_C(16727623039703252803), "1915-07-11 18:22:45.993701187 +0000 UTC" },
	{ "Europe/Berlin", UINT64_C(0), "1970-01-01 01:00:00 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(1), "1970-01-01 01:00:00.000000001 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(1758276802457210575),
	  "2025-09-19 12:13:22.457210575 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(1758276802000000000), "2025-09-19 12:13:22 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(1758276802120000000), "2025-09-19 12:13:22.12 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(1761440399999999999),
	  "2025-10-26 02:59:59.999999999 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(1761440400000000000), "2025-10-26 02:00:00 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(1709164800000000000), "2024-02-29 01:00:00 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(951782400000000001),
	  "2000-02-29 01:00:00.000000001 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(4102444799999999999),
	  "2100-01-01 00:59:59.999999999 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(63593069999999999), "1972-01-07 01:44:29.999999999 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(63593070000000000), "1972-01-07 01:44:30 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(253402300), "1970-01-01 01:00:00.2534023 +0100 CET" },
	{ "Europe/Berlin", UINT64_C(9223372036854775807),
	  "2262-04-12 01:47:16.854775807 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(1743292799123456780),
	  "2025-03-30 00:59:59.12345678 +0100 CET" },
	{ "Asia/Tehran", UINT64_C(1758276802457210575),
	  "2025-09-19 13:43:22.457210575 +0330 +0330" },
	{ "America/New_York", UINT64_C(1758276802457210575),
	  "2025-09-19 06:13:22.457210575 -0400 EDT" },
	{ "Asia/Kathmandu", UINT64_C(1758276802457210575),
	  "2025-09-19 15:58:22.457210575 +0545 +0545" },
	{ "Australia/Lord_Howe", UINT64_C(0), "1970-01-01 10:00:00 +1000 AEST" },
	{ "Australia/Lord_Howe", UINT64_C(1758276802457210575),
	  "2025-09-19 20:43:22.457210575 +1030 +1030" },
	{ "Africa/Monrovia", UINT64_C(1758276802457210575),
	  "2025-09-19 10:13:22.457210575 +0000 GMT" },
	{ "Africa/Monrovia", UINT64_C(63593069999999999),
	  "1972-01-06 23:59:59.999999999 -0044 MMT" },
	{ "Africa/Monrovia", UINT64_C(63593070000000000), "1972-01-07 00:44:30 +0000 GMT" },
	{ "America/St_Johns", UINT64_C(1758276802457210575),
	  "2025-09-19 07:43:22.457210575 -0230 NDT" },
	{ "Europe/Dublin", UINT64_C(1758276802457210575),
	  "2025-09-19 11:13:22.457210575 +0100 IST" },
	{ "Europe/Istanbul", UINT64_C(1758276802457210575),
	  "2025-09-19 13:13:22.457210575 +0300 +03" },
	/* Behind the last change that the zone's file lists the rule at its end holds. */
	{ "Europe/Berlin", UINT64_C(2224800000000000000), "2040-07-02 02:00:00 +0200 CEST" },
	{ "Europe/Berlin", UINT64_C(2240000000000000000), "2040-12-24 23:13:20 +0100 CET" },
	{ "America/New_York", UINT64_C(4118000000000000000), "2100-06-29 20:53:20 -0400 EDT" },
	{ "America/New_York", UINT64_C(9214646400000000000), "2261-12-31 19:00:00 -0500 EST" },
	{ "Pacific/Chatham", UINT64_C(2224800000000000000), "2040-07-02 12:45:00 +1245 +1245" },
	{ "Pacific/Chatham", UINT64_C(4102444800000000000), "2100-01-01 13:45:00 +1345 +1345" },
	{ "Asia/Gaza", UINT64_C(4118000000000000000), "2100-06-30 03:53:20 +0300 EEST" },
	{ "Africa/Casablanca", UINT64_C(9214646400000000000), "2262-01-01 01:00:00 +0100 +01" },
};

static void use_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

static void assert_time(uint64_t unix_ns, bool local, struct clock_zone_cache *cache,
			const char *want)
{
	struct buf b;

	buf_init(&b, 0);
	clock_append_go_time(&b, unix_ns, local, cache);
	if (!str_is(buf_view(&b), want))
		fail_msg("%llu: got \"%.*s\", want \"%s\"", (unsigned long long)unix_ns,
			 STR_ARG(buf_view(&b)), want);
	buf_release(&b);
}

static void test_go_time_cold(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(instants); i++) {
		struct clock_zone_cache cache = { 0 };

		use_zone(instants[i].zone);
		assert_time(instants[i].unix_ns, true, &cache, instants[i].want);
		assert_time(instants[i].unix_ns, true, &cache, instants[i].want);
	}
}

static void test_late_time(void **state)
{
	static const struct {
		const char *zone;
		uint64_t unix_ns;
		const char *want;
	} rows[] = {
		{ "UTC", UINT64_C(9223372036854775807), "2262-04-11 23:47:16.854775807 +0000 UTC" },
		{ "UTC", UINT64_C(9223372036854775808), "2262-04-11 23:47:16.854775808 +0000 UTC" },
		{ "UTC", UINT64_MAX, "2554-07-21 23:34:33.709551615 +0000 UTC" },
		{ "Europe/Berlin", UINT64_MAX, "2554-07-22 01:34:33.709551615 +0200 CEST" },
		{ "UTC", 0, "1970-01-01 00:00:00 +0000 UTC" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct clock_zone_cache cache = { 0 };
		struct buf b;

		use_zone(rows[i].zone);
		buf_init(&b, 0);
		clock_append_late_time(&b, rows[i].unix_ns, true, &cache);
		if (!str_is(buf_view(&b), rows[i].want))
			fail_msg("%llu: got \"%.*s\"", (unsigned long long)rows[i].unix_ns,
				 STR_ARG(buf_view(&b)));
		buf_release(&b);
	}
}

/* The cache serves instants in any order, across changes of the zone, and a switch between local
 * and UTC. */
static void test_go_time_warm(void **state)
{
	static const char *const zones[] = { "UTC", "Europe/Berlin", "Africa/Monrovia",
					     "Australia/Lord_Howe" };

	(void)state;
	for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
		struct clock_zone_cache cache = { 0 };

		use_zone(zones[z]);
		for (size_t round = 0; round < 2; round++)
			for (size_t i = 0; i < ARRAY_LEN(instants); i++) {
				bool utc = str_is(STR("UTC"), instants[i].zone);

				if (utc || str_is(str_cstr(zones[z]), instants[i].zone))
					assert_time(instants[i].unix_ns, !utc, &cache,
						    instants[i].want);
			}
	}
}

/* Every quarter of an hour of five years, by the C library's own calendar. */
static void test_go_time_against_libc(void **state)
{
	struct clock_zone_cache cache = { 0 };

	(void)state;
	use_zone("America/New_York");
	for (time_t t = 1577836800 - 1; t < 1577836800 + 5 * 366 * 86400; t += 899) {
		char want[64];
		struct tm tm;

		localtime_r(&t, &tm);
		strftime(want, sizeof(want), "%Y-%m-%d %H:%M:%S %z %Z", &tm);
		assert_time((uint64_t)t * SECOND_NS, true, &cache, want);
	}
}

/* No abbreviation: Go falls back to the offset, without minutes when there are none. */
static void test_zone_without_a_name(void **state)
{
	static const struct {
		const char *tz, *want;
	} cases[] = {
		{ "<+0330>-3:30", "1970-01-01 03:30:00 +0330 +0330" },
		{ "<-02>2", "1969-12-31 22:00:00 -0200 -02" },
		{ "", "1970-01-01 00:00:00 +0000 UTC" },
		{ "Nowhere/City", "1970-01-01 00:00:00 +0000 UTC" },
		{ ":/nowhere/zone", "1970-01-01 00:00:00 +0000 UTC" },
		{ "GMT", "1970-01-01 00:00:00 +0000 GMT" },
		{ ":Europe/Berlin", "1970-01-01 01:00:00 +0100 CET" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct clock_zone_cache cache = { 0 };

		use_zone(cases[i].tz);
		assert_time(0, true, &cache, cases[i].want);
	}
}

static void test_rfc3339(void **state)
{
	static const struct {
		uint64_t unix_ns;
		const char *want;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ UINT64_C(1758276802457999999), "2025-09-19T10:13:22.457Z" },
		{ UINT64_MAX, "2554-07-21T23:34:33.709Z" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_reset(&b);
		clock_append_rfc3339(&b, cases[i].unix_ns);
		if (!str_is(buf_view(&b), cases[i].want))
			fail_msg("%llu: \"%.*s\"", (unsigned long long)cases[i].unix_ns,
				 STR_ARG(buf_view(&b)));
	}
	buf_release(&b);
}

static void test_now(void **state)
{
	uint64_t before = clock_monotonic_ns();

	(void)state;
	assert_true(clock_monotonic_ns() >= before);
	assert_true(clock_realtime_ns() > UINT64_C(1577836800) * SECOND_NS); /* after 2020 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_go_time_cold),
		cmocka_unit_test(test_go_time_warm),
		cmocka_unit_test(test_late_time),
		cmocka_unit_test(test_go_time_against_libc),
		cmocka_unit_test(test_zone_without_a_name),
		cmocka_unit_test(test_rfc3339),
		cmocka_unit_test(test_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
