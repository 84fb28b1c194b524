/* tree.c - runs of frames become a tree, heaviest children first. */
#include "query/tree/tree.h"

#include <math.h>
#include <stdlib.h>

#include "query/tree/grow.h"

enum { NODES_LEAST = 256 };

struct emitting {
	struct growing *g;
	struct query_node *out;
	uint32_t count;
};

static bool stands_before(const struct growing *g, uint32_t a, uint32_t b)
{
	double x = node_weight(g->nodes[a].total, g->scale),
	       y = node_weight(g->nodes[b].total, g->scale);

	if (x != y)
		return x > y;
	/* Frames have their numbers by chance, keys have not. */
	return g->s->frames[g->nodes[a].frame].key < g->s->frames[g->nodes[b].frame].key;
}

/* Merge sort of a list linked by `next`. */
static uint32_t sort_list(struct growing *g, uint32_t list)
{
	if (!g->nodes[list].next)
		return list;
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
				bool take_a = a_left && (!b_left || !b || !stands_before(g, b, a));
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

/* What a node's kept children and itself do not account for is its `other`: also where it adds up
 * to nothing, values of both signs can be found below it. */
static void emit_other(struct emitting *e, const struct raw_node *n)
{
	struct query_node other = { .frame = QUERY_FRAME_OTHER, .depth = n->depth + 1 };
	uint32_t kept = 0;

	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		other.total[side] = engine_subtract(n->total[side], n->self[side]);
		for (uint32_t c = n->child; c; c = e->g->nodes[c].next)
			other.total[side] =
				engine_subtract(other.total[side], e->g->nodes[c].total[side]);
		other.self[side] = other.total[side];
	}
	for (uint32_t c = n->child; c; c = e->g->nodes[c].next)
		kept++;
	if (other.total[0] || other.total[1] || kept < n->children)
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

static bool emit_tree(struct growing *g, struct query_tree *out, struct err *err)
{
	struct query *q = g->s->q;
	struct emitting e = { .g = g };
	uint32_t cap = 0;

	growing_release_runs(g);
	link_children(g);
	if (!QUERY_ROOM(q, e.out, cap, (uint64_t)g->count * 2, err))
		return false;
	emit_all(&e);
	QUERY_FIT(q, e.out, cap, e.count);
	out->nodes = e.out;
	out->node_count = e.count;
	if (!query_give(q, &e.out, &cap, err)) {
		QUERY_DROP(q, e.out, cap);
		return false;
	}
	out->pruned_nodes = g->pruned < UINT32_MAX ? (uint32_t)g->pruned : UINT32_MAX;
	return true;
}

static bool make_tree(struct growing *g, const struct frame_run *runs,
		      const struct query_tree_options *o, struct query_tree *out, struct err *err)
{
	const struct frame_set *s = g->s;

	g->least = o->share_least;
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		g->scale[side] = s->total[side] ? 1 / fabs((double)s->total[side]) : 1;
	if (!grow_tree(g, runs, err))
		return false;
	/* What has no names is nobody's: the root's `other`. */
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		g->nodes[0].total[side] = engine_add(g->nodes[0].total[side], s->unresolved[side]);
	return emit_tree(g, out, err);
}

bool tree_build(struct frame_set *s, struct tree_runs runs, const struct query_tree_options *o,
		struct query_tree *out, struct err *err)
{
	const struct number_table *asked = s->kept_paths;
	uint32_t most = o->nodes_most ? o->nodes_most : TREE_NODES_USUAL;
	uint32_t kept = asked ? asked->used + asked->paged : 0;
	bool ok, coarser = false;

	if (most > QUERY_NODES_MOST)
		most = QUERY_NODES_MOST;
	for (;;) {
		struct growing g = { .s = s,
				     .run_count = runs.count,
				     .pool = s->pool,
				     .heaviest.most = kept < most / 2 ? most - kept : most };

		ok = make_tree(&g, runs.ptr, o, out, err);
		growing_release(&g);
		if (ok || err->kind != ERR_LIMIT || most <= NODES_LEAST)
			break;
		most = most / 4 > NODES_LEAST ? most / 4 : NODES_LEAST;
		coarser = true;
	}
	if (ok && coarser)
		query_note_partial(s->q, "a tree of at most %u nodes: one query has %zu KiB", most,
				   s->q->memory.limit_bytes >> 10);
	out->stacks = runs.count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return ok;
}
