/*
 * cfi_rule.h - from what CFI says of a row to a rule of the compact tables (bpf/unwind_rows.h).
 */
#pragma once
#include "agent/unwind/cfi_program.h"
#include "bpf/unwind_rows.h"

enum { CFI_X86_64_RBX = 3 };

/* ELF machine: EM_X86_64 or EM_AARCH64. False: another one. */
bool cfi_machine_of(uint16_t elf_machine, struct cfi_machine *out);

/*
 * What cannot be said makes an UNWIND_NONE and counts; an FP that cannot be followed alone is
 * UNWIND_FROM_LOST. ra_column is the CIE's: the register that a call leaves the RA in, if any.
 */
struct unwind_rule cfi_rule_of(uint16_t elf_machine, uint32_t ra_column,
			       const struct cfi_state *state, bool signal_frame,
			       struct unwind_counts *counts);
