/*
 * fold.h - saves memory for runs of frames: joins equal ones and, where memory is short, cuts all
 * behind their first frames.
 *
 * A cut run ends in RUN_CUT instead of a frame: its value counts for the frames before it, and is
 * none's own value. So the outer part of a tree is right, however many stacks there are.
 * Memory: the query's whose the frame set is. Threads: its query's.
 */
#pragma once
#include "query/sum/frames.h"

struct folding {
	struct frame_set *set;
	uint32_t first, pool_first;  /* the first run, and its place in the pool */
	uint32_t heavy;              /* runs up to this one are cut last */
	uint32_t depth, heavy_depth; /* frames that are left of a run; UINT32_MAX: all */
	uint32_t *slots, slot_cap;   /* run + 1 by hash; 0: free */
};

/* Runs from here on are folded. */
void folding_begin(struct folding *f, struct frame_set *s);
/* Joins the runs from `first` on, whose frames stand in the pool from `pool_first` on in the same
 * order, with equal ones before or among them. Without memory for that they stay as they are. */
void folding_add(struct folding *f, uint32_t first, uint32_t pool_first);
enum folding_result {
	FOLDING_CUT,
	FOLDING_RENUMBERED, /* unused frames were dropped, so that others have new numbers */
	FOLDING_LEAST,      /* runs are as short as they get: nothing was done */
	FOLDING_FAILED,
};
/* Cuts runs shorter than before, and gives back what that frees. */
enum folding_result folding_cut(struct folding *f, struct err *err) MUST_CHECK;
void folding_release(struct folding *f);
