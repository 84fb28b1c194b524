/* sums.c - the first half of every answer about stacks: values added up by stack number. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "query/engine.h"

/* ---- gauges ---- */

struct gauge_cell { /* of a (bucket, owner) */
	uint32_t profiles, last;
	uint64_t last_time;
};

struct gauge_weights {
	struct query *q;
	uint64_t from, step_ns;
	struct number_table cells, seen; /* seen: (bucket, owner, profile) */
	struct gauge_cell *cell;
	uint32_t cell_count, cell_cap;
};

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t parts[] = { a, b, c };

	return hash64(str_from(parts, sizeof(parts)));
}

static uint64_t cell_key(const struct gauge_weights *g, const struct engine_event *e)
{
	return mixed(g->step_ns ? (e->time - g->from) / g->step_ns : 0, e->series->owner,
		     (uint64_t)e->series->says->period);
}

static bool weigh(void *ctx, const struct engine_event *e, struct err *err)
{
	struct gauge_weights *g = ctx;
	struct query *q = g->q;
	const struct engine_profile *p = engine_profile_of(q, e->row->sample);
	uint64_t key = cell_key(g, e);
	uint32_t index = p ? (uint32_t)(p - q->profiles) : UINT32_MAX, at, ignored;
	struct gauge_cell *cell;
	bool added;

	if (!number_enter(q, &g->cells, key, g->cell_count, &at, &added, err))
		return false;
	if (added) {
		if (!query_grow(q, &g->cell, &g->cell_cap, g->cell_count + 1u, sizeof(*g->cell),
				err))
			return false;
		g->cell[g->cell_count++] = (struct gauge_cell){ .last = UINT32_MAX };
	}
	if (!number_enter(q, &g->seen, mixed(key, index, 2), 0, &ignored, &added, err))
		return false;
	if (!added)
		return true;
	cell = &g->cell[at];
	cell->profiles++;
	if (p && (cell->last == UINT32_MAX || p->time >= cell->last_time)) {
		cell->last = index;
		cell->last_time = p->time;
	}
	return true;
}

struct gauge_weights *gauge_weights_new(struct query *q, uint64_t from, uint64_t step_ns,
					struct err *err)
{
	struct gauge_weights *g = calloc(1, sizeof(*g));

	assert(g);
	*g = (struct gauge_weights){ .q = q, .from = from, .step_ns = step_ns };
	q->parts = ROW_TIMES;
	/* The weights of an answer without groups: group keys change no profile's number. */
	if (!engine_load_profiles(q, err) || !engine_events(q, q->group_key, weigh, g, err)) {
		gauge_weights_free(q, g);
		return NULL;
	}
	number_release(q, &g->seen);
	return g;
}

void gauge_weights_free(struct query *q, struct gauge_weights *g)
{
	if (!g)
		return;
	number_release(q, &g->cells);
	number_release(q, &g->seen);
	query_drop(q, &g->cell, &g->cell_cap, sizeof(*g->cell));
	free(g);
}

uint32_t gauge_divisor(const struct gauge_weights *g, const struct query *q,
		       const struct engine_event *e)
{
	uint32_t at = number_find(&g->cells, cell_key(g, e));
	const struct engine_profile *p;

	if (at == UINT32_MAX)
		return 0;
	if (!q->request.gauge_last)
		return g->cell[at].profiles;
	p = engine_profile_of(q, e->row->sample);
	return p && (uint32_t)(p - q->profiles) == g->cell[at].last ? 1 : 0;
}

/* ---- sums ---- */

enum { SOME = 64 };

struct summing {
	struct query *q;
	struct stack_sums *out;
	struct number_table stacks, groups;
	bool grouped;
	double *average; /* gauges: value, not yet rounded */
	uint32_t average_cap;
	double unsummed;
	struct gauge_weights *weights;
	uint64_t left_out; /* stacks' events that there was no room for */
};

/* The number of a group's value, entered when it is new. */
static bool group_of(struct summing *s, struct str value, uint32_t *out, struct err *err)
{
	struct stack_sums *sums = s->out;
	bool added;

	if (!number_enter(s->q, &s->groups, hash64(value), sums->group_count, out, &added, err))
		return false;
	if (!added)
		return true;
	if (!query_grow(s->q, &sums->groups, &sums->group_cap, sums->group_count + 1u,
			sizeof(*sums->groups), err))
		return false;
	sums->groups[sums->group_count++] =
		value; /* label_match.c put it into the query's memory */
	return true;
}

static bool place_of(struct summing *s, uint64_t stack, struct str value, uint32_t *at,
		     struct err *err)
{
	struct query *q = s->q;
	struct stack_sums *out = s->out;
	uint64_t key = stack;
	uint32_t group = 0;
	bool added;

	if (s->grouped) {
		if (!group_of(s, value, &group, err))
			return false;
		key = mixed(stack, group, 3);
	}
	*at = number_find(&s->stacks, key);
	if (*at != UINT32_MAX)
		return true;
	if (!query_grow(q, &out->ptr, &out->cap, out->count + 1u, sizeof(*out->ptr), err) ||
	    (s->weights && !query_grow(q, &s->average, &s->average_cap, out->count + 1u,
				       sizeof(*s->average), err)) ||
	    !number_enter(q, &s->stacks, key, out->count, at, &added, err))
		return false;
	out->ptr[out->count] = (struct stack_sum){ .stack = stack, .group = group };
	if (s->weights)
		s->average[out->count] = 0;
	out->count++;
	return true;
}

static bool add_gauge(void *ctx, const struct engine_event *e, struct err *err)
{
	struct summing *s = ctx;
	uint32_t divisor = gauge_divisor(s->weights, s->q, e);
	struct err full;
	uint32_t at;

	(void)err;
	if (!divisor)
		return true;
	if (!place_of(s, e->row->stack, e->group, &at, &full)) {
		s->left_out++;
		s->unsummed += (double)e->value / divisor;
		return true;
	}
	s->average[at] += (double)e->value / divisor;
	return true;
}

/* Places first, then values: neither lies near the one before. */
static void add_some(struct summing *s, const struct engine_batch *b, uint32_t from, uint32_t to)
{
	struct stack_sums *out = s->out;
	uint32_t places[SOME];

	for (uint32_t i = from; i < to; i++) {
		uint32_t at = s->grouped ? UINT32_MAX : number_find(&s->stacks, b->stacks[i]);

		places[i - from] = at;
		if (at != UINT32_MAX)
			__builtin_prefetch(&out->ptr[at], 1);
	}
	for (uint32_t i = from; i < to; i++) {
		uint32_t at = places[i - from];
		struct err full;

		if (at != UINT32_MAX || place_of(s, b->stacks[i], b->group, &at, &full)) {
			out->ptr[at].value = engine_add(out->ptr[at].value, b->values[i]);
		} else { /* no room: it counts, but has no name */
			s->left_out++;
			out->unsummed = engine_add(out->unsummed, b->values[i]);
		}
	}
}

static bool add_batch(void *ctx, const struct engine_batch *b, struct err *err)
{
	(void)err;
	for (uint32_t i = 0; i < b->count; i += SOME)
		add_some(ctx, b, i, b->count - i < SOME ? b->count : i + SOME);
	return true;
}

static int stack_order(const void *a, const void *b)
{
	const struct stack_sum *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

/* The table's pages have them in order already, unless some are not in pages. */
static bool order_by_pages(struct summing *s)
{
	const struct number_table *t = &s->stacks;
	struct stack_sum *ordered = NULL;
	struct stack_sums *out = s->out;
	uint32_t cap = 0, count = 0;
	struct err full;

	if (s->grouped || t->used ||
	    !query_grow(s->q, &ordered, &cap, out->count, sizeof(*ordered), &full))
		return false;
	for (uint32_t page = 0; page < t->page_cap; page++)
		for (uint32_t i = 0; t->pages[page] && i < NUMBER_PAGE; i++)
			if (t->pages[page][i])
				ordered[count++] = out->ptr[t->pages[page][i] - 1];
	query_drop(s->q, &out->ptr, &out->cap, sizeof(*out->ptr));
	out->ptr = ordered;
	out->cap = cap;
	return true;
}

static void put_in_order(struct summing *s)
{
	if (s->out->count && !order_by_pages(s))
		qsort(s->out->ptr, s->out->count, sizeof(*s->out->ptr), stack_order);
}

static void round_averages(struct summing *s)
{
	for (uint32_t i = 0; i < s->out->count; i++)
		s->out->ptr[i].value = llround(s->average[i]);
	s->out->unsummed = llround(s->unsummed);
}

bool stack_sums_make(struct query *q, struct str group_by, struct stack_sums *out, struct err *err)
{
	struct summing s = { .q = q, .out = out, .grouped = group_by.len > 0 };
	/* First: gauges' weights know profiles by numbers that another group key takes away. */
	bool ok = !s.grouped || engine_group(q, group_by, err);
	bool gauge = ok && q->type < q->type_count && q->types[q->type].gauge;

	*out = (struct stack_sums){ 0 };
	if (gauge) {
		s.weights = gauge_weights_new(q, 0, 0, err);
		ok = s.weights != NULL;
	}
	q->parts = ROW_STACK;
	ok = ok && (gauge ? engine_events(q, q->group_key, add_gauge, &s, err)
			  : engine_batches(q, q->group_key, add_batch, &s, err));
	if (ok && gauge)
		round_averages(&s);
	if (ok && s.left_out)
		query_note_partial(q,
				   "%u stacks fit one query's memory; the events of others: %llu",
				   out->count, (unsigned long long)s.left_out);
	if (ok)
		put_in_order(&s);
	gauge_weights_free(q, s.weights);
	query_drop(q, &s.average, &s.average_cap, sizeof(*s.average));
	number_release(q, &s.stacks);
	number_release(q, &s.groups);
	if (!ok) {
		stack_sums_release(q, out);
		return false;
	}
	out->total = out->unsummed;
	for (uint32_t i = 0; i < out->count; i++)
		out->total = engine_add(out->total, out->ptr[i].value);
	return true;
}

void stack_sums_release(struct query *q, struct stack_sums *s)
{
	query_drop(q, &s->ptr, &s->cap, sizeof(*s->ptr));
	query_drop(q, &s->groups, &s->group_cap, sizeof(*s->groups));
	s->count = s->group_count = 0;
}
