/*
 * dwarf.h - source lines and inlined functions of an address, from DWARF 2 to 5.
 *
 * Work is done by need and can stop anywhere in between: first the units' address ranges, once for
 * a file; then, for the unit an address lies in, the list of its functions (kept for the units used
 * last); then one function's tree and one line program. What does not fit the memory limit is
 * refused, not tried again. Split units (.dwo) have lines but no inlined functions; type units have
 * neither. Names and paths point into the file's sections. Sources: DWARF 5 (sections 2.17, 3.3.8,
 * 6.2, 7.5) and DWARF 4; GNU extensions of dwz.
 *
 * Memory: own heap within the limit, see dwarf_bytes(). Threads: one.
 */
#pragma once
#include "agent/elf/elf_file.h"
#include "agent/symbolize/work_budget.h"

struct buf;
struct dwarf;

enum { DWARF_FRAMES_MOST = 64 };

/* A path in its three parts, each of which may be empty or absolute. */
struct dwarf_path {
	struct str unit_directory, directory, file;
};

struct dwarf_frame {
	struct str linkage_name, name; /* either may be empty */
	struct dwarf_path path;
	uint32_t line, column, start_line; /* 0: not known */
};

enum dwarf_answer {
	DWARF_FOUND,
	DWARF_NONE,  /* nothing is known of this address */
	DWARF_LATER, /* the budget is spent: ask again */
};

/* Where packed sections of more than this are inflated to disk, if there is a folder for it. */
#define DWARF_SPILL_FROM (UINT64_C(64) << 10)
#define DWARF_SPILL_MOST (UINT64_C(1) << 30) /* a section */

/* `alt` is the file that .gnu_debugaltlink names, or NULL; it must outlive this one. ERR_NOT_FOUND:
 * no debug information. ERR_LIMIT: packed sections larger than the limit.
 * spill_folder -1: none. */
struct dwarf *dwarf_open(const struct elf_file *f, struct dwarf *alt, int spill_folder,
			 size_t limit_bytes, struct err *err) MUST_CHECK;
void dwarf_free(struct dwarf *d);
size_t dwarf_bytes(const struct dwarf *d);
/* As elf_file_let_go(), of sections that were spilled; NULL is fine. */
void dwarf_let_go(const struct dwarf *d);

/* Innermost inlined function first; the last is the function itself. Without a function (assembler)
 * one frame has the line only. */
enum dwarf_answer dwarf_find(struct dwarf *d, uint64_t elf_vaddr, struct work_budget *budget,
			     struct dwarf_frame *out, uint32_t cap, uint32_t *count);
void dwarf_path_append(struct buf *out, const struct dwarf_path *path);
