/*
 * sum_table.h - values added up by number, for small numbers close together, such as row ids of a
 * store: pages of sums, which cost a third of a list and a table of places in it. Of a number with
 * several groups only the first one is in here: most stacks belong to one process. Only src/query
 * includes this.
 *
 * Memory: the query's counted heap, until sum_table_release().
 */
#pragma once
#include "query/sum/frames.h"

enum { SUM_PAGE = 256 };

struct sum_page {
	int64_t sum[SUM_PAGE];
	uint16_t met[SUM_PAGE]; /* its group + 1; 0: not met */
};

struct sum_table {
	struct sum_page **pages;
	uint32_t page_cap, page_count;
	uint32_t count; /* numbers that were met */
};

/* NULL: the number is too large or too far from others, or memory is short. */
struct sum_page *sum_table_make_page(struct query *q, struct sum_table *t, uint64_t number);

/* False, and nothing is added, where the table is not for that number, or has it with another
 * group. */
static inline bool sum_table_add(struct query *q, struct sum_table *t, uint64_t number,
				 uint32_t group, int64_t value)
{
	uint64_t page = number / SUM_PAGE;
	unsigned at = number % SUM_PAGE;
	struct sum_page *p = page < t->page_cap ? t->pages[page] : NULL;

	if (!p) {
		p = sum_table_make_page(q, t, number);
		if (!p)
			return false;
	}
	if (group >= UINT16_MAX || (p->met[at] && p->met[at] != group + 1))
		return false;
	t->count += !p->met[at];
	p->met[at] = (uint16_t)(group + 1);
	p->sum[at] = engine_add(p->sum[at], value);
	return true;
}

/* The `most` heaviest (of those that weigh the same within a 32nd the lowest numbers) in ascending
 * order; the sum of the others is added to *left_out. */
void sum_table_list(const struct sum_table *t, uint32_t most, struct stack_sum *out,
		    uint32_t *count, int64_t *left_out);
void sum_table_release(struct query *q, struct sum_table *t);
