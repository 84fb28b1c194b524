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

/*
 * ---- nodes, in the order of the sorted runs ----
 *
 * There may be far more nodes than an answer keeps, and than a query has memory for. So the sorted
 * runs are walked twice: first for what each node weighs, of which only the heaviest are
 * remembered; then nodes are made, and each that turns out too light goes again, with all below it,
 * as soon as it is whole: it is the last one then.
 */

struct raw_node {
	uint32_t frame, parent, depth;
	uint32_t child, next; /* children, linked while emitting; 0 = none */
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
};

struct growing {
	struct frame_set *s;
	const struct frame_run *runs;
	const uint32_t *pool;
	uint32_t run_count;
	double scale[QUERY_SIDES], least;
	uint64_t all; /* nodes, before pruning */
	struct raw_node *nodes;
	uint32_t count, cap;
};

static uint32_t common(const struct frame_run *a, const struct frame_run *b, const uint32_t *pool)
{
	uint32_t n = 0, most = a->count < b->count ? a->count : b->count;

	while (n < most && pool[a->first + n] == pool[b->first + n])
		n++;
	return n;
}

/* What a node weighs: its share of its side, the larger one. */
static double weight(const int64_t *total, const double *scale)
{
	double left = fabs((double)total[0]) * scale[0], right = fabs((double)total[1]) * scale[1];

	return left > right ? left : right;
}

static void add_values(int64_t *to, const int64_t *values)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		to[side] = engine_add(to[side], values[side]);
}

static uint32_t deepest(const struct growing *g)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < g->run_count; i++)
		most = g->runs[i].count > most ? g->runs[i].count : most;
	return most;
}

/* ---- first walk: the least weight that is kept ---- */

/* The `most` + 1 heaviest weights: a heap, the least on top. */
struct heaviest {
	double *heap;
	uint32_t count, cap, most;
};

static void sift_down(struct heaviest *h)
{
	double v = h->heap[0];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = at * 2 + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && h->heap[child + 1] < h->heap[child])
			child++;
		if (h->heap[child] >= v)
			break;
		h->heap[at] = h->heap[child];
		at = child;
	}
	h->heap[at] = v;
}

static void sift_up(struct heaviest *h)
{
	uint32_t at = h->count - 1;
	double v = h->heap[at];

	for (; at && h->heap[(at - 1) / 2] > v; at = (at - 1) / 2)
		h->heap[at] = h->heap[(at - 1) / 2];
	h->heap[at] = v;
}

static bool note_weight(struct growing *g, struct heaviest *h, double w, struct err *err)
{
	g->all++;
	if (h->count > h->most) {
		if (w > h->heap[0]) {
			h->heap[0] = w;
			sift_down(h);
		}
		return true;
	}
	if (!query_grow(g->s->q, &h->heap, &h->cap, h->count + 1u, sizeof(*h->heap), err))
		return false;
	h->heap[h->count++] = w;
	sift_up(h);
	return true;
}

/* Nodes of the run before from `keep` up are whole. totals[d]: of the node that is d + 1 deep. */
static bool weigh_path(struct growing *g, struct heaviest *h, int64_t (*totals)[QUERY_SIDES],
		       uint32_t depth, uint32_t keep, struct err *err)
{
	for (; depth > keep; depth--) {
		if (!note_weight(g, h, weight(totals[depth - 1], g->scale), err))
			return false;
		if (depth > 1)
			add_values(totals[depth - 2], totals[depth - 1]);
	}
	return true;
}

static bool weigh_runs(struct growing *g, struct heaviest *h, int64_t (*totals)[QUERY_SIDES],
		       struct err *err)
{
	uint32_t depth = 0;

	for (uint32_t i = 0; i < g->run_count; i++) {
		const struct frame_run *r = &g->runs[i];
		uint32_t keep = i ? common(r - 1, r, g->pool) : 0;

		if (!weigh_path(g, h, totals, depth, keep, err) || !query_alive(g->s->q, err))
			return false;
		if (r->count > keep)
			memset(totals + keep, 0, (r->count - keep) * sizeof(*totals));
		depth = r->count;
		if (depth)
			add_values(totals[depth - 1], r->value);
	}
	return weigh_path(g, h, totals, depth, 0, err);
}

/* The least weight with which at most `most` nodes stay, the root among them; ties at the limit
 * go. */
static bool least_weight(struct growing *g, uint32_t most, struct err *err)
{
	struct heaviest h = { .most = most };
	int64_t(*totals)[QUERY_SIDES] = NULL;
	uint32_t cap = 0;
	bool ok = query_grow(g->s->q, &totals, &cap, deepest(g) + 1u, sizeof(*totals), err) &&
		  note_weight(g, &h, weight(g->s->total, g->scale), err) &&
		  weigh_runs(g, &h, totals, err);

	if (ok && h.count > most && h.heap[0] >= g->least)
		g->least = nextafter(h.heap[0], INFINITY);
	query_drop(g->s->q, &totals, &cap, sizeof(*totals));
	query_drop(g->s->q, &h.heap, &h.cap, sizeof(*h.heap));
	return ok;
}

/* ---- second walk: the nodes ---- */

static bool new_node(struct growing *g, uint32_t frame, uint32_t depth, uint32_t parent,
		     struct err *err)
{
	if (!query_grow(g->s->q, &g->nodes, &g->cap, g->count + 1u, sizeof(*g->nodes), err))
		return false;
	g->nodes[g->count++] =
		(struct raw_node){ .frame = frame, .depth = depth, .parent = parent };
	return true;
}

/* Up from `at`, the deepest node that is made, until one is `depth` deep: each gives its total to
 * its parent, and goes when it is light. A child is never heavier than its parent unless signs
 * differ: then it goes with its parent. */
static uint32_t finish_path(struct growing *g, uint32_t at, uint32_t depth)
{
	while (g->nodes[at].depth > depth) {
		struct raw_node *n = &g->nodes[at];
		uint32_t parent = n->parent;

		add_values(n->total, n->self);
		add_values(g->nodes[parent].total, n->total);
		if (weight(n->total, g->scale) < g->least)
			g->count = at;
		at = parent;
	}
	return at;
}

static bool grow_tree(struct growing *g, struct err *err)
{
	uint32_t at = 0;

	if (!new_node(g, QUERY_FRAME_ROOT, 0, 0, err))
		return false;
	for (uint32_t i = 0; i < g->run_count; i++) {
		const struct frame_run *r = &g->runs[i];
		uint32_t keep = i ? common(r - 1, r, g->pool) : 0;

		at = finish_path(g, at, keep);
		for (uint32_t d = keep; d < r->count; d++, at = g->count - 1)
			if (!new_node(g, g->pool[r->first + d], d + 1, at, err))
				return false;
		add_values(g->nodes[at].self, r->value);
		if (!query_alive(g->s->q, err))
			return false;
	}
	finish_path(g, at, 0);
	add_values(g->nodes[0].total, g->nodes[0].self);
	return true;
}

/* ---- the answer: pre-order, heavier children first ---- */

struct emitting {
	struct growing *g;
	struct query_node *out;
	uint32_t count;
};

static bool before(const struct growing *g, uint32_t a, uint32_t b)
{
	double x = weight(g->nodes[a].total, g->scale), y = weight(g->nodes[b].total, g->scale);

	if (x != y)
		return x > y;
	/* Frames have their numbers by chance, keys have not. */
	return g->s->frames[g->nodes[a].frame].key < g->s->frames[g->nodes[b].frame].key;
}

/* Merge sort of a list linked by `next`. */
static uint32_t sort_list(struct growing *g, uint32_t list)
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
				bool take_a = a_left && (!b_left || !b || !before(g, b, a));
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

static void link_children(struct growing *g)
{
	for (uint32_t i = g->count; i > 1; i--) {
		struct raw_node *n = &g->nodes[i - 1], *parent = &g->nodes[n->parent];

		n->next = parent->child;
		parent->child = i - 1;
	}
	for (uint32_t i = 0; i < g->count; i++)
		if (g->nodes[i].child)
			g->nodes[i].child = sort_list(g, g->nodes[i].child);
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

static bool emit(struct growing *g, struct query_tree *out, struct err *err)
{
	struct emitting e = { .g = g };

	link_children(g);
	e.out = query_alloc(g->s->q, (uint64_t)g->count * 2, sizeof(*e.out), err);
	if (!e.out)
		return false;
	emit_all(&e);
	out->nodes = e.out;
	out->node_count = e.count;
	out->pruned_nodes =
		g->all - g->count < UINT32_MAX ? (uint32_t)(g->all - g->count) : UINT32_MAX;
	return true;
}

static bool make(struct growing *g, const struct query_tree_options *o, struct query_tree *out,
		 struct err *err)
{
	const struct frame_set *s = g->s;
	uint32_t most = o->nodes_most ? o->nodes_most : NODES_DEFAULT;

	g->least = o->share_least;
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		g->scale[side] = s->total[side] ? 1 / fabs((double)s->total[side]) : 1;
	if (!least_weight(g, most < QUERY_NODES_MOST ? most : QUERY_NODES_MOST, err) ||
	    !grow_tree(g, err))
		return false;
	/* What has no names is nobody's: the root's `other`. */
	add_values(g->nodes[0].total, s->unresolved);
	return emit(g, out, err);
}

bool tree_build(struct frame_set *s, struct frame_run *runs, uint32_t count, const uint32_t *pool,
		const struct query_tree_options *o, struct query_tree *out, struct err *err)
{
	struct growing g = { .s = s, .runs = runs, .run_count = count, .pool = pool };
	bool ok = sort_runs(s, runs, count, pool, err) && make(&g, o, out, err);

	query_drop(s->q, &g.nodes, &g.cap, sizeof(*g.nodes));
	out->stacks = count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return ok;
}
