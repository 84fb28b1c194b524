#include "agent/runtimes/cold_part.h"

#include "agent/elf/elf_symbols.h"
#include "agent/unwind/cfi_read.h"

enum { CODE_BYTES_MOST = 1 << 20, TARGETS_MOST = 64, JUMPS_LEAST = 8 };

/* A function that the loop jumps to, and how often. */
struct target {
	uint64_t begin, end;
	uint32_t jumps;
};

struct finder {
	struct cfi_section section;
	struct elf_data data;
	struct cfi_index index;
	struct cfi_cie cie;
	struct unwind_counts counts;
	struct target targets[TARGETS_MOST];
	uint32_t target_count;
};

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

static bool open_finder(struct finder *x, const struct elf_file *f)
{
	uint64_t header_vaddr = 0, vaddr = 0;
	struct bytes header = frame_header(f, &header_vaddr);

	if (!header.len || !cfi_header_eh_frame(header, header_vaddr, &vaddr))
		return false;
	x->section = (struct cfi_section){ .bytes = elf_file_at_vaddr(f, vaddr), .vaddr = vaddr };
	x->cie.offset = CFI_NO_CIE;
	return x->section.bytes.len &&
	       cfi_index_init(&x->index, &x->section, header, header_vaddr, &x->counts);
}

/* Counts a jump to `to`, in the function that unwind information says it lies in. */
static void note_jump(struct finder *x, uint64_t to)
{
	struct cfi_fde fde;

	for (uint32_t i = 0; i < x->target_count; i++) {
		if (to >= x->targets[i].begin && to < x->targets[i].end) {
			x->targets[i].jumps++;
			return;
		}
	}
	if (x->target_count == TARGETS_MOST ||
	    !cfi_fde_read(&x->section, cfi_index_offset(&x->index, cfi_index_find(&x->index, to)),
			  &x->cie, &fde, &x->counts) ||
	    to < fde.begin || to >= fde.end || to == fde.begin)
		return;
	x->targets[x->target_count++] = (struct target){ fde.begin, fde.end, 1 };
}

/*
 * Conditional jumps with 32 bits of distance (0f 80..8f) that leave the function can only go to its
 * own cold part: other functions are called, or jumped to without condition and at their first
 * instruction. The bytes are not decoded: what only looks like a jump leads anywhere, once or
 * twice; the cold part is where many lead.
 */
static void count_jumps(struct finder *x, struct bytes code, const uint64_t loop[2])
{
	for (size_t i = 0; i + 6 <= code.len; i++) {
		int32_t distance;
		uint64_t to;

		if (code.ptr[i] != 0x0f || (code.ptr[i + 1] & 0xf0) != 0x80)
			continue;
		memcpy(&distance, code.ptr + i + 2, sizeof(distance));
		to = loop[0] + i + 6 + (uint64_t)(int64_t)distance;
		if (to < loop[0] || to >= loop[1])
			note_jump(x, to);
	}
}

static void find_by_jumps(const struct elf_file *f, const uint64_t loop[2], uint64_t cold[2])
{
	struct finder x = { .target_count = 0 };
	struct bytes code = elf_file_at_vaddr(f, loop[0]);
	uint32_t most = JUMPS_LEAST - 1;

	if (code.len > loop[1] - loop[0])
		code.len = (size_t)(loop[1] - loop[0]);
	if (code.len > CODE_BYTES_MOST || !open_finder(&x, f))
		return;
	count_jumps(&x, code, loop);
	for (uint32_t i = 0; i < x.target_count; i++) {
		if (x.targets[i].jumps <= most)
			continue;
		most = x.targets[i].jumps;
		cold[0] = x.targets[i].begin;
		cold[1] = x.targets[i].end;
	}
	cfi_index_release(&x.index);
}

void runtime_cold_part(const struct elf_file *f, struct str cold_name, const uint64_t loop[2],
		       uint64_t cold[2])
{
	struct elf_symbol symbol;

	cold[0] = cold[1] = 0;
	if (elf_file_machine(f) != EM_X86_64)
		return;
	if (elf_file_find_symbol(f, cold_name, &symbol) && symbol.size) {
		cold[0] = symbol.value;
		cold[1] = symbol.value + symbol.size;
		return;
	}
	find_by_jumps(f, loop, cold);
}
