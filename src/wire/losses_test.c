/* What the written version has no place for, by hand-made messages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/losses.h"
#include "wire/message_for_tests.h"

/* v1.10: an attribute with two units, values for each timestamp (one sum too large), and an unknown
 * field in each of the profile and an attribute's value. */
static struct profiles *newest(void)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 };
	struct msg m = { .len = 0 }, any = { .len = 0 };

	fixed(&profile, 3, 1000);
	list(&m, 4, L(N(5), N(6)));
	bytes(&m, 5, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16);
	sub(&profile, 2, &m);
	m = (struct msg){ .len = 0 };
	list(&m, 4, L(N(0x7fffffffffffffff), N(1)));
	bytes(&m, 5, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16);
	sub(&profile, 2, &m);
	num(&profile, 999, 1);
	num(&profile, 1000, 1);
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "size");
	text(&dict, 5, "By");
	text(&dict, 5, "KiBy");
	m = (struct msg){ .len = 0 };
	sub(&dict, 6, &m);
	for (uint64_t unit = 2; unit <= 3; unit++) {
		m = (struct msg){ .len = 0 };
		any.len = 0;
		num(&any, 3, 1);
		num(&any, 999, 7);
		num(&m, 1, 1);
		sub(&m, 2, &any);
		num(&m, 3, unit);
		sub(&dict, 6, &m);
	}
	sub(&request, 2, &dict);
	return decode(&request, WIRE_V1_10);
}

/* v1.7: three values of one type beside two timestamps, a temporality, a flag, a unit of no
 * attribute. */
static struct profiles *old(void)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };

	num(&m, 1, 1);
	num(&m, 3, 1);
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 };
	list(&m, 3, L(N(5), N(6), N(7)));
	list(&m, 6, L(N(1), N(2)));
	sub(&profile, 2, &m);
	num(&profile, 4, 1000);
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "size");
	key_string(&dict, 6, "k", "v");
	m = (struct msg){ .len = 0 };
	num(&m, 1, 0x1000);
	num(&m, 6, 1);
	sub(&dict, 1, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 1);
	num(&m, 2, 1);
	sub(&dict, 7, &m);
	sub(&request, 2, &dict);
	return decode(&request, WIRE_V1_7);
}

static void test_each_loss(void **state)
{
	static const struct {
		bool old;
		enum wire_version version;
		bool json;
		uint64_t want[OTLP_LOSSES]; /* unknown, old, units, event values, clamped */
		const char *text;
	} cases[] = {
		{ false, WIRE_V1_10, false, { 0 }, "" },
		{ false, WIRE_V1_10, true, { 4 }, "4 unknown fields" },
		{ false, WIRE_V1_9, false, { 4 }, "4 unknown fields" },
		{ false,
		  WIRE_V1_7,
		  false,
		  { 4, 0, 1, 2, 1 },
		  "4 unknown fields, 1 attributes' units, 2 samples' single values (their sum "
		  "stays), 1 sums past 64 bits (cut to the largest number)" },
		{ true, WIRE_V1_7, false, { 0 }, "" },
		{ true,
		  WIRE_V1_8,
		  false,
		  { 0, 1, 1, 1 },
		  "1 fields of older versions, 1 attributes' units, 1 samples' single values "
		  "(their sum stays)" },
		{ true,
		  WIRE_V1_10,
		  true,
		  { 0, 2, 1, 1 },
		  "2 fields of older versions, 1 attributes' units, 1 samples' single values "
		  "(their sum stays)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct profiles *p = cases[i].old ? old() : newest();
		struct otlp_losses lost;
		struct buf b;

		assert_int_equal(otlp_losses(p, cases[i].version, cases[i].json, &lost),
				 cases[i].text[0] != '\0');
		for (unsigned k = 0; k < OTLP_LOSSES; k++)
			if (lost.count[k] != cases[i].want[k])
				fail_msg("case %zu: %llu %s, wanted %llu", i,
					 (unsigned long long)lost.count[k],
					 otlp_loss_name((enum otlp_loss)k),
					 (unsigned long long)cases[i].want[k]);
		buf_init(&b, 0);
		otlp_losses_append_text(&b, &lost);
		buf_char(&b, '\0');
		assert_string_equal(b.ptr, cases[i].text);
		buf_release(&b);
		profiles_free(p);
	}
}

/* A plain message loses nothing in any version. */
static void test_no_loss(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, m = { .len = 0 };
	struct otlp_losses lost;
	struct profiles *p;

	(void)state;
	fixed(&profile, 3, 1000);
	list(&m, 4, L(N(5)));
	bytes(&m, 5, "\1\0\0\0\0\0\0\0", 8);
	sub(&profile, 2, &m);
	request_add_profile(&request, &profile);
	p = decode(&request, WIRE_V1_10);
	for (enum wire_version v = WIRE_V1_7; v <= WIRE_V1_10; v++)
		assert_false(otlp_losses(p, v, false, &lost));
	assert_false(otlp_losses(p, WIRE_V1_10, true, &lost));
	profiles_free(p);
}

/* Peers refuse a whole message for one bad byte, so none is written. */
static void texts_that_are_no_utf8_are_counted(void **state)
{
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 };
	struct otlp_losses lost;
	struct profiles *p;
	struct buf b;

	(void)state;
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "caf\xe9");
	text(&dict, 5, "gr\xc3\xbc\xc3\x9f");
	text(&dict, 5, "\xff\xfe");
	sub(&request, 2, &dict);
	p = decode(&request, WIRE_V1_10);
	for (enum wire_version v = WIRE_V1_7; v <= WIRE_V1_10; v++) {
		assert_true(otlp_losses(p, v, v == WIRE_V1_10, &lost));
		assert_int_equal(lost.count[LOSS_BAD_TEXT], 2);
	}
	buf_init(&b, 0);
	otlp_losses_append_text(&b, &lost);
	buf_char(&b, '\0');
	assert_string_equal(b.ptr, "2 texts that are no UTF-8 (bad bytes become U+FFFD)");
	buf_release(&b);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_loss),
		cmocka_unit_test(test_no_loss),
		cmocka_unit_test(texts_that_are_no_utf8_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
