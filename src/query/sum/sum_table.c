#include "query/sum/sum_table.h"

#include <assert.h>
#include <stdlib.h>

enum {
	NUMBERS_MOST = 1 << 24,
	FREE_SHARE = 32, /* of the query's memory; further pages need so many numbers each: */
	PAGE_FILL = 32,
	WEIGHTS = 64 * 32 + 1, /* powers of two, each in 32 steps; and nothing */
};

struct sum_page *sum_table_make_page(struct query *q, struct sum_table *t, uint64_t number)
{
	uint64_t page = number / SUM_PAGE;
	uint32_t cap = t->page_cap;
	struct sum_page *p;
	struct err full;

	/* Room for the list that is made of it. */
	if (number >= NUMBERS_MOST ||
	    q->memory.heap_bytes + q->memory.arena.reserved_bytes > q->memory.limit_bytes / 8 * 7 ||
	    t->page_count >
		    q->memory.limit_bytes / FREE_SHARE / sizeof(*p) + t->count / PAGE_FILL ||
	    !QUERY_ROOM(q, t->pages, t->page_cap, page + 1, &full))
		return NULL;
	for (; cap < t->page_cap; cap++)
		t->pages[cap] = NULL;
	p = query_take(q, sizeof(*p), &full);
	t->pages[page] = p;
	t->page_count += p != NULL;
	return p;
}

/* Larger for what is heavier by a 32nd. */
static unsigned weight_of(int64_t v)
{
	uint64_t magnitude = v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
	unsigned power;

	if (!magnitude)
		return 0;
	power = 63 - (unsigned)__builtin_clzll(magnitude);
	return 1 + power * 32 + (unsigned)(magnitude << (63 - power) >> 58 & 31);
}

/* Keep what weighs more than this, and `as_heavy` of those that weigh the same. */
struct cut {
	unsigned weight;
	uint32_t as_heavy;
};

static struct cut cut_of(const struct sum_table *t, uint32_t most)
{
	uint32_t *counts, heavier = 0;
	struct cut cut = { 0, UINT32_MAX };

	if (t->count <= most)
		return cut;
	counts = calloc(WEIGHTS, sizeof(*counts));
	assert(counts);
	for (uint32_t page = 0; page < t->page_cap; page++)
		for (uint32_t i = 0; t->pages[page] && i < SUM_PAGE; i++)
			if (t->pages[page]->met[i])
				counts[weight_of(t->pages[page]->sum[i])]++;
	for (cut.weight = WEIGHTS - 1; heavier + counts[cut.weight] <= most; cut.weight--)
		heavier += counts[cut.weight];
	cut.as_heavy = most - heavier;
	free(counts);
	return cut;
}

static bool stays(struct cut *cut, int64_t sum)
{
	unsigned weight;

	if (cut->as_heavy == UINT32_MAX)
		return true;
	weight = weight_of(sum);
	if (weight != cut->weight)
		return weight > cut->weight;
	return cut->as_heavy && cut->as_heavy--;
}

void sum_table_list(const struct sum_table *t, uint32_t most, struct stack_sum *out,
		    uint32_t *count, int64_t *left_out)
{
	struct cut cut = cut_of(t, most);

	*count = 0;
	for (uint32_t page = 0; page < t->page_cap; page++)
		for (uint32_t i = 0; t->pages[page] && i < SUM_PAGE; i++) {
			const struct sum_page *p = t->pages[page];

			if (!p->met[i])
				continue;
			if (stays(&cut, p->sum[i]))
				out[(*count)++] =
					(struct stack_sum){ .stack = (uint64_t)page * SUM_PAGE + i,
							    .value = p->sum[i],
							    .group = p->met[i] - 1u };
			else
				*left_out = engine_add(*left_out, p->sum[i]);
		}
}

void sum_table_release(struct query *q, struct sum_table *t)
{
	for (uint32_t i = 0; i < t->page_cap; i++)
		query_give_back(q, t->pages[i], sizeof(struct sum_page));
	QUERY_DROP(q, t->pages, t->page_cap);
	*t = (struct sum_table){ 0 };
}
