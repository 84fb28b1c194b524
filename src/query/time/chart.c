/* chart.c - the flame chart: events in order, their stacks, each thread's boxes. */
#include <stdlib.h>

#include "query/time/chart.h"
#include "query/sum/rows.h"
#include "store/id_list.h"

enum { WIDTH_DEFAULT = 1200, WIDTH_MOST = 4000, LANES_DEFAULT = 50, LANES_MOST = 200 };
enum { STRIDE_MOST = 1 << 16, SURELY_TOO_MANY = CHART_BOXES_MOST / 2 * 3 };

/* ---- order ---- */

struct start_key {
	uint64_t start;
	uint32_t event;
};

static int by_start(const void *a, const void *b)
{
	const struct start_key *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

/* order[from, to), which are of one lane. Most of them came in order. */
static bool sort_lane(struct chart *c, uint32_t from, uint32_t to, struct err *err)
{
	struct start_key *keys = NULL;
	uint32_t cap = 0, i = from + 1;

	while (i < to && c->events[c->order[i - 1]].start <= c->events[c->order[i]].start)
		i++;
	if (i >= to)
		return true;
	if (!QUERY_ROOM(c->q, keys, cap, to - from, err))
		return false;
	for (i = from; i < to; i++)
		keys[i - from] = (struct start_key){ c->events[c->order[i]].start, c->order[i] };
	qsort(keys, to - from, sizeof(*keys), by_start);
	for (i = from; i < to; i++)
		c->order[i] = keys[i - from].event;
	QUERY_DROP(c->q, keys, cap);
	return query_alive_now(c->q, err);
}

static uint32_t lane_of(const struct chart *c, uint32_t event)
{
	return c->pairs[c->events[event].pair].lane;
}

/* Lane by lane as they came; lane_first[k] is where lane k begins. */
static void part_lanes(struct chart *c)
{
	uint32_t *first = c->lane_first;

	memset(first, 0, (c->lane_count + 1u) * sizeof(*first));
	for (uint32_t i = 0; i < c->event_count; i++)
		first[lane_of(c, i) + 1]++;
	for (uint32_t k = 0; k < c->lane_count; k++)
		first[k + 1] += first[k];
	for (uint32_t i = 0; i < c->event_count; i++)
		c->order[first[lane_of(c, i)]++] = i;
	for (uint32_t k = c->lane_count; k > 0; k--)
		first[k] = first[k - 1];
	first[0] = 0;
}

static bool order_events(struct chart *c, struct err *err)
{
	bool ok = QUERY_ROOM(c->q, c->order, c->order_cap, c->event_count + 1u, err) &&
		  QUERY_ROOM(c->q, c->lane_first, c->lane_first_cap, c->lane_count + 1u, err);

	if (ok)
		part_lanes(c);
	for (uint32_t k = 0; ok && k < c->lane_count; k++)
		ok = sort_lane(c, c->lane_first[k], c->lane_first[k + 1], err);
	QUERY_FIT(c->q, c->order, c->order_cap, c->event_count);
	return ok;
}

/* ---- stacks ---- */

enum { NOT_AT_HAND, AT_HAND }; /* in chart_run.count, until stacks are resolved */

/* The stacks that events of the lanes [from, to) have. */
static void mark_stacks(struct chart *c, uint32_t from, uint32_t to)
{
	memset(c->runs, 0, c->run_cap * sizeof(*c->runs));
	if (to - from == c->lane_count) {
		for (uint32_t i = 0; i < c->event_count; i++)
			c->runs[c->events[i].stack].count = AT_HAND;
		return;
	}
	for (uint32_t i = c->lane_first[from]; i < c->lane_first[to]; i++)
		c->runs[c->events[c->order[i]].stack].count = AT_HAND;
}

static void place_runs(struct chart *c, const uint64_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < c->stack_count; i++) {
		const struct frame_run *run;

		if (c->runs[i].count == NOT_AT_HAND)
			continue;
		run = &c->set.runs[id_place(ids, count, c->stacks[i])];
		c->runs[i] = (struct chart_run){ run->first, run->count };
	}
}

/* Resolves the stacks that events of the lanes [from, to) have. */
static bool resolve_stacks(struct chart *c, uint32_t from, uint32_t to, struct err *err)
{
	uint64_t *ids = NULL;
	uint32_t cap = 0, count = 0;
	bool ok;

	if (c->resolved_from == from && c->resolved_to == to)
		return true; /* drawn in finer steps before */
	c->resolved_to = 0;
	ok = QUERY_ROOM(c->q, ids, cap, c->stack_count + 1u, err) &&
	     QUERY_ROOM(c->q, c->runs, c->run_cap, c->stack_count + 1u, err);

	if (ok) {
		mark_stacks(c, from, to);
		for (uint32_t i = 0; i < c->stack_count; i++)
			if (c->runs[i].count == AT_HAND)
				ids[count++] = c->stacks[i];
		count = (uint32_t)id_list_sort(ids, count);
		c->set.pool_count = c->set.run_count = 0; /* of the lanes before */
		ok = frame_set_resolve(&c->set, ids, count, FILTERS_ON, err);
	}
	if (ok)
		place_runs(c, ids, count);
	QUERY_DROP(c->q, ids, cap);
	c->resolved_from = from;
	c->resolved_to = ok ? to : 0;
	return ok;
}

/* ---- the answer ---- */

static void set_bin(struct chart *c, uint64_t bin_ns)
{
	uint64_t span = c->range.to - c->range.from;

	c->bin_ns = bin_ns ? bin_ns : 1;
	c->bins = (uint32_t)(span / c->bin_ns + (span % c->bin_ns != 0));
}

static void set_width(struct chart *c, uint32_t width)
{
	uint64_t span = c->range.to - c->range.from;

	set_bin(c, span / width + (span % width != 0));
}

struct page {
	struct query_lane out[LANES_MOST];
	uint32_t first[LANES_MOST]; /* box of each lane */
	uint32_t drawn;             /* lanes */
	bool too_many;              /* boxes: the other lanes were not drawn */
};

/* The most boxes of one depth that a lane can have: one per pixel or per event. */
static double fullness(const struct chart *c, uint32_t lane)
{
	uint32_t events = c->lane_first[lane + 1] - c->lane_first[lane];

	return events < c->bins ? events : c->bins;
}

/* How many boxes there will be, when the first `drawn` lanes, the heaviest, have those that there
 * are. */
static double expected_boxes(const struct chart *c, uint32_t drawn)
{
	double some = 0, all = 0;

	for (uint32_t i = 0; i < c->lane_count; i++) {
		all += fullness(c, i);
		some += i < drawn ? fullness(c, i) : 0;
	}
	return some > 0 ? c->box_count * (all / some) : c->box_count;
}

/* Draws the lanes [from, to). If their stacks do not fit together, half of the lanes at a time. */
static bool draw_some(struct chart *c, struct page *page, uint32_t from, uint32_t to,
		      struct err *err)
{
	if (!resolve_stacks(c, from, to, err)) {
		uint32_t middle = from + (to - from) / 2;

		QUERY_DROP(c->q, c->set.pool, c->set.pool_cap);
		return err->kind == ERR_LIMIT && to - from > 1 &&
		       draw_some(c, page, from, middle, err) && draw_some(c, page, middle, to, err);
	}
	for (uint32_t i = from; i < to; i++) {
		page->first[i] = c->box_count;
		if (!chart_draw_lane(c, i, err))
			return false;
		page->out[i].box_count = c->box_count - page->first[i];
		page->drawn = i + 1;
		page->too_many = expected_boxes(c, i + 1) > SURELY_TOO_MANY;
		if (page->too_many)
			return err_set(err, ERR_LIMIT, "a flame chart of too many boxes");
	}
	return true;
}

/* Draws all lanes; if these are too many boxes, again with wider pixels. */
static bool draw_lanes(struct chart *c, struct page *page, struct err *err)
{
	for (unsigned attempt = 0; c->lane_count; attempt++) {
		uint32_t times = 2;
		double expected;

		c->box_count = page->drawn = 0;
		page->too_many = false;
		if (draw_some(c, page, 0, c->lane_count, err))
			return true;
		if ((c->box_count < CHART_BOXES_MOST && !page->too_many) || attempt == 6)
			return false;
		expected = expected_boxes(c, page->drawn + !page->too_many);
		while (expected / times > CHART_BOXES_MOST)
			times *= 2;
		set_bin(c, c->bin_ns * times);
		query_note_partial(c->q, "drawn in steps of %.3g ms: finer ones are too many boxes",
				   (double)c->bin_ns / 1e6);
	}
	return true;
}

static bool give_lanes(struct chart *c, struct page *page, struct query_chart *out, struct err *err)
{
	const struct query_box *boxes;
	struct query_lane *lanes = query_alloc(c->q, c->lane_count + 1u, sizeof(*lanes), err);

	QUERY_FIT(c->q, c->boxes, c->box_cap, c->box_count);
	boxes = c->boxes;
	if (!lanes || !query_give(c->q, &c->boxes, &c->box_cap, err))
		return false;
	for (uint32_t i = 0; i < c->lane_count; i++) {
		lanes[i] = page->out[i];
		lanes[i].boxes = boxes ? boxes + page->first[i] : NULL;
		lanes[i].value = c->lanes[i].value;
		lanes[i].events = c->lanes[i].events;
	}
	out->lanes = lanes;
	out->lane_count = c->lane_count;
	out->lanes_in_all = c->lanes_in_all;
	return true;
}

static bool give_chart(struct chart *c, struct query_chart *out, struct err *err)
{
	struct page page = { 0 };

	if (!order_events(c, err) || !frame_set_init(&c->set, c->q, err) ||
	    !draw_lanes(c, &page, err))
		return false;
	QUERY_DROP(c->q, c->set.pool, c->set.pool_cap);
	QUERY_DROP(c->q, c->order, c->order_cap);
	QUERY_DROP(c->q, c->events, c->event_cap);
	if (!chart_name_lanes(c, page.out, err) || !give_lanes(c, &page, out, err) ||
	    !frame_set_give(&c->set, &out->frames, err))
		return false;
	out->range = c->range;
	out->bin_ns = c->bin_ns;
	return true;
}

static void chart_release(struct chart *c)
{
	struct query *q = c->q;

	chart_drop_events(c);
	QUERY_DROP(q, c->lane_first, c->lane_first_cap);
	QUERY_DROP(q, c->pairs, c->pair_cap);
	QUERY_DROP(q, c->lanes, c->lane_cap);
	number_release(q, &c->pair_numbers);
}

static void note_forgotten(struct chart *c)
{
	if (c->forgot)
		query_note_partial(c->q,
				   "so many threads that the light ones are left out, and what is "
				   "short-lived may count for less: a shorter time or a filter "
				   "shows all");
}

/* The next walk is about the series of the page's pairs. */
static bool walk_page(struct chart *c, struct taking *t, struct err *err)
{
	struct query *q = c->q;
	struct walk w = walk_of(q, ROW_STACK | ROW_ATTRIBUTES | ROW_TIMES);
	uint64_t *ids = NULL, events = q->events;
	uint32_t cap = 0;
	bool ok = QUERY_ROOM(q, ids, cap, c->pair_count + 1u, err);

	for (uint32_t i = 0; ok && i < c->pair_count; i++)
		ids[i] = q->selected.series[c->pairs[i].series].id;
	w.series = ids;
	w.series_count = ok ? (uint32_t)id_list_sort(ids, c->pair_count) : 0;
	ok = ok && engine_batches(q, &w, chart_take_page, t, err);
	q->events = events; /* of the whole selection */
	QUERY_DROP(q, ids, cap);
	return ok;
}

/* Where the events of the page alone do not fit either: one in two, in four, ... of each thread. */
static bool chart_of_page(struct chart *c, struct taking *t, const struct query_chart_options *o,
			  struct query_chart *out, struct err *err)
{
	struct query *q = c->q;

	for (t->stride = 1;; t->stride *= 2) {
		chart_drop_events(c);
		q->partial = false;
		note_forgotten(c);
		set_width(c, o->width);
		for (uint32_t i = 0; i < c->pair_count; i++)
			c->pairs[i].events = 0; /* from here on a turn of the stride */
		if (t->stride > 1)
			query_note_partial(q, "one sample in %u of each thread is drawn",
					   t->stride);
		if (walk_page(c, t, err) && give_chart(c, out, err))
			return true;
		if (err->kind != ERR_LIMIT || t->stride == STRIDE_MOST)
			return false;
	}
}

static bool make_chart(struct chart *c, const struct query_chart_options *o,
		       struct query_chart *out, struct err *err)
{
	struct query *q = c->q;
	const struct query_type *type = query_type_of(q);
	struct taking t = { .c = c, .bytes_most = q->memory.limit_bytes / 3 * 2 };
	const struct walk w = walk_of(q, ROW_STACK | ROW_ATTRIBUTES | ROW_TIMES);

	c->timed = type && str_is(type->unit, "nanoseconds");
	set_width(c, o->width);
	if (!engine_batches(q, &w, chart_take_all, &t, err))
		return false;
	QUERY_FIT(q, c->events, c->event_cap, c->event_count);
	QUERY_FIT(q, c->durations, c->duration_cap, c->event_count);
	QUERY_FIT(q, c->pairs, c->pair_cap, c->pair_count);
	while (!chart_make_lanes(c, err)) /* without events, or light ones, there is more room */
		if (err->kind != ERR_LIMIT || !chart_make_room(&t, err))
			return false;
	t.ranked = true;
	if (!chart_keep_page(c, o->lanes_skipped, o->lanes_most, err))
		return false;
	note_forgotten(c);
	if (!t.full) {
		if (give_chart(c, out, err))
			return true;
		if (err->kind != ERR_LIMIT)
			return false;
	}
	return chart_of_page(c, &t, o, out, err);
}

bool query_chart(struct query *q, const struct query_chart_options *options,
		 struct query_chart *out, struct err *err)
{
	struct query_chart_options o = options ? *options : (struct query_chart_options){ 0 };
	struct chart c = { .q = q, .set.q = q };
	struct query_chart chart = { 0 };
	bool ok;

	o.width = o.width ? o.width : WIDTH_DEFAULT;
	o.lanes_most = o.lanes_most ? o.lanes_most : LANES_DEFAULT;
	q->partial = false;
	if (o.width > WIDTH_MOST || o.lanes_most > LANES_MOST)
		return err_set(err, ERR_LIMIT,
			       "a flame chart of %u lanes on %u pixels; at most %d on %d",
			       o.lanes_most, o.width, LANES_MOST, WIDTH_MOST);
	if (!engine_bounds(q, &c.range, err))
		return false;
	ok = make_chart(&c, &o, &chart, err);
	chart_release(&c);
	if (ok)
		*out = chart;
	return ok;
}
