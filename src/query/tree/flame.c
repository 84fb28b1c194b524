/* flame.c - flame graphs, merged and inverted, of one selection or two. */
#include <stdlib.h>

#include "query/diff/sides.h"
#include "query/tree/search.h"
#include "query/tree/tree.h"

static const struct query_tree_options defaults;

struct drawing {
	const struct query_tree_options *o;
	struct query *q; /* whose memory it is */
	struct search search;
	struct found_paths found;
	uint32_t farthest; /* how many frames of the path any run has, at most */
	bool any;          /* there was a run that could have it */
};

/* ---- what is asked about stacks before they become a tree ---- */

static bool follows(struct drawing *d, const struct frame_set *s, const struct frame_run *r)
{
	const struct query_tree_options *o = d->o;
	uint32_t n = 0;

	while (n < o->path_count && n < r->count && s->pool[r->first + n] != RUN_CUT &&
	       s->frames[s->pool[r->first + n]].key == o->path[n])
		n++;
	d->any = true;
	if (n > d->farthest)
		d->farthest = n;
	return n == o->path_count;
}

/* Leaves the runs that begin with the path, from behind it. */
static void follow_path(struct drawing *d, struct frame_set *s, uint32_t first)
{
	const struct query_tree_options *o = d->o;
	uint32_t kept = first;

	for (uint32_t i = first; i < s->run_count && o->path_count; i++) {
		struct frame_run r = s->runs[i];

		if (follows(d, s, &r)) {
			r.first += o->path_count;
			r.count -= o->path_count;
			s->runs[kept++] = r;
			continue;
		}
		for (unsigned side = 0; side < QUERY_SIDES; side++)
			s->total[side] = engine_subtract(s->total[side], r.value[side]);
	}
	if (o->path_count)
		s->run_count = kept;
}

/* A key of another answer, of a frame that merged several, or of nothing at all. */
static void note_no_path(const struct drawing *d)
{
	uint32_t count = d->o->path_count;

	if (d->any && d->farthest < count)
		query_note_partial(d->q,
				   "nothing below root: no stack begins with its %u frames; frame "
				   "%u, %016llx, is not where root says",
				   count, d->farthest + 1,
				   (unsigned long long)d->o->path[d->farthest]);
}

static void reverse_run(uint32_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t t = frames[i];

		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = t;
	}
}

/* A group stays outermost. */
static void turn_around(void *ctx, struct frame_set *s, uint32_t first)
{
	(void)ctx;
	for (uint32_t i = first; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];
		uint32_t kept = r->count && s->frames[s->pool[r->first]].group;

		reverse_run(s->pool + r->first + kept, r->count - kept);
	}
}

static bool look_at(void *ctx, struct frame_set *s, uint32_t first, struct err *err)
{
	struct drawing *d = ctx;

	if (!search_frames(&d->search, s, err))
		return false;
	follow_path(d, s, first);
	for (uint32_t i = first; i < s->run_count; i++)
		found_add(&d->found, &d->search, s, &s->runs[i], s->pool);
	return true;
}

static void begin_drawing(void *ctx)
{
	struct drawing *d = ctx;

	found_release(d->q, &d->found);
	d->farthest = 0;
	d->any = false;
}

/* ---- flame graph and diff ---- */

static bool draw_tree(struct drawing *d, struct query *left, struct query *right,
		      struct query_tree *out, struct err *err)
{
	const struct query_tree_options *o = d->o;
	/* Turned first: a path leads from the root of the tree that is shown. */
	struct frame_use use = { .begin = begin_drawing,
				 .orient = o->inverted ? turn_around : NULL,
				 .use = look_at,
				 .ctx = d };
	struct query_tree tree = { 0 };
	struct frame_set s;
	bool ok;

	if (!frame_set_of(&s, &(struct query_sides){ left, right, o->group_by }, &use, err))
		return false;
	if (o->path_count)
		frame_set_drop_unresolved(&s);
	note_no_path(d);
	memcpy(tree.matched, d->found.matched, sizeof(tree.matched));
	found_keep(&d->found, &s, o->nodes_most ? o->nodes_most : TREE_NODES_USUAL);
	ok = tree_build(&s, (struct tree_runs){ s.runs, s.run_count }, o, &tree, err) &&
	     frame_set_give(&s, &tree.frames, err);
	frame_set_release(&s);
	if (ok)
		*out = tree;
	return ok;
}

static bool flame_graph(struct query *left, struct query *right, const struct query_tree_options *o,
			struct query_tree *out, struct err *err)
{
	struct drawing d = { .o = o ? o : &defaults, .q = left };
	bool ok = search_begin(&d.search, d.o->search, err) && draw_tree(&d, left, right, out, err);

	found_release(left, &d.found);
	search_end(&d.search);
	return ok;
}

bool query_flamegraph(struct query *q, const struct query_tree_options *o, struct query_tree *out,
		      struct err *err)
{
	return flame_graph(q, NULL, o, out, err);
}

bool query_diff(struct query *left, struct query *right, const struct query_tree_options *o,
		struct query_tree *out, struct err *err)
{
	return flame_graph(left, right, o, out, err);
}
