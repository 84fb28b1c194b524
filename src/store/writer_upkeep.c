/*
 * writer_upkeep.c - retention by age of arrival and by size, in slices between commits.
 *
 * A bucket goes as a whole once the newest of its samples has arrived too long ago (so an upload of
 * old times stays as long as any other), or when it is the longest untouched and the file is too
 * large. What it takes is a range delete. Requests and profiles go when the line of numbers below
 * them holds no samples any more; then the dictionaries are swept (sweep.h), and free pages given
 * back.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "store/chunk.h"
#include "store/writer_internal.h"

enum {
	SLICE_SAMPLES = 4096,
	SLICE_PROFILES = 2048,
	SLICE_PAGES = 64,
	LOOK_NS = 1000000000, /* how often to look whether there is anything to do */
	SWEEP_SHARE = 10,     /* sweep when one in so many samples is gone */
};

__attribute__((format(printf, 5, 6))) static bool number(struct store_writer *w, int64_t none,
							 int64_t *out, struct err *err,
							 const char *format, ...)
{
	char sql[320];
	va_list ap;

	va_start(ap, format);
	vsnprintf(sql, sizeof(sql), format, ap);
	va_end(ap);
	return db_number(w->db, sql, none, out, err);
}

/* The file without its free pages, and the log. */
static bool used_bytes(struct store_writer *w, uint64_t *out, struct err *err)
{
	int64_t pages, free_pages, page_bytes;

	if (!db_number(w->db, "PRAGMA page_count", 0, &pages, err) ||
	    !db_number(w->db, "PRAGMA freelist_count", 0, &free_pages, err) ||
	    !db_number(w->db, "PRAGMA page_size", 0, &page_bytes, err))
		return false;
	*out = (uint64_t)(pages - free_pages) * (uint64_t)page_bytes +
	       writer_size_of(w->path, "-wal");
	return true;
}

/* ---- what is to go ---- */

/* The first number that retention keeps: of the oldest request that is young enough. */
static bool age_boundary(struct store_writer *w, uint64_t *out, struct err *err)
{
	uint64_t now = w->options.now_unix_ns ? w->options.now_unix_ns(w->options.now_arg)
					      : clock_realtime_ns();
	int64_t seq;

	*out = 0;
	if (!w->options.retention_ns || w->options.retention_ns > now)
		return true;
	if (!number(w, (int64_t)w->now.next_seq, &seq, err,
		    "SELECT seq FROM request WHERE arrived>=%llu ORDER BY seq LIMIT 1",
		    (unsigned long long)(now - w->options.retention_ns)))
		return false;
	*out = (uint64_t)seq;
	return true;
}

struct victim {
	int64_t bucket; /* -1 = none */
	uint64_t last_seq;
};

static bool find_victim(struct store_writer *w, struct victim *v, struct err *err)
{
	uint64_t boundary, used = 0;
	int64_t last = 0, kept;

	v->bucket = -1;
	if (!age_boundary(w, &boundary, err))
		return false;
	if (boundary > w->trim_to) {
		w->trim_to = boundary;
		w->trimming = true;
	}
	if (boundary &&
	    !number(w, -1, &v->bucket, err,
		    "SELECT bucket FROM bucket WHERE last_seq<%llu ORDER BY last_seq LIMIT 1",
		    (unsigned long long)boundary))
		return false;
	if (v->bucket < 0 && w->options.max_size_bytes) {
		if (!used_bytes(w, &used, err) ||
		    !db_number(w->db, "SELECT sum(n) FROM bucket", 0, &kept, err))
			return false;
		/* Dictionaries are part of the size: they are swept before more samples go. */
		if (used > w->options.max_size_bytes &&
		    w->unswept_samples * SWEEP_SHARE < (uint64_t)kept &&
		    !db_number(w->db,
			       "SELECT bucket FROM bucket WHERE (SELECT count(*) FROM bucket)>1 "
			       "ORDER BY last_seq LIMIT 1",
			       -1, &v->bucket, err))
			return false;
	}
	if (v->bucket >= 0 &&
	    !number(w, 0, &last, err, "SELECT last_seq FROM bucket WHERE bucket=%llu",
		    (unsigned long long)v->bucket))
		return false;
	v->last_seq = (uint64_t)last;
	return true;
}

/* ---- samples ---- */

static bool forget_bucket(struct store_writer *w, int64_t bucket, struct err *err)
{
	sqlite3_stmt *s = NULL;
	bool ok = db_prepare(w->db, "SELECT series_id FROM bucket_series WHERE bucket=?1", &s, err);
	bool row = true;

	if (ok)
		sqlite3_bind_int64(s, 1, bucket);
	while (ok && row) {
		ok = db_step(w->db, s, &row, err, "deleting a bucket");
		if (ok && row)
			known_forget(&w->known, (enum store_kind)KIND_BUCKET_SERIES,
				     bucket_series_key((uint64_t)bucket, db_u64(s, 0)));
	}
	sqlite3_finalize(s);
	w->bucket_count = 0;
	return ok && db_exec_f(w->db, err,
			       "DELETE FROM bucket_series WHERE bucket=%lld; DELETE FROM bucket "
			       "WHERE bucket=%lld",
			       (long long)bucket, (long long)bucket);
}

static void count_gone(struct store_writer *w, uint64_t samples)
{
	w->unswept_samples += samples;
	w->now.facts.swept_samples += samples;
}

/* Of samples that have rows: a whole series at least; *end when none is left. */
static bool delete_rows(struct store_writer *w, int64_t bucket, bool *end, struct err *err)
{
	int64_t series;

	if (!number(w, INT64_MAX, &series, err,
		    "SELECT series_id FROM sample WHERE bucket=%llu ORDER BY bucket, series_id, "
		    "dt, seq "
		    "LIMIT 1 OFFSET %d",
		    (unsigned long long)bucket, SLICE_SAMPLES) ||
	    !db_exec_f(w->db, err, "DELETE FROM sample WHERE bucket=%lld AND series_id<=%lld",
		       (long long)bucket, (long long)series))
		return false;
	count_gone(w, (uint64_t)sqlite3_changes64(w->db));
	*end = series == INT64_MAX;
	return true;
}

static bool delete_links(struct store_writer *w, sqlite3_stmt *gone, const struct chunk *c,
			 struct err *err)
{
	for (uint32_t i = 0; c->link.width && i < c->n; i++) {
		uint64_t link = cells_id(&c->link, i);

		if (!link)
			continue;
		db_bind_u64(gone, 1, link);
		db_bind_u64(gone, 2, c->seq);
		if (!db_run(w->db, gone, err, "deleting links"))
			return false;
	}
	return true;
}

/* Chunks from the first one on, until they make a slice; *end when none is left. */
static bool delete_chunks(struct store_writer *w, int64_t bucket, bool *end, struct err *err)
{
	sqlite3_stmt *list = NULL, *gone = NULL;
	uint64_t samples = 0, last = 0;
	bool row = true;
	bool ok =
		db_prepare(w->db,
			   "SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK
				   CHUNK_COLUMNS_ATTRIBUTES CHUNK_COLUMNS_LINK
			   " FROM chunk WHERE bucket=?1 ORDER BY seq",
			   &list, err) &&
		db_prepare(w->db, "DELETE FROM chunk_link WHERE link_id=?1 AND seq=?2", &gone, err);

	if (ok)
		sqlite3_bind_int64(list, 1, bucket);
	while (ok && samples < SLICE_SAMPLES) {
		struct chunk c;
		struct err broken; /* goes, too */

		ok = db_step(w->db, list, &row, err, "deleting samples");
		if (!ok || !row)
			break;
		if (chunk_read(list, &c, &broken))
			ok = delete_links(w, gone, &c, err);
		samples += db_u64(list, CHUNK_N);
		last = db_u64(list, CHUNK_SEQ);
	}
	sqlite3_finalize(list);
	sqlite3_finalize(gone);
	ok = ok && db_exec_f(w->db, err, "DELETE FROM chunk WHERE bucket=%lld AND seq<=%lld",
			     (long long)bucket, (long long)last);
	if (ok)
		count_gone(w, samples);
	*end = !row;
	return ok;
}

/* Some of the bucket's samples; all of them gone, the bucket itself. */
static bool delete_some(struct store_writer *w, const struct victim *v, struct err *err)
{
	bool end;

	if (!delete_rows(w, v->bucket, &end, err))
		return false;
	if (end && !delete_chunks(w, v->bucket, &end, err))
		return false;
	if (!end)
		return true;
	if (v->last_seq + 1 > w->trim_to)
		w->trim_to = v->last_seq + 1;
	w->trimming = true;
	return forget_bucket(w, v->bucket, err);
}

/* ---- requests ---- */

/* Everything of the line below the request that the oldest kept sample is of. */
static bool trim_line(struct store_writer *w, struct err *err)
{
	int64_t oldest, request, gone = 0;

	if (!number(w, (int64_t)w->trim_to, &oldest, err, "SELECT min(first_seq) FROM bucket"))
		return false;
	if ((uint64_t)oldest > w->trim_to)
		oldest = (int64_t)w->trim_to;
	if (!number(w, 0, &request, err, "SELECT max(seq) FROM request WHERE seq<=%llu",
		    (unsigned long long)oldest))
		return false;
	if ((uint64_t)oldest >= w->now.next_seq)
		request = (int64_t)w->now.next_seq;
	if (!db_exec_f(w->db, err,
		       "DELETE FROM profile WHERE seq IN (SELECT seq FROM profile WHERE seq<%lld "
		       "ORDER BY seq LIMIT %d)",
		       (long long)request, SLICE_PROFILES))
		return false;
	gone = sqlite3_changes64(w->db);
	if (gone == SLICE_PROFILES)
		return true;
	w->trimming = false;
	if (!db_exec_f(w->db, err, "DELETE FROM request WHERE seq<%lld", (long long)request))
		return false;
	return sqlite3_changes64(w->db) == 0 ||
	       db_exec_f(w->db, err,
			 "DELETE FROM note WHERE seq<%lld; DELETE FROM coverage WHERE seq<%lld; "
			 "INSERT OR REPLACE INTO lookup_state VALUES(0, %lld)",
			 (long long)request, (long long)request, (long long)w->now.next_seq);
}

/* ---- the slices ---- */

static bool begin_sweep(struct store_writer *w, struct err *err)
{
	int64_t kept;

	if (!w->unswept_samples)
		return true;
	if (!db_number(w->db, "SELECT sum(n) FROM bucket", 0, &kept, err))
		return false;
	if (w->unswept_samples * SWEEP_SHARE < (uint64_t)kept)
		return true;
	w->sweep = sweep_new(w->path, w->committed.last_id, err);
	w->unswept_samples = 0;
	return w->sweep != NULL;
}

static bool sweep_on(struct store_writer *w, uint64_t deadline_ns, struct err *err)
{
	uint64_t rows = 0;
	bool done;

	if (!sweep_step(w->sweep, w->db, &w->known, deadline_ns, &done, &rows, err))
		return false;
	w->now.facts.swept_rows += rows;
	if (done) {
		sweep_free(w->sweep);
		w->sweep = NULL;
		w->shrinking = true;
	}
	return true;
}

static bool in_transaction(struct store_writer *w, struct err *err, bool ok)
{
	ok = ok && db_exec(w->db, "COMMIT", err);
	if (!ok) {
		w->damaged |= db_is_damage(sqlite3_errcode(w->db));
		sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
		sweep_free(w->sweep);
		w->sweep = NULL;
		return false;
	}
	w->committed.facts = w->now.facts;
	return true;
}

static bool give_pages_back(struct store_writer *w, struct err *err)
{
	int64_t free_pages;

	if (!db_exec_f(w->db, err, "PRAGMA incremental_vacuum(%d)", SLICE_PAGES) ||
	    !db_number(w->db, "PRAGMA freelist_count", 0, &free_pages, err))
		return false;
	if (free_pages)
		return true;
	w->shrinking = false;
	sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return true;
}

/* One slice; *more when another one is due. */
static bool one_slice(struct store_writer *w, uint64_t deadline_ns, bool *more, struct err *err)
{
	struct victim v;

	*more = true;
	if (w->sweep)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err, sweep_on(w, deadline_ns, err));
	if (!find_victim(w, &v, err))
		return false;
	if (v.bucket >= 0)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err, delete_some(w, &v, err));
	if (w->trimming)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err, trim_line(w, err));
	if (!begin_sweep(w, err))
		return false;
	if (w->sweep)
		return true;
	*more = w->shrinking;
	return !w->shrinking || give_pages_back(w, err);
}

bool store_writer_upkeep(struct store_writer *w, uint64_t budget_ns, bool *more, struct err *err)
{
	uint64_t now = clock_monotonic_ns(), deadline = now + budget_ns;

	*more = false;
	if (!w->sweep && !w->trimming && !w->shrinking && now < w->next_retention_ns)
		return true;
	do {
		if (!one_slice(w, deadline, more, err)) {
			w->damaged |= db_is_damage(sqlite3_errcode(w->db));
			return false;
		}
	} while (*more && clock_monotonic_ns() < deadline);
	w->now.facts.file_bytes = writer_size_of(w->path, "") + writer_size_of(w->path, "-wal");
	w->committed.facts = w->now.facts;
	w->next_retention_ns = *more ? 0 : clock_monotonic_ns() + LOOK_NS;
	return true;
}
