/* unwind_pages.h - builds every page of an image's unwind tables, and aborts when the rows are not
 * what bpf/unwind_rows.h promises. */
#pragma once
#include <stdlib.h>
#include "agent/unwind/image_test.h"
#include "agent/unwind/tables.h"

enum { PAGE_RULES = 4096 };

static inline void check_rows(const struct unwind_rules *rules, const struct unwind_row *rows,
			      uint32_t count)
{
	const struct unwind_page page = { .last = (uint16_t)(count - 1) };
	struct unwind_rule plain;

	if (!count || rows[0].low)
		abort();
	for (uint32_t i = 0; i < count; i++) {
		const struct unwind_rule *r = &rules->array[rows[i].rule];

		if ((i && rows[i - 1].low >= rows[i].low) || rows[i].rule >= rules->count)
			abort();
		if (r->kind >= UNWIND_KIND_COUNT || r->cfa_base >= UNWIND_REG_COUNT ||
		    r->fp_from >= UNWIND_FROM_COUNT || r->ra_from >= UNWIND_FROM_COUNT)
			abort();
		if (unwind_find(rows, &page, rows[i].low) != i)
			abort();
		unwind_rule_at(r, 0xffff, rows[i].low, &plain);
		if (plain.kind == UNWIND_CFA_RUN)
			abort();
	}
}

/* The same page again, alone, in just enough and in too little room. */
static inline void check_again(struct unwind_tables *t, uint64_t page, struct unwind_rules *rules,
			       const struct unwind_row *rows, uint32_t count)
{
	struct unwind_row *exact = malloc(count * sizeof(*exact));
	uint32_t n = 0;

	if (unwind_tables_build_page(t, page, rules, exact, count, &n) != UNWIND_BUILD_ROWS ||
	    n != count || memcmp(rows, exact, count * sizeof(*exact)) != 0)
		abort();
	if (count > 1 &&
	    unwind_tables_build_page(t, page, rules, exact, count - 1, &n) != UNWIND_BUILD_NO_ROOM)
		abort();
	free(exact);
}

static inline void check_image(const struct image *m)
{
	static struct unwind_row rows[UNWIND_BLOCK_ROWS];
	static struct unwind_rule array[PAGE_RULES];
	struct err err = { 0 };
	struct elf_file *f = elf_file_from_memory(m->bytes, m->len, false, &err);
	struct unwind_tables *t = f ? unwind_tables_open(f, NULL, &err) : NULL;
	struct unwind_rules rules;
	uint64_t first, pages;
	uint32_t count;

	if (t) {
		unwind_rules_init(&rules, array, PAGE_RULES);
		unwind_tables_pages(t, &first, &pages);
		for (uint64_t i = 0; i < pages; i++) {
			if (unwind_tables_build_page(t, first + i, &rules, rows, UNWIND_BLOCK_ROWS,
						     &count) != UNWIND_BUILD_ROWS)
				continue;
			check_rows(&rules, rows, count);
			if (rules.count < PAGE_RULES) /* a full array may change what is said */
				check_again(t, first + i, &rules, rows, count);
		}
		unwind_rules_release(&rules);
	}
	unwind_tables_free(t);
	elf_file_free(f);
}
