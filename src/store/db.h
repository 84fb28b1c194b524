/*
 * db.h - SQLite as the store uses it: errors as struct err, prepared statements, small helpers.
 *
 * Threads: a connection, one at a time (opened with SQLITE_OPEN_NOMUTEX).
 */
#pragma once
#include <sqlite3.h>
#include "base/err.h"
#include "base/str.h"

/* Says what failed and SQLite's reason; kind by its code: FULL, IOERR -> IO; BUSY, LOCKED ->
 * BUSY; CORRUPT, NOTADB -> INVALID; INTERRUPT -> CANCELLED; TOOBIG -> LIMIT; else INTERNAL. */
bool db_error(sqlite3 *db, struct err *err, const char *what);
/* The file is damaged, says the newest error of the connection. */
bool db_is_damage(int code);
/* Has the file, with its log, all the bytes that its header says? Else err has both numbers. For
 * files that were found to be wanting: while a log is folded in, a whole one may be shorter for a
 * moment. Files of others, and none at all, are whole. */
bool db_is_whole(const char *path, struct err *err) MUST_CHECK;
/* Is it a store of ours, by its header? */
bool db_is_store(const char *path);

/* The file lies where we may not write, and has no log: it is read as it is. Elsewhere SQLite makes
 * shared memory beside it, which the log is read by. */
bool db_is_immutable(const char *path);
/* A connection that only reads; *out is closed by the caller, after a failure, too. */
bool db_open_to_read(const char *path, bool immutable, sqlite3 **out, struct err *err) MUST_CHECK;

bool db_exec(sqlite3 *db, const char *sql, struct err *err) MUST_CHECK;
bool db_exec_f(sqlite3 *db, struct err *err, const char *format, ...) MUST_CHECK
	__attribute__((format(printf, 3, 4)));
bool db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err) MUST_CHECK;
/* The one number that a query gives; `none` without a row or with NULL. */
bool db_number(sqlite3 *db, const char *sql, int64_t none, int64_t *out,
	       struct err *err) MUST_CHECK;
/* Runs a bound statement that gives no rows, and resets it. */
bool db_run(sqlite3 *db, sqlite3_stmt *s, struct err *err, const char *what) MUST_CHECK;
/* SQLITE_ROW -> true and *row; DONE -> true and not *row, the statement is reset. */
bool db_step(sqlite3 *db, sqlite3_stmt *s, bool *row, struct err *err, const char *what) MUST_CHECK;

/* Borrowed until the statement is run: bytes as they are, whatever they hold. No bytes: NULL. */
static inline void db_bind_blob(sqlite3_stmt *s, int i, struct str bytes)
{
	if (bytes.len)
		sqlite3_bind_blob64(s, i, bytes.ptr, bytes.len, SQLITE_STATIC);
	else
		sqlite3_bind_null(s, i);
}
static inline void db_bind_text(sqlite3_stmt *s, int i, struct str text)
{
	sqlite3_bind_text64(s, i, text.len ? text.ptr : "", text.len, SQLITE_STATIC, SQLITE_UTF8);
}
/* Unsigned as two's complement. */
static inline void db_bind_u64(sqlite3_stmt *s, int i, uint64_t v)
{
	sqlite3_bind_int64(s, i, (int64_t)v);
}
/* 0 = NULL, which takes no byte. */
static inline void db_bind_id(sqlite3_stmt *s, int i, uint64_t v)
{
	if (v)
		sqlite3_bind_int64(s, i, (int64_t)v);
	else
		sqlite3_bind_null(s, i);
}
static inline struct str db_bytes(sqlite3_stmt *s, int i)
{
	const void *p = sqlite3_column_blob(s, i);

	return str_from(p, (size_t)sqlite3_column_bytes(s, i));
}
static inline uint64_t db_u64(sqlite3_stmt *s, int i)
{
	return (uint64_t)sqlite3_column_int64(s, i);
}
