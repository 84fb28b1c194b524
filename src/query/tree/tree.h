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

bool tree_build(struct frame_set *s, const struct frame_run *runs, uint32_t count,
		const uint32_t *pool, const struct query_tree_options *o, struct query_tree *out,
		struct err *err) MUST_CHECK;
