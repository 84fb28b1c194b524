/*
 * module_symbols.h - everything that names addresses of one executable: its files, opened when
 * first asked, and the tables made from them, made when needed and dropped when memory is short.
 *
 * Memory: own heap; module_bytes() is what the tables take. Threads: the symbolizer's.
 */
#pragma once
#include "agent/symbolize/symbolizer.h"
#include "agent/symbolize/work_budget.h"
#include "base/arena.h"

struct module_symbols;

/* What a module needs from its owner, for the length of a call. */
struct module_context {
	const struct symbol_access *access;
	const struct symbolizer_options *options;
	struct symbolizer_stats *stats;
	struct work_budget *budget;
	struct arena *arena; /* of names in the answer */
	struct buf *scratch;
	int cache_folder;              /* -1: none */
	struct debuginfod *debuginfod; /* NULL: none */
	uint64_t *debuginfod_wait_ns;  /* what is left of it */
	uint32_t pid;                  /* a process that maps it; 0: none is known */
};

enum module_answer {
	MODULE_NAMED,
	MODULE_PARTLY,  /* a name, but more will be known later */
	MODULE_UNNAMED, /* the file is known, the address has no name in it */
	MODULE_LATER,   /* nothing yet: the budget is spent */
};

struct module_symbols *module_symbols_new(const struct executable *e);
void module_symbols_free(struct module_symbols *m);
/* Drops what can be made again; the rest is small. */
void module_symbols_trim(struct module_symbols *m);
/* Pages of its files no longer count as ours (elf_file_let_go). */
void module_symbols_let_go(const struct module_symbols *m);
size_t module_symbols_bytes(const struct module_symbols *m);
uint64_t module_symbols_id(const struct module_symbols *m);

/* Innermost inlined function first; up to cap lines. */
enum module_answer module_symbols_name(struct module_symbols *m, const struct module_context *c,
				       uint64_t elf_vaddr, struct name_line *lines, uint32_t cap,
				       uint32_t *count);
