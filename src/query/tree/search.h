/*
 * search.h - what a search finds in stacks, and the paths to the heaviest of it: a tree keeps those
 * whatever they weigh, so that they can be drawn and stepped through.
 *
 *   search_begin() -> for some stacks at a time: search_frames(), found_add() of each run
 *   -> found_keep() -> tree_build() -> found_release(), search_end()
 *
 * A match is the outermost found frame of a stack, at the end of its path from the tree's root.
 * Memory: the query's counted heap. Where there is too little of it, or there are too many paths,
 * further ones are counted but not kept.
 */
#pragma once
#include "query/sum/frames.h"

struct regex;

struct search {
	struct regex *regex; /* NULL: nothing is looked for */
};
/* An empty pattern: nothing is looked for. */
bool search_begin(struct search *x, struct str pattern, struct err *err) MUST_CHECK;
void search_end(struct search *x);
/* Marks those frames of the set that are new (query_frame.found, .searched). */
bool search_frames(const struct search *x, struct frame_set *s, struct err *err) MUST_CHECK;

struct found_node {
	uint64_t path; /* path_step() of the frames from the root */
	uint32_t parent;
	bool is_match, kept;
	int64_t total[QUERY_SIDES]; /* of a match: of its stacks */
};
struct found_paths {
	int64_t matched[QUERY_SIDES];
	struct found_node *nodes; /* parents before children */
	uint32_t count, cap;
	struct number_table places, kept; /* by path: of nodes; those that are to be kept */
};
/* Adds a run of `pool`, of a set whose frames are marked. */
void found_add(struct found_paths *f, const struct search *x, const struct frame_set *s,
	       const struct frame_run *r, const uint32_t *pool);
/* For the next tree of the set, of nodes_most nodes: s->kept_paths, good until found_release(). */
void found_keep(struct found_paths *f, struct frame_set *s, uint32_t nodes_most);
/* As nothing was found yet. */
void found_release(struct query *q, struct found_paths *f);
