#include "agent/unwind/cfi_program.h"

/* DWARF 5, table 7.29, and the extensions that gcc and binutils write */
enum {
	DW_CFA_ADVANCE_LOC = 0x40, /* the low six bits are an operand */
	DW_CFA_OFFSET = 0x80,
	DW_CFA_RESTORE = 0xc0,
	DW_CFA_NOP = 0x00,
	DW_CFA_SET_LOC = 0x01,
	DW_CFA_ADVANCE_LOC1 = 0x02,
	DW_CFA_ADVANCE_LOC2 = 0x03,
	DW_CFA_ADVANCE_LOC4 = 0x04,
	DW_CFA_OFFSET_EXTENDED = 0x05,
	DW_CFA_RESTORE_EXTENDED = 0x06,
	DW_CFA_UNDEFINED = 0x07,
	DW_CFA_SAME_VALUE = 0x08,
	DW_CFA_REGISTER = 0x09,
	DW_CFA_REMEMBER_STATE = 0x0a,
	DW_CFA_RESTORE_STATE = 0x0b,
	DW_CFA_DEF_CFA = 0x0c,
	DW_CFA_DEF_CFA_REGISTER = 0x0d,
	DW_CFA_DEF_CFA_OFFSET = 0x0e,
	DW_CFA_DEF_CFA_EXPRESSION = 0x0f,
	DW_CFA_EXPRESSION = 0x10,
	DW_CFA_OFFSET_EXTENDED_SF = 0x11,
	DW_CFA_DEF_CFA_SF = 0x12,
	DW_CFA_DEF_CFA_OFFSET_SF = 0x13,
	DW_CFA_VAL_OFFSET = 0x14,
	DW_CFA_VAL_OFFSET_SF = 0x15,
	DW_CFA_VAL_EXPRESSION = 0x16,
	DW_CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	DW_CFA_AARCH64_NEGATE_RA_STATE_PC = 0x2c,
	DW_CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* GNU_window_save elsewhere */
	DW_CFA_GNU_ARGS_SIZE = 0x2e,
	DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

struct run {
	struct byte_reader r;
	const struct cfi_cie *cie;
	const struct cfi_section *section;
	const struct cfi_machine *machine;
	const struct cfi_state *initial; /* NULL: these are the initial instructions */
	struct cfi_state now;
	struct cfi_state remembered[CFI_REMEMBER_MOST];
	uint32_t depth;
	uint64_t loc;
	bool changed; /* since the last row */
	bool too_deep;
	const struct cfi_sink *sink;
};

/* The rule of a register we track, else one that nobody reads. */
static struct cfi_value *rule_of(struct run *p, uint64_t dwarf_register, struct cfi_value *ignored)
{
	if (dwarf_register == p->machine->fp) {
		p->changed = true;
		return &p->now.fp;
	}
	if (dwarf_register == p->cie->ra_column) {
		p->changed = true;
		return &p->now.ra;
	}
	if (dwarf_register == p->machine->extra) {
		p->changed = true;
		return &p->now.extra;
	}
	return ignored;
}

static void set_rule(struct run *p, uint64_t dwarf_register, enum cfi_how how, int64_t n)
{
	struct cfi_value ignored;

	*rule_of(p, dwarf_register, &ignored) = (struct cfi_value){ .how = how, .n = n };
}

static int64_t factored(const struct run *p, int64_t n)
{
	return (int64_t)((uint64_t)n * (uint64_t)p->cie->data_alignment);
}

static struct bytes read_block(struct byte_reader *r)
{
	uint64_t len = read_uleb128(r);
	struct bytes b = { r->ptr, 0 };

	if (len > byte_reader_left(r)) {
		r->failed = true;
		return b;
	}
	b.len = len;
	r->ptr += len;
	return b;
}

static void restore_rule(struct run *p, uint64_t dwarf_register)
{
	struct cfi_value ignored;
	struct cfi_value *rule = rule_of(p, dwarf_register, &ignored);

	if (!p->initial)
		*rule = (struct cfi_value){ 0 };
	else if (rule == &p->now.fp)
		*rule = p->initial->fp;
	else if (rule == &p->now.ra)
		*rule = p->initial->ra;
	else if (rule == &p->now.extra)
		*rule = p->initial->extra;
}

static void define_cfa(struct run *p, uint64_t dwarf_register, int64_t offset)
{
	p->now.cfa_how = CFA_REGISTER;
	p->now.cfa_register = dwarf_register > UINT32_MAX ? UINT32_MAX : (uint32_t)dwarf_register;
	p->now.cfa_offset = offset;
	p->changed = true;
}

/* The state up to here becomes a row; the address moves on. */
static void advance(struct run *p, uint64_t to)
{
	if (p->changed && to != p->loc && p->sink)
		p->sink->row(p->sink->ctx, p->loc, &p->now);
	if (to != p->loc)
		p->changed = false;
	p->loc = to;
}

static void advance_by(struct run *p, uint64_t delta)
{
	advance(p, p->loc + delta * p->cie->code_alignment);
}

static bool remember(struct run *p)
{
	p->too_deep = p->depth == CFI_REMEMBER_MOST;
	if (p->too_deep)
		return false;
	p->remembered[p->depth++] = p->now;
	return true;
}

static bool recall(struct run *p)
{
	p->too_deep = p->depth == 0;
	if (p->too_deep)
		return false;
	p->now = p->remembered[--p->depth];
	p->changed = true;
	return true;
}

static void set_expression(struct run *p, enum cfi_how how)
{
	struct cfi_value ignored;
	struct cfi_value *rule = rule_of(p, read_uleb128(&p->r), &ignored);

	*rule = (struct cfi_value){ .how = how, .expression = read_block(&p->r) };
}

static void set_loc(struct run *p)
{
	/* The same encoding as the FDE's own address, which cfi_read.c knows how to read. */
	uint64_t to = cfi_read_pointer(p->section, &p->r, p->cie->pointer_encoding);

	if (to > p->loc)
		advance(p, to);
}

/* One instruction without its operand in the opcode. False: the program ends here. */
static bool step_extended(struct run *p, uint8_t op)
{
	struct byte_reader *r = &p->r;
	uint64_t reg;

	switch (op) {
	case DW_CFA_NOP:
	case DW_CFA_AARCH64_NEGATE_RA_STATE: /* the walker strips signatures from every address */
	case DW_CFA_AARCH64_NEGATE_RA_STATE_PC:
		return true;
	case DW_CFA_SET_LOC:
		set_loc(p);
		return true;
	case DW_CFA_ADVANCE_LOC1:
		advance_by(p, read_u8(r));
		return true;
	case DW_CFA_ADVANCE_LOC2:
		advance_by(p, read_u16(r));
		return true;
	case DW_CFA_ADVANCE_LOC4:
		advance_by(p, read_u32(r));
		return true;
	case DW_CFA_MIPS_ADVANCE_LOC8:
		advance_by(p, read_u64(r));
		return true;
	case DW_CFA_OFFSET_EXTENDED:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_OFFSET, factored(p, (int64_t)read_uleb128(r)));
		return true;
	case DW_CFA_OFFSET_EXTENDED_SF:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_OFFSET, factored(p, read_sleb128(r)));
		return true;
	case DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_OFFSET, factored(p, (int64_t)(0 - read_uleb128(r))));
		return true;
	case DW_CFA_VAL_OFFSET:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_VAL_OFFSET, factored(p, (int64_t)read_uleb128(r)));
		return true;
	case DW_CFA_VAL_OFFSET_SF:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_VAL_OFFSET, factored(p, read_sleb128(r)));
		return true;
	case DW_CFA_RESTORE_EXTENDED:
		restore_rule(p, read_uleb128(r));
		return true;
	case DW_CFA_UNDEFINED:
		set_rule(p, read_uleb128(r), CFI_UNDEFINED, 0);
		return true;
	case DW_CFA_SAME_VALUE:
		set_rule(p, read_uleb128(r), CFI_SAME, 0);
		return true;
	case DW_CFA_REGISTER:
		reg = read_uleb128(r);
		set_rule(p, reg, CFI_REGISTER, (int64_t)read_uleb128(r));
		return true;
	case DW_CFA_REMEMBER_STATE:
		return remember(p);
	case DW_CFA_RESTORE_STATE:
		return recall(p);
	case DW_CFA_DEF_CFA:
		reg = read_uleb128(r);
		define_cfa(p, reg, (int64_t)read_uleb128(r));
		return true;
	case DW_CFA_DEF_CFA_SF:
		reg = read_uleb128(r);
		define_cfa(p, reg, factored(p, read_sleb128(r)));
		return true;
	case DW_CFA_DEF_CFA_REGISTER:
		define_cfa(p, read_uleb128(r), p->now.cfa_offset);
		return true;
	case DW_CFA_DEF_CFA_OFFSET:
		p->now.cfa_offset = (int64_t)read_uleb128(r);
		p->changed = true;
		return true;
	case DW_CFA_DEF_CFA_OFFSET_SF:
		p->now.cfa_offset = factored(p, read_sleb128(r));
		p->changed = true;
		return true;
	case DW_CFA_DEF_CFA_EXPRESSION:
		p->now.cfa_how = CFA_EXPRESSION;
		p->now.cfa_expression = read_block(r);
		p->changed = true;
		return true;
	case DW_CFA_EXPRESSION:
		set_expression(p, CFI_EXPRESSION);
		return true;
	case DW_CFA_VAL_EXPRESSION:
		set_expression(p, CFI_VAL_EXPRESSION);
		return true;
	case DW_CFA_GNU_ARGS_SIZE:
		read_uleb128(r);
		return true;
	default:
		return false;
	}
}

static bool step(struct run *p)
{
	uint8_t op = read_u8(&p->r);

	switch (op & 0xc0) {
	case DW_CFA_ADVANCE_LOC:
		advance_by(p, op & 0x3f);
		return true;
	case DW_CFA_OFFSET:
		set_rule(p, op & 0x3f, CFI_OFFSET, factored(p, (int64_t)read_uleb128(&p->r)));
		return true;
	case DW_CFA_RESTORE:
		restore_rule(p, op & 0x3f);
		return true;
	default:
		return step_extended(p, op);
	}
}

/* Runs up to the end of the program, or to `end`. False, and counted: it cannot be run further. */
static bool run(struct run *p, uint64_t end, struct unwind_counts *counts)
{
	while (p->r.ptr < p->r.end && p->loc < end) {
		if (step(p) && !p->r.failed)
			continue;
		counts->lost[p->too_deep ? UNWIND_LOSS_DEPTH : UNWIND_LOSS_OPCODE]++;
		return false;
	}
	return true;
}

bool cfi_initial_state(const struct cfi_cie *cie, const struct cfi_section *s,
		       const struct cfi_machine *m, struct cfi_state *out,
		       struct unwind_counts *counts)
{
	struct run p;

	p.r = byte_reader_of(cie->program);
	p.cie = cie;
	p.section = s;
	p.machine = m;
	p.initial = NULL;
	p.now = (struct cfi_state){ 0 };
	p.depth = 0;
	p.loc = 0;
	p.changed = p.too_deep = false;
	p.sink = NULL;
	if (!run(&p, UINT64_MAX, counts))
		return false;
	*out = p.now;
	return true;
}

void cfi_program_run(const struct cfi_fde *fde, const struct cfi_cie *cie,
		     const struct cfi_section *s, const struct cfi_machine *m,
		     const struct cfi_state *initial, const struct cfi_sink *sink,
		     struct unwind_counts *counts)
{
	struct run p;

	/* Field by field: clearing what is remembered would cost more than the program. */
	p.r = byte_reader_of(fde->program);
	p.cie = cie;
	p.section = s;
	p.machine = m;
	p.initial = initial;
	p.now = *initial;
	p.depth = 0;
	p.loc = fde->begin;
	p.changed = true;
	p.too_deep = false;
	p.sink = sink;
	counts->fdes++;
	if (!run(&p, fde->end, counts)) {
		/* What held before is no longer known to hold. */
		sink->row(sink->ctx, p.loc, NULL);
		return;
	}
	if (p.changed && p.loc < fde->end)
		sink->row(sink->ctx, p.loc, &p.now);
}
