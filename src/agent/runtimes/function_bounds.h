/*
 * function_bounds.h - where functions begin and end, by a file's unwind information: stripped files
 * have it as well. Memory: borrows from the file. Threads: one at a time.
 */
#pragma once
#include "agent/elf/elf_file.h"
#include "agent/unwind/cfi_read.h"

struct function_bounds {
	struct cfi_section section;
	struct cfi_index index;
	struct cfi_cie cie;
	struct unwind_counts counts;
};

/* False: the file has no table of its functions. */
bool function_bounds_open(struct function_bounds *b, const struct elf_file *f) MUST_CHECK;
void function_bounds_release(struct function_bounds *b);
/* [from, to) of the function around an address. */
bool function_bounds_find(struct function_bounds *b, uint64_t elf_vaddr, uint64_t bounds[2]);
