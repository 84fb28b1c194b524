/*
 * cold_part.h - the cold part of an interpreter's main loop: compilers put what they think is
 * seldom run elsewhere, as a function of its own that has no name in stripped files.
 */
#pragma once
#include "agent/elf/elf_file.h"

/* [from, to) by elf_vaddr; 0, 0: there is none. x86-64 only. */
void runtime_cold_part(const struct elf_file *f, struct str cold_name, const uint64_t loop[2],
		       uint64_t cold[2]);
