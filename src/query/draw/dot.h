/*
 * dot.h - a flame graph as Graphviz's DOT: a node a name, an edge a call, both with what went
 * through them. A stack counts once, however deep it recurses.
 *
 * Threads: no state.
 */
#pragma once
#include "base/buf.h"
#include "query/query.h"

enum { DOT_NODES_DEFAULT = 80 };

struct dot_options {
	struct str title, unit; /* title may be empty */
	uint32_t nodes_most;    /* the heaviest; 0: DOT_NODES_DEFAULT */
};

/* The tree's left side. */
void dot_append_tree(struct buf *out, const struct query_tree *t, const struct dot_options *o);
