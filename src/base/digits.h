/*
 * digits.h - decimal digits by table, two at a time: the formatters of numbers and times, which
 * stdout lives on.
 *
 * Only base includes this.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DIGITS_U64_MOST = 20 };

static const char digit_pairs[200] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

/* v below 100, as two digits. */
static inline void digits_put_2(char *out, uint32_t v)
{
	memcpy(out, digit_pairs + 2 * v, 2);
}

/* v below 10^8, as eight digits. */
static inline void digits_put_8(char *out, uint32_t v)
{
	uint32_t high = v / 10000, low = v % 10000;

	digits_put_2(out, high / 100);
	digits_put_2(out + 2, high % 100);
	digits_put_2(out + 4, low / 100);
	digits_put_2(out + 6, low % 100);
}
