/*
 * machine.h - what the unwinder (unwind.h) must know of the machine, for x86-64 and arm64: where
 * the kernel's signal frame keeps registers, and what of a saved code pointer is address.
 *
 * The BPF programs are told the machine by -D__TARGET_ARCH_..., user space is of its own.
 */
#pragma once
#include "records.h"
#include "unwind_rows.h"

#if defined(__TARGET_ARCH_arm64) || (defined(__aarch64__) && !defined(__bpf__))
#define UNWIND_ARM64 1
#else
#define UNWIND_ARM64 0
#endif

/* What the registers at a signal frame (UNWIND_SIGNAL) fill. */
#if UNWIND_ARM64
enum { SIGNAL_REGISTERS = 33, SIGNAL_SP = 31, SIGNAL_PC = 32, SIGNAL_FP = 29, SIGNAL_LR = 30 };
#else
enum { SIGNAL_REGISTERS = 17, SIGNAL_SP = 15, SIGNAL_PC = 16, SIGNAL_FP = 10 };
#endif

/* From the registers as the kernel saved them for a signal handler; r[] is SIGNAL_REGISTERS long.
 * x86-64: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. arm64: x0..x30, sp, pc. */
static inline __attribute__((always_inline)) void unwind_take_signal(struct unwind_cursor *c,
								     const __u64 *r)
{
	c->pc = r[SIGNAL_PC];
	c->sp = r[SIGNAL_SP];
	c->fp = r[SIGNAL_FP];
#if UNWIND_ARM64
	c->leaf[UNWIND_REG_LR - UNWIND_REG_LEAF] = r[SIGNAL_LR];
#else
	c->leaf[UNWIND_REG_R8 - UNWIND_REG_LEAF] = r[0];
	c->leaf[UNWIND_REG_R9 - UNWIND_REG_LEAF] = r[1];
	c->leaf[UNWIND_REG_R10 - UNWIND_REG_LEAF] = r[2];
	c->leaf[UNWIND_REG_R11 - UNWIND_REG_LEAF] = r[3];
	c->leaf[UNWIND_REG_R12 - UNWIND_REG_LEAF] = r[4];
	c->leaf[UNWIND_REG_R13 - UNWIND_REG_LEAF] = r[5];
	c->leaf[UNWIND_REG_R14 - UNWIND_REG_LEAF] = r[6];
	c->leaf[UNWIND_REG_R15 - UNWIND_REG_LEAF] = r[7];
	c->leaf[UNWIND_REG_RDI - UNWIND_REG_LEAF] = r[8];
	c->leaf[UNWIND_REG_RSI - UNWIND_REG_LEAF] = r[9];
	c->leaf[UNWIND_REG_RBX - UNWIND_REG_LEAF] = r[11];
	c->leaf[UNWIND_REG_RDX - UNWIND_REG_LEAF] = r[12];
	c->leaf[UNWIND_REG_RAX - UNWIND_REG_LEAF] = r[13];
	c->leaf[UNWIND_REG_RCX - UNWIND_REG_LEAF] = r[14];
#endif
}

/* A return address without the signature that arm64 (pointer authentication) may have put into its
 * upper bits: user addresses have at most 48 bits. */
static inline __attribute__((always_inline)) __u64 unwind_code_address(__u64 pc)
{
#if UNWIND_ARM64
	return pc & (((__u64)1 << 48) - 1);
#else
	return pc;
#endif
}
