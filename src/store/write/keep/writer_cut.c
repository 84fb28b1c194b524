/*
 * writer_cut.c - takes samples away in the order of their arrival, which is that of their numbers:
 * chunks by a range delete, whatever bucket they are of; a bucket with its last one.
 */
#include <assert.h>
#include <stdlib.h>

#include "store/schema/chunk.h"
#include "store/write/writer_internal.h"

enum { SLICE_SAMPLES = 4096 };

bool writer_cut_is_due(struct store_writer *w, uint64_t below, bool *due, struct err *err)
{
	int64_t first;

	if (!db_number(w->db, "SELECT min(seq) FROM chunk", INT64_MAX, &first, err))
		return false;
	*due = (uint64_t)first < below;
	return true;
}

static bool take_from_bucket(struct store_writer *w, int64_t bucket, uint64_t samples,
			     struct err *err)
{
	w->keep.unswept_samples += samples;
	w->now.facts.swept_samples += samples;
	return db_exec_f(w->db, err, "UPDATE bucket SET n=max(0, n-%llu) WHERE bucket=%lld",
			 (unsigned long long)samples, (long long)bucket);
}

/* No sample has a number below `next`. */
static bool forget_buckets_below(struct store_writer *w, uint64_t next, struct err *err)
{
	w->bucket_count = 0;
	return db_exec_f(w->db, err,
			 "DELETE FROM bucket WHERE last_seq<%llu; UPDATE bucket SET first_seq=%llu "
			 "WHERE first_seq<%llu",
			 (unsigned long long)next, (unsigned long long)next,
			 (unsigned long long)next);
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

bool writer_cut_some(struct store_writer *w, uint64_t below, struct err *err)
{
	uint64_t last = 0;
	int64_t next;

	if (!unlink_chunks(w, below, &last, err))
		return false;
	if (last + 1 > w->keep.trim_to)
		w->keep.trim_to = last + 1;
	w->keep.trimming = true;
	return db_exec_f(w->db, err, "DELETE FROM chunk WHERE seq<=%llu",
			 (unsigned long long)last) &&
	       db_number(w->db, "SELECT min(seq) FROM chunk", (int64_t)w->now.next_seq, &next,
			 err) &&
	       forget_buckets_below(w, (uint64_t)next, err);
}
