/* An ELF file as hostile as can be: headers, notes, symbols by name and by address, packed parts.
 */
#include "fuzz/fuzz.h"

#include "agent/elf/elf_symbols.h"
#include "agent/symbolize/symbol_table.h"

enum { LIMIT = 1 << 20 };

static void sections(const struct elf_file *f)
{
	for (uint32_t i = 0; i < elf_file_section_count(f) && i < 64; i++) {
		struct elf_section s;
		struct elf_data data;
		struct err err;

		if (!elf_file_section(f, i, &s))
			continue;
		if (elf_file_section_data(f, &s, LIMIT, &data, &err)) {
			if (data.owned && data.bytes.len > LIMIT)
				__builtin_trap();
			elf_data_release(&data);
		}
	}
}

static void symbols(const struct elf_file *f)
{
	const struct elf_file *files[2] = { f, f };
	struct elf_symtab tables[2];
	struct symbol_table *t;
	struct symbol_hit hit;
	struct err err;
	uint32_t n = 0;

	n += elf_file_symtab(f, &tables[n]);
	n += elf_file_dynsym(f, &tables[n]);
	t = symbol_table_new(tables, files, n, LIMIT, &err);
	if (!t)
		return;
	for (uint32_t i = 0; i < symbol_table_count(t); i++) {
		struct symbol_hit at;

		if (!symbol_table_at(t, i, &hit))
			continue;
		/* What is found at the start of a symbol begins there, or the symbol has no bytes.
		 */
		if (symbol_table_find(t, hit.start, &at) && at.start > hit.start)
			__builtin_trap();
	}
	symbol_table_free(t);
}

static void questions(const struct elf_file *f)
{
	uint64_t low = 0, end = 0, value;
	uint8_t hash[ELF_HTLHASH_BYTES];
	struct elf_debuglink link;
	struct elf_symbol symbol;
	struct bytes id;
	struct str name;

	elf_file_build_id(f);
	elf_file_go_build_id(f);
	elf_file_htlhash(f, hash);
	elf_file_is_go(f);
	elf_file_soname(f);
	elf_file_debuglink(f, &link);
	elf_file_debugaltlink(f, &name, &id);
	for (uint32_t i = 0; i < 16 && elf_file_needed(f, i, &name); i++)
		continue;
	if (elf_file_find_symbol(f, STR("main"), &symbol))
		elf_file_symbol_data(f, &symbol);
	if (!elf_file_text_span(f, &low, &end))
		return;
	for (uint64_t at = low; at < end && at - low < 4096; at += 8) {
		elf_file_at_vaddr(f, at);
		elf_file_plt_target(f, at, &name);
		elf_file_vaddr_to_offset(f, at, &value);
		elf_file_load_bias(f, at, at & ~UINT64_C(4095), true, &value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	struct elf_file *f = elf_file_from_memory(data, size, false, &err), *inner;

	if (!f)
		return 0;
	questions(f);
	sections(f);
	symbols(f);
	inner = elf_file_open_debugdata(f, LIMIT, &err);
	if (inner)
		symbols(inner);
	elf_file_free(inner);
	elf_file_free(f);
	return 0;
}
