/*
 * sides.h - one selection, or two side by side, as runs of frames: the first half of most answers.
 * Only src/query includes this.
 */
#pragma once
#include "query/sum/frames.h"

/* What an answer is about. */
struct query_sides {
	struct query *left, *right; /* right: NULL but for a diff */
	struct str group_by;        /* a label, whose values become outermost frames; empty: none */
};

/* The runs of both. `use` may be NULL. */
bool frame_set_of(struct frame_set *s, const struct query_sides *x, const struct frame_use *use,
		  struct err *err) MUST_CHECK;
/* Of a diff, whose left side has the first `left_runs` runs: frames that one side cannot tell apart
 * as the other does are one (align.c). */
bool frame_set_align(struct frame_set *s, uint32_t left_runs, struct err *err) MUST_CHECK;
