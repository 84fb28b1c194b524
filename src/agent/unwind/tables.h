/*
 * tables.h - the compact unwind tables of one executable, built page by page from what its file
 * says (bpf/unwind_rows.h draws the format).
 *
 * Sources, the first that knows an address wins: gopclntab, .eh_frame (by its section, or by
 * PT_GNU_EH_FRAME when section headers are stripped), .debug_frame, .debug_frame of the separate
 * debug file. Between them: linkage tables, the entry point and the return from signal handlers are
 * recognised by their bytes; the rest has no rule (UNWIND_NONE: frame pointer, if plausible).
 *
 * Nothing of the file is copied: a page is made straight from the mapped sections into the caller's
 * rows, so any page can be built at any time, in any order, alone. A usual page takes 20 to 100 us.
 *
 * Memory: the ELF files are borrowed and must outlive the tables. Own memory: 1 KiB, plus 8 bytes
 * per FDE where there is no usable .eh_frame_hdr, plus inflated debug sections. Threads: one at a
 * time for one executable and its rules.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/elf_file.h"
#include "agent/unwind/counts.h"
#include "agent/unwind/rules.h"

struct unwind_tables;

/* `debug` is the separate debug file, or NULL. ERR_UNSUPPORTED: a machine without unwinder;
 * ERR_NOT_FOUND: no executable segment. Code without any unwind information is no error. */
struct unwind_tables *unwind_tables_open(const struct elf_file *file, const struct elf_file *debug,
					 struct err *err) MUST_CHECK;
void unwind_tables_free(struct unwind_tables *t);

/* The pages that hold executable code: [first, first + count), by elf_vaddr >> UNWIND_PAGE_SHIFT.
 */
void unwind_tables_pages(const struct unwind_tables *t, uint64_t *first, uint64_t *count);

enum unwind_build {
	UNWIND_BUILD_ROWS,    /* count rows were written, at least one */
	UNWIND_BUILD_EMPTY,   /* nothing is known of any address of the page */
	UNWIND_BUILD_NO_ROOM, /* cap rows are too few: try again with more; nothing is counted */
};
/* Any page number is fine. No page has more than UNWIND_BLOCK_ROWS rows. */
enum unwind_build unwind_tables_build_page(struct unwind_tables *t, uint64_t page,
					   struct unwind_rules *rules, struct unwind_row *rows,
					   uint32_t cap, uint32_t *count);

/* What was met so far. A page built twice counts twice. */
const struct unwind_counts *unwind_tables_counts(const struct unwind_tables *t);
/* The dynamic linker: its rules tell where rbx is (UNWIND_CFA_RBX, EXECUTABLE_TRACKS_RBX). */
bool unwind_tables_tracks_rbx(const struct unwind_tables *t);
bool unwind_tables_is_go(const struct unwind_tables *t);
