/*
 * known.h - which dictionary entries are rows of the store already: content hash -> row id.
 *
 * Two parts. A cache of fixed size, which forgets; and the pending: the newest rows, which
 * the table `lookup` does not have yet and which are therefore never forgotten. Pending ones are
 * moved into `lookup` many at a time in order of their hash, so that its pages are written once for
 * many rows.
 *
 * A place of the cache is 16 bytes, and those that a hash may be in are one cache line: most looks
 * are at memory that the processor does not have. Equal are hashes there whose upper half, 27 bits
 * of the lower and the number of the set are.
 *
 * Memory: 16 bytes a place of the cache, taken as touched; 32 bytes a pending one. Threads: one.
 */
#pragma once
#include <stddef.h>
#include "store/schema/ident.h"

struct known_entry {
	struct hash128 hash;
	uint32_t id, kind; /* id 0 = free */
};

struct known_place {
	uint64_t hash;
	uint32_t mark, id; /* of the kind and more of the hash; id 0 = free */
};

struct known {
	struct known_place *places; /* sets of four, the newest first */
	uint32_t set_mask;
	struct known_entry *pending;
	uint32_t pending_count, pending_cap;
	uint32_t *pending_slots; /* place in pending + 1, 0 = free; twice the cap, linear probing */
};

enum { KNOWN_PENDING_MOST = 1 << 15 };

void known_init(struct known *k, size_t cache_bytes);
void known_release(struct known *k);
/* The row, or 0: not known here, `lookup` may still have it. */
uint32_t known_find(struct known *k, enum store_kind kind, struct hash128 hash);
/* The same of kinds of which none is ever pending. A kind here is any number of 32 bits. */
uint32_t known_cached(struct known *k, enum store_kind kind, struct hash128 hash);
/* Found in `lookup`. */
void known_cache(struct known *k, enum store_kind kind, struct hash128 hash, uint32_t id);
/* A new row. The caller folds before there are KNOWN_PENDING_MOST. */
void known_add(struct known *k, enum store_kind kind, struct hash128 hash, uint32_t id);
/* The row was swept. */
void known_forget(struct known *k, enum store_kind kind, struct hash128 hash);
/* Sorts the pending by the upper half of their hashes, as `lookup` is; then known_folded() drops
 * them. */
void known_sort_pending(struct known *k);
void known_folded(struct known *k);
void known_clear(struct known *k); /* all: after a rollback */
/* Forgets those of which `gone` says so. */
void known_purge(struct known *k, bool (*gone)(void *arg, enum store_kind kind, uint32_t id),
		 void *arg);
