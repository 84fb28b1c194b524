/*
 * reader_scan.c - samples of a window, bucket by bucket; links; coverage.
 *
 * Of samples that stand in rows of their own (schema versions 1 and 2) a bucket is read whole where
 * most of its series are asked for, else series by series: a seek costs about as much as stepping
 * over thirty rows. The others are in reader_chunk.c.
 */
#include "store/codec.h"
#include "base/vec.h"
#include "store/id_list.h"
#include "store/reader_internal.h"

enum { SEEK_COSTS_ROWS = 4 /* in series: read whole when more than one in so many is wanted */ };

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

static uint64_t id_argument(int count, sqlite3_value **args, int i)
{
	return i < count ? (uint64_t)sqlite3_value_int64(args[i]) : 0;
}

static bool sample_from(struct sqlite_snapshot *snap, int count, sqlite3_value **args,
			struct source_row *out)
{
	bool valued = sqlite3_value_type(args[ARG_VALUE]) != SQLITE_NULL;
	int more = sqlite3_value_type(args[ARG_MORE]);
	struct source_row x = {
		.series = id_argument(count, args, ARG_SERIES),
		.sample = id_argument(count, args, ARG_SEQ),
		.time = id_argument(count, args, ARG_BUCKET) * STORE_BUCKET_NS +
			id_argument(count, args, ARG_DT),
		.stack = id_argument(count, args, ARG_STACK),
		.attributes = id_argument(count, args, ARG_ATTRSET),
		.link = id_argument(count, args, ARG_LINK),
		.total = valued ? sqlite3_value_int64(args[ARG_VALUE]) : 1,
	};

	x.last = x.time;
	if (more == SQLITE_BLOB) {
		const void *bytes = sqlite3_value_blob(args[ARG_MORE]);

		if (!reader_more(snap, str_from(bytes, (size_t)sqlite3_value_bytes(args[ARG_MORE])),
				 &x))
			return false;
	} else {
		x.timestamp_count = more == SQLITE_NULL;
		x.value_count = valued;
		snap->times[0] = x.time;
		snap->values[0] = x.total;
	}
	x.values = snap->values;
	x.timestamps = snap->times;
	*out = x;
	return true;
}

/* ---- scans ---- */

bool scan_wants(const struct source_scan *w, const struct source_row *x)
{
	return (x->time < w->range.to || w->range.to == UINT64_MAX) && x->last >= w->range.from &&
	       x->sample <= w->asof && x->sample > w->after;
}

/* Rows come with ascending series, so the list is walked once a bucket. */
static bool wanted_series(struct sample_scan *x, uint64_t series)
{
	if (x->all)
		return true;
	while (x->at < x->what->series_count && x->what->series[x->at] < series)
		x->at++;
	return x->at < x->what->series_count && x->what->series[x->at] == series;
}

/* One row. An error is how a function ends the statement; scan_rows() knows whether it is one. */
static void take(sqlite3_context *context, int count, sqlite3_value **args)
{
	struct sqlite_snapshot *snap = sqlite3_user_data(context);
	struct sample_scan *x = snap->scan;
	struct source_row sample;

	if (!x || x->ended || x->failed) {
		sqlite3_result_error_code(context, SQLITE_ABORT);
		return;
	}
	if (!wanted_series(x, id_argument(count, args, ARG_SERIES)))
		return;
	if (!sample_from(snap, count, args, &sample)) {
		x->failed = true;
		err_set(x->err, ERR_INVALID, "the sample %llu is damaged",
			(unsigned long long)id_argument(count, args, ARG_SEQ));
	} else {
		x->ended = scan_wants(x->what, &sample) && !x->fn(x->arg, &sample, x->err);
	}
	if (x->ended || x->failed)
		sqlite3_result_error_code(context, SQLITE_ABORT);
}

static void took(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

bool reader_make_take(struct sqlite_snapshot *snap, struct err *err)
{
	int rc = sqlite3_create_function_v2(snap->db, "take", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
					    snap, NULL, take, took, NULL);

	return rc == SQLITE_OK || db_error(snap->db, err, "preparing to read samples");
}

static bool scan_rows(struct sample_scan *x, sqlite3_stmt *s)
{
	struct sample_scan *before = x->snap->scan;
	int rc;

	reader_room(x->snap);
	x->snap->scan = x;
	do
		rc = sqlite3_step(s);
	while (rc == SQLITE_ROW);
	x->snap->scan = before;
	if (rc != SQLITE_DONE && !x->ended && !x->failed)
		db_error(x->snap->db, x->err, "reading samples");
	sqlite3_reset(s);
	return rc == SQLITE_DONE ? !x->failed : x->ended;
}

static bool scan_bucket(struct sample_scan *x, uint64_t bucket)
{
	sqlite3_stmt *s = reader_query(x->snap, SCAN_BUCKET + x->depth, x->err);

	if (!s)
		return false;
	db_bind_u64(s, 1, bucket);
	x->at = 0;
	return scan_rows(x, s);
}

static bool scan_series(struct sample_scan *x, uint64_t bucket, uint64_t series)
{
	sqlite3_stmt *s = reader_query(x->snap, SCAN_SERIES + x->depth, x->err);
	uint64_t begin = bucket * STORE_BUCKET_NS, dt_to = STORE_BUCKET_NS - 1;

	if (!s)
		return false;
	if (x->what->range.to - begin <= dt_to)
		dt_to = x->what->range.to - begin - 1;
	db_bind_u64(s, 1, bucket);
	db_bind_u64(s, 2, series);
	db_bind_u64(s, 3, x->t0_from > begin ? x->t0_from - begin : 0);
	db_bind_u64(s, 4, dt_to);
	x->all = true;
	return scan_rows(x, s);
}

/* Which of the wanted series a bucket has: into `found`; of how many. */
static bool match_series(struct sample_scan *x, uint64_t bucket, uint64_t *found, size_t *count,
			 size_t *total)
{
	sqlite3_stmt *s = reader_query(x->snap, LIST_BUCKET_SERIES, x->err);
	const struct source_scan *w = x->what;
	size_t at = 0;
	bool row = true;

	*count = *total = 0;
	if (!s)
		return false;
	db_bind_u64(s, 1, bucket);
	while (row) {
		uint64_t series;

		if (!db_step(x->snap->db, s, &row, x->err, "listing a bucket's series"))
			return false;
		if (!row)
			break;
		++*total;
		series = db_u64(s, 0);
		while (at < w->series_count && w->series[at] < series)
			at++;
		if (at < w->series_count && w->series[at] == series)
			found[(*count)++] = series;
	}
	return true;
}

static bool scan_chosen(struct sample_scan *x, uint64_t bucket, uint64_t *found)
{
	size_t count, total;

	if (!match_series(x, bucket, found, &count, &total))
		return false;
	if (count * SEEK_COSTS_ROWS > total) {
		x->all = count == total;
		return scan_bucket(x, bucket);
	}
	for (size_t i = 0; i < count && !x->ended; i++)
		if (!scan_series(x, bucket, found[i]))
			return false;
	return true;
}

static bool scan_rows_of(struct sample_scan *x, const struct bucket *b, uint64_t *found)
{
	const struct source_scan *what = x->what;

	x->all = !what->series;
	x->t0_from = what->range.from > b->longest ? what->range.from - b->longest : 0;
	return what->series ? scan_chosen(x, b->number, found) : scan_bucket(x, b->number);
}

static enum sample_depth depth_of(unsigned parts)
{
	if (!parts || (parts & ROW_LINK))
		return DEPTH_ALL;
	if (parts & ROW_ATTRIBUTES)
		return DEPTH_ATTRIBUTES;
	return parts & ROW_STACK ? DEPTH_STACK : DEPTH_TIMES;
}

static bool scan(struct sample_scan *x)
{
	const struct source_scan *what = x->what;
	uint64_t *found = NULL;
	struct bucket_list list;
	bool ok = reader_list_buckets(x->snap, what->range, &list, x->err);

	if (what->series) {
		found = malloc((what->series_count + 1) * sizeof(*found));
		assert(found);
	}
	for (uint32_t i = 0; ok && !x->ended && i < list.count; i++) {
		if (x->snap->has_rows)
			ok = scan_rows_of(x, &list.buckets[i], found);
		if (ok && !x->ended)
			ok = reader_scan_chunks(x, list.buckets[i].number);
	}
	free(found);
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
	bool ok = event_room_make(&x) && scan(&x) && !x.ended;

	event_room_free(&x);
	return ok;
}

/* ---- the time that has samples ---- */

static bool take_later(void *ctx, const struct source_row *x, struct err *err)
{
	uint64_t *newest = ctx;

	(void)err;
	*newest = x->last > *newest ? x->last : *newest;
	return true;
}

/* Samples that began at most `reach` before the newest t0, for a timestamp that is newer still. */
static bool look_back(struct sqlite_snapshot *snap, uint64_t reach, uint64_t *newest,
		      struct err *err)
{
	struct source_scan what = { .range = { *newest, UINT64_MAX }, .asof = SOURCE_NEWEST };
	struct sample_scan x = { .snap = snap,
				 .what = &what,
				 .fn = take_later,
				 .arg = newest,
				 .depth = DEPTH_TIMES,
				 .t0_from = *newest > reach ? *newest - reach : 0,
				 .err = err };
	struct bucket_list list;
	bool ok = reader_list_buckets(snap, what.range, &list, err);

	for (uint32_t i = 0; ok && i < list.count; i++) {
		sqlite3_stmt *s = reader_query(snap, LIST_BUCKET_SERIES, err);
		bool row = s != NULL;

		ok = s != NULL;
		if (ok)
			db_bind_u64(s, 1, list.buckets[i].number);
		while (ok && row) {
			ok = db_step(snap->db, s, &row, err, "listing a bucket's series");
			if (ok && row)
				ok = scan_series(&x, list.buckets[i].number, db_u64(s, 0));
		}
		if (s)
			sqlite3_reset(s);
	}
	free(list.buckets);
	return ok;
}

/* Of the table sample, which has some. */
static bool extent_of_rows(struct sqlite_snapshot *snap, uint64_t *oldest, uint64_t *newest,
			   struct err *err)
{
	/* A row's place in each series of the bucket is found by the key, without reading others.
	 */
#define END(which, order)                                                                     \
	"SELECT " which "((SELECT dt FROM sample s WHERE s.bucket=b.bucket AND "              \
	"s.series_id=b.series_id ORDER BY dt " order " LIMIT 1)) FROM bucket_series b WHERE " \
	"b.bucket=(SELECT " which "(bucket) FROM sample)"
	int64_t low, high, low_dt, high_dt, longest;
	uint64_t last;

	if (!db_number(snap->db, "SELECT min(bucket) FROM sample", 0, &low, err) ||
	    !db_number(snap->db, "SELECT max(bucket) FROM sample", 0, &high, err) ||
	    !db_number(snap->db, END("min", "ASC"), 0, &low_dt, err) ||
	    !db_number(snap->db, END("max", "DESC"), STORE_BUCKET_NS - 1, &high_dt, err) ||
	    !db_number(snap->db, "SELECT max(longest) FROM bucket", 0, &longest, err))
		return false;
	last = (uint64_t)high * STORE_BUCKET_NS + (uint64_t)high_dt;
	if (longest && !look_back(snap, (uint64_t)longest, &last, err))
		return false;
	*oldest = (uint64_t)low * STORE_BUCKET_NS + (uint64_t)low_dt;
	*newest = last;
	return true;
#undef END
}

/* Any bucket may reach beyond the last one's end: each is looked at from the last back as far as
 * the longest sample is. */
static bool extent_of_chunks(struct sqlite_snapshot *snap, uint64_t *oldest, uint64_t *newest,
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

	if ((snap->has_rows && !extent_of_rows(snap, &first, &last, err)) ||
	    (snap->version > 2 && !extent_of_chunks(snap, &first, &last, err)))
		return false;
	if (first == UINT64_MAX)
		return err_set(err, ERR_NOT_FOUND, "there are no samples");
	*out = (struct source_range){ first, last + (last < UINT64_MAX) };
	return true;
}

/* ---- links ---- */

struct of_links {
	const struct source_scan *what;
	source_row_fn *fn;
	void *arg;
};

static bool take_of_links(void *ctx, const struct source_row *x, struct err *err)
{
	const struct of_links *l = ctx;

	if (l->what->series && !id_list_has(l->what->series, l->what->series_count, x->series))
		return true;
	return l->fn(l->arg, x, err);
}

static bool scan_links(struct sqlite_snapshot *snap, const struct source_scan *what,
		       source_row_fn *fn, void *arg, struct err *err)
{
	struct of_links of = { what, fn, arg };
	struct sample_scan x = {
		.snap = snap, .what = what, .fn = take_of_links, .arg = &of, .all = true, .err = err
	};

	for (size_t i = 0; snap->has_rows && i < what->link_count && !x.ended; i++) {
		sqlite3_stmt *s = reader_query(snap, SCAN_LINK, err);

		if (!s)
			return false;
		db_bind_u64(s, 1, what->links[i]);
		if (!scan_rows(&x, s))
			return false;
	}
	return !x.ended && reader_scan_linked_chunks(&x, what->links, what->link_count) && !x.ended;
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
		return scan_links(snap, what, fn, arg, err);
	return scan(&x) && !x.ended;
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
