/*
 * tree.c - runs of frames become a tree, heaviest children first.
 *
 * There may be far more nodes than an answer keeps, and than a query has memory for. So nodes are
 * opened, heaviest first: the runs that lead through one are told apart by their next frame, which
 * makes its children. A child that cannot be among the heaviest that are kept, nor anything below
 * it, is only counted: of most runs nothing but the first few frames is ever looked at. Of those
 * that weigh as much as the first one too many, which in a young window are most (each stack was
 * seen once), the nearest to the root fill what room is left. Paths that a search is after are kept
 * whatever they weigh.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "query/tree/tree.h"
#include "base/regex.h"
#include "query/sum/frames.h"

enum { NODES_LEAST = 256, AHEAD = 8, TIES_MOST = 1 << 16 };

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
	bool plain; /* no value is negative or of the right side, and their sum is no overflow */
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

static void add_magnitudes(int64_t *to, const int64_t *values)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		int64_t v = values[side];

		to[side] = engine_add(to[side], v >= 0 ? v : v == INT64_MIN ? INT64_MAX : -v);
	}
}

/* ---- the least weight that is kept ---- */

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

static bool note_weight(struct growing *g, double w, struct err *err)
{
	struct heaviest *h = &g->heaviest;

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

/* Is it certain that nothing of this weight stays? At most `most` nodes do, the root among them;
 * ties at the limit go. */
static bool too_light(const struct growing *g, double w)
{
	const struct heaviest *h = &g->heaviest;

	return w < g->least || (h->count > h->most && w <= h->heap[0]);
}

/* As heavy as the first one too many: may it wait for what room is left? Where there are too many,
 * all go: which ones stay is no matter of chance. */
static bool may_tie(struct growing *g, double w)
{
	const struct heaviest *h = &g->heaviest;

	if (h->count <= h->most || w != h->heap[0] || w < g->least)
		return false;
	if (w != g->tie_weight) {
		g->tie_weight = w;
		g->tie_count = 0;
	}
	return ++g->tie_count <= TIES_MOST;
}

/* ---- nodes that wait to be opened ---- */

static bool wait_for(struct growing *g, uint32_t node, double reach, struct err *err)
{
	uint32_t at = g->waiting_count;

	if (!query_grow(g->s->q, &g->waiting, &g->waiting_cap, at + 1u, sizeof(*g->waiting), err))
		return false;
	g->waiting_count++;
	for (; at && g->waiting[(at - 1) / 2].reach < reach; at = (at - 1) / 2)
		g->waiting[at] = g->waiting[(at - 1) / 2];
	g->waiting[at] = (struct waiting){ reach, node };
	return true;
}

static struct waiting take_heaviest(struct growing *g)
{
	struct waiting top = g->waiting[0], last = g->waiting[--g->waiting_count];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = at * 2 + 1;

		if (child >= g->waiting_count)
			break;
		if (child + 1 < g->waiting_count &&
		    g->waiting[child + 1].reach > g->waiting[child].reach)
			child++;
		if (g->waiting[child].reach <= last.reach)
			break;
		g->waiting[at] = g->waiting[child];
		at = child;
	}
	g->waiting[at] = last;
	return top;
}

/* ---- opening a node ---- */

static bool add_branch(struct growing *g, uint32_t frame, struct err *err)
{
	if (!query_grow(g->s->q, &g->branches, &g->branch_cap, g->branch_count + 1u,
			sizeof(*g->branches), err))
		return false;
	g->branches[g->branch_count++] = (struct branch){ .frame = frame };
	g->branch_of[frame] = g->branch_count;
	return true;
}

/* Finds the branch of each of the node's runs and moves these on by a frame. Without a branch:
 * those that end in the node, how many are in *ended. `plain` spares what most trees do without. */
static inline __attribute__((always_inline)) bool find_branches(struct growing *g,
								struct raw_node *n, bool plain,
								uint32_t *ended, struct err *err)
{
	struct passing *runs = g->runs + n->first;

	*ended = 0;
	for (uint32_t i = 0; i < n->count; i++) {
		struct passing *r = &runs[i];
		struct branch *b;
		uint32_t frame;

		/* Frames of runs lie far apart; behind the node's there are more runs, or one. */
		__builtin_prefetch(&g->pool[runs[i + AHEAD < n->count ? i + AHEAD : i].at]);
		if (r->at == r->end) {
			add_values(n->self, r->value);
			g->branch_at[i] = 0;
			++*ended;
			continue;
		}
		frame = g->pool[r->at++];
		if (frame == RUN_CUT) { /* nobody's own: the node's `other` */
			g->branch_at[i] = 0;
			++*ended;
			continue;
		}
		if (!g->branch_of[frame] && !add_branch(g, frame, err))
			return false;
		g->branch_at[i] = g->branch_of[frame];
		b = &g->branches[g->branch_of[frame] - 1];
		b->count++;
		if (plain) {
			b->total[QUERY_LEFT] += r->value[QUERY_LEFT];
		} else {
			add_values(b->total, r->value);
			add_magnitudes(b->reach, r->value);
		}
	}
	return true;
}

/* The same of a node with one run, as most are far from the root. */
static bool find_branch(struct growing *g, struct raw_node *n, struct err *err)
{
	struct passing *r = &g->runs[n->first];
	struct branch *b;

	if (r->at == r->end) {
		add_values(n->self, r->value);
		return true;
	}
	if (g->pool[r->at++] == RUN_CUT)
		return true;
	if (!query_grow(g->s->q, &g->branches, &g->branch_cap, 1, sizeof(*g->branches), err))
		return false;
	b = &g->branches[g->branch_count++];
	*b = (struct branch){ .frame = g->pool[r->at - 1],
			      .count = 1,
			      .at = 1,
			      .total = { r->value[0], r->value[1] } };
	add_magnitudes(b->reach, r->value);
	return true;
}

/* The node's runs by their next frame: those that end in it are its own, the others are ordered
 * branch by branch. */
static bool split_runs(struct growing *g, struct raw_node *n, struct err *err)
{
	struct passing *runs = g->runs + n->first;
	uint32_t ended, at = 0;
	bool ok;

	g->branch_count = 0;
	if (n->count == 1)
		return find_branch(g, n, err);
	ok = g->plain ? find_branches(g, n, true, &ended, err)
		      : find_branches(g, n, false, &ended, err);
	for (uint32_t i = 0; i < g->branch_count; i++) {
		struct branch *b = &g->branches[i];

		b->at = at;
		at += b->count;
		g->branch_of[b->frame] = 0;
		if (g->plain)
			b->reach[QUERY_LEFT] = b->total[QUERY_LEFT];
	}
	if (!ok)
		return false;
	if (g->branch_count == 1 && !ended) {
		g->branches[0].at = at; /* all go the same way */
		return true;
	}
	memcpy(g->split, runs, n->count * sizeof(*runs));
	for (uint32_t i = 0; i < n->count; i++)
		if (g->branch_at[i])
			runs[g->branches[g->branch_at[i] - 1].at++] = g->split[i];
	return true;
}

static struct raw_node node_of(const struct growing *g, uint32_t parent, const struct branch *b)
{
	const struct number_table *asked = g->s->kept_paths;
	const struct raw_node *p = &g->nodes[parent];
	uint64_t path = path_step(p->path, g->s->frames[b->frame].key);

	return (struct raw_node){ .frame = b->frame,
				  .parent = parent,
				  .depth = p->depth + 1,
				  .first = p->first + b->at - b->count,
				  .count = b->count,
				  .total = { b->total[0], b->total[1] },
				  .weight = weight(b->total, g->scale),
				  .path = path,
				  .asked = asked && number_find(asked, path) != UINT32_MAX };
}

/* `only`: the only child of the heaviest node that waited. Where it reaches as far, *next is to be
 * opened at once, and does not wait. */
static bool add_child(struct growing *g, uint32_t parent, const struct branch *b,
		      const struct waiting *only, uint32_t *next, struct err *err)
{
	struct raw_node n = node_of(g, parent, b);
	double reach = weight(b->reach, g->scale);

	if (!note_weight(g, n.weight, err))
		return false;
	if (!n.asked && too_light(g, reach) && !(reach == n.weight && may_tie(g, reach)))
		return true;
	if (!query_grow(g->s->q, &g->nodes, &g->cap, g->count + 1u, sizeof(n), err))
		return false;
	g->nodes[g->count] = n;
	reach = n.asked ? INFINITY : reach;
	if (only && reach == only->reach && !too_light(g, reach)) {
		*next = g->count++;
		return true;
	}
	return wait_for(g, g->count++, reach, err);
}

/* Once a node: its runs go on to the next frame. */
static bool open_runs(struct growing *g, uint32_t node, struct err *err)
{
	struct raw_node *n = &g->nodes[node];

	assert(!n->opened);
	if (!split_runs(g, n, err))
		return false;
	n->opened = true;
	n->opened_at = g->count;
	n->children = g->branch_count;
	return true;
}

/* And those below it that are as heavy, one below another. */
static bool open_nodes(struct growing *g, const struct waiting *heaviest, struct err *err)
{
	uint32_t node = heaviest->node, next;

	for (;; node = next) {
		next = 0;
		if (!open_runs(g, node, err))
			return false;
		for (uint32_t i = 0; i < g->branch_count; i++)
			if (!add_child(g, node, &g->branches[i],
				       g->branch_count == 1 ? heaviest : NULL, &next, err))
				return false;
		if (!query_alive(g->s->q, err))
			return false;
		if (!next)
			return true;
	}
}

static bool open_root(struct growing *g, const struct frame_run *runs, struct err *err)
{
	struct query *q = g->s->q;
	uint64_t room = g->run_count + 1u;
	int64_t sum = 0;
	struct raw_node *root;

	if (!query_grow(q, &g->runs, &g->run_cap, room, sizeof(*g->runs), err) ||
	    !query_grow(q, &g->split, &g->split_cap, room, sizeof(*g->split), err) ||
	    !query_grow(q, &g->branch_at, &g->branch_at_cap, room, sizeof(uint32_t), err) ||
	    !query_grow(q, &g->branch_of, &g->branch_of_cap, g->s->frame_count + 1u,
			sizeof(uint32_t), err) ||
	    !query_grow(q, &g->nodes, &g->cap, 1, sizeof(*g->nodes), err))
		return false;
	memset(g->branch_of, 0, g->branch_of_cap * sizeof(*g->branch_of));
	root = &g->nodes[g->count++];
	*root = (struct raw_node){ .frame = QUERY_FRAME_ROOT, .count = g->run_count };
	g->plain = true;
	for (uint32_t i = 0; i < g->run_count; i++) {
		const int64_t *v = runs[i].value;

		if (v[QUERY_LEFT] < 0 || v[QUERY_RIGHT] ||
		    __builtin_add_overflow(sum, v[QUERY_LEFT], &sum))
			g->plain = false;
		g->runs[i] = (struct passing){ .at = runs[i].first,
					       .end = runs[i].first + runs[i].count };
		memcpy(g->runs[i].value, runs[i].value, sizeof(runs[i].value));
		add_values(root->total, runs[i].value);
	}
	return note_weight(g, weight(g->s->total, g->scale), err) &&
	       open_nodes(g, &(struct waiting){ .reach = NAN }, err);
}

/* ---- those that weigh as much as the first one too many ---- */

static int by_depth_and_path(const void *a, const void *b, void *ctx)
{
	const struct growing *g = ctx;
	const struct raw_node *x = &g->nodes[*(const uint32_t *)a];
	const struct raw_node *y = &g->nodes[*(const uint32_t *)b];

	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return x->path < y->path ? -1 : x->path > y->path;
}

static bool add_tie(struct growing *g, uint32_t node, uint32_t *count, struct err *err)
{
	if (!query_grow(g->s->q, &g->ties, &g->tie_cap, *count + 1u, sizeof(*g->ties), err))
		return false;
	g->ties[(*count)++] = node;
	return true;
}

/* Its children of that weight, of a node that was opened before the limit was known. */
static bool add_opened(struct growing *g, uint32_t node, double w, uint32_t *count, struct err *err)
{
	for (uint32_t i = g->nodes[node].opened_at; i < g->count && g->nodes[i].parent == node; i++)
		if (g->nodes[i].weight == w && !add_tie(g, i, count, err))
			return false;
	return true;
}

/* The node's own part, and those of its children that weigh as much as itself. */
static bool open_tie(struct growing *g, uint32_t node, double w, uint32_t *count, struct err *err)
{
	g->nodes[node].tie = true;
	if (g->nodes[node].opened)
		return add_opened(g, node, w, count, err);
	if (!open_runs(g, node, err))
		return false;
	for (uint32_t i = 0; i < g->branch_count; i++) {
		struct raw_node n = node_of(g, node, &g->branches[i]);

		if (n.weight != w)
			continue;
		if (!query_grow(g->s->q, &g->nodes, &g->cap, g->count + 1u, sizeof(n), err))
			return false;
		g->nodes[g->count] = n;
		if (!add_tie(g, g->count++, count, err))
			return false;
	}
	return query_alive(g->s->q, err);
}

/* Those that are children of heavier ones; *room is left by these. By depth, then by path. */
static bool find_ties(struct growing *g, double w, uint32_t *room, uint32_t *count, struct err *err)
{
	for (uint32_t i = 0; i < g->count && *room; i++) {
		const struct raw_node *n = &g->nodes[i];

		if (i == 0 || n->weight > w)
			--*room;
		else if (n->weight == w && (!n->parent || g->nodes[n->parent].weight > w) &&
			 !add_tie(g, i, count, err))
			return false;
	}
	if (*count)
		qsort_r(g->ties, *count, sizeof(*g->ties), by_depth_and_path, g);
	return true;
}

/* Level by level, the nearest to the root first, as long as there is room. */
static bool keep_ties(struct growing *g, struct err *err)
{
	const struct heaviest *h = &g->heaviest;
	uint32_t room = h->most, count = 0, found, next = 0, at;
	double w = h->count > h->most ? h->heap[0] : 0;

	if (w <= 0 || w < g->least || (w == g->tie_weight && g->tie_count > TIES_MOST))
		return true;
	if (!find_ties(g, w, &room, &count, err))
		return false;
	found = at = count;
	while (room && (at < count || next < found)) {
		/* Behind those that were found: the children of the level above, and who else is of
		 * their depth. */
		uint32_t depth = g->nodes[g->ties[at < count ? at : next]].depth, end;

		while (next < found && g->nodes[g->ties[next]].depth == depth)
			if (!add_tie(g, g->ties[next++], &count, err))
				return false;
		qsort_r(g->ties + at, count - at, sizeof(*g->ties), by_depth_and_path, g);
		for (end = count; at < end && room; at++, room--)
			if (!open_tie(g, g->ties[at], w, &count, err))
				return false;
	}
	return true;
}

/* The nodes that are heavy enough, now that it is known what that is. What is light goes with all
 * below it: that is not heavier unless signs differ. */
static void drop_light(struct growing *g)
{
	uint32_t kept = 1;

	g->pruned = g->nodes[0].children;
	for (uint32_t i = 1; i < g->count; i++) {
		struct raw_node *n = &g->nodes[i];

		n->parent = g->nodes[n->parent].next; /* its new place */
		n->next = UINT32_MAX;
		if ((too_light(g, n->weight) && !n->tie && !n->asked) || n->parent == UINT32_MAX)
			continue;
		n->next = kept++;
		g->pruned += n->children;
		g->pruned--;
	}
	for (uint32_t i = 1; i < g->count; i++) {
		struct raw_node n = g->nodes[i];

		if (n.next == UINT32_MAX)
			continue;
		g->nodes[n.next] = n;
		g->nodes[n.next].next = 0;
	}
	g->count = kept;
}

static bool grow_tree(struct growing *g, const struct frame_run *runs, struct err *err)
{
	if (!open_root(g, runs, err))
		return false;
	while (g->waiting_count) {
		struct waiting w = take_heaviest(g);

		if (too_light(g, w.reach))
			break;
		if (!open_nodes(g, &w, err))
			return false;
	}
	if (!keep_ties(g, err))
		return false;
	drop_light(g);
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

/* Sums near the end of what 64 bits hold are cut, as in engine_add(). */
static int64_t less(int64_t a, int64_t b)
{
	int64_t v;

	return __builtin_sub_overflow(a, b, &v) ? (b < 0 ? INT64_MAX : INT64_MIN) : v;
}

/* What a node's kept children and itself do not account for is its `other`: also where it adds up
 * to nothing, values of both signs can be found below it. */
static void emit_other(struct emitting *e, const struct raw_node *n)
{
	struct query_node other = { .frame = QUERY_FRAME_OTHER, .depth = n->depth + 1 };
	uint32_t kept = 0;

	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		other.total[side] = less(n->total[side], n->self[side]);
		for (uint32_t c = n->child; c; c = e->g->nodes[c].next)
			other.total[side] = less(other.total[side], e->g->nodes[c].total[side]);
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

/* All but the nodes. */
static void release_runs(struct growing *g)
{
	struct query *q = g->s->q;

	query_drop(q, &g->runs, &g->run_cap, sizeof(*g->runs));
	query_drop(q, &g->split, &g->split_cap, sizeof(*g->split));
	query_drop(q, &g->branch_at, &g->branch_at_cap, sizeof(uint32_t));
	query_drop(q, &g->ties, &g->tie_cap, sizeof(*g->ties));
	query_drop(q, &g->waiting, &g->waiting_cap, sizeof(*g->waiting));
	query_drop(q, &g->branches, &g->branch_cap, sizeof(*g->branches));
	query_drop(q, &g->branch_of, &g->branch_of_cap, sizeof(uint32_t));
	query_drop(q, &g->heaviest.heap, &g->heaviest.cap, sizeof(*g->heaviest.heap));
}

static bool emit(struct growing *g, struct query_tree *out, struct err *err)
{
	struct query *q = g->s->q;
	struct emitting e = { .g = g };
	uint32_t cap = 0;

	release_runs(g);
	link_children(g);
	if (!query_grow(q, &e.out, &cap, (uint64_t)g->count * 2, sizeof(*e.out), err))
		return false;
	emit_all(&e);
	query_fit(q, &e.out, &cap, e.count, sizeof(*e.out));
	out->nodes = e.out;
	out->node_count = e.count;
	if (!query_give(q, &e.out, &cap, err)) {
		query_drop(q, &e.out, &cap, sizeof(*e.out));
		return false;
	}
	out->pruned_nodes = g->pruned < UINT32_MAX ? (uint32_t)g->pruned : UINT32_MAX;
	return true;
}

static bool make(struct growing *g, const struct frame_run *runs,
		 const struct query_tree_options *o, struct query_tree *out, struct err *err)
{
	const struct frame_set *s = g->s;

	g->least = o->share_least;
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		g->scale[side] = s->total[side] ? 1 / fabs((double)s->total[side]) : 1;
	if (!grow_tree(g, runs, err))
		return false;
	/* What has no names is nobody's: the root's `other`. */
	add_values(g->nodes[0].total, s->unresolved);
	return emit(g, out, err);
}

static void growing_release(struct growing *g)
{
	query_drop(g->s->q, &g->nodes, &g->cap, sizeof(*g->nodes));
	release_runs(g);
}

bool tree_build(struct frame_set *s, const struct frame_run *runs, uint32_t count,
		const uint32_t *pool, const struct query_tree_options *o, struct query_tree *out,
		struct err *err)
{
	const struct number_table *asked = s->kept_paths;
	uint32_t most = o->nodes_most ? o->nodes_most : TREE_NODES_USUAL;
	uint32_t kept = asked ? asked->used + asked->paged : 0;
	bool ok, coarser = false;

	if (most > QUERY_NODES_MOST)
		most = QUERY_NODES_MOST;
	for (;;) {
		struct growing g = { .s = s,
				     .run_count = count,
				     .pool = pool,
				     .heaviest.most = kept < most / 2 ? most - kept : most };

		ok = make(&g, runs, o, out, err);
		growing_release(&g);
		if (ok || err->kind != ERR_LIMIT || most <= NODES_LEAST)
			break;
		most = most / 4 > NODES_LEAST ? most / 4 : NODES_LEAST;
		coarser = true;
	}
	if (ok && coarser)
		query_note_partial(s->q, "a tree of at most %u nodes: one query has %zu KiB", most,
				   s->q->memory.limit_bytes >> 10);
	out->stacks = count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return ok;
}
