/* reader_profiles.c - the profile of a sample; profiles of a window. */
#include <string.h>

#include "store/codec.h"
#include "store/id_list.h"
#include "store/lifted.h"
#include "store/reader_internal.h"

/* What a profile has of its request. */
struct request_row {
	uint64_t seq, arrived, time, duration;
	uint8_t version;
	struct str hash; /* the statement's */
};

/* The time of a profile's row, and its duration: NULL where they are the request's. */
static uint64_t or_else(sqlite3_stmt *s, int column, uint64_t other)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? other : db_u64(s, column);
}

/* From the first columns of GET_PROFILE_BELOW, but for what only names it. */
static struct store_profile profile_times(sqlite3_stmt *s, const struct request_row *r)
{
	return (struct store_profile){ .seq = db_u64(s, 0),
				       .sample_count = (uint32_t)db_u64(s, 1),
				       .time_unix_nano = or_else(s, 2, r->time),
				       .duration_nano = or_else(s, 3, r->duration),
				       .request_seq = r->seq,
				       .arrived = r->arrived,
				       .source_version = r->version };
}

static bool name_profile(struct sqlite_snapshot *snap, sqlite3_stmt *s, const struct request_row *r,
			 struct store_profile *x, struct err *err)
{
	struct str uid = db_bytes(s, 4);

	x->dropped_attributes_count = (uint32_t)db_u64(s, 5);
	if (uid.len == sizeof(x->uid)) {
		memcpy(x->uid, uid.ptr, sizeof(x->uid));
	} else {
		profile_uid_make(x->uid, r->hash, x->seq - r->seq);
		x->uid_made = true;
	}
	return reader_attributes(snap, db_u64(s, 6), &x->attributes, err);
}

bool sqlite_profile_of(struct sqlite_snapshot *snap, uint64_t seq, struct store_profile *out,
		       struct err *err)
{
	struct request_row r = { 0 };
	struct store_profile x;
	sqlite3_stmt *s;
	bool ok;

	reader_trim(snap);
	if (!reader_row(snap, GET_PROFILE_BELOW, seq, &s, err))
		return false;
	r.seq = db_u64(s, 7);
	r.arrived = db_u64(s, 8);
	r.hash = db_bytes(s, 9);
	r.version = (uint8_t)sqlite3_column_int(s, 10);
	x = profile_times(s, &r);
	ok = name_profile(snap, s, &r, &x, err);
	sqlite3_reset(s);
	if (!ok)
		return false;
	*out = x;
	if (seq > out->seq + out->sample_count)
		return err_set(err, ERR_NOT_FOUND, "the profile of sample %llu is no longer kept",
			       (unsigned long long)seq);
	return true;
}

/* profile.series: a number, or several as varints. *out: the first that the scan is about. */
static bool touched_series(const struct store_scan *what, sqlite3_stmt *s, int column,
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
static bool line_of_window(struct sqlite_snapshot *snap, const struct store_scan *what,
			   uint64_t *first, uint64_t *last, struct err *err)
{
	static const char text[] =
		"SELECT (SELECT max(seq) FROM request WHERE seq<=min(first_seq)), coalesce((SELECT "
		"min(seq) FROM request WHERE seq>max(last_seq))-1, 0x7fffffffffffffff) FROM bucket "
		"WHERE bucket=?1";
	struct bucket_list list;
	sqlite3_stmt *s = NULL;
	bool row, ok = reader_list_buckets(snap, what->from, what->to, &list, err) &&
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
	if (what->asof && what->asof < *last)
		*last = what->asof;
	return ok;
}

/* Profiles of a part of the line, and the request that each is of: two walks side by side, for a
 * profile's request by its key would cost more than all else of it. */
struct profile_walk {
	struct sqlite_snapshot *snap;
	const struct store_scan *what;
	sqlite3_stmt *profiles, *requests;
	struct request_row request; /* the newest that began before the profile */
	uint8_t hash[16];           /* its */
	bool known;                 /* there is one */
	bool more;                  /* requests stands on the one behind it */
	struct err *err;
};

static bool prepare(struct profile_walk *w, uint64_t first, uint64_t last)
{
	static const char profiles[] =
		"SELECT seq, samples, time, duration, uid, dropped, attrset_id, series, t0, span "
		"FROM profile WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
	static const char times[] =
		"SELECT seq, samples, time, duration, NULL, NULL, NULL, series, t0, span FROM "
		"profile WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
	static const char requests[] =
		"SELECT seq, arrived, hash, version, time, duration FROM request WHERE seq BETWEEN "
		"coalesce((SELECT max(seq) FROM request WHERE seq<=?1), ?1) AND ?2 ORDER BY seq";
	bool brief = w->what->parts == SAMPLE_TIMES;

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
		struct str hash = db_bytes(s, 2);

		hash.len = hash.len < sizeof(w->hash) ? hash.len : sizeof(w->hash);
		if (hash.len)
			memcpy(w->hash, hash.ptr, hash.len);
		w->request = (struct request_row){
			.seq = db_u64(s, 0),
			.arrived = db_u64(s, 1),
			.version = (uint8_t)sqlite3_column_int(s, 3),
			.time = db_u64(s, 4),
			.duration = db_u64(s, 5),
			.hash = str_from((const char *)w->hash, hash.len),
		};
		w->known = true;
		if (!db_step(w->snap->db, s, &w->more, w->err, "reading requests"))
			return false;
	}
	return true;
}

/* x->first_ns and x->series too, from the columns t0, span and series. */
static bool profile_touches(const struct profile_walk *w, struct store_profile *x)
{
	uint64_t time = x->time_unix_nano, end = time + x->duration_nano;
	uint64_t first = time + db_u64(w->profiles, 8) * 1000;
	uint64_t last = first + db_u64(w->profiles, 9) * 1000 + 999;

	x->first_ns = first < time ? first : time;
	last = last > end ? last : end;
	return x->first_ns < w->what->to && last >= w->what->from &&
	       touched_series(w->what, w->profiles, 7, &x->series);
}

static bool walk_profiles(struct profile_walk *w,
			  bool (*fn)(void *arg, const struct store_profile *p), void *arg)
{
	bool brief = w->what->parts == SAMPLE_TIMES, row;

	for (;;) {
		struct store_profile x;

		if (!db_step(w->snap->db, w->profiles, &row, w->err, "reading profiles"))
			return false;
		if (!row)
			return true;
		if (!find_request(w, db_u64(w->profiles, 0)))
			return false;
		x = profile_times(w->profiles, &w->request);
		if (!w->known || !profile_touches(w, &x))
			continue;
		reader_trim(w->snap);
		if (!brief && !name_profile(w->snap, w->profiles, &w->request, &x, w->err))
			return false;
		if (!fn(arg, &x))
			return true;
	}
}

bool sqlite_each_profile(struct sqlite_snapshot *snap, const struct store_scan *what,
			 bool (*fn)(void *arg, const struct store_profile *p), void *arg,
			 struct err *err)
{
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
