/*
 * symbol_table.h - the function symbols of one ELF file, sorted by address, 8 bytes each.
 *
 * An entry is { u32 address - base, u2 source, u30 index }: names and sizes are read from the
 * mapped (or inflated) tables when asked. Of several symbols at one address the best one stays:
 * sized before unsized, global before weak before local, fewer leading underscores, longer, first.
 *
 * Memory: own heap, symbol_table_bytes(); the sources must outlive the table. Threads: one builds,
 * then read-only.
 */
#pragma once
#include "agent/elf/elf_symbols.h"

enum { SYMBOL_SOURCES_MOST = 4 };

struct symbol_table;

struct symbol_hit {
	struct str name; /* without its version; in the source's string table */
	uint64_t start;  /* elf_vaddr of the symbol */
	uint64_t size;   /* 0: not known; it then ends where the next one begins */
};

/*
 * From the tables of `sources` (a debug file, the file itself, its .gnu_debugdata); where two have
 * the same address and rank, the first wins. ERR_NOT_FOUND: no function symbol anywhere. ERR_LIMIT:
 * more than limit_bytes.
 */
struct symbol_table *symbol_table_new(const struct elf_symtab *sources,
				      const struct elf_file *const *files, uint32_t source_count,
				      size_t limit_bytes, struct err *err) MUST_CHECK;
void symbol_table_free(struct symbol_table *t);
uint32_t symbol_table_count(const struct symbol_table *t);
size_t symbol_table_bytes(const struct symbol_table *t);
bool symbol_table_at(const struct symbol_table *t, uint32_t i, struct symbol_hit *out);
/* The innermost symbol that holds the address. False in the gaps between sized symbols: no name is
 * better than a wrong one. */
bool symbol_table_find(const struct symbol_table *t, uint64_t elf_vaddr, struct symbol_hit *out);

/* The import that a PLT entry jumps to ("memcpy", without "@plt"), by decoding the entry and
 * finding the relocation of its slot. x86-64 (plain, IBT, MPX forms) and arm64. */
bool elf_file_plt_target(const struct elf_file *f, uint64_t elf_vaddr, struct str *name);
