#include "store/db.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "store/log_pages.h"
#include "store/schema/schema.h"

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

/* SQLite's file format, 1.3: bytes 16 (size of a page), 28 (pages), 68 (application id). */
enum { HEADER_BYTES = 100 };

static bool read_header(const char *path, uint8_t out[HEADER_BYTES], uint64_t *size)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || pread(fd, out, HEADER_BYTES, 0) != HEADER_BYTES)
		return false;
	*size = (uint64_t)st.st_size;
	return memcmp(out, "SQLite format 3", 16) == 0;
}

static uint32_t big_endian(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

bool db_is_whole(const char *path, struct err *err)
{
	uint8_t header[HEADER_BYTES];
	uint64_t size, page, due;
	uint32_t pages;

	if (!read_header(path, header, &size))
		return true;
	page = (uint64_t)header[16] << 8 | header[17];
	page = page == 1 ? 65536 : page;
	if (!page)
		return true; /* no file of SQLite's; it says so itself */
	pages = big_endian(header + 28);
	due = page * pages;
	return size >= due || log_has_pages(path, (uint32_t)(size / page) + 1, pages) ||
	       err_set(err, ERR_INVALID,
		       "%s is cut short: it has %llu of its %llu bytes (flametap store salvage "
		       "saves what can be read)",
		       path, (unsigned long long)size, (unsigned long long)due);
}

bool db_is_store(const char *path)
{
	uint8_t header[HEADER_BYTES];
	uint64_t size;

	return read_header(path, header, &size) && big_endian(header + 68) == STORE_APPLICATION_ID;
}

static bool has_beside(const char *path, const char *end)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s%s", path, end);
	return access(name, F_OK) == 0;
}

static bool may_write_beside(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	return access(folder, W_OK) == 0;
}

bool db_is_immutable(const char *path)
{
	return !has_beside(path, "-wal") && (access(path, W_OK) < 0 || !may_write_beside(path));
}

static void append_uri(struct buf *uri, const char *path, bool immutable)
{
	buf_lit(uri, "file:");
	for (const char *c = path; *c; c++)
		if (*c == '?' || *c == '#' || *c == '%')
			buf_printf(uri, "%%%02x", (unsigned char)*c);
		else
			buf_char(uri, *c);
	buf_lit(uri, "?mode=ro");
	if (immutable)
		buf_lit(uri, "&immutable=1");
	buf_char(uri, '\0');
}

bool db_open_to_read(const char *path, bool immutable, sqlite3 **out, struct err *err)
{
	int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI |
		    SQLITE_OPEN_PRIVATECACHE;
	struct buf uri;
	int rc;

	if (has_beside(path, "-wal") && !has_beside(path, "-shm") && !may_write_beside(path))
		return err_set(err, ERR_PERMISSION,
			       "its newest part is in %s-wal, which is read with a file made "
			       "beside it: copy "
			       "both to where files can be made",
			       path);
	buf_init(&uri, 0);
	append_uri(&uri, path, immutable);
	rc = sqlite3_open_v2(uri.ptr, out, flags, NULL);
	buf_release(&uri);
	return rc == SQLITE_OK || db_error(*out, err, "cannot open the store");
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
