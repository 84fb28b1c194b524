/* elf_internal.h - what the files of this folder share. */
#pragma once
#include "agent/elf/elf_file.h"

struct elf_file {
	struct bytes image;
	size_t mapped_bytes; /* 0: not a mapping of ours */
	int guard_slot;      /* of file_guard.h, for mappings */
	void *heap;          /* image to free() */
	uint16_t machine, type;
	uint64_t entry;
	struct bytes program_headers, section_headers;
	uint32_t segment_count, section_count;
	uint16_t program_header_bytes, section_header_bytes;
	struct bytes section_names;
	struct elf_segment loads[ELF_LOADS_MOST];
	uint32_t load_count;
	struct bytes dynamic; /* of PT_DYNAMIC, or of the section */
};
