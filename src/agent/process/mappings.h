/*
 * mappings.h - the executable mappings of one process image, sorted by address.
 *
 * A set is shared by a process and the children it forks until one of them changes it (copy on
 * write): mapping_set_add() gives the set to go on with. Laying a mapping over others cuts them, as
 * mmap(MAP_FIXED) does. Files are named by an opaque module that the set keeps a reference to.
 *
 * Memory: counted references. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { MAPPINGS_MOST = 16384 }; /* of one process; then anonymous ones are refused, or give way */

struct module; /* modules.h */

struct mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t file_offset;
	struct module *module; /* NULL: anonymous code */
	uint32_t step;         /* enum unwind_step_kind: whose code, where it is a runtime's */
	uint32_t shared;       /* anonymous, but shared with children: names_shared_memory() */
};

struct mapping_set {
	uint32_t refs;
	uint32_t count, cap;
	uint32_t run_first,
		run_count; /* where it lies in BPF's array of mappings; count 0: nowhere */
	bool stale;        /* changed since it was written there */
	struct mapping_set *prev, *next; /* all sets: modules that get loaded visit them */
	struct mapping *list;
};

/* All sets there are, and what becomes of a set's run in BPF when it goes. */
struct mapping_sets {
	struct mapping_set *first;
	void (*run_free)(void *ctx, uint32_t first, uint32_t count);
	void *ctx;
	uint64_t refused; /* mappings past MAPPINGS_MOST, or what gave way to them */
};

struct mapping_set *mapping_set_new(struct mapping_sets *all);
struct mapping_set *mapping_set_ref(struct mapping_set *s);
void mapping_set_unref(struct mapping_sets *all, struct mapping_set *s); /* NULL is fine */
/* Lays m over the set. Consumes the caller's reference of `s` and gives one of the result, which is
 * `s` itself unless others share it. */
struct mapping_set *mapping_set_add(struct mapping_sets *all, struct mapping_set *s,
				    const struct mapping *m);
/* The mapping that holds pc, or NULL. */
const struct mapping *mapping_set_find(const struct mapping_set *s, uint64_t pc);
