/*
 * pb_packed.c - masked varints: the high bits of eight bytes, and of the byte in front of them,
 * choose the shuffle that brings the two halves of each varint that ends there into a lane of 16
 * bits. A block knows from the byte in front where its first varint begins, so that no block waits
 * for the one before, and nothing is guessed but the list's length.
 */
#include "wire/pb_packed.h"

#ifdef __x86_64__
#include <immintrin.h>

enum { BLOCK = 8, STATES = 1 << (BLOCK + 1) };

static uint8_t shuffles[STATES][16] __attribute__((aligned(16)));
static bool able;

/* Bit 0 of a state is the high bit of the byte in front, bit i that of the block's byte i - 1. */
static void shuffle_fill(uint8_t shuffle[16], unsigned high)
{
	enum { NOTHING = 0x80 };
	unsigned lane = 0;

	memset(shuffle, NOTHING, 16);
	for (unsigned at = 1; at <= BLOCK; at++) {
		if (high >> at & 1)
			continue; /* no varint ends here */
		shuffle[2 * lane] = (uint8_t)at;
		if (high >> (at - 1) & 1) {
			shuffle[2 * lane] = (uint8_t)(at - 1);
			shuffle[2 * lane + 1] = (uint8_t)at;
		}
		lane++;
	}
}

/* Before main(), and so before any thread. */
__attribute__((constructor)) static void tables_fill(void)
{
	__builtin_cpu_init();
	able = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt");
	for (unsigned high = 0; high < STATES; high++)
		shuffle_fill(shuffles[high], high);
}

bool pb_packed_short_able(void)
{
	return able;
}

/* One block: returns how many varints end in it. `high` is its state. */
__attribute__((target("ssse3,popcnt"))) static inline unsigned block_put(__m128i bytes,
									 unsigned high,
									 uint32_t *out)
{
	const __m128i zero = _mm_setzero_si128();
	__m128i v = _mm_shuffle_epi8(bytes, _mm_load_si128((const __m128i *)shuffles[high]));

	v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(0x007f)),
			 _mm_srli_epi16(_mm_and_si128(v, _mm_set1_epi16(0x7f00)), 1));
	_mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi16(v, zero));
	_mm_storeu_si128((__m128i *)(out + 4), _mm_unpackhi_epi16(v, zero));
	return BLOCK - (unsigned)__builtin_popcount(high >> 1);
}

__attribute__((target("ssse3,popcnt"))) size_t pb_packed_short(const uint8_t *p, size_t len,
							       uint32_t *out)
{
	uint32_t *at = out;
	unsigned longer = 0;

	if (!able || len == 0 || p[len - 1] >= 0x80)
		return PB_PACKED_BAD;
	/* Two blocks from one load: 16 bytes, the first of which is the one in front. */
	for (const uint8_t *end = p + len; p < end; p += 2 * BLOCK) {
		__m128i first = _mm_loadu_si128((const __m128i *)(p - 1));
		__m128i second = _mm_loadu_si128((const __m128i *)(p + BLOCK - 1));
		unsigned high = (unsigned)_mm_movemask_epi8(first) |
				(unsigned)_mm_movemask_epi8(second) << BLOCK;
		size_t left = (size_t)(end - p);
		unsigned behind = left < 2 * BLOCK ? ~0u << (left + 1) : 0;

		longer |= high & high >> 1 & ~behind & 0xffff;
		high |= behind; /* nothing ends behind the list */
		at += block_put(first, high & (STATES - 1), at);
		at += block_put(second, high >> BLOCK & (STATES - 1), at);
	}
	return longer ? PB_PACKED_BAD : (size_t)(at - out);
}

#else

bool pb_packed_short_able(void)
{
	return false;
}

size_t pb_packed_short(const uint8_t *p, size_t len, uint32_t *out)
{
	(void)p;
	(void)len;
	(void)out;
	return PB_PACKED_BAD;
}

#endif
