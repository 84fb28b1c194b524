/*
 * large_pages.h - memory of one question, in large pages where the system has them.
 *
 * A new process pays 2 us for each 4 KiB page that it touches: a fifth of a flame graph. So blocks
 * lie side by side in one mapping that asks for large pages. Blocks that are given back are used
 * again, first fit; the mapping goes as a whole.
 * Memory: the mapping, as far as it is touched, until large_pages_release(). Threads: one at a
 * time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct large_pages {
	char *base; /* NULL: not mapped */
	size_t bytes;
	size_t top;     /* what is above is free, */
	size_t touched; /* and zero from there on */
	struct gap {
		size_t at, bytes;
	} * gaps; /* free, ascending, none beside another or the top */
	uint32_t gap_count, gap_cap;
	char *mapped;
	size_t mapped_bytes;
};

/* False: nothing is mapped, for want of room. */
bool large_pages_map(struct large_pages *l, size_t bytes);
void large_pages_release(struct large_pages *l); /* and all blocks */

static inline bool large_pages_have(const struct large_pages *l, const void *block)
{
	return (uintptr_t)block - (uintptr_t)l->base < l->bytes;
}

/* NULL: no room. Blocks are aligned to 64 bytes; their owner remembers their length. */
void *large_pages_take(struct large_pages *l, size_t bytes, bool zeros);
void large_pages_give_back(struct large_pages *l, void *block, size_t bytes);
/* The end of a block that keeps its place. */
void large_pages_shrink(struct large_pages *l, void *block, size_t bytes, size_t to);
/* In its place where there is room; else NULL, and the block stays as it is. */
void *large_pages_grow(struct large_pages *l, void *block, size_t bytes, size_t to);
