/*
 * replaced.h - code of a process that other code was mapped over (dlclose(), then dlopen()), until
 * BPF knows: samples that it took meanwhile went through what lay there before.
 *
 * Such a frame names the old file; its address still tells what really ran. What BPF found beyond
 * it was found by the wrong rows. Memory: owned by the process; modules are counted references.
 * Threads: one at a time.
 */
#pragma once
#include <stdint.h>
#include "agent/process/mappings.h"

enum { REPLACED_MOST = 16 }; /* then all that the process maps is taken as replaced */

struct replaced_code {
	uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC: when it was mapped over, when BPF knew */
	uint64_t start, end;        /* [start, end) */
	uint64_t load_bias;         /* of what was there */
	struct module *module;      /* NULL: anything, anywhere */
};

struct replaced {
	uint32_t count;
	struct replaced_code list[REPLACED_MOST];
};

/* m is about to be laid over the set. True: there was other code of a file that BPF may know.
 * `*r` is made when it is needed; NULL holds nothing. */
bool replaced_note(struct replaced **r, const struct mapping_set *set, const struct mapping *m,
		   uint64_t time_ns);
void replaced_known(struct replaced *r, uint64_t now_ns); /* BPF was told */
/* Was this frame of a sample of that time in code that had been replaced? Or NULL. `module` is the
 * first of its build. */
const struct replaced_code *replaced_find(const struct replaced *r, uint64_t time_ns,
					  const struct module *module, uint64_t elf_vaddr);
void replaced_free(struct replaced **r);
