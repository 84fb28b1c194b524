/*
 * body_in.c - a body while it comes in: one growing block, charged to the budget as it fills.
 *
 * The peer's announcement sizes the block, but only up to FIRST_MOST before bytes have come, and
 * what is charged follows what came, in steps: an announcement alone costs neither memory nor
 * budget.
 */
#include <assert.h>
#include <stdlib.h>

#include "net/server_internal.h"

enum {
	FIRST_MOST = 256 * 1024,
	FIRST_UNKNOWN = 4096,
	CHARGE_SMALL = 4096,
	CHARGE_STEP = 64 * 1024
};

static size_t cap_wanted(const struct body_in *b, size_t need, size_t limit)
{
	size_t most = b->announced < limit ? b->announced : limit;
	size_t cap;

	if (!b->blob)
		cap = b->announced == SIZE_MAX ? FIRST_UNKNOWN : FIRST_MOST;
	else
		cap = b->blob->cap > SIZE_MAX / 2 ? SIZE_MAX : b->blob->cap * 2;
	if (cap < need)
		cap = need;
	if (cap > most && most >= need)
		cap = most;
	return cap;
}

static void body_grow(struct body_in *b, size_t need, size_t limit)
{
	size_t cap = cap_wanted(b, need, limit);
	char *heap;

	if (!b->blob) {
		b->blob = blob_new(cap);
		return;
	}
	heap = realloc(b->blob->ptr, cap);
	assert(heap);
	b->blob->ptr = heap;
	b->blob->cap = cap;
}

static bool body_charge(struct blob *blob, size_t need, struct budget *budget)
{
	/* Small steps at first: many streams with a byte each should not hold the whole budget. */
	size_t step = need < CHARGE_STEP ? CHARGE_SMALL : CHARGE_STEP;
	size_t want = need + step - need % step;

	if (!budget || need <= blob->charged_bytes)
		return true;
	if (want > blob->cap)
		want = blob->cap;
	if (!budget_take(budget, want - blob->charged_bytes))
		return false;
	blob->budget = budget;
	blob->charged_bytes = want;
	return true;
}

enum body_verdict body_append(struct body_in *b, struct str bytes, size_t limit,
			      struct budget *budget)
{
	size_t have = b->blob ? b->blob->len : 0;

	if (bytes.len > limit - have)
		return BODY_TOO_LARGE;
	if (!b->blob || bytes.len > b->blob->cap - have)
		body_grow(b, have + bytes.len, limit);
	if (!body_charge(b->blob, have + bytes.len, budget)) {
		blob_unref(b->blob);
		b->blob = NULL;
		return BODY_NO_MEMORY;
	}
	memcpy(b->blob->ptr + have, bytes.ptr, bytes.len);
	b->blob->len += bytes.len;
	return BODY_OK;
}

struct blob *body_take(struct body_in *b)
{
	struct blob *blob = b->blob ? b->blob : blob_new(0);
	char *heap;

	b->blob = NULL;
	/* What was reserved for bytes that did not come is given back when it is much. */
	if (blob->cap - blob->len > blob->cap / 2 && blob->cap > FIRST_UNKNOWN) {
		heap = realloc(blob->ptr, blob->len ? blob->len : 1);
		if (heap) {
			blob->ptr = heap;
			blob->cap = blob->len;
		}
	}
	return blob;
}
