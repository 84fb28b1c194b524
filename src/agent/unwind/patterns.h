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
/* An entry of an x86-64 linkage table: from which byte of it on is an index on the stack? 16:
 * never, it only jumps. False: no such entry. */
bool patterns_plt_entry(struct bytes code, uint8_t *threshold);
