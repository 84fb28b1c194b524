/*
 * writer_upkeep.c - retention by age of arrival and by size, in slices between commits.
 *
 * What arrived first goes first, whatever times its samples have: an upload of old times stays as
 * long as any other, and so does what has no times at all (writer_cut.c). Ages are looked at with
 * some slack, so that not every second has its little delete. Requests and profiles go when the
 * line of numbers below them holds no samples any more; then the dictionaries are swept (sweep.h),
 * and free pages given back.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "store/write/writer_internal.h"

enum {
	SLICE_REQUESTS = 32, /* by size */
	SLICE_PROFILES = 2048,
	SLICE_PAGES = 64,
	LOOK_NS = 1000000000, /* how often to look whether there is anything to do */
	SWEEP_SHARE = 10,     /* sweep when one in so many samples is gone */
	SLACK_SHARE = 16,     /* what is too old by less than that part of the retention waits */
	HURRY = 10,          /* times the budget, while the log cannot shrink or all is too large */
	LOG_SHARE = 3,       /* of max_size that part is the log's, while things are deleted... */
	LOG_MOST = 64 << 20, /* ...but no more than that */
	WAIT_MOST_MS = 3000, /* senders wait so long after each commit while it is too large */
};

__attribute__((format(printf, 5, 6))) static bool read_number(struct store_writer *w, int64_t none,
							      int64_t *out, struct err *err,
							      const char *format, ...)
{
	char sql[320];
	va_list ap;

	va_start(ap, format);
	vsnprintf(sql, sizeof(sql), format, ap);
	va_end(ap);
	return db_number(w->db, sql, none, out, err);
}

/* What is deleted is written to the log first, and so is what comes meanwhile: room that the file
 * itself leaves. */
static uint64_t log_room(const struct store_writer *w)
{
	uint64_t room = w->options.max_size_bytes / LOG_SHARE;

	return room < LOG_MOST ? room : LOG_MOST;
}

/* The file without its free pages, and the log, be it as large as it may get. */
static bool used_bytes(struct store_writer *w, uint64_t *out, struct err *err)
{
	uint64_t log = writer_size_of(w->path, "-wal"), room = log_room(w);
	int64_t pages, free_pages, page_bytes;

	if (!db_number(w->db, "PRAGMA page_count", 0, &pages, err) ||
	    !db_number(w->db, "PRAGMA freelist_count", 0, &free_pages, err) ||
	    !db_number(w->db, "PRAGMA page_size", 0, &page_bytes, err))
		return false;
	*out = (uint64_t)(pages - free_pages) * (uint64_t)page_bytes + (log > room ? log : room);
	return true;
}

/* ---- what is to go ---- */

/* The first number that is not older than that: of the oldest request that arrived later. */
static bool arrived_since(struct store_writer *w, uint64_t age_ns, uint64_t *out, struct err *err)
{
	uint64_t now = w->options.now_unix_ns ? w->options.now_unix_ns(w->options.now_arg)
					      : clock_realtime_ns();
	int64_t seq = 0;

	if (age_ns <= now &&
	    !read_number(w, (int64_t)w->now.next_seq, &seq, err,
			 "SELECT seq FROM request WHERE arrived>=%llu ORDER BY seq LIMIT 1",
			 (unsigned long long)(now - age_ns)))
		return false;
	*out = (uint64_t)seq;
	return true;
}

/* *below: samples below that number are to go; 0: none. */
static bool cut_by_age(struct store_writer *w, uint64_t *below, struct err *err)
{
	uint64_t slack = w->options.retention_ns / SLACK_SHARE, due, boundary;
	bool is_due;

	if (!w->options.retention_ns)
		return true;
	if (slack > STORE_BUCKET_NS)
		slack = STORE_BUCKET_NS;
	if (!arrived_since(w, w->options.retention_ns, &boundary, err) ||
	    !arrived_since(w, w->options.retention_ns + slack, &due, err))
		return false;
	if (boundary > w->keep.trim_to) {
		w->keep.trim_to = boundary;
		w->keep.trimming = true;
	}
	/* One that was begun goes on to its end. */
	if (w->keep.cutting_to > due)
		due = w->keep.cutting_to;
	w->keep.cutting_to = 0;
	if (!writer_cut_is_due(w, due, &is_due, err))
		return false;
	if (is_due)
		*below = w->keep.cutting_to = boundary;
	return true;
}

/* Up to a request's beginning; the newest one stays. */
static bool cut_by_size(struct store_writer *w, uint64_t *below, struct err *err)
{
	uint64_t used;
	int64_t kept, newest, first, next;
	bool is_due;

	w->keep.over_size = false;
	if (!w->options.max_size_bytes)
		return true;
	if (!used_bytes(w, &used, err) ||
	    !db_number(w->db, "SELECT sum(n) FROM bucket", 0, &kept, err))
		return false;
	/* Dictionaries are part of the size: they are swept before more samples go. */
	if (used <= w->options.max_size_bytes ||
	    w->keep.unswept_samples * SWEEP_SHARE >= (uint64_t)kept)
		return true;
	if (!db_number(w->db, "SELECT max(seq) FROM request", 0, &newest, err) ||
	    !db_number(w->db, "SELECT min(seq) FROM chunk", newest, &first, err) ||
	    !read_number(w, newest, &next, err,
			 "SELECT seq FROM request WHERE seq>%lld ORDER BY seq LIMIT 1 OFFSET %d",
			 (long long)first, SLICE_REQUESTS) ||
	    !writer_cut_is_due(w, (uint64_t)next, &is_due, err))
		return false;
	*below = is_due ? (uint64_t)next : 0;
	w->keep.over_size = !is_due;
	return true;
}

static bool find_cut(struct store_writer *w, uint64_t *below, struct err *err)
{
	*below = 0;
	return cut_by_age(w, below, err) && (*below || cut_by_size(w, below, err));
}

/* ---- requests ---- */

/* Everything of the line below the request that the oldest kept sample is of. */
static bool trim_line(struct store_writer *w, struct err *err)
{
	int64_t oldest, request, gone = 0;

	if (!read_number(w, (int64_t)w->keep.trim_to, &oldest, err,
			 "SELECT min(first_seq) FROM bucket"))
		return false;
	if ((uint64_t)oldest > w->keep.trim_to)
		oldest = (int64_t)w->keep.trim_to;
	if (!read_number(w, 0, &request, err, "SELECT max(seq) FROM request WHERE seq<=%llu",
			 (unsigned long long)oldest))
		return false;
	if ((uint64_t)oldest >= w->now.next_seq)
		request = (int64_t)w->now.next_seq;
	if (!db_exec_f(w->db, err,
		       "DELETE FROM profile WHERE seq IN (SELECT seq FROM profile WHERE seq<%lld "
		       "ORDER BY seq LIMIT %d)",
		       (long long)request, SLICE_PROFILES))
		return false;
	gone = sqlite3_changes64(w->db);
	if (gone == SLICE_PROFILES)
		return true;
	w->keep.trimming = false;
	if (!db_exec_f(w->db, err, "DELETE FROM request WHERE seq<%lld", (long long)request))
		return false;
	return sqlite3_changes64(w->db) == 0 ||
	       db_exec_f(w->db, err,
			 "DELETE FROM note WHERE seq<%lld; DELETE FROM coverage WHERE seq<%lld; "
			 "INSERT OR REPLACE INTO lookup_state VALUES(0, %lld)",
			 (long long)request, (long long)request, (long long)w->now.next_seq);
}

/* ---- the slices ---- */

/* What an earlier writer was about to do: it ended before it had swept or given pages back. */
bool writer_load_upkeep(struct store_writer *w, struct err *err)
{
	int64_t unswept, free_pages;

	if (!read_number(w, 0, &unswept, err, "SELECT id FROM lookup_state WHERE kind=%d",
			 STORE_STATE_UNSWEPT) ||
	    !db_number(w->db, "PRAGMA freelist_count", 0, &free_pages, err))
		return false;
	w->keep.unswept_samples = unswept > 0 ? (uint64_t)unswept : 0;
	w->keep.shrinking = free_pages > 0;
	return true;
}

static bool note_unswept(struct store_writer *w, struct err *err)
{
	unsigned long long samples = w->keep.unswept_samples + w->keep.sweeping_samples;

	return db_exec_f(w->db, err, "INSERT OR REPLACE INTO lookup_state VALUES(%d, %llu)",
			 STORE_STATE_UNSWEPT, samples);
}

static void end_sweep(struct store_writer *w)
{
	sweep_free(w->keep.sweep);
	w->keep.sweep = NULL;
}

/* Without its end, what it was to sweep is due as before. */
static void abandon_sweep(struct store_writer *w)
{
	end_sweep(w);
	w->keep.unswept_samples += w->keep.sweeping_samples;
	w->keep.sweeping_samples = 0;
}

static bool begin_sweep(struct store_writer *w, struct err *err)
{
	int64_t kept;

	if (!w->keep.unswept_samples)
		return true;
	if (!db_number(w->db, "SELECT sum(n) FROM bucket", 0, &kept, err))
		return false;
	if (w->keep.unswept_samples * SWEEP_SHARE < (uint64_t)kept)
		return true;
	w->keep.sweep = sweep_new(w->path, w->committed.last_id, err);
	if (!w->keep.sweep)
		return false;
	w->keep.sweeping_samples = w->keep.unswept_samples;
	w->keep.unswept_samples = 0;
	return true;
}

static bool sweep_on(struct store_writer *w, uint64_t deadline_ns, struct err *err)
{
	uint64_t rows = 0;
	bool done;

	if (!sweep_step(w->keep.sweep, w->db, &w->known, deadline_ns, &done, &rows, err))
		return false;
	w->now.facts.swept_rows += rows;
	if (!done)
		return true;
	end_sweep(w);
	w->keep.sweeping_samples = 0;
	w->keep.shrinking = true;
	return note_unswept(w, err);
}

static bool in_transaction(struct store_writer *w, struct err *err, bool ok)
{
	ok = ok && db_exec(w->db, "COMMIT", err);
	if (!ok) {
		w->damaged |= db_is_damage(sqlite3_errcode(w->db));
		sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
		abandon_sweep(w);
		return false;
	}
	w->committed.facts = w->now.facts;
	return true;
}

static bool give_pages_back(struct store_writer *w, struct err *err)
{
	int64_t free_pages;

	if (!db_exec_f(w->db, err, "PRAGMA incremental_vacuum(%d)", SLICE_PAGES) ||
	    !db_number(w->db, "PRAGMA freelist_count", 0, &free_pages, err))
		return false;
	if (free_pages)
		return true;
	w->keep.shrinking = false;
	sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return true;
}

/* One slice; *more when another one is due. */
static bool one_slice(struct store_writer *w, uint64_t deadline_ns, bool *more, struct err *err)
{
	uint64_t below;

	*more = true;
	if (w->keep.sweep)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err, sweep_on(w, deadline_ns, err));
	if (!find_cut(w, &below, err))
		return false;
	if (below)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err,
				      writer_cut_some(w, below, err) && note_unswept(w, err));
	if (w->keep.trimming)
		return db_exec(w->db, "BEGIN IMMEDIATE", err) &&
		       in_transaction(w, err, trim_line(w, err));
	if (!begin_sweep(w, err))
		return false;
	if (w->keep.sweep)
		return true;
	if (w->keep.shrinking)
		return give_pages_back(w, err);
	*more = false;
	return true;
}

static void look_at_size(struct store_writer *w)
{
	w->now.facts.log_bytes = writer_size_of(w->path, "-wal");
	w->now.facts.file_bytes = writer_size_of(w->path, "") + w->now.facts.log_bytes;
}

/* Is it too large, or the file so large that the log may make it so? `quarters` of
 * the log's room are left to the file. */
static bool is_over(const struct store_writer *w, uint64_t quarters)
{
	uint64_t most = w->options.max_size_bytes, file = w->now.facts.file_bytes;
	uint64_t most_alone = most - log_room(w) / 4 * (4 - quarters);

	return most && (file > most || file - w->now.facts.log_bytes > most_alone);
}

/* At once or not at all: nobody is waited for that reads it. */
static void empty_log(struct store_writer *w)
{
	sqlite3_busy_timeout(w->db, 0);
	sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_busy_timeout(w->db, WRITER_BUSY_MS);
}

/* Of a store that is too large the log is emptied as soon as the sweep has read it. */
static void keep_size(struct store_writer *w)
{
	look_at_size(w);
	if ((w->keep.sweep && sweep_reads(w->keep.sweep)) || !is_over(w, 1) ||
	    w->now.facts.log_bytes <= writer_log_bytes(w))
		return;
	empty_log(w);
	look_at_size(w);
}

/* What comes is to wait for what goes. A log that somebody reads does not shrink by that. */
static bool holds_senders(struct store_writer *w)
{
	keep_size(w);
	return is_over(w, 1) &&
	       (w->keep.sweep || w->now.facts.log_bytes <= 2 * writer_log_bytes(w));
}

/* The log grows for as long as the sweep reads its snapshot; a store that is too large grows while
 * senders are faster than what little is taken beside them. */
static bool is_urgent(const struct store_writer *w)
{
	return (w->keep.sweep && w->now.facts.log_bytes > 2 * writer_log_bytes(w)) || is_over(w, 0);
}

bool store_writer_upkeep(struct store_writer *w, uint64_t budget_ns, bool *more, struct err *err)
{
	uint64_t now = clock_monotonic_ns(), deadline = now + budget_ns, at;

	*more = false;
	look_at_size(w);
	if (is_urgent(w))
		deadline += (HURRY - 1) * budget_ns;
	if (!w->keep.sweep && !w->keep.trimming && !w->keep.shrinking &&
	    now < w->keep.next_retention_ns && !is_over(w, 0))
		return true;
	at = now;
	do {
		if (!one_slice(w, at < deadline ? deadline : at + budget_ns, more, err)) {
			w->damaged |= db_is_damage(sqlite3_errcode(w->db));
			return false;
		}
		at = clock_monotonic_ns();
	} while (*more &&
		 (at < deadline || (at < now + WAIT_MOST_MS * MILLI_NS && holds_senders(w))));
	keep_size(w);
	w->now.facts.nothing_older = w->keep.over_size;
	w->now.facts.giving_back = w->keep.shrinking;
	w->committed.facts = w->now.facts;
	w->keep.next_retention_ns = *more ? 0 : clock_monotonic_ns() + LOOK_NS;
	return true;
}
