/* reader_internal.h - inside of the SQLite reader: what its files share. */
#pragma once
#include <pthread.h>
#include "base/arena.h"
#include "base/buf.h"
#include "store/db.h"
#include "store/idmap.h"
#include "store/reader.h"
#include "store/reader_sqlite.h"
#include "store/schema.h"

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
	GET_REQUEST,
	GET_PROFILE,
	GET_PROFILE_BELOW,
	GET_NOTE,
	GET_SYMBOL,
	LIST_BUCKETS,
	LIST_BUCKET_SERIES,
	SCAN_BUCKET,
	SCAN_SERIES,
	SCAN_LINK,
	QUERY_COUNT,
};

/* The columns of a sample as the three scans give them. */
enum sample_column {
	COL_BUCKET,
	COL_SERIES,
	COL_DT,
	COL_SEQ,
	COL_STACK,
	COL_ATTRSET,
	COL_LINK,
	COL_VALUE,
	COL_MORE,
};

struct sqlite_store {
	char *path;
	size_t limit_bytes;
	bool immutable;       /* a file in a place that we may not write to, without a log */
	pthread_mutex_t lock; /* guards idle */
	struct sqlite_snapshot *idle[2];
};

struct sqlite_snapshot {
	struct sqlite_store *store;
	sqlite3 *db;
	sqlite3_stmt *queries[QUERY_COUNT];
	bool overlay;   /* the table symbol has rows */
	uint64_t *lost; /* not NULL: leave out what cannot be read */

	/* What was met; forgotten when it passes the limit. */
	struct arena kept;
	struct idmap strings, attrsets;

	/* Of the sample that is given. */
	int64_t *values;
	uint64_t *times;
	uint32_t value_cap, time_cap;
};

/* The statement, prepared on first use; NULL and err. */
sqlite3_stmt *reader_query(struct sqlite_snapshot *snap, enum query q, struct err *err);
/* Binds the id and steps: false with ERR_NOT_FOUND when there is no row. The caller resets. */
bool reader_row(struct sqlite_snapshot *snap, enum query q, uint64_t id, sqlite3_stmt **out,
		struct err *err) MUST_CHECK;
/* Forgets what was met if there is too much of it: between callbacks only. */
void reader_trim(struct sqlite_snapshot *snap);

/* reader_dict.c; id 0 gives what is empty */
bool reader_text(struct sqlite_snapshot *snap, uint64_t id, struct str *out,
		 struct err *err) MUST_CHECK;
bool reader_attributes(struct sqlite_snapshot *snap, uint64_t id, struct store_attributes *out,
		       struct err *err) MUST_CHECK;
/* The value of a row of `attribute`, from columns kind and v. */
bool reader_any(sqlite3_stmt *s, int kind_column, int value_column, struct arena *arena,
		struct any_value *out, struct err *err) MUST_CHECK;

/* reader_scan.c: from the columns above */
bool reader_sample(struct sqlite_snapshot *snap, sqlite3_stmt *s, struct store_sample *out,
		   struct err *err) MUST_CHECK;
