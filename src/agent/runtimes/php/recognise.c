#include "agent/runtimes/php/php.h"

#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/process/executable.h"
#include "agent/runtimes/cold_part.h"

enum { TEXT_LOOKED_AT = 64 << 20 };

const struct php_facts *php_facts(const struct executable *e)
{
	if (!e || e->runtime_step != UNWIND_STEP_PHP ||
	    e->runtime_bytes != sizeof(struct php_facts))
		return NULL;
	return e->runtime;
}

bool php_version_in(struct str data, uint32_t *version)
{
	const struct str before = STR("X-Powered-By: PHP/");
	ptrdiff_t at = str_search(data, before);

	return at >= 0 && offset_version_parse(str_skip(data, (size_t)at + before.len), version);
}

static bool find_version(const struct elf_file *f, uint32_t *version)
{
	struct elf_section section;
	struct bytes data;

	return elf_file_section_named(f, ".rodata", &section) && section.size < TEXT_LOOKED_AT &&
	       bytes_part(elf_file_bytes(f), section.file_offset, section.size, &data) &&
	       php_version_in(str_from(data.ptr, data.len), version);
}

bool php_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		   struct runtime_binary *out)
{
	struct php_facts facts = { 0 };
	struct elf_symbol machine, globals;
	struct err err;

	(void)path;
	if (!elf_file_find_exported(f, STR("execute_ex"), &machine) || !machine.size ||
	    !elf_file_find_exported(f, STR("executor_globals"), &globals) ||
	    !find_version(f, &facts.version) ||
	    !php_table_find(tables->php, facts.version, &facts.offsets) ||
	    !php_offsets_usable(&facts.offsets, &err))
		return false;
	facts.globals = globals.value;
	facts.body = machine.value + machine.size;
	out->loop[0] = machine.value;
	out->loop[1] = machine.value + machine.size;
	runtime_cold_part(f, STR("execute_ex.cold"), out->loop, out->cold);
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
