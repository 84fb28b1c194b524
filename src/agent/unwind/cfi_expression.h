/*
 * cfi_expression.h - what a DWARF expression amounts to, if a rule can say it: register + offset,
 * register + register * 8 + offset, and one load of such an address plus an offset. Nothing is
 * evaluated: registers stay unknowns. Source: DWARF 5, 2.5 and 6.4.2.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"

enum { EXPRESSION_NO_REGISTER = -1, EXPRESSION_CFA = -2 };

struct expression_sum {
	int32_t base;  /* DWARF's number, EXPRESSION_CFA or _NO_REGISTER */
	int32_t index; /* of the register that counts eight times, or EXPRESSION_NO_REGISTER */
	int64_t offset;
	bool load; /* the value is *(sum) + post, else the sum */
	int64_t post;
};

/* on_cfa: the stack starts with the CFA on it (DW_CFA_expression, DW_CFA_val_expression). */
bool expression_simplify(struct bytes expression, bool on_cfa, struct expression_sum *out);

/*
 * The expression of a procedure linkage table: SP + 8, and 8 more from the byte *threshold of each
 * 16 byte entry on (11 in the usual layout, 10 and 9 where entries begin with endbr64).
 */
bool expression_is_plt(struct bytes expression, uint8_t *threshold);
