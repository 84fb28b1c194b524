#include "agent/runtimes/v8/v8.h"

#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/process/executable.h"
#include "agent/runtimes/function_bounds.h"

enum { BUILTINS_LEAST = 512 << 10 };

const struct v8_facts *v8_facts(const struct executable *e)
{
	if (!e || e->runtime_step != UNWIND_STEP_V8 || e->runtime_bytes != sizeof(struct v8_facts))
		return NULL;
	return e->runtime;
}

static bool read_number(const struct elf_file *f, struct str name, uint32_t *number)
{
	struct elf_symbol symbol;
	struct bytes data;

	if (!elf_file_find_symbol(f, name, &symbol))
		return false;
	data = elf_file_symbol_data(f, &symbol);
	if (data.len < sizeof(*number))
		return false;
	memcpy(number, data.ptr, sizeof(*number));
	return true;
}

/* v8::Isolate::GetCurrent() is what every embedder calls; few files have it. */
static bool find_version(const struct elf_file *f, uint32_t *version)
{
	struct elf_symbol symbol;
	uint32_t major, minor;

	if (!elf_file_find_exported(f, STR("_ZN2v87Isolate10GetCurrentEv"), &symbol) ||
	    !read_number(f, STR("_ZN2v88internal7Version6major_E"), &major) ||
	    !read_number(f, STR("_ZN2v88internal7Version6minor_E"), &minor))
		return false;
	*version = OFFSET_VERSION(major, minor);
	return true;
}

/*
 * The builtins are one block of code without unwind information: the largest gap in it.
 */
static bool find_builtins(const struct elf_file *f, uint64_t range[2])
{
	struct function_bounds functions;
	struct elf_section text;
	uint64_t end, most = BUILTINS_LEAST;
	bool found = false;

	if (!elf_file_section_named(f, ".text", &text) || !function_bounds_open(&functions, f))
		return false;
	end = text.vaddr;
	for (uint32_t i = 0; i < functions.index.count; i++) {
		uint64_t begin = cfi_index_begin(&functions.index, i);
		struct cfi_fde fde;

		if (begin > end && begin - end >= most && begin <= text.vaddr + text.size) {
			most = begin - end;
			range[0] = end;
			range[1] = begin;
			found = true;
		}
		if (begin + BUILTINS_LEAST > end &&
		    cfi_fde_read(&functions.section, cfi_index_offset(&functions.index, i),
				 &functions.cie, &fde, &functions.counts) &&
		    fde.begin >= text.vaddr && fde.end > end)
			end = fde.end;
	}
	function_bounds_release(&functions);
	return found;
}

/*
 * How long byte codes are stands in three rows, one for each width of operands. They begin alike in
 * all versions: prefixes, those of a debugger, Ldar, LdaZero, LdaSmi.
 */
static void find_bytecode_bytes(const struct elf_file *f, struct v8_facts *facts)
{
	static const uint8_t first[] = { 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2 },
			     second[] = { 1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3 };
	struct elf_section section;
	struct bytes data;
	const uint8_t *row, *next;
	size_t count;

	if (!elf_file_section_named(f, ".rodata", &section) ||
	    !bytes_part(elf_file_bytes(f), section.file_offset, section.size, &data))
		return;
	row = memmem(data.ptr, data.len, first, sizeof(first));
	if (!row)
		return;
	data.len -= (size_t)(row - data.ptr);
	next = memmem(row, data.len < 2 * V8_BYTECODES_MOST ? data.len : 2 * V8_BYTECODES_MOST,
		      second, sizeof(second));
	count = next ? (size_t)(next - row) : 0;
	if (!count || count > V8_BYTECODES_MOST || 3 * count > data.len)
		return;
	for (int scale = 0; scale < 3; scale++)
		memcpy(facts->bytecode_bytes[scale], row + (size_t)scale * count, count);
}

bool v8_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		  struct runtime_binary *out)
{
	struct v8_facts facts = { 0 };
	struct err err;

	(void)path;
	if (!find_version(f, &facts.version))
		return false;
	if (!v8_table_find(tables->v8, facts.version, &facts.offsets)) {
		out->unknown_version = facts.version;
		return false;
	}
	if (!v8_offsets_usable(&facts.offsets, &err) || !find_builtins(f, out->loop))
		return false;
	find_bytecode_bytes(f, &facts);
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
