/*
 * reader_events.c - samples of a window as events, column by column.
 *
 * If times are not asked for, a sample with all timestamps in the window is one row of numbers: the
 * sum of its values, and the number of its timestamps, which the server counts. If only stacks are
 * asked for, of series that are alike, the server adds those rows up. Buckets at the window's edges
 * are read with their times, and so are all of them if times are asked for.
 */
#include "store/clickhouse/native.h"
#include "store/clickhouse/scan.h"
#include "store/id_list.h"
#include "store/schema/schema.h"

enum {
	AT_ONCE = 4096,
	ROWS_OF_NUMBERS = 600000, /* in an answer; as many bytes as a page of rows */
	ROWS_WITH_TIMES = 300000,
};

enum how { WITH_TIMES, AS_NUMBERS, AS_SUMS };

struct event_scan {
	struct ch_scanning base;
	source_events_fn *fn;
	void *arg;
	bool stacks, attributes; /* are asked for */
	enum how how;            /* the buckets at hand are read */
	struct id_list shared;   /* series that AS_SUMS adds up together */
	struct source_events out;
	uint64_t series[AT_ONCE], stack[AT_ONCE], attrs[AT_ONCE], time[AT_ONCE];
	int64_t value[AT_ONCE];
	uint32_t ends[AT_ONCE], counts[AT_ONCE];
};

/* ---- events side by side ---- */

static void give(struct event_scan *x)
{
	struct source_events *e = &x->out;

	if (e->count && !x->base.ended)
		x->base.ended = !x->fn(x->arg, e, x->base.err);
	e->count = e->run_count = 0;
}

/* Makes room for one more event of that series and returns its place. */
static inline uint32_t enter(struct event_scan *x, uint64_t series, bool timed)
{
	struct source_events *e = &x->out;

	if (e->count == AT_ONCE || (e->count && e->timed != timed))
		give(x);
	e->timed = timed;
	if (!e->run_count || x->series[e->run_count - 1] != series)
		x->series[e->run_count++] = series;
	x->ends[e->run_count - 1] = e->count + 1;
	return e->count++;
}

static bool is_within(const struct event_scan *x, uint64_t time)
{
	return time >= x->base.what->range.from && time < x->base.what->range.to;
}

static bool is_wanted(const struct event_scan *x, uint64_t series)
{
	const struct source_scan *w = x->base.what;

	return !x->base.series_here || id_list_has(w->series, w->series_count, series);
}

/* ---- samples ---- */

static void put(struct event_scan *x, const struct source_row *s, uint64_t time, int64_t value,
		bool timed)
{
	uint32_t at;

	if (!is_within(x, time))
		return;
	at = enter(x, s->series, timed);
	x->time[at] = time;
	x->value[at] = value;
	x->stack[at] = s->stack;
	x->attrs[at] = s->attributes;
}

static void take_row(struct event_scan *x, struct source_row *s)
{
	int64_t sum;

	source_row_as_meant(s);
	sum = source_row_sum(s);
	if (!s->timestamp_count)
		put(x, s, s->time, sum, false);
	for (uint32_t i = 0; i < s->timestamp_count; i++)
		put(x, s, s->timestamps[i], source_row_value(s, sum, i), true);
}

/* ---- columns ---- */

struct columns {
	const uint8_t *series, *stack_high, *stack_low, *attributes_high, *attributes_low,
		*value_high, *value_low, *shape, *events; /* events: of a row of numbers */
	const uint8_t *bucket, *t0_high, *t0_low;         /* where times are read */
	const uint8_t *sum, *sum_about; /* modulo 2^64; of value_high, not to the last digit */
	struct native_arrays values, offsets, times;
};

static void put_columns(const struct event_scan *x, struct buf *sql)
{
	if (x->how == AS_SUMS) {
		buf_lit(sql, "SELECT stack_high, stack_low, toInt64(sum(value_high) * 256 + "
			     "sum(value_low)), toFloat32(sum(toFloat64(value_high))), "
			     "toUInt32(least(4294967295, "
			     "sum(greatest(1, length(offsets) + length(times)))))");
		return;
	}
	buf_lit(sql, "SELECT series, value_high, value_low");
	if (x->stacks)
		buf_lit(sql, ", stack_high, stack_low");
	if (x->attributes)
		buf_lit(sql, ", attributes_high, attributes_low");
	if (x->how == WITH_TIMES)
		buf_lit(sql, ", shape, bucket, t0_high, t0_low, `values`, offsets, times");
	else
		buf_lit(sql, ", toUInt32(length(offsets) + length(times))");
}

static void read_sums(struct codec *c, uint32_t rows, struct columns *out)
{
	out->stack_high = native_numbers(c, "UInt64", rows, 8);
	out->stack_low = native_numbers(c, "UInt16", rows, 2);
	out->sum = native_numbers(c, "Int64", rows, 8);
	out->sum_about = native_numbers(c, "Float32", rows, 4);
	out->events = native_numbers(c, "UInt32", rows, 4);
}

static void read_columns(const struct event_scan *x, struct codec *c, uint32_t rows,
			 struct columns *out)
{
	struct columns k = { 0 };

	k.series = native_numbers(c, "UInt64", rows, 8);
	k.value_high = native_numbers(c, "Int64", rows, 8);
	k.value_low = native_numbers(c, "UInt8", rows, 1);
	if (x->stacks) {
		k.stack_high = native_numbers(c, "UInt64", rows, 8);
		k.stack_low = native_numbers(c, "UInt16", rows, 2);
	}
	if (x->attributes) {
		k.attributes_high = native_numbers(c, "UInt64", rows, 8);
		k.attributes_low = native_numbers(c, "UInt16", rows, 2);
	}
	if (x->how == WITH_TIMES) {
		k.shape = native_numbers(c, "UInt8", rows, 1);
		k.bucket = native_numbers(c, "UInt32", rows, 4);
		k.t0_high = native_numbers(c, "UInt8", rows, 1);
		k.t0_low = native_numbers(c, "UInt32", rows, 4);
		k.values = native_arrays(c, "Array(Int64)", rows, 8);
		k.offsets = native_arrays(c, "Array(UInt32)", rows, 4);
		k.times = native_arrays(c, "Array(UInt64)", rows, 8);
	} else {
		k.events = native_numbers(c, "UInt32", rows, 4);
	}
	*out = k;
}

static int64_t value_at(const struct columns *k, uint32_t row)
{
	return (int64_t)(native_u64(k->value_high, row) << 8 | k->value_low[row]);
}

static uint64_t time_at(const struct columns *k, uint32_t row)
{
	return native_u32(k->bucket, row) * STORE_BUCKET_NS + ((uint64_t)k->t0_high[row] << 32) +
	       native_u32(k->t0_low, row);
}

static uint64_t stack_at(const struct event_scan *x, const struct columns *k, uint32_t row)
{
	return x->stacks ? native_u64(k->stack_high, row) << 16 | native_u16(k->stack_low, row) : 0;
}

static uint64_t attributes_at(const struct event_scan *x, const struct columns *k, uint32_t row)
{
	return x->attributes ? native_u64(k->attributes_high, row) << 16 |
				       native_u16(k->attributes_low, row)
			     : 0;
}

/* A sample with lists. Its times are either offsets or as they came. */
static void take_lists(struct event_scan *x, const struct columns *k, struct source_row *s,
		       uint32_t row)
{
	struct native_list values = native_list(&k->values, row),
			   offsets = native_list(&k->offsets, row),
			   times = native_list(&k->times, row);
	struct ch_snapshot *snap = x->base.snap;

	ch_room_for_lists(snap, values.count, offsets.count + times.count);
	for (uint32_t i = 0; i < values.count; i++)
		snap->values[i] = (int64_t)native_u64(k->values.elements, values.first + i);
	for (uint32_t i = 0; i < offsets.count; i++)
		snap->times[i] = s->time + native_u32(k->offsets.elements, offsets.first + i);
	for (uint32_t i = 0; i < times.count; i++)
		snap->times[offsets.count + i] = native_u64(k->times.elements, times.first + i);
	s->values = snap->values;
	s->timestamps = snap->times;
	s->value_count = values.count;
	s->timestamp_count = offsets.count + times.count;
	take_row(x, s);
}

static void take_times(struct event_scan *x, const struct columns *k, uint32_t row)
{
	uint8_t shape = k->shape[row];
	struct source_row s = { .series = native_u64(k->series, row),
				.time = time_at(k, row),
				.stack = stack_at(x, k, row),
				.attributes = attributes_at(x, k, row),
				.total = value_at(k, row) };

	if (shape == CH_LISTS || shape == CH_OFFSETS)
		take_lists(x, k, &s, row);
	else
		put(x, &s, s.time, s.total, shape == CH_ONE_TIME || shape == CH_ONE_TIME_VALUE);
}

static void take_numbers(struct event_scan *x, const struct columns *k, uint32_t row)
{
	uint32_t events = native_u32(k->events, row);
	uint32_t at = enter(x, native_u64(k->series, row), true);

	x->value[at] = value_at(k, row);
	x->counts[at] = events ? events : 1;
	x->stack[at] = stack_at(x, k, row);
	x->attrs[at] = attributes_at(x, k, row);
}

/* Saturates, as adding up the values one by one does. */
static int64_t sum_at(const struct columns *k, uint32_t row)
{
	static const float most = 0x1p55F; /* value_high has 8 bits less than a value */
	float about;

	memcpy(&about, k->sum_about + row * sizeof(about), sizeof(about));
	if (about <= -most || about >= most)
		return about < 0 ? INT64_MIN : INT64_MAX;
	return (int64_t)native_u64(k->sum, row);
}

static void take_sum(struct event_scan *x, const struct columns *k, uint32_t row)
{
	uint32_t at = enter(x, x->shared.ids[0], true);

	x->value[at] = sum_at(k, row);
	x->counts[at] = native_u32(k->events, row);
	x->stack[at] = stack_at(x, k, row);
	x->attrs[at] = 0;
}

static void take_sums(struct event_scan *x, struct codec *c, uint32_t rows)
{
	struct columns k = { 0 };

	read_sums(c, rows, &k);
	for (uint32_t i = 0; !c->failed && i < rows && !x->base.ended; i++)
		take_sum(x, &k, i);
}

static void take_rows(struct event_scan *x, struct codec *c, uint32_t rows)
{
	struct columns k;

	read_columns(x, c, rows, &k);
	for (uint32_t i = 0; !c->failed && i < rows && !x->base.ended; i++) {
		if (!is_wanted(x, native_u64(k.series, i)))
			continue;
		if (x->how == WITH_TIMES)
			take_times(x, &k, i);
		else
			take_numbers(x, &k, i);
	}
}

static uint32_t columns_of(const struct event_scan *x)
{
	if (x->how == AS_SUMS)
		return 5;
	return 3 + 2 * (uint32_t)x->stacks + 2 * (uint32_t)x->attributes +
	       (x->how == WITH_TIMES ? 7 : 1);
}

static bool read_blocks(struct event_scan *x, struct codec *c)
{
	uint32_t rows;

	x->out.counts = x->how == WITH_TIMES ? NULL : x->counts;
	x->out.shared = x->how == AS_SUMS ? x->shared.ids : NULL;
	x->out.shared_count = x->how == AS_SUMS ? x->shared.count : 0;
	while (!x->base.ended && native_block(c, columns_of(x), &rows)) {
		if (x->how == AS_SUMS)
			take_sums(x, c, rows);
		else
			take_rows(x, c, rows);
	}
	give(x);
	return ch_answer_ended(c, "events", x->base.err);
}

static void put_question(struct event_scan *x, struct str bounds)
{
	struct buf *sql = &x->base.snap->sql;

	buf_reset(sql);
	put_columns(x, sql);
	buf_lit(sql, " FROM flametap_samples WHERE ");
	buf_str(sql, bounds);
	buf_str(sql, buf_view(&x->base.where));
	if (x->how == AS_SUMS)
		buf_lit(sql, " GROUP BY stack_high, stack_low");
	buf_lit(sql, " FORMAT Native");
}

/* The callback may ask the snapshot for more. */
static bool read_page(struct event_scan *x, struct buf page)
{
	struct codec c = codec_of(buf_view(&page));

	return read_blocks(x, &c);
}

static bool ask_columns(struct ch_scanning *base, struct str bounds)
{
	struct event_scan *x = CONTAINER_OF(base, struct event_scan, base);
	struct ch_snapshot *snap = base->snap;
	struct buf page;
	struct codec c;
	bool ok;

	put_question(x, bounds);
	if (!ch_ask(snap, &c, base->err))
		return false;
	page = snap->answer;
	buf_init(&snap->answer, 0);
	ok = read_page(x, page);
	buf_release(&snap->answer);
	snap->answer = page;
	return ok;
}

/* ---- the window ---- */

/* Sets the condition on samples of these buckets. */
static void set_where(struct event_scan *x, struct str buckets, enum how how, bool exact)
{
	struct ch_scanning *base = &x->base;

	x->how = how;
	base->rows_most = how == WITH_TIMES ? ROWS_WITH_TIMES : ROWS_OF_NUMBERS;
	buf_reset(&base->where);
	buf_str(&base->where, buckets);
	if (exact)
		ch_put_within(base);
	ch_put_asked(base);
	if (how == AS_SUMS && base->series_here) /* the server cannot tell which to add up */
		x->how = AS_NUMBERS;
}

static bool scan_buckets(struct event_scan *x, struct str buckets, enum how how, bool exact)
{
	if (!buckets.len || x->base.ended)
		return true;
	set_where(x, buckets, how, exact);
	return ch_scan_pages(&x->base);
}

/* All with their times, which are compared with the window here. */
static bool scan_with_times(struct event_scan *x, bool exact)
{
	const struct source_scan *w = x->base.what;
	struct buf buckets;
	bool ok;

	buf_init(&buckets, 0);
	ok = ch_window(x->base.snap, w->range, &buckets, x->base.err) &&
	     scan_buckets(x, buf_view(&buckets), WITH_TIMES, exact);
	buf_release(&buckets);
	return ok;
}

/* How to read buckets that lie wholly in the window. When stacks of series that are alike are asked
 * for, the server adds up, provided that the list of this window says which series have samples. */
static enum how how_inner(struct event_scan *x)
{
	const struct source_scan *w = x->base.what;
	const struct ch_listed *l = ch_listed_of(&x->base);
	size_t at = 0;

	if (!w->alike || !x->stacks || x->attributes || w->after || !l ||
	    l->range.from != w->range.from || l->range.to != w->range.to || !w->series ||
	    w->asof < x->base.snap->asof)
		return AS_NUMBERS;
	for (size_t i = 0; i < w->series_count; i++) {
		while (at < l->ids.count && l->ids.ids[at] < w->series[i])
			at++;
		if (at == l->ids.count || l->ids.ids[at] != w->series[i])
			return AS_NUMBERS;
		if (l->inner[at])
			id_list_add(&x->shared, w->series[i]);
	}
	return AS_SUMS;
}

static bool scan_numbers(struct event_scan *x, struct str before)
{
	const struct source_scan *w = x->base.what;
	enum how how = how_inner(x);
	struct buf inner, edges;
	bool ok;

	buf_init(&inner, 0);
	buf_init(&edges, 0);
	ch_window_parts(x->base.snap, w->range, before, &inner, &edges);
	if (how == AS_SUMS && !x->shared.count)
		buf_reset(&inner); /* nothing lies there */
	ok = scan_buckets(x, buf_view(&edges), WITH_TIMES, true) &&
	     scan_buckets(x, buf_view(&inner), how, false);
	buf_release(&inner);
	buf_release(&edges);
	return ok;
}

static bool scan(struct event_scan *x)
{
	struct ch_scanning *base = &x->base;
	bool times = !base->what->parts || base->what->parts & ROW_TIMES, ok;
	struct str before;

	if (!ch_window_before(base->snap, base->what->range.from, &before, base->err))
		return false;
	buf_init(&base->where, 0);
	ok = times || !base->snap->reaching ? scan_with_times(x, before.len > 0)
					    : scan_numbers(x, before);
	buf_release(&base->where);
	free(x->shared.ids);
	return ok;
}

bool ch_events(struct source *source, const struct source_scan *what, source_events_fn *fn,
	       void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	struct event_scan *x;
	bool ok;

	if (what->range.to <= what->range.from || (what->series && !what->series_count))
		return true;
	x = calloc(1, sizeof(*x));
	assert(x);
	x->base =
		(struct ch_scanning){ .snap = snap, .what = what, .page = ask_columns, .err = err };
	x->fn = fn;
	x->arg = arg;
	x->stacks = !what->parts || what->parts & ROW_STACK;
	x->attributes = !what->parts || what->parts & ROW_ATTRIBUTES;
	x->out = (struct source_events){ .series = x->series,
					 .ends = x->ends,
					 .values = x->value,
					 .times = x->time,
					 .stacks = x->stack,
					 .attributes = x->attrs };
	ok = scan(x) && !x->base.ended;
	free(x);
	return ok;
}
