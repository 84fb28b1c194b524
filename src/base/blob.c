#include "base/blob.h"

#include <assert.h>
#include <stdlib.h>

#include "base/budget.h"

struct blob *blob_adopt(char *heap, size_t len)
{
	struct blob *b = calloc(1, sizeof(*b));

	assert(b);
	atomic_init(&b->refs, 1);
	b->ptr = heap;
	b->len = b->cap = len;
	return b;
}

struct blob *blob_new(size_t cap)
{
	char *heap = malloc(cap ? cap : 1);
	struct blob *b;

	assert(heap);
	b = blob_adopt(heap, 0);
	b->cap = cap;
	return b;
}

struct blob *blob_copy(struct str bytes)
{
	struct blob *b = blob_new(bytes.len);

	if (bytes.len)
		memcpy(b->ptr, bytes.ptr, bytes.len);
	b->len = bytes.len;
	return b;
}

struct blob *blob_ref(struct blob *b)
{
	unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

	assert(before > 0);
	return b;
}

void blob_unref(struct blob *b)
{
	/* Acquire and release: what other holders did with the bytes is done before they are freed.
	 */
	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (b->budget)
		budget_give(b->budget, b->charged_bytes);
	free(b->ptr);
	free(b);
}
