#include "agent/runtimes/cpython/cpython.h"

#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/process/executable.h"
#include "agent/runtimes/cold_part.h"

enum {
	MINOR_LEAST = 6,
	TEXT_LOOKED_AT = 64 << 20,
};

const struct cpython_facts *cpython_facts(const struct executable *e)
{
	if (!e || e->runtime_step != UNWIND_STEP_CPYTHON ||
	    e->runtime_bytes != sizeof(struct cpython_facts))
		return NULL;
	return e->runtime;
}

/* ---- which file, which version ---- */

/* "3.11" behind `prefix`, anywhere in the text. */
static bool minor_behind(struct str text, struct str prefix, uint32_t *minor)
{
	ptrdiff_t at = str_search(text, prefix);
	struct str digits;
	uint64_t n;
	size_t count = 0;

	if (at < 0)
		return false;
	digits = str_skip(text, (size_t)at + prefix.len);
	while (count < digits.len && count < 2 && digits.ptr[count] >= '0' &&
	       digits.ptr[count] <= '9')
		count++;
	if (!count || !str_to_u64(str_head(digits, count), &n))
		return false;
	*minor = (uint32_t)n;
	return true;
}

/* Py_Version says it (3.11 and later), else the names, else where it looks for its library. */
static bool find_minor(const struct elf_file *f, struct str path, uint32_t *minor)
{
	struct elf_symbol symbol;
	struct elf_section section;
	struct bytes data;
	uint64_t version = 0;

	if (elf_file_find_symbol(f, STR("Py_Version"), &symbol)) {
		data = elf_file_symbol_data(f, &symbol);
		if (data.len >= sizeof(version))
			memcpy(&version, data.ptr, sizeof(version));
		*minor = version >> 16 & 0xff;
		return version >> 24 == 3;
	}
	if (minor_behind(elf_file_soname(f), STR("python3."), minor) ||
	    minor_behind(path, STR("python3."), minor))
		return true;
	return elf_file_section_named(f, ".rodata", &section) && section.size < TEXT_LOOKED_AT &&
	       bytes_part(elf_file_bytes(f), section.file_offset, section.size, &data) &&
	       minor_behind(str_from(data.ptr, data.len), STR("lib/python3."), minor);
}

static bool find_entry(const struct elf_file *f, struct cpython_facts *facts,
		       struct elf_symbol *runtime)
{
	if (elf_file_find_symbol(f, STR("_PyRuntime"), runtime)) {
		facts->entry = runtime->value;
		return true;
	}
	facts->thread_first = 1;
	if (!elf_file_find_symbol(f, STR("_PyThreadState_Current"), runtime))
		return false;
	facts->entry = runtime->value;
	return true;
}

bool cpython_recognise(const struct elf_file *f, struct str path,
		       const struct runtime_tables *tables, struct runtime_binary *out)
{
	struct cpython_facts facts = { 0 };
	struct elf_symbol loop, runtime;
	struct err err;

	/* Every file is asked: only one that calls itself python is searched to the end. */
	if (!elf_file_find_exported(f, STR("_PyEval_EvalFrameDefault"), &loop) &&
	    (str_search(path, STR("python")) < 0 ||
	     !elf_file_find_symbol(f, STR("_PyEval_EvalFrameDefault"), &loop)))
		return false;
	if (!loop.size || !find_entry(f, &facts, &runtime) || !find_minor(f, path, &facts.minor))
		return false;
	if (!cpython_table_find(tables->cpython, facts.minor, &facts.offsets)) {
		out->unknown_version = OFFSET_VERSION(3, facts.minor);
		return false;
	}
	if (!facts.thread_first)
		cpython_offsets_from_debug(&facts.offsets, elf_file_at_vaddr(f, runtime.value),
					   facts.minor);
	if (!cpython_offsets_usable(&facts.offsets, &err) ||
	    (!facts.thread_first && facts.offsets.runtime_interpreters < 0))
		return false;
	out->loop[0] = loop.value;
	out->loop[1] = loop.value + loop.size;
	runtime_cold_part(f, STR("_PyEval_EvalFrameDefault.cold"), out->loop, out->cold);
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
