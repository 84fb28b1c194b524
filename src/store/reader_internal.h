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
	GET_SERIES_OF_1, /* of schema version 1 */
	EACH_SERIES,
	MARK_SERIES,
	EACH_STACK,
	EACH_LOCATION,
	GET_REQUEST,
	GET_PROFILE,
	GET_PROFILE_BELOW,
	GET_NOTE,
	GET_SYMBOL,
	LIST_BUCKETS,
	LIST_BUCKET_SERIES,
	SCAN_BUCKET, /* and of each depth behind it */
	SCAN_SERIES = SCAN_BUCKET + 4,
	SCAN_LINK = SCAN_SERIES + 4,
	QUERY_COUNT,
};

/* How much of a sample a scan reads; each has what those before it have. */
enum sample_depth { DEPTH_TIMES, DEPTH_STACK, DEPTH_ATTRIBUTES, DEPTH_ALL, DEPTHS };

/* The arguments of the SQL function take(), which is given each row of a scan: a step of SQLite's
 * for each row would cost twice as much. */
enum sample_argument {
	ARG_BUCKET,
	ARG_SERIES,
	ARG_DT,
	ARG_SEQ,
	ARG_VALUE,
	ARG_MORE,
	ARG_STACK,
	ARG_ATTRSET,
	ARG_LINK,
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
	int64_t version; /* of the file's schema */
	bool overlay;    /* the table symbol has rows */
	uint64_t *lost;  /* not NULL: leave out what cannot be read */

	/* What was met; forgotten when it passes the limit. */
	struct arena kept;
	struct idmap strings, attrsets, attributes;

	/* Of the sample that is given. */
	struct sample_scan *scan; /* that is running */
	struct id_bits *marking;  /* of the list of series that is made */
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

/* Give the connection the functions mark() (reader_series.c) and take() (reader_scan.c). */
bool reader_make_mark(struct sqlite_snapshot *snap, struct err *err) MUST_CHECK;
bool reader_make_take(struct sqlite_snapshot *snap, struct err *err) MUST_CHECK;
