/* stacks.c - from stack numbers to runs of frames: resolve, expand inlines, filter. */
#include <stdlib.h>

#include "base/arena_mark.h"
#include "query/engine.h"
#include "store/id_list.h"

enum { LINES_MOST = 4096, ATTEMPTS = 12 };

/* Stacks on their way into runs: first their locations stand in the set's pool, leaf first, as
 * places in the list of distinct ones; once those have names, the same memory takes the frames. */
struct loading {
	struct frame_set *set;
	struct query *from; /* whose source */
	const struct stack_sums *sums;
	unsigned side;
	bool keep_all;    /* stacks that the filters leave out have a run too */
	uint32_t *wanted; /* which sums, ascending by stack */
	uint32_t wanted_count, at;
	struct number_table locations;
	uint64_t *location_ids;
	uint32_t location_count, location_cap;
	uint32_t pool_first;                      /* of ours */
	uint32_t place_count;                     /* in the pool, from there on */
	uint32_t *place_first, place_first_cap;   /* of each distinct stack; one more at the end */
	uint32_t *stack, stack_cap;               /* places of the one at hand */
	uint32_t *groups, group_cap;              /* frames of sums->groups */
	uint32_t *frames, frame_count, frame_cap; /* of locations, innermost first */
	uint32_t *frame_first, frame_first_cap;   /* by location place: first, count */
};

static void loading_release(struct loading *l)
{
	struct query *q = l->set->q;

	number_release(q, &l->locations);
	query_drop(q, &l->location_ids, &l->location_cap, sizeof(uint64_t));
	query_drop(q, &l->stack, &l->stack_cap, sizeof(uint32_t));
	query_drop(q, &l->groups, &l->group_cap, sizeof(uint32_t));
	query_drop(q, &l->place_first, &l->place_first_cap, sizeof(uint32_t));
	query_drop(q, &l->frames, &l->frame_cap, sizeof(uint32_t));
	query_drop(q, &l->frame_first, &l->frame_first_cap, sizeof(uint32_t));
	l->location_count = l->place_count = l->frame_count = l->at = 0;
}

static bool enter_location(struct loading *l, uint64_t id, uint32_t *place, struct err *err)
{
	struct query *q = l->set->q;
	bool added;

	if (!number_enter(q, &l->locations, id, l->location_count, place, &added, err))
		return false;
	if (!added)
		return true;
	if (!query_grow(q, &l->location_ids, &l->location_cap, l->location_count + 1u,
			sizeof(uint64_t), err))
		return false;
	l->location_ids[l->location_count++] = id;
	return true;
}

static bool take_stack(void *ctx, uint64_t id, const uint64_t *locations, uint32_t count,
		       struct err *err)
{
	struct loading *l = ctx;
	struct query *q = l->set->q;
	uint32_t *out;

	(void)id;
	if (!query_alive(q, err) ||
	    !query_grow(q, &l->set->pool, &l->set->pool_cap,
			(uint64_t)l->pool_first + l->place_count + count, sizeof(uint32_t), err))
		return false;
	out = l->set->pool + l->pool_first + l->place_count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = number_find(&l->locations, locations[i]);

		if (place == UINT32_MAX && !enter_location(l, locations[i], &place, err))
			return false;
		out[i] = place;
	}
	l->place_count += count;
	l->place_first[++l->at] = l->place_count;
	return true;
}

/* The same stack as the one before, in another group. */
static bool repeats(const struct loading *l, uint32_t k)
{
	return k > 0 && l->sums->ptr[l->wanted[k]].stack == l->sums->ptr[l->wanted[k - 1]].stack;
}

static bool load_stacks(struct loading *l, struct err *err)
{
	struct query_source *s = l->from->request.source;
	struct query *q = l->set->q;
	uint64_t *ids = NULL;
	uint32_t cap = 0, count = 0;
	bool ok;

	if (!query_grow(q, &ids, &cap, l->wanted_count + 1u, sizeof(*ids), err) ||
	    !query_grow(q, &l->place_first, &l->place_first_cap, l->wanted_count + 1u,
			sizeof(uint32_t), err)) {
		query_drop(q, &ids, &cap, sizeof(*ids));
		return false;
	}
	for (uint32_t i = 0; i < l->wanted_count; i++)
		if (!repeats(l, i))
			ids[count++] = l->sums->ptr[l->wanted[i]].stack;
	l->place_first[0] = 0;
	ok = s->ops->stacks(s, ids, count, take_stack, l, err);
	query_drop(q, &ids, &cap, sizeof(*ids));
	return ok;
}

static bool take_location(void *ctx, const struct query_location *location, struct err *err)
{
	struct loading *l = ctx;
	struct query *q = l->set->q;
	uint32_t place = number_find(&l->locations, location->id), count;
	uint32_t room = location->line_count ? location->line_count : 1;

	if (place == UINT32_MAX)
		return true;
	if (room > LINES_MOST)
		return err_set(err, ERR_LIMIT, "a location of %u inlined functions; at most %d",
			       room, LINES_MOST);
	if (!query_grow(q, &l->frames, &l->frame_cap, (uint64_t)l->frame_count + room,
			sizeof(uint32_t), err) ||
	    !frame_set_location(l->set, location, l->frames + l->frame_count, room, &count, err))
		return false;
	l->frame_first[place * 2] = l->frame_count;
	l->frame_first[place * 2 + 1] = count;
	l->frame_count += count;
	return query_alive(q, err);
}

static bool load_locations(struct loading *l, struct err *err)
{
	struct query_source *s = l->from->request.source;

	if (!query_grow(l->set->q, &l->frame_first, &l->frame_first_cap,
			(uint64_t)l->location_count * 2 + 2, sizeof(uint32_t), err))
		return false;
	memset(l->frame_first, 0, l->frame_first_cap * sizeof(uint32_t));
	if (l->location_count && !number_list(&l->locations, l->location_ids))
		qsort(l->location_ids, l->location_count, sizeof(uint64_t), id_list_order);
	return s->ops->locations(s, l->location_ids, l->location_count, take_location, l, err);
}

/* ---- runs ---- */

/* Frames that share a collapse filter with the one before are part of it. */
static uint32_t collapse(const struct frame_set *s, uint32_t filters, uint32_t *frames,
			 uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 ||
		    !(s->own_marks[frames[kept - 1]] & s->own_marks[frames[i]] & filters))
			frames[kept++] = frames[i];
	return kept;
}

/* Goes on behind the innermost place of each marked frame that is kept. */
static uint32_t without_recursion(struct frame_set *s, uint32_t *frames, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		s->last_at[frames[i]] = i;
	for (uint32_t i = 0; i < count; i++) {
		frames[kept] = frames[i];
		if (s->marks[frames[kept]] & 1u << FILTER_RECURSION)
			i = s->last_at[frames[kept]];
		kept++;
	}
	return kept;
}

/* show_from, ignore, focus, hide, recursion and collapse, in this order, on frames [0, count),
 * root first. False: the stack is left out. */
static bool filter(struct frame_set *s, uint32_t *frames, uint32_t *count)
{
	const struct query_request *r = &s->q->request;
	uint32_t focus_all = 0, focus = 0, kept = 0, first = 0, collapse_all = 0;
	bool show_from = false, recursion = false;

	for (uint32_t i = 0; i < r->filter_count; i++) {
		if (r->filters[i].kind == FILTER_FOCUS)
			focus_all |= 1u << i;
		if (r->filters[i].kind == FILTER_COLLAPSE)
			collapse_all |= 1u << i;
		recursion |= r->filters[i].kind == FILTER_RECURSION;
		show_from |= r->filters[i].kind == FILTER_SHOW_FROM;
	}
	if (show_from) {
		while (first < *count && !(s->marks[frames[first]] & 1u << FILTER_SHOW_FROM))
			first++;
		if (first == *count)
			return false;
	}
	for (uint32_t i = first; i < *count; i++) {
		if (s->marks[frames[i]] & 1u << FILTER_IGNORE)
			return false;
		focus |= s->own_marks[frames[i]] & focus_all;
	}
	if (focus != focus_all)
		return false;
	for (uint32_t i = first; i < *count; i++)
		if (!(s->marks[frames[i]] & 1u << FILTER_HIDE))
			frames[kept++] = frames[i];
	if (recursion)
		kept = without_recursion(s, frames, kept);
	*count = collapse_all ? collapse(s, collapse_all, frames, kept) : kept;
	return true;
}

/* Frames that only tell files or binaries apart repeat for each call within one. */
static uint32_t without_repeats(const struct frame_set *s, uint32_t *frames, uint32_t count)
{
	uint32_t kept = 0;

	if (s->q->request.by != QUERY_BY_FILE && s->q->request.by != QUERY_BY_BINARY)
		return count;
	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 || frames[kept - 1] != frames[i])
			frames[kept++] = frames[i];
	return kept;
}

/* The frames of a wanted one, root first, to the pool's end; `places` are its locations. */
static void put_run(struct loading *l, uint32_t k, const uint32_t *places, uint32_t place_count)
{
	struct frame_set *s = l->set;
	const struct stack_sum *sum = &l->sums->ptr[l->wanted[k]];
	int64_t value = sum->value;
	uint32_t count = 0, *out = s->pool + s->pool_count;

	if (l->sums->groups)
		*out++ = l->groups[sum->group]; /* before all, out of the filters' sight */
	for (uint32_t i = place_count; i > 0; i--) {
		const uint32_t *of = &l->frame_first[places[i - 1] * 2];
		const uint32_t *frames = l->frames + of[0];

		for (uint32_t n = of[1]; n > 0; n--)
			out[count++] = frames[n - 1];
	}
	if (s->q->request.filter_count && !filter(s, out, &count)) {
		if (l->keep_all)
			s->runs[s->run_count++] = (struct frame_run){ .first = RUN_LEFT_OUT };
		return;
	}
	count = without_repeats(s, out, count) + (l->sums->groups ? 1 : 0);
	s->runs[s->run_count] = (struct frame_run){ .first = s->pool_count, .count = count };
	s->runs[s->run_count++].value[l->side] = value;
	s->pool_count += count;
	s->total[l->side] = engine_add(s->total[l->side], value);
}

static bool group_frames(struct loading *l, struct err *err)
{
	const struct stack_sums *sums = l->sums;

	if (!query_grow(l->set->q, &l->groups, &l->group_cap, sums->group_count + 1u,
			sizeof(uint32_t), err))
		return false;
	for (uint32_t i = 0; sums->groups && i < sums->group_count; i++)
		if (!frame_set_group(l->set, sums->groups[i], &l->groups[i], err))
			return false;
	return true;
}

/* Of all runs; *deepest: places of the deepest stack. */
static bool count_frames(const struct loading *l, uint64_t *frames, uint32_t *deepest,
			 struct err *err)
{
	uint32_t place = 0;
	uint64_t own = 0;

	*frames = *deepest = 0;
	for (uint32_t k = 0; k < l->wanted_count; k++) {
		uint32_t first, last;

		place += k > 0 && !repeats(l, k);
		first = l->place_first[place];
		last = l->place_first[place + 1];
		if (!repeats(l, k))
			own = 0;
		for (uint32_t i = first; i < last && !repeats(l, k); i++) {
			uint32_t at = l->set->pool[l->pool_first + i];

			if (!l->frame_first[at * 2 + 1])
				return err_set(err, ERR_INTERNAL,
					       "a location of a stack has no frame");
			own += l->frame_first[at * 2 + 1];
		}
		*frames += own + (l->sums->groups ? 1 : 0);
		*deepest = last - first > *deepest ? last - first : *deepest;
	}
	return true;
}

/* Places move to the end of the room that all frames need; from there each stack is read before
 * frames can reach it: a place becomes one frame or more. */
static bool make_room(struct loading *l, uint32_t **places, struct err *err)
{
	struct frame_set *s = l->set;
	uint32_t deepest;
	uint64_t frames;

	if (!group_frames(l, err) || !count_frames(l, &frames, &deepest, err) ||
	    !query_grow(s->q, &s->pool, &s->pool_cap, l->pool_first + frames + 1, sizeof(uint32_t),
			err) ||
	    !query_grow(s->q, &s->last_at, &s->last_cap, s->frame_count, sizeof(uint32_t), err) ||
	    !query_grow(s->q, &l->stack, &l->stack_cap, deepest + 1u, sizeof(uint32_t), err) ||
	    !query_grow(s->q, &s->runs, &s->run_cap, s->run_count + l->wanted_count + 1u,
			sizeof(*s->runs), err))
		return false;
	*places = s->pool + l->pool_first + (frames - l->place_count);
	memmove(*places, s->pool + l->pool_first, l->place_count * sizeof(uint32_t));
	return true;
}

static bool put_runs(struct loading *l, struct err *err)
{
	uint32_t *places = NULL, place = 0, count = 0;

	if (!make_room(l, &places, err))
		return false;
	for (uint32_t k = 0; k < l->wanted_count; k++) {
		place += k > 0 && !repeats(l, k);
		if (!query_alive(l->set->q, err))
			return false;
		if (!repeats(l, k)) {
			count = l->place_first[place + 1] - l->place_first[place];
			if (count)
				memcpy(l->stack, places + l->place_first[place],
				       count * sizeof(uint32_t));
		}
		put_run(l, k, l->stack, count);
	}
	return true;
}

static bool load(struct loading *l, struct err *err)
{
	l->pool_first = l->set->pool_count;
	return load_stacks(l, err) && load_locations(l, err) && put_runs(l, err);
}

/* ---- coarser, when memory is short ---- */

struct weighed {
	uint64_t weight;
	uint32_t sum;
};

static int heavier_first(const void *a, const void *b)
{
	const struct weighed *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->sum < y->sum ? -1 : x->sum > y->sum;
}

static int sum_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Leaves the heaviest `keep` in l->wanted. */
static bool keep_heaviest(struct loading *l, uint32_t keep, struct err *err)
{
	struct query *q = l->set->q;
	struct weighed *w = NULL;
	uint32_t cap = 0;

	if (!query_grow(q, &w, &cap, l->wanted_count, sizeof(*w), err))
		return false;
	for (uint32_t i = 0; i < l->wanted_count; i++) {
		int64_t v = l->sums->ptr[l->wanted[i]].value;

		w[i] = (struct weighed){ v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v,
					 l->wanted[i] };
	}
	qsort(w, l->wanted_count, sizeof(*w), heavier_first);
	for (uint32_t i = 0; i < keep; i++)
		l->wanted[i] = w[i].sum;
	qsort(l->wanted, keep, sizeof(uint32_t), sum_order);
	l->wanted_count = keep;
	query_drop(q, &w, &cap, sizeof(*w));
	return true;
}

static int64_t minus(int64_t a, int64_t b)
{
	int64_t v;

	if (!__builtin_sub_overflow(a, b, &v))
		return v;
	return a < 0 ? INT64_MIN : INT64_MAX;
}

static void count_unresolved(struct loading *l)
{
	struct frame_set *s = l->set;
	int64_t resolved = 0, all = l->sums->total, *out = &s->unresolved[l->side];

	for (uint32_t i = 0; i < l->wanted_count; i++)
		resolved = engine_add(resolved, l->sums->ptr[l->wanted[i]].value);
	*out = engine_add(*out, minus(all, resolved));
	s->total[l->side] = engine_add(s->total[l->side], minus(all, resolved));
}

/* What becomes of the frames needs room, too: a tree or a table of them. */
static bool leaves_room(const struct frame_set *s, struct err *err)
{
	enum { RUN_BYTES = 64, FRAME_BYTES = 64, LEAST_BYTES = 96 << 10 };
	const struct query *q = s->q;
	size_t need = (size_t)s->run_count * RUN_BYTES + (size_t)s->frame_count * FRAME_BYTES,
	       used = q->heap_bytes + q->arena.reserved_bytes;

	need += q->limit_bytes / 16 < LEAST_BYTES ? q->limit_bytes / 16 : LEAST_BYTES;
	return used + need <= q->limit_bytes ||
	       err_set(err, ERR_LIMIT, "%u stacks of %u frames leave no room for an answer",
		       s->run_count, s->frame_count);
}

/* What an attempt that failed leaves is given back, room included. */
static void take_back(struct loading *l, uint32_t runs, uint32_t pool, int64_t total)
{
	struct frame_set *s = l->set;

	s->run_count = runs;
	s->pool_count = pool;
	s->total[l->side] = total;
	if (runs)
		query_fit(s->q, &s->runs, &s->run_cap, runs, sizeof(*s->runs));
	else
		query_drop(s->q, &s->runs, &s->run_cap, sizeof(*s->runs));
	if (pool)
		query_fit(s->q, &s->pool, &s->pool_cap, pool, sizeof(uint32_t));
	else
		query_drop(s->q, &s->pool, &s->pool_cap, sizeof(uint32_t));
}

/* How many stacks may fit, by what those took that were read; `before`: bytes in use without any.
 */
static uint32_t fitting(const struct loading *l, size_t before)
{
	enum { STACK_BYTES = 96 /* as a run, and in a tree */, SHARE = 8 };
	size_t limit = l->set->q->limit_bytes, tables = limit / SHARE;
	uint64_t each = STACK_BYTES, most = l->wanted_count / 4 * 3;

	if (l->at) /* a place becomes one frame or more */
		each += (uint64_t)l->place_count * sizeof(uint32_t) * 3 / 2 / l->at;
	if (before + tables < limit && (limit - before - tables) / each < most)
		most = (limit - before - tables) / each;
	return most ? (uint32_t)most : 1;
}

static bool load_what_fits(struct loading *l, struct err *err)
{
	struct frame_set *s = l->set;
	uint32_t runs = s->run_count, pool = s->pool_count;
	uint32_t frames = s->frame_count, texts = s->text_count, keep;
	int64_t total = s->total[l->side];
	size_t before = s->q->heap_bytes + s->q->arena.reserved_bytes;
	struct arena_mark names = arena_mark(&s->q->arena);

	for (unsigned attempt = 0;; attempt++) {
		if (load(l, err) && leaves_room(s, err))
			return true;
		if (err->kind != ERR_LIMIT || attempt == ATTEMPTS || l->wanted_count < 2)
			return false;
		keep = fitting(l, before);
		if (attempt > 1 && keep > l->wanted_count / 2)
			keep = l->wanted_count / 2;
		take_back(l, runs, pool, total);
		loading_release(l);
		if (!frame_set_forget(s, frames, texts, err))
			return false;
		arena_rewind(&s->q->arena, names);
		if (!keep_heaviest(l, keep, err))
			return false;
		query_note_partial(
			s->q, "the %u heaviest of %u stacks are resolved: one query has %zu KiB",
			l->wanted_count, l->sums->count, s->q->limit_bytes >> 10);
	}
}

bool frame_set_add(struct frame_set *s, struct query *q, const struct stack_sums *sums,
		   unsigned side, struct err *err)
{
	struct loading l = { .set = s, .from = q, .sums = sums, .side = side };
	uint32_t cap = 0;
	bool ok = query_grow(s->q, &l.wanted, &cap, sums->count + 1u, sizeof(uint32_t), err);

	for (uint32_t i = 0; ok && i < sums->count; i++)
		l.wanted[l.wanted_count++] = i;
	ok = ok && load_what_fits(&l, err);
	loading_release(&l);
	if (ok)
		count_unresolved(&l);
	query_drop(s->q, &l.wanted, &cap, sizeof(uint32_t));
	return ok;
}

bool frame_set_resolve(struct frame_set *s, const uint64_t *ids, uint32_t count,
		       enum frame_filters filters, struct err *err)
{
	struct query *q = s->q;
	struct stack_sums sums = { 0 };
	struct loading l = { .set = s, .from = q, .sums = &sums, .keep_all = true };
	uint32_t cap = 0, filter_count = q->request.filter_count;
	bool ok = query_grow(q, &l.wanted, &cap, count + 1u, sizeof(uint32_t), err) &&
		  query_grow(q, &sums.ptr, &sums.cap, count + 1u, sizeof(*sums.ptr), err);

	for (uint32_t i = 0; ok && i < count; i++) {
		sums.ptr[sums.count++] = (struct stack_sum){ .stack = ids[i] };
		l.wanted[l.wanted_count++] = i;
	}
	if (filters == FILTERS_OFF)
		q->request.filter_count = 0;
	ok = ok && load(&l, err);
	q->request.filter_count = filter_count;
	loading_release(&l);
	stack_sums_release(q, &sums);
	query_drop(q, &l.wanted, &cap, sizeof(uint32_t));
	return ok;
}

static bool add_side(struct frame_set *s, struct query *q, struct str group_by, unsigned side,
		     struct err *err)
{
	struct stack_sums sums;
	bool ok;

	if (!stack_sums_make(q, group_by, &sums, err))
		return false;
	ok = frame_set_add(s, q, &sums, side, err);
	stack_sums_release(q, &sums);
	return ok;
}

static bool same_type(const struct query *a, const struct query *b, struct err *err)
{
	const struct query_type *x, *y;

	if (a->type == a->type_count || b->type == b->type_count)
		return true; /* one side is empty */
	x = &a->types[a->type];
	y = &b->types[b->type];
	if (str_equal(x->type, y->type) && str_equal(x->unit, y->unit))
		return true;
	return err_set(err, ERR_INVALID, "the two sides have different types: %.*s and %.*s",
		       STR_ARG(x->id), STR_ARG(y->id));
}

bool frame_set_of(struct frame_set *s, struct query *left, struct query *right, struct str group_by,
		  struct err *err)
{
	left->partial = false;
	if (right) {
		right->partial = false;
		if (!same_type(left, right, err))
			return false;
	}
	if (!frame_set_init(s, left, err))
		return false;
	if (add_side(s, left, group_by, QUERY_LEFT, err) &&
	    (!right || add_side(s, right, group_by, QUERY_RIGHT, err))) {
		if (right && right->partial && !left->partial)
			query_note_partial(left, "%s", right->reason);
		return true;
	}
	frame_set_release(s);
	return false;
}
