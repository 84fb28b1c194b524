/*
 * resolve.c - sums by stack become runs of frames: all at once where there are few, else some at a
 * time, the heaviest first, folded and cut as memory gets short.
 */
#include <stdlib.h>

#include "base/arena_mark.h"
#include "query/sum/fold.h"
#include "query/sum/stacks.h"

enum {
	MANY = 65536,         /* stacks that are not tried all at once */
	BATCH = 4096,         /* of those at a time */
	LEAST = 16,           /* fewer are not tried */
	HEAVY = 8192,         /* that come first where there are many, or a quarter */
	LOCATIONS_SHARE = 16, /* of the query's memory, for what is remembered between batches */
};

struct adding {
	struct loading l;
	struct folding f;
	const struct frame_use *use; /* of this side alone; may be NULL */
	bool folds;
	uint32_t *order, cap, count,
		heavy; /* of sums: those that come first, ascending, the rest */
	uint32_t most; /* stacks, of the heaviest; UINT32_MAX: all */
	uint32_t done;
	int64_t resolved;
};

/* ---- in which order ---- */

static uint64_t weight_of(const struct adding *a, uint32_t sum)
{
	int64_t v = a->l.sums->ptr[sum].value;

	return v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
}

static int lighter(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The heaviest ones, then the others, each by stack: a source reads its stacks in their order. */
static bool heaviest_first(struct adding *a, struct err *err)
{
	struct query *q = a->l.set->q;
	uint32_t cap = 0, heavy = 0, light, ties, count = a->count;
	uint64_t *w = NULL, least;

	if (!QUERY_ROOM(q, w, cap, count, err))
		return false;
	for (uint32_t i = 0; i < count; i++)
		w[i] = weight_of(a, i);
	a->heavy = a->most < count ? a->most : count / 4 < HEAVY ? count / 4 + 1 : HEAVY;
	qsort(w, count, sizeof(*w), lighter);
	least = w[count - a->heavy];
	QUERY_DROP(q, w, cap);
	ties = a->heavy;
	for (uint32_t i = 0; i < count; i++)
		ties -= weight_of(a, i) > least;
	light = a->heavy;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t weight = weight_of(a, i);
		bool first = weight > least || (weight == least && ties);

		ties -= first && weight == least;
		a->order[first ? heavy++ : light++] = i;
	}
	if (a->most < count)
		a->count = a->most;
	a->folds = true;
	return true;
}

/* ---- memory ---- */

/* What is given back once all stacks are there. */
static size_t bytes_given_back(const struct adding *a)
{
	const struct stack_sums *sums = a->l.sums;

	return loading_bytes(&a->l) + sums->cap * sizeof(*sums->ptr) +
	       ((size_t)a->cap + a->f.slot_cap) * sizeof(uint32_t);
}

/* The tree or table that is made of runs and frames needs memory, too. */
static size_t bytes_needed(const struct adding *a)
{
	enum { RUN_BYTES = 64, FRAME_BYTES = 64, LEAST_BYTES = 96 << 10 };
	const struct frame_set *s = a->l.set;
	const struct query *q = s->q;
	bool table = a->use && a->use->tabulates;
	size_t least = q->memory.limit_bytes / (table ? 16 : 6);

	if (least > LEAST_BYTES)
		least = LEAST_BYTES;
	return q->memory.heap_bytes + q->memory.arena.reserved_bytes - bytes_given_back(a) +
	       (size_t)s->run_count * RUN_BYTES +
	       (size_t)s->frame_count * (table ? 0 : FRAME_BYTES) + least;
}

/* Is there no room for another batch and the answer? */
static bool is_full(const struct adding *a)
{
	const struct query *q = a->l.set->q;
	size_t limit = q->memory.limit_bytes, share = a->count > MANY ? 8 : 4;

	return q->memory.heap_bytes + q->memory.arena.reserved_bytes > limit - limit / share ||
	       bytes_needed(a) > limit - limit / share;
}

/* *done false: runs are as short as they get. */
static bool cut_runs(struct adding *a, bool *done, struct err *err)
{
	enum folding_result result = folding_cut(&a->f, err);

	*done = result != FOLDING_LEAST;
	if (result == FOLDING_RENUMBERED)
		loading_release(&a->l); /* it knows frames by their old numbers */
	return result != FOLDING_FAILED;
}

/* Gives back the unused ends of the runs and the pool: all of both if there is no run. */
static void fit_runs(struct frame_set *s)
{
	if (s->run_count) {
		QUERY_FIT(s->q, s->pool, s->pool_cap, s->pool_count);
		QUERY_FIT(s->q, s->runs, s->run_cap, s->run_count);
		return;
	}
	QUERY_DROP(s->q, s->runs, s->run_cap);
	QUERY_DROP(s->q, s->pool, s->pool_cap);
	s->pool_count = 0;
}

/* Makes room for another batch, as far as runs take it. */
static bool make_space(struct adding *a, struct err *err)
{
	const struct frame_set *s = a->l.set;
	size_t limit = s->q->memory.limit_bytes;
	bool done = true;

	if (loading_bytes(&a->l) > limit / LOCATIONS_SHARE)
		loading_release(&a->l);
	while (done && is_full(a) && s->run_count > LEAST)
		if (!cut_runs(a, &done, err))
			return false;
	return true;
}

/* ---- batches ---- */

static bool add_batch(struct adding *a, uint32_t n, struct err *err)
{
	struct loading *l = &a->l;
	struct frame_set *s = l->set;
	uint32_t runs = s->run_count, pool = s->pool_count, stacks = s->stack_count;
	int64_t total = s->total[l->side];

	l->wanted = a->order + a->done;
	l->wanted_count = n;
	if (!stacks_load(l, err))
		return false;
	s->stack_count += s->run_count - runs;
	if (a->use && a->use->orient)
		a->use->orient(a->use->ctx, s, runs);
	if (a->use && a->use->use && !a->use->use(a->use->ctx, s, runs, err)) {
		s->run_count = runs;
		s->pool_count = pool;
		s->stack_count = stacks;
		s->total[l->side] = total;
		return false;
	}
	if (a->folds)
		folding_add(&a->f, runs, pool);
	for (uint32_t i = 0; i < n; i++)
		a->resolved = engine_add(a->resolved, l->sums->ptr[l->wanted[i]].value);
	a->done += n;
	return true;
}

/* Fewer stacks at a time, and shorter runs. False: neither helps. */
static bool retry_with_less(struct adding *a, uint32_t *size, struct err *err)
{
	struct frame_set *s = a->l.set;
	bool done = false;

	if (err->kind != ERR_LIMIT)
		return false;
	loading_release(&a->l);
	fit_runs(s);
	if (!a->folds) {
		*size = a->count / 4;
		return a->count > 1 && heaviest_first(a, err);
	}
	if (s->run_count > LEAST && !cut_runs(a, &done, err))
		return false;
	if (*size > LEAST)
		*size /= 2;
	else if (!done)
		return err_set(err, ERR_LIMIT, "no room for more than %u of %u stacks", a->done,
			       a->count);
	return true;
}

static bool add_all(struct adding *a, struct err *err)
{
	uint32_t size = a->count > MANY ? BATCH : a->count;

	if ((a->count > MANY || a->count > a->most) && !heaviest_first(a, err))
		return false;
	while (a->done < a->count) {
		uint32_t end = a->done < a->heavy ? a->heavy : a->count;
		uint32_t left = end - a->done, n = left < size || !size ? left : size;

		if (!add_batch(a, n, err)) {
			if (!retry_with_less(a, &size, err))
				return err->kind == ERR_LIMIT && a->done;
			continue;
		}
		if (a->done == a->heavy)
			a->f.heavy = a->l.set->run_count;
		if (a->folds && a->done < a->count && !make_space(a, err))
			return false;
	}
	return true;
}

/* Leaves enough memory for the answer. */
static bool leave_room(struct adding *a, struct err *err)
{
	struct frame_set *s = a->l.set;
	bool done = true;

	loading_release(&a->l);
	if (!s->run_count) /* a table has looked at all of them */
		fit_runs(s);
	while (bytes_needed(a) > s->q->memory.limit_bytes) {
		if (!done)
			return err_set(err, ERR_LIMIT,
				       "%u stacks of %u frames leave no room for an answer",
				       s->run_count, s->frame_count);
		if (!a->folds) {
			a->folds = true;
			folding_add(&a->f, a->f.first, a->f.pool_first);
		} else if (!cut_runs(a, &done, err)) {
			return false;
		}
	}
	return true;
}

static void note_what_is_coarse(const struct adding *a)
{
	struct query *q = a->l.set->q;
	uint32_t depth = a->f.depth;

	if (a->done < a->l.sums->met)
		query_note_partial(
			q,
			"%u of %u stacks are resolved, the heaviest among them: one query has %zu "
			"KiB",
			a->done, a->l.sums->met, q->memory.limit_bytes >> 10);
	else if (depth != UINT32_MAX)
		query_note_partial(q,
				   "of most of the %u stacks the first %u frames are told apart: "
				   "one query has %zu KiB",
				   a->l.sums->met, depth, q->memory.limit_bytes >> 10);
}

static void count_unresolved(const struct adding *a)
{
	struct frame_set *s = a->l.set;
	int64_t rest = engine_subtract(a->l.sums->total, a->resolved);
	unsigned side = a->l.side;

	s->unresolved[side] = engine_add(s->unresolved[side], rest);
	s->total[side] = engine_add(s->total[side], rest);
}

/* One attempt, with at most `most` stacks. */
static bool resolve_some(struct adding *a, const struct adding *fresh, uint32_t most,
			 struct err *err)
{
	struct frame_set *s = fresh->l.set;
	bool ok;

	*a = *fresh;
	a->most = most;
	ok = QUERY_ROOM(s->q, a->order, a->cap, a->count + 1u, err);
	for (uint32_t i = 0; ok && i < a->count; i++)
		a->order[i] = i;
	if (a->use && a->use->begin)
		a->use->begin(a->use->ctx);
	folding_begin(&a->f, s);
	ok = ok && add_all(a, err) && leave_room(a, err);
	loading_release(&a->l);
	folding_release(&a->f);
	QUERY_DROP(s->q, a->order, a->cap);
	return ok;
}

struct set_mark {
	uint32_t runs, pool, stacks;
	int64_t total[QUERY_SIDES];
	struct arena_mark names;
};

static struct set_mark mark_set(struct frame_set *s)
{
	s->kept_frames = s->frame_count;
	s->kept_texts = s->text_count;
	return (struct set_mark){ .runs = s->run_count,
				  .pool = s->pool_count,
				  .stacks = s->stack_count,
				  .total = { s->total[0], s->total[1] },
				  .names = arena_mark(&s->q->memory.arena) };
}

static bool rewind_set(struct frame_set *s, const struct set_mark *m, struct err *err)
{
	s->run_count = m->runs;
	s->pool_count = m->pool;
	s->stack_count = m->stacks;
	memcpy(s->total, m->total, sizeof(s->total));
	fit_runs(s);
	if (!frame_set_forget(s, s->kept_frames, s->kept_texts, err))
		return false;
	arena_rewind(&s->q->memory.arena, m->names);
	return true;
}

static bool add_sums(struct frame_set *s, const struct frame_side *side,
		     const struct stack_sums *sums, struct err *err)
{
	const struct adding fresh = {
		.l = { .set = s, .from = side->from, .sums = sums, .side = side->number },
		.use = side->use,
		.count = sums->count
	};
	struct set_mark before = mark_set(s);
	struct adding a;
	uint32_t most = UINT32_MAX, tries = 0;

	while (!resolve_some(&a, &fresh, most, err)) {
		if (err->kind != ERR_LIMIT || a.done < 2 || !rewind_set(s, &before, err))
			return false;
		most = tries++ < 3 && a.done > 3 ? a.done / 4 * 3 : a.done / 2;
	}
	note_what_is_coarse(&a);
	count_unresolved(&a);
	return true;
}

bool frame_set_add(struct frame_set *s, const struct frame_side *side, struct err *err)
{
	struct stack_sums sums;
	bool ok;

	if (!stack_sums_make(side->from, side->group_by, &sums, err))
		return false;
	ok = add_sums(s, side, &sums, err);
	stack_sums_release(side->from, &sums);
	return ok;
}

void frame_set_drop_unresolved(struct frame_set *s)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		s->total[side] = engine_subtract(s->total[side], s->unresolved[side]);
		s->unresolved[side] = 0;
	}
}

/* ---- stacks without values ---- */

bool frame_set_resolve(struct frame_set *s, const uint64_t *ids, uint32_t count,
		       enum frame_filters filters, struct err *err)
{
	struct query *q = s->q;
	struct stack_sums sums = { 0 };
	struct loading l = { .set = s, .from = q, .sums = &sums, .keep_all = true };
	uint32_t *wanted = NULL, cap = 0, filter_count = q->request.filter_count;
	bool ok = QUERY_ROOM(q, wanted, cap, count + 1u, err) &&
		  QUERY_ROOM(q, sums.ptr, sums.cap, count + 1u, err);

	for (uint32_t i = 0; ok && i < count; i++) {
		sums.ptr[sums.count++] = (struct stack_sum){ .stack = ids[i] };
		wanted[l.wanted_count++] = i;
	}
	l.wanted = wanted;
	if (filters == FILTERS_OFF)
		q->request.filter_count = 0;
	ok = ok && stacks_load(&l, err);
	q->request.filter_count = filter_count;
	loading_release(&l);
	stack_sums_release(q, &sums);
	QUERY_DROP(q, wanted, cap);
	return ok;
}
