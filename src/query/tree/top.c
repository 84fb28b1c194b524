/* top.c - what each frame costs by itself and with what it calls, of one selection or two: from all
 * stacks, however many there are. */
#include <stdlib.h>

#include "query/diff/sides.h"
#include "query/sum/frames.h"

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

struct table {
	struct query *q;
	struct query_top_row *rows; /* by frame */
	uint32_t *seen;             /* by frame: the last run with it, + 1 */
	uint32_t row_cap, seen_cap, frame_count, turn;
};

static void begin_table(void *ctx)
{
	struct table *t = ctx;

	t->frame_count = t->turn = 0;
}

static bool make_rows(struct table *t, const struct frame_set *s, struct err *err)
{
	uint32_t known = t->frame_count, more = s->frame_count - known;

	if (!QUERY_ROOM(t->q, t->rows, t->row_cap, s->frame_count + 1u, err) ||
	    !QUERY_ROOM(t->q, t->seen, t->seen_cap, s->frame_count + 1u, err))
		return false;
	memset(t->rows + known, 0, more * sizeof(*t->rows));
	memset(t->seen + known, 0, more * sizeof(*t->seen));
	t->frame_count = s->frame_count;
	return true;
}

static void add_run(struct table *t, const struct frame_set *s, const struct frame_run *r)
{
	t->turn++;
	for (uint32_t i = 0; i < r->count; i++) {
		uint32_t frame = s->pool[r->first + i];
		bool leaf = i + 1 == r->count, again;

		if (frame == RUN_CUT)
			return;
		again = t->seen[frame] == t->turn;
		t->seen[frame] = t->turn;
		for (unsigned side = 0; side < QUERY_SIDES; side++) {
			struct query_top_row *row = &t->rows[frame];
			int64_t v = r->value[side];

			if (!again)
				row->total[side] = engine_add(row->total[side], v);
			if (leaf)
				row->self[side] = engine_add(row->self[side], v);
		}
	}
}

/* Runs are not needed once they are counted. */
static bool tabulate_runs(void *ctx, struct frame_set *s, uint32_t first, struct err *err)
{
	struct table *t = ctx;

	if (!make_rows(t, s, err))
		return false;
	for (uint32_t i = first; i < s->run_count; i++)
		add_run(t, s, &s->runs[i]);
	if (s->run_count > first)
		s->pool_count = s->runs[first].first;
	s->run_count = first;
	return true;
}

static bool give_table(struct table *t, struct frame_set *s, struct query_top *out, struct err *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t->frame_count; i++) {
		t->rows[i].frame = i;
		if (t->seen[i]) /* filters may have left nothing of it */
			t->rows[kept++] = t->rows[i];
	}
	QUERY_DROP(t->q, t->seen, t->seen_cap);
	if (kept)
		qsort(t->rows, kept, sizeof(*t->rows), row_order);
	out->rows = t->rows;
	out->row_count = kept;
	out->stacks = s->stack_count;
	memcpy(out->total, s->total, sizeof(out->total));
	memcpy(out->unresolved, s->unresolved, sizeof(out->unresolved));
	return frame_set_give(s, &out->frames, err) && query_give(t->q, &t->rows, &t->row_cap, err);
}

bool query_top_diff(struct query *left, struct query *right, struct query_top *out, struct err *err)
{
	struct table t = { .q = left };
	const struct frame_use use = {
		.begin = begin_table, .use = tabulate_runs, .ctx = &t, .tabulates = true
	};
	struct query_top top = { 0 };
	struct frame_set s;
	bool ok = frame_set_of(&s, &(struct query_sides){ left, right, { 0 } }, &use, err);

	if (ok) {
		ok = give_table(&t, &s, &top, err);
		frame_set_release(&s);
	}
	QUERY_DROP(left, t.rows, t.row_cap);
	QUERY_DROP(left, t.seen, t.seen_cap);
	if (ok)
		*out = top;
	return ok;
}

bool query_top(struct query *q, struct query_top *out, struct err *err)
{
	return query_top_diff(q, NULL, out, err);
}
