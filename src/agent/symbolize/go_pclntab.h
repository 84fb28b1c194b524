/*
 * go_pclntab.h - names, files, lines and inlined frames of Go code, from the table that every Go
 * binary carries, stripped or not.
 *
 *   header   u32 magic, u8 0, 0, u8 pc quantum, u8 pointer size, then words of pointer size:
 *     go1.2  (fffffffb) function count, then the function table itself; all offsets from the start
 *     go1.16 (fffffffa) functions, files, offsets: names, cu table, files, pc tables, functions
 *     go1.18 (fffffff0) as 1.16 with the text start behind the file count
 *     go1.20 (fffffff1) as 1.18; inline trees in 16-byte entries, functions have a start line
 *   function table: sorted { pc, offset of the function }, closed by the end pc: words of pointer
 *   size with absolute pcs, from 1.18 on u32 with pcs relative to the text start.
 *
 * The text start is the module data's (1.26 writes none into the header). Source: Go's
 * src/runtime/symtab.go, symtabinl.go, and cmd/link/internal/ld/pcln.go of each version.
 *
 * Memory: none of its own; strings lie in the file. Threads: read-only once opened.
 */
#pragma once
#include "agent/elf/elf_file.h"

enum go_pclntab_version { GO_PCLNTAB_1_2, GO_PCLNTAB_1_16, GO_PCLNTAB_1_18, GO_PCLNTAB_1_20 };

struct go_pclntab {
	const struct elf_file *file;
	enum go_pclntab_version version;
	struct bytes table; /* from the header to the end of the section or segment */
	uint64_t vaddr;     /* of the header */
	uint8_t quantum;
	uint32_t function_count;
	struct bytes names, cu_table, files, pc_tables, functions;
	uint64_t text_start;  /* 1.18 and later: what function addresses are relative to */
	uint64_t module_data; /* elf_vaddr of runtime.firstmoduledata; 0: not found */
	uint64_t funcdata; /* 1.18 and later: what funcdata offsets are relative to; 0: unknown */
};

enum { GO_FRAMES_MOST = 64 };

struct go_frame {
	struct str function, file; /* file: "" where the table has none */
	uint32_t line, start_line; /* 0: not known */
};

/* ERR_NOT_FOUND: no table. ERR_UNSUPPORTED: of 32-bit pointers. ERR_INVALID: it does not hold
 * together. */
bool go_pclntab_open(const struct elf_file *f, struct go_pclntab *out, struct err *err) MUST_CHECK;
/* [*start, *limit) of the i-th function. False past the last. */
bool go_pclntab_function(const struct go_pclntab *p, uint32_t i, uint64_t *start, uint64_t *limit,
			 struct str *name);
/* Between the first function and the end of the last. */
bool go_pclntab_covers(const struct go_pclntab *p, uint64_t elf_vaddr);
/* Frames at an address, innermost inlined function first; 0: no Go function is there. */
uint32_t go_pclntab_frames(const struct go_pclntab *p, uint64_t elf_vaddr, struct go_frame *out,
			   uint32_t cap);
