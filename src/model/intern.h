/*
 * intern.h - finds an entry that was added before: an open-addressing table from a hash to an
 * index.
 *
 * The table knows no entries; the caller hashes, compares and stores them. Linear probing, grown at
 * 3/4, hashes kept so that growing touches no entry. Memory: one heap block. Threads: one.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern_slot {
	uint32_t hash;  /* upper half of the 64 bits */
	uint32_t entry; /* index + 1; 0 = free */
};

struct intern_table {
	struct intern_slot *slots;
	uint32_t mask, used;
};

/* Is the entry at `index` equal to `key`? `ctx` is whatever holds the entries. */
typedef bool intern_same_fn(const void *ctx, uint32_t index, const void *key);

void intern_init(struct intern_table *t);
void intern_release(struct intern_table *t);

/*
 * The index of the entry equal to `key`, or UINT32_MAX after `next` was entered for it (the caller
 * then stores the entry at that index).
 */
uint32_t intern_find_or_add(struct intern_table *t, uint64_t hash, intern_same_fn *same,
			    const void *ctx, const void *key, uint32_t next);
size_t intern_bytes(const struct intern_table *t);
