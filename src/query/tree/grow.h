/*
 * grow.h - the nodes of a tree that are worth keeping, before they are put in order (tree.c). Only
 * src/query/tree includes this.
 */
#pragma once
#include <math.h>
#include "query/sum/frames.h"

struct raw_node {
	uint32_t frame, parent, depth;
	uint32_t first, count; /* of growing.runs: those through it */
	uint32_t children;     /* in all */
	uint32_t child, next;  /* kept children, linked while emitting; 0 = none */
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
	double weight;
	uint64_t path; /* a hash of the frames from the root */
	bool tie;      /* as heavy as the first one too many, and kept */
	bool asked;    /* one of frame_set.kept_paths */
	bool opened;
	uint32_t opened_at; /* its children that were added stand there, one after another */
};

/* The `most` + 1 heaviest weights: a heap, the least on top. */
struct heaviest {
	double *heap;
	uint32_t count, cap, most;
};

/* A run, from the frame behind the node that it is at. */
struct passing {
	uint32_t at, end; /* of the pool */
	int64_t value[QUERY_SIDES];
};

/* Nodes to be opened: a heap, the one with the largest reach on top. */
struct waiting {
	double reach;
	uint32_t node;
};

/* A child of the node that is being opened. */
struct branch {
	uint32_t frame, count, at; /* at: where its runs end among the node's */
	int64_t total[QUERY_SIDES];
	int64_t reach[QUERY_SIDES]; /* sum of its runs' magnitudes: nothing below is more */
};

struct growing {
	struct frame_set *s;
	const uint32_t *pool;
	double scale[QUERY_SIDES], least;
	struct raw_node *nodes; /* parents before children */
	uint32_t count, cap;
	struct passing *runs, *split; /* split: room for those of one node */
	uint32_t *branch_at;          /* of each of `split`: its branch + 1 */
	uint32_t run_count, run_cap, split_cap, branch_at_cap;
	struct waiting *waiting;
	uint32_t waiting_count, waiting_cap;
	struct branch *branches;
	uint32_t branch_count, branch_cap;
	uint32_t *branch_of; /* by frame: + 1; all 0 between uses */
	uint32_t branch_of_cap;
	struct heaviest heaviest;
	double tie_weight;  /* the limit when ties were last counted */
	uint32_t tie_count; /* nodes of that weight; past TIES_MOST they are not kept */
	uint32_t *ties, tie_cap;
	uint64_t pruned;
};

/* What a node weighs: its share of its side, the larger one. */
static inline double node_weight(const int64_t *total, const double *scale)
{
	double left = fabs((double)total[0]) * scale[0], right = fabs((double)total[1]) * scale[1];

	return left > right ? left : right;
}

/* Finds the nodes: parents before children; values of the others are in g->pruned alone. */
bool grow_tree(struct growing *g, const struct frame_run *runs, struct err *err) MUST_CHECK;
/* All but the nodes. */
void growing_release_runs(struct growing *g);
void growing_release(struct growing *g);
