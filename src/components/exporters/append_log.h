/*
 * append_log.h - a file of records that only grows, and rotates by size.
 *
 * The file is <dir>/<name><ending>; past max_bytes it is renamed to
 * <name>-2026-11-21T07-45-00.123<ending> (UTC) and a new one begun; of the renamed ones the newest
 * max_backups are kept. A request is one write(2) for as long as its bytes come in one piece. What
 * a failed write left is cut off again, and so is, at open, what a killed process or a lost machine
 * left behind the last whole record. One process has the file at a time (flock). Whoever removes
 * or renames the file, or its directory, gets a new one with the next request; whoever empties it
 * (copytruncate) has it go on from there.
 *
 * Records end with a newline (APPEND_LINES) or begin with their length as 4 bytes, big-endian
 * (APPEND_PREFIXED: the form of the Collector's file exporter).
 * Memory: none but the struct. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

enum append_form { APPEND_LINES, APPEND_PREFIXED };

struct append_log {
	const char *dir, *name, *ending; /* borrowed */
	enum append_form form;
	bool sync;
	uint64_t max_bytes;   /* 0 = never rotate */
	uint32_t max_backups; /* 0 = keep all */

	int fd;
	uint64_t size;         /* of whole records */
	uint64_t request_size; /* size at append_log_begin() */
	bool broken; /* a failed write could not be taken back: the file is opened anew first */
	uint64_t torn_bytes;    /* cut off at opening, in total */
	uint64_t deleted_files; /* by rotation, in total */
	uint64_t taken_away;    /* by others, the file or its directory: begun anew, in total */
};

/* dir is made when it is not there. ERR_BUSY: another process has the file. */
bool append_log_open(struct append_log *l, struct err *err) MUST_CHECK;
void append_log_close(struct append_log *l);

/* A request of about `bytes` begins: rotates when the file would pass its size. */
bool append_log_begin(struct append_log *l, uint64_t bytes, struct err *err) MUST_CHECK;
/* Whole records, or a part of the request's; several calls make one request. */
bool append_log_write(struct append_log *l, struct str bytes, struct err *err) MUST_CHECK;
/* The request is complete: kept against the death of the process, with `sync` against that of the
 * machine. */
bool append_log_commit(struct append_log *l, struct err *err) MUST_CHECK;
/* Cuts off what was written since append_log_begin(). */
void append_log_abort(struct append_log *l);
