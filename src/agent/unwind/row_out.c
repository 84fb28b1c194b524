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

static void append(struct row_out *o, uint64_t at, uint16_t rule)
{
	if (o->count == o->cap) {
		o->full = true;
		return;
	}
	o->rows[o->count++] = (struct unwind_row){ .low = (uint16_t)at, .rule = rule };
}

static void append_plain(struct row_out *o, uint64_t at, const struct unwind_rule *rule)
{
	uint16_t index;

	if (!unwind_rules_intern(o->rules, rule, &index)) {
		index = 0;
		o->unruled_rows++;
	}
	append(o, at, index);
}

/* The array of rules has no room for another run: the plain rows that it stands for. */
static void unfold(struct row_out *o)
{
	uint32_t run = o->row.run, at = 0;
	struct unwind_rule plain;

	for (uint32_t i = 0; i <= o->steps; i++) {
		if (i)
			at += run >> (4 * (i - 1)) & 15;
		unwind_rule_at(&o->row, at, 0, &plain);
		append_plain(o, o->row_at + at, &plain);
	}
}

static void write_row(struct row_out *o)
{
	uint16_t index;

	if (o->row.kind != UNWIND_CFA_RUN)
		append_plain(o, o->row_at, &o->row);
	else if (unwind_rules_intern(o->rules, &o->row, &index))
		append(o, o->row_at, index);
	else
		unfold(o);
}

/* ---- runs ---- */

static bool ra_below_cfa(const struct unwind_rule *r)
{
	return r->kind == UNWIND_CFA && r->ra_from == UNWIND_FROM_CFA && r->ra_offset == -8;
}

/* FP's place lies below SP: whoever took it off the stack has FP back in its register. */
static bool fp_below_sp(const struct unwind_rule *r)
{
	return r->cfa_base == UNWIND_REG_SP && r->fp_from == UNWIND_FROM_CFA &&
	       r->fp_offset < -r->cfa_offset;
}

/*
 * Compilers leave the rule for FP as it is when they pop it: its place still holds the value.
 * Saying that FP is back makes the row equal to the next function's first. Only right behind a row
 * where the place was part of the frame: a leaf may keep FP below SP on purpose (the red zone).
 */
static void forget_popped_fp(struct row_out *o)
{
	const struct unwind_rule *before = &o->reached;
	struct unwind_rule *r = &o->next;
	bool same_place = o->has_row && o->said_fp_from == UNWIND_FROM_CFA &&
			  r->fp_from == UNWIND_FROM_CFA && r->fp_offset == o->said_fp_offset;
	bool back = before->fp_from == UNWIND_FROM_SAME;

	o->said_fp_from = r->fp_from;
	o->said_fp_offset = r->fp_offset;
	if (!same_place || !ra_below_cfa(r) || !ra_below_cfa(before) || !fp_below_sp(r))
		return;
	if (!back && fp_below_sp(before))
		return;
	r->fp_from = UNWIND_FROM_SAME;
	r->fp_offset = 0;
}

/* What one step makes of `reached`, in each of its forms. */
static struct unwind_rule after_push(const struct unwind_rule *reached, bool fp)
{
	struct unwind_rule r = *reached;

	r.cfa_offset += 8;
	if (fp) {
		r.fp_from = UNWIND_FROM_CFA;
		r.fp_offset = -r.cfa_offset;
	}
	return r;
}

static struct unwind_rule after_pop(const struct unwind_rule *reached, bool fp)
{
	struct unwind_rule r = *reached;

	r.cfa_offset -= 8;
	if (fp) {
		r.fp_from = UNWIND_FROM_SAME;
		r.fp_offset = 0;
	}
	return r;
}

/* The bits besides the distance that the step from `reached` to `next` takes as number `step`. */
static bool step_bits(const struct unwind_rule *reached, const struct unwind_rule *next,
		      uint32_t step, uint32_t run, uint32_t *bits)
{
	bool pops = run & UNWIND_RUN_POPS, saved = UNWIND_RUN_FP(run);
	bool up = !pops && !UNWIND_RUN_MOVE(run), down = pops || step == 1;
	struct unwind_rule want;

	*bits = 0;
	if (reached->cfa_base != UNWIND_REG_SP)
		return false;
	if (up) {
		want = after_push(reached, false);
		if (unwind_rule_equal(&want, next))
			return true;
		want = after_push(reached, true);
		*bits = step << 24;
		if (!saved && reached->fp_from == UNWIND_FROM_SAME &&
		    unwind_rule_equal(&want, next))
			return true;
		want = *reached;
		want.cfa_base = UNWIND_REG_FP;
		*bits = step << 27;
		if (unwind_rule_equal(&want, next))
			return true;
	}
	if (!down)
		return false;
	want = after_pop(reached, false);
	*bits = UNWIND_RUN_POPS;
	if (unwind_rule_equal(&want, next))
		return true;
	want = after_pop(reached, true);
	*bits = UNWIND_RUN_POPS | step << 24;
	return !saved && unwind_rule_equal(&want, next);
}

/* Is `next` one instruction of a prologue or epilogue behind what the row has reached? Then it
 * becomes a step. */
static bool extend_run(struct row_out *o)
{
	uint64_t distance = o->next_at - o->reached_at;
	uint32_t run = o->steps ? o->row.run : 0, bits;

	if (!o->runs || o->steps == UNWIND_RUN_STEPS || distance > 15 ||
	    !ra_below_cfa(&o->reached) || o->reached.cfa_offset > 1 << 30 ||
	    o->reached.cfa_offset < 8)
		return false;
	if (!step_bits(&o->reached, &o->next, o->steps + 1, run, &bits))
		return false;
	o->row.kind = UNWIND_CFA_RUN;
	o->row.run = run | bits | (uint32_t)distance << (4 * o->steps++);
	return true;
}

/* The newest rule is settled: it is the same as before, a step of a run, or begins a row. */
static void settle(struct row_out *o)
{
	if (o->runs)
		forget_popped_fp(o);
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
