/*
 * file_data.h - the initialised data of an ELF file as the dynamic linker would leave it at load
 * bias 0: with the relocations of pointers to the file itself applied (R_X86_64_RELATIVE and
 * R_AARCH64_RELATIVE in DT_RELA; HotSpot is linked without DT_RELR).
 * Threads: no state but the struct.
 */
#pragma once
#include "agent/runtimes/hotspot/vm_structs.h"

struct file_data {
	const struct elf_file *file;
	struct bytes relocations; /* of relative ones, the table's first */
	uint32_t relative;        /* the type's number */
	bool sorted;              /* by address, as linkers do */
};

/* False: the file has no such table. */
bool file_data_open(const struct elf_file *f, struct file_data *out);
/* Addresses are elf_vaddr. Borrows d. */
struct hotspot_memory file_data_memory(struct file_data *d);
