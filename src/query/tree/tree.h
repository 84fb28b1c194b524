/*
 * tree.h - runs of frames become a tree. Only src/query includes this.
 */
#pragma once
#include "query/sum/frames.h"

enum { TREE_NODES_USUAL = 16384 };
/* A path from a tree's root (0) and one frame more, by its key: the same for the same frames. */
static inline uint64_t path_step(uint64_t path, uint64_t key)
{
	uint64_t v = (path + key) * UINT64_C(0xff51afd7ed558ccd);

	return v ^ v >> 33;
}

/* Of s->pool. */
struct tree_runs {
	const struct frame_run *ptr;
	uint32_t count;
};
/* At most o->nodes_most nodes, fewer where memory is short. The frames stay the set's. */
bool tree_build(struct frame_set *s, struct tree_runs runs, const struct query_tree_options *o,
		struct query_tree *out, struct err *err) MUST_CHECK;
