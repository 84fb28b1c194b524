/*
 * extents.h - who has which part of a fixed range: first fit, with a grace delay.
 *
 * For arrays that BPF programs read while we hand out and take back parts of them: what is given
 * back is reused only after a delay, when no program can still be on it.
 * Memory: 12 bytes per free extent. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct extent {
	uint32_t first, count;
};

struct extents {
	struct extent *free; /* sorted, never adjacent */
	uint32_t free_count, free_cap;
	struct retired {
		struct extent extent;
		uint64_t since_ns;
	} * retired; /* oldest first */
	uint32_t retired_count, retired_cap;
	uint32_t used; /* items that are out, retired ones included */
};

void extents_init(struct extents *e, uint32_t first, uint32_t count);
void extents_release(struct extents *e);
/* False: no extent is large enough. */
bool extents_take(struct extents *e, uint32_t count, uint32_t *first);
/* Not before `grace_ns` from now will it be given out again. */
void extents_retire(struct extents *e, uint32_t first, uint32_t count, uint64_t now_ns);
void extents_reclaim(struct extents *e, uint64_t now_ns, uint64_t grace_ns);
