/* dwarf_internal.h - what the dwarf_*.c files share: units, entries, attributes. */
#pragma once
#include "agent/symbolize/dwarf.h"

enum dwarf_section {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_LINE,
	DWARF_STR,
	DWARF_LINE_STR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_ADDR,
	DWARF_STR_OFFSETS,
	DWARF_ARANGES,
	DWARF_SECTION_COUNT,
};

/* Attributes that somebody reads (DWARF 5, 7.5.4); all others are skipped. */
enum die_attr_id {
	ATTR_SIBLING,
	ATTR_NAME,
	ATTR_LINKAGE_NAME,
	ATTR_LOW_PC,
	ATTR_HIGH_PC,
	ATTR_RANGES,
	ATTR_ORIGIN,
	ATTR_SPECIFICATION,
	ATTR_CALL_FILE,
	ATTR_CALL_LINE,
	ATTR_CALL_COLUMN,
	ATTR_DECL_LINE,
	ATTR_STMT_LIST,
	ATTR_COMP_DIR,
	ATTR_STR_OFFSETS_BASE,
	ATTR_ADDR_BASE,
	ATTR_RNGLISTS_BASE,
	ATTR_COUNT,
};

enum {
	TAG_LEXICAL_BLOCK = 0x0b,
	TAG_COMPILE_UNIT = 0x11,
	TAG_INLINED_SUBROUTINE = 0x1d,
	TAG_CATCH_BLOCK = 0x25,
	TAG_SUBPROGRAM = 0x2e,
	TAG_TRY_BLOCK = 0x32,
	TAG_PARTIAL_UNIT = 0x3c,
	TAG_SKELETON_UNIT = 0x4a,
};

struct die_attr {
	uint16_t form;
	uint64_t value;         /* constants, offsets, references, indices */
	struct str inline_text; /* DW_FORM_string */
};

struct die {
	uint64_t offset, next; /* in .debug_info: of the entry, and past its attributes */
	uint16_t tag;          /* 0: a null entry, the end of a list of children */
	bool children;
	uint32_t present; /* bits of enum die_attr_id; the other attrs are not filled */
	struct die_attr attr[ATTR_COUNT];
};

struct abbrev {
	uint32_t code;
	uint32_t attrs_at; /* in .debug_abbrev */
	uint16_t tag;
	uint16_t fixed_bytes; /* of the attributes; ABBREV_VARIES */
	bool children;
};
enum { ABBREV_VARIES = 0xffff };

struct abbrev_table {
	uint64_t offset;
	uint8_t address_bytes, offset_bytes, version; /* fixed_bytes depends on these */
	uint32_t count, cap;
	bool sequential; /* entry i has code i + 1 */
	uint64_t used;   /* stamp of the last use */
	struct abbrev *list;
};
enum { ABBREV_TABLES_KEPT = 8, ABBREVS_MOST = 1 << 16 };

struct unit {
	struct dwarf *dwarf;
	uint64_t offset, end, first_die; /* in .debug_info */
	uint16_t version;
	uint8_t address_bytes, offset_bytes;
	bool code; /* compile, partial or skeleton unit; else a type unit */
	uint64_t abbrev_offset;
	uint64_t low_pc, str_offsets_base, addr_base, rnglists_base;
	bool has_lines;
	uint64_t lines_at; /* in .debug_line */
	struct str directory;
	struct die root;
};
enum { UNITS_KEPT = 4 };

/* [low, high) relative to the lowest text address. */
struct unit_range {
	uint32_t low, high, unit;
};
struct function_range {
	uint32_t low, high;
	uint32_t die; /* relative to the unit's offset */
};

/* The line program's registers after a row: where a run may begin. */
struct line_checkpoint {
	uint32_t low, high; /* addresses that it serves, relative as above */
	uint32_t at;        /* in .debug_line: the next opcode */
	uint32_t file, line, column;
};

struct unit_functions {
	uint32_t unit;
	bool whole;       /* the scan is done */
	bool refused;     /* it does not fit */
	uint64_t scan_at; /* in .debug_info: where the scan goes on */
	uint32_t count, cap;
	struct function_range *list;
	bool lines_noted, lines_whole; /* whole: an address without a checkpoint has no line */
	uint32_t checkpoint_count, checkpoint_cap;
	struct line_checkpoint *checkpoints;
	uint64_t used;
};
enum { FUNCTIONS_KEPT = 192 };

struct kept_path {
	uint64_t unit_offset;
	struct dwarf_path path;
	uint32_t file;
	bool known;
};
enum { PATHS_KEPT = 64 };

struct dwarf {
	const struct elf_file *file;
	struct elf_data data[DWARF_SECTION_COUNT];
	struct dwarf *alt;
	size_t limit_bytes, used_bytes;
	uint64_t text_low, text_end;
	uint64_t stamp; /* counts uses, for eviction */

	uint64_t *unit_offsets;
	uint32_t unit_count, unit_cap;
	struct unit_range *ranges;
	uint32_t range_count, range_cap;
	uint64_t scan_at;
	bool indexed, index_refused;
	uint64_t aranges_at;     /* where the search of .debug_aranges goes on */
	uint32_t aranges_missed; /* units that it did not have: a few, and it is left alone */

	struct abbrev_table abbrevs[ABBREV_TABLES_KEPT];
	struct unit_functions functions[FUNCTIONS_KEPT];
	struct unit units[UNITS_KEPT];
	uint32_t next_unit_slot;
	struct kept_path paths[PATHS_KEPT];
};

static inline struct bytes section_of(const struct dwarf *d, enum dwarf_section s)
{
	return d->data[s].bytes;
}

/* Grows an array within the limit of `d`; false past it. */
bool dwarf_grow(struct dwarf *d, void **list, uint32_t *cap, size_t item_bytes);
void dwarf_drop(struct dwarf *d, void **list, uint32_t *cap, size_t item_bytes);

/* ---- dwarf_unit.c ---- */

/* Only the header's extent: enough to go on to the next. */
bool unit_extent(const struct dwarf *d, uint64_t offset, uint64_t *end);
bool unit_parse(struct dwarf *d, uint64_t offset, struct unit *out);
/* The unit that holds an offset; kept until a few others were asked for. NULL: none. */
struct unit *unit_holding(struct dwarf *d, uint64_t die_offset);

const struct abbrev_table *abbrevs_of(const struct unit *u);
/* Reads one entry, its attributes included. False: the entry is broken, the list ends here. */
bool die_read(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
	      struct die *out);
/* The same, but attributes are only stepped over unless the tag is `wanted`. */
bool die_read_if(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
		 uint16_t wanted, struct die *out);

/* The same for a walk down a function: attributes of what has no entries below it, and is no
 * inlined call, are stepped over. */
bool die_read_scope(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
		    struct die *out);

static inline bool die_has(const struct die *die, enum die_attr_id id)
{
	return die->present & (1U << id);
}
struct str die_string(const struct unit *u, const struct die *die, enum die_attr_id id);
bool die_address(const struct unit *u, const struct die *die, enum die_attr_id id, uint64_t *out);
/* 0 when absent or larger than 32 bits. */
uint32_t die_u32(const struct die *die, enum die_attr_id id);
bool die_reference(const struct unit *u, const struct die *die, enum die_attr_id id,
		   struct dwarf **target, uint64_t *offset);

/* ---- dwarf_ranges.c ---- */

/* Each [low, high) of an entry; false from the callback stops. Returns false when it was stopped.
 */
typedef bool (*range_fn)(void *ctx, uint64_t low, uint64_t high);
bool die_each_range(const struct unit *u, const struct die *die, range_fn fn, void *ctx);
bool die_has_ranges(const struct die *die);
bool die_contains(const struct unit *u, const struct die *die, uint64_t elf_vaddr);

/* ---- dwarf_line.c ---- */

struct line_row {
	uint64_t address;
	uint32_t file, line, column;
};
/* Notes checkpoints in `f`, the unit's, when it has none. */
bool line_find(const struct unit *u, struct unit_functions *f, uint64_t elf_vaddr,
	       struct line_row *out);
bool line_path(const struct unit *u, uint32_t file, struct dwarf_path *out);

/* ---- dwarf_index.c ---- */

/* The unit of an address. FOUND sets *unit. */
enum dwarf_answer index_find(struct dwarf *d, uint64_t elf_vaddr, struct work_budget *budget,
			     uint32_t *unit);
