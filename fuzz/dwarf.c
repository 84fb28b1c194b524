/* Debug information of a hostile file; the answer must not depend on where the work was cut. */
#include "fuzz/fuzz.h"

#include "agent/symbolize/dwarf.h"
#include "base/buf.h"

enum { LIMIT = 1 << 20, ADDRESSES = 24 };

static void ask(struct dwarf *whole, struct dwarf *parts, uint64_t at)
{
	struct dwarf_frame a[DWARF_FRAMES_MOST], b[DWARF_FRAMES_MOST];
	struct work_budget no_limit = { 0 };
	uint32_t a_count = 0, b_count = 0, rounds = 0;
	enum dwarf_answer answer;
	struct buf path;

	answer = dwarf_find(whole, at, &no_limit, a, DWARF_FRAMES_MOST, &a_count);
	if (answer == DWARF_LATER || (answer == DWARF_FOUND) != (a_count > 0))
		__builtin_trap();
	do {
		struct work_budget little = { .until_ns = 1 };

		answer = dwarf_find(parts, at, &little, b, DWARF_FRAMES_MOST, &b_count);
	} while (answer == DWARF_LATER && rounds++ < 200);
	if (answer != DWARF_LATER && a_count != b_count)
		__builtin_trap();
	buf_init(&path, 1 << 16);
	for (uint32_t i = 0; i < a_count; i++)
		dwarf_path_append(&path, &a[i].path);
	buf_release(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t low = 0, end = 0;
	struct dwarf *whole, *parts;
	struct elf_file *f;
	struct err err;

	f = elf_file_from_memory(data, size, false, &err);
	if (!f)
		return 0;
	whole = dwarf_open(f, NULL, -1, LIMIT, &err);
	parts = dwarf_open(f, NULL, -1, LIMIT, &err);
	if (whole && parts && elf_file_text_span(f, &low, &end)) {
		uint64_t step = (end - low) / ADDRESSES + 1;

		for (uint32_t i = 0; i < ADDRESSES; i++)
			ask(whole, parts, low + i * step);
		if (dwarf_bytes(whole) > LIMIT)
			__builtin_trap();
	}
	dwarf_free(whole);
	dwarf_free(parts);
	elf_file_free(f);
	return 0;
}
