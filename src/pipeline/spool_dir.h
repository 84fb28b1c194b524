/* spool_dir.h - the files of a spool's directory besides its segments: lock, cursor, corrupt/. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Opens the directory, made with its parents when it is not there. -1 and err. */
int spool_dir_open(const char *path, struct err *err);
/* Locks it for this process until the descriptor is closed. -1 and err: who holds it. */
int spool_dir_lock(int dir_fd, const char *path, struct err *err);

/* Which records are done: all before `next` but those listed. */
struct spool_cursor {
	uint64_t next;
	uint64_t *unfinished;
	uint32_t count;
};
/* False when there is none or it is damaged; all is then given out again. unfinished is from
 * malloc(). */
bool spool_cursor_read(int dir_fd, struct spool_cursor *out, bool *damaged);
/* Over the one that this wrote before, or as a new file when it cannot be. *fd is -1 at first, and
 * the caller closes it. */
bool spool_cursor_write(int dir_fd, int *fd, const struct spool_cursor *c,
			struct err *err) MUST_CHECK;

/* Notes whom the spool's requests are for, as a hash. True when they were for somebody else so far.
 * Best effort. */
bool spool_dir_retarget(int dir_fd, uint64_t destination);

/* Saves len bytes of fd from offset, or `bytes` when fd is -1, as corrupt/<name>. Best effort: at
 * most 100 files are kept. */
void spool_corrupt_save(int dir_fd, const char *name, int fd, uint64_t offset, uint64_t len,
			struct str bytes);
