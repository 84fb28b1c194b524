/*
 * plt.c - which import a PLT entry stands for.
 *
 * x86-64: an entry holds `jmp *slot(%rip)` (ff 25 rel32), perhaps after endbr64 (f3 0f 1e fa) and
 * with a bnd prefix (f2); in .plt 16 bytes an entry, in .plt.got 8 or 16, in .plt.sec 16. arm64:
 * adrp x16, page; ldr x17, [x16, #offset]. The slot's relocation (DT_JMPREL, or DT_RELA for
 * .plt.got) names the symbol.
 */
#include "agent/elf/elf_symbols.h"
#include "agent/symbolize/symbol_table.h"

enum { PLT_ENTRY_BYTES = 16, RELOCATIONS_MOST = 1 << 20 };

static bool is_plt_section(const struct elf_section *s)
{
	return (s->flags & SHF_EXECINSTR) && str_has_prefix(s->name, STR(".plt"));
}

static bool plt_section_of(const struct elf_file *f, uint64_t elf_vaddr, struct elf_section *out)
{
	struct elf_section s;

	for (uint32_t i = 1; elf_file_section(f, i, &s); i++) {
		if (is_plt_section(&s) && elf_vaddr >= s.vaddr && elf_vaddr - s.vaddr < s.size) {
			*out = s;
			return true;
		}
	}
	return false;
}

static bool slot_x86(struct bytes code, uint64_t at, uint64_t *slot)
{
	static const uint8_t endbr[4] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t skip = 0;
	int32_t relative;

	if (code.len >= 4 && memcmp(code.ptr, endbr, 4) == 0)
		skip = 4;
	if (code.len > skip && code.ptr[skip] == 0xf2)
		skip++;
	if (code.len < skip + 6 || code.ptr[skip] != 0xff || code.ptr[skip + 1] != 0x25)
		return false;
	memcpy(&relative, code.ptr + skip + 2, sizeof(relative));
	*slot = at + skip + 6 + (uint64_t)(int64_t)relative;
	return true;
}

static bool slot_arm64(struct bytes code, uint64_t at, uint64_t *slot)
{
	struct byte_reader r = byte_reader_of(code);
	uint32_t word = read_u32(&r), load;
	int64_t pages;

	if (word == 0xd503245f) { /* bti c */
		word = read_u32(&r);
		at += 4;
	}
	load = read_u32(&r);
	if (r.failed || (word & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
		return false;
	pages = (int64_t)((uint64_t)((word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3)) << 43) >> 43;
	*slot = (at & ~UINT64_C(4095)) + (uint64_t)pages * 4096 + (load >> 10 & 4095) * 8;
	return true;
}

static bool relocation_of(struct bytes table, uint64_t slot, uint32_t *symbol)
{
	struct byte_reader r = byte_reader_of(table);

	for (uint32_t i = 0; i < RELOCATIONS_MOST && byte_reader_left(&r) >= sizeof(Elf64_Rela);
	     i++) {
		uint64_t offset = read_u64(&r), info = read_u64(&r);

		read_u64(&r);
		if (offset == slot && ELF64_R_SYM(info)) {
			*symbol = (uint32_t)ELF64_R_SYM(info);
			return true;
		}
	}
	return false;
}

static struct bytes relocations(const struct elf_file *f, int64_t table_tag, int64_t size_tag)
{
	uint64_t vaddr, size;
	struct bytes all;

	if (!elf_file_dynamic(f, table_tag, &vaddr) || !elf_file_dynamic(f, size_tag, &size))
		return (struct bytes){ 0 };
	all = elf_file_at_vaddr(f, vaddr);
	if (all.len > size)
		all.len = (size_t)size;
	return all;
}

static bool slot_name(const struct elf_file *f, uint64_t slot, struct str *name)
{
	struct elf_symtab symbols;
	struct elf_symbol s;
	uint32_t index;

	if (!relocation_of(relocations(f, DT_JMPREL, DT_PLTRELSZ), slot, &index) &&
	    !relocation_of(relocations(f, DT_RELA, DT_RELASZ), slot, &index))
		return false;
	if (!elf_file_dynsym(f, &symbols) || !elf_symtab_get(&symbols, index, &s) || !s.name.len)
		return false;
	*name = elf_symbol_base_name(s.name);
	return true;
}

bool elf_file_plt_target(const struct elf_file *f, uint64_t elf_vaddr, struct str *name)
{
	struct elf_section s;
	uint64_t slot;

	if (!plt_section_of(f, elf_vaddr, &s))
		return false;
	/* Entries of 8 bytes exist too: the nearest start that decodes is the one. */
	for (uint64_t step = 8; step <= PLT_ENTRY_BYTES; step += 8) {
		uint64_t at = elf_vaddr - (elf_vaddr - s.vaddr) % step;
		struct bytes code = elf_file_at_vaddr(f, at);

		if (elf_file_machine(f) == EM_X86_64 ? slot_x86(code, at, &slot)
						     : slot_arm64(code, at, &slot))
			return slot_name(f, slot, name);
	}
	return false;
}
