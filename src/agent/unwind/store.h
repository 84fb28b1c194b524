/*
 * store.h - the memory that user space shares with the BPF programs: mappings, executables, page
 * directories, rows and rules (bpf/records.h, bpf/unwind_rows.h), and who has which part of it.
 *
 * What a program may read is written whole before the word that leads to it; what is taken away is
 * reused after a delay. Rows lie in groups of blocks that are made through the seam as they are
 * needed, up to a limit. Everything here may also be plain memory (unwind_store_open_local()), for
 * the twin alone: tests, and tools without privileges.
 *
 * Memory: the mappings of the maps. Threads: one at a time.
 */
#pragma once
#include "agent/process/mappings.h"
#include "agent/seam.h"
#include "agent/unwind/extents.h"
#include "agent/unwind/rules.h"
#include "bpf/records.h"
#include "bpf/unwind_rows.h"

enum { STORE_BLOCKS_MOST = UNWIND_GROUPS_MAX * UNWIND_GROUP_BLOCKS };
#define STORE_GRACE_NS UINT64_C(1000000000)

struct unwind_store {
	struct seam *seam;
	int processes_fd; /* -1: plain memory */
	bool local;
	struct unwind_mapping *mappings;
	struct unwind_executable *executables;
	struct unwind_page *pages;
	struct unwind_rules rules;
	struct unwind_runtime *runtimes;
	uint32_t *runtime_users;          /* by slot */
	struct sample_counters *counters; /* by CPU: only the versions are ours */
	uint32_t cpu_count, usual_next;
	uint32_t mapping_count, executable_count, page_count, rule_count, runtime_count;
	struct extents mapping_runs, executable_ids, page_runs, runtime_slots;
	struct unwind_row *blocks[STORE_BLOCKS_MOST]; /* NULL: not made yet */
	struct extents rows[STORE_BLOCKS_MOST];
	uint32_t block_count, block_limit;
	bool room_refused; /* so that not every round asks */
	uint64_t now_ns;   /* of the current round: for delays */
	uint64_t mappings_refused, rows_refused, runtimes_refused;
};

/* Maps what `maps` names; its descriptors stay the caller's. memory_bytes limits rows. */
bool unwind_store_open(struct unwind_store *s, struct seam *seam, const struct seam_maps *maps,
		       uint64_t memory_bytes, struct err *err) MUST_CHECK;
bool unwind_store_open_local(struct unwind_store *s, uint64_t memory_bytes,
			     struct err *err) MUST_CHECK;
void unwind_store_close(struct unwind_store *s);
/* Once per round: gives back what was taken away long enough ago. */
void unwind_store_tick(struct unwind_store *s, uint64_t now_ns);

/* Once per round, when samples can wait: where little room for rows is left, makes more before it
 * is needed (the kernel takes 15 to 90 ms for it). */
void unwind_store_make_room(struct unwind_store *s);

/* An id for an executable, never 0; false: all are taken. Retired ids rest longer than records do.
 */
bool unwind_store_take_executable(struct unwind_store *s, uint32_t *id);
void unwind_store_drop_executable(struct unwind_store *s, uint32_t id);
/* Says where an executable's pages are: all absent at first. count 0: it has no table. */
bool unwind_store_set_pages(struct unwind_store *s, uint32_t id, uint64_t first_page,
			    uint32_t count);
/* After set_pages: its rules tell where rbx is. */
void unwind_store_tracks_rbx(struct unwind_store *s, uint32_t id);
/* Where the runtime `step` has its main loop: elf_vaddr [from, to), twice; 0, 0: none. */
void unwind_store_set_interpreter(struct unwind_store *s, uint32_t id, uint32_t step,
				  const uint64_t range[2], const uint64_t cold[2]);
/* A slot with this content, shared with whoever needs the same; 0: all are taken. */
uint16_t unwind_store_take_runtime(struct unwind_store *s, const struct unwind_runtime *r);
void unwind_store_ref_runtime(struct unwind_store *s, uint16_t slot);   /* 0 is fine */
void unwind_store_unref_runtime(struct unwind_store *s, uint16_t slot); /* 0 is fine */
/* One that walks of processes that are not known yet may try. Takes the caller's reference; 0 is
 * fine. */
void unwind_store_make_usual(struct unwind_store *s, uint16_t slot);
/* The page's entry, or NULL where the executable has none. */
struct unwind_page *unwind_store_page(struct unwind_store *s, uint32_t id, uint64_t page);
/* Copies rows in and publishes them. False: no memory is left; the page stays as it was. */
bool unwind_store_put_rows(struct unwind_store *s, struct unwind_page *page,
			   const struct unwind_row *rows, uint32_t count,
			   struct err *err) MUST_CHECK;
void unwind_store_put_empty(struct unwind_page *page);
/* Takes all rows of an executable away; its pages are absent again. Returns how many it had. */
uint32_t unwind_store_evict(struct unwind_store *s, uint32_t id);

/* Writes a set where BPF can see it, if it is not there already. False: no room. */
bool unwind_store_put_mappings(struct unwind_store *s, struct mapping_set *set);
void unwind_store_retire_run(void *store, uint32_t first,
			     uint32_t count); /* mapping_sets.run_free */
bool unwind_store_put_process(struct unwind_store *s, uint32_t pid, const struct unwind_process *p,
			      struct err *err) MUST_CHECK;
/* Which walker takes samples of processes that are not described yet (enum unwind_walker). */
void unwind_store_set_unknown_walker(struct unwind_store *s, uint32_t walker);
void unwind_store_drop_process(struct unwind_store *s, uint32_t pid);
