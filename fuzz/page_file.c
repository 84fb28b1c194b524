/* page_file.c - any bytes as the pages of an SQLite file: all rows of all pages are asked for. */
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "store/salvage/page_file.h"

/* All bytes that are said to be there are read. */
static volatile uint64_t touched;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct page_file f;
	struct arena arena;
	struct page_row row;

	page_file_of(str_from(data, size), &f);
	arena_init(&arena, 4096, 0);
	for (uint32_t page = 1; page <= f.page_count; page++) {
		if (f.kind[page] != PAGE_TABLE_LEAF && f.kind[page] != PAGE_INDEX)
			continue;
		for (uint32_t i = 0, cells = page_cells(&f, page); i < cells && i < 64; i++)
			if (page_row(&f, page, i, &arena, &row))
				for (uint32_t k = 0; k < row.count; k++)
					touched = hash64(row.values[k].bytes);
		arena_reset(&arena);
	}
	arena_release(&arena);
	page_file_close(&f);
	return 0;
}
