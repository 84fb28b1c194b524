/* writer_internal.h - inside of the writer: what its files share. */
#pragma once
#include "base/arena.h"
#include "pipeline/spool_seen.h"
#include "store/db.h"
#include "store/write/feed.h"
#include "store/schema/ident.h"
#include "store/known.h"
#include "store/schema/schema.h"
#include "store/write/store_lock.h"
#include "store/write/keep/sweep.h"
#include "store/write/writer.h"

/* Tables whose rows are put many at a time, at a request's end. */
enum fed_table {
	FED_STRING,
	FED_ATTRIBUTE,
	FED_ATTRSET,
	FED_FUNCTION,
	FED_MAPPING,
	FED_LOCATION,
	FED_STACK,
	FED_LINK,
	FED_RESOURCE,
	FED_SCOPE,
	FED_SERIES,
	FED_PROFILE,
	FED_CHUNK_LINK,
	FED_LOOKUP,
	FED_COUNT,
};

enum statement {
	ADD_REQUEST,
	ADD_NOTE,
	ADD_CHUNK,
	ADD_SAMPLE_KEY,
	ADD_COVERAGE,
	PUT_LOOKUP_STATE,
	PUT_BUCKET,
	GET_BUCKET,
	FIND_LOOKUP,
	STATEMENT_COUNT,
};

struct bucket_state {
	uint64_t bucket, longest, first_seq, last_seq, n;
	bool dirty;
};
enum { WRITER_BUSY_MS = 5000 }; /* how long SQLite waits for others' locks */
enum { BUCKETS_MOST = 64 };

/* What a rollback takes back. */
struct writer_marks {
	uint32_t last_id[KIND_COUNT];
	uint64_t next_seq;
	uint32_t keyed_links; /* up to there they are in link_key */
	struct store_writer_facts facts;
	uint32_t seen_added;
};

/* What upkeep is about (keep/writer_upkeep.c). */
struct writer_keeping {
	struct sweep *sweep;        /* under way, or NULL */
	uint64_t unswept_samples;   /* deleted since the last sweep began; STORE_STATE_UNSWEPT */
	uint64_t sweeping_samples;  /* deleted before the one under way */
	uint64_t next_retention_ns; /* monotonic: when to look again */
	uint64_t trim_to;           /* requests below may go once their samples have */
	uint64_t cutting_to;        /* samples below are being deleted for their age; 0 = none */
	bool over_size;             /* and nothing but the newest request is left to go */
	bool trimming, shrinking;   /* requests are to go; free pages are to be given back */
};

struct store_writer {
	struct store_writer_options options;
	sqlite3 *db;
	struct store_lock lock;
	char *path;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	sqlite3_stmt *fed_inserts[FED_COUNT];
	struct feed feed;
	struct buf fed[FED_COUNT]; /* struct feed_value: rows on their way */
	sqlite3_stmt *verify[KIND_COUNT];
	struct known known;
	struct spool_seen seen;
	bool lookup_used; /* the table `lookup` has rows */
	uint64_t *filter; /* hash_filter.h: of all of them; NULL: they are too many */
	bool in_transaction, damaged;
	struct writer_keeping keep;
	struct writer_marks now, committed;
	struct bucket_state buckets[BUCKETS_MOST];
	uint32_t bucket_count;

	/* Of the request that is put. */
	const struct profiles *p;
	struct ident n;
	struct arena arena;
	struct buf bytes; /* a row's BLOB */
	struct buf more;  /* of a chunk */
	struct buf notes;
	bool failed; /* err tells */
	struct err *err;
};

static inline sqlite3_stmt *statement(struct store_writer *w, enum statement s)
{
	return w->statements[s];
}
/* Runs a bound statement; remembers the failure. */
void writer_run(struct store_writer *w, enum statement s, const char *what);
void writer_fail(struct store_writer *w, const char *what);

void writer_step(struct store_writer *w, sqlite3_stmt *s, const char *what);

/* writer_fed.c: the columns of a new row, NULL all, to be filled in at once. What they point to
 * must last until the request is put, as what is in its arena does. */
struct feed_value *writer_row(struct store_writer *w, enum fed_table t);
/* A copy in there. */
struct str writer_keep(struct store_writer *w, struct str bytes);
/* Puts the rows of one table; of all. After a failure they are dropped. */
void writer_flush_table(struct store_writer *w, enum fed_table t);
void writer_flush(struct store_writer *w);
bool writer_prepare_fed(struct store_writer *w, struct err *err) MUST_CHECK;
void writer_finalize_fed(struct store_writer *w);

/* What a checkpoint leaves of the log's file. */
uint64_t writer_log_bytes(const struct store_writer *w);

/* Bytes of the file with that ending; 0 when there is none. */
uint64_t writer_size_of(const char *path, const char *ending);

/* writer_rows.c: the rows of dictionary entries, found or added. 0 = the empty entry, or a failure.
 */
uint32_t writer_text(struct store_writer *w, struct str s);
uint32_t writer_string(struct store_writer *w, uint32_t index);
uint32_t writer_list(struct store_writer *w, struct range refs);
uint32_t writer_refs(struct store_writer *w, const struct attribute_index *at, uint32_t count);
/* One attribute of those; of a resource or scope. */
uint32_t writer_attribute(struct store_writer *w, uint32_t index);
uint32_t writer_key_value(struct store_writer *w, const struct key_value *kv, struct hash128 hash);
uint32_t writer_stack(struct store_writer *w, uint32_t index);
uint32_t writer_link(struct store_writer *w, uint32_t index);
uint32_t writer_resource(struct store_writer *w, uint32_t index, struct hash128 *hash);
uint32_t writer_scope(struct store_writer *w, uint32_t index, struct hash128 *hash);
/* Found by hash, or 0. */
uint32_t writer_find(struct store_writer *w, enum store_kind kind, struct hash128 hash);
/* The next row of a kind, told to the cache of known ids. */
uint32_t writer_next_row(struct store_writer *w, enum store_kind kind, struct hash128 hash);

/* writer_lookup.c: the table `lookup` */
bool writer_load_pending(struct store_writer *w, struct err *err);
void writer_fold(struct store_writer *w);
void writer_make_filter(struct store_writer *w); /* once, of a store that is opened */

/* writer_lookup.c: before a commit, where many links are not in link_key yet */
bool writer_load_links(struct store_writer *w, struct err *err) MUST_CHECK;
void writer_key_links(struct store_writer *w);

/* writer_upkeep.c: what an earlier writer left undone */
bool writer_load_upkeep(struct store_writer *w, struct err *err) MUST_CHECK;

/*
 * writer_cut.c: samples go in the order of their arrival, a slice at a time; all in a transaction
 * of the caller's.
 */
/* *due: are there samples that arrived before the number `below`? */
bool writer_cut_is_due(struct store_writer *w, uint64_t below, bool *due,
		       struct err *err) MUST_CHECK;
/* A slice of those below that number. */
bool writer_cut_some(struct store_writer *w, uint64_t below, struct err *err) MUST_CHECK;

/* A sample on its way in; bucket, dt and span: t0 = bucket * 600 s + dt, t1 = t0 + span. */
struct sample_row {
	uint64_t bucket, dt, seq, span;
	uint32_t series, stack, attrset, link;
	uint32_t sample, profile; /* indices in the message */
};

/* writer_chunk.c: rows by bucket and number */
void writer_put_chunks(struct store_writer *w, const struct sample_row *rows, uint32_t count);

/* writer_put.c */
void writer_put_request(struct store_writer *w, const struct store_request *r);
void writer_flush_buckets(struct store_writer *w);

/* writer_keys.c: keys of the request at hand whose values its series do not have. */
struct lifted;
void writer_put_sample_keys(struct store_writer *w, const struct lifted *l);
/* The column series.labels into w->bytes; false: it is NULL. */
bool writer_labels(struct store_writer *w, const struct resource_profiles *r,
		   const struct scope_profiles *c, const struct attribute_index *lifted,
		   uint32_t lifted_count);
/* Notes it when a new series' service_id is not what a query finds in its attributes. */
void writer_put_odd_service(struct store_writer *w, const struct resource_profiles *r,
			    const struct scope_profiles *c, const struct attribute_index *lifted,
			    uint32_t lifted_count);
