#include "agent/runtimes/cold_part.h"

#include "agent/elf/elf_symbols.h"
#include "agent/runtimes/function_bounds.h"

enum { CODE_BYTES_MOST = 1 << 20, TARGETS_MOST = 64, JUMPS_LEAST = 8 };

/* A function that the loop jumps to, and how often. */
struct target {
	uint64_t begin, end;
	uint32_t jumps;
};

struct finder {
	struct function_bounds functions;
	struct target targets[TARGETS_MOST];
	uint32_t target_count;
};

/* Counts a jump to `to`, in the function that unwind information says it lies in. */
static void note_jump(struct finder *x, uint64_t to)
{
	uint64_t bounds[2];

	for (uint32_t i = 0; i < x->target_count; i++) {
		if (to >= x->targets[i].begin && to < x->targets[i].end) {
			x->targets[i].jumps++;
			return;
		}
	}
	if (x->target_count == TARGETS_MOST || !function_bounds_find(&x->functions, to, bounds) ||
	    to == bounds[0])
		return;
	x->targets[x->target_count++] = (struct target){ bounds[0], bounds[1], 1 };
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
	if (code.len > CODE_BYTES_MOST || !function_bounds_open(&x.functions, f))
		return;
	count_jumps(&x, code, loop);
	for (uint32_t i = 0; i < x.target_count; i++) {
		if (x.targets[i].jumps <= most)
			continue;
		most = x.targets[i].jumps;
		cold[0] = x.targets[i].begin;
		cold[1] = x.targets[i].end;
	}
	function_bounds_release(&x.functions);
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
