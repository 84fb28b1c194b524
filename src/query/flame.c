/* flame.c - flame graphs, merged and inverted, of one selection or two; sandwiches; top tables. */
#include <stdlib.h>

#include "query/engine.h"
#include "query/regex.h"

static const struct query_tree_options defaults;

/* ---- what is asked about stacks before they become a tree ---- */

/* Leaves the runs that begin with the path, from behind it. */
static void follow_path(struct frame_set *s, const struct query_tree_options *o)
{
	uint32_t kept = 0;

	for (unsigned side = 0; side < QUERY_SIDES && o->path_count; side++)
		s->total[side] = s->unresolved[side] = 0;
	for (uint32_t i = 0; i < s->run_count && o->path_count; i++) {
		struct frame_run r = s->runs[i];
		uint32_t n = 0;

		while (n < o->path_count && n < r.count &&
		       s->frames[s->pool[r.first + n]].key == o->path[n])
			n++;
		if (n < o->path_count)
			continue;
		r.first += n;
		r.count -= n;
		for (unsigned side = 0; side < QUERY_SIDES; side++)
			s->total[side] = engine_add(s->total[side], r.value[side]);
		s->runs[kept++] = r;
	}
	if (o->path_count)
		s->run_count = kept;
}

static void reverse(uint32_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t t = frames[i];

		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = t;
	}
}

/* A group stays outermost. */
static void invert(struct frame_set *s)
{
	for (uint32_t i = 0; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];
		uint32_t kept = r->count && s->frames[s->pool[r->first]].group;

		reverse(s->pool + r->first + kept, r->count - kept);
	}
}

static bool find_frames(struct frame_set *s, struct str pattern, struct err *err)
{
	struct regex *r = regex_new(pattern, REGEX_WITHIN, err);
	struct buf name;
	bool ok = r != NULL;

	buf_init(&name, 0);
	for (uint32_t i = 0; i < s->frame_count && ok; i++) {
		if (s->frames[i].group)
			continue;
		buf_reset(&name);
		query_frame_append_name(&name, &s->frames[i], s->q->request.by);
		ok = query_alive(s->q, err) &&
		     regex_match(r, buf_view(&name), &s->frames[i].found, err);
	}
	buf_release(&name);
	regex_free(r);
	return ok;
}

static bool run_found(const struct frame_set *s, const struct frame_run *r)
{
	for (uint32_t i = r->first; i < r->first + r->count; i++)
		if (s->frames[s->pool[i]].found)
			return true;
	return false;
}

static bool search(struct frame_set *s, struct str pattern, struct query_tree *out, struct err *err)
{
	if (!pattern.len)
		return true;
	if (!find_frames(s, pattern, err))
		return false;
	for (uint32_t i = 0; i < s->run_count; i++)
		for (unsigned side = 0; side < QUERY_SIDES && run_found(s, &s->runs[i]); side++)
			out->matched[side] = engine_add(out->matched[side], s->runs[i].value[side]);
	return true;
}

/* ---- flame graph and diff ---- */

static bool graph(struct query *left, struct query *right, const struct query_tree_options *o,
		  struct query_tree *out, struct err *err)
{
	struct query_tree tree = { 0 };
	struct frame_set s;
	bool ok;

	o = o ? o : &defaults;
	if (!frame_set_of(&s, left, right, o->group_by, err))
		return false;
	if (o->inverted)
		invert(&s); /* first: a path leads from the root of the tree that is shown */
	follow_path(&s, o);
	ok = search(&s, o->search, &tree, err) &&
	     tree_build(&s, s.runs, s.run_count, s.pool, o, &tree, err) &&
	     frame_set_give(&s, &tree.frames, err);
	frame_set_release(&s);
	if (ok)
		*out = tree;
	return ok;
}

bool query_flamegraph(struct query *q, const struct query_tree_options *o, struct query_tree *out,
		      struct err *err)
{
	return graph(q, NULL, o, out, err);
}

bool query_diff(struct query *left, struct query *right, const struct query_tree_options *o,
		struct query_tree *out, struct err *err)
{
	return graph(left, right, o, out, err);
}

/* ---- sandwich ---- */

struct halves {
	struct frame_run *callers, *callees;
	uint32_t callers_cap, callees_cap, count;
	uint32_t *pool; /* of the callers: from the function to the root */
	uint32_t pool_count, pool_cap;
};

/* Where the frame stands nearest to the root; r->count when it does not. */
static uint32_t outermost(const struct frame_set *s, const struct frame_run *r, uint64_t key)
{
	uint32_t i = 0;

	while (i < r->count && s->frames[s->pool[r->first + i]].key != key)
		i++;
	return i;
}

static bool add_halves(struct halves *h, struct frame_set *s, const struct frame_run *r,
		       uint32_t at, struct err *err)
{
	struct query *q = s->q;
	struct frame_run callers = *r, callees = *r;

	if (!query_grow(q, &h->callers, &h->callers_cap, h->count + 1u, sizeof(*r), err) ||
	    !query_grow(q, &h->callees, &h->callees_cap, h->count + 1u, sizeof(*r), err) ||
	    !query_grow(q, &h->pool, &h->pool_cap, (uint64_t)h->pool_count + at + 1,
			sizeof(uint32_t), err))
		return false;
	callers.first = h->pool_count;
	callers.count = at + 1;
	for (uint32_t i = 0; i <= at; i++)
		h->pool[h->pool_count++] = s->pool[r->first + at - i];
	callees.first += at;
	callees.count -= at;
	h->callers[h->count] = callers;
	h->callees[h->count++] = callees;
	return true;
}

static bool split(struct halves *h, struct frame_set *s, uint64_t key, struct err *err)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		s->total[side] = s->unresolved[side] = 0;
	for (uint32_t i = 0; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];
		uint32_t at = outermost(s, r, key);

		if (at == r->count)
			continue;
		if (!query_alive(s->q, err) || !add_halves(h, s, r, at, err))
			return false;
		for (unsigned side = 0; side < QUERY_SIDES; side++)
			s->total[side] = engine_add(s->total[side], r->value[side]);
	}
	return true;
}

bool query_sandwich(struct query *q, uint64_t frame_key, const struct query_tree_options *o,
		    struct query_sandwich *out, struct err *err)
{
	struct query_sandwich both = { 0 };
	struct halves h = { 0 };
	struct frame_set s;
	bool ok;

	o = o ? o : &defaults;
	if (!frame_set_of(&s, q, NULL, (struct str){ 0 }, err))
		return false;
	ok = split(&h, &s, frame_key, err) &&
	     tree_build(&s, h.callers, h.count, h.pool, o, &both.callers, err) &&
	     tree_build(&s, h.callees, h.count, s.pool, o, &both.callees, err) &&
	     frame_set_give(&s, &both.callers.frames, err);
	both.callees.frames = both.callers.frames;
	both.found = h.count > 0;
	query_drop(q, &h.callers, &h.callers_cap, sizeof(*h.callers));
	query_drop(q, &h.callees, &h.callees_cap, sizeof(*h.callees));
	query_drop(q, &h.pool, &h.pool_cap, sizeof(uint32_t));
	frame_set_release(&s);
	if (ok)
		*out = both;
	return ok;
}

/* ---- top table ---- */

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
}

static uint64_t larger(const int64_t *v)
{
	uint64_t a = magnitude(v[0]), b = magnitude(v[1]);

	return a > b ? a : b;
}

static int row_order(const void *a, const void *b)
{
	const struct query_top_row *x = a, *y = b;
	uint64_t xs = larger(x->self), ys = larger(y->self), xt = larger(x->total),
		 yt = larger(y->total);

	if (xs != ys)
		return xs > ys ? -1 : 1;
	if (xt != yt)
		return xt > yt ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static void add_run(struct query_top_row *rows, uint32_t *seen, uint32_t turn,
		    const struct frame_set *s, const struct frame_run *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		uint32_t frame = s->pool[r->first + i];
		bool leaf = i + 1 == r->count, again = seen[frame] == turn;

		seen[frame] = turn;
		for (unsigned side = 0; side < QUERY_SIDES; side++) {
			int64_t v = r->value[side];

			if (!again)
				rows[frame].total[side] = engine_add(rows[frame].total[side], v);
			if (leaf)
				rows[frame].self[side] = engine_add(rows[frame].self[side], v);
		}
	}
}

static bool tabulate(struct frame_set *s, struct query_top *out, struct err *err)
{
	struct query_top_row *rows = query_alloc(s->q, s->frame_count + 1u, sizeof(*rows), err);
	uint32_t *seen = NULL, cap = 0, kept = 0;

	if (!rows || !query_grow(s->q, &seen, &cap, s->frame_count + 1u, sizeof(*seen), err))
		return false;
	memset(seen, 0, cap * sizeof(*seen));
	for (uint32_t i = 0; i < s->run_count; i++)
		add_run(rows, seen, i + 1, s, &s->runs[i]);
	for (uint32_t i = 0; i < s->frame_count; i++) {
		rows[i].frame = i;
		if (seen[i]) /* filters may have left nothing of it */
			rows[kept++] = rows[i];
	}
	query_drop(s->q, &seen, &cap, sizeof(*seen));
	qsort(rows, kept, sizeof(*rows), row_order);
	out->rows = rows;
	out->row_count = kept;
	out->stacks = s->run_count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return true;
}

bool query_top_diff(struct query *left, struct query *right, struct query_top *out, struct err *err)
{
	struct query_top top = { 0 };
	struct frame_set s;
	bool ok;

	if (!frame_set_of(&s, left, right, (struct str){ 0 }, err))
		return false;
	ok = tabulate(&s, &top, err) && frame_set_give(&s, &top.frames, err);
	frame_set_release(&s);
	if (ok)
		*out = top;
	return ok;
}

bool query_top(struct query *q, struct query_top *out, struct err *err)
{
	return query_top_diff(q, NULL, out, err);
}
