/*
 * frame_names.h - names of a runtime's frames, read from the memory of their processes and kept.
 *
 * A frame is its two words, in one image of a process. Names are read when the frame is first seen
 * (prepare), since they may be gone when the report is made; those that were used longest ago go
 * first.
 *
 * Memory: its own, at most `memory_bytes`. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include "agent/report/namer.h"
#include "agent/runtimes/runtime.h"
#include "base/buf.h"

/* What a runtime reads of a frame. The buffers are empty and limited. */
enum { FRAME_CALLERS_MOST = 31 };
struct frame_text {
	struct buf function, file;
	uint32_t line, column, start_line; /* 0: not known */
	struct frame_text *caller;         /* into which the function was inlined; NULL: none */
};
/* Gives a frame without one its caller, an empty one; NULL: it is FRAME_CALLERS_MOST deep. */
struct frame_text *frame_text_add_caller(struct frame_text *innermost);

struct frame_names;
struct frame_names_ops {
	const char *fallback; /* the name of a frame that could not be read */
	/* False: it is gone, or was replaced. Any thread. */
	bool (*read)(const struct runtime_memory *m, const struct trace_frame *frame, uint32_t pid,
		     struct frame_text *out);
};

struct frame_names_stats {
	uint64_t read, refused, evicted;
	size_t bytes;
};

/* `ops` and `memory` must outlive it. */
struct frame_names *frame_names_new(const struct frame_names_ops *ops,
				    const struct runtime_memory *memory, size_t memory_bytes);
void frame_names_free(struct frame_names *n); /* NULL is fine */
/* Its name() is for one thread; prepare() for another. */
struct namer frame_names_namer(struct frame_names *n);
void frame_names_stats(struct frame_names *n, struct frame_names_stats *out);
