#include "agent/runtimes/ruby/ruby.h"

#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/process/executable.h"
#include "agent/runtimes/function_bounds.h"

enum {
	LABELS_LEAST =
		150, /* Ruby's instructions are some 200; those of its regular expressions 100 */
	TEXT_MOST = 64 << 20,
	DATA_MOST = 64 << 20,
	CALLER_BYTES_LEAST = 256,
	CODE_LOOKED_AT = 160, /* of a function that leads to a variable */
};

const struct ruby_facts *ruby_facts(const struct executable *e)
{
	if (!e || e->runtime_step != UNWIND_STEP_RUBY ||
	    e->runtime_bytes != sizeof(struct ruby_facts))
		return NULL;
	return e->runtime;
}

static uint64_t word(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int32_t half(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* ---- the loop ---- */

/*
 * vm_exec_core() has no name in stripped files. Its instructions are labels, whose addresses stand
 * side by side in a table: the longest list of addresses within one function.
 */
struct loop_search {
	struct function_bounds functions;
	uint64_t text[2];
	uint64_t at, function[2]; /* of the run of labels that is looked at: its last one */
	uint32_t count, most;
	uint64_t found[2];
};

static void note_address(struct loop_search *s, uint64_t at, uint64_t to)
{
	bool goes_on = s->count && at == s->at + 8 && to >= s->function[0] && to < s->function[1];

	s->at = at;
	if (goes_on) {
		s->count++;
	} else {
		s->count = to >= s->text[0] && to < s->text[1] &&
			   function_bounds_find(&s->functions, to, s->function);
	}
	if (s->count <= s->most)
		return;
	s->most = s->count;
	memcpy(s->found, s->function, sizeof(s->found));
}

/* Of a file that is loaded anywhere, the addresses are in its relocations. */
static void note_relocations(const struct elf_file *f, struct loop_search *s)
{
	struct elf_section section;
	struct bytes data;

	if (!elf_file_section_named(f, ".rela.dyn", &section) || section.size > DATA_MOST ||
	    !bytes_part(elf_file_bytes(f), section.file_offset, section.size, &data))
		return;
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= data.len; i += sizeof(Elf64_Rela)) {
		Elf64_Rela r;

		memcpy(&r, data.ptr + i, sizeof(r));
		if (ELF64_R_TYPE(r.r_info) == R_X86_64_RELATIVE)
			note_address(s, r.r_offset, (uint64_t)r.r_addend);
	}
}

static void note_words(const struct elf_file *f, const char *name, struct loop_search *s)
{
	struct elf_section section;
	struct bytes data;

	if (!elf_file_section_named(f, name, &section) || section.size > DATA_MOST ||
	    !bytes_part(elf_file_bytes(f), section.file_offset, section.size, &data))
		return;
	for (size_t i = 0; i + 8 <= data.len; i += 8)
		note_address(s, section.vaddr + i, word(data.ptr + i));
}

/* vm_exec(): the function that calls the loop. */
static void find_caller(const struct elf_file *f, struct loop_search *s, const uint64_t loop[2],
			uint64_t caller[2])
{
	struct bytes code = elf_file_at_vaddr(f, s->text[0]);
	uint64_t bounds[2];

	if (code.len > s->text[1] - s->text[0])
		code.len = (size_t)(s->text[1] - s->text[0]);
	for (size_t i = 0; i + 5 <= code.len; i++) {
		if (code.ptr[i] != 0xe8 ||
		    s->text[0] + i + 5 + (uint64_t)(int64_t)half(code.ptr + i + 1) != loop[0])
			continue;
		if (!function_bounds_find(&s->functions, s->text[0] + i, bounds) ||
		    bounds[0] == loop[0] || bounds[1] - bounds[0] < CALLER_BYTES_LEAST)
			continue;
		memcpy(caller, bounds, sizeof(bounds));
		return;
	}
}

static bool find_loop(const struct elf_file *f, uint64_t loop[2], uint64_t caller[2])
{
	struct loop_search s = { 0 };
	struct elf_section text;
	bool ok;

	if (!elf_file_section_named(f, ".text", &text) || text.size > TEXT_MOST ||
	    !function_bounds_open(&s.functions, f))
		return false;
	s.text[0] = text.vaddr;
	s.text[1] = text.vaddr + text.size;
	note_relocations(f, &s);
	note_words(f, ".data.rel.ro", &s);
	note_words(f, ".rodata", &s);
	ok = s.most >= LABELS_LEAST;
	if (ok) {
		memcpy(loop, s.found, sizeof(s.found));
		find_caller(f, &s, loop, caller);
	}
	function_bounds_release(&s.functions);
	return ok;
}

/* ---- the variables ---- */

/* rb_current_receiver() begins with the thread's execution context. */
static bool find_context(const struct elf_file *f, struct ruby_facts *facts)
{
	struct elf_symbol symbol;
	struct bytes code;

	if (elf_file_find_exported(f, STR("ruby_current_execution_context_ptr"), &symbol)) {
		facts->context_kind = RUBY_CONTEXT_GLOBAL;
		facts->context = symbol.value;
		return true;
	}
	if (!elf_file_find_exported(f, STR("rb_current_receiver"), &symbol))
		return false;
	code = elf_file_at_vaddr(f, symbol.value);
	for (size_t i = 0; i + 24 <= code.len && i < CODE_LOOKED_AT; i++) {
		const uint8_t *p = code.ptr + i;

		/* mov %fs:offset,%rax; that at 0x28 guards the stack */
		if (memcmp(p, "\x64\x48\x8b\x04\x25", 5) == 0 && half(p + 5) < 0) {
			facts->context_kind = RUBY_CONTEXT_STATIC;
			facts->context_offset = half(p + 5);
			return true;
		}
		/* lea index(%rip),%rdi; call __tls_get_addr; mov offset(%rax),%rax */
		if (memcmp(p, "\x48\x8d\x3d", 3) == 0) {
			facts->context_kind = RUBY_CONTEXT_DYNAMIC;
			facts->context = symbol.value + i + 7 + (uint64_t)(int64_t)half(p + 3);
			for (size_t j = 12; j < 17; j++)
				if (memcmp(p + j, "\x48\x8b\x80", 3) == 0)
					facts->context_offset = half(p + j + 3);
			return true;
		}
	}
	return false;
}

/* cmp last_id(%rip),%edi, either way round: the names of IDs lie behind it. */
static uint64_t find_comparison(struct bytes code, uint64_t vaddr)
{
	for (size_t i = 0; i + 6 <= code.len && i < CODE_LOOKED_AT; i++)
		if ((code.ptr[i] == 0x39 || code.ptr[i] == 0x3b) && code.ptr[i + 1] == 0x3d)
			return vaddr + i + 6 + (uint64_t)(int64_t)half(code.ptr + i + 2);
	return 0;
}

/* rb_id2str() looks whether there is such an ID, or jumps to the function that does. */
static uint64_t find_symbols(const struct elf_file *f)
{
	struct elf_symbol symbol;
	struct bytes code;
	uint64_t found, to;

	if (!elf_file_find_exported(f, STR("rb_id2str"), &symbol))
		return 0;
	code = elf_file_at_vaddr(f, symbol.value);
	if (code.len > symbol.size)
		code.len = (size_t)symbol.size;
	found = find_comparison(code, symbol.value);
	for (size_t i = 0; !found && i + 5 <= code.len; i++) {
		if (code.ptr[i] != 0xe9)
			continue;
		to = symbol.value + i + 5 + (uint64_t)(int64_t)half(code.ptr + i + 1);
		found = find_comparison(elf_file_at_vaddr(f, to), to);
	}
	return found;
}

static bool find_version(const struct elf_file *f, uint32_t *version)
{
	struct elf_symbol symbol;
	struct bytes text;

	if (!elf_file_find_exported(f, STR("ruby_version"), &symbol))
		return false;
	text = elf_file_symbol_data(f, &symbol);
	return offset_version_parse(str_from(text.ptr, text.len), version);
}

bool ruby_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		    struct runtime_binary *out)
{
	struct ruby_facts facts = { 0 };
	struct err err;

	(void)path;
	if (!find_version(f, &facts.version))
		return false;
	if (!ruby_table_find(tables->ruby, facts.version, &facts.offsets)) {
		out->unknown_version = facts.version;
		return false;
	}
	if (!ruby_offsets_usable(&facts.offsets, &err) || !find_context(f, &facts) ||
	    !find_loop(f, facts.loop, out->cold))
		return false;
	facts.symbols = find_symbols(f);
	memcpy(out->loop, facts.loop, sizeof(facts.loop));
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
