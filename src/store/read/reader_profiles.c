/* reader_profiles.c - profiles of a window. */
#include <string.h>

#include "store/schema/codec.h"
#include "store/id_list.h"
#include "store/schema/lifted.h"
#include "store/read/reader_internal.h"

/* The time of a profile's row, and its duration: NULL where they are the request's. */
static uint64_t or_else(sqlite3_stmt *s, int column, uint64_t other)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? other : db_u64(s, column);
}

/* profile.series: a number, or several as varints. *out: the first that the scan is about. */
static bool touched_series(const struct source_scan *what, sqlite3_stmt *s, int column,
			   uint64_t *out)
{
	bool one = sqlite3_column_type(s, column) == SQLITE_INTEGER;
	struct codec c = codec_of(one ? (struct str){ 0 } : db_bytes(s, column));

	while (one || codec_more(&c)) {
		*out = one ? db_u64(s, column) : codec_get(&c);
		if (!what->series || id_list_has(what->series, what->series_count, *out))
			return true;
		if (one)
			return false;
	}
	return !what->series;
}

/* The part of the line that requests with samples in the window take up. */
static bool line_of_window(struct sqlite_snapshot *snap, const struct source_scan *what,
			   uint64_t *first, uint64_t *last, struct err *err)
{
	static const char text[] =
		"SELECT (SELECT max(seq) FROM request WHERE seq<=min(first_seq)), coalesce((SELECT "
		"min(seq) FROM request WHERE seq>max(last_seq))-1, 0x7fffffffffffffff) FROM bucket "
		"WHERE bucket=?1";
	struct bucket_list list;
	sqlite3_stmt *s = NULL;
	bool row, ok = reader_list_buckets(snap, what->range, &list, err) &&
		       db_prepare(snap->db, text, &s, err);

	*first = UINT64_MAX;
	*last = 0;
	for (uint32_t i = 0; ok && i < list.count; i++) {
		db_bind_u64(s, 1, list.buckets[i].number);
		ok = db_step(snap->db, s, &row, err, "reading a bucket");
		if (!ok || !row)
			break;
		if (db_u64(s, 0) < *first)
			*first = db_u64(s, 0);
		if (db_u64(s, 1) > *last)
			*last = db_u64(s, 1);
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
	free(list.buckets);
	if (what->after >= *first)
		*first = what->after + 1;
	if (what->asof < *last)
		*last = what->asof;
	return ok;
}

/* Profiles of a part of the line, and the request that each is of: two walks side by side, for a
 * profile's request by its key would cost more than all else of it. */
struct profile_walk {
	struct sqlite_snapshot *snap;
	const struct source_scan *what;
	sqlite3_stmt *profiles, *requests;
	uint64_t time, duration; /* of the newest request that began before the profile */
	bool known;              /* there is one */
	bool more;               /* requests stands on the one behind it */
	struct err *err;
};

static bool prepare(struct profile_walk *w, uint64_t first, uint64_t last)
{
	static const char profiles[] =
		"SELECT seq, samples, time, duration, uid, attrset_id, series, t0, span FROM "
		"profile WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
	static const char times[] =
		"SELECT seq, samples, time, duration, NULL, NULL, series, t0, span FROM "
		"profile WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
	static const char requests[] =
		"SELECT seq, time, duration FROM request WHERE seq BETWEEN "
		"coalesce((SELECT max(seq) FROM request WHERE seq<=?1), ?1) AND ?2 ORDER BY seq";
	bool brief = w->what->parts == ROW_TIMES;

	if (!db_prepare(w->snap->db, brief ? times : profiles, &w->profiles, w->err) ||
	    !db_prepare(w->snap->db, requests, &w->requests, w->err))
		return false;
	db_bind_u64(w->profiles, 1, first);
	db_bind_u64(w->profiles, 2, last);
	db_bind_u64(w->requests, 1, first);
	db_bind_u64(w->requests, 2, last);
	return db_step(w->snap->db, w->requests, &w->more, w->err, "reading requests");
}

/* Goes on to the request that profile `seq` is of. */
static bool find_request(struct profile_walk *w, uint64_t seq)
{
	sqlite3_stmt *s = w->requests;

	while (w->more && db_u64(s, 0) <= seq) {
		w->time = db_u64(s, 1);
		w->duration = db_u64(s, 2);
		w->known = true;
		if (!db_step(w->snap->db, s, &w->more, w->err, "reading requests"))
			return false;
	}
	return true;
}

/* From a row of `profiles`; false: the scan is not about it. */
static bool read_profile(struct profile_walk *w, struct source_profile *x)
{
	sqlite3_stmt *s = w->profiles;
	uint64_t first, last, end;

	*x = (struct source_profile){ .first_sample = db_u64(s, 0) + 1,
				      .sample_count = (uint32_t)db_u64(s, 1),
				      .time = or_else(s, 2, w->time),
				      .duration = or_else(s, 3, w->duration) };
	end = x->time + x->duration;
	first = x->time + db_u64(s, 7) * 1000;
	last = first + db_u64(s, 8) * 1000 + 999;
	x->earliest = first < x->time ? first : x->time;
	last = last > end ? last : end;
	return x->earliest < w->what->range.to && last >= w->what->range.from &&
	       touched_series(w->what, s, 6, &x->series);
}

static bool name_profile(struct profile_walk *w, struct source_profile *x)
{
	struct str uid = db_bytes(w->profiles, 4);

	if (uid.len == sizeof(x->id))
		memcpy(x->id, uid.ptr, sizeof(x->id));
	return reader_attributes(w->snap, db_u64(w->profiles, 5), &x->attributes, w->err);
}

static bool walk_profiles(struct profile_walk *w, source_profile_fn *fn, void *ctx)
{
	bool brief = w->what->parts == ROW_TIMES, row;

	for (;;) {
		struct source_profile x;

		if (!db_step(w->snap->db, w->profiles, &row, w->err, "reading profiles"))
			return false;
		if (!row)
			return true;
		if (!find_request(w, db_u64(w->profiles, 0)))
			return false;
		if (!w->known || !read_profile(w, &x))
			continue;
		reader_trim(w->snap);
		if ((!brief && !name_profile(w, &x)) || !fn(ctx, &x, w->err))
			return false;
	}
}

bool sqlite_profiles(struct source *source, const struct source_scan *what, source_profile_fn *fn,
		     void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct profile_walk w = { .snap = snap, .what = what, .err = err };
	uint64_t first, last;
	bool ok = line_of_window(snap, what, &first, &last, err);

	if (!ok || first > last)
		return ok;
	ok = prepare(&w, first, last) && walk_profiles(&w, fn, arg);
	sqlite3_finalize(w.profiles);
	sqlite3_finalize(w.requests);
	return ok;
}
