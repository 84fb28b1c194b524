#include "agent/unwind/row_out.h"

#include <assert.h>

void row_out_init(struct row_out *o, struct unwind_rules *rules, uint64_t from, uint64_t to,
		  struct unwind_row *rows, uint32_t cap)
{
	assert(from < to && (from >> UNWIND_PAGE_SHIFT) == ((to - 1) >> UNWIND_PAGE_SHIFT));
	*o = (struct row_out){
		.from = from,
		.to = to,
		.rules = rules,
		.rows = rows,
		.cap = cap,
		.runs = true,
		.next = { .kind = UNWIND_NONE },
		.next_at = from,
	};
}

static void write_row(struct row_out *o)
{
	uint16_t index;

	if (!unwind_rules_intern(o->rules, &o->row, &index)) {
		index = 0;
		o->unruled_rows++;
	}
	if (o->count == o->cap) {
		o->full = true;
		return;
	}
	o->rows[o->count++] = (struct unwind_row){ .low = (uint16_t)o->row_at, .rule = index };
}

/* What a run can be made of: SP, the RA below the CFA. */
static bool may_run(const struct unwind_rule *r)
{
	return r->kind == UNWIND_CFA && r->cfa_base == UNWIND_REG_SP &&
	       r->ra_from == UNWIND_FROM_CFA && r->ra_offset == -8;
}

/* Is `next`, at next_at, one push or pop behind what the row has reached? Then it becomes a step. */
static bool extend_run(struct row_out *o)
{
	struct unwind_rule moved = o->reached;
	uint64_t distance = o->next_at - o->reached_at;
	bool pop = o->next.cfa_offset < o->reached.cfa_offset;

	if (!o->runs || o->steps == UNWIND_RUN_STEPS || distance > 15 || !may_run(&o->reached))
		return false;
	if (o->steps && pop != !!(o->row.run & UNWIND_RUN_POPS))
		return false;
	if (__builtin_add_overflow(moved.cfa_offset, pop ? -8 : 8, &moved.cfa_offset) ||
	    !unwind_rule_equal(&moved, &o->next))
		return false;
	if (!o->steps) {
		o->row.kind = UNWIND_CFA_RUN;
		o->row.run = pop ? UNWIND_RUN_POPS : 0;
	}
	o->row.run |= (uint32_t)distance << (4 * o->steps++);
	return true;
}

/* The newest rule is settled: it is the same as before, a step of a run, or begins a row. */
static void settle(struct row_out *o)
{
	if (o->has_row && unwind_rule_equal(&o->reached, &o->next))
		return;
	o->plain_rows++;
	if (!o->has_row || !extend_run(o)) {
		if (o->has_row)
			write_row(o);
		o->row = o->next;
		o->row_at = o->next_at;
		o->steps = 0;
		o->has_row = true;
	}
	o->reached = o->next;
	o->reached_at = o->next_at;
}

void row_out_put(struct row_out *o, uint64_t elf_vaddr, const struct unwind_rule *rule)
{
	if (elf_vaddr >= o->to)
		return;
	if (elf_vaddr < o->from)
		elf_vaddr = o->from;
	if (elf_vaddr < o->next_at) /* goes back: what was said first stays */
		return;
	if (elf_vaddr > o->next_at)
		settle(o);
	o->next = *rule;
	o->next_at = elf_vaddr;
}

void row_out_finish(struct row_out *o)
{
	settle(o);
	write_row(o);
}
