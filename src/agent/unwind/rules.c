#include "agent/unwind/rules.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_SLOTS = 1024 };

static uint32_t rule_hash(const struct unwind_rule *rule)
{
	uint64_t w[2];

	memcpy(w, rule, sizeof(w));
	w[0] = (w[0] ^ (w[1] * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(w[0] >> 32);
}

static uint16_t *slots_new(uint32_t count)
{
	uint16_t *slots = calloc(count, sizeof(*slots));

	assert(slots);
	return slots;
}

void unwind_rules_init(struct unwind_rules *r, struct unwind_rule *array, uint32_t cap)
{
	assert(cap >= 1 && cap <= UNWIND_RULES_MOST);
	*r = (struct unwind_rules){ .array = array, .count = 1, .cap = cap };
	array[0] = (struct unwind_rule){ .kind = UNWIND_NONE };
	r->slots = slots_new(FIRST_SLOTS);
	r->slot_mask = FIRST_SLOTS - 1;
}

void unwind_rules_release(struct unwind_rules *r)
{
	free(r->slots);
	*r = (struct unwind_rules){ 0 };
}

/* The slot that holds an equal rule, or the free one where it belongs. */
static uint16_t *slot_of(const struct unwind_rules *r, const struct unwind_rule *rule)
{
	uint32_t at = rule_hash(rule) & r->slot_mask;

	while (r->slots[at] && !unwind_rule_equal(&r->array[r->slots[at]], rule))
		at = (at + 1) & r->slot_mask;
	return &r->slots[at];
}

static void slots_grow(struct unwind_rules *r)
{
	uint32_t count = (r->slot_mask + 1) * 2;

	free(r->slots);
	r->slots = slots_new(count);
	r->slot_mask = count - 1;
	for (uint32_t i = 1; i < r->count; i++)
		*slot_of(r, &r->array[i]) = (uint16_t)i;
}

bool unwind_rules_intern(struct unwind_rules *r, const struct unwind_rule *rule, uint16_t *index)
{
	/* The last eighth is for rules without which rows would be lost; a run can be unfolded. */
	uint32_t limit = rule->kind == UNWIND_CFA_RUN ? r->cap - r->cap / 8 : r->cap;
	uint16_t *slot;

	if (rule->kind == UNWIND_NONE) {
		*index = 0;
		return true;
	}
	slot = slot_of(r, rule);
	if (!*slot) {
		if (r->count >= limit)
			return false;
		if (r->count > r->slot_mask / 2) {
			slots_grow(r);
			slot = slot_of(r, rule);
		}
		r->array[r->count] = *rule;
		*slot = (uint16_t)r->count++;
	}
	*index = *slot;
	return true;
}
