/*
 * counts.h - what a table builder met that it could not use, by reason: a loss is data.
 */
#pragma once
#include <stdint.h>

enum unwind_loss {
	/* entries that were skipped: their code is as code without CFI */
	UNWIND_LOSS_CIE, /* version, augmentation or encoding unknown, or cut short */
	UNWIND_LOSS_FDE, /* cut short, no such CIE, address that cannot be read or wraps */
	UNWIND_LOSS_FAR, /* further than 4 GiB from the first, or too many of them */
	/* rows that became UNWIND_NONE from some point of a function on */
	UNWIND_LOSS_OPCODE, /* no such DW_CFA, or cut short */
	UNWIND_LOSS_DEPTH,  /* remember_state deeper than the limit, restore without it */
	/* single rows that became UNWIND_NONE */
	UNWIND_LOSS_EXPRESSION, /* no form that a rule can express */
	UNWIND_LOSS_REGISTER,   /* a register that is not known even in the leaf */
	UNWIND_LOSS_OFFSET,     /* more than 31 bits */
	UNWIND_LOSS_NO_CFA,
	UNWIND_LOSS_RA,         /* the RA is neither kept nor undefined */
	UNWIND_LOSS_FP,         /* only the FP's rule: the row is kept, with the FP lost */
	UNWIND_LOSS_RULES_FULL, /* the machine's array of rules is full */
	UNWIND_LOSS_WORK,       /* the rest of a page: more CFI for it than any honest file has */
	/* Go */
	UNWIND_LOSS_PCLNTAB, /* a function whose pc-sp table cannot be read */
	UNWIND_LOSS_COUNT,
};

struct unwind_counts {
	uint64_t lost[UNWIND_LOSS_COUNT];
	uint64_t fdes;       /* programs run */
	uint64_t plain_rows; /* before runs were folded */
	uint64_t rows;
	uint64_t pages;
};

const char *unwind_loss_name(enum unwind_loss loss); /* as in metrics: "expression" */
