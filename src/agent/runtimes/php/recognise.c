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

/* jmp *(%r15): to the handler of the next instruction, in machines that keep it in a register. */
static uint64_t find_body(const struct elf_file *f, const struct elf_symbol *machine)
{
	static const uint8_t enter[] = { 0x41, 0xff, 0x27 };
	struct bytes code = elf_file_at_vaddr(f, machine->value);
	ptrdiff_t at;

	if (elf_file_machine(f) != EM_X86_64)
		return 0;
	if (code.len > machine->size)
		code.len = machine->size;
	at = str_search(str_from(code.ptr, code.len), str_from(enter, sizeof(enter)));
	return at < 0 ? 0 : machine->value + (uint64_t)at + sizeof(enter);
}

static bool starts_with(struct bytes code, const void *what, size_t bytes)
{
	return code.len >= bytes && memcmp(code.ptr, what, bytes) == 0;
}

static void skip(struct bytes *code, uint64_t *vaddr, size_t bytes)
{
	code->ptr += bytes;
	code->len -= bytes;
	*vaddr += bytes;
}

/*
 * [endbr64] [push %rbp; mov %rsp, %rbp], then
 *   48 c7 c0 offset          mov $offset, %rax
 *   48 8b 05 slot, relative  mov slot(%rip), %rax
 */
bool php_decode_tls(struct bytes code, uint64_t vaddr, uint64_t *slot, int32_t *offset)
{
	int32_t value;

	if (starts_with(code, "\xf3\x0f\x1e\xfa", 4))
		skip(&code, &vaddr, 4);
	if (starts_with(code, "\x55\x48\x89\xe5", 4))
		skip(&code, &vaddr, 4);
	*slot = 0;
	*offset = 0;
	if (code.len < 7)
		return false;
	memcpy(&value, code.ptr + 3, sizeof(value));
	if (starts_with(code, "\x48\xc7\xc0", 3))
		*offset = value;
	else if (starts_with(code, "\x48\x8b\x05", 3))
		*slot = vaddr + 7 + (uint64_t)(int64_t)value;
	return *offset || *slot;
}

static bool needs_pcre(const struct elf_file *f)
{
	struct elf_section section;
	struct bytes names;

	return elf_file_section_named(f, ".dynstr", &section) &&
	       bytes_part(elf_file_bytes(f), section.file_offset, section.size, &names) &&
	       str_search(str_from(names.ptr, names.len), STR(PHP_PCRE_NAME)) >= 0;
}

static bool find_globals(const struct elf_file *f, struct php_facts *facts)
{
	struct elf_symbol globals, getter;

	if (elf_file_find_exported(f, STR("executor_globals"), &globals)) {
		facts->globals = globals.value;
		return true;
	}
	facts->threads = true;
	if (!elf_file_find_exported(f, STR("executor_globals_offset"), &globals) ||
	    !elf_file_find_exported(f, STR("tsrm_get_ls_cache_tcb_offset"), &getter))
		return false;
	facts->globals = globals.value;
	return php_decode_tls(elf_file_at_vaddr(f, getter.value), getter.value, &facts->tls_slot,
			      &facts->tls_offset);
}

bool php_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		   struct runtime_binary *out)
{
	struct php_facts facts = { 0 };
	struct elf_symbol machine;
	struct err err;

	(void)path;
	if (!elf_file_find_exported(f, STR("execute_ex"), &machine) || !machine.size ||
	    !find_globals(f, &facts) || !find_version(f, &facts.version))
		return false;
	if (!php_table_find(tables->php, facts.version, &facts.offsets)) {
		out->unknown_version = facts.version;
		return false;
	}
	if (!php_offsets_usable(&facts.offsets, &err))
		return false;
	facts.body = find_body(f, &machine);
	facts.needs_pcre = needs_pcre(f);
	out->loop[0] = machine.value;
	out->loop[1] = machine.value + machine.size;
	runtime_cold_part(f, STR("execute_ex.cold"), out->loop, out->cold);
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
