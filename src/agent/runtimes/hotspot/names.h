/*
 * names.h - the names of Java frames: interpreted and compiled methods, with what was
 * inlined into them, and the machine's stubs.
 *
 * A frame names a Method, an nmethod or a stub by its address in the process. What it says is read
 * when the frame is first seen, and kept: until the report is made the process may have ended. The
 * cookie of the frame tells that code was freed, or a class unloaded, and its memory used again:
 * then the frame is called "[unloaded]", never by another method's name.
 *
 * Memory: its own, about `memory_bytes` at most. Threads: any.
 */
#pragma once
#include "agent/report/namer.h"
#include "agent/runtimes/runtime.h"

struct hotspot_names;

struct hotspot_names_stats {
	uint64_t named, unloaded, unreadable; /* frames */
	size_t bytes;
};

/* `memory` must outlive it. */
struct hotspot_names *hotspot_names_new(const struct runtime_memory *memory, size_t memory_bytes);
void hotspot_names_free(struct hotspot_names *n); /* NULL is fine */
/* Its name() is for one thread; prepare() for another. For FRAME_HOTSPOT only. */
struct namer hotspot_names_namer(struct hotspot_names *n);
void hotspot_names_stats(struct hotspot_names *n, struct hotspot_names_stats *out);
