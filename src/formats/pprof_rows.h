/*
 * pprof_rows.h - samples of several sample types become rows with a value of each.
 *
 * A row is what a sample of pprof says besides its values: stack and labels, encoded. A sample of
 * another type that says the same goes into the same row, where that has no value of this type yet:
 * so Go's own files come back with as many samples as they had, and sums stay whatever is joined.
 * Memory: own heap, bounded by limit_bytes. Threads: no state.
 */
#pragma once
#include "base/buf.h"
#include "model/intern.h"

struct pprof_row {
	size_t first;
	uint32_t stack_len, len;
	uint32_t next; /* + 1: a further row that says the same */
};
struct pprof_rows {
	struct intern_table table;
	struct buf bytes; /* of all rows: the stack, then the labels */
	struct pprof_row *ptr;
	uint32_t count, cap;
	int64_t *values; /* columns of each */
	uint32_t columns, value_cap;
	bool failed; /* more than the limit */
};

/* Stack and labels of a row; empty where both are. */
static inline struct str pprof_rows_text(const struct pprof_rows *r, uint32_t row)
{
	const struct pprof_row *p = &r->ptr[row];

	return p->len ? str_from(r->bytes.ptr + p->first, p->len) : (struct str){ 0 };
}
void pprof_rows_init(struct pprof_rows *r, uint32_t columns, size_t limit_bytes);
void pprof_rows_release(struct pprof_rows *r);
void pprof_rows_add(struct pprof_rows *r, struct str stack, struct str labels,
		    const int64_t *values);
