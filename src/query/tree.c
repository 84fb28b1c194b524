/*
 * tree.c - runs of frames become a tree: sorted, so that what two neighbours share is their common
 * beginning; then pruned, heaviest children first.
 */
#include <math.h>
#include <stdlib.h>

#include "query/engine.h"
#include "query/regex.h"

enum { NODES_DEFAULT = 16384, SMALL = 12 };

/* ---- sorting runs: multikey quicksort, by the frame at `depth` ---- */

static int64_t frame_at(const struct frame_run *r, const uint32_t *pool, uint32_t depth)
{
	return depth < r->count ? (int64_t)pool[r->first + depth] : -1;
}

static int compare_from(const struct frame_run *a, const struct frame_run *b, const uint32_t *pool,
			uint32_t depth)
{
	for (;; depth++) {
		int64_t x = frame_at(a, pool, depth), y = frame_at(b, pool, depth);

		if (x != y)
			return x < y ? -1 : 1;
		if (x < 0)
			return 0;
	}
}

static void insertion_sort(struct frame_run *r, uint32_t count, const uint32_t *pool,
			   uint32_t depth)
{
	for (uint32_t i = 1; i < count; i++) {
		struct frame_run one = r[i];
		uint32_t k = i;

		for (; k > 0 && compare_from(&one, &r[k - 1], pool, depth) < 0; k--)
			r[k] = r[k - 1];
		r[k] = one;
	}
}

static void swap(struct frame_run *a, struct frame_run *b)
{
	struct frame_run t = *a;

	*a = *b;
	*b = t;
}

/* Three parts: less than, equal to and greater than the pivot at this depth. */
static void partition(struct frame_run *r, uint32_t count, const uint32_t *pool, uint32_t depth,
		      uint32_t *less, uint32_t *more)
{
	int64_t pivot = frame_at(&r[count / 2], pool, depth);
	uint32_t lt = 0, i = 0, gt = count;

	while (i < gt) {
		int64_t v = frame_at(&r[i], pool, depth);

		if (v < pivot)
			swap(&r[lt++], &r[i++]);
		else if (v > pivot)
			swap(&r[i], &r[--gt]);
		else
			i++;
	}
	*less = lt;
	*more = gt;
}

struct part {
	uint32_t first, count, depth;
};

/* Pending parts are kept by hand: the depth of stacks is the sender's choice. */
static bool sort_runs(struct frame_set *s, struct frame_run *runs, uint32_t count,
		      const uint32_t *pool, struct err *err)
{
	struct part *todo = NULL;
	uint32_t todo_count = 0, cap = 0;
	bool ok = query_grow(s->q, &todo, &cap, 64, sizeof(*todo), err);

	if (ok && count)
		todo[todo_count++] = (struct part){ 0, count, 0 };
	while (ok && todo_count) {
		struct part p = todo[--todo_count];
		uint32_t less, more;

		if (p.count <= SMALL) {
			insertion_sort(runs + p.first, p.count, pool, p.depth);
			continue;
		}
		partition(runs + p.first, p.count, pool, p.depth, &less, &more);
		ok = query_alive(s->q, err) &&
		     query_grow(s->q, &todo, &cap, todo_count + 3u, sizeof(*todo), err);
		if (!ok)
			break;
		if (less)
			todo[todo_count++] = (struct part){ p.first, less, p.depth };
		if (p.count - more)
			todo[todo_count++] =
				(struct part){ p.first + more, p.count - more, p.depth };
		if (frame_at(&runs[p.first + less], pool, p.depth) >= 0)
			todo[todo_count++] =
				(struct part){ p.first + less, more - less, p.depth + 1 };
	}
	query_drop(s->q, &todo, &cap, sizeof(*todo));
	return ok;
}

/* ---- all nodes, in the order of the sorted runs ---- */

struct raw_node {
	uint32_t frame, parent, depth;
	uint32_t child, next; /* kept children, linked while emitting; 0 = none */
	bool kept;
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
};

struct growing {
	struct frame_set *s;
	struct raw_node *nodes;
	uint32_t count, cap;
	uint32_t *path, path_cap; /* node at each depth of the run before */
};

static bool new_node(struct growing *g, uint32_t frame, uint32_t depth, struct err *err)
{
	if (!query_grow(g->s->q, &g->nodes, &g->cap, g->count + 1u, sizeof(*g->nodes), err) ||
	    !query_grow(g->s->q, &g->path, &g->path_cap, depth + 1u, sizeof(uint32_t), err))
		return false;
	g->nodes[g->count] = (struct raw_node){ .frame = frame,
						.depth = depth,
						.parent = depth ? g->path[depth - 1] : 0 };
	g->path[depth] = g->count++;
	return true;
}

static uint32_t common(const struct frame_run *a, const struct frame_run *b, const uint32_t *pool)
{
	uint32_t n = 0, most = a->count < b->count ? a->count : b->count;

	while (n < most && pool[a->first + n] == pool[b->first + n])
		n++;
	return n;
}

static bool grow_tree(struct growing *g, const struct frame_run *runs, uint32_t count,
		      const uint32_t *pool, struct err *err)
{
	if (!new_node(g, QUERY_FRAME_ROOT, 0, err))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct frame_run *r = &runs[i];
		struct raw_node *leaf;

		for (uint32_t d = i ? common(&runs[i - 1], r, pool) : 0; d < r->count; d++)
			if (!new_node(g, pool[r->first + d], d + 1, err))
				return false;
		leaf = &g->nodes[g->path[r->count]];
		for (unsigned side = 0; side < QUERY_SIDES; side++)
			leaf->self[side] = engine_add(leaf->self[side], r->value[side]);
		if (!query_alive(g->s->q, err))
			return false;
	}
	for (uint32_t i = g->count; i > 0; i--) { /* children stand behind their parents */
		struct raw_node *n = &g->nodes[i - 1];

		for (unsigned side = 0; side < QUERY_SIDES; side++) {
			n->total[side] = engine_add(n->total[side], n->self[side]);
			if (i > 1) {
				int64_t *up = &g->nodes[n->parent].total[side];

				*up = engine_add(*up, n->total[side]);
			}
		}
	}
	return true;
}

/* ---- pruning ---- */

/* What a node weighs: its share of its side, the larger one. */
static double weight(const struct raw_node *n, const double *scale)
{
	double left = fabs((double)n->total[0]) * scale[0],
	       right = fabs((double)n->total[1]) * scale[1];

	return left > right ? left : right;
}

static int heavier(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x > y ? -1 : x < y;
}

/* The least weight with which at most `most` nodes stay; ties at the limit go. */
static bool least_weight(struct growing *g, const double *scale, uint32_t most, double *least,
			 struct err *err)
{
	double *weights = NULL;
	uint32_t cap = 0;

	if (g->count <= most)
		return true;
	if (!query_grow(g->s->q, &weights, &cap, g->count, sizeof(*weights), err))
		return false;
	for (uint32_t i = 0; i < g->count; i++)
		weights[i] = weight(&g->nodes[i], scale);
	qsort(weights, g->count, sizeof(*weights), heavier);
	if (weights[most] >= *least)
		*least = nextafter(weights[most], INFINITY);
	query_drop(g->s->q, &weights, &cap, sizeof(*weights));
	return true;
}

/* A child is never heavier than its parent unless signs differ, so what is kept is connected: a
 * node goes with its parent. */
static void mark_kept(struct growing *g, const double *scale, double least)
{
	g->nodes[0].kept = true;
	for (uint32_t i = 1; i < g->count; i++)
		g->nodes[i].kept =
			g->nodes[g->nodes[i].parent].kept && weight(&g->nodes[i], scale) >= least;
}

/* ---- the answer: pre-order, heavier children first ---- */

struct emitting {
	struct growing *g;
	const double *scale;
	struct query_node *out;
	uint32_t count, pruned;
	uint32_t *children, child_cap;
};

static bool before(const struct growing *g, uint32_t a, uint32_t b, const double *scale)
{
	double x = weight(&g->nodes[a], scale), y = weight(&g->nodes[b], scale);

	if (x != y)
		return x > y;
	/* Frames have their numbers by chance, keys have not. */
	return g->s->frames[g->nodes[a].frame].key < g->s->frames[g->nodes[b].frame].key;
}

/* Merge sort of a list linked by `next`. */
static uint32_t sort_list(struct growing *g, uint32_t list, const double *scale)
{
	for (uint32_t width = 1;; width *= 2) {
		uint32_t rest = list, *tail = &list, merges = 0;

		list = 0;
		while (rest) {
			uint32_t a = rest, b = rest, a_left = 0, b_left = width;

			merges++;
			while (a_left < width && b) {
				b = g->nodes[b].next;
				a_left++;
			}
			while (a_left || (b_left && b)) {
				bool take_a = a_left && (!b_left || !b || !before(g, b, a, scale));
				uint32_t n = take_a ? a : b;

				if (take_a) {
					a = g->nodes[a].next;
					a_left--;
				} else {
					b = g->nodes[b].next;
					b_left--;
				}
				*tail = n;
				tail = &g->nodes[n].next;
			}
			rest = b;
		}
		*tail = 0;
		if (merges <= 1)
			return list;
	}
}

static void link_children(struct growing *g, const double *scale)
{
	for (uint32_t i = g->count; i > 1; i--) {
		struct raw_node *n = &g->nodes[i - 1], *parent = &g->nodes[n->parent];

		if (!n->kept)
			continue;
		n->next = parent->child;
		parent->child = i - 1;
	}
	for (uint32_t i = 0; i < g->count; i++)
		if (g->nodes[i].kept && g->nodes[i].child)
			g->nodes[i].child = sort_list(g, g->nodes[i].child, scale);
}

static void emit_node(struct emitting *e, const struct raw_node *n)
{
	struct query_node *out = &e->out[e->count++];

	*out = (struct query_node){ .frame = n->frame, .depth = n->depth };
	memcpy(out->total, n->total, sizeof(out->total));
	memcpy(out->self, n->self, sizeof(out->self));
}

/* What a node's kept children and itself do not account for is its `other`. */
static void emit_other(struct emitting *e, const struct raw_node *n)
{
	struct query_node other = { .frame = QUERY_FRAME_OTHER, .depth = n->depth + 1 };

	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		other.total[side] = n->total[side] - n->self[side];
		for (uint32_t c = n->child; c; c = e->g->nodes[c].next)
			other.total[side] -= e->g->nodes[c].total[side];
		other.self[side] = other.total[side];
	}
	if (other.total[0] || other.total[1])
		e->out[e->count++] = other;
}

/* Pre-order without recursion: after a node its first child, else up to the next sibling. A node's
 * `other` stands behind its children. */
static void emit_all(struct emitting *e)
{
	struct growing *g = e->g;
	uint32_t at = 0;

	emit_node(e, &g->nodes[0]);
	for (;;) {
		if (g->nodes[at].child) {
			at = g->nodes[at].child;
			emit_node(e, &g->nodes[at]);
			continue;
		}
		emit_other(e, &g->nodes[at]);
		while (at && !g->nodes[at].next) {
			at = g->nodes[at].parent;
			emit_other(e, &g->nodes[at]);
		}
		if (!at)
			return;
		at = g->nodes[at].next;
		emit_node(e, &g->nodes[at]);
	}
}

static bool emit(struct growing *g, const struct query_tree_options *o, struct query_tree *out,
		 struct err *err)
{
	const struct frame_set *s = g->s;
	double scale[QUERY_SIDES], least = o->share_least;
	uint32_t most = o->nodes_most ? o->nodes_most : NODES_DEFAULT;
	struct emitting e = { .g = g, .scale = scale };
	uint32_t kept = 0;

	for (unsigned side = 0; side < QUERY_SIDES; side++)
		scale[side] = s->total[side] ? 1 / fabs((double)s->total[side]) : 1;
	if (!least_weight(g, scale, most < QUERY_NODES_MOST ? most : QUERY_NODES_MOST, &least, err))
		return false;
	mark_kept(g, scale, least);
	for (uint32_t i = 0; i < g->count; i++)
		kept += g->nodes[i].kept;
	link_children(g, scale);
	e.out = query_alloc(s->q, (uint64_t)kept * 2, sizeof(*e.out), err);
	if (!e.out)
		return false;
	emit_all(&e);
	out->nodes = e.out;
	out->node_count = e.count;
	out->pruned_nodes = g->count - kept;
	return true;
}

bool tree_build(struct frame_set *s, struct frame_run *runs, uint32_t count, const uint32_t *pool,
		const struct query_tree_options *o, struct query_tree *out, struct err *err)
{
	struct growing g = { .s = s };
	bool ok = sort_runs(s, runs, count, pool, err) && grow_tree(&g, runs, count, pool, err);

	if (ok) { /* what has no names is nobody's: the root's `other` */
		for (unsigned side = 0; side < QUERY_SIDES; side++)
			g.nodes[0].total[side] =
				engine_add(g.nodes[0].total[side], s->unresolved[side]);
		ok = emit(&g, o, out, err);
	}
	query_drop(s->q, &g.nodes, &g.cap, sizeof(*g.nodes));
	query_drop(s->q, &g.path, &g.path_cap, sizeof(uint32_t));
	out->stacks = count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return ok;
}
