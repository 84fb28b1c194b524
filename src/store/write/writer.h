/*
 * writer.h - the one writer of an SQLite store.
 *
 *   store_writer_open()
 *   loop: store_writer_begin(), store_writer_put() for each request that waits,
 * store_writer_commit() store_writer_upkeep() now and then; store_writer_close()
 *
 * What store_writer_put() took is kept once store_writer_commit() said true: with
 * STORE_DURABLE_DISK it is then on the disk (fsync), with STORE_DURABLE_PROCESS it outlives the
 * process but not a loss of power. A request that came before within dedup_window_ns is not stored
 * again; which ones came is recorded in the same transaction.
 *
 * A second writer of the same file is refused, by whatever name it comes (store_lock.h). A damaged
 * file is renamed to PATH.damaged-<time> (with its log) and a new one begun; it is never written
 * to.
 *
 * Memory: SQLite's cache of cache_bytes, known ids of known_bytes, what one request needs. Threads:
 * one at a time.
 */
#pragma once
#include "base/hash.h"
#include "model/profiles.h"

struct store_writer;

enum store_durability { STORE_DURABLE_DISK, STORE_DURABLE_PROCESS };

struct store_writer_options {
	const char *path;
	enum store_durability durability;
	uint64_t dedup_window_ns;           /* 0 = store whatever comes */
	const char *tenant;                 /* NULL = "" */
	size_t known_bytes;                 /* 0 = 8 MiB */
	size_t cache_bytes;                 /* 0 = 8 MiB */
	uint64_t retention_ns;              /* 0 = keep for ever; counts from arrival */
	uint64_t max_size_bytes;            /* 0 = no limit; file and log */
	uint64_t (*now_unix_ns)(void *arg); /* NULL = the clock */
	void *now_arg;
};

/* `set_aside`, when not NULL, gets the name that a damaged file was given, "" when there was none.
 */
bool store_writer_open(const struct store_writer_options *options, struct store_writer **out,
		       char set_aside[512], struct err *err) MUST_CHECK;
/* May a store be kept at this path: nothing is there, or a store of ours, damaged perhaps? Nothing
 * is made or locked. Else err names the path. */
bool store_may_keep(const char *path, struct err *err) MUST_CHECK;
void store_writer_close(struct store_writer *w); /* NULL is fine; an open transaction is dropped */

struct store_request {
	const struct profiles *profiles; /* sealed; refused profiles are left out */
	struct hash128 hash;             /* the request's identity: batch_request_hash() */
	uint64_t arrived_unix_ns;
	bool always;        /* keep it though it came before: a person's upload */
	const char *tenant; /* NULL: the writer's */
};

bool store_writer_begin(struct store_writer *w, struct err *err) MUST_CHECK;
/* *duplicate: it came before and is kept already. After a failure the transaction is only good for
 * store_writer_rollback(). */
bool store_writer_put(struct store_writer *w, const struct store_request *r, bool *duplicate,
		      struct err *err) MUST_CHECK;
bool store_writer_commit(struct store_writer *w, struct err *err) MUST_CHECK;
void store_writer_rollback(struct store_writer *w);

/*
 * Keeps to retention and size, a slice of about budget_ns at a time, in transactions of its own
 * (none may be open; ten times that while a sweep keeps the log from shrinking): samples go in the
 * order of their arrival, then requests and profiles that nothing is left of, then dictionary rows
 * that nothing refers to; freed pages are given back. The newest request stays whatever its size.
 * *more: call again soon, there is more to do.
 */
bool store_writer_upkeep(struct store_writer *w, uint64_t budget_ns, bool *more,
			 struct err *err) MUST_CHECK;

/* The newest failure said that the file is damaged: close, and open again (which sets it aside). */
bool store_writer_damaged(const struct store_writer *w);

struct store_writer_facts {
	uint64_t requests, duplicates, samples, profiles; /* committed since the open */
	uint64_t rows_added;                              /* dictionary entries */
	uint64_t swept_samples, swept_rows;               /* by retention */
	uint64_t file_bytes;                              /* file and log, at the last commit */
	uint64_t log_bytes;                               /* of them the log, at the last upkeep */
	bool giving_back;                                 /* free pages, to the file system */
	bool nothing_older; /* too large, and only the newest request is left */
};
struct store_writer_facts store_writer_facts(const struct store_writer *w);
