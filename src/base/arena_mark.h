/*
 * arena_mark.h - going back in an arena: what was allocated behind a mark is freed, what was before
 * stays.
 */
#pragma once
#include "base/arena.h"

struct arena_mark {
	struct arena_block *block;
	char *next, *end;
};

static inline struct arena_mark arena_mark(const struct arena *a)
{
	return (struct arena_mark){ a->blocks, a->next, a->end };
}
/* To a mark of this arena, which was not reset or taken further back since. */
void arena_rewind(struct arena *a, struct arena_mark mark);
