#include "agent/unwind/layers.h"

#include <elf.h>

#include "agent/unwind/patterns.h"

enum {
	GAP_ALWAYS_PADDING = 15,
	GAP_MAYBE_PADDING = 63,
	ENTRY_BYTES = 64, /* of code at the entry point: more than any libc's _start has */
	PLT_ENTRY = 16,
};

static struct bytes code_at(const struct unwind_tables *t, uint64_t from, uint64_t to)
{
	struct bytes code = elf_file_at_vaddr(t->file, from);

	if (code.len > to - from)
		code.len = (size_t)(to - from);
	return code;
}

/* Nobody executes what fills the space between two functions: the rule before may go on. */
static bool is_padding(const struct unwind_tables *t, const struct row_out *o, uint64_t from,
		       uint64_t to)
{
	if (from == o->from || to == o->to || to - from > GAP_MAYBE_PADDING)
		return false;
	return to - from <= GAP_ALWAYS_PADDING ||
	       patterns_is_padding(t->machine, code_at(t, from, to));
}

static void put_kind(struct row_out *o, uint64_t elf_vaddr, enum unwind_kind kind)
{
	const struct unwind_rule rule = { .kind = (uint8_t)kind };

	row_out_put(o, elf_vaddr, &rule);
}

/*
 * The call of rt_sigreturn somewhere in code without CFI (musl): its rule holds from the byte
 * before it on, as it is returned to, never called.
 */
static void put_sigreturns(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to)
{
	static const uint8_t x86[] = { 0x0f, 0x00, 0x00, 0x00 }, arm[] = { 0x68, 0x11, 0x80, 0xd2 };
	const struct unwind_rule rule = patterns_signal_rule(t->machine);
	const uint8_t *number = t->machine == EM_X86_64 ? x86 : arm;
	/* From the number to the end of the call. */
	size_t behind = t->machine == EM_X86_64 ? sizeof(x86) + 2 : sizeof(arm) + 4;
	struct bytes code = code_at(t, from, to), form;

	for (size_t at = 0; at < code.len;) {
		const uint8_t *hit = memmem(code.ptr + at, code.len - at, number, sizeof(x86));
		size_t back = 0; /* from the number to the begin of the instruction */

		if (!hit)
			return;
		at = (size_t)(hit - code.ptr);
		if (t->machine == EM_X86_64 && at >= 1)
			back = code.ptr[at - 1] == 0xc0 ? 3 : 1;
		if (at >= back && bytes_part(code, at - back, code.len - (at - back), &form) &&
		    patterns_is_sigreturn(t->machine, form)) {
			row_out_put(o, from + (at - back) - (at > back), &rule);
			put_kind(o, from + at + behind, UNWIND_NONE);
		}
		at += sizeof(x86);
	}
}

static void put_plt(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to)
{
	const struct unwind_rule jumps = { .kind = UNWIND_CFA,
					   .cfa_base = UNWIND_REG_SP,
					   .cfa_offset = 8,
					   .ra_from = UNWIND_FROM_CFA,
					   .ra_offset = -8 };
	struct unwind_rule rule = jumps;
	uint8_t threshold;
	struct bytes code = code_at(t, from, to);

	if (t->machine == EM_AARCH64) {
		rule = (struct unwind_rule){ .kind = UNWIND_CFA, .cfa_base = UNWIND_REG_SP };
	} else if (code.len >= 2 * PLT_ENTRY && code.ptr[0] == 0xff && code.ptr[1] == 0x35) {
		/* The first entry pushes once more, behind the others' push. */
		rule.cfa_offset = 16;
		row_out_put(o, from, &rule);
		rule.cfa_offset = 24;
		row_out_put(o, from + 6, &rule);
		rule = jumps;
		from += PLT_ENTRY;
		code = code_at(t, from, to);
	}
	if (t->machine == EM_X86_64 && patterns_plt_entry(code, &threshold) &&
	    threshold < PLT_ENTRY)
		rule = (struct unwind_rule){ .kind = UNWIND_PLT, .cfa_offset = threshold };
	row_out_put(o, from, &rule);
}

/*
 * _init and _fini, put together by the linker from the pieces of crti.o and crtn.o, none of which
 * has CFI: SUB $8, RSP; calls; ADD $8, RSP; RET. Another shape gets no rule.
 */
static void put_init(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to)
{
	static const uint8_t sub[] = { 0x48, 0x83, 0xec, 0x08 }, add[] = { 0x48, 0x83, 0xc4, 0x08 };
	struct unwind_rule rule = { .kind = UNWIND_CFA,
				    .cfa_base = UNWIND_REG_SP,
				    .cfa_offset = 8,
				    .ra_from = UNWIND_FROM_CFA,
				    .ra_offset = -8 };
	struct bytes code = code_at(t, from, to);
	const uint8_t *down, *up;

	if (t->machine != EM_X86_64 || !code.len)
		return;
	down = memmem(code.ptr, code.len, sub, sizeof(sub));
	up = memmem(code.ptr, code.len, add, sizeof(add));
	if (!down || !up || up < down)
		return;
	row_out_put(o, from, &rule);
	rule.cfa_offset = 16;
	row_out_put(o, from + (uint64_t)(down - code.ptr) + sizeof(sub), &rule);
	rule.cfa_offset = 8;
	row_out_put(o, from + (uint64_t)(up - code.ptr) + sizeof(add), &rule);
}

/* Only where both neighbours have CFI: what is cut by the page's edge is not seen whole. */
static void put_small_frame(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to)
{
	struct unwind_rule rule = { .kind = UNWIND_CFA,
				    .cfa_base = UNWIND_REG_SP,
				    .cfa_offset = 8,
				    .ra_from = UNWIND_FROM_CFA,
				    .ra_offset = -8 };
	struct small_frame f;

	if (t->machine != EM_X86_64 || from == o->from || to == o->to ||
	    !patterns_small_frame(code_at(t, from, to), from, &f))
		return;
	row_out_put(o, from + f.begin, &rule);
	rule.cfa_offset = (int32_t)(8 + f.bytes);
	row_out_put(o, from + f.made, &rule);
	rule.cfa_offset = 8;
	row_out_put(o, from + f.undone, &rule);
	put_kind(o, from + f.undone + 1, UNWIND_NONE);
}

static void put_special(struct unwind_tables *t, struct row_out *o, const struct special *s,
			uint64_t from, uint64_t to)
{
	switch (s->kind) {
	case SPECIAL_PLT:
		put_plt(t, o, from, to);
		break;
	case SPECIAL_ENTRY:
		put_kind(o, from, UNWIND_STOP);
		break;
	case SPECIAL_INIT:
		put_init(t, o, from, to);
		break;
	}
	put_kind(o, to, UNWIND_NONE);
}

void layer_fill_gaps(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to)
{
	uint64_t at = from;

	if (is_padding(t, o, from, to))
		return;
	put_kind(o, from, UNWIND_NONE);
	for (uint32_t i = 0; i < t->special_count && at < to; i++) {
		const struct special *s = &t->specials[i];
		uint64_t begin = s->begin > at ? s->begin : at, end = s->end < to ? s->end : to;

		/* An entry point with CFI is none of ours, nor what follows it. */
		if (begin >= end || (s->kind == SPECIAL_ENTRY && s->begin < from))
			continue;
		put_sigreturns(t, o, at, begin);
		put_special(t, o, s, begin, end);
		at = end;
	}
	if (at >= to)
		return;
	put_sigreturns(t, o, at, to);
	if (at == from)
		put_small_frame(t, o, from, to);
}
