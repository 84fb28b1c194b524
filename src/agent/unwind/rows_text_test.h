/*
 * rows_text_test.h - the rows of one page as text, for tests to compare.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include "agent/unwind/image_test.h"
#include "agent/unwind/tables.h"
#include "base/buf.h"

static inline const char *register_name(uint8_t reg)
{
	static const char *const names[] = { "sp",  "fp",  "-",   "rax", "rcx", "rdx",
					     "rbx", "rsi", "rdi", "r8",  "r9",  "r10",
					     "r11", "r12", "r13", "r14", "r15" };

	return names[reg];
}

static inline void say_from(struct buf *b, const char *what, uint8_t from, int32_t offset)
{
	static const char *const places[] = { "same", "cfa", "fp", "sp", "lost" };

	if (from == UNWIND_FROM_SAME)
		return;
	if (from >= UNWIND_FROM_REG)
		buf_printf(b, " %s=%s", what, register_name(from - UNWIND_FROM_REG));
	else if (from == UNWIND_FROM_LOST)
		buf_printf(b, " %s=lost", what);
	else
		buf_printf(b, " %s=*%s%+d", what, places[from], offset);
}

static inline void say_rule(struct buf *b, const struct unwind_rule *r)
{
	static const char *const kinds[UNWIND_KIND_COUNT] = {
		"none",        "",     "run",       "deref", "plt",        "signal", "by_fp",
		"other_stack", "stop", "morestack", "rbx",   "systemstack"
	};

	buf_printf(b, "%s", kinds[r->kind]);
	switch (r->kind) {
	case UNWIND_CFA:
	case UNWIND_CFA_RUN:
		buf_printf(b, "%s%+d", register_name(r->cfa_base), r->cfa_offset);
		if (r->kind == UNWIND_CFA_RUN)
			buf_printf(b, "[%x]", r->run);
		say_from(b, "fp", r->fp_from, r->fp_offset);
		if (r->kind == UNWIND_CFA && !(r->ra_from == UNWIND_FROM_CFA && r->ra_offset == -8))
			say_from(b, "ra", r->ra_from, r->ra_offset);
		break;
	case UNWIND_CFA_DEREF:
		buf_printf(b, "*(%s", register_name(r->cfa_base));
		if (r->index != UNWIND_REG_NONE)
			buf_printf(b, "+8%s", register_name(r->index));
		buf_printf(b, "%+d)%+d", r->cfa_offset, r->post);
		say_from(b, "fp", r->fp_from, r->fp_offset);
		break;
	case UNWIND_PLT:
	case UNWIND_SIGNAL:
		buf_printf(b, "%+d", r->cfa_offset);
		break;
	case UNWIND_GO_MORESTACK:
		buf_printf(b, "(%d,%d,%d)", r->cfa_offset, r->fp_offset, r->go_bp);
		break;
	case UNWIND_GO_SYSTEMSTACK:
		buf_printf(b, "(%d,%d)", r->cfa_offset, r->fp_offset);
		break;
	default:
		break;
	}
}

/* A page, in words. */
struct built {
	char text[2000];
	struct unwind_counts counts;
	bool go;
};

/* "1000:sp+8 1001:..." of the page of `address`, and what was lost. */
static inline void build(const struct image *image, uint64_t address, struct built *out)
{
	static struct unwind_row rows[UNWIND_BLOCK_ROWS];
	struct unwind_rule array[256];
	struct unwind_rules rules;
	struct err err = { 0 };
	uint32_t count = 0;
	struct buf b;
	struct elf_file *f = elf_file_from_memory(image->bytes, image->len, false, &err);
	struct unwind_tables *t;

	if (!f)
		fail_msg("%s", err.msg);
	t = unwind_tables_open(f, NULL, &err);
	if (!t)
		fail_msg("%s", err.msg);
	buf_init(&b, 0);
	unwind_rules_init(&rules, array, 256);
	switch (unwind_tables_build_page(t, address >> UNWIND_PAGE_SHIFT, &rules, rows,
					 UNWIND_BLOCK_ROWS, &count)) {
	case UNWIND_BUILD_NO_ROOM:
		fail_msg("no room");
		break;
	case UNWIND_BUILD_EMPTY:
		buf_lit(&b, "empty");
		break;
	case UNWIND_BUILD_ROWS:
		break;
	}
	for (uint32_t i = 0; i < count; i++) {
		buf_printf(&b, "%s%x:", i ? " " : "", rows[i].low);
		say_rule(&b, &array[rows[i].rule]);
	}
	out->counts = *unwind_tables_counts(t);
	for (int i = 0; i < UNWIND_LOSS_COUNT; i++)
		if (out->counts.lost[i])
			buf_printf(&b, " lost:%s", unwind_loss_name(i));
	out->go = unwind_tables_is_go(t);
	assert_true(b.len < sizeof(out->text));
	memcpy(out->text, b.ptr, b.len);
	out->text[b.len] = 0;
	buf_release(&b);
	unwind_tables_free(t);
	unwind_rules_release(&rules);
	elf_file_free(f);
}
