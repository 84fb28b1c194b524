/*
 * elf_symbols.h - the symbol tables of an ELF file: one by name, or all of them.
 *
 * .dynsym is found from the dynamic segment (also without section headers) and searched through its
 * GNU or System V hash; .symtab is scanned. .gnu_debugdata is a small ELF file of its own, xz
 * packed, with the function symbols that a distribution left out: elf_file_open_debugdata().
 * Memory, threads: as elf_file.h; views borrow from the file.
 */
#pragma once
#include "agent/elf/elf_file.h"

struct elf_symbol {
	struct str name; /* as it stands in the table; elf_symbol_base_name() cuts "@@GLIBC_2.34" */
	uint64_t value, size;
	uint8_t type, binding; /* STT_*, STB_* */
	uint16_t section;      /* SHN_UNDEF: lives elsewhere */
};

struct elf_symtab {
	struct bytes symbols, strings;
	uint32_t count;
};

/* False, and an empty table, where the file has none. */
bool elf_file_symtab(const struct elf_file *f, struct elf_symtab *out);
bool elf_file_dynsym(const struct elf_file *f, struct elf_symtab *out);
/* False past the end. A name outside the string table is empty. */
bool elf_symtab_get(const struct elf_symtab *t, uint32_t index, struct elf_symbol *out);
struct str elf_symbol_base_name(struct str name);

/* As below, in .dynsym alone: a look-up in its hash table, quick in files of any size. */
bool elf_file_find_exported(const struct elf_file *f, struct str name, struct elf_symbol *out);
/* A defined symbol by its base name: .dynsym, then .symtab. Not .gnu_debugdata: open that and ask
 * it. */
bool elf_file_find_symbol(const struct elf_file *f, struct str name, struct elf_symbol *out);
/* Contents of a data symbol in the file, at most its size. */
struct bytes elf_file_symbol_data(const struct elf_file *f, const struct elf_symbol *symbol);

/* ERR_NOT_FOUND without the section; ERR_LIMIT when it inflates past limit_bytes. The result owns
 * its memory and does not need `f`. */
struct elf_file *elf_file_open_debugdata(const struct elf_file *f, size_t limit_bytes,
					 struct err *err) MUST_CHECK;
