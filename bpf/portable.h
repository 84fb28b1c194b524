/*
 * portable.h - what kernels before 5.17 do in another way: loops, and reading a task.
 *
 * sample.bpf.c is compiled twice. With BOUNDED_LOOPS it uses nothing newer than Linux 5.10: a loop
 * is a `for` over a global function, which the verifier looks at once, and task_struct is read by a
 * helper, since the typed pointer came with 5.11. User space chooses (src/agent/sample/variant.h).
 *
 *   STEP(name) { ... }         the body of a loop; returns nonzero to end it. State is in maps:
 *                              a global function takes no pointers
 *   REPEAT(most, name)         runs the step at most that often
 *   KERNEL_FIELD(pointer, f)   a field of the current task, or of what hangs on it
 *   current_task(), task_user_registers(task)
 *   GROWING_HASH               flags of a hash map that takes memory as it fills
 */
#pragma once
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "registers.h"

#ifdef BOUNDED_LOOPS

#define STEP(name)      \
	int name(void); \
	__noinline int name(void)
#define REPEAT(most, name)                    \
	for (u32 i_ = 0; i_ < (most); i_++) { \
		if (name())                   \
			break;                \
	}
#define KERNEL_FIELD(pointer, field) BPF_CORE_READ((pointer), field)
#define GROWING_HASH                 0 /* perf event programs may use preallocated ones only */

/* THREAD_SIZE, as kernels without KASAN have it. Its layout is the kernel's own: pt_regs ends where
 * the stack does. */
#define KERNEL_STACK_BYTES 16384

static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

static __always_inline const void *task_user_registers(struct task_struct *task)
{
	return BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES - bpf_core_type_size(struct pt_regs);
}

#else

#define STEP(name)                                                        \
	static int name(__attribute__((unused)) u32 index, /* bpf_loop */ \
			__attribute__((unused)) void *none)
#define REPEAT(most, name)           bpf_loop((most), name, NULL, 0)
#define KERNEL_FIELD(pointer, field) ((pointer)->field)
#define GROWING_HASH                 BPF_F_NO_PREALLOC

static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}

static __always_inline const void *task_user_registers(struct task_struct *task)
{
	return (const void *)bpf_task_pt_regs(task);
}

#endif
