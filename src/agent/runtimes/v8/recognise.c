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

bool v8_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		  struct runtime_binary *out)
{
	struct v8_facts facts = { 0 };
	struct err err;

	(void)path;
	if (!find_version(f, &facts.version) ||
	    !v8_table_find(tables->v8, facts.version, &facts.offsets) ||
	    !v8_offsets_usable(&facts.offsets, &err) || !find_builtins(f, out->loop))
		return false;
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
