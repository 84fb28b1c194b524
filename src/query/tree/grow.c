/*
 * grow.c - which nodes of a tree are kept: the heaviest.
 *
 * There may be far more nodes than an answer keeps, and than a query has memory for. So nodes are
 * opened, heaviest first: the runs that lead through one are told apart by their next frame, which
 * makes its children. A child that cannot be among the heaviest that are kept, nor anything below
 * it, is only counted: of most runs nothing but the first few frames is ever looked at. Of those
 * that weigh as much as the first one too many, which in a young window are most (each stack was
 * seen once), the nearest to the root fill what room is left. Paths that a search is after are kept
 * whatever they weigh.
 */
#include "query/tree/grow.h"

#include <assert.h>
#include <stdlib.h>

#include "query/tree/tree.h"

enum { TIES_MOST = 1 << 16 };

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
	if (!QUERY_ROOM(g->s->q, h->heap, h->cap, h->count + 1u, err))
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

	if (!QUERY_ROOM(g->s->q, g->waiting, g->waiting_cap, at + 1u, err))
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
	if (!QUERY_ROOM(g->s->q, g->branches, g->branch_cap, g->branch_count + 1u, err))
		return false;
	g->branches[g->branch_count++] = (struct branch){ .frame = frame };
	g->branch_of[frame] = g->branch_count;
	return true;
}

/* Finds the branch of each of the node's runs and moves these on by a frame. Without a branch:
 * those that end in the node. */
static bool find_branches(struct growing *g, struct raw_node *n, struct err *err)
{
	struct passing *runs = g->runs + n->first;

	for (uint32_t i = 0; i < n->count; i++) {
		struct passing *r = &runs[i];
		struct branch *b;
		uint32_t frame;

		g->branch_at[i] = 0;
		if (r->at == r->end) {
			add_values(n->self, r->value);
			continue;
		}
		frame = g->pool[r->at++];
		if (frame == RUN_CUT) /* nobody's own: the node's `other` */
			continue;
		if (!g->branch_of[frame] && !add_branch(g, frame, err))
			return false;
		g->branch_at[i] = g->branch_of[frame];
		b = &g->branches[g->branch_of[frame] - 1];
		b->count++;
		add_values(b->total, r->value);
		add_magnitudes(b->reach, r->value);
	}
	return true;
}

/* The node's runs by their next frame: those that end in it are its own, the others are ordered
 * branch by branch. */
static bool split_runs(struct growing *g, struct raw_node *n, struct err *err)
{
	struct passing *runs = g->runs + n->first;
	uint32_t at = 0;
	bool ok;

	g->branch_count = 0;
	ok = find_branches(g, n, err);
	for (uint32_t i = 0; i < g->branch_count; i++) {
		struct branch *b = &g->branches[i];

		b->at = at;
		at += b->count;
		g->branch_of[b->frame] = 0;
	}
	if (!ok)
		return false;
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
				  .weight = node_weight(b->total, g->scale),
				  .path = path,
				  .asked = asked && number_find(asked, path) != UINT32_MAX };
}

static bool add_child(struct growing *g, uint32_t parent, const struct branch *b, struct err *err)
{
	struct raw_node n = node_of(g, parent, b);
	double reach = node_weight(b->reach, g->scale);

	if (!note_weight(g, n.weight, err))
		return false;
	if (!n.asked && too_light(g, reach) && !(reach == n.weight && may_tie(g, reach)))
		return true;
	if (!QUERY_ROOM(g->s->q, g->nodes, g->cap, g->count + 1u, err))
		return false;
	g->nodes[g->count] = n;
	return wait_for(g, g->count++, n.asked ? INFINITY : reach, err);
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

static bool open_node(struct growing *g, uint32_t node, struct err *err)
{
	if (!open_runs(g, node, err))
		return false;
	for (uint32_t i = 0; i < g->branch_count; i++)
		if (!add_child(g, node, &g->branches[i], err))
			return false;
	return query_alive(g->s->q, err);
}

static bool open_root(struct growing *g, const struct frame_run *runs, struct err *err)
{
	struct query *q = g->s->q;
	uint64_t room = g->run_count + 1u;
	struct raw_node *root;

	if (!QUERY_ROOM(q, g->runs, g->run_cap, room, err) ||
	    !QUERY_ROOM(q, g->split, g->split_cap, room, err) ||
	    !QUERY_ROOM(q, g->branch_at, g->branch_at_cap, room, err) ||
	    !QUERY_ROOM(q, g->branch_of, g->branch_of_cap, g->s->frame_count + 1u, err) ||
	    !QUERY_ROOM(q, g->nodes, g->cap, 1, err))
		return false;
	memset(g->branch_of, 0, g->branch_of_cap * sizeof(*g->branch_of));
	root = &g->nodes[g->count++];
	*root = (struct raw_node){ .frame = QUERY_FRAME_ROOT, .count = g->run_count };
	for (uint32_t i = 0; i < g->run_count; i++) {
		g->runs[i] = (struct passing){ .at = runs[i].first,
					       .end = runs[i].first + runs[i].count };
		memcpy(g->runs[i].value, runs[i].value, sizeof(runs[i].value));
		add_values(root->total, runs[i].value);
	}
	return note_weight(g, node_weight(g->s->total, g->scale), err) && open_node(g, 0, err);
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
	if (!QUERY_ROOM(g->s->q, g->ties, g->tie_cap, *count + 1u, err))
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
		if (!QUERY_ROOM(g->s->q, g->nodes, g->cap, g->count + 1u, err))
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

bool grow_tree(struct growing *g, const struct frame_run *runs, struct err *err)
{
	if (!open_root(g, runs, err))
		return false;
	while (g->waiting_count) {
		struct waiting w = take_heaviest(g);

		if (too_light(g, w.reach))
			break;
		if (!open_node(g, w.node, err))
			return false;
	}
	if (!keep_ties(g, err))
		return false;
	drop_light(g);
	return true;
}

void growing_release_runs(struct growing *g)
{
	struct query *q = g->s->q;

	QUERY_DROP(q, g->runs, g->run_cap);
	QUERY_DROP(q, g->split, g->split_cap);
	QUERY_DROP(q, g->branch_at, g->branch_at_cap);
	QUERY_DROP(q, g->ties, g->tie_cap);
	QUERY_DROP(q, g->waiting, g->waiting_cap);
	QUERY_DROP(q, g->branches, g->branch_cap);
	QUERY_DROP(q, g->branch_of, g->branch_of_cap);
	QUERY_DROP(q, g->heaviest.heap, g->heaviest.cap);
}

void growing_release(struct growing *g)
{
	QUERY_DROP(g->s->q, g->nodes, g->cap);
	growing_release_runs(g);
}
