/*
 * writer_cut.c - takes samples away in the order of their arrival, which is that of their numbers.
 *
 * Chunks go by a range delete, whatever bucket they are of; a bucket goes with its last one. Rows
 * of the table `sample` are older than every chunk: they go first, a bucket's at a time.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/chunk.h"
#include "store/writer_internal.h"

enum { SLICE_SAMPLES = 4096, PURGE_CHUNKS = 256 };

struct writer_purge {
	uint64_t bucket, at; /* chunks up to that number are seen */
	uint32_t series_count;
	uint8_t *seen; /* a bit a series */
};

/* ---- what is to go ---- */

bool writer_cut_find(struct store_writer *w, uint64_t due, struct writer_cut *cut, struct err *err)
{
	int64_t first, bucket;

	*cut = (struct writer_cut){ .due = false };
	if (!due)
		return true;
	if (!db_number(w->db, "SELECT min(seq) FROM chunk", INT64_MAX, &first, err) ||
	    !db_number(w->db, "SELECT bucket FROM sample LIMIT 1", -1, &bucket, err))
		return false;
	cut->due = (uint64_t)first < due;
	if (bucket < 0)
		return true;
	if (!cut->due) { /* those of a bucket that got nothing since */
		sqlite3_stmt *s = NULL;
		bool row = false;
		bool ok = db_prepare(
			w->db,
			"SELECT bucket FROM bucket b WHERE last_seq<?1 AND EXISTS(SELECT "
			"1 FROM sample s WHERE s.bucket=b.bucket) LIMIT 1",
			&s, err);

		if (ok) {
			db_bind_u64(s, 1, due);
			ok = db_step(w->db, s, &row, err, "looking for old samples");
		}
		if (ok && row)
			bucket = sqlite3_column_int64(s, 0);
		sqlite3_finalize(s);
		if (!ok)
			return false;
		cut->due = row;
	}
	cut->rows = cut->due;
	cut->bucket = bucket;
	return true;
}

/* ---- buckets ---- */

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
	return ok && db_exec_f(w->db, err,
			       "DELETE FROM bucket_series WHERE bucket=%lld; DELETE FROM bucket "
			       "WHERE bucket=%lld",
			       (long long)bucket, (long long)bucket);
}

static void note_cut(struct store_writer *w, uint64_t bucket)
{
	for (uint32_t i = 0; i < w->cut_count; i++)
		if (w->cut[i] == bucket)
			return;
	if (w->cut_count < CUTS_MOST)
		w->cut[w->cut_count++] = bucket;
}

static bool take_from_bucket(struct store_writer *w, int64_t bucket, uint64_t samples,
			     struct err *err)
{
	w->unswept_samples += samples;
	w->now.facts.swept_samples += samples;
	note_cut(w, (uint64_t)bucket);
	return db_exec_f(w->db, err, "UPDATE bucket SET n=max(0, n-%llu) WHERE bucket=%lld",
			 (unsigned long long)samples, (long long)bucket);
}

/* No sample has a number below `next`, but for those with rows of their own. */
static bool forget_buckets_below(struct store_writer *w, uint64_t next, struct err *err)
{
	int64_t bucket;

	w->bucket_count = 0;
	for (;;) {
		sqlite3_stmt *s = NULL;
		bool row = false;
		bool ok =
			db_prepare(w->db,
				   "SELECT bucket FROM bucket b WHERE last_seq<?1 AND NOT "
				   "EXISTS(SELECT 1 FROM sample s WHERE s.bucket=b.bucket) LIMIT 1",
				   &s, err);

		if (ok) {
			db_bind_u64(s, 1, next);
			ok = db_step(w->db, s, &row, err, "looking for empty buckets");
		}
		bucket = ok && row ? sqlite3_column_int64(s, 0) : 0;
		sqlite3_finalize(s);
		if (!ok || !row)
			return ok &&
			       db_exec_f(w->db, err,
					 "UPDATE bucket SET first_seq=%llu WHERE first_seq<%llu "
					 "AND NOT EXISTS(SELECT 1 FROM sample s WHERE "
					 "s.bucket=bucket.bucket)",
					 (unsigned long long)next, (unsigned long long)next);
		if (!forget_bucket(w, bucket, err))
			return false;
	}
}

/* ---- samples ---- */

/* Of samples that have rows: a whole series at least. */
static bool cut_rows(struct store_writer *w, int64_t bucket, struct err *err)
{
	sqlite3_stmt *s = NULL;
	bool row = false, ok;
	int64_t series = INT64_MAX, first;
	uint64_t gone;

	ok = db_prepare(
		w->db,
		"SELECT series_id FROM sample WHERE bucket=?1 ORDER BY bucket, series_id, dt, "
		"seq LIMIT 1 OFFSET ?2",
		&s, err);
	if (ok) {
		sqlite3_bind_int64(s, 1, bucket);
		sqlite3_bind_int(s, 2, SLICE_SAMPLES);
		ok = db_step(w->db, s, &row, err, "deleting samples");
	}
	if (ok && row)
		series = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	if (!ok ||
	    !db_exec_f(w->db, err, "DELETE FROM sample WHERE bucket=%lld AND series_id<=%lld",
		       (long long)bucket, (long long)series))
		return false;
	gone = (uint64_t)sqlite3_changes64(w->db);
	if (!take_from_bucket(w, bucket, gone, err))
		return false;
	if (row)
		return true;
	return db_number(w->db, "SELECT min(seq) FROM chunk", (int64_t)w->now.next_seq, &first,
			 err) &&
	       forget_buckets_below(w, (uint64_t)first, err);
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

/* What goes with the chunks from the first one on, until they make a slice; *last: the last one. */
static bool unlink_chunks(struct store_writer *w, uint64_t below, uint64_t *last, struct err *err)
{
	sqlite3_stmt *list = NULL, *gone = NULL;
	uint64_t samples = 0, of_bucket = 0;
	int64_t bucket = -1;
	bool row = true;
	bool ok =
		db_prepare(w->db,
			   "SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK
				   CHUNK_COLUMNS_ATTRIBUTES CHUNK_COLUMNS_LINK
			   " FROM chunk WHERE seq<?1 ORDER BY seq",
			   &list, err) &&
		db_prepare(w->db, "DELETE FROM chunk_link WHERE link_id=?1 AND seq=?2", &gone, err);

	if (ok)
		db_bind_u64(list, 1, below);
	while (ok && samples < SLICE_SAMPLES) {
		struct chunk c;
		struct err broken; /* goes, too */
		uint64_t n;

		ok = db_step(w->db, list, &row, err, "deleting samples");
		if (!ok || !row)
			break;
		n = db_u64(list, CHUNK_N);
		n = n < CHUNK_SAMPLES_MOST ? n : CHUNK_SAMPLES_MOST;
		*last = db_u64(list, CHUNK_SEQ);
		samples += n;
		if (chunk_read(list, &c, &broken))
			ok = delete_links(w, gone, &c, err);
		if (of_bucket && bucket != (int64_t)db_u64(list, CHUNK_BUCKET)) {
			ok = ok && take_from_bucket(w, bucket, of_bucket, err);
			of_bucket = 0;
		}
		bucket = (int64_t)db_u64(list, CHUNK_BUCKET);
		of_bucket += n;
	}
	if (ok && of_bucket)
		ok = take_from_bucket(w, bucket, of_bucket, err);
	sqlite3_finalize(list);
	sqlite3_finalize(gone);
	return ok;
}

static bool cut_chunks(struct store_writer *w, uint64_t below, struct err *err)
{
	uint64_t last = 0;
	int64_t next;

	if (!unlink_chunks(w, below, &last, err))
		return false;
	if (last + 1 > w->trim_to)
		w->trim_to = last + 1;
	w->trimming = true;
	return db_exec_f(w->db, err, "DELETE FROM chunk WHERE seq<=%llu",
			 (unsigned long long)last) &&
	       db_number(w->db, "SELECT min(seq) FROM chunk", (int64_t)w->now.next_seq, &next,
			 err) &&
	       forget_buckets_below(w, (uint64_t)next, err);
}

bool writer_cut_some(struct store_writer *w, const struct writer_cut *cut, struct err *err)
{
	return cut->rows ? cut_rows(w, cut->bucket, err) : cut_chunks(w, cut->below, err);
}

/* ---- series of buckets ---- */

bool writer_purge_begin(struct store_writer *w)
{
	struct writer_purge *p;

	if (!w->cut_count)
		return false;
	p = calloc(1, sizeof(*p));
	assert(p);
	p->bucket = w->cut[--w->cut_count];
	p->series_count = w->committed.last_id[KIND_SERIES];
	p->seen = calloc((size_t)p->series_count / 8 + 1, 1);
	assert(p->seen);
	w->purge = p;
	return true;
}

void writer_purge_free(struct store_writer *w)
{
	if (!w->purge)
		return;
	free(w->purge->seen);
	free(w->purge);
	w->purge = NULL;
}

static void see_series(struct writer_purge *p, sqlite3_stmt *row)
{
	struct str bytes = db_bytes(row, 3);
	uint64_t runs = db_u64(row, 1);
	struct cells c = { .base = db_u64(row, 2), .bytes = (const uint8_t *)bytes.ptr };

	p->at = db_u64(row, 0);
	if (!runs || runs > CHUNK_SAMPLES_MOST || bytes.len % runs || bytes.len / runs > 8)
		return; /* damaged: nobody can read its samples */
	c.width = (unsigned)(bytes.len / runs);
	c.end = c.bytes ? c.bytes + bytes.len : NULL;
	for (uint32_t i = 0; i < runs; i++) {
		uint64_t id = cells_id(&c, i);

		if (id && id <= p->series_count)
			p->seen[id >> 3] |= (uint8_t)(1u << (id & 7));
	}
}

/* The next chunks of the bucket; *end when there are no more. */
static bool see_chunks(struct store_writer *w, bool *end, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int seen = 0;
	bool row = true;
	bool ok = db_prepare(
		w->db,
		"SELECT seq, runs, series0, series FROM chunk WHERE bucket=?1 AND seq>?2 "
		"ORDER BY seq LIMIT ?3",
		&s, err);

	if (ok) {
		db_bind_u64(s, 1, w->purge->bucket);
		db_bind_u64(s, 2, w->purge->at);
		sqlite3_bind_int(s, 3, PURGE_CHUNKS);
	}
	while (ok && row) {
		ok = db_step(w->db, s, &row, err, "reading a bucket's samples");
		if (ok && row) {
			see_series(w->purge, s);
			seen++;
		}
	}
	sqlite3_finalize(s);
	*end = seen < PURGE_CHUNKS;
	return ok;
}

/* All chunks are seen, in this very transaction up to the newest. */
static bool drop_unseen(struct store_writer *w, struct err *err)
{
	struct writer_purge *p = w->purge;
	sqlite3_stmt *s = NULL, *gone = NULL;
	bool row = true;
	bool ok = db_prepare(w->db,
			     "SELECT series_id FROM bucket_series b WHERE bucket=?1 AND NOT "
			     "EXISTS(SELECT 1 FROM sample s WHERE s.bucket=b.bucket AND "
			     "s.series_id=b.series_id)",
			     &s, err) &&
		  db_prepare(w->db, "DELETE FROM bucket_series WHERE bucket=?1 AND series_id=?2",
			     &gone, err);

	if (ok) {
		db_bind_u64(s, 1, p->bucket);
		db_bind_u64(gone, 1, p->bucket);
	}
	while (ok && row) {
		uint64_t id;

		ok = db_step(w->db, s, &row, err, "reading a bucket's series");
		if (!ok || !row)
			break;
		id = db_u64(s, 0);
		if (id > p->series_count || p->seen[id >> 3] >> (id & 7) & 1)
			continue;
		known_forget(&w->known, (enum store_kind)KIND_BUCKET_SERIES,
			     bucket_series_key(p->bucket, id));
		db_bind_u64(gone, 2, id);
		ok = db_run(w->db, gone, err, "taking a series out of a bucket");
	}
	sqlite3_finalize(s);
	sqlite3_finalize(gone);
	return ok;
}

bool writer_purge_on(struct store_writer *w, uint64_t deadline_ns, struct err *err)
{
	bool end;

	do {
		if (!see_chunks(w, &end, err))
			return false;
	} while (!end && clock_monotonic_ns() < deadline_ns);
	if (!end)
		return true;
	if (!drop_unseen(w, err))
		return false;
	writer_purge_free(w);
	return true;
}
