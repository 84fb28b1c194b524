#include "model/intern.h"
#include <assert.h>
#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

static struct intern_slot *slots_new(uint32_t count)
{
	struct intern_slot *slots = calloc(count, sizeof(*slots));

	assert(slots);
	return slots;
}

void intern_init(struct intern_table *t)
{
	*t = (struct intern_table){ .slots = slots_new(FIRST_SLOTS), .mask = FIRST_SLOTS - 1 };
}

void intern_release(struct intern_table *t)
{
	free(t->slots);
	*t = (struct intern_table){ 0 };
}

/* Only the upper half of the hash is kept, so the slot comes from it, too. */
static uint32_t slot_of(uint32_t hash, uint32_t mask)
{
	return (hash ^ hash >> 15) & mask;
}

static void table_double(struct intern_table *t)
{
	uint32_t mask = t->mask * 2 + 1;
	struct intern_slot *slots = slots_new(mask + 1);

	assert(mask > t->mask);
	for (uint32_t i = 0; i <= t->mask; i++) {
		uint32_t at;

		if (!t->slots[i].entry)
			continue;
		at = slot_of(t->slots[i].hash, mask);
		while (slots[at].entry)
			at = (at + 1) & mask;
		slots[at] = t->slots[i];
	}
	free(t->slots);
	t->slots = slots;
	t->mask = mask;
}

uint32_t intern_find_or_add(struct intern_table *t, uint64_t hash, intern_same_fn *same,
			    const void *ctx, const void *key, uint32_t next)
{
	uint32_t h = (uint32_t)(hash >> 32);
	uint32_t at = slot_of(h, t->mask);

	assert(next < UINT32_MAX);
	while (t->slots[at].entry) {
		if (t->slots[at].hash == h && same(ctx, t->slots[at].entry - 1, key))
			return t->slots[at].entry - 1;
		at = (at + 1) & t->mask;
	}
	t->slots[at] = (struct intern_slot){ .hash = h, .entry = next + 1 };
	t->used++;
	if (t->used > t->mask - t->mask / 4)
		table_double(t);
	return UINT32_MAX;
}

size_t intern_bytes(const struct intern_table *t)
{
	return ((size_t)t->mask + 1) * sizeof(*t->slots);
}
