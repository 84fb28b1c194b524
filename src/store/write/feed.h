/*
 * feed.h - many rows by one statement: a virtual table whose rows are an array in memory.
 *
 *   INSERT INTO t SELECT c0, c1, c2 FROM feed
 *
 * A statement that is run row by row opens its table, and closes it, for each; here that is once.
 *
 * Memory: the values are the caller's, and what they point to. Threads: one, that of the
 * connection.
 */
#pragma once
#include <assert.h>
#include "store/db.h"

enum { FEED_COLUMNS_MOST = 13 };

enum feed_type { FEED_NULL, FEED_INTEGER, FEED_REAL, FEED_TEXT, FEED_BLOB };

struct feed_value {
	union {
		int64_t number;
		double real;
		const char *ptr;
	};
	uint32_t len; /* of what ptr points to */
	enum feed_type type;
};

/* What the table `feed` of a connection has; the next statement reads it. */
struct feed {
	const struct feed_value *values; /* row after row */
	uint32_t rows, columns;
};

/* Makes the table; `f` must outlive the connection. */
bool feed_attach(struct feed *f, sqlite3 *db, struct err *err) MUST_CHECK;

static inline struct feed_value feed_number(uint64_t v)
{
	return (struct feed_value){ .number = (int64_t)v, .type = FEED_INTEGER };
}
/* 0 = NULL, which takes no byte. */
static inline struct feed_value feed_id(uint64_t v)
{
	return (struct feed_value){ .number = (int64_t)v, .type = v ? FEED_INTEGER : FEED_NULL };
}
static inline struct feed_value feed_real(double v)
{
	return (struct feed_value){ .real = v, .type = FEED_REAL };
}
static inline struct feed_value feed_text(struct str s)
{
	assert(s.len <= UINT32_MAX);
	return (struct feed_value){ .ptr = s.len ? s.ptr : "",
				    .len = (uint32_t)s.len,
				    .type = FEED_TEXT };
}
/* No bytes are bytes still. */
static inline struct feed_value feed_bytes(struct str s)
{
	assert(s.len <= UINT32_MAX);
	return (struct feed_value){ .ptr = s.len ? s.ptr : "",
				    .len = (uint32_t)s.len,
				    .type = FEED_BLOB };
}
/* No bytes: NULL. */
static inline struct feed_value feed_blob(struct str s)
{
	return s.len ? feed_bytes(s) : feed_id(0);
}
