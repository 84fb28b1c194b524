#include "agent/runtimes/hotspot/file_data.h"

#include <elf.h>
#include <string.h>

static Elf64_Rela relocation(const struct file_data *d, size_t i)
{
	Elf64_Rela r;

	memcpy(&r, d->relocations.ptr + i * sizeof(r), sizeof(r));
	return r;
}

bool file_data_open(const struct elf_file *f, struct file_data *out)
{
	struct file_data d = { .file = f };
	uint64_t at, bytes, relative;

	if (!elf_file_dynamic(f, DT_RELA, &at) || !elf_file_dynamic(f, DT_RELASZ, &bytes))
		return false;
	d.sorted = elf_file_dynamic(f, DT_RELACOUNT, &relative);
	if (d.sorted && relative <= bytes / sizeof(Elf64_Rela))
		bytes = relative * sizeof(Elf64_Rela);
	d.relocations = elf_file_at_vaddr(f, at);
	if (d.relocations.len < bytes)
		return false;
	d.relocations.len = bytes;
	d.relative = elf_file_machine(f) == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	*out = d;
	return true;
}

static void apply(const struct file_data *d, size_t i, uint64_t address, uint8_t *to, size_t bytes)
{
	Elf64_Rela r = relocation(d, i);
	uint64_t offset = r.r_offset - address;

	if (ELF64_R_TYPE(r.r_info) == d->relative && offset < bytes && bytes - offset >= 8)
		memcpy(to + offset, &r.r_addend, 8);
}

/* The first relocation at or behind `address`. */
static size_t first_at(const struct file_data *d, uint64_t address)
{
	size_t lo = 0, hi = d->relocations.len / sizeof(Elf64_Rela);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (relocation(d, mid).r_offset < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool read_data(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const struct file_data *d = ctx;
	size_t count = d->relocations.len / sizeof(Elf64_Rela);
	struct bytes there = elf_file_at_vaddr(d->file, address);

	if (there.len < bytes)
		return false;
	memcpy(to, there.ptr, bytes);
	for (size_t i = d->sorted ? first_at(d, address) : 0; i < count; i++) {
		if (d->sorted && relocation(d, i).r_offset - address >= bytes)
			break;
		apply(d, i, address, to, bytes);
	}
	return true;
}

struct hotspot_memory file_data_memory(struct file_data *d)
{
	return (struct hotspot_memory){ read_data, d };
}
