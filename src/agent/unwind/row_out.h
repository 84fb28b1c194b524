/*
 * row_out.h - from "this rule holds from here on" to the packed rows of one page.
 *
 * The rules of a page come in ascending order of address, as many as there are. What lies before
 * the page is carried into its first row, what lies behind is dropped; equal neighbours become one
 * row; pushes and pops in a row become a run (bpf/unwind_rows.h). Of two rules for one address the
 * later one stands.
 *
 * Memory: rows go into the caller's array. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/unwind/rules.h"

struct row_out {
	uint64_t from, to; /* elf_vaddr of the page: [from, to) */
	struct unwind_rules *rules;
	struct unwind_row *rows; /* the caller's */
	uint32_t cap, count;
	bool full;             /* there was no room for a row */
	bool runs;             /* x86-64: RUN rules are allowed */
	uint64_t plain_rows;   /* before runs were made of them */
	uint64_t unruled_rows; /* became UNWIND_NONE because the array of rules is full */

	/* the newest rule, until one for another address comes */
	struct unwind_rule next;
	uint64_t next_at;
	/* the row being made: its first rule, and the plain one that its run has reached */
	struct unwind_rule row, reached;
	uint64_t row_at, reached_at;
	uint32_t steps;
	/* the FP's place as the last rule had it, before it was found popped */
	uint8_t said_fp_from;
	int32_t said_fp_offset;
	bool has_row;
};

/* [from, to) lies in one page; UNWIND_NONE holds at `from` until row_out_put() says otherwise. */
void row_out_init(struct row_out *o, struct unwind_rules *rules, uint64_t from, uint64_t to,
		  struct unwind_row *rows, uint32_t cap);
void row_out_put(struct row_out *o, uint64_t elf_vaddr, const struct unwind_rule *rule);
void row_out_finish(struct row_out *o);
