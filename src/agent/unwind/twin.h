/*
 * twin.h - the BPF unwinder as plain C: the same source (bpf/unwind.h) over any memory.
 *
 * Used to go on with walks that BPF had to stop, over the copied stack; and by tests, over stopped
 * and recorded processes. Memory: the twin is 27 KiB, the caller's. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/unwind/store.h"
#include "bpf/records.h"

/* The target's memory. False: not present. */
struct twin_memory {
	bool (*read)(void *ctx, uint64_t address, void *to, uint32_t bytes);
	void *ctx;
};

struct twin;
struct twin *twin_new(void);
void twin_free(struct twin *t);

/* Starts at `cursor` with no frames found yet. The mappings are a run in store->mappings, or, when
 * `set` is given, that set, written or not. */
void twin_start(struct twin *t, struct unwind_store *store, const struct twin_memory *memory,
		const struct unwind_cursor *cursor, const struct mapping_set *set);
/* Walks until it ends; the same may be called again after the cause was mended (a page built). */
enum unwind_end twin_walk(struct twin *t);
/* The mappings are others now: another set, or (without a set) a run of store->mappings. */
void twin_set(struct twin *t, const struct mapping_set *set);
void twin_run(struct twin *t, uint32_t first_mapping, uint32_t count);
/* After twin_start(): walks the frames of language runtimes too (bits 1 << enum unwind_step_kind),
 * with these slots of the store. Only where all that they need can be read. */
void twin_runtimes(struct twin *t, uint32_t steps, const uint16_t *runtimes);
/* After twin_runtimes(): frames of these are there, but what they were cannot be told any more. A
 * walk that meets them goes on natively, and its good end is UNWIND_END_RUNTIME. */
void twin_lose(struct twin *t, uint32_t steps);
/* After twin_runtimes(): the frames of CPython are these, as BPF read them (what stands behind
 * FRAME_TAG_AHEAD); they stay the caller's until the walk is over. */
void twin_ahead(struct twin *t, const uint64_t *items, uint32_t count);
const struct unwind_cursor *twin_cursor(const struct twin *t);
/* The frames so far, as in a record. */
const uint64_t *twin_words(const struct twin *t, uint32_t *count);
