/*
 * frame_cache.h - the names of frames seen before, so that each is asked for once
 * (-frame-cache-size).
 *
 * Keyed by what a frame is, not by where its executable's struct lies: the same file mapped again
 * finds its names again. The least recently used go first. Memory: one block a name. Threads: one.
 */
#pragma once
#include "agent/report/namer.h"

enum { FRAME_CACHE_LEAST = 1024, FRAME_CACHE_MOST = 1048576, FRAME_CACHE_USUAL = 16384 };

struct frame_cache;

struct frame_cache *frame_cache_new(uint32_t entries);
void frame_cache_free(struct frame_cache *c); /* NULL is fine */
/* NULL: not there. The name holds until the next put. `process` is the one whose address it is;
 * ignored for kinds whose addresses mean the same everywhere. */
const struct frame_name *frame_cache_find(struct frame_cache *c, const struct trace_frame *frame,
					  const struct process_info *process);
/* Keeps a copy, in place of an older one. */
void frame_cache_put(struct frame_cache *c, const struct trace_frame *frame,
		     const struct process_info *process, const struct frame_name *name);
uint32_t frame_cache_count(const struct frame_cache *c);
