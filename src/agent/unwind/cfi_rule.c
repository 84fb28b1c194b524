#include "agent/unwind/cfi_rule.h"

#include <elf.h>

#include "agent/unwind/cfi_expression.h"
#include "agent/unwind/patterns.h"

/* System V ABI AMD64, figure 3.36 */
static const uint8_t x86_64_registers[16] = {
	UNWIND_REG_RAX, UNWIND_REG_RDX, UNWIND_REG_RCX, UNWIND_REG_RBX,
	UNWIND_REG_RSI, UNWIND_REG_RDI, UNWIND_REG_FP,  UNWIND_REG_SP,
	UNWIND_REG_R8,  UNWIND_REG_R9,  UNWIND_REG_R10, UNWIND_REG_R11,
	UNWIND_REG_R12, UNWIND_REG_R13, UNWIND_REG_R14, UNWIND_REG_R15,
};
enum { ARM64_FP = 29, ARM64_LR = 30, ARM64_SP = 31 }; /* AADWARF64, 4.1 */

bool cfi_machine_of(uint16_t elf_machine, struct cfi_machine *out)
{
	if (elf_machine == EM_X86_64)
		*out = (struct cfi_machine){ .fp = 6, .sp = 7, .extra = CFI_NO_REGISTER };
	else if (elf_machine == EM_AARCH64)
		*out = (struct cfi_machine){ .fp = ARM64_FP,
					     .sp = ARM64_SP,
					     .extra = CFI_NO_REGISTER };
	else
		return false;
	return true;
}

struct conversion {
	uint16_t machine;
	uint32_t ra_column;
	struct unwind_counts *counts;
	struct unwind_rule rule;
};

static uint8_t register_of(uint16_t machine, int64_t dwarf_register)
{
	if (machine == EM_X86_64)
		return dwarf_register >= 0 && dwarf_register < 16 ? x86_64_registers[dwarf_register]
								  : UNWIND_REG_NONE;
	switch (dwarf_register) {
	case ARM64_FP:
		return UNWIND_REG_FP;
	case ARM64_SP:
		return UNWIND_REG_SP;
	case ARM64_LR:
		return UNWIND_REG_LR;
	default:
		return UNWIND_REG_NONE;
	}
}

static bool refuse(struct conversion *c, enum unwind_loss loss)
{
	c->counts->lost[loss]++;
	return false;
}

static bool fits(int64_t v, int32_t *out)
{
	*out = (int32_t)v;
	return v >= INT32_MIN && v <= INT32_MAX;
}

static bool base_plus(struct conversion *c, int64_t dwarf_register, int64_t offset)
{
	c->rule.cfa_base = register_of(c->machine, dwarf_register);
	if (c->rule.cfa_base == UNWIND_REG_NONE)
		return refuse(c, UNWIND_LOSS_REGISTER);
	if (!fits(offset, &c->rule.cfa_offset))
		return refuse(c, UNWIND_LOSS_OFFSET);
	return true;
}

/* CFA = *(base + index * 8 + offset) + post */
static bool cfa_loaded(struct conversion *c, const struct expression_sum *sum)
{
	if (c->machine != EM_X86_64)
		return refuse(c, UNWIND_LOSS_EXPRESSION);
	if (!base_plus(c, sum->base, sum->offset))
		return false;
	c->rule.index = UNWIND_REG_NONE;
	if (sum->index != EXPRESSION_NO_REGISTER) {
		c->rule.index = register_of(c->machine, sum->index);
		if (c->rule.index == UNWIND_REG_NONE)
			return refuse(c, UNWIND_LOSS_REGISTER);
	}
	if (sum->post < INT16_MIN || sum->post > INT16_MAX)
		return refuse(c, UNWIND_LOSS_OFFSET);
	c->rule.post = (int16_t)sum->post;
	c->rule.kind = UNWIND_CFA_DEREF;
	return true;
}

static bool cfa_expression(struct conversion *c, struct bytes expression)
{
	struct expression_sum sum;
	uint8_t threshold;

	if (c->machine == EM_X86_64 && expression_is_plt(expression, &threshold)) {
		c->rule.kind = UNWIND_PLT;
		c->rule.cfa_offset = threshold;
		return true;
	}
	if (!expression_simplify(expression, false, &sum))
		return refuse(c, UNWIND_LOSS_EXPRESSION);
	if (sum.load)
		return cfa_loaded(c, &sum);
	if (sum.index != EXPRESSION_NO_REGISTER)
		return refuse(c, UNWIND_LOSS_EXPRESSION);
	c->rule.kind = UNWIND_CFA;
	return base_plus(c, sum.base, sum.offset);
}

static bool convert_cfa(struct conversion *c, const struct cfi_state *s)
{
	switch (s->cfa_how) {
	case CFA_REGISTER:
		c->rule.kind = UNWIND_CFA;
		return base_plus(c, s->cfa_register, s->cfa_offset);
	case CFA_EXPRESSION:
		return cfa_expression(c, s->cfa_expression);
	default:
		return refuse(c, UNWIND_LOSS_NO_CFA);
	}
}

/* *(sum) as a place: relative to the CFA, to FP or to SP. */
static bool place_of(const struct conversion *c, const struct expression_sum *sum, uint8_t *from,
		     int32_t *offset)
{
	if (sum->index != EXPRESSION_NO_REGISTER || !fits(sum->offset, offset))
		return false;
	if (sum->base == EXPRESSION_CFA) {
		*from = UNWIND_FROM_CFA;
		return true;
	}
	switch (register_of(c->machine, sum->base)) {
	case UNWIND_REG_FP:
		*from = UNWIND_FROM_FP;
		return true;
	case UNWIND_REG_SP:
		*from = UNWIND_FROM_SP;
		return true;
	default:
		return false;
	}
}

/* A value that is a sum or one load: in a register, or at a place. */
static bool value_of(const struct conversion *c, const struct expression_sum *sum, uint8_t *from,
		     int32_t *offset)
{
	uint8_t reg;

	if (sum->load)
		return !sum->post && place_of(c, sum, from, offset);
	reg = register_of(c->machine, sum->base);
	if (sum->index != EXPRESSION_NO_REGISTER || sum->offset || reg == UNWIND_REG_NONE)
		return false;
	*from = UNWIND_FROM_REG + reg;
	*offset = 0;
	return true;
}

/* Where a register's value in the caller is. False: in no way that a rule can say. */
static bool convert_value(const struct conversion *c, const struct cfi_value *v, uint8_t *from,
			  int32_t *offset)
{
	struct expression_sum sum;
	uint8_t reg;

	*offset = 0;
	switch (v->how) {
	case CFI_SAME:
		*from = UNWIND_FROM_SAME;
		return true;
	case CFI_UNDEFINED:
		*from = UNWIND_FROM_LOST;
		return true;
	case CFI_OFFSET:
		*from = UNWIND_FROM_CFA;
		return fits(v->n, offset);
	case CFI_REGISTER:
		reg = register_of(c->machine, v->n);
		*from = UNWIND_FROM_REG + reg;
		return reg != UNWIND_REG_NONE;
	case CFI_EXPRESSION:
		if (!expression_simplify(v->expression, true, &sum) || sum.load)
			return false;
		return place_of(c, &sum, from, offset);
	case CFI_VAL_EXPRESSION:
		return expression_simplify(v->expression, true, &sum) &&
		       value_of(c, &sum, from, offset);
	default:
		return false;
	}
}

/* Kinds without a field for it have the RA at CFA - 8, always. */
static bool convert_ra(struct conversion *c, const struct cfi_value *ra)
{
	bool x86 = c->machine == EM_X86_64;
	int32_t offset;
	uint8_t from;

	if (!convert_value(c, ra, &from, &offset))
		return refuse(c, UNWIND_LOSS_RA);
	if (from == UNWIND_FROM_LOST ||
	    (x86 && from == UNWIND_FROM_CFA && offset >= 0 && c->rule.cfa_base < UNWIND_REG_NONE)) {
		/* Nobody called this: said so, or (musl's __clone) by pointing above the frame.
		 * From another register (setcontext) that is what it will return to. */
		c->rule = (struct unwind_rule){ .kind = UNWIND_STOP };
		return true;
	}
	/* Never saved: it is where the call has put it. */
	if (from == UNWIND_FROM_SAME) {
		from = UNWIND_FROM_REG + register_of(c->machine, c->ra_column);
		if (from == UNWIND_FROM_REG + UNWIND_REG_NONE)
			return refuse(c, UNWIND_LOSS_REGISTER);
	}
	if (from == UNWIND_FROM_REG + UNWIND_REG_LR && !x86)
		from = UNWIND_FROM_SAME;
	if (c->rule.kind != UNWIND_CFA)
		return (from == UNWIND_FROM_CFA && offset == -8) || refuse(c, UNWIND_LOSS_RA);
	c->rule.ra_from = from;
	c->rule.ra_offset = offset;
	return true;
}

/* glibc's __restore_rt and the like: CFA = *(SP + n), where n is the saved rsp's place. */
static struct unwind_rule signal_rule(const struct conversion *c, const struct cfi_state *s)
{
	struct unwind_rule rule = patterns_signal_rule(c->machine);
	struct expression_sum sum;

	if (c->machine == EM_X86_64 && s->cfa_how == CFA_EXPRESSION &&
	    expression_simplify(s->cfa_expression, false, &sum) && sum.load && !sum.post &&
	    register_of(c->machine, sum.base) == UNWIND_REG_SP &&
	    sum.index == EXPRESSION_NO_REGISTER)
		fits(sum.offset - PATTERNS_X86_64_RSP, &rule.cfa_offset);
	return rule;
}

/* rbx too, where it is tracked and saved: only with the usual RA, whose place it takes. */
static void add_rbx(struct unwind_rule *rule, const struct cfi_value *rbx)
{
	int32_t offset;

	if (rbx->how != CFI_OFFSET || !fits(rbx->n, &offset) || rule->kind != UNWIND_CFA ||
	    rule->ra_from != UNWIND_FROM_CFA || rule->ra_offset != -8)
		return;
	rule->kind = UNWIND_CFA_RBX;
	rule->rbx_offset = offset;
}

struct unwind_rule cfi_rule_of(uint16_t elf_machine, uint32_t ra_column,
			       const struct cfi_state *state, bool signal_frame,
			       struct unwind_counts *counts)
{
	struct conversion c = { .machine = elf_machine, .ra_column = ra_column, .counts = counts };

	if (signal_frame)
		return signal_rule(&c, state);
	if (state->ra.how == CFI_UNDEFINED)
		return (struct unwind_rule){ .kind = UNWIND_STOP };
	if (!convert_cfa(&c, state) || !convert_ra(&c, &state->ra))
		return (struct unwind_rule){ .kind = UNWIND_NONE };
	if (c.rule.kind == UNWIND_STOP || c.rule.kind == UNWIND_PLT)
		return c.rule;
	if (!convert_value(&c, &state->fp, &c.rule.fp_from, &c.rule.fp_offset)) {
		counts->lost[UNWIND_LOSS_FP]++;
		c.rule.fp_from = UNWIND_FROM_LOST;
		c.rule.fp_offset = 0;
	}
	add_rbx(&c.rule, &state->extra);
	return c.rule;
}
