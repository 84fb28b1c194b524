/*
 * seam_wire.h - the seam over a socketpair: one request, one reply, each a packet (SOCK_SEQPACKET).
 *
 *   request  struct seam_request, then `tail` bytes: a path, or struct seam_options and its CPUs
 *   reply    struct seam_reply, then `tail` bytes: a path, pids, memory, or struct seam_maps;
 *            descriptors beside it (SCM_RIGHTS)
 *
 * Both ends are the same program, but the sampler takes nothing of a request for granted: the
 * worker may have been taken over. The socket's end is the connection's end, and the sampler's.
 */
#pragma once
#include "agent/seam.h"

enum seam_op {
	SEAM_ATTACH = 1,
	SEAM_SIDE_BAND,
	SEAM_ENABLE,
	SEAM_OPEN_PROC,
	SEAM_EXE_PATH,
	SEAM_LIST,
	SEAM_OPEN_MAPPED,
	SEAM_OPEN_IN_ROOT,
	SEAM_READ_MEMORY,
	SEAM_OPEN_KALLSYMS,
	SEAM_ADD_BLOCKS,
	SEAM_DROP_BLOCKS,
	SEAM_RUN_TIME,
	SEAM_LOAD_WALKER,
};

enum {
	SEAM_PATH_MOST = 4096,       /* with its NUL */
	SEAM_TAIL_MOST = 128 * 1024, /* of a request or a reply */
	SEAM_PIDS_MOST = SEAM_TAIL_MOST / 4,
	SEAM_FDS_MOST = 12,
};

struct seam_request {
	uint32_t op; /* enum seam_op */
	uint32_t pid;
	uint32_t number; /* ENABLE: on; OPEN_PROC: file; LIST: how many to skip; *_BLOCKS,
			    LOAD_WALKER: index;
			    OPEN_MAPPED: whether there is a path */
	uint32_t tail;
	uint64_t start, end; /* OPEN_MAPPED; READ_MEMORY: start is the address */
	uint64_t device, inode;
	uint64_t bytes; /* LOAD_WALKER: steps; READ_MEMORY, LIST (pids), EXE_PATH: most that is
			   wanted */
};

struct seam_reply {
	uint32_t ok;
	uint32_t err_kind;
	uint32_t fd_count;
	uint32_t tail;
	uint64_t numbers[2]; /* SIDE_BAND: cpu; LIST: count; RUN_TIME: ns, runs */
	char msg[sizeof(((struct err *)0)->msg)];
};

/* The sampler: answers until the other end is closed. `local` does the work; `explain` (may be
 * NULL) adds to why attaching failed. False when the connection ended otherwise than by being
 * closed. */
bool seam_serve(int fd, struct seam *local, void (*explain)(struct err *err),
		struct err *err) MUST_CHECK;
/* The worker: a seam whose calls go through `fd`, which it takes over. Any thread may call it. */
struct seam *seam_remote_new(int fd);
/* Readable (and hung up) when the sampler is gone; owned by the seam. -1: not a remote one. */
int seam_remote_fd(const struct seam *s);

/* A packet of two parts with descriptors; false: the other end is gone (ERR_UNAVAILABLE). */
bool seam_packet_send(int fd, const void *head, size_t head_bytes, const void *tail,
		      size_t tail_bytes, const int *fds, uint32_t fd_count,
		      struct err *err) MUST_CHECK;
/* *got: bytes of both parts, 0 at the end of the connection. Descriptors that do not fit are
 * closed. */
bool seam_packet_receive(int fd, void *head, size_t head_bytes, void *tail, size_t tail_room,
			 size_t *got, int *fds, uint32_t fd_room, uint32_t *fd_count,
			 struct err *err) MUST_CHECK;
