#include "agent/runtimes/function_bounds.h"

static struct bytes frame_header(const struct elf_file *f, uint64_t *vaddr)
{
	struct elf_segment s;

	for (uint32_t i = 0; i < elf_file_segment_count(f); i++) {
		if (!elf_file_segment(f, i, &s) || s.type != PT_GNU_EH_FRAME)
			continue;
		*vaddr = s.vaddr;
		return elf_file_at_vaddr(f, s.vaddr);
	}
	return (struct bytes){ 0 };
}

bool function_bounds_open(struct function_bounds *b, const struct elf_file *f)
{
	uint64_t header_vaddr = 0, vaddr = 0;
	struct bytes header = frame_header(f, &header_vaddr);

	*b = (struct function_bounds){ .cie.offset = CFI_NO_CIE };
	if (!header.len || !cfi_header_eh_frame(header, header_vaddr, &vaddr))
		return false;
	b->section = (struct cfi_section){ .bytes = elf_file_at_vaddr(f, vaddr), .vaddr = vaddr };
	return b->section.bytes.len &&
	       cfi_index_init(&b->index, &b->section, header, header_vaddr, &b->counts);
}

void function_bounds_release(struct function_bounds *b)
{
	cfi_index_release(&b->index);
}

bool function_bounds_find(struct function_bounds *b, uint64_t elf_vaddr, uint64_t bounds[2])
{
	uint64_t offset = cfi_index_offset(&b->index, cfi_index_find(&b->index, elf_vaddr));
	struct cfi_fde fde;

	if (!cfi_fde_read(&b->section, offset, &b->cie, &fde, &b->counts) ||
	    elf_vaddr < fde.begin || elf_vaddr >= fde.end)
		return false;
	bounds[0] = fde.begin;
	bounds[1] = fde.end;
	return true;
}
