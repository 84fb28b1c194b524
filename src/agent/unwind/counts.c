#include "agent/unwind/counts.h"

const char *unwind_loss_name(enum unwind_loss loss)
{
	static const char *const names[UNWIND_LOSS_COUNT] = {
		[UNWIND_LOSS_CIE] = "cie",
		[UNWIND_LOSS_FDE] = "fde",
		[UNWIND_LOSS_FAR] = "far",
		[UNWIND_LOSS_OPCODE] = "opcode",
		[UNWIND_LOSS_DEPTH] = "depth",
		[UNWIND_LOSS_EXPRESSION] = "expression",
		[UNWIND_LOSS_REGISTER] = "register",
		[UNWIND_LOSS_OFFSET] = "offset",
		[UNWIND_LOSS_NO_CFA] = "no_cfa",
		[UNWIND_LOSS_RA] = "ra",
		[UNWIND_LOSS_FP] = "fp",
		[UNWIND_LOSS_RULES_FULL] = "rules_full",
		[UNWIND_LOSS_WORK] = "work",
		[UNWIND_LOSS_PCLNTAB] = "pclntab",
	};

	return names[loss];
}
