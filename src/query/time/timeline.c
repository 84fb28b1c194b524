/* timeline.c - values over time: a line a group, and the heat map of finer time within columns. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "query/select/gauge.h"
#include "query/select/walk.h"

enum { BUCKETS_DEFAULT = 200, BUCKETS_MOST = 20000, GROUPS_DEFAULT = 20, GROUPS_MOST = 1000 };
enum { ROWS_DEFAULT = 50, CELLS_MOST = 1 << 20 };

/* ---- timeline ---- */

struct curve {
	struct str label;
	double *values;     /* gauges are not whole until they are rounded */
	uint32_t *profiles; /* average: how many have events there */
	double total;
};

struct drawing {
	struct query *q;
	struct gauge_weights *weights;
	uint64_t from, end, step;
	uint32_t buckets;
	bool spread;
	struct curve *lines;
	uint32_t line_count, line_cap;
	struct number_table labels; /* hash -> line */
	bool average;
	struct number_table counted; /* (bucket, line, profile) */
	bool *covered;               /* the buckets */
	bool lasting;                /* some events last as long as their profiles */
};

static bool line_of(struct drawing *d, struct str label, uint32_t *out, struct err *err)
{
	uint64_t hash = hash64(label);
	struct curve *line;

	*out = d->line_count;
	if (!number_enter(d->q, &d->labels, hash, out, err))
		return false;
	if (*out < d->line_count)
		return true;
	if (!QUERY_ROOM(d->q, d->lines, d->line_cap, d->line_count + 1u, err))
		return false;
	line = &d->lines[d->line_count];
	*line = (struct curve){ .values = query_alloc(d->q, d->buckets, sizeof(double), err) };
	if (!line->values || !query_str_dup(d->q, label, &line->label, err))
		return false;
	if (d->average) {
		line->profiles = query_alloc(d->q, d->buckets, sizeof(*line->profiles), err);
		if (!line->profiles)
			return false;
	}
	d->line_count++;
	return true;
}

static bool count_profile(struct drawing *d, const struct engine_event *e, uint32_t line,
			  uint64_t bucket, struct err *err)
{
	const struct engine_profile *p;
	uint64_t parts[] = { bucket, line, UINT64_MAX };
	bool added;

	if (!engine_load_profiles(d->q, err))
		return false;
	p = engine_profile_of(d->q, e->row->sample);
	if (p)
		parts[2] = (uint64_t)(p - d->q->known.profiles);
	if (!number_note(d->q, &d->counted, hash64(str_from(parts, sizeof(parts))), &added, err))
		return false;
	d->lines[line].profiles[bucket] += added;
	return true;
}

/* What of an event of [e->time, end) is in a bucket: of a sum its share, of a gauge its level. */
static double part_in(const struct drawing *d, const struct engine_event *e, uint64_t end,
		      uint64_t bucket)
{
	uint64_t from = d->from + bucket * d->step, to = from + d->step;
	uint32_t divisor;

	if (d->weights) {
		divisor = gauge_divisor(d->weights, d->q, e, bucket);
		return divisor ? (double)e->value / divisor : 0;
	}
	from = from > e->time ? from : e->time;
	to = to < end ? to : end;
	return (double)e->value * ((double)(to - from) / (double)(end - e->time));
}

/* What lasts beyond the answer's last bucket is all in those that there are: an event that counts
 * is drawn whole. */
static bool draw_event(void *ctx, const struct engine_event *e, struct err *err)
{
	struct drawing *d = ctx;
	uint64_t bucket, end = e->time + 1;
	uint32_t line;

	if (e->time < d->from || e->time >= d->end)
		return true;
	if (d->spread && !engine_event_end(d->q, e, &end, err))
		return false;
	end = end > d->end ? d->end : end;
	if (!line_of(d, e->group, &line, err))
		return false;
	bucket = (e->time - d->from) / d->step;
	if (d->average && !count_profile(d, e, line, bucket, err))
		return false;
	for (; bucket < d->buckets && d->from + bucket * d->step < end; bucket++) {
		double part = part_in(d, e, end, bucket);

		d->lines[line].values[bucket] += part;
		d->lines[line].total += part;
	}
	return true;
}

/* The same for events that are moments: sums of what has timestamps, or is not to be spread. */
static bool draw_batch(void *ctx, const struct engine_batch *b, struct err *err)
{
	struct drawing *d = ctx;
	uint32_t line = UINT32_MAX;

	d->lasting = d->spread && !b->timed;
	if (d->lasting)
		return err_set(err, ERR_INTERNAL, "events of some length, drawn as moments");
	for (uint32_t i = 0; i < b->count; i++) {
		double value = (double)b->values[i];

		if (b->times[i] < d->from || b->times[i] >= d->end)
			continue;
		if (line == UINT32_MAX && !line_of(d, b->group, &line, err))
			return false;
		d->lines[line].values[(b->times[i] - d->from) / d->step] += value;
		d->lines[line].total += value;
	}
	return true;
}

/* Batches know no profiles. Where it turns out that these are needed, from the start again. */
static bool draw_events(struct drawing *d, struct source_range within, bool batches,
			struct err *err)
{
	struct query *q = d->q;
	struct walk w = walk_of(q, ROW_TIMES);

	if (batches && !d->weights && !d->average) {
		w.alike = true;
		if (engine_batches(q, &w, draw_batch, d, err))
			return true;
		if (!d->lasting)
			return false;
		d->line_count = 0;
		number_release(q, &d->labels);
	}
	w.range = within;
	return engine_events(q, &w, draw_event, d, err);
}

static int heavier_line(const void *a, const void *b)
{
	const struct curve *x = a, *y = b;
	double v = fabs(x->total), w = fabs(y->total);

	if (v != w)
		return v > w ? -1 : 1;
	return str_compare(x->label, y->label);
}

static int64_t whole(double v)
{
	if (v >= 9.2e18)
		return INT64_MAX;
	return v <= -9.2e18 ? INT64_MIN : llround(v);
}

/* Shares of a sum are rounded so that they are the sum: what a bucket lacks is the next one's. */
static bool give_line(struct drawing *d, const struct curve *line, struct query_group *out,
		      struct err *err)
{
	int64_t *values = query_alloc(d->q, d->buckets, sizeof(*values), err);
	bool sums = d->spread && !d->weights && !d->average;
	double rest = 0;

	if (!values)
		return false;
	*out = (struct query_group){ .label = line->label, .values = values };
	for (uint32_t i = 0; i < d->buckets; i++) {
		values[i] = whole(line->values[i] + rest);
		if (sums)
			rest += line->values[i] - (double)values[i];
		out->total = engine_add(out->total, values[i]);
	}
	return true;
}

static void divide_averages(const struct drawing *d, struct curve *line)
{
	for (uint32_t b = 0; b < d->buckets; b++)
		if (line->profiles[b])
			line->values[b] /= line->profiles[b];
}

static bool give_groups(struct drawing *d, uint32_t most, struct query_timeline *out,
			struct err *err)
{
	uint32_t count = d->line_count > most ? most : d->line_count;
	bool other = d->line_count > count;
	struct query_group *groups = query_alloc(d->q, count + 1u, sizeof(struct query_group), err);

	if (!groups)
		return false;
	if (d->line_count)
		qsort(d->lines, d->line_count, sizeof(*d->lines), heavier_line);
	for (uint32_t i = count + 1; i < d->line_count; i++) /* the rest into the first of them */
		for (uint32_t b = 0; b < d->buckets; b++) {
			d->lines[count].values[b] += d->lines[i].values[b];
			if (d->average)
				d->lines[count].profiles[b] += d->lines[i].profiles[b];
		}
	if (d->average)
		for (uint32_t i = 0; i < count + other; i++)
			divide_averages(d, &d->lines[i]);
	for (uint32_t i = 0; i < count + other; i++)
		if (!give_line(d, &d->lines[i], &groups[i], err))
			return false;
	if (other) {
		groups[count].label = STR("other");
		groups[count].other = true;
	}
	out->groups = groups;
	out->group_count = count + other;
	return true;
}

static bool cover_buckets(void *ctx, uint64_t from, uint64_t duration, struct err *err)
{
	struct drawing *d = ctx;
	uint64_t to = from + (duration ? duration : 1), b; /* of no length: looked at once */

	(void)err;
	if (to < from || to <= d->from)
		return true;
	b = from > d->from ? (from - d->from) / d->step : 0;
	for (; b < d->buckets && d->from + b * d->step < to; b++)
		d->covered[b] = true;
	return true;
}

/* A bucket is covered where a profile was being taken, or has events. */
static bool give_covered(struct drawing *d, struct query_timeline *out, struct err *err)
{
	struct query *q = d->q;
	bool *covered = query_alloc(q, d->buckets + 1u, sizeof(*covered), err);

	d->covered = covered;
	if (!covered || !engine_profile_times(q, cover_buckets, d, err))
		return false;
	for (uint32_t l = 0; l < d->line_count; l++)
		for (uint32_t b = 0; b < d->buckets; b++)
			covered[b] |= d->lines[l].values[b] != 0;
	out->covered = covered;
	return true;
}

static bool draw_timeline(struct drawing *d, const struct query_timeline_options *o,
			  struct query_timeline *out, struct err *err)
{
	struct query *q = d->q;
	uint32_t most = o->groups_most ? o->groups_most : GROUPS_DEFAULT;
	struct source_range within = o->within.to ? o->within : q->request.range;

	d->average = o->average;
	d->spread = o->spread && !o->average;
	/* First: weights know profiles by numbers that another group key takes away. */
	if (!engine_group(q, o->group_by, err))
		return false;
	if (!d->average && query_of_gauge(q)) {
		const struct gauge_buckets buckets = {
			.from = d->from, .step_ns = d->step, .end = d->end, .hold = d->spread
		};

		d->weights = gauge_weights_new(q, &buckets, err);
		if (!d->weights)
			return false;
	}
	return draw_events(d, within, !o->within.to, err) && give_covered(d, out, err) &&
	       give_groups(d, most < GROUPS_MOST ? most : GROUPS_MOST, out, err);
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

bool query_timeline(struct query *q, const struct query_timeline_options *o,
		    struct query_timeline *out, struct err *err)
{
	static const struct query_timeline_options defaults;
	struct query_timeline t = { 0 };
	struct drawing d = { .q = q };
	struct source_range bounds;
	uint64_t count;
	bool ok;

	o = o ? o : &defaults;
	q->partial = false;
	bounds = o->within;
	if (!bounds.to && !engine_bounds(q, &bounds, err))
		return false;
	d.step = o->step_ns
			 ? o->step_ns
			 : div_up(bounds.to - bounds.from, o->steps ? o->steps : BUCKETS_DEFAULT);
	d.step = d.step ? d.step : 1;
	count = div_up(bounds.to - bounds.from, d.step);
	if (count > BUCKETS_MOST)
		return err_set(err, ERR_LIMIT,
			       "a timeline of %llu steps; at most %d: a longer step is needed",
			       (unsigned long long)count, BUCKETS_MOST);
	t.from = d.from = bounds.from;
	d.end = bounds.to;
	t.step_ns = d.step;
	t.bucket_count = d.buckets = (uint32_t)count;
	t.gauge = query_of_gauge(q);
	ok = draw_timeline(&d, o, &t, err);
	gauge_weights_free(q, d.weights);
	QUERY_DROP(q, d.lines, d.line_cap);
	number_release(q, &d.labels);
	number_release(q, &d.counted);
	if (ok)
		*out = t;
	return ok;
}

/* ---- heat map ---- */

struct heat {
	uint64_t from, column;
	uint32_t columns, rows;
	int64_t *cells;
	/* Of a gauge: */
	struct query *q;
	struct gauge_weights *weights;
	double *levels;
};

static bool heat_batch(void *ctx, const struct engine_batch *b, struct err *err)
{
	const struct heat h = *(const struct heat *)ctx;

	(void)err;
	for (uint32_t i = 0; i < b->count; i++) {
		int64_t *cell;

		if (b->times[i] < h.from || (b->times[i] - h.from) / h.column >= h.columns)
			continue;
		cell = &h.cells[engine_cell_of(b->times[i] - h.from, h.column, h.rows)];
		*cell = engine_add(*cell, b->values[i]);
	}
	return true;
}

static bool heat_level(void *ctx, const struct engine_event *e, struct err *err)
{
	const struct heat *h = ctx;
	uint64_t cell;
	uint32_t divisor;

	(void)err;
	if (e->time < h->from || (e->time - h->from) / h->column >= h->columns)
		return true;
	cell = engine_cell_of(e->time - h->from, h->column, h->rows);
	divisor = gauge_divisor(h->weights, h->q, e, cell);
	h->levels[cell] += divisor ? (double)e->value / divisor : 0;
	return true;
}

static bool fill_cells(struct query *q, struct heat *h, struct err *err)
{
	uint64_t count = (uint64_t)h->columns * h->rows;
	const struct gauge_buckets buckets = {
		.from = h->from, .step_ns = h->column, .end = UINT64_MAX, .rows = h->rows
	};
	struct walk w = walk_of(q, ROW_TIMES);
	bool ok;

	if (!query_of_gauge(q)) {
		w.alike = true;
		return engine_batches(q, &w, heat_batch, h, err);
	}
	h->q = q;
	h->levels = query_alloc(q, count + 1, sizeof(double), err);
	h->weights = h->levels ? gauge_weights_new(q, &buckets, err) : NULL;
	ok = h->weights && engine_events(q, &w, heat_level, h, err);
	gauge_weights_free(q, h->weights);
	for (uint64_t i = 0; ok && i < count; i++)
		h->cells[i] = whole(h->levels[i]);
	return ok;
}

/* A column's length: a second, or as many as make `most` columns of the range. */
static uint64_t seconds_of(struct source_range r, uint32_t most)
{
	uint64_t seconds = most ? (r.to - r.from) / SECOND_NS / most + 1 : 1;

	return seconds * SECOND_NS;
}

bool query_heatmap(struct query *q, const struct query_heatmap_options *o,
		   struct query_heatmap *out, struct err *err)
{
	static const struct query_heatmap_options defaults;
	struct source_range bounds;
	struct heat h = { 0 };
	uint64_t columns;
	int64_t most = 0;

	o = o ? o : &defaults;
	q->partial = false;
	if (!engine_bounds(q, &bounds, err))
		return false;
	h.from = bounds.from;
	h.column = o->column_ns ? o->column_ns : seconds_of(bounds, o->columns);
	h.rows = o->rows ? o->rows : ROWS_DEFAULT;
	columns = div_up(bounds.to - bounds.from, h.column);
	if (h.rows > CELLS_MOST || columns > CELLS_MOST / h.rows)
		return err_set(err, ERR_LIMIT,
			       "a heat map of %llu columns of %u rows; at most %d cells",
			       (unsigned long long)columns, h.rows, CELLS_MOST);
	h.columns = (uint32_t)columns;
	h.cells = query_alloc(q, (uint64_t)h.columns * h.rows + 1, sizeof(int64_t), err);
	if (!h.cells || !fill_cells(q, &h, err))
		return false;
	for (uint64_t i = 0; i < (uint64_t)h.columns * h.rows; i++)
		most = h.cells[i] > most ? h.cells[i] : most;
	*out = (struct query_heatmap){ h.from, h.column, h.columns, h.rows, h.cells, most };
	return true;
}
