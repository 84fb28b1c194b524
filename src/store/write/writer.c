#include "store/write/writer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/schema/chunk.h"
#include "store/write/writer_internal.h"

enum {
	CACHE_BYTES = 8 << 20,
	KNOWN_BYTES = 8 << 20,
	FOLD_AT = KNOWN_PENDING_MOST / 4 * 3,
	LOG_PAGES = 448, /* a checkpoint when the log has that many: 4 MB with a commit beyond it */
	LOG_PAGES_LEAST = 64,
	LOG_SHARE = 32, /* so many logs of that size fill a store of limited size */
};

static const char *const statement_sql[STATEMENT_COUNT] = {
	[ADD_REQUEST] = "INSERT INTO request VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[ADD_NOTE] = "INSERT INTO note VALUES(?1, ?2)",
	[ADD_CHUNK] =
		"INSERT INTO chunk(" CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK
			CHUNK_COLUMNS_ATTRIBUTES CHUNK_COLUMNS_LINK
		") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
		"?17, ?18, ?19, ?20, ?21, ?22, ?23)",
	[ADD_COVERAGE] = "INSERT OR IGNORE INTO coverage VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
	[ADD_SAMPLE_KEY] = "INSERT OR IGNORE INTO sample_key VALUES(?1)",
	[PUT_LOOKUP_STATE] = "INSERT OR REPLACE INTO lookup_state VALUES(?1, ?2)",
	[PUT_BUCKET] = "INSERT OR REPLACE INTO bucket VALUES(?1, ?2, ?3, ?4, ?5)",
	[GET_BUCKET] = "SELECT longest, first_seq, last_seq, n FROM bucket WHERE bucket=?1",
	[FIND_LOOKUP] = "SELECT id FROM lookup WHERE hash=?1 AND kind=?2",
};

void writer_fail(struct store_writer *w, const char *what)
{
	if (w->failed)
		return;
	w->failed = true;
	w->damaged |= db_is_damage(sqlite3_errcode(w->db));
	if (what)
		db_error(w->db, w->err, what);
}

void writer_step(struct store_writer *w, sqlite3_stmt *s, const char *what)
{
	int rc;

	if (w->failed)
		return;
	rc = sqlite3_step(s);
	if (rc != SQLITE_DONE)
		writer_fail(w, what);
	sqlite3_reset(s);
}

void writer_run(struct store_writer *w, enum statement s, const char *what)
{
	writer_step(w, w->statements[s], what);
}

static uint64_t now_unix_ns(const struct store_writer *w)
{
	return w->options.now_unix_ns ? w->options.now_unix_ns(w->options.now_arg)
				      : clock_realtime_ns();
}

/* ---- opening ---- */

/* SQLite makes what it cannot find; a directory or a device is no place for a store. */
static bool check_path(const char *path, bool *exists, struct err *err)
{
	struct stat st;

	*exists = stat(path, &st) == 0;
	if (!*exists && errno != ENOENT)
		return err_set_errno(err, "cannot open %s", path);
	if (*exists && !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is no regular file", path);
	*exists &= st.st_size > 0;
	return true;
}

static bool load_next_seq(struct store_writer *w, struct err *err)
{
	int64_t request, profile, saved;

	if (!db_number(w->db, "SELECT max(seq) + 1 FROM request", 1, &request, err) ||
	    !db_number(w->db, "SELECT seq + samples + 1 FROM profile ORDER BY seq DESC LIMIT 1", 1,
		       &profile, err) ||
	    !db_number(w->db, "SELECT id FROM lookup_state WHERE kind=0", 1, &saved, err))
		return false;
	w->now.next_seq = (uint64_t)(request > profile ? request : profile);
	if (w->now.next_seq < (uint64_t)saved)
		w->now.next_seq = (uint64_t)saved;
	return true;
}

static bool load_seen(struct store_writer *w, struct err *err)
{
	uint64_t since = now_unix_ns(w) - w->options.dedup_window_ns;
	sqlite3_stmt *s = NULL;
	bool ok, row = true;

	if (!w->options.dedup_window_ns)
		return true;
	/* Oldest first, as spool_seen wants them; the newest 65,536 at most. */
	ok = db_prepare(
		w->db,
		"SELECT hash, arrived FROM (SELECT seq, hash, arrived FROM request ORDER BY "
		"seq DESC LIMIT 65536) WHERE arrived>=?1 ORDER BY seq",
		&s, err);
	if (ok)
		db_bind_u64(s, 1, since);
	while (ok && row) {
		struct hash128 h;

		ok = db_step(w->db, s, &row, err, "reading the newest requests");
		if (!ok || !row || db_bytes(s, 0).len != sizeof(h))
			continue;
		memcpy(&h, db_bytes(s, 0).ptr, sizeof(h));
		spool_seen_add(&w->seen, h, db_u64(s, 1));
	}
	sqlite3_finalize(s);
	return ok;
}

static int log_pages(const struct store_writer *w)
{
	uint64_t most = w->options.max_size_bytes / LOG_SHARE / STORE_PAGE_BYTES;

	if (!most || most > LOG_PAGES)
		return LOG_PAGES;
	return most < LOG_PAGES_LEAST ? LOG_PAGES_LEAST : (int)most;
}

/* What it usually grows to: less would give blocks back that it takes again at once. */
uint64_t writer_log_bytes(const struct store_writer *w)
{
	return (uint64_t)log_pages(w) * STORE_PAGE_BYTES / 8 * 9;
}

static bool open_db(struct store_writer *w, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
		    SQLITE_OPEN_PRIVATECACHE;

	if (sqlite3_open_v2(w->path, &w->db, flags, NULL) != SQLITE_OK)
		return db_error(w->db, err, "cannot open the store");
	sqlite3_extended_result_codes(w->db, 1);
	sqlite3_busy_timeout(w->db, WRITER_BUSY_MS);
	return schema_prepare(w->db, err) &&
	       db_exec_f(
		       w->db, err,
		       "PRAGMA synchronous=%s; PRAGMA cache_size=-%d; PRAGMA mmap_size=0; "
		       "PRAGMA wal_autocheckpoint=%d; PRAGMA journal_size_limit=%d; "
		       "PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF; PRAGMA "
		       "secure_delete=OFF",
		       w->options.durability == STORE_DURABLE_DISK ? "FULL" : "NORMAL",
		       (int)((w->options.cache_bytes ? w->options.cache_bytes : CACHE_BYTES) >> 10),
		       log_pages(w), (int)writer_log_bytes(w));
}

static bool prepare_statements(struct store_writer *w, struct err *err)
{
	for (int i = 0; i < STATEMENT_COUNT; i++)
		if (!db_prepare(w->db, statement_sql[i], &w->statements[i], err))
			return false;
	return writer_prepare_fed(w, err);
}

static void close_db(struct store_writer *w)
{
	for (int i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(w->statements[i]);
		w->statements[i] = NULL;
	}
	writer_finalize_fed(w);
	for (int i = 0; i < KIND_COUNT; i++) {
		sqlite3_finalize(w->verify[i]);
		w->verify[i] = NULL;
	}
	sweep_free(w->keep.sweep);
	w->keep.sweep = NULL;
	sqlite3_close(w->db);
	w->db = NULL;
}

/* A look at each table's ends, which is what a start can afford, and at all of `lookup`: 20 MB of a
 * million stacks. */
static bool open_whole(struct store_writer *w, struct err *err)
{
	w->err = err;
	if (!open_db(w, err) || !prepare_statements(w, err) || !load_next_seq(w, err) ||
	    !writer_load_upkeep(w, err) || !writer_load_links(w, err) ||
	    !writer_load_pending(w, err) || !load_seen(w, err)) {
		w->damaged = w->db && db_is_damage(sqlite3_errcode(w->db));
		close_db(w);
		return err_prefix(err, "%s", w->path);
	}
	writer_make_filter(w);
	w->committed = w->now;
	return true;
}

static bool set_aside_one(const char *path, const char *ending, const char *stamp, char *name,
			  size_t size, struct err *err)
{
	char from[4096];

	snprintf(from, sizeof(from), "%s%s", path, ending);
	snprintf(name, size, "%s.damaged-%s%s", path, stamp, ending);
	if (rename(from, name) == 0 || errno == ENOENT)
		return true;
	return err_set_errno(err, "cannot set the damaged %s aside as %s", from, name);
}

/* The log first: a file without its log is older, a log without its file would be lost. */
static bool set_aside(struct store_writer *w, char name[512], struct err *err)
{
	char stamp[32], ignored[4096];

	snprintf(stamp, sizeof(stamp), "%llu", (unsigned long long)(now_unix_ns(w) / SECOND_NS));
	return set_aside_one(w->path, "-wal", stamp, ignored, sizeof(ignored), err) &&
	       set_aside_one(w->path, "-shm", stamp, ignored, sizeof(ignored), err) &&
	       set_aside_one(w->path, "", stamp, name, 512, err);
}

static bool has_mark(const char *path)
{
	char name[4096];
	struct stat st;

	snprintf(name, sizeof(name), "%s-lock", path);
	return stat(name, &st) == 0 && st.st_size > 0;
}

/* Is it ours for sure, so that we may move it? Its header says so, or our lock file, in which is
 * written that a store was opened here: an empty one says nothing. */
static bool is_ours(const char *path)
{
	return db_is_store(path) || has_mark(path);
}

static void mark_as_ours(const struct store_writer *w)
{
	static const char mark[] = "flametap\n";
	struct stat st;

	/* Without it a file that cannot be read later on stays where it is. */
	if (fstat(w->lock.beside_fd, &st) == 0 && st.st_size == 0 &&
	    pwrite(w->lock.beside_fd, mark, sizeof(mark) - 1, 0) < 0)
		return;
}

/* SQLite takes a file that lacks its first page's end for an empty one. */
static bool check_whole(struct store_writer *w, struct err *err)
{
	char log[4096];

	snprintf(log, sizeof(log), "%s-wal", w->path);
	w->damaged = access(log, F_OK) < 0 && !db_is_whole(w->path, err);
	return !w->damaged;
}

/* An SQLite file in which nothing is yet may become one. */
static bool may_become_ours(const char *path)
{
	sqlite3 *db = NULL;
	struct err why;
	bool ok = db_open_to_read(path, db_is_immutable(path), &db, &why) && schema_check(db, &why);

	sqlite3_close(db);
	return ok || why.kind == ERR_NOT_FOUND;
}

bool store_may_keep(const char *path, struct err *err)
{
	char *real = store_path_resolve(path);
	bool exists, ok = check_path(real, &exists, err);

	if (ok && exists && access(real, R_OK | W_OK) != 0)
		ok = err_set_errno(err, "cannot write %s", path);
	else if (ok && exists && !is_ours(real) && !may_become_ours(real))
		ok = err_set(err, ERR_INVALID, "%s is somebody else's file, no store of flametap's",
			     path);
	free(real);
	return ok;
}

bool store_writer_open(const struct store_writer_options *options, struct store_writer **out,
		       char aside[512], struct err *err)
{
	struct store_writer *w = calloc(1, sizeof(*w));
	bool exists;
	struct err why;

	assert(w);
	if (aside)
		aside[0] = '\0';
	w->options = *options;
	w->options.tenant = options->tenant ? options->tenant : "";
	w->lock = STORE_LOCK_NONE;
	w->path = store_path_resolve(options->path);
	known_init(&w->known, options->known_bytes ? options->known_bytes : KNOWN_BYTES);
	spool_seen_init(&w->seen, options->dedup_window_ns);
	arena_init(&w->arena, 64 << 10, 0);
	if (!check_path(w->path, &exists, err) || !store_lock_take(&w->lock, w->path, err))
		goto fail;
	if (!check_whole(w, err) || !open_whole(w, err)) {
		if (!w->damaged || !exists || !is_ours(w->path) || !aside)
			goto fail;
		why = *err;
		if (!set_aside(w, aside, err))
			goto fail;
		w->damaged = false;
		if (!open_whole(w, err)) {
			err_prefix(err, "after setting a damaged file aside (%s)", why.msg);
			goto fail;
		}
	}
	if (!store_lock_file(&w->lock, w->path, err)) /* it may have been made just now */
		goto fail;
	mark_as_ours(w);
	*out = w;
	return true;
fail:
	store_lock_forget(&w->lock, w->path); /* beside somebody else's file nothing stays */
	store_writer_close(w);
	return false;
}

void store_writer_close(struct store_writer *w)
{
	if (!w)
		return;
	if (w->db) {
		store_writer_rollback(w);
		sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
		close_db(w);
	}
	store_lock_release(&w->lock); /* not before SQLite has closed the file */
	known_release(&w->known);
	free(w->filter);
	spool_seen_release(&w->seen);
	ident_release(&w->n);
	arena_release(&w->arena);
	for (int i = 0; i < FED_COUNT; i++)
		buf_release(&w->fed[i]);
	buf_release(&w->bytes);
	buf_release(&w->more);
	buf_release(&w->notes);
	free(w->path);
	free(w);
}

/* ---- transactions ---- */

bool store_writer_begin(struct store_writer *w, struct err *err)
{
	assert(!w->in_transaction);
	w->err = err;
	w->failed = false;
	if (!db_exec(w->db, "BEGIN IMMEDIATE", err)) {
		writer_fail(w, NULL);
		return false;
	}
	w->in_transaction = true;
	w->now.seen_added = 0;
	return true;
}

bool store_writer_put(struct store_writer *w, const struct store_request *r, bool *duplicate,
		      struct err *err)
{
	assert(w->in_transaction);
	w->err = err;
	*duplicate = false;
	if (w->failed)
		return err_set(err, ERR_INTERNAL, "the transaction has failed");
	if (!r->always && w->options.dedup_window_ns) {
		if (spool_seen_has(&w->seen, r->hash, r->arrived_unix_ns)) {
			*duplicate = true;
			w->now.facts.duplicates++;
			return true;
		}
		w->now.seen_added += spool_seen_add(&w->seen, r->hash, r->arrived_unix_ns);
	}
	writer_put_request(w, r);
	w->now.facts.requests++;
	return !w->failed;
}

uint64_t writer_size_of(const char *path, const char *ending)
{
	char name[4096];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", path, ending);
	return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

bool store_writer_commit(struct store_writer *w, struct err *err)
{
	assert(w->in_transaction);
	w->err = err;
	writer_flush_buckets(w);
	if (!w->failed && w->known.pending_count >= FOLD_AT)
		writer_fold(w);
	writer_key_links(w);
	if (w->failed || !db_exec(w->db, "COMMIT", err)) {
		writer_fail(w, NULL);
		store_writer_rollback(w);
		return false;
	}
	w->in_transaction = false;
	w->now.facts.file_bytes = writer_size_of(w->path, "") + writer_size_of(w->path, "-wal");
	w->committed = w->now;
	return true;
}

void store_writer_rollback(struct store_writer *w)
{
	struct err err;

	if (!w->in_transaction)
		return;
	w->in_transaction = false;
	sqlite3_exec(w->db, "ROLLBACK", NULL, NULL,
		     NULL); /* a full disk has rolled back by itself */
	spool_seen_drop_last(&w->seen, w->now.seen_added);
	w->now = w->committed;
	w->bucket_count = 0;
	w->err = &err;
	w->failed = false;
	if (!writer_load_pending(w, &err))
		w->damaged |= db_is_damage(sqlite3_errcode(w->db));
	w->err = NULL;
}

bool store_writer_damaged(const struct store_writer *w)
{
	return w->damaged;
}

struct store_writer_facts store_writer_facts(const struct store_writer *w)
{
	return w->committed.facts;
}
