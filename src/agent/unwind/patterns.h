/*
 * patterns.h - what bytes of code say where no CFI does: the end of a signal handler, linkage
 * tables, padding between functions.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"
#include "bpf/unwind_rows.h"

/* Linux's sigcontext on x86-64: the place of rsp among the saved registers. */
enum { PATTERNS_X86_64_RSP = 15 * 8 };

/* UNWIND_SIGNAL as the kernel builds its frame and a handler's return leaves SP. */
struct unwind_rule patterns_signal_rule(uint16_t elf_machine);
/* Is this the call of rt_sigreturn, as libcs, Go's runtime and the arm64 vDSO have it? */
bool patterns_is_sigreturn(uint16_t elf_machine, struct bytes code);
/* Nothing but the no-ops and traps that fill the space between functions. */
bool patterns_is_padding(uint16_t elf_machine, struct bytes code);
/* A small function whose first instruction makes its whole frame and whose last but one undoes it,
 * as the main() that rustc makes without CFI. */
struct small_frame {
	uint64_t begin, made,
		undone; /* offsets in the code: of the function, behind either instruction */
	uint32_t bytes; /* of the frame, without the return address */
};
/* Code between two functions with CFI, at a multiple of 16 plus `phase`, is one such (x86-64). */
bool patterns_small_frame(struct bytes code, uint64_t phase, struct small_frame *out);
/* An entry of an x86-64 linkage table: from which byte of it on is an index on the stack? 16:
 * never, it only jumps. False: no such entry. */
bool patterns_plt_entry(struct bytes code, uint8_t *threshold);
