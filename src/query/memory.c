/* memory.c - a query's memory within its limit, and its table of numbers. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "query/engine.h"
#include "store/id_list.h"

enum { TICKS = 4096, FIRST_SLOTS = 64, GROW_LARGE = 1 << 20 };
enum { PAGES_FROM = 512 << 10, PAGES_LEAST = 1 << 10 /* of a block */ };
enum {
	PAGED_MOST = 1 << 24,
	FREE_PAGES = 64, /* and so much of the query's memory; further ones need so many numbers */
	FREE_SHARE = 32, /* each, on average */
	PAGE_FILL = 8,
};

static bool charge(struct query *q, size_t bytes, struct err *err)
{
	if (bytes > q->memory.limit_bytes ||
	    q->memory.heap_bytes + q->memory.arena.reserved_bytes > q->memory.limit_bytes - bytes)
		return err_set(err, ERR_LIMIT,
			       "the answer needs more than the %zu KiB that one query has",
			       q->memory.limit_bytes >> 10);
	q->memory.heap_bytes += bytes;
	return true;
}

/* ---- blocks: of the heap, or large pages once there are many ---- */

/* AddressSanitizer looks at each block of the heap: it shall see them. */
#if defined(__has_feature)
#define BLOCKS_ARE_WATCHED __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define BLOCKS_ARE_WATCHED 1
#else
#define BLOCKS_ARE_WATCHED 0
#endif

static bool has_pages(struct query *q)
{
	if (BLOCKS_ARE_WATCHED)
		return false;
	return q->memory.pages.base || (q->memory.heap_bytes >= PAGES_FROM &&
					large_pages_map(&q->memory.pages, q->memory.limit_bytes));
}

static void *new_block(struct query *q, size_t bytes, bool zeros)
{
	void *p = bytes >= PAGES_LEAST && has_pages(q)
			  ? large_pages_take(&q->memory.pages, bytes, zeros)
			  : NULL;

	if (!p)
		p = zeros ? calloc(1, bytes) : malloc(bytes);
	assert(p);
	return p;
}

static void free_block(struct query *q, void *block, size_t bytes)
{
	if (block && large_pages_have(&q->memory.pages, block))
		large_pages_give_back(&q->memory.pages, block, bytes);
	else
		free(block);
}

static void *grow_block(struct query *q, void *block, size_t bytes, size_t to)
{
	bool paged = block && large_pages_have(&q->memory.pages, block);
	void *grown;

	if (!paged && (to < PAGES_LEAST || !has_pages(q))) {
		grown = realloc(block, to);
		assert(grown);
		return grown;
	}
	grown = paged ? large_pages_grow(&q->memory.pages, block, bytes, to) : NULL;
	if (grown)
		return grown;
	grown = new_block(q, to, false);
	if (bytes)
		memcpy(grown, block, bytes);
	free_block(q, block, bytes);
	return grown;
}

static void *shrink_block(struct query *q, void *block, size_t bytes, size_t to)
{
	void *fitted;

	if (large_pages_have(&q->memory.pages, block)) {
		large_pages_shrink(&q->memory.pages, block, bytes, to);
		return block;
	}
	fitted = realloc(block, to);
	assert(fitted);
	return fitted;
}

void *query_take(struct query *q, size_t bytes, struct err *err)
{
	return charge(q, bytes, err) ? new_block(q, bytes, true) : NULL;
}

void query_give_back(struct query *q, void *block, size_t bytes)
{
	if (block)
		q->memory.heap_bytes -= bytes;
	free_block(q, block, bytes);
}

bool query_grow_slow(struct query *q, void *array_ptr, uint32_t *cap, uint64_t need,
		     size_t entry_bytes, struct err *err)
{
	void **array = array_ptr;
	uint64_t target = *cap ? *cap : 16;

	while (target < need) /* what is large grows by less: room that stays empty counts, too */
		target += target * entry_bytes < GROW_LARGE ? target : target / 4;
	if (target > UINT32_MAX / 2)
		return err_set(err, ERR_LIMIT, "more than %u entries in one answer",
			       UINT32_MAX / 2);
	/* Where twice as much does not fit, half as much more may. */
	if (!charge(q, (target - *cap) * entry_bytes, err)) {
		target = *cap + *cap / 4;
		if (target < need || !charge(q, (target - *cap) * entry_bytes, err))
			return false;
	}
	*array = grow_block(q, *array, *cap * entry_bytes, target * entry_bytes);
	*cap = (uint32_t)target;
	return true;
}

void query_drop(struct query *q, void *array_ptr, uint32_t *cap, size_t entry_bytes)
{
	void **array = array_ptr;

	free_block(q, *array, *cap * entry_bytes);
	*array = NULL;
	q->memory.heap_bytes -= (size_t)*cap * entry_bytes;
	*cap = 0;
}

void query_fit(struct query *q, void *array_ptr, uint32_t *cap, uint32_t count, size_t entry_bytes)
{
	void **array = array_ptr;

	if (count == 0 || count >= *cap)
		return;
	*array = shrink_block(q, *array, *cap * entry_bytes, count * entry_bytes);
	q->memory.heap_bytes -= (size_t)(*cap - count) * entry_bytes;
	*cap = count;
}

bool query_give(struct query *q, void *array_ptr, uint32_t *cap, struct err *err)
{
	void **array = array_ptr;

	if (!query_grow(q, &q->memory.given, &q->memory.given_cap, q->memory.given_count + 1u,
			sizeof(*q->memory.given), err))
		return false;
	q->memory.given[q->memory.given_count++] = *array;
	*array = NULL;
	*cap = 0;
	return true;
}

void query_free_given(struct query *q, void *array)
{
	if (!large_pages_have(&q->memory.pages, array)) /* those go with the question */
		free(array);
}

void *query_alloc(struct query *q, uint64_t count, size_t bytes, struct err *err)
{
	size_t want;
	void *p = NULL;

	if (!__builtin_mul_overflow(count, bytes, &want) && want < q->memory.limit_bytes &&
	    want + q->memory.heap_bytes + q->memory.arena.reserved_bytes <=
		    q->memory.limit_bytes + (64u << 10))
		p = arena_zalloc(&q->memory.arena, want);
	if (!p)
		err_set(err, ERR_LIMIT, "the answer needs more than the %zu KiB that one query has",
			q->memory.limit_bytes >> 10);
	return p;
}

bool query_str_dup(struct query *q, struct str s, struct str *out, struct err *err)
{
	char *copy = query_alloc(q, s.len + 1, 1, err);

	if (!copy)
		return false;
	if (s.len)
		memcpy(copy, s.ptr, s.len);
	*out = str_from(copy, s.len);
	return true;
}

bool query_alive_now(struct query *q, struct err *err)
{
	if ((q->request.cancelled &&
	     atomic_load_explicit(q->request.cancelled, memory_order_relaxed)) ||
	    (q->request.given_up && q->request.given_up(q->request.given_up_ctx)))
		return err_set(err, ERR_CANCELLED, "the query was cancelled");
	if (q->request.deadline_ns && clock_monotonic_ns() > q->request.deadline_ns)
		return err_set(err, ERR_TIMEOUT, "the query ran into its time limit");
	return true;
}

bool query_alive(struct query *q, struct err *err)
{
	return q->memory.ticks++ % TICKS || query_alive_now(q, err);
}

void query_note_partial(struct query *q, const char *format, ...)
{
	size_t at = q->partial ? strlen(q->reason) : 0;
	va_list ap;

	if (at)
		at += (size_t)snprintf(q->reason + at, sizeof(q->reason) - at, "; ");
	q->partial = true;
	if (at >= sizeof(q->reason))
		return;
	va_start(ap, format);
	vsnprintf(q->reason + at, sizeof(q->reason) - at, format, ap);
	va_end(ap);
}

/* ---- numbers ---- */

static uint32_t slot_of(uint64_t number, uint32_t cap)
{
	return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cap - 1);
}

static struct number_slot *slot_for(const struct number_table *t, uint64_t number)
{
	uint32_t at = slot_of(number, t->cap);

	while (t->slots[at].value && t->slots[at].number != number)
		at = (at + 1) & (t->cap - 1);
	return &t->slots[at];
}

uint32_t number_find_slow(const struct number_table *t, uint64_t number)
{
	return t->cap ? slot_for(t, number)->value - 1 : UINT32_MAX;
}

static bool numbers_double(struct query *q, struct number_table *t, struct err *err)
{
	struct number_slot *slots, *old = t->slots;
	uint32_t old_cap = t->cap, cap = old_cap ? old_cap * 2 : FIRST_SLOTS;

	if (!charge(q, cap * sizeof(*slots), err))
		return false;
	slots = new_block(q, cap * sizeof(*slots), true);
	t->slots = slots;
	t->cap = cap;
	for (uint32_t i = 0; i < old_cap; i++)
		if (old[i].value)
			*slot_for(t, old[i].number) = old[i];
	free_block(q, old, old_cap * sizeof(*slots));
	q->memory.heap_bytes -= old_cap * sizeof(*slots);
	return true;
}

static bool list_pages(struct query *q, struct number_table *t, uint64_t need)
{
	uint32_t old_cap = t->page_cap;
	struct err full;

	if (!query_grow(q, &t->pages, &t->page_cap, need, sizeof(*t->pages), &full))
		return false;
	for (uint32_t i = old_cap; i < t->page_cap; i++)
		t->pages[i] = NULL;
	return true;
}

/* Where small numbers lie close together, the page of this one; NULL: the slots are for it. */
static uint32_t *make_page(struct query *q, struct number_table *t, uint64_t number)
{
	const size_t bytes = NUMBER_PAGE * sizeof(uint32_t);
	uint64_t page = number / NUMBER_PAGE;
	struct err full;

	if (number >= PAGED_MOST ||
	    t->page_count >
		    FREE_PAGES + q->memory.limit_bytes / FREE_SHARE / bytes + t->paged / PAGE_FILL)
		return NULL;
	if (!list_pages(q, t, page + 1) || !charge(q, bytes, &full))
		return NULL;
	t->pages[page] = new_block(q, bytes, true);
	t->page_count++;
	return &t->pages[page][number % NUMBER_PAGE];
}

bool number_enter(struct query *q, struct number_table *t, uint64_t number, uint32_t *value,
		  struct err *err)
{
	uint32_t *entry = number_entry(t, number), known = number_find(t, number);
	struct number_slot *slot;

	if (known != UINT32_MAX) {
		*value = known;
		return true;
	}
	if (!entry)
		entry = make_page(q, t, number);
	if (entry) {
		*entry = *value + 1;
		t->paged++;
		return true;
	}
	if (t->used >= t->cap / 4 * 3 && !numbers_double(q, t, err))
		return false;
	slot = slot_for(t, number);
	*slot = (struct number_slot){ number, *value + 1 };
	t->used++;
	return true;
}

bool number_list(const struct number_table *t, uint64_t *out)
{
	if (t->used)
		return false;
	for (uint64_t page = 0; page < t->page_cap; page++)
		for (uint32_t i = 0; t->pages[page] && i < NUMBER_PAGE; i++)
			if (t->pages[page][i])
				*out++ = page * NUMBER_PAGE + i;
	return true;
}

/* Freed before it is taken again, and no more than there was: that cannot fail. */
void number_reset(struct query *q, struct number_table *t, uint32_t count)
{
	uint32_t had = t->cap, cap = FIRST_SLOTS;

	number_release(q, t);
	while (cap < had && count > cap / 4 * 3)
		cap *= 2;
	if (!had || !count)
		return;
	t->slots = new_block(q, cap * sizeof(*t->slots), true);
	t->cap = cap;
	q->memory.heap_bytes += cap * sizeof(*t->slots);
}

void number_release(struct query *q, struct number_table *t)
{
	free_block(q, t->slots, t->cap * sizeof(*t->slots));
	q->memory.heap_bytes -= t->cap * sizeof(*t->slots);
	q->memory.heap_bytes -= (size_t)t->page_count * NUMBER_PAGE * sizeof(uint32_t);
	for (uint32_t i = 0; i < t->page_cap; i++)
		free_block(q, t->pages[i], NUMBER_PAGE * sizeof(uint32_t));
	query_drop(q, &t->pages, &t->page_cap, sizeof(*t->pages));
	*t = (struct number_table){ 0 };
}

/* ---- distinct numbers ---- */

bool number_set_add(struct query *q, struct number_set *s, uint64_t number, struct err *err)
{
	uint32_t at = s->count;

	if (!number_enter(q, &s->met, number, &at, err))
		return false;
	if (at < s->count)
		return true;
	if (!QUERY_ROOM(q, s->ptr, s->cap, s->count + 1u, err))
		return false;
	s->ptr[s->count++] = number;
	return true;
}

void number_set_sort(struct query *q, struct number_set *s)
{
	if (!number_list(&s->met, s->ptr))
		s->count = (uint32_t)id_list_sort(s->ptr, s->count);
	number_release(q, &s->met);
}

void number_set_release(struct query *q, struct number_set *s)
{
	number_release(q, &s->met);
	QUERY_DROP(q, s->ptr, s->cap);
	s->count = 0;
}
