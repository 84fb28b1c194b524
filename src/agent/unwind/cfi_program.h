/*
 * cfi_program.h - runs the call frame instructions of one FDE and tells what holds from where on:
 * CFA, FP and RA, and one more register where asked for. Source: DWARF 5, 6.4.2 and 6.4.3.
 *
 * Memory: none but the caller's structs; expressions point into the section. Threads: values.
 */
#pragma once
#include "agent/unwind/cfi_read.h"

enum cfi_how {
	CFI_SAME,       /* nothing said, or "same value" */
	CFI_UNDEFINED,  /* not kept */
	CFI_OFFSET,     /* at *(CFA + n) */
	CFI_VAL_OFFSET, /* is CFA + n */
	CFI_REGISTER,   /* in register n */
	CFI_EXPRESSION, /* at *(expression), which starts with the CFA on its stack */
	CFI_VAL_EXPRESSION,
};

struct cfi_value {
	enum cfi_how how;
	int64_t n;
	struct bytes expression;
};

/* What holds in a row. */
struct cfi_state {
	enum { CFA_NONE, CFA_REGISTER, CFA_EXPRESSION } cfa_how;
	uint32_t cfa_register; /* DWARF's number */
	int64_t cfa_offset;
	struct bytes cfa_expression;
	struct cfi_value fp, ra, extra;
};

/* DWARF's register numbers of a machine. */
struct cfi_machine {
	uint32_t fp, sp;
	uint32_t extra; /* one more to track; CFI_NO_REGISTER: none */
};
#define CFI_NO_REGISTER UINT32_MAX

enum { CFI_REMEMBER_MOST = 16 };

/* Takes a row: `state` holds from elf_vaddr on. NULL: the rest of the program cannot be run. */
struct cfi_sink {
	void (*row)(void *ctx, uint64_t elf_vaddr, const struct cfi_state *state);
	void *ctx;
};

/* The state that a CIE's initial instructions make. False, and counted, when they cannot be run. */
bool cfi_initial_state(const struct cfi_cie *cie, const struct cfi_section *s,
		       const struct cfi_machine *m, struct cfi_state *out,
		       struct unwind_counts *counts);
/* Calls the sink with ascending addresses in [begin, end), the first being fde->begin. */
void cfi_program_run(const struct cfi_fde *fde, const struct cfi_cie *cie,
		     const struct cfi_section *s, const struct cfi_machine *m,
		     const struct cfi_state *initial, const struct cfi_sink *sink,
		     struct unwind_counts *counts);
