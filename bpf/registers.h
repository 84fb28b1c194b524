/*
 * registers.h - the registers of an interrupted task, as the kernel gives them to BPF programs.
 * User ABI (asm/ptrace.h), which clang's bpf target would read as that of i386.
 *
 *   struct pt_regs             what bpf_task_pt_regs() leads to
 *   struct sampled_regs        what a perf_event program gets: the same without what is the
 * kernel's REGISTERS_USER(r)          was it user code? REGISTERS_COMPAT(r)        of a 32-bit
 * process REGISTERS_TAKE(c, r)       into a cursor; a macro, since ctx may only be read field by
 * field REGISTERS_IN_SYSCALL(r)    of a struct pt_regs: pc lies behind a system call instruction
 *   THREAD_POINTER(task)       of the current task
 */
#pragma once
#include <linux/types.h>
#include "machine.h"

#if UNWIND_ARM64

struct sampled_regs { /* struct user_pt_regs */
	__u64 x[31], sp, pc, pstate;
};
struct pt_regs {
	__u64 x[31], sp, pc, pstate;
	__u64 orig_x0;
	__s32 syscallno; /* -1: not in a system call */
	__u32 unused;
};

#define REGISTERS_USER(r)       (((r)->pstate & 15) == 0) /* exception level 0 */
#define REGISTERS_COMPAT(r)     (((r)->pstate & 16) != 0)
#define REGISTERS_IN_SYSCALL(r) ((r)->syscallno != -1)
#define THREAD_POINTER(task)    KERNEL_FIELD(task, thread.uw.tp_value)
#define REGISTERS_TAKE(c, r)                                             \
	do {                                                             \
		(c)->pc = (r)->pc;                                       \
		(c)->sp = (r)->sp;                                       \
		(c)->fp = (r)->x[29];                                    \
		(c)->leaf[UNWIND_REG_LR - UNWIND_REG_LEAF] = (r)->x[30]; \
	} while (0)

#else

struct pt_regs {
	__u64 r15, r14, r13, r12, rbp, rbx;
	__u64 r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	__u64 orig_rax; /* the number of a system call; ~0 on interrupts and exceptions */
	__u64 rip, cs, eflags, rsp, ss;
};
#define sampled_regs pt_regs

#define USER_CS_COMPAT          0x23
#define REGISTERS_USER(r)       (((r)->cs & 3) != 0)
#define REGISTERS_COMPAT(r)     ((r)->cs == USER_CS_COMPAT)
#define REGISTERS_IN_SYSCALL(r) ((r)->orig_rax != ~(__u64)0)
#define THREAD_POINTER(task)    KERNEL_FIELD(task, thread.fsbase)
#define REGISTERS_TAKE(c, r)                                            \
	do {                                                            \
		(c)->pc = (r)->rip;                                     \
		(c)->sp = (r)->rsp;                                     \
		(c)->fp = (r)->rbp;                                     \
		(c)->leaf[UNWIND_REG_RAX - UNWIND_REG_LEAF] = (r)->rax; \
		(c)->leaf[UNWIND_REG_RCX - UNWIND_REG_LEAF] = (r)->rcx; \
		(c)->leaf[UNWIND_REG_RDX - UNWIND_REG_LEAF] = (r)->rdx; \
		(c)->leaf[UNWIND_REG_RBX - UNWIND_REG_LEAF] = (r)->rbx; \
		(c)->leaf[UNWIND_REG_RSI - UNWIND_REG_LEAF] = (r)->rsi; \
		(c)->leaf[UNWIND_REG_RDI - UNWIND_REG_LEAF] = (r)->rdi; \
		(c)->leaf[UNWIND_REG_R8 - UNWIND_REG_LEAF] = (r)->r8;   \
		(c)->leaf[UNWIND_REG_R9 - UNWIND_REG_LEAF] = (r)->r9;   \
		(c)->leaf[UNWIND_REG_R10 - UNWIND_REG_LEAF] = (r)->r10; \
		(c)->leaf[UNWIND_REG_R11 - UNWIND_REG_LEAF] = (r)->r11; \
		(c)->leaf[UNWIND_REG_R12 - UNWIND_REG_LEAF] = (r)->r12; \
		(c)->leaf[UNWIND_REG_R13 - UNWIND_REG_LEAF] = (r)->r13; \
		(c)->leaf[UNWIND_REG_R14 - UNWIND_REG_LEAF] = (r)->r14; \
		(c)->leaf[UNWIND_REG_R15 - UNWIND_REG_LEAF] = (r)->r15; \
	} while (0)

#endif

/* What a perf_event program gets (linux/bpf_perf_event.h). */
struct bpf_perf_event_data {
	struct sampled_regs regs;
	__u64 sample_period;
	__u64 addr;
};
