/*
 * The rules of Go's functions, out of the same pc -> stack depth tables that its own tracebacks
 * use: the CFA is SP + depth + 8 (x86-64) at every instruction, prologues, leaves and assembly
 * included.
 *
 *   x86-64   RA at CFA - 8; the caller's FP at CFA - 16 where the function saves it: pushed
 * (Go 1.21 and later), or stored behind the SUB (before) arm64    frame: RA at SP, FP at SP - 8; no
 * frame: RA in LR
 *
 * Functions that leave their stack need more: systemstack and asmcgocall run what they call on the
 * thread's stack with FP still at the goroutine's frame, or their caller's before Go 1.21; mcall
 * never returns; morestack clears FP. Source: src/runtime/asm_amd64.s, asm_arm64.s,
 * sys_linux_amd64.s of Go 1.13 to 1.26.
 */
#include "agent/unwind/layers.h"

#include <elf.h>

#include "agent/unwind/patterns.h"

enum go_special {
	GO_USUAL,
	GO_STOP, /* nobody called it, or it has left its caller for good */
	GO_SIGRETURN,
	GO_OTHER_STACK, /* calls on another stack; FP leads back */
	GO_SYSTEMSTACK, /* as well; without a frame of its own the goroutine leads back */
	GO_MORESTACK,
};

static enum go_special special_of(struct str name)
{
	static const struct {
		const char *name;
		enum go_special special;
	} table[] = {
		{ "goexit", GO_STOP },
		{ "mstart", GO_STOP },
		{ "rt0_go", GO_STOP },
		{ "gogo", GO_STOP },
		{ "mcall", GO_STOP },
		{ "sigreturn", GO_SIGRETURN },
		{ "sigreturn__sigaction", GO_SIGRETURN },
		{ "systemstack", GO_SYSTEMSTACK },
		{ "asmcgocall", GO_OTHER_STACK },
		{ "asmcgocall_landingpad", GO_OTHER_STACK },
		{ "nanotime1", GO_OTHER_STACK },
		{ "walltime", GO_OTHER_STACK },
		{ "walltime1", GO_OTHER_STACK },
		{ "vgetrandom1", GO_OTHER_STACK },
		{ "morestack", GO_MORESTACK },
	};

	if (str_has_prefix(name, STR("_rt0_")) || str_is(name, "gogo")) /* gogo<> of runtime.gogo */
		return GO_STOP;
	if (str_is(name, "time.now"))
		return GO_OTHER_STACK;
	if (!str_has_prefix(name, STR("runtime.")))
		return GO_USUAL;
	name = str_skip(name, sizeof("runtime.") - 1);
	if (str_has_suffix(name, STR(".abi0")))
		name.len -= sizeof(".abi0") - 1;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (str_is(name, table[i].name))
			return table[i].special;
	return GO_USUAL;
}

struct go_fill {
	struct unwind_tables *t;
	struct row_out *out;
	uint64_t from, to; /* rows are clipped to this */
	uint32_t i;        /* this function */
	struct pclntab_function f;
	struct bytes code; /* its bytes */
};

static void put(struct go_fill *g, uint64_t at, const struct unwind_rule *rule)
{
	if (at < g->to)
		row_out_put(g->out, at < g->from ? g->from : at, rule);
}

static void put_kind(struct go_fill *g, uint64_t at, enum unwind_kind kind)
{
	const struct unwind_rule rule = { .kind = (uint8_t)kind };

	put(g, at, &rule);
}

static struct bytes code_of(const struct unwind_tables *t, const struct pclntab_function *f)
{
	struct bytes code = elf_file_at_vaddr(t->file, f->begin);

	if (code.len > f->end - f->begin)
		code.len = (size_t)(f->end - f->begin);
	return code;
}

/* The first place of an instruction, with `more` bytes behind it. */
static const uint8_t *code_find(struct bytes code, const uint8_t *form, size_t len, size_t more)
{
	const uint8_t *hit = code.len ? memmem(code.ptr, code.len, form, len) : NULL;

	return hit && (size_t)(code.ptr + code.len - hit) >= len + more ? hit : NULL;
}

/* Bytes of the function at an address, as far as they go. */
static bool code_is(const struct go_fill *g, uint64_t at, const uint8_t *form, size_t len)
{
	struct bytes code;

	return bytes_part(g->code, at - g->f.begin, len, &code) && !memcmp(code.ptr, form, len);
}

/*
 * Does the function keep its caller's FP at CFA - 16? `at` is where the depth first grows: behind
 * PUSHQ BP, or behind SUBQ $n, SP and before MOVQ BP, n-8(SP).
 */
static bool saves_fp(const struct go_fill *g, uint64_t at)
{
	static const uint8_t push[] = { 0x55 };
	static const uint8_t store8[] = { 0x48, 0x89, 0x6c, 0x24 };
	static const uint8_t store32[] = { 0x48, 0x89, 0xac, 0x24 };

	return (at > g->f.begin && code_is(g, at - 1, push, sizeof(push))) ||
	       code_is(g, at, store8, sizeof(store8)) || code_is(g, at, store32, sizeof(store32));
}

static struct unwind_rule depth_rule(uint16_t machine, int32_t depth, bool fp_saved)
{
	struct unwind_rule rule = { .kind = UNWIND_CFA, .cfa_base = UNWIND_REG_SP };

	if (machine == EM_AARCH64) {
		rule.cfa_offset = depth;
		if (depth) {
			rule.fp_from = rule.ra_from = UNWIND_FROM_SP;
			rule.fp_offset = -8;
		}
		return rule;
	}
	rule.cfa_offset = depth + 8;
	rule.ra_from = UNWIND_FROM_CFA;
	rule.ra_offset = -8;
	if (depth > 0 && fp_saved) {
		rule.fp_from = UNWIND_FROM_CFA;
		rule.fp_offset = -16;
	}
	return rule;
}

/* PUSHQ BP; MOVQ SP, BP with the depth grown behind the push: from `at` + 3 on FP is the frame's,
 * and compiled code never uses it for anything else. */
static bool moves_fp(const struct go_fill *g, uint64_t at)
{
	static const uint8_t prologue[] = { 0x55, 0x48, 0x89, 0xe5 };

	return g->t->machine == EM_X86_64 && at > g->f.begin &&
	       code_is(g, at - 1, prologue, sizeof(prologue));
}

static bool keeps_fp(const struct go_fill *g, uint64_t at)
{
	return g->f.compiled && moves_fp(g, at);
}

/* MOVQ BP, n-8(SP); LEAQ n-8(SP), BP behind SUBQ $n, SP: from `at` + 10 on FP is the frame's. */
static bool leads_fp(const struct go_fill *g, uint64_t at)
{
	static const uint8_t store[] = { 0x48, 0x89, 0x6c, 0x24 };
	static const uint8_t lea[] = { 0x48, 0x8d, 0x6c, 0x24 };

	return code_is(g, at, store, sizeof(store)) && code_is(g, at + 5, lea, sizeof(lea));
}

/* MOVQ n-8(SP), BP; ADDQ $n, SP at the end of a stretch: in between FP is the caller's already. */
static bool gives_fp_back(const struct go_fill *g, uint64_t end)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x6c, 0x24 }, add[] = { 0x48, 0x83, 0xc4 };

	return end - g->f.begin >= 9 && code_is(g, end - 9, load, sizeof(load)) &&
	       code_is(g, end - 4, add, sizeof(add));
}

/* The rule of each stretch of equal depth. other_stack: where there is a frame, by FP. */
static void fill_by_depth(struct go_fill *g, bool other_stack)
{
	static const struct unwind_rule by_fp = { .kind = UNWIND_CFA,
						  .cfa_base = UNWIND_REG_FP,
						  .cfa_offset = 16,
						  .fp_from = UNWIND_FROM_CFA,
						  .fp_offset = -16,
						  .ra_from = UNWIND_FROM_CFA,
						  .ra_offset = -8 };
	struct pclntab_walk w = pclntab_walk(&g->t->go, &g->f, g->f.pcsp);
	bool fp_saved = false, fp_kept = false, grown = false;
	struct unwind_rule rule;

	/* No table: a function without a frame, all of it. */
	rule = depth_rule(g->t->machine, 0, false);
	put(g, g->f.begin, &rule);
	while (pclntab_next(&w)) {
		bool first = w.value > 0 && !grown;

		if (first) {
			grown = true;
			fp_saved = saves_fp(g, w.begin);
			fp_kept = keeps_fp(g, w.begin);
		}
		/* -8: rawVforkSyscall takes the RA off the stack and keeps it; it is still there.
		 */
		if (w.value < (g->t->machine == EM_X86_64 ? -8 : 0) || w.value > INT32_MAX - 8) {
			put_kind(g, w.begin, UNWIND_NONE);
			continue;
		}
		rule = depth_rule(g->t->machine, w.value, fp_saved);
		if (other_stack && w.value > 0 && first && moves_fp(g, w.begin)) {
			put(g, w.begin, &rule); /* FP is not the frame's yet */
			rule = (struct unwind_rule){ .kind = UNWIND_FP_OTHER_STACK };
			put(g, w.begin + 3, &rule);
			continue;
		}
		if (other_stack && w.value > 0) {
			rule = depth_rule(g->t->machine, w.value, false);
			put(g, w.begin, &rule);
			put_kind(g, w.begin + (first && leads_fp(g, w.begin) ? 10 : 0),
				 UNWIND_FP_OTHER_STACK);
			if (gives_fp_back(g, w.end))
				put(g, w.end - 4, &rule);
			continue;
		}
		if (fp_kept && !first && w.value >= 8)
			rule = by_fp;
		put(g, w.begin, &rule);
		if (fp_kept && first && !other_stack)
			put(g, w.begin + 3, &by_fp);
	}
	if (w.r.failed) {
		g->t->counts.lost[UNWIND_LOSS_PCLNTAB]++;
		put_kind(g, w.end, UNWIND_NONE);
	}
}

/* MOVQ n(reg), SP at p: where SP comes back, or goes to. */
static bool loads_sp(const uint8_t *p, uint32_t *reg)
{
	if (p[0] != 0x48 || p[1] != 0x8b || (p[2] & 0xc0) != 0x40 || (p[2] & 7) == 4 || p[3] != 56)
		return false;
	*reg = p[2] >> 3 & 7;
	return true;
}

/* MOVQ reg, SP in the next few instructions (Go until 1.18 lays a return address there before). */
static bool moves_to_sp(struct bytes code, size_t at, uint32_t reg, size_t *behind)
{
	enum { NEAR = 32, SP = 4 };

	for (size_t i = at; i < at + NEAR && i + 3 <= code.len; i++) {
		const uint8_t *p = code.ptr + i;

		if (p[0] == 0x48 && p[1] == 0x89 && p[2] == (0xc0 | reg << 3 | SP)) {
			*behind = i + 3;
			return true;
		}
	}
	return false;
}

/*
 * systemstack's like without a frame of their own (before Go 1.21): FP is their caller's, so what
 * follows is right but for the caller itself. With the switch in the middle, it holds from the
 * load of g0's stack pointer on: MOVQ 56(reg), SP, or by way of another register. `back` is where
 * SP is the goroutine's again, the function's end if that is not found.
 */
static bool find_switch(const struct go_fill *g, uint64_t *behind, uint64_t *back)
{
	enum { SP = 4 };
	bool found = false;
	uint32_t reg;

	*back = g->f.end;
	for (size_t i = 0; i + 4 <= g->code.len; i++) {
		size_t at = i + 4;

		if (!loads_sp(g->code.ptr + i, &reg) ||
		    (reg != SP && (found || !moves_to_sp(g->code, at, reg, &at))))
			continue;
		if (found) {
			*back = g->f.begin + at;
			break;
		}
		*behind = g->f.begin + at;
		found = true;
	}
	return found;
}

static bool has_frame(const struct go_fill *g)
{
	struct pclntab_walk w = pclntab_walk(&g->t->go, &g->f, g->f.pcsp);

	while (pclntab_next(&w))
		if (w.value > 0)
			return saves_fp(g, w.begin);
	return false;
}

/* Offset of curg in Go's m, out of systemstack: CMPQ AX, m_curg(BX). */
static bool curg_in(struct bytes code, int32_t *offset)
{
	static const uint8_t compare[] = { 0x48, 0x3b, 0x83 };
	const uint8_t *hit = code_find(code, compare, sizeof(compare), sizeof(*offset));

	if (!hit)
		return false;
	memcpy(offset, hit + sizeof(compare), sizeof(*offset));
	return *offset > 0 && *offset < 4096;
}

/* Where the thread has its g: 64 48 8b 04 25 <i32>   MOVQ (TLS), AX, or into other registers. */
static bool tls_in(struct bytes code, int32_t *offset)
{
	static const uint8_t load_g[] = { 0x64, 0x48, 0x8b };
	const uint8_t *tls = code_find(code, load_g, sizeof(load_g), 6);

	if (!tls || (tls[3] & 0xc7) != 0x04 || tls[4] != 0x25)
		return false;
	memcpy(offset, tls + 5, sizeof(*offset));
	return true;
}

static void fill_other_stack(struct go_fill *g, enum go_special special)
{
	const struct unwind_rule frameless = depth_rule(g->t->machine, 0, false);
	struct unwind_rule away = { .kind = UNWIND_GO_SYSTEMSTACK };
	uint64_t behind, back;

	if (g->t->machine != EM_X86_64 || has_frame(g)) {
		fill_by_depth(g, true);
		return;
	}
	fill_by_depth(g, false);
	if (!find_switch(g, &behind, &back))
		return;
	if (special != GO_SYSTEMSTACK || !curg_in(g->code, &away.fp_offset) ||
	    !tls_in(g->code, &away.cfa_offset))
		away = (struct unwind_rule){ .kind = UNWIND_FP_OTHER_STACK };
	put(g, behind, &away);
	put(g, back, &frameless);
}

/* The same out of systemstack, which stands near. */
static bool find_curg(const struct go_fill *g, int32_t *offset)
{
	enum { NEAR = 32 };
	uint32_t first = g->i > NEAR ? g->i - NEAR : 0;

	for (uint32_t i = first; i < g->i; i++) {
		struct pclntab_function f;

		if (pclntab_function(&g->t->go, i, &f) &&
		    special_of(pclntab_name(&g->t->go, &f)) == GO_SYSTEMSTACK)
			return curg_in(code_of(g->t, &f), offset);
	}
	return false;
}

/*
 * Behind the switch morestack runs newstack with FP 0, and all that is known of the goroutine lies
 * in its g. The offsets that differ between versions are taken out of the instructions, the one of
 * BP in it from 48 89 6f <i8>: MOVQ BP, (g_sched+gobuf_bp)(DI).
 */
static bool morestack_rule(const struct go_fill *g, struct unwind_rule *rule)
{
	static const uint8_t store_bp[] = { 0x48, 0x89, 0x6f };
	const uint8_t *bp = code_find(g->code, store_bp, sizeof(store_bp), 1);

	*rule = (struct unwind_rule){ .kind = UNWIND_GO_MORESTACK };
	if (!bp || !tls_in(g->code, &rule->cfa_offset) || !find_curg(g, &rule->fp_offset))
		return false;
	rule->go_bp = bp[3]; /* below 128, or it were no 8 bit offset */
	return true;
}

static void fill_morestack(struct go_fill *g)
{
	struct unwind_rule rule;
	uint64_t behind, back;

	fill_by_depth(g, false);
	if (g->t->machine != EM_X86_64 || !find_switch(g, &behind, &back))
		return;
	if (!morestack_rule(g, &rule))
		rule = (struct unwind_rule){ .kind = UNWIND_STOP };
	put(g, behind, &rule);
}

static void fill_function(struct go_fill *g, enum go_special special)
{
	struct unwind_rule rule;

	switch (special) {
	case GO_STOP:
		put_kind(g, g->f.begin, UNWIND_STOP);
		break;
	case GO_SIGRETURN:
		rule = patterns_signal_rule(g->t->machine);
		put(g, g->f.begin - 1, &rule);
		break;
	case GO_OTHER_STACK:
	case GO_SYSTEMSTACK:
		fill_other_stack(g, special);
		break;
	case GO_MORESTACK:
		fill_morestack(g);
		break;
	case GO_USUAL:
		fill_by_depth(g, false);
		break;
	}
}

/* Does function i have a rule in [from, to)? A signal handler returns to the first byte of
 * sigreturn, so that it is looked up one byte before. */
static bool touches(const struct go_fill *g, enum go_special special)
{
	return g->f.begin < g->to || (special == GO_SIGRETURN && g->f.begin == g->to);
}

void layer_fill_go(struct unwind_tables *t, uint32_t layer, struct row_out *o, uint64_t from,
		   uint64_t to)
{
	const struct pclntab *go = &t->go;
	struct go_fill g = { .t = t, .out = o, .from = from, .to = to };
	uint64_t begin = pclntab_begin(go, 0), end = pclntab_begin(go, go->function_count);

	if (from < begin)
		layer_fill(t, layer + 1, o, from, begin < to ? begin : to);
	for (g.i = pclntab_find(go, from); g.i < go->function_count; g.i++) {
		enum go_special special;

		if (pclntab_begin(go, g.i) > to)
			break;
		if (!pclntab_function(go, g.i, &g.f)) {
			t->counts.lost[UNWIND_LOSS_PCLNTAB]++;
			continue;
		}
		if (g.f.end <= from)
			continue;
		special = special_of(pclntab_name(go, &g.f));
		if (!touches(&g, special))
			break;
		g.code = code_of(t, &g.f);
		fill_function(&g, special);
	}
	if (end < to)
		layer_fill(t, layer + 1, o, end > from ? end : from, to);
}
