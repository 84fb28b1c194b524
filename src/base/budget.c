#include "base/budget.h"

#include <assert.h>
#include <stdint.h>

void budget_init(struct budget *b, size_t limit_bytes)
{
	atomic_init(&b->used_bytes, 0);
	atomic_init(&b->peak_bytes, 0);
	b->limit_bytes = limit_bytes;
}

static void peak_raise(struct budget *b, size_t used)
{
	size_t peak = atomic_load_explicit(&b->peak_bytes, memory_order_relaxed);

	while (used > peak &&
	       !atomic_compare_exchange_weak_explicit(&b->peak_bytes, &peak, used,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

bool budget_take(struct budget *b, size_t bytes)
{
	size_t limit = b->limit_bytes ? b->limit_bytes : SIZE_MAX;
	size_t used = atomic_load_explicit(&b->used_bytes, memory_order_relaxed);

	do {
		if (used > limit || bytes > limit - used)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&b->used_bytes, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
	peak_raise(b, used + bytes);
	return true;
}

void budget_give(struct budget *b, size_t bytes)
{
	size_t before = atomic_fetch_sub_explicit(&b->used_bytes, bytes, memory_order_relaxed);

	assert(before >= bytes);
}

size_t budget_used(struct budget *b)
{
	return atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
}
