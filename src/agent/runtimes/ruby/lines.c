/*
 * Entries hold lines; the instructions at which a new one begins are bits, and the entry of an
 * instruction is their number up to it:
 *
 *   6 words of 9 numbers, 7 bits each: the entry, + 1, of the first 54 positions
 *   then blocks of 512 positions:
 *     u32 entries before the block, padding
 *     u64 of 7 numbers, 9 bits each: those of the block before its 2nd to 8th word
 *     8 words of bits
 */
#include "agent/runtimes/ruby/lines.h"

enum {
	FIRST_POSITIONS = 54,
	FIRST_PER_WORD = 9,
	FIRST_BITS = 7,
	FIRST_BYTES = 48,
	BLOCK_POSITIONS = 512,
	BLOCK_BITS = 9,
	BLOCK_WORDS = 10,
	ENTRIES_MOST = 1 << 24,
};

/* The entry's number, + 1; 0: not known. */
static uint64_t rank(const struct ruby_heap *h, uint64_t index, uint32_t position)
{
	uint64_t block[BLOCK_WORDS], before = 0, word;
	uint32_t in_block = position - FIRST_POSITIONS, n;

	if (position < FIRST_POSITIONS) {
		if (!ruby_read(h, index + position / FIRST_PER_WORD * 8, &word, sizeof(word)))
			return 0;
		return word >> position % FIRST_PER_WORD * FIRST_BITS & ((1u << FIRST_BITS) - 1);
	}
	if (!ruby_read(h, index + FIRST_BYTES + in_block / BLOCK_POSITIONS * sizeof(block), block,
		       sizeof(block)))
		return 0;
	in_block %= BLOCK_POSITIONS;
	n = in_block / 64;
	if (n)
		before = block[1] >> (n - 1) * BLOCK_BITS & ((1u << BLOCK_BITS) - 1);
	return (uint32_t)block[0] + before +
	       (uint64_t)__builtin_popcountll(block[2 + n] << (63 - in_block % 64));
}

uint32_t ruby_line(const struct ruby_heap *h, const struct ruby_lines *l, uint32_t position)
{
	uint64_t entry = 1;
	int32_t line = 0;

	if (!l->count || l->count > ENTRIES_MOST)
		return 0;
	if (l->count > 1)
		entry = rank(h, l->index, position);
	if (!entry || entry > l->count ||
	    !ruby_read(h, l->entries + (entry - 1) * (uint64_t)h->o->info_bytes, &line,
		       sizeof(line)))
		return 0;
	return line > 0 ? (uint32_t)line : 0;
}
