#include "query/large_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/vec.h"

enum { PAGE = 2 << 20, ALIGN = 64, GAPS_LOOKED_AT = 32 };

static size_t rounded(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

bool large_pages_map(struct large_pages *l, size_t bytes)
{
	size_t want = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
	char *p = mmap(NULL, want + PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	*l = (struct large_pages){ .bytes = want, .mapped = p, .mapped_bytes = want + PAGE };
	l->base = p + (PAGE - (uintptr_t)p % PAGE) % PAGE;
	(void)madvise(l->base, want, MADV_HUGEPAGE); /* or not: it is a wish */
	return true;
}

void large_pages_release(struct large_pages *l)
{
	if (l->mapped)
		munmap(l->mapped, l->mapped_bytes);
	free(l->gaps);
	*l = (struct large_pages){ 0 };
}

/* ---- gaps ---- */

/* The first one at `at` or behind. */
static uint32_t gap_from(const struct large_pages *l, size_t at)
{
	uint32_t low = 0, high = l->gap_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (l->gaps[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void remove_gap(struct large_pages *l, uint32_t i)
{
	l->gap_count--;
	memmove(l->gaps + i, l->gaps + i + 1, (l->gap_count - i) * sizeof(*l->gaps));
}

static void insert_gap(struct large_pages *l, uint32_t i, struct gap gap)
{
	VEC_ROOM(l->gaps, l->gap_count, l->gap_cap);
	memmove(l->gaps + i + 1, l->gaps + i, (l->gap_count - i) * sizeof(*l->gaps));
	l->gaps[i] = gap;
	l->gap_count++;
}

/* From the gap's beginning. */
static size_t take_of_gap(struct large_pages *l, uint32_t i, size_t bytes)
{
	struct gap *gap = &l->gaps[i];
	size_t at = gap->at;

	assert(gap->bytes >= bytes);
	gap->at += bytes;
	gap->bytes -= bytes;
	if (!gap->bytes)
		remove_gap(l, i);
	return at;
}

static void add_gap(struct large_pages *l, size_t at, size_t bytes)
{
	uint32_t i = gap_from(l, at);

	if (i && l->gaps[i - 1].at + l->gaps[i - 1].bytes == at) {
		at = l->gaps[--i].at;
		bytes += l->gaps[i].bytes;
		remove_gap(l, i);
	}
	if (at + bytes == l->top) {
		l->top = at;
		return;
	}
	if (i < l->gap_count && at + bytes == l->gaps[i].at) {
		l->gaps[i].at = at;
		l->gaps[i].bytes += bytes;
		return;
	}
	insert_gap(l, i, (struct gap){ at, bytes });
}

/* ---- blocks ---- */

static bool take_top(struct large_pages *l, size_t bytes)
{
	if (bytes > l->bytes - l->top)
		return false;
	l->top += bytes;
	return true;
}

static bool find_room(struct large_pages *l, size_t bytes, size_t *at)
{
	for (uint32_t i = 0; i < l->gap_count && i < GAPS_LOOKED_AT; i++)
		if (l->gaps[i].bytes >= bytes) {
			*at = take_of_gap(l, i, bytes);
			return true;
		}
	*at = l->top;
	return take_top(l, bytes);
}

static void touch(struct large_pages *l, size_t end)
{
	l->touched = end > l->touched ? end : l->touched;
}

void *large_pages_take(struct large_pages *l, size_t bytes, bool zeros)
{
	size_t want = rounded(bytes), at, used;

	if (want < bytes || !find_room(l, want, &at))
		return NULL;
	used = l->touched > at ? l->touched - at : 0;
	if (zeros)
		memset(l->base + at, 0, used < bytes ? used : bytes);
	touch(l, at + want);
	return l->base + at;
}

void large_pages_give_back(struct large_pages *l, void *block, size_t bytes)
{
	size_t at = (size_t)((char *)block - l->base);

	assert(large_pages_have(l, block) && at % ALIGN == 0 && rounded(bytes) <= l->top - at);
	add_gap(l, at, rounded(bytes));
}

void large_pages_shrink(struct large_pages *l, void *block, size_t bytes, size_t to)
{
	size_t kept = rounded(to);

	if (kept < rounded(bytes))
		large_pages_give_back(l, (char *)block + kept, bytes - kept);
}

void *large_pages_grow(struct large_pages *l, void *block, size_t bytes, size_t to)
{
	size_t at = (size_t)((char *)block - l->base), end = at + rounded(bytes);
	size_t more = rounded(to) - rounded(bytes);
	uint32_t i;

	assert(to >= bytes && end <= l->top);
	if (end == l->top) {
		if (!take_top(l, more))
			return NULL;
	} else if (more) {
		i = gap_from(l, end);
		if (i == l->gap_count || l->gaps[i].at != end || l->gaps[i].bytes < more)
			return NULL;
		take_of_gap(l, i, more);
	}
	touch(l, end + more);
	return block;
}
