/*
 * hash_filter.h - which content hashes are surely not in the table `lookup`: most that are asked
 * for are new, and would each be a walk down its tree, in a large store a page read from the file.
 *
 * A Bloom filter of fixed size with the bits of a hash in one word: of hashes that are not in, 1 in
 * 200 passes with 500,000 rows, 1 in 12 with 1,500,000. What was taken out of the table passes on.
 *
 * Memory: 1 MiB. Threads: one.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_FILTER_WORDS = 1 << 17 };

/* The half of a hash that `lookup` is ordered by. Two bits of a word by its lower digits, two more
 * by those above. */
static inline uint64_t hash_filter_bits(uint64_t hash)
{
	return UINT64_C(1) << (hash & 63) | UINT64_C(1) << (hash >> 6 & 63) |
	       UINT64_C(1) << (hash >> 12 & 63) | UINT64_C(1) << (hash >> 18 & 63);
}
static inline size_t hash_filter_word(uint64_t hash)
{
	return hash >> 40 & (HASH_FILTER_WORDS - 1);
}
static inline void hash_filter_add(uint64_t *filter, uint64_t hash)
{
	filter[hash_filter_word(hash)] |= hash_filter_bits(hash);
}
static inline bool hash_filter_may_have(const uint64_t *filter, uint64_t hash)
{
	uint64_t bits = hash_filter_bits(hash);

	return (filter[hash_filter_word(hash)] & bits) == bits;
}
