/* sandwich.c - a function with its callers above and its callees below, from its outermost place
 * on.
 */
#include <stdlib.h>

#include "query/diff/sides.h"
#include "query/tree/search.h"
#include "query/tree/tree.h"

static const struct query_tree_options defaults;

/* Each run with the function in it becomes two, from the function to the root and to the leaf. What
 * these begin with says which half one is. */
enum half { CALLERS, CALLEES, HALVES };

struct splitting {
	uint64_t key;
	uint32_t mark[HALVES]; /* frames */
	bool found;
	struct frame_run *runs; /* room for those of one call */
	uint32_t cap;
	struct query *q;
	struct search search;
	struct found_paths paths[HALVES];
};

/* Where the frame stands nearest to the root; r->count when it does not. */
static uint32_t outermost(const struct frame_set *s, const struct frame_run *r, uint64_t key)
{
	uint32_t i = 0;

	while (i < r->count && s->frames[s->pool[r->first + i]].key != key)
		i++;
	return i;
}

static struct frame_run put_half(struct frame_set *s, const struct frame_run *r, uint32_t mark)
{
	struct frame_run out = *r;

	out.first = s->pool_count;
	out.count = 1;
	s->pool[s->pool_count++] = mark;
	return out;
}

static void put_halves(struct splitting *c, struct frame_set *s, const struct frame_run *r,
		       uint32_t at, struct frame_run *out)
{
	const uint32_t *frames = s->pool + r->first;

	out[CALLERS] = put_half(s, r, c->mark[CALLERS]);
	for (uint32_t i = at + 1; i > 0; i--)
		s->pool[s->pool_count++] = frames[i - 1];
	out[CALLERS].count += at + 1;
	out[CALLEES] = put_half(s, r, c->mark[CALLEES]);
	for (uint32_t i = at; i < r->count; i++)
		s->pool[s->pool_count++] = frames[i];
	out[CALLEES].count += r->count - at;
}

static void leave_out(struct frame_set *s, const struct frame_run *r)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		s->total[side] = engine_subtract(s->total[side], r->value[side]);
}

static bool make_room(struct splitting *c, struct frame_set *s, uint32_t first, struct err *err)
{
	uint64_t frames = 0, runs = 0;

	for (uint32_t i = first; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];

		if (outermost(s, r, c->key) == r->count)
			continue;
		frames += r->count + 3; /* the function twice, and a mark each */
		runs += HALVES;
	}
	return QUERY_ROOM(s->q, c->runs, c->cap, runs + 1, err) &&
	       QUERY_ROOM(s->q, s->runs, s->run_cap, first + runs + 1, err) &&
	       QUERY_ROOM(s->q, s->pool, s->pool_cap, s->pool_count + frames, err);
}

static bool mark_halves(struct splitting *c, struct frame_set *s, struct err *err)
{
	return frame_set_group(s, STR("callers"), &c->mark[CALLERS], err) &&
	       frame_set_group(s, STR("callees"), &c->mark[CALLEES], err);
}

static struct frame_run without_mark(struct frame_run r)
{
	r.first++;
	r.count--;
	return r;
}

static void search_half(struct splitting *c, const struct frame_set *s, const struct frame_run *r,
			unsigned half)
{
	const struct frame_run frames = without_mark(*r);

	found_add(&c->paths[half], &c->search, s, &frames, s->pool);
}

static bool split_runs(void *ctx, struct frame_set *s, uint32_t first, struct err *err)
{
	struct splitting *c = ctx;
	uint32_t count = 0;

	if (!search_frames(&c->search, s, err) || !mark_halves(c, s, err) ||
	    !make_room(c, s, first, err))
		return false;
	for (uint32_t i = first; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];
		uint32_t at = outermost(s, r, c->key);

		if (at == r->count) {
			leave_out(s, r);
			continue;
		}
		put_halves(c, s, r, at, c->runs + count);
		for (unsigned half = 0; half < HALVES; half++)
			search_half(c, s, &c->runs[count + half], half);
		count += HALVES;
	}
	if (count)
		memcpy(s->runs + first, c->runs, count * sizeof(*c->runs));
	s->run_count = first + count;
	c->found |= count > 0;
	return true;
}

static void begin_splitting(void *ctx)
{
	struct splitting *c = ctx;

	c->found = false;
	for (unsigned half = 0; half < HALVES; half++)
		found_release(c->q, &c->paths[half]);
}

/* The runs of one half, without its mark, at the list's end. */
static void take_half(const struct splitting *c, const struct frame_set *s, enum half half,
		      struct frame_run *out, uint32_t *count)
{
	for (uint32_t i = 0; i < s->run_count; i++) {
		const struct frame_run *r = &s->runs[i];

		if (r->count && s->pool[r->first] == c->mark[half])
			out[(*count)++] = without_mark(*r);
	}
}

static bool build_halves(struct splitting *c, struct frame_set *s,
			 const struct query_tree_options *o, struct query_sandwich *out,
			 struct err *err)
{
	struct query_tree *trees[HALVES] = { &out->callers, &out->callees };
	struct frame_run *runs = NULL;
	uint32_t cap = 0, ends[HALVES], all = 0;
	bool ok = true;

	frame_set_drop_unresolved(s);
	if (!mark_halves(c, s, err) || /* frames may have other numbers since */
	    !QUERY_ROOM(s->q, runs, cap, s->run_count + 1u, err))
		return false;
	for (unsigned half = 0; half < HALVES; half++) {
		take_half(c, s, half, runs, &all);
		ends[half] = all;
	}
	QUERY_DROP(s->q, s->runs, s->run_cap);
	s->run_count = 0;
	for (unsigned half = 0; ok && half < HALVES; half++) {
		uint32_t first = half ? ends[half - 1] : 0;

		found_keep(&c->paths[half], s, o->nodes_most ? o->nodes_most : TREE_NODES_USUAL);
		memcpy(trees[half]->matched, c->paths[half].matched, sizeof(trees[half]->matched));
		ok = tree_build(s, (struct tree_runs){ runs + first, ends[half] - first }, o,
				trees[half], err);
	}
	ok = ok && frame_set_give(s, &out->callers.frames, err);
	QUERY_DROP(s->q, runs, cap);
	out->callees.frames = out->callers.frames;
	out->found = c->found;
	return ok;
}

static bool make_sandwich(struct splitting *c, const struct query_tree_options *o,
			  struct query_sandwich *out, struct err *err)
{
	const struct frame_use use = { .begin = begin_splitting, .use = split_runs, .ctx = c };
	struct frame_set s;
	bool ok;

	ok = frame_set_of(&s, &(struct query_sides){ .left = c->q }, &use, err);
	QUERY_DROP(c->q, c->runs, c->cap);
	if (!ok)
		return false;
	ok = build_halves(c, &s, o, out, err);
	frame_set_release(&s);
	return ok;
}

bool query_sandwich(struct query *q, uint64_t frame_key, const struct query_tree_options *o,
		    struct query_sandwich *out, struct err *err)
{
	struct splitting c = { .key = frame_key, .q = q };
	struct query_sandwich both = { 0 };
	bool ok;

	o = o ? o : &defaults;
	ok = search_begin(&c.search, o->search, err) && make_sandwich(&c, o, &both, err);
	for (unsigned half = 0; half < HALVES; half++)
		found_release(q, &c.paths[half]);
	search_end(&c.search);
	if (ok)
		*out = both;
	return ok;
}
