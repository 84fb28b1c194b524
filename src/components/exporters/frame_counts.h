/*
 * frame_counts.h - how many frames of each type the stacks of a message have.
 *
 * The type of a location is looked up once and a stack is walked once, however many samples name
 * them: a body of 100 kB can ask for a billion frames. Past FRAME_TYPES_MOST - 1 types the others
 * are counted together, as "other": what a sample adds is bounded, too.
 *
 * Memory: own heap, as large as the message's tables. Threads: one at a time.
 */
#pragma once
#include "base/arena.h"
#include "model/profiles.h"

enum {
	FRAME_TYPES_MOST = 32,
	FRAME_TYPE_MOST_BYTES = 256, /* longer ones are cut */
};

struct frame_run {
	uint64_t frames;
	uint32_t type;
};

struct frame_counts {
	const struct profiles *profiles;
	struct arena arena;
	struct str types[FRAME_TYPES_MOST];
	uint32_t type_count;
	uint8_t *attribute_types; /* by attribute: not looked at, another key, or a type */
	uint8_t *location_types;  /* by location: not looked at, or a type */
	struct range *stack_runs; /* by stack: of runs; no stack walked has none */
	struct frame_run *runs;
	uint32_t run_count, run_cap;
	uint64_t looked_at; /* table entries so far: what the message made us do */
};

void frame_counts_init(struct frame_counts *c, const struct profiles *p);
void frame_counts_release(struct frame_counts *c);
/* Adds a stack's frames to the totals of each type; a location counts once for each of its lines,
 * and once without any. */
void frame_counts_add(struct frame_counts *c, uint32_t stack, int64_t totals[FRAME_TYPES_MOST]);
/* The name of a type below c->type_count; valid until the release. "unknown" where a location says
 * none. */
static inline struct str frame_counts_type(const struct frame_counts *c, uint32_t type)
{
	return c->types[type];
}
