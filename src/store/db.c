#include "store/db.h"

#include <stdarg.h>

#include "base/buf.h"

static enum err_kind kind_of(int code)
{
	switch (code & 0xff) {
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_NOMEM:
		return ERR_IO;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return ERR_BUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return ERR_INVALID;
	case SQLITE_INTERRUPT:
		return ERR_CANCELLED;
	case SQLITE_TOOBIG:
		return ERR_LIMIT;
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_AUTH:
		return ERR_PERMISSION;
	case SQLITE_CANTOPEN:
		return ERR_NOT_FOUND;
	default:
		return ERR_INTERNAL;
	}
}

bool db_is_damage(int code)
{
	return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

bool db_error(sqlite3 *db, struct err *err, const char *what)
{
	return err_set(err, kind_of(sqlite3_errcode(db)), "%s: %s", what, sqlite3_errmsg(db));
}

bool db_exec(sqlite3 *db, const char *sql, struct err *err)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK || db_error(db, err, sql);
}

bool db_exec_f(sqlite3 *db, struct err *err, const char *format, ...)
{
	struct buf sql;
	va_list ap;
	bool ok;

	buf_init(&sql, 0);
	va_start(ap, format);
	buf_vprintf(&sql, format, ap);
	va_end(ap);
	buf_char(&sql, '\0');
	ok = db_exec(db, sql.ptr, err);
	buf_release(&sql);
	return ok;
}

bool db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, struct err *err)
{
	return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK ||
	       db_error(db, err, sql);
}

bool db_number(sqlite3 *db, const char *sql, int64_t none, int64_t *out, struct err *err)
{
	sqlite3_stmt *s = NULL;
	bool row = false, ok;

	ok = db_prepare(db, sql, &s, err) && db_step(db, s, &row, err, sql);
	if (ok)
		*out = row && sqlite3_column_type(s, 0) != SQLITE_NULL ? sqlite3_column_int64(s, 0)
								       : none;
	sqlite3_finalize(s);
	return ok;
}

bool db_run(sqlite3 *db, sqlite3_stmt *s, struct err *err, const char *what)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_DONE) {
		sqlite3_reset(s);
		return true;
	}
	db_error(db, err, what);
	sqlite3_reset(s);
	return false;
}

bool db_step(sqlite3 *db, sqlite3_stmt *s, bool *row, struct err *err, const char *what)
{
	int rc = sqlite3_step(s);

	*row = rc == SQLITE_ROW;
	if (rc == SQLITE_ROW)
		return true;
	if (rc == SQLITE_DONE) {
		sqlite3_reset(s);
		return true;
	}
	db_error(db, err, what);
	sqlite3_reset(s);
	return false;
}
