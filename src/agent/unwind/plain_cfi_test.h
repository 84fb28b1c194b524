/*
 * plain_cfi_test.h - a second reader and interpreter of .eh_frame, for tests only: slow, simple,
 * and sharing nothing with the one of the agent but the standard. It keeps a rule for every
 * register, evaluates every expression, and computes values, on a machine whose registers and
 * memory are made up.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_REGISTERS = 100, PLAIN_DEPTH = 64 };

/* A made-up machine: every address holds a number of its own. */
struct plain_machine {
	uint64_t reg[PLAIN_REGISTERS];
	uint64_t secret;
};

static inline uint64_t plain_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64_t plain_memory(const struct plain_machine *m, uint64_t address)
{
	return plain_mix(address ^ m->secret);
}

static inline void plain_machine_make(struct plain_machine *m, uint64_t seed)
{
	m->secret = plain_mix(seed);
	for (int i = 0; i < PLAIN_REGISTERS; i++)
		m->reg[i] = plain_mix(seed * 131 + (uint64_t)i) & UINT64_C(0x7ffffffffff8);
}

struct plain_section {
	const uint8_t *bytes;
	size_t len;
	uint64_t vaddr;
};

struct plain_fde {
	uint64_t begin, end;
	size_t offset;
};

struct plain_rule {
	char how; /* 's' same, 'u' undefined, 'o' at CFA + n, 'v' is CFA + n, 'r' register n, 'e' at
		     expression, 'E' is expression */
	int64_t n;
	const uint8_t *expression;
	size_t expression_len;
};

struct plain_state {
	bool cfa_is_expression, cfa_known;
	uint64_t cfa_register;
	int64_t cfa_offset;
	const uint8_t *cfa_expression;
	size_t cfa_expression_len;
	struct plain_rule rule[PLAIN_REGISTERS];
};

struct plain_cie {
	uint64_t code_factor;
	int64_t data_factor;
	uint64_t ra;
	uint8_t encoding;
	bool sized, signal;
	const uint8_t *program, *end;
};

/* ---- bytes ---- */

static inline uint64_t plain_uint(const uint8_t **p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v |= (uint64_t)(*p)[i] << (8 * i);
	*p += n;
	return v;
}

static inline int64_t plain_int(const uint8_t **p, int n)
{
	uint64_t v = plain_uint(p, n);

	return n == 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * n)) >> (64 - 8 * n);
}

static inline uint64_t plain_uleb(const uint8_t **p)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		uint8_t b = *(*p)++;

		v |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return v;
	}
}

static inline int64_t plain_sleb(const uint8_t **p)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		uint8_t b = *(*p)++;

		v |= (uint64_t)(b & 127) << shift;
		if (b >= 128)
			continue;
		if (b & 64 && shift < 57)
			v |= ~UINT64_C(0) << (shift + 7);
		return (int64_t)v;
	}
}

/* The encodings that linkers for Linux write; another one stops the test. */
static inline uint64_t plain_encoded(const struct plain_section *s, const uint8_t **p,
				     uint8_t encoding, bool relative)
{
	uint64_t at = s->vaddr + (uint64_t)(*p - s->bytes), v;

	switch (encoding & 15) {
	case 0x00:
	case 0x04:
	case 0x0c:
		v = plain_uint(p, 8);
		break;
	case 0x03:
		v = plain_uint(p, 4);
		break;
	case 0x0b:
		v = (uint64_t)plain_int(p, 4);
		break;
	default:
		assert(!"an encoding nobody writes");
	}
	assert((encoding & 0x70) == 0 || (encoding & 0x70) == 0x10);
	return relative && (encoding & 0x70) == 0x10 ? v + at : v;
}

/* ---- entries ---- */

static inline void plain_cie_read(const struct plain_section *s, size_t offset,
				  struct plain_cie *out)
{
	const uint8_t *p = s->bytes + offset, *data;
	uint64_t len = plain_uint(&p, 4);
	const char *letters;
	uint8_t version;

	memset(out, 0, sizeof(*out));
	assert(len && len != 0xffffffff);
	out->end = p + len;
	assert(plain_uint(&p, 4) == 0);
	version = *p++;
	assert(version == 1 || version == 3);
	letters = (const char *)p;
	p += strlen(letters) + 1;
	out->code_factor = plain_uleb(&p);
	out->data_factor = plain_sleb(&p);
	out->ra = version == 1 ? *p++ : plain_uleb(&p);
	if (*letters == 'z') {
		out->sized = true;
		len = plain_uleb(&p);
		data = p + len;
		for (letters++; *letters; letters++) {
			uint8_t encoding;

			switch (*letters) {
			case 'R':
				out->encoding = *p++;
				break;
			case 'L':
				p++;
				break;
			case 'P':
				encoding = *p++;
				plain_encoded(s, &p, encoding & 0x7f, false);
				break;
			case 'S':
				out->signal = true;
				break;
			case 'B':
				break;
			default:
				assert(!"a letter nobody writes");
			}
		}
		p = data;
	}
	out->program = p;
}

/* The FDE's addresses and program; false: the entry is a CIE. */
static inline bool plain_fde_read(const struct plain_section *s, size_t offset,
				  struct plain_fde *fde, struct plain_cie *cie,
				  const uint8_t **program, const uint8_t **end)
{
	const uint8_t *p = s->bytes + offset, *id_at;
	uint64_t len = plain_uint(&p, 4), id;

	*end = p + len;
	id_at = p;
	id = plain_uint(&p, 4);
	if (!id)
		return false;
	plain_cie_read(s, (size_t)(id_at - s->bytes) - id, cie);
	fde->offset = offset;
	fde->begin = plain_encoded(s, &p, cie->encoding, true);
	fde->end = fde->begin + plain_encoded(s, &p, cie->encoding, false);
	if (cie->sized) {
		uint64_t skip = plain_uleb(&p);

		p += skip;
	}
	*program = p;
	return true;
}

static inline int plain_by_begin(const void *a, const void *b)
{
	const struct plain_fde *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* All FDEs, by address. The caller frees. */
static inline struct plain_fde *plain_fdes(const struct plain_section *s, size_t *count)
{
	struct plain_fde *list = NULL, fde;
	const uint8_t *program, *end;
	struct plain_cie cie;
	size_t n = 0;

	for (size_t at = 0; at + 4 <= s->len;) {
		const uint8_t *p = s->bytes + at;
		uint64_t len = plain_uint(&p, 4);

		if (len && plain_fde_read(s, at, &fde, &cie, &program, &end) && fde.begin &&
		    fde.end > fde.begin) {
			if ((n & (n - 1)) == 0)
				list = realloc(list, (n ? 2 * n : 1) * sizeof(*list));
			list[n++] = fde;
		}
		at += 4 + len;
	}
	qsort(list, n, sizeof(*list), plain_by_begin);
	*count = n;
	return list;
}

/* ---- expressions: DWARF 5, 2.5 ---- */

static inline uint64_t plain_evaluate(const struct plain_machine *m, const uint8_t *p, size_t len,
				      bool on_cfa, uint64_t cfa)
{
	const uint8_t *end = p + len;
	uint64_t stack[PLAIN_DEPTH] = { cfa }, a, b;
	int top = on_cfa ? 0 : -1;

	while (p < end) {
		uint8_t op = *p++;

		assert(top < PLAIN_DEPTH - 2);
		if (op >= 0x30 && op <= 0x4f) {
			stack[++top] = op - 0x30;
			continue;
		}
		if (op >= 0x70 && op <= 0x8f) {
			a = m->reg[op - 0x70];
			stack[++top] = a + (uint64_t)plain_sleb(&p);
			continue;
		}
		switch (op) {
		case 0x06:
			stack[top] = plain_memory(m, stack[top]);
			break;
		case 0x08:
			stack[++top] = plain_uint(&p, 1);
			break;
		case 0x09:
			stack[++top] = (uint64_t)plain_int(&p, 1);
			break;
		case 0x0a:
			stack[++top] = plain_uint(&p, 2);
			break;
		case 0x0b:
			stack[++top] = (uint64_t)plain_int(&p, 2);
			break;
		case 0x10:
			stack[++top] = plain_uleb(&p);
			break;
		case 0x11:
			stack[++top] = (uint64_t)plain_sleb(&p);
			break;
		case 0x12:
			stack[top + 1] = stack[top];
			top++;
			break;
		case 0x23:
			stack[top] += plain_uleb(&p);
			break;
		default: /* of two operands */
			b = stack[top--];
			a = stack[top];
			switch (op) {
			case 0x1a:
				a &= b;
				break;
			case 0x1c:
				a -= b;
				break;
			case 0x1e:
				a *= b;
				break;
			case 0x22:
				a += b;
				break;
			case 0x24:
				a <<= b;
				break;
			case 0x2a:
				a = (int64_t)a >= (int64_t)b;
				break;
			default:
				assert(!"an operation this interpreter lacks");
			}
			stack[top] = a;
		}
	}
	assert(top >= 0);
	return stack[top];
}

/* ---- programs ---- */

struct plain_run {
	const struct plain_section *section;
	struct plain_cie cie;
	struct plain_state now, initial, saved[PLAIN_DEPTH];
	int depth;
	uint64_t loc;
	/* Called for each stretch [begin, end) of one state, empty ones left out. */
	void (*stretch)(void *ctx, const struct plain_run *run, uint64_t begin, uint64_t end);
	void *ctx;
};

static inline void plain_set(struct plain_run *r, uint64_t reg, char how, int64_t n)
{
	assert(reg < PLAIN_REGISTERS);
	r->now.rule[reg] = (struct plain_rule){ .how = how, .n = n };
}

static inline void plain_go(struct plain_run *r, uint64_t to)
{
	assert(to >= r->loc);
	if (to > r->loc && r->stretch)
		r->stretch(r->ctx, r, r->loc, to);
	r->loc = to;
}

static inline void plain_instruction(struct plain_run *r, const uint8_t **p)
{
	uint8_t op = *(*p)++;
	uint64_t reg, n;
	int64_t f = r->cie.data_factor;

	switch (op >> 6) {
	case 1:
		plain_go(r, r->loc + (op & 63) * r->cie.code_factor);
		return;
	case 2:
		plain_set(r, op & 63, 'o', (int64_t)plain_uleb(p) * f);
		return;
	case 3:
		r->now.rule[op & 63] = r->initial.rule[op & 63];
		return;
	}
	switch (op) {
	case 0x00:
		return;
	case 0x01:
		plain_go(r, plain_encoded(r->section, p, r->cie.encoding, true));
		return;
	case 0x02:
	case 0x03:
	case 0x04:
		plain_go(r, r->loc + plain_uint(p, 1 << (op - 2)) * r->cie.code_factor);
		return;
	case 0x05:
		reg = plain_uleb(p);
		plain_set(r, reg, 'o', (int64_t)plain_uleb(p) * f);
		return;
	case 0x06:
		reg = plain_uleb(p);
		r->now.rule[reg] = r->initial.rule[reg];
		return;
	case 0x07:
		plain_set(r, plain_uleb(p), 'u', 0);
		return;
	case 0x08:
		plain_set(r, plain_uleb(p), 's', 0);
		return;
	case 0x09:
		reg = plain_uleb(p);
		plain_set(r, reg, 'r', (int64_t)plain_uleb(p));
		return;
	case 0x0a:
		assert(r->depth < PLAIN_DEPTH);
		r->saved[r->depth++] = r->now;
		return;
	case 0x0b:
		assert(r->depth > 0);
		r->now = r->saved[--r->depth];
		return;
	case 0x0c:
	case 0x12:
		r->now.cfa_known = true;
		r->now.cfa_is_expression = false;
		r->now.cfa_register = plain_uleb(p);
		r->now.cfa_offset = op == 0x0c ? (int64_t)plain_uleb(p) : plain_sleb(p) * f;
		return;
	case 0x0d:
		r->now.cfa_is_expression = false;
		r->now.cfa_register = plain_uleb(p);
		return;
	case 0x0e:
		r->now.cfa_offset = (int64_t)plain_uleb(p);
		return;
	case 0x13:
		r->now.cfa_offset = plain_sleb(p) * f;
		return;
	case 0x0f:
		n = plain_uleb(p);
		r->now.cfa_known = r->now.cfa_is_expression = true;
		r->now.cfa_expression = *p;
		r->now.cfa_expression_len = n;
		*p += n;
		return;
	case 0x10:
	case 0x16:
		reg = plain_uleb(p);
		n = plain_uleb(p);
		plain_set(r, reg, op == 0x10 ? 'e' : 'E', 0);
		r->now.rule[reg].expression = *p;
		r->now.rule[reg].expression_len = n;
		*p += n;
		return;
	case 0x11:
		reg = plain_uleb(p);
		plain_set(r, reg, 'o', plain_sleb(p) * f);
		return;
	case 0x14:
		reg = plain_uleb(p);
		plain_set(r, reg, 'v', (int64_t)plain_uleb(p) * f);
		return;
	case 0x15:
		reg = plain_uleb(p);
		plain_set(r, reg, 'v', plain_sleb(p) * f);
		return;
	case 0x2d: /* arm64: signs the return address; it does not move it */
		return;
	case 0x2e:
		plain_uleb(p);
		return;
	case 0x2f:
		reg = plain_uleb(p);
		plain_set(r, reg, 'o', -(int64_t)plain_uleb(p) * f);
		return;
	default:
		assert(!"an instruction this interpreter lacks");
	}
}

/* Runs one FDE and calls `stretch`; r->section, stretch and ctx are set. */
static inline void plain_run_fde(struct plain_run *r, const struct plain_fde *fde)
{
	const uint8_t *program, *end, *p;
	struct plain_fde again;

	assert(plain_fde_read(r->section, fde->offset, &again, &r->cie, &program, &end));
	memset(&r->now, 0, sizeof(r->now));
	for (int i = 0; i < PLAIN_REGISTERS; i++)
		r->now.rule[i].how = 's';
	r->depth = 0;
	r->loc = fde->begin;
	for (p = r->cie.program; p < r->cie.end;)
		plain_instruction(r, &p);
	r->initial = r->now;
	for (p = program; p < end;)
		plain_instruction(r, &p);
	if (r->loc < fde->end)
		plain_go(r, fde->end);
}

/* ---- what a state means on a machine ---- */

struct plain_caller {
	bool known; /* there is a CFA */
	uint64_t cfa, fp, ra;
	bool fp_undefined, ra_undefined;
	bool fp_popped; /* FP's place is below SP */
};

static inline uint64_t plain_value(const struct plain_machine *m, const struct plain_rule *rule,
				   uint64_t reg, uint64_t cfa)
{
	switch (rule->how) {
	case 's':
		return m->reg[reg];
	case 'o':
		return plain_memory(m, cfa + (uint64_t)rule->n);
	case 'v':
		return cfa + (uint64_t)rule->n;
	case 'r':
		return m->reg[rule->n];
	case 'e':
		return plain_memory(
			m, plain_evaluate(m, rule->expression, rule->expression_len, true, cfa));
	case 'E':
		return plain_evaluate(m, rule->expression, rule->expression_len, true, cfa);
	default:
		return 0;
	}
}

/* fp, sp: DWARF's numbers of the machine. */
static inline struct plain_caller plain_unwind(const struct plain_machine *m,
					       const struct plain_run *r, uint64_t fp, uint64_t sp)
{
	const struct plain_state *s = &r->now;
	struct plain_caller c = { .known = s->cfa_known };

	if (!c.known)
		return c;
	c.cfa = s->cfa_is_expression
			? plain_evaluate(m, s->cfa_expression, s->cfa_expression_len, false, 0)
			: m->reg[s->cfa_register] + (uint64_t)s->cfa_offset;
	c.fp_undefined = s->rule[fp].how == 'u';
	c.ra_undefined = s->rule[r->cie.ra].how == 'u';
	c.fp = plain_value(m, &s->rule[fp], fp, c.cfa);
	c.ra = plain_value(m, &s->rule[r->cie.ra], r->cie.ra, c.cfa);
	c.fp_popped = s->rule[fp].how == 'o' && c.cfa + (uint64_t)s->rule[fp].n < m->reg[sp];
	return c;
}
