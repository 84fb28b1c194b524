#include "agent/unwind/cfi_expression.h"

/* DWARF 5, table 7.9 */
enum {
	DW_OP_DEREF = 0x06,
	DW_OP_CONST1U = 0x08,
	DW_OP_CONST1S = 0x09,
	DW_OP_CONST2U = 0x0a,
	DW_OP_CONST2S = 0x0b,
	DW_OP_CONST4U = 0x0c,
	DW_OP_CONST4S = 0x0d,
	DW_OP_CONST8U = 0x0e,
	DW_OP_CONST8S = 0x0f,
	DW_OP_CONSTU = 0x10,
	DW_OP_CONSTS = 0x11,
	DW_OP_DUP = 0x12,
	DW_OP_MINUS = 0x1c,
	DW_OP_MUL = 0x1e,
	DW_OP_PLUS = 0x22,
	DW_OP_PLUS_UCONST = 0x23,
	DW_OP_SHL = 0x24,
	DW_OP_LIT0 = 0x30,
	DW_OP_LIT31 = 0x4f,
	DW_OP_BREG0 = 0x70,
	DW_OP_BREG31 = 0x8f,
	DW_OP_BREGX = 0x92,
	DW_OP_NOP = 0x96,
	STACK_MOST = 8,
};

struct stack {
	struct expression_sum at[STACK_MOST];
	uint32_t depth;
};

static bool push(struct stack *s, int32_t base, int64_t offset)
{
	if (s->depth == STACK_MOST)
		return false;
	s->at[s->depth++] = (struct expression_sum){ .base = base,
						     .index = EXPRESSION_NO_REGISTER,
						     .offset = offset };
	return true;
}

static bool is_constant(const struct expression_sum *v)
{
	return !v->load && v->base == EXPRESSION_NO_REGISTER && v->index == EXPRESSION_NO_REGISTER;
}

static bool add_constant(struct expression_sum *v, int64_t n)
{
	int64_t *to = v->load ? &v->post : &v->offset;

	return !__builtin_add_overflow(*to, n, to);
}

/* a + b, where at most one of both has each part. */
static bool add(struct expression_sum *a, const struct expression_sum *b)
{
	struct expression_sum other = *b;

	if (is_constant(b))
		return add_constant(a, b->offset);
	if (is_constant(a)) {
		int64_t n = a->offset;

		*a = other;
		return add_constant(a, n);
	}
	if (a->load || b->load)
		return false;
	if ((a->base != EXPRESSION_NO_REGISTER && b->base != EXPRESSION_NO_REGISTER) ||
	    (a->index != EXPRESSION_NO_REGISTER && b->index != EXPRESSION_NO_REGISTER))
		return false;
	if (b->base != EXPRESSION_NO_REGISTER)
		a->base = b->base;
	if (b->index != EXPRESSION_NO_REGISTER)
		a->index = b->index;
	return add_constant(a, b->offset);
}

/* A register by itself, eight times: becomes an index. Constants multiply. */
static bool multiply(struct expression_sum *a, const struct expression_sum *b)
{
	if (!is_constant(b))
		return false;
	if (is_constant(a))
		return !__builtin_mul_overflow(a->offset, b->offset, &a->offset);
	if (a->load || a->offset || a->base < 0 || a->index != EXPRESSION_NO_REGISTER ||
	    b->offset != 8)
		return false;
	a->index = a->base;
	a->base = EXPRESSION_NO_REGISTER;
	return true;
}

static bool binary(struct stack *s, uint8_t op)
{
	struct expression_sum *a, b;

	if (s->depth < 2)
		return false;
	b = s->at[--s->depth];
	a = &s->at[s->depth - 1];
	switch (op) {
	case DW_OP_PLUS:
		return add(a, &b);
	case DW_OP_MINUS:
		return is_constant(&b) && b.offset != INT64_MIN && add_constant(a, -b.offset);
	case DW_OP_SHL:
		if (!is_constant(&b) || b.offset < 0 || b.offset > 32)
			return false;
		b.offset = INT64_C(1) << b.offset;
		return multiply(a, &b);
	default:
		return multiply(a, &b);
	}
}

static bool step(struct stack *s, struct byte_reader *r)
{
	uint8_t op = read_u8(r);
	struct expression_sum *top = s->depth ? &s->at[s->depth - 1] : NULL;
	uint64_t n;

	if (op >= DW_OP_LIT0 && op <= DW_OP_LIT31)
		return push(s, EXPRESSION_NO_REGISTER, op - DW_OP_LIT0);
	if (op >= DW_OP_BREG0 && op <= DW_OP_BREG31)
		return push(s, op - DW_OP_BREG0, read_sleb128(r));
	switch (op) {
	case DW_OP_NOP:
		return true;
	case DW_OP_BREGX:
		n = read_uleb128(r);
		return n <= INT32_MAX && push(s, (int32_t)n, read_sleb128(r));
	case DW_OP_CONST1U:
		return push(s, EXPRESSION_NO_REGISTER, read_u8(r));
	case DW_OP_CONST1S:
		return push(s, EXPRESSION_NO_REGISTER, (int8_t)read_u8(r));
	case DW_OP_CONST2U:
		return push(s, EXPRESSION_NO_REGISTER, read_u16(r));
	case DW_OP_CONST2S:
		return push(s, EXPRESSION_NO_REGISTER, (int16_t)read_u16(r));
	case DW_OP_CONST4U:
		return push(s, EXPRESSION_NO_REGISTER, read_u32(r));
	case DW_OP_CONST4S:
		return push(s, EXPRESSION_NO_REGISTER, (int32_t)read_u32(r));
	case DW_OP_CONST8U:
	case DW_OP_CONST8S:
		return push(s, EXPRESSION_NO_REGISTER, (int64_t)read_u64(r));
	case DW_OP_CONSTU:
		return push(s, EXPRESSION_NO_REGISTER, (int64_t)read_uleb128(r));
	case DW_OP_CONSTS:
		return push(s, EXPRESSION_NO_REGISTER, read_sleb128(r));
	case DW_OP_DEREF:
		if (!top || top->load)
			return false;
		top->load = true;
		return true;
	case DW_OP_DUP:
		if (!top || s->depth == STACK_MOST)
			return false;
		s->at[s->depth] = *top;
		s->depth++;
		return true;
	case DW_OP_PLUS_UCONST:
		n = read_uleb128(r);
		return top && n <= INT64_MAX && add_constant(top, (int64_t)n);
	case DW_OP_PLUS:
	case DW_OP_MINUS:
	case DW_OP_MUL:
	case DW_OP_SHL:
		return binary(s, op);
	default:
		return false;
	}
}

bool expression_simplify(struct bytes expression, bool on_cfa, struct expression_sum *out)
{
	struct stack s = { .depth = 0 };
	struct byte_reader r = byte_reader_of(expression);

	if (on_cfa && !push(&s, EXPRESSION_CFA, 0))
		return false;
	while (r.ptr < r.end)
		if (!step(&s, &r) || r.failed)
			return false;
	if (!s.depth)
		return false;
	*out = s.at[s.depth - 1];
	return true;
}

bool expression_is_plt(struct bytes expression, uint8_t *threshold)
{
	/* breg7 (rsp) 8; breg16 (rip) 0; lit15; and; litN; ge; lit3; shl; plus */
	static const uint8_t form[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a,
					0x00, 0x2a, 0x33, 0x24, 0x22 };
	enum { LIT_N = 6 };
	uint8_t lit;

	if (expression.len != sizeof(form))
		return false;
	lit = expression.ptr[LIT_N];
	if (memcmp(expression.ptr, form, LIT_N) != 0 ||
	    memcmp(expression.ptr + LIT_N + 1, form + LIT_N + 1, sizeof(form) - LIT_N - 1) != 0 ||
	    lit < DW_OP_LIT0 || lit > DW_OP_LIT0 + 16)
		return false;
	*threshold = lit - DW_OP_LIT0;
	return true;
}
