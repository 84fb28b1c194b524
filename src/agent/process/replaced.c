#include "agent/process/replaced.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/process/modules.h"
#include "base/clock.h"

#define FORGET_NS (10 * SECOND_NS) /* all samples from before have come by then */

static void forget_old(struct replaced *r, uint64_t now_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->count; i++) {
		if (r->list[i].until_ns < now_ns && now_ns - r->list[i].until_ns > FORGET_NS)
			module_unref(r->list[i].module);
		else
			r->list[kept++] = r->list[i];
	}
	r->count = kept;
}

static void add(struct replaced **at, const struct replaced_code *code)
{
	struct replaced *r = *at;

	if (!r) {
		r = calloc(1, sizeof(*r));
		assert(r);
		*at = r;
	}
	forget_old(r, code->from_ns);
	if (r->count < REPLACED_MOST) {
		r->list[r->count] = *code;
		module_ref(r->list[r->count++].module);
		return;
	}
	for (uint32_t i = 0; i < r->count; i++)
		module_unref(r->list[i].module);
	r->list[0] =
		(struct replaced_code){ .from_ns = r->list[0].from_ns, .until_ns = UINT64_MAX };
	r->count = 1;
}

/* The first mapping that ends behind `start`. */
static uint32_t first_beyond(const struct mapping_set *set, uint64_t start)
{
	uint32_t low = 0, high = set->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (set->list[middle].end > start)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool replaced_note(struct replaced **r, const struct mapping_set *set, const struct mapping *m,
		   uint64_t time_ns)
{
	bool any = false;

	for (uint32_t i = first_beyond(set, m->start);
	     i < set->count && set->list[i].start < m->end; i++) {
		const struct mapping *old = &set->list[i];
		struct replaced_code code = { .from_ns = time_ns, .until_ns = UINT64_MAX };

		if (!module_bias(old, &code.load_bias) ||
		    (old->module == m->module &&
		     old->start - old->file_offset == m->start - m->file_offset))
			continue;
		code.start = old->start > m->start ? old->start : m->start;
		code.end = old->end < m->end ? old->end : m->end;
		code.module = old->module->same;
		add(r, &code);
		any = true;
	}
	return any;
}

void replaced_known(struct replaced *r, uint64_t now_ns)
{
	for (uint32_t i = 0; r && i < r->count; i++)
		if (r->list[i].until_ns == UINT64_MAX)
			r->list[i].until_ns = now_ns;
}

const struct replaced_code *replaced_find(const struct replaced *r, uint64_t time_ns,
					  const struct module *module, uint64_t elf_vaddr)
{
	for (uint32_t i = 0; r && i < r->count; i++) {
		const struct replaced_code *c = &r->list[i];
		uint64_t pc = elf_vaddr + c->load_bias;

		if (time_ns < c->from_ns || time_ns > c->until_ns)
			continue;
		if (!c->module || (c->module == module && pc >= c->start && pc < c->end))
			return c;
	}
	return NULL;
}

void replaced_free(struct replaced **at)
{
	struct replaced *r = *at;

	for (uint32_t i = 0; r && i < r->count; i++)
		module_unref(r->list[i].module);
	free(r);
	*at = NULL;
}
