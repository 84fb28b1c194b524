/* reader_internal.h - inside of the SQLite reader: what its files share. */
#pragma once
#include <pthread.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "store/db.h"
#include "store/idmap.h"
#include "store/schema/schema.h"
#include "store/store.h"

enum query {
	GET_STRING,
	GET_ATTRIBUTE,
	GET_ATTRSET,
	GET_FUNCTION,
	GET_MAPPING,
	GET_LOCATION,
	GET_STACK,
	GET_LINK,
	GET_RESOURCE,
	GET_SCOPE,
	GET_SERIES,
	EACH_SERIES,
	EACH_BRIEF,
	MARK_CHUNKS,
	PICK_STACKS, /* and the following ones: for row_each() */
	PICK_LOCATIONS,
	PICK_FUNCTIONS,
	PICK_RESOURCES,
	PICK_ATTRSETS,
	PICK_ATTRIBUTES,
	PICK_STRINGS,
	GET_REQUEST,
	NEXT_REQUEST,
	GET_PROFILE,
	GET_NOTE,
	GET_SYMBOL,
	LIST_BUCKETS,
	SCAN_CHUNKS, /* of a bucket; and of each depth behind it */
	GET_CHUNK = SCAN_CHUNKS + 4,
	EACH_CHUNK, /* of a part of the line */
	CHUNKS_OF_LINK,
	CHUNK_ENDS,
	QUERY_COUNT,
};

/* How much of a sample a scan reads; each has what those before it have. */
enum sample_depth { DEPTH_TIMES, DEPTH_STACK, DEPTH_ATTRIBUTES, DEPTH_ALL, DEPTHS };

/* A walk over samples; callbacks of one may ask for what numbers mean, not for another walk. */
struct sample_scan {
	struct sqlite_snapshot *snap;
	const struct source_scan *what;
	source_row_fn *fn;
	source_events_fn *events; /* instead of fn */
	struct event_room *room;  /* for those */
	void *arg;
	enum sample_depth depth;
	bool all, ended, failed;
	struct err *err;
};

struct sqlite_store {
	struct store base;
	char *path;
	bool immutable;       /* a file in a place that we may not write to, without a log */
	pthread_mutex_t lock; /* guards idle */
	struct sqlite_snapshot *idle[2];
};

struct sqlite_snapshot {
	struct source base;
	struct sqlite_store *store;
	sqlite3 *db;
	sqlite3_stmt *queries[QUERY_COUNT];
	bool overlay;     /* the table symbol has rows */
	bool caches_more; /* reader_cache_more() was called */

	/* What was met; forgotten when it passes the limit. */
	struct arena kept;
	struct idmap strings, attrsets, attributes, functions, mappings;

	/* Of the sample that is given. */
	struct sample_scan *scan; /* that is running */
	struct row_walk *walk;    /* that is running */
	struct series_walk *series_walk;
	int64_t *values;
	uint64_t *times;
	uint32_t value_cap, time_cap;
};

static inline struct sqlite_snapshot *sqlite_snapshot_of(struct source *s)
{
	return CONTAINER_OF(s, struct sqlite_snapshot, base);
}

/* What each file has of the snapshot's ops. */
SOURCE_OP(series) sqlite_series;
SOURCE_OP(sample_keys) sqlite_sample_keys;
SOURCE_OP(scan) sqlite_scan;
SOURCE_OP(events) sqlite_events;
SOURCE_OP(profiles) sqlite_profiles;
SOURCE_OP(stacks) sqlite_stacks;
SOURCE_OP(locations) sqlite_locations;
SOURCE_OP(attributes) sqlite_attributes;
SOURCE_OP(links) sqlite_links;
SOURCE_OP(find_links) sqlite_find_links;
SOURCE_OP(coverage) sqlite_coverage;
SOURCE_OP(extent) sqlite_extent;
SOURCE_OP(next_request) sqlite_next_request;

/* The statement, prepared on first use; NULL and err. */
sqlite3_stmt *reader_query(struct sqlite_snapshot *snap, enum query q, struct err *err);
/* Binds the id and steps: false with ERR_NOT_FOUND when there is no row. The caller resets. */
bool reader_row(struct sqlite_snapshot *snap, enum query q, uint64_t id, sqlite3_stmt **out,
		struct err *err) MUST_CHECK;
/* For whole requests, whose rows lie anywhere: more pages are kept until the snapshot ends. */
bool reader_cache_more(struct sqlite_snapshot *snap, struct err *err) MUST_CHECK;
/* Forgets what was met if there is too much of it: between callbacks only. */
bool reader_is_full(const struct sqlite_snapshot *snap);
void reader_trim(struct sqlite_snapshot *snap);

/* reader_dict.c; id 0 gives what is empty */
bool reader_text(struct sqlite_snapshot *snap, uint64_t id, struct str *out,
		 struct err *err) MUST_CHECK;
bool reader_attribute(struct sqlite_snapshot *snap, uint64_t id, struct source_attribute *out,
		      struct err *err) MUST_CHECK;
bool reader_attributes(struct sqlite_snapshot *snap, uint64_t id, struct source_attributes *out,
		       struct err *err) MUST_CHECK;
/* The value of a row of `attribute`: what its columns kind and v say. */
struct any_cell {
	int kind;
	struct str bytes;
	int64_t integer;
	double real;
};
struct any_cell reader_any_cell(sqlite3_stmt *s, int kind_column, int value_column);
bool reader_any(const struct any_cell *cell, struct arena *arena, struct any_value *out,
		struct err *err) MUST_CHECK;

/* reader_scan.c: buckets that may hold samples of the window, ascending; the caller frees them. */
struct bucket {
	uint64_t number, longest; /* t1 - t0 of its samples */
};
struct bucket_list {
	struct bucket *buckets;
	uint32_t count, cap;
};
bool reader_list_buckets(struct sqlite_snapshot *snap, struct source_range range,
			 struct bucket_list *out, struct err *err) MUST_CHECK;

/* reader_scan.c: whether a sample is one that is asked for, but for its series; and what its lists
 * say (chunk.h, more) into the snapshot's room: false when the bytes are broken. */
bool scan_wants(const struct source_scan *what, const struct source_row *x);
bool reader_more(struct sqlite_snapshot *snap, struct str bytes, struct source_row *x) MUST_CHECK;
void reader_room(struct sqlite_snapshot *snap); /* for a sample of one value and one timestamp */

/* reader_chunk.c: the samples of a bucket's chunks; of chunks that have one of the links (what is
 * to be given is still judged by the scan's fn); of a part of the line, in order. */
bool reader_scan_chunks(struct sample_scan *x, uint64_t bucket) MUST_CHECK;
bool reader_scan_linked_chunks(struct sample_scan *x) MUST_CHECK;
bool reader_scan_line(struct sample_scan *x, uint64_t first, uint64_t last) MUST_CHECK;
/* The first t0 and the last t1 that a bucket's chunks have; unchanged where there are none. */
bool reader_chunk_ends(struct sqlite_snapshot *snap, uint64_t bucket, uint64_t *first,
		       uint64_t *last, struct err *err) MUST_CHECK;

/* reader_events.c: room for a scan of events (event_room_free() after a failure, too); what a chunk
 * has of them. */
struct chunk;
bool event_room_make(struct sample_scan *x) MUST_CHECK;
void event_room_free(struct sample_scan *x);
bool reader_give_events(struct sample_scan *x, struct chunk *c) MUST_CHECK;

/* Give the connection the functions brief() (reader_series.c) and row() (reader_walk.c). */
bool reader_make_brief(struct sqlite_snapshot *snap, struct err *err) MUST_CHECK;
bool reader_make_row(struct sqlite_snapshot *snap, struct err *err) MUST_CHECK;
