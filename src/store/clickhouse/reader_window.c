/* reader_window.c - the ten-minute buckets that a window needs, as a condition in SQL. */
#include "store/clickhouse/snapshot.h"
#include "store/schema/schema.h"

/* Times of entries of CH_KIND_REACH; a sum may pass 2^64. */
static bool reaches(const struct ch_reaching *r, uint64_t time)
{
	uint64_t end;

	return __builtin_mul_overflow(r->bucket + 1, STORE_BUCKET_NS, &end) ||
	       __builtin_add_overflow(end, r->longest, &end) || end >= time;
}

/* Lists the buckets before the window that hold samples which end in it. */
static bool ask_reach(struct ch_snapshot *snap, uint64_t from, uint64_t first, struct buf *out,
		      struct err *err)
{
	const char *comma = "";
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT DISTINCT numbers[1] FROM flametap_dictionary WHERE kind = %d "
		   "AND numbers[1] < %llu AND "
		   "toFloat64(numbers[1] + 1) * " CH_BUCKET_NS
		   " + toFloat64(numbers[2]) >= toFloat64(%llu) FORMAT "
		   "RowBinary",
		   CH_KIND_REACH, (unsigned long long)first, (unsigned long long)(from - 1));
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c)) {
		buf_printf(out, "%s%llu", comma, (unsigned long long)row_get(&c, 8));
		comma = ",";
	}
	return ch_answer_ended(&c, "times", err);
}

static void list_reach(const struct ch_snapshot *snap, uint64_t from, uint64_t first,
		       struct buf *out)
{
	const char *comma = "";

	for (size_t i = 0; i < snap->reaching_count; i++) {
		const struct ch_reaching *r = &snap->reaching[i];

		if (r->bucket >= first || !reaches(r, from))
			continue;
		buf_printf(out, "%s%llu", comma, (unsigned long long)r->bucket);
		comma = ",";
	}
}

/* The server is asked once a window, unless the snapshot knows all such buckets. */
static const struct ch_reach *find_reach(struct ch_snapshot *snap, uint64_t from, uint64_t first,
					 struct err *err)
{
	struct ch_reach *r;

	for (size_t i = 0; i < ARRAY_LEN(snap->reach); i++)
		if (snap->reach[i].known && snap->reach[i].from == from)
			return &snap->reach[i];
	r = &snap->reach[snap->reach_next++ % ARRAY_LEN(snap->reach)];
	buf_reset(&r->buckets);
	r->from = from;
	r->known = true;
	if (snap->reaching)
		list_reach(snap, from, first, &r->buckets);
	else
		r->known = ask_reach(snap, from, first, &r->buckets, err);
	return r->known ? r : NULL;
}

bool ch_window_before(struct ch_snapshot *snap, uint64_t from, struct str *out, struct err *err)
{
	uint64_t first = from / STORE_BUCKET_NS;
	const struct ch_reach *r;

	*out = (struct str){ 0 };
	if (!first)
		return true;
	r = find_reach(snap, from, first, err);
	if (r)
		*out = buf_view(&r->buckets);
	return r != NULL;
}

bool ch_window(struct ch_snapshot *snap, struct source_range range, struct buf *where,
	       struct err *err)
{
	uint64_t first = range.from / STORE_BUCKET_NS, last = (range.to - 1) / STORE_BUCKET_NS;
	struct str before;

	if (!ch_window_before(snap, range.from, &before, err))
		return false;
	buf_printf(where, "((bucket >= %llu AND bucket <= %llu)", (unsigned long long)first,
		   (unsigned long long)last);
	if (before.len)
		buf_printf(where, " OR bucket IN (%.*s)", STR_ARG(before));
	buf_char(where, ')');
	return true;
}

void ch_window_parts(const struct ch_snapshot *snap, struct source_range range, struct str before,
		     struct buf *inner, struct buf *edges)
{
	uint64_t first = range.from / STORE_BUCKET_NS, last = (range.to - 1) / STORE_BUCKET_NS;
	uint64_t low = first + (range.from % STORE_BUCKET_NS != 0);
	uint64_t end = range.to == UINT64_MAX ? last + 1 : range.to / STORE_BUCKET_NS;
	size_t none;

	buf_lit(edges, "bucket IN (");
	none = edges->len;
	if (before.len)
		buf_printf(edges, "%.*s,", STR_ARG(before));
	if (first < low || first >= end)
		buf_printf(edges, "%llu,", (unsigned long long)first);
	if (last >= end && last != first)
		buf_printf(edges, "%llu,", (unsigned long long)last);
	if (low < end)
		buf_printf(inner, "bucket >= %llu AND bucket < %llu", (unsigned long long)low,
			   (unsigned long long)end);
	for (size_t i = 0; i < snap->reaching_count && range.to != UINT64_MAX; i++) {
		const struct ch_reaching *r = &snap->reaching[i];

		if (r->bucket < low || r->bucket >= end || !reaches(r, end * STORE_BUCKET_NS))
			continue;
		buf_printf(edges, "%llu,", (unsigned long long)r->bucket);
		buf_printf(inner, " AND bucket != %llu", (unsigned long long)r->bucket);
	}
	if (edges->len == none)
		buf_reset(edges);
	else
		edges->ptr[edges->len - 1] = ')';
}
