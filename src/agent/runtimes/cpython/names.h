/*
 * names.h - the names of Python frames: function (qualified from 3.11 on), file, line.
 *
 * A frame names a code object, an address in the process. What it says is read once, when the frame
 * is first seen, and kept: until the report is made the process may have ended, or something else
 * may lie at the address. That it is still the function that was walked through is told by the
 * cookie of the frame, computed anew from what is read. Names that were used longest ago go first.
 *
 * Memory: its own, at most `memory_bytes`. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include "agent/report/namer.h"
#include "agent/runtimes/runtime.h"

struct cpython_names;

struct cpython_names_stats {
	uint64_t read, refused; /* code objects; refused: gone, replaced, or senseless */
	uint64_t evicted;
	size_t bytes;
};

/* `memory` must outlive it. */
struct cpython_names *cpython_names_new(const struct runtime_memory *memory, size_t memory_bytes);
void cpython_names_free(struct cpython_names *n); /* NULL is fine */
/* Its name() is for one thread; prepare() for another. For FRAME_CPYTHON only. */
struct namer cpython_names_namer(struct cpython_names *n);
void cpython_names_stats(struct cpython_names *n, struct cpython_names_stats *out);
