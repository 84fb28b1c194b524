/*
 * arena.h - memory that dies together: blocks that grow, freed in one call.
 *
 * Allocations are 8-byte aligned and zeroed by arena_zalloc() only. arena_alloc() returns NULL when
 * the arena's limit would be passed (the caller reports ERR_LIMIT) and aborts only when the system
 * is out of memory. No bytes is a valid wish and gets a pointer. Threads: one at a time.
 */
#pragma once
#include <stddef.h>

struct arena_block;

struct arena {
	char *next, *end;           /* free part of the newest block */
	struct arena_block *blocks; /* newest first */
	size_t reserved_bytes;      /* taken from the system so far */
	size_t limit_bytes;         /* 0 = none */
	size_t block_bytes;         /* size of the next block; doubles up to 1 MiB */
};

void arena_init(struct arena *a, size_t first_block_bytes, size_t limit_bytes);
void arena_release(struct arena *a);
/* Frees all but the largest block and starts over. */
void arena_reset(struct arena *a);

void *arena_alloc_slow(struct arena *a, size_t bytes);

static inline void *arena_alloc(struct arena *a, size_t bytes)
{
	size_t n = (bytes + 7) & ~(size_t)7;
	char *p = a->next;

	if (n - 1 >=
	    (size_t)(a->end - p)) /* n is 0 for no bytes and where the rounding up wrapped */
		return arena_alloc_slow(a, bytes);
	a->next = p + n;
	return p;
}

void *arena_zalloc(struct arena *a, size_t bytes);
/* count * size, NULL when the product overflows or passes the limit; not zeroed. */
void *arena_alloc_array(struct arena *a, size_t count, size_t size);
/* Grows an array in place when it is the newest allocation, else copies. NULL as arena_alloc(). */
void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes);

/* Gives the end of an array back when it is the newest allocation; else it stays as it is. */
static inline void arena_shrink(struct arena *a, void *array, size_t old_bytes, size_t new_bytes)
{
	size_t old_n = (old_bytes + 7) & ~(size_t)7;

	if (array && (char *)array + old_n == a->next)
		a->next = (char *)array + ((new_bytes + 7) & ~(size_t)7);
}
