/*
 * fd_out.h - writes the text of one request to a file descriptor that others gave us: a pipe, a
 * terminal, a redirect.
 *
 * Partial writes are continued, a full pipe is waited for until fd_out_stop(), and what a failed
 * request left at the end of a regular file is taken back, so that a full disk shows no half
 * request. The descriptor's flags are never changed: it is shared with the shell. A pipe or a
 * terminal is opened a second time instead, without blocking; where that is not allowed a pipe is
 * written in pieces that fit.
 *
 * Memory: one descriptor, until fd_out_release(). Threads: one at a time, but fd_out_stop() from
 * any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/str.h"

struct fd_out {
	int fd;         /* borrowed */
	int own_fd;     /* the same pipe or terminal, O_NONBLOCK; or -1 */
	bool in_pieces; /* a pipe that we may not open again */
	bool is_socket;
	bool can_take_back;               /* a regular file, and we are at its end */
	off_t start;                      /* where the request's text began */
	atomic_uint_fast64_t deadline_ns; /* monotonic; when a full pipe is given up. 0 = never */
};

void fd_out_init(struct fd_out *o, int fd);
void fd_out_release(struct fd_out *o); /* one of zeros, never begun, is fine */
/* Notes where a request begins. */
void fd_out_begin(struct fd_out *o);
/*
 * ERR_CANCELLED: the reader closed its end (EPIPE) and nothing can be written any more. ERR_IO:
 * disk full and the like. ERR_UNAVAILABLE: gave up at the deadline.
 */
bool fd_out_write(struct fd_out *o, struct str text, struct err *err) MUST_CHECK;
/* Takes back what was written since fd_out_begin(), where the file allows that; true when nothing
 * of it is left. */
bool fd_out_take_back(struct fd_out *o);
/* From the deadline on (monotonic ns) no room is waited for. */
void fd_out_stop(struct fd_out *o, uint64_t deadline_ns);
