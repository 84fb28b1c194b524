/* reader_scan.c - samples of a window, bucket by bucket (reader_chunk.c); links; coverage. */
#include "store/schema/codec.h"
#include "base/vec.h"
#include "store/id_list.h"
#include "store/read/reader_internal.h"

bool reader_list_buckets(struct sqlite_snapshot *snap, struct source_range range,
			 struct bucket_list *out, struct err *err)
{
	sqlite3_stmt *s = reader_query(snap, LIST_BUCKETS, err);
	bool row = true;

	*out = (struct bucket_list){ 0 };
	if (!s || range.to <= range.from)
		return s != NULL;
	db_bind_u64(s, 1, (range.to - 1) / STORE_BUCKET_NS);
	while (row) {
		uint64_t bucket, last;

		if (!db_step(snap->db, s, &row, err, "listing buckets"))
			return false;
		if (!row)
			break;
		bucket = db_u64(s, 0);
		last = bucket * STORE_BUCKET_NS + (STORE_BUCKET_NS - 1);
		if (last < range.from && range.from - last > db_u64(s, 1))
			continue;
		VEC_ROOM(out->buckets, out->count, out->cap);
		out->buckets[out->count++] = (struct bucket){ bucket, db_u64(s, 1) };
	}
	return true;
}

/* ---- a row ---- */

static void want_values(struct sqlite_snapshot *snap, size_t count)
{
	if (count <= snap->value_cap)
		return;
	snap->value_cap = (uint32_t)count * 2;
	free(snap->values);
	snap->values = malloc(snap->value_cap * sizeof(*snap->values));
	assert(snap->values);
}

static void want_times(struct sqlite_snapshot *snap, size_t count)
{
	if (count <= snap->time_cap)
		return;
	snap->time_cap = (uint32_t)count * 2;
	free(snap->times);
	snap->times = malloc(snap->time_cap * sizeof(*snap->times));
	assert(snap->times);
}

void reader_room(struct sqlite_snapshot *snap)
{
	want_values(snap, 1);
	want_times(snap, 1);
}

bool reader_more(struct sqlite_snapshot *snap, struct str bytes, struct source_row *x)
{
	struct codec c = codec_of(bytes);
	uint64_t before = x->time, count;

	x->last = x->time + codec_get(&c);
	count = codec_get(&c);
	if (count > bytes.len)
		return false;
	want_values(snap, count + 1);
	want_times(snap, bytes.len);
	x->value_count = (uint32_t)count;
	for (uint64_t i = 0; i < count; i++)
		snap->values[i] = codec_get_signed(&c);
	while (codec_more(&c)) {
		before += (uint64_t)codec_get_signed(&c);
		snap->times[x->timestamp_count++] = before;
	}
	return !c.failed;
}

/* ---- scans ---- */

bool scan_wants(const struct source_scan *w, const struct source_row *x)
{
	return (x->time < w->range.to || w->range.to == UINT64_MAX) && x->last >= w->range.from &&
	       x->sample <= w->asof && x->sample > w->after;
}

static enum sample_depth depth_of(unsigned parts)
{
	if (!parts || (parts & ROW_LINK))
		return DEPTH_ALL;
	if (parts & ROW_ATTRIBUTES)
		return DEPTH_ATTRIBUTES;
	return parts & ROW_STACK ? DEPTH_STACK : DEPTH_TIMES;
}

static bool scan_buckets(struct sample_scan *x)
{
	struct bucket_list list;
	bool ok = reader_list_buckets(x->snap, x->what->range, &list, x->err);

	for (uint32_t i = 0; ok && !x->ended && i < list.count; i++)
		ok = reader_scan_chunks(x, list.buckets[i].number);
	free(list.buckets);
	return ok;
}

bool sqlite_events(struct source *source, const struct source_scan *what, source_events_fn *fn,
		   void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct sample_scan x = { .snap = snap,
				 .what = what,
				 .events = fn,
				 .arg = arg,
				 .depth = depth_of(what->parts),
				 .err = err };
	bool ok = event_room_make(&x) && scan_buckets(&x) && !x.ended;

	event_room_free(&x);
	return ok;
}

/* ---- the time that has samples ---- */

/* Any bucket may reach beyond the last one's end: each is looked at from the last back as far as
 * the longest sample is. */
static bool find_extent(struct sqlite_snapshot *snap, uint64_t *oldest, uint64_t *newest,
			struct err *err)
{
	int64_t low, high;
	uint64_t ignored = 0;
	struct bucket_list list;
	bool ok = db_number(snap->db, "SELECT min(bucket) FROM chunk", -1, &low, err) &&
		  db_number(snap->db, "SELECT max(bucket) FROM chunk", -1, &high, err);

	if (!ok || low < 0)
		return ok;
	ok = reader_chunk_ends(snap, (uint64_t)low, oldest, &ignored, err) &&
	     reader_list_buckets(
		     snap, (struct source_range){ (uint64_t)high * STORE_BUCKET_NS, UINT64_MAX },
		     &list, err);
	for (uint32_t i = 0; ok && i < list.count; i++)
		ok = reader_chunk_ends(snap, list.buckets[i].number, &ignored, newest, err);
	if (ok)
		free(list.buckets);
	return ok;
}

bool sqlite_extent(struct source *source, struct source_range *out, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	uint64_t first = UINT64_MAX, last = 0;

	if (!find_extent(snap, &first, &last, err))
		return false;
	if (first == UINT64_MAX)
		return err_set(err, ERR_NOT_FOUND, "there are no samples");
	*out = (struct source_range){ first, last + (last < UINT64_MAX) };
	return true;
}

bool sqlite_scan(struct source *source, const struct source_scan *what, source_row_fn *fn,
		 void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct sample_scan x = { .snap = snap,
				 .what = what,
				 .fn = fn,
				 .arg = arg,
				 .depth = depth_of(what->parts),
				 .err = err };

	if (what->links)
		return reader_scan_linked_chunks(&x) && !x.ended;
	return scan_buckets(&x) && !x.ended;
}

/* ---- coverage ---- */

bool sqlite_coverage(struct source *source, struct source_range range, source_coverage_fn *fn,
		     void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	static const char text[] = "SELECT h.v, c.t0, c.t1, r.v, c.n FROM coverage c LEFT JOIN "
				   "string h ON h.id=c.host_id "
				   "LEFT JOIN string r ON r.id=c.reason_id WHERE c.t0<?2 AND "
				   "c.t1>=?1 ORDER BY h.v, c.t0";
	sqlite3_stmt *s = NULL;
	bool row = true, ok = db_prepare(snap->db, text, &s, err);

	if (ok) {
		sqlite3_bind_int64(s, 1, range.from > INT64_MAX ? INT64_MAX : (int64_t)range.from);
		sqlite3_bind_int64(s, 2, range.to > INT64_MAX ? INT64_MAX : (int64_t)range.to);
	}
	while (ok && row) {
		struct source_coverage c;

		ok = db_step(snap->db, s, &row, err, "reading coverage");
		if (!ok || !row)
			break;
		c = (struct source_coverage){ .host = db_bytes(s, 0),
					      .range = { db_u64(s, 1), db_u64(s, 2) },
					      .reason = db_bytes(s, 3),
					      .n = db_u64(s, 4) };
		ok = fn(arg, &c, err);
	}
	sqlite3_finalize(s);
	return ok;
}
