/*
 * layers.h - inside of tables.h: the sources of one executable's rules, in order of precedence.
 *
 * A layer fills a range of addresses with rules, in ascending order, and hands each gap that it
 * does not know to the layer behind it; the last fills with what the bytes of the code say.
 */
#pragma once
#include "agent/unwind/cfi_rule.h"
#include "agent/unwind/pclntab.h"
#include "agent/unwind/row_out.h"
#include "agent/unwind/tables.h"

enum layer_kind { LAYER_GO, LAYER_CFI, LAYER_GAPS };

struct layer {
	enum layer_kind kind;
	/* LAYER_CFI */
	struct cfi_section section;
	struct cfi_index index;
	struct cfi_cie cie; /* the last used, and what it starts its programs with */
	struct cfi_state initial;
	uint64_t initial_of;  /* offset of the CIE that `initial` is of */
	struct elf_data data; /* inflated */
};

/* Code that no CFI covers but whose rule is known: [begin, end). */
struct special {
	uint64_t begin, end;
	enum { SPECIAL_PLT, SPECIAL_ENTRY, SPECIAL_INIT } kind;
};

enum { LAYERS_MOST = 5, SPECIALS_MOST = 8 };
/* Bytes of CFI programs run for one page. A usual page needs 10 to 40 KiB. */
enum { PAGE_WORK_MOST = 8 << 20 };

struct unwind_tables {
	const struct elf_file *file;
	uint16_t machine;
	struct cfi_machine registers;
	uint64_t first_page, page_count;
	struct layer layers[LAYERS_MOST]; /* the last is LAYER_GAPS */
	uint32_t layer_count;
	struct special specials[SPECIALS_MOST]; /* by begin, without overlap */
	uint32_t special_count;
	struct pclntab go;
	struct unwind_counts counts;
	int64_t work_left; /* of this page */
};

/* Rules for [from, to), which lies in o's page. */
void layer_fill(struct unwind_tables *t, uint32_t layer, struct row_out *o, uint64_t from,
		uint64_t to);
void layer_fill_cfi(struct unwind_tables *t, uint32_t layer, struct row_out *o, uint64_t from,
		    uint64_t to);
void layer_fill_go(struct unwind_tables *t, uint32_t layer, struct row_out *o, uint64_t from,
		   uint64_t to);
void layer_fill_gaps(struct unwind_tables *t, struct row_out *o, uint64_t from, uint64_t to);
