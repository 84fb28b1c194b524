/*
 * tree.h - a tree of the query engine as the bytes that the page draws from.
 *
 *   0   "FTT1"
 *   4   u32 length of the header
 *   8   the header: JSON (docs/api.md), padded with spaces to a multiple of 8
 *   ... the arrays that header.arrays names, in its order, little endian, each at a multiple of 8
 */
#pragma once
#include "base/buf.h"
#include "query/query.h"

struct tree_out {
	const struct query_tree *tree;
	struct query_facts facts; /* of the left side */
	struct str unit;
	enum query_by by;
	int sides;                   /* 1 or 2 */
	bool searched;               /* the tree says what was found */
	double seconds[QUERY_SIDES]; /* covered by profiles; 0: not known */
	struct query_losses losses;  /* of all sides; none: not reported */
	uint64_t samples2;           /* of the right side, of two */
	uint32_t processes2;
};

/* Scratch memory from the arena. */
void tree_write(const struct tree_out *o, struct arena *arena, struct buf *out);
