/*
 * pclntab.h - Go's table of functions (gopclntab), as every Go binary carries it, stripped or not:
 * where functions begin, their names, and tables of pc -> value.
 *
 * Four layouts: Go 1.2 to 1.15, 1.16 and 1.17, 1.18 and 1.19, 1.20 and later. All begin with
 *   u32 magic; u8 0, 0; u8 quantum (1 on x86-64, 4 on arm64); u8 size of a pointer
 * and go on with words of a pointer's size:
 *   1.2         nfunc; then functab
 *   1.16        nfunc, nfiles;            offsets of funcname, cu, filetab, pctab, functab
 *   1.18, 1.20  nfunc, nfiles, textStart; the same five offsets
 * functab: nfunc pairs {pc, offset of the function's record}, then the pc where the last one ends.
 * From 1.18 on both are 32 bits and pc counts from the begin of the text. A function's record:
 *   1.2, 1.16   u64 entry; i32 name, args, deferreturn, pcsp, pcfile, pcln; ...
 *   1.18, 1.20  u32 entry; i32 name, args, deferreturn, pcsp, pcfile, pcln; u32 npcdata, cuOffset;
 * ... Source: Go's src/internal/abi/symtab.go, src/runtime/symtab.go and
 * src/debug/gosym/pclntab.go.
 *
 * Memory: borrows the ELF file. Threads: read-only once opened.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/elf_file.h"

enum pclntab_version { PCLNTAB_1_2 = 2, PCLNTAB_1_16 = 16, PCLNTAB_1_18 = 18, PCLNTAB_1_20 = 20 };

struct pclntab {
	enum pclntab_version version;
	struct bytes bytes; /* from the header to the end of its section or segment */
	uint64_t vaddr;     /* of the header */
	uint8_t quantum;    /* every pc is a multiple of it */
	uint32_t function_count;
	uint64_t text; /* what function addresses count from: 0 before 1.18 */
	struct bytes functab;
	struct bytes records;                      /* what functab's offsets count from */
	struct bytes names, pctab, cutab, filetab; /* 1.2: all are `bytes` */
};

enum { PCLNTAB_FUNCTIONS_MOST = 1 << 24 };

/* False: the file has none that can be read. */
bool pclntab_open(const struct elf_file *file, struct pclntab *out);
/* The header and what it points to, in `bytes` at `vaddr`; `text` is where the Go code begins, used
 * from 1.18 on when the header does not tell (0: it must). */
bool pclntab_parse(struct bytes bytes, uint64_t vaddr, uint64_t text, struct pclntab *out);

struct pclntab_function {
	uint64_t begin, end;         /* elf_vaddr */
	int32_t name;                /* offset of the name */
	uint32_t pcsp, pcfile, pcln; /* offsets in pctab; 0: no table */
	uint32_t cu;                 /* 1.16 and later: what pcfile's values count from in cutab */
	bool compiled;               /* 1.20 and later: not written in assembly */
};
/* The i-th by address. False: its record cannot be read. */
bool pclntab_function(const struct pclntab *t, uint32_t i, struct pclntab_function *out);
uint64_t pclntab_begin(const struct pclntab *t, uint32_t i); /* i == count: where the last ends */
/* The last function that begins at or before elf_vaddr, else 0: the first. */
uint32_t pclntab_find(const struct pclntab *t, uint64_t elf_vaddr);
struct str pclntab_name(const struct pclntab *t, const struct pclntab_function *f);

/*
 * Walks one pc -> value table of a function: each step is a stretch [begin, end) of one value.
 *   struct pclntab_walk w = pclntab_walk(t, f, f->pcsp);
 *   while (pclntab_next(&w)) ...
 */
struct pclntab_walk {
	struct byte_reader r;
	uint64_t begin, end; /* elf_vaddr */
	int32_t value;
	uint8_t quantum;
	bool started;
	uint64_t limit; /* the function's end */
};
struct pclntab_walk pclntab_walk(const struct pclntab *t, const struct pclntab_function *f,
				 uint32_t table);
bool pclntab_next(struct pclntab_walk *w); /* false: the end, or w->r.failed */
