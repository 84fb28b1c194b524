/* spool_internal.h - the state of a spool: between spool.c (opening, writing, settling) and
 * spool_read.c (giving out). */
#pragma once
#include "pipeline/spool.h"
#include "pipeline/spool_dir.h"
#include "pipeline/spool_record.h"
#include "pipeline/spool_seen.h"

struct spool_segment {
	uint64_t first_sequence; /* also its file's name */
	uint64_t end_sequence;   /* one past the last whole record */
	uint64_t bytes;
	uint64_t charged; /* to the budget */
};

struct spool_metrics {
	struct metric *appended, *done, *set_aside, *torn, *repeated, *duplicate;
	struct metric *refused_full, *refused_io;
	struct metric *bytes;
};

struct spool {
	struct spool_options o;
	char *path;
	int dir_fd, lock_fd;
	struct spool_metrics metrics;

	struct spool_segment *segments; /* oldest first; the last is written to */
	uint32_t segment_count, segment_cap;
	uint64_t bytes; /* of all */
	uint64_t pending;

	int write_fd;           /* of the last segment; -1: the next commit begins a new one */
	uint64_t next_sequence; /* of the next record to be staged, less those staged */
	bool packing;
	struct buf staged;
	uint32_t staged_count, staged_seen;
	uint64_t staged_charged;
	struct spool_seen seen; /* committed and staged */
	bool unsynced;
	uint64_t synced_ns;

	int read_fd; /* of read_segment; -1 = not open */
	uint32_t read_segment;
	uint64_t read_offset;
	uint64_t put_back_offset; /* where the record given out last begins */
	uint64_t next_given;   /* all before it have been given out, but the repeated ones not yet
				  reached */
	uint64_t repeat_below; /* cursor.next at opening: of those before it only `repeat` is given
				  out again */
	uint64_t *repeat;
	uint32_t repeat_count;
	uint64_t *unfinished; /* given out, not done */
	uint32_t unfinished_count, unfinished_cap;
	bool cursor_dirty;
	int cursor_fd; /* spool_cursor_write()'s */
};

void spool_segment_name(uint64_t first_sequence, char name[32]);
/* The bytes [offset, offset + len) of a segment into corrupt/, with a line in the log. */
void spool_save_bytes(struct spool *s, uint32_t segment, uint64_t offset, uint64_t len,
		      const char *why);
/* Must this record be given out (again)? */
bool spool_wanted(const struct spool *s, uint64_t sequence);
/* Was it one that is given out a second time, as its end was not recorded? It is from now on not
 * any more. */
bool spool_repeat_take(struct spool *s, uint64_t sequence);
/* Opens the segment for the reader. */
bool spool_reader_open(struct spool *s);
