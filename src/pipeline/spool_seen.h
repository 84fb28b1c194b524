/*
 * spool_seen.h - which requests a spool has taken lately, by their hash: a sender that repeats one
 * whose answer it never got is answered, and nothing is kept twice.
 *
 * Bounded: past SPOOL_SEEN_MOST requests the oldest is forgotten, and past the window every one.
 * Filled again from the headers of the segments that are still there when a spool is opened.
 * Memory: 32 bytes a request, grown as needed. Threads: one.
 */
#pragma once
#include <stdbool.h>
#include "base/hash.h"

enum { SPOOL_SEEN_MOST = 1 << 16 };

struct spool_seen_entry {
	struct hash128 hash;
	uint64_t unix_ns; /* when it was taken */
};

struct spool_seen {
	uint64_t window_ns;               /* 0 = remembers nothing */
	struct spool_seen_entry *entries; /* a ring, oldest first */
	uint32_t first, count, cap;
	uint32_t *slots; /* by hash: place in entries + 1, 0 = free; twice cap, linear probing */
};

void spool_seen_init(struct spool_seen *s, uint64_t window_ns);
void spool_seen_release(struct spool_seen *s);
/* Was it added within the window before now? */
bool spool_seen_has(struct spool_seen *s, struct hash128 hash, uint64_t now_unix_ns);
/* True when it was new; again is fine: the first one counts. */
bool spool_seen_add(struct spool_seen *s, struct hash128 hash, uint64_t unix_ns);
/* Takes the last `count` additions back. */
void spool_seen_drop_last(struct spool_seen *s, uint32_t count);
