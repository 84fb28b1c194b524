#include "base/arena_mark.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK_BYTES_LEAST = 256,
	BLOCK_BYTES_MOST =
		1024 *
		1024, /* blocks stop doubling here; one large allocation may still be larger */
};

struct arena_block {
	struct arena_block *next; /* the older one */
	size_t data_bytes;
	char data[] __attribute__((aligned(8)));
};

void arena_init(struct arena *a, size_t first_block_bytes, size_t limit_bytes)
{
	*a = (struct arena){
		.limit_bytes = limit_bytes,
		.block_bytes = first_block_bytes < BLOCK_BYTES_LEAST
				       ? BLOCK_BYTES_LEAST
				       : (first_block_bytes + 7) & ~(size_t)7,
	};
}

static void blocks_free(struct arena_block *b)
{
	while (b) {
		struct arena_block *older = b->next;

		free(b);
		b = older;
	}
}

void arena_release(struct arena *a)
{
	blocks_free(a->blocks);
	a->blocks = NULL;
	a->next = a->end = NULL;
	a->reserved_bytes = 0;
}

static void arena_use_block(struct arena *a, struct arena_block *b)
{
	a->next = b->data;
	a->end = b->data + b->data_bytes;
}

void arena_reset(struct arena *a)
{
	struct arena_block **link = &a->blocks, **largest = &a->blocks, *kept;

	if (!a->blocks)
		return;
	for (; *link; link = &(*link)->next)
		if ((*link)->data_bytes > (*largest)->data_bytes)
			largest = link;
	kept = *largest;
	*largest = kept->next;
	blocks_free(a->blocks);
	kept->next = NULL;
	a->blocks = kept;
	a->reserved_bytes = sizeof(*kept) + kept->data_bytes;
	arena_use_block(a, kept);
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
	while (a->blocks != mark.block) {
		struct arena_block *newest = a->blocks;

		assert(newest);
		a->blocks = newest->next;
		a->reserved_bytes -= sizeof(*newest) + newest->data_bytes;
		free(newest);
	}
	a->next = mark.next;
	a->end = mark.end;
}

/* A new block of at least `bytes`; near the limit a smaller one than usual rather than none. */
static struct arena_block *block_new(struct arena *a, size_t bytes)
{
	size_t data_bytes = bytes > a->block_bytes ? bytes : a->block_bytes;
	struct arena_block *b;

	if (a->limit_bytes) {
		size_t left =
			a->limit_bytes > a->reserved_bytes ? a->limit_bytes - a->reserved_bytes : 0;

		if (left < sizeof(*b) || left - sizeof(*b) < bytes)
			return NULL;
		if (data_bytes > left - sizeof(*b))
			data_bytes = (left - sizeof(*b)) & ~(size_t)7;
	}
	if (data_bytes > SIZE_MAX / 2)
		return NULL;
	b = malloc(sizeof(*b) + data_bytes);
	if (!b) {
		/* A single huge wish is the input's fault and refused; failing to get a usual block
		 * is not survivable. */
		assert(data_bytes > BLOCK_BYTES_MOST);
		return NULL;
	}
	b->data_bytes = data_bytes;
	a->reserved_bytes += sizeof(*b) + data_bytes;
	if (a->block_bytes < BLOCK_BYTES_MOST)
		a->block_bytes *= 2;
	return b;
}

void *arena_alloc_slow(struct arena *a, size_t bytes)
{
	size_t n = bytes ? (bytes + 7) & ~(size_t)7 : 8;
	struct arena_block *b;
	size_t left = (size_t)(a->end - a->next);

	if (n < bytes)
		return NULL;
	if (n <= left) { /* no bytes asked of a block with room */
		a->next += n;
		return a->next - n;
	}
	b = block_new(a, n);
	if (!b)
		return NULL;
	b->next = a->blocks;
	a->blocks = b;
	/* The block with more room behind the allocation serves the next ones. */
	if (b->data_bytes - n >= left) {
		a->next = b->data + n;
		a->end = b->data + b->data_bytes;
	}
	return b->data;
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
	void *p = arena_alloc(a, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	return arena_alloc(a, bytes);
}

void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
	size_t old_n = (old_bytes + 7) & ~(size_t)7;
	size_t new_n = (new_bytes + 7) & ~(size_t)7;
	void *p;

	if (new_bytes <= old_bytes && old)
		return old;
	if (new_n < new_bytes)
		return NULL;
	if (old && (char *)old + old_n == a->next && new_n - old_n <= (size_t)(a->end - a->next)) {
		a->next += new_n - old_n;
		return old;
	}
	p = arena_alloc(a, new_bytes);
	if (p && old_bytes)
		memcpy(p, old, old_bytes);
	return p;
}
