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

/*
 * v below 10^8: eight characters, the first in the lowest byte. Both halves are split into pairs
 * and the pairs into digits at once, by multiplications with 2^20 / 100 and 2^10 / 10, rounded up.
 */
static inline uint64_t digits_8(uint32_t v)
{
	uint64_t halves = v / 10000 | (uint64_t)(v % 10000) << 32;
	uint64_t hundreds = (halves * 10486 >> 20) & 0x0000007f0000007f;
	uint64_t pairs = hundreds | (halves - 100 * hundreds) << 16;
	uint64_t tens = (pairs * 103 >> 10) & 0x000f000f000f000f;

	return (tens | (pairs - 10 * tens) << 8) + 0x3030303030303030;
}

/* The same written out; little-endian, as our targets. */
static inline void digits_put_8(char *out, uint32_t v)
{
	uint64_t digits = digits_8(v);

	memcpy(out, &digits, sizeof(digits));
}

/* v below 10^8 without leading zeros: how many digits it has; eight bytes are written. */
static inline size_t digits_put(char *out, uint32_t v)
{
	uint64_t digits = digits_8(v);
	/* Of the digits but the last, which stays even when it is a zero. */
	unsigned zeros =
		(unsigned)__builtin_ctzll((digits - 0x3030303030303030) | UINT64_C(1) << 56) / 8;

	digits >>= 8 * zeros;
	memcpy(out, &digits, sizeof(digits));
	return 8 - zeros;
}
