/* chart_events.c - the flame chart's events: counted by thread, and kept as far as there is room.
 */
#include <stdlib.h>

#include "query/time/chart.h"

/* Of the query's memory so much is for each pair; how many events tell how many there will be. */
enum { PAIR_BYTES = 160, TELLING = 1 << 15 };

void chart_drop_events(struct chart *c)
{
	struct query *q = c->q;

	QUERY_DROP(q, c->events, c->event_cap);
	QUERY_DROP(q, c->durations, c->duration_cap);
	QUERY_DROP(q, c->stacks, c->stack_cap);
	QUERY_DROP(q, c->order, c->order_cap);
	QUERY_DROP(q, c->runs, c->run_cap);
	QUERY_DROP(q, c->boxes, c->box_cap);
	QUERY_DROP(q, c->scratch, c->scratch_cap);
	number_release(q, &c->stack_numbers);
	frame_set_release(&c->set);
	c->event_count = c->stack_count = c->box_count = c->resolved_to = 0;
	c->has_durations = false;
}

static bool add_pair(struct chart *c, uint64_t set, uint32_t series, uint32_t *out, struct err *err)
{
	struct chart_pair pair = { .set = set, .series = series, .next = UINT32_MAX };
	uint32_t first = c->pair_count;

	if (!QUERY_ROOM(c->q, c->pairs, c->pair_cap, c->pair_count + 1u, err) ||
	    !number_enter(c->q, &c->pair_numbers, set, &first, err))
		return false;
	if (first < c->pair_count) {
		pair.next = c->pairs[first].next;
		c->pairs[first].next = c->pair_count;
	}
	*out = c->pair_count;
	c->pairs[c->pair_count++] = pair;
	return true;
}

bool chart_number_pairs(struct chart *c, struct err *err)
{
	number_release(c->q, &c->pair_numbers);
	for (uint32_t i = 0; i < c->pair_count; i++) {
		uint32_t first = i;

		c->pairs[i].next = UINT32_MAX;
		if (!number_enter(c->q, &c->pair_numbers, c->pairs[i].set, &first, err))
			return false;
		if (first == i)
			continue;
		c->pairs[i].next = c->pairs[first].next;
		c->pairs[first].next = i;
	}
	return true;
}

static int heavier_pair(const void *a, const void *b)
{
	const struct chart_pair *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->events != y->events ? (x->events > y->events ? -1 : 1) : 0;
}

static void forget_events(struct taking *t)
{
	chart_drop_events(t->c);
	t->full = true;
}

/* Too many threads to count them all: forgets the lighter half. */
static bool forget_light(struct taking *t, struct err *err)
{
	struct chart *c = t->c;

	forget_events(t);
	qsort(c->pairs, c->pair_count, sizeof(*c->pairs), heavier_pair);
	c->pair_count /= 2;
	QUERY_FIT(c->q, c->pairs, c->pair_cap, c->pair_count);
	c->forgot = true;
	return chart_number_pairs(c, err);
}

static inline uint32_t find_pair(const struct chart *c, uint32_t series, uint64_t set)
{
	uint32_t pair = number_find(&c->pair_numbers, set);

	while (pair != UINT32_MAX && c->pairs[pair].series != series)
		pair = c->pairs[pair].next;
	return pair;
}

bool chart_make_room(struct taking *t, struct err *err)
{
	if (t->full && t->c->pair_count < 2)
		return false;
	if (t->full)
		return forget_light(t, err);
	forget_events(t);
	return true;
}

/* The first event of a pair. */
static bool new_pair(struct taking *t, uint32_t series, uint64_t set, uint32_t *out,
		     struct err *err)
{
	struct chart *c = t->c;

	if (c->pair_count >= c->q->memory.limit_bytes / PAIR_BYTES && !forget_light(t, err))
		return false;
	while (!add_pair(c, set, series, out, err))
		if (err->kind != ERR_LIMIT || !chart_make_room(t, err))
			return false;
	return true;
}

static bool new_stack(struct chart *c, uint64_t id, uint32_t *out, struct err *err)
{
	if (!QUERY_ROOM(c->q, c->stacks, c->stack_cap, c->stack_count + 1u, err) ||
	    !number_put(c->q, &c->stack_numbers, id, c->stack_count, err))
		return false;
	*out = c->stack_count;
	c->stacks[c->stack_count++] = id;
	return true;
}

/* Samples come by time: what part of it they fill tells how many there will be. */
static bool too_many_ahead(const struct taking *t, uint32_t count, size_t each)
{
	const struct chart *c = t->c;
	uint32_t before = c->event_count / TELLING, now = (c->event_count + count) / TELLING;

	if (t->ranked || before == now || t->latest <= c->range.from)
		return false;
	return (double)c->event_count * (double)each * (double)(c->range.to - c->range.from) >
	       (double)t->bytes_most * (double)(t->latest - c->range.from);
}

/* Room for as many further events; false when there is none. */
static bool reserve(struct taking *t, uint32_t count, struct err *err)
{
	struct chart *c = t->c;
	uint64_t need = (uint64_t)c->event_count + count;
	size_t each = sizeof(*c->events) + (c->has_durations ? sizeof(*c->durations) : 0);

	if (need * each > t->bytes_most || too_many_ahead(t, count, each))
		return err_set(err, ERR_LIMIT, "more events than one flame chart has room for");
	return QUERY_ROOM(c->q, c->events, c->event_cap, need, err) &&
	       (!c->has_durations || QUERY_ROOM(c->q, c->durations, c->duration_cap, need, err));
}

/* The first event that lasts otherwise: from here on each has its own, and there is room for as
 * many as there is for events. */
static bool begin_durations(struct chart *c, struct err *err)
{
	if (!QUERY_ROOM(c->q, c->durations, c->duration_cap, c->event_cap, err))
		return false;
	for (uint32_t i = 0; i < c->event_count; i++)
		c->durations[i] = chart_usual(c, chart_says(c, &c->pairs[c->events[i].pair]));
	c->has_durations = true;
	return true;
}

/* What events of one batch have in common. */
struct lasting {
	uint64_t usual;
	bool by_value; /* each lasts its value, else all as usual */
	bool ended;    /* their times are when they ended */
};

static struct lasting lasting_of(const struct chart *c, const struct engine_batch *b)
{
	const struct series_says *says = b->series->says;

	return (struct lasting){ .usual = chart_usual(c, says),
				 .by_value = says->counted || c->timed,
				 .ended = c->timed && !says->counted && b->timed };
}

/* There is room for it. */
static inline bool keep_event(struct chart *c, const struct lasting *l,
			      const struct engine_batch *b, uint32_t i, uint32_t pair,
			      struct err *err)
{
	uint64_t lasts = l->usual;
	struct chart_event out = { .start = b->times[i], .pair = pair };

	if (l->by_value)
		lasts = b->values[i] > 0 ? (uint64_t)b->values[i] : 0;
	if (l->ended)
		out.start = out.start > lasts ? out.start - lasts : 0;
	out.stack = number_find(&c->stack_numbers, b->stacks[i]);
	if ((out.stack == UINT32_MAX && !new_stack(c, b->stacks[i], &out.stack, err)) ||
	    (lasts != l->usual && !c->has_durations && !begin_durations(c, err)))
		return false;
	if (c->has_durations)
		c->durations[c->event_count] = lasts;
	c->events[c->event_count++] = out;
	return true;
}

bool chart_take_all(void *ctx, const struct engine_batch *b, struct err *err)
{
	struct taking *t = ctx;
	struct chart *c = t->c;
	const struct lasting l = lasting_of(c, b);
	const uint32_t series = (uint32_t)(b->series - c->q->selected.series);
	struct err full;

	if (!t->full)
		t->full = !reserve(t, b->count, &full);
	for (uint32_t i = 0; i < b->count; i++) {
		uint32_t pair = find_pair(c, series, b->attributes[i]);
		struct chart_pair *p;

		if (pair == UINT32_MAX && !new_pair(t, series, b->attributes[i], &pair, err))
			return false;
		p = &c->pairs[pair];
		p->events++;
		p->value = engine_add(p->value, b->values[i]);
		p->latest = b->times[i] > p->latest ? b->times[i] : p->latest;
		if (!t->full)
			t->full = !keep_event(c, &l, b, i, pair, &full);
	}
	if (b->count)
		t->latest = b->times[b->count - 1];
	return true;
}

bool chart_take_page(void *ctx, const struct engine_batch *b, struct err *err)
{
	struct taking *t = ctx;
	struct chart *c = t->c;
	const struct lasting l = lasting_of(c, b);
	const uint32_t series = (uint32_t)(b->series - c->q->selected.series);

	if (!reserve(t, b->count, err))
		return false;
	for (uint32_t i = 0; i < b->count; i++) {
		uint32_t pair = find_pair(c, series, b->attributes[i]);

		if (pair != UINT32_MAX && c->pairs[pair].events++ % t->stride == 0 &&
		    !keep_event(c, &l, b, i, pair, err))
			return false;
	}
	return true;
}
