/* reader_scan.c - samples of a window, from rows in RowBinary. */
#include "store/clickhouse/scan.h"
#include "store/id_list.h"

enum { ROWS_AHEAD = CH_IDS_MOST, ROWS_AGAIN = 1000 };

/* ---- a row ---- */

void ch_room_for_lists(struct ch_snapshot *snap, uint32_t values, uint32_t times)
{
	if (values > snap->value_cap) {
		snap->value_cap = values * 2;
		free(snap->values);
		snap->values = malloc(snap->value_cap * sizeof(*snap->values));
		assert(snap->values);
	}
	if (times > snap->time_cap) {
		snap->time_cap = times * 2;
		free(snap->times);
		snap->times = malloc(snap->time_cap * sizeof(*snap->times));
		assert(snap->times);
	}
}

const char ch_sample_columns[] = "base, place, t0, series, stack, attributes, link, value, shape, "
				 "`values`, offsets, times";

/* A row that has offsets has no times. */
static uint32_t read_offsets(struct ch_snapshot *snap, struct codec *c, uint64_t time)
{
	uint32_t n = row_get_count(c, 4);

	ch_room_for_lists(snap, 0, n);
	for (uint32_t i = 0; i < n; i++)
		snap->times[i] = time + row_get(c, 4);
	return n;
}

static void read_lists(struct ch_snapshot *snap, struct codec *c, struct source_row *x)
{
	uint32_t offsets;
	struct str bytes;

	x->value_count = row_get_count(c, 8);
	bytes = row_get_fixed(c, (size_t)x->value_count * 8);
	ch_room_for_lists(snap, x->value_count, 0);
	if (bytes.len)
		memcpy(snap->values, bytes.ptr, bytes.len);
	offsets = read_offsets(snap, c, x->time);
	x->timestamp_count = row_get_count(c, 8);
	bytes = row_get_fixed(c, (size_t)x->timestamp_count * 8);
	ch_room_for_lists(snap, 0, x->timestamp_count);
	if (bytes.len)
		memcpy(snap->times, bytes.ptr, bytes.len);
	else
		x->timestamp_count = offsets;
	x->values = snap->values;
	x->timestamps = snap->times;
}

bool ch_read_sample(struct ch_snapshot *snap, struct codec *c, struct source_row *out)
{
	struct source_row x = { 0 };
	enum ch_shape shape;

	x.sample = row_get(c, 8);
	x.sample += row_get(c, 4);
	x.time = row_get(c, 8);
	x.last = x.time;
	x.series = row_get(c, 8);
	x.stack = row_get(c, 8);
	x.attributes = row_get(c, 8);
	x.link = row_get(c, 8);
	x.total = (int64_t)row_get(c, 8);
	shape = (enum ch_shape)row_get(c, 1);
	read_lists(snap, c, &x);
	if (shape == CH_LISTS || shape == CH_OFFSETS) {
		for (uint32_t i = 0; i < x.timestamp_count; i++)
			x.last = x.timestamps[i] > x.last ? x.timestamps[i] : x.last;
	} else {
		snap->time = x.time;
		snap->value = x.total;
		x.timestamps = &snap->time;
		x.values = &snap->value;
		x.timestamp_count = shape == CH_ONE_TIME || shape == CH_ONE_TIME_VALUE;
		x.value_count = shape == CH_ONE_TIME_VALUE || shape == CH_NO_TIME_VALUE;
	}
	*out = x;
	return !c->failed;
}

/* ---- scans ---- */

struct row_scan {
	struct ch_scanning base;
	source_row_fn *fn;
	void *arg;
};

/* A callback that looks at attributes asks for each list when it meets it, one request each. So the
 * lists of the next rows are fetched together. */
static bool fetch_lists_ahead(struct ch_scanning *x, struct codec c)
{
	struct id_list lists = { 0 };
	struct source_row s;
	bool ok;

	if (x->what->parts && !(x->what->parts & ROW_ATTRIBUTES))
		return true;
	for (uint32_t i = 0; i < ROWS_AHEAD && codec_more(&c) && ch_read_sample(x->snap, &c, &s);
	     i++)
		id_list_add(&lists, s.attributes);
	ch_make_room(x->snap);
	ok = ch_fetch(x->snap, KIND_ATTRSET, lists.ids, lists.count, x->err);
	free(lists.ids);
	return ok;
}

static bool give_rows(struct row_scan *r, struct codec c)
{
	struct ch_scanning *x = &r->base;
	uint64_t forgotten = x->snap->forgotten;
	bool ok = true;

	for (uint32_t since = ROWS_AHEAD; ok && !x->ended && codec_more(&c); since++) {
		struct source_row s;

		if (since >= ROWS_AHEAD ||
		    (since >= ROWS_AGAIN && forgotten != x->snap->forgotten)) {
			ok = fetch_lists_ahead(x, c);
			forgotten = x->snap->forgotten;
			since = 0;
		}
		if (!ok || !ch_read_sample(x->snap, &c, &s))
			break;
		if (x->series_here &&
		    !id_list_has(x->what->series, x->what->series_count, s.series))
			continue;
		x->ended = !r->fn(r->arg, &s, x->err);
	}
	return ok && ch_answer_ended(&c, "samples", x->err);
}

static bool ask_rows(struct ch_scanning *x, struct str bounds)
{
	struct buf *sql = &x->snap->sql;
	struct buf page;
	struct codec c;
	bool ok;

	buf_reset(sql);
	buf_printf(sql, "SELECT %s FROM flametap_samples WHERE ", ch_sample_columns);
	buf_str(sql, bounds);
	buf_str(sql, buf_view(&x->where));
	buf_lit(sql, " FORMAT RowBinary");
	if (!ch_ask(x->snap, &c, x->err))
		return false;
	page = x->snap->answer; /* the callback may ask the snapshot for more */
	buf_init(&x->snap->answer, 0);
	ok = give_rows(CONTAINER_OF(x, struct row_scan, base), c);
	buf_release(&x->snap->answer);
	x->snap->answer = page;
	return ok;
}

static bool scan(struct row_scan *r)
{
	struct ch_scanning *x = &r->base;
	const struct source_scan *w = x->what;
	bool ok;

	if (w->range.to <= w->range.from || (w->series && !w->series_count) ||
	    (w->links && !w->link_count))
		return true;
	x->rows_most = CH_PAGE_ROWS;
	x->page = ask_rows;
	buf_init(&x->where, 0);
	ok = ch_window(x->snap, w->range, &x->where, x->err);
	if (ok) {
		ch_put_within(x);
		ch_put_asked(x);
		ok = ch_scan_pages(x);
	}
	buf_release(&x->where);
	return ok;
}

/* Narrows the scan to the time in which samples of its links were seen. */
static bool narrow(struct ch_snapshot *snap, struct source_scan *what, struct err *err)
{
	uint64_t first, last;
	struct codec c;

	buf_reset(&snap->sql);
	buf_lit(&snap->sql, "SELECT min(t0), max(t1) FROM flametap_links WHERE link IN ");
	ch_put_ids(&snap->sql, what->links, what->link_count);
	buf_lit(&snap->sql, " FORMAT RowBinary");
	if (!ch_ask(snap, &c, err))
		return false;
	first = row_get(&c, 8);
	last = row_get(&c, 8);
	if (!ch_answer_ended(&c, "links", err))
		return false;
	if (last < UINT64_MAX && last + 1 < what->range.to)
		what->range.to = last + 1;
	if (first > what->range.from)
		what->range.from = first;
	return true;
}

static bool scan_links(struct row_scan *r, const struct source_scan *what)
{
	bool ok = true;

	for (uint32_t i = 0; ok && i < what->link_count; i += CH_IDS_MOST) {
		uint32_t rest = what->link_count - i;
		struct source_scan some = *what;

		some.links += i;
		some.link_count = rest < CH_IDS_MOST ? rest : CH_IDS_MOST;
		r->base.what = &some;
		ok = narrow(r->base.snap, &some, r->base.err) && scan(r) && !r->base.ended;
		r->base.what = what;
	}
	return ok;
}

bool ch_scan(struct source *source, const struct source_scan *what, source_row_fn *fn, void *ctx,
	     struct err *err)
{
	struct row_scan r = { .base = { .snap = ch_snapshot_of(source), .what = what, .err = err },
			      .fn = fn,
			      .arg = ctx };

	return what->links ? scan_links(&r, what) : scan(&r) && !r.base.ended;
}
