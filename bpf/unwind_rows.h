/*
 * unwind_rows.h - compact unwind tables, as the builder writes them (src/agent/unwind/) and as the
 * BPF programs, the user-space twin and the tests read them. Compiles in both worlds.
 *
 * A table says how to find the caller of the function at an elf_vaddr of one executable. It is cut
 * into pages of 64 KiB of elf_vaddr:
 *
 *   page (8 bytes)      {block, first, last, state}: where the rows of that page lie. Pages are
 * built one by one, on demand or all at once; a zeroed one is absent. row (4 bytes)       {low 16
 * bits of elf_vaddr, rule}: this rule from here up to the next row. Rows of a page are sorted, and
 * its first row is always at low == 0 (what holds there is carried in), so a look-up never leaves
 * its page. rule (16 bytes)     how to compute CFA, FP and RA. De-duplicated in one array for the
 * whole machine; rule 0 is always UNWIND_NONE.
 *
 * Rows lie in blocks of UNWIND_BLOCK_ROWS rows (256 KiB); those of one page in one block.
 *
 * Look-up of pc in a mapping:
 *   at   = pc - load_bias of the mapping, minus 1 when pc is a return address: the call may be the
 *          last instruction of its function, and what stands behind it another function's first.
 *          A pc from a register set (leaf, or below a signal frame) is taken as it is.
 *   page = the page of (executable, at >> UNWIND_PAGE_SHIFT)
 *   i    = unwind_find(rows of page.block, page, at)
 *   rule = rules[rows[i].rule]
 *   unwind_rule_at(rule, low 16 bits of at, rows[i].low, &plain), and the step by plain.kind.
 *
 * "FP" is rbp on x86-64 and x29 on arm64, "RA" is what the caller's pc is loaded from, on arm64 x30
 * (LR) where it was not saved. Rules with a base other than SP and FP, or a value in a register,
 * hold for the leaf only: further up those registers are not known (end: a reason of its own).
 */
#pragma once
#ifndef __bpf__
#include <linux/types.h>
#endif

#define UNWIND_PAGE_SHIFT 16
#define UNWIND_BLOCK_ROWS 65536

enum unwind_page_state {
	UNWIND_PAGE_ABSENT, /* not built, or evicted: ask for it */
	UNWIND_PAGE_ROWS,
	UNWIND_PAGE_EMPTY, /* built, and nothing known: as UNWIND_NONE */
};

struct unwind_page {
	__u16 block;
	__u16 first; /* row in the block */
	__u16 last;  /* row in the block, >= first: a page that exists has at least one row */
	__u16 state; /* enum unwind_page_state */
};
_Static_assert(sizeof(struct unwind_page) == 8, "unwind_page is 8 bytes");

struct unwind_row {
	__u16 low;
	__u16 rule;
};
_Static_assert(sizeof(struct unwind_row) == 4, "unwind_row is 4 bytes");

enum unwind_kind {
	/* Nothing is known here (a gap between functions, code without CFI, a rule that could not
	 * be expressed): try the frame pointer, if it is plausible, as in UNWIND_FP. */
	UNWIND_NONE,
	/* CFA = base + cfa_offset. FP by fp_from, RA by ra_from. */
	UNWIND_CFA,
	/* A prologue or an epilogue: UNWIND_CFA with SP as base and the RA at CFA - 8, and how that
	 * changes from push to push. unwind_rule_at() makes an UNWIND_CFA of it. x86-64 only. */
	UNWIND_CFA_RUN,
	/* CFA = *(base + index * 8 + cfa_offset) + post; no index if `index` is UNWIND_REG_NONE.
	 * The RA is at CFA - 8. x86-64 only. */
	UNWIND_CFA_DEREF,
	/* A PLT entry: CFA = SP + 8 + ((pc & 15) >= cfa_offset ? 8 : 0); FP unchanged, RA at
	 * CFA - 8. Leaf only: pc, not pc - 1. */
	UNWIND_PLT,
	/* The kernel's signal frame: SP + cfa_offset is where the interrupted registers lie
	 * (x86-64: the sigcontext: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; arm64:
	 * x0..x30, sp, pc). The pc found there is no return address, and all registers are known
	 * again. */
	UNWIND_SIGNAL,
	/* CFA = FP + 16, FP = *(CFA - 16), RA = *(CFA - 8); the CFA must lie above SP. A rule of
	 * its own, and the default of Go's text. */
	UNWIND_FP,
	/* As UNWIND_FP, but the frame may lie on another stack, also below SP: Go's systemstack and
	 * asmcgocall, which run on the thread's stack for a goroutine. */
	UNWIND_FP_OTHER_STACK,
	/* The outermost frame: the stack is complete. */
	UNWIND_STOP,
	/* Go, x86-64: the frame is the first on g0's stack and entered by morestack, which cleared
	 * FP: go on with the goroutine: g = *(thread pointer + cfa_offset); m = *(g + 48); curg =
	 * *(m
	 * + fp_offset); then SP = *(curg + 56), pc = *(curg + 64) (a return address), FP = *(curg +
	 * go_bp). */
	UNWIND_GO_MORESTACK,
	/* As UNWIND_CFA with the RA at CFA - 8, and rbx is at CFA + rbx_offset. Only in executables
	 * that track rbx (EXECUTABLE_TRACKS_RBX: the dynamic linker, where _dl_runtime_resolve
	 * keeps its frame in rbx): rules of other kinds leave rbx there as it is. */
	UNWIND_CFA_RBX,
	/* Go before 1.21, x86-64: systemstack has switched to g0's stack and has no frame of its
	 * own: its return address is where the goroutine's stack ends: curg as above, CFA =
	 * *(curg + 56) + 8, RA = *(CFA - 8), FP unchanged. */
	UNWIND_GO_SYSTEMSTACK,
	UNWIND_KIND_COUNT,
};

/* Registers that a CFA or a value may be in. The numbers are ours, machine by machine. */
enum unwind_reg {
	UNWIND_REG_SP,
	UNWIND_REG_FP,
	UNWIND_REG_NONE,
	UNWIND_REG_LEAF, /* this and what follows: known in the leaf only */
	UNWIND_REG_RAX = UNWIND_REG_LEAF,
	UNWIND_REG_RCX,
	UNWIND_REG_RDX,
	UNWIND_REG_RBX,
	UNWIND_REG_RSI,
	UNWIND_REG_RDI,
	UNWIND_REG_R8,
	UNWIND_REG_R9,
	UNWIND_REG_R10,
	UNWIND_REG_R11,
	UNWIND_REG_R12,
	UNWIND_REG_R13,
	UNWIND_REG_R14,
	UNWIND_REG_R15,
	UNWIND_REG_COUNT,
	UNWIND_REG_LR = UNWIND_REG_LEAF, /* arm64 */
};

/* Where the caller's FP, or the RA, is. */
enum unwind_from {
	UNWIND_FROM_SAME, /* FP: unchanged. RA: in LR (arm64; leaf only) */
	UNWIND_FROM_CFA,  /* at *(CFA + offset) */
	UNWIND_FROM_FP,   /* at *(this frame's FP + offset) */
	UNWIND_FROM_SP,   /* at *(this frame's SP + offset) */
	UNWIND_FROM_LOST, /* not kept: FP is 0 in the caller */
	UNWIND_FROM_REG,  /* UNWIND_FROM_REG + an enum unwind_reg: in that register */
	UNWIND_FROM_COUNT = UNWIND_FROM_REG + UNWIND_REG_COUNT,
};

struct unwind_rule {
	__u8 kind;     /* enum unwind_kind */
	__u8 cfa_base; /* enum unwind_reg */
	__u8 fp_from;  /* enum unwind_from; UNWIND_CFA, _CFA_RUN, _CFA_DEREF */
	__u8 ra_from;  /* enum unwind_from; UNWIND_CFA only, else the RA is at CFA - 8 */
	__s32 cfa_offset;
	__s32 fp_offset;
	union {
		__s32 ra_offset;    /* UNWIND_CFA */
		__u32 run;          /* UNWIND_CFA_RUN */
		struct {            /* UNWIND_CFA_DEREF */
			__u8 index; /* enum unwind_reg */
			__u8 padding;
			__s16 post;
		};
		__s32 rbx_offset; /* UNWIND_CFA_RBX */
		__s32 go_bp;      /* UNWIND_GO_MORESTACK: offset of sched.bp in the g */
	};
};
_Static_assert(sizeof(struct unwind_rule) == 16, "unwind_rule is 16 bytes");

/*
 * A run: up to UNWIND_RUN_STEPS steps behind the row's begin, four bits each, the first in the
 * lowest. A step of n (1..15) lies n bytes behind the one before; 0 ends the run. Each is one
 * instruction:
 *
 *   push          the CFA's offset grows by 8
 *   push FP       as push, and FP is at the new top of the stack: step number UNWIND_RUN_FP
 *   mov SP, FP    the CFA's base is FP from here on: step number UNWIND_RUN_MOVE
 *   pop, pop FP   with UNWIND_RUN_POPS: the offset shrinks by 8, and from step UNWIND_RUN_FP on FP
 * is the caller's again
 *
 * Half of all rows of usual code vanish in runs.
 */
#define UNWIND_RUN_STEPS     6
#define UNWIND_RUN_FP(run)   ((run) >> 24 & 7) /* 1..6; 0: none */
#define UNWIND_RUN_MOVE(run) ((run) >> 27 & 7)
#define UNWIND_RUN_POPS      0x80000000u

/* What a rule says at `low`, in the row that begins at row_low: *plain is the rule itself, or for a
 * run the UNWIND_CFA that it has come to. */
static inline void unwind_rule_at(const struct unwind_rule *rule, __u32 low, __u32 row_low,
				  struct unwind_rule *plain)
{
	__u32 run = rule->run, left = low - row_low;

	*plain = *rule;
	if (rule->kind != UNWIND_CFA_RUN)
		return;
	plain->kind = UNWIND_CFA;
	plain->ra_from = UNWIND_FROM_CFA;
	plain->ra_offset = -8;
	for (__u32 i = 1; i <= UNWIND_RUN_STEPS; i++) {
		__u32 step = run & 15;

		if (!step || step > left)
			break;
		left -= step;
		run = (run & 0xff000000) | (run & 0xffffff) >> 4;
		if (i == UNWIND_RUN_MOVE(run)) {
			plain->cfa_base = UNWIND_REG_FP;
			continue;
		}
		plain->cfa_offset += run & UNWIND_RUN_POPS ? -8 : 8;
		if (i != UNWIND_RUN_FP(run))
			continue;
		plain->fp_from = run & UNWIND_RUN_POPS ? UNWIND_FROM_SAME : UNWIND_FROM_CFA;
		plain->fp_offset = run & UNWIND_RUN_POPS ? 0 : -plain->cfa_offset;
	}
}

/* The compiler shall not know what it knows of a value: it makes branches of arithmetic. */
#define UNWIND_OPAQUE(value) __asm__ volatile("" : "+r"(value))

/*
 * The row that holds at elf_vaddr `at`: the last of the page's rows with row.low <= low 16 bits of
 * at. `rows` is a whole block of UNWIND_BLOCK_ROWS rows. Sixteen steps search any page. For the
 * verifier the bounds must come out of a map (from constants it would follow every path), the step
 * has no branch (it would follow both ways, sixteen times), and the mask keeps each access inside
 * the block; a page that is damaged or just being rewritten yields some row, never a fault.
 */
static inline __u32 unwind_find(const struct unwind_row *rows, const struct unwind_page *page,
				__u64 at)
{
	__u64 low = at & 0xffff, lo = page->first, left = (__u16)(page->last - page->first);

	for (int i = 0; i < 16 && left; i++) {
		__u64 half = (left + 1) >> 1;
		/* All ones: the row lies behind `at`. */
		__u64 behind = low - rows[(lo + half) & (UNWIND_BLOCK_ROWS - 1)].low;

		behind = (__u64)((__s64)behind >> 63);
		UNWIND_OPAQUE(behind);
		lo += half & ~behind;
		left -= half; /* one more than need be, if it was even: the row behind `at` itself
			       */
	}
	return lo & (UNWIND_BLOCK_ROWS - 1);
}
