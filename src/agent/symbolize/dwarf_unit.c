/* dwarf_unit.c - unit headers, abbreviations, entries and the forms of attributes (DWARF 5, 7.5).
 */
#include <stdlib.h>
#include "agent/symbolize/dwarf_internal.h"

enum {
	FORM_ADDR = 0x01,
	FORM_BLOCK2 = 0x03,
	FORM_BLOCK4 = 0x04,
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07,
	FORM_STRING = 0x08,
	FORM_BLOCK = 0x09,
	FORM_BLOCK1 = 0x0a,
	FORM_DATA1 = 0x0b,
	FORM_FLAG = 0x0c,
	FORM_SDATA = 0x0d,
	FORM_STRP = 0x0e,
	FORM_UDATA = 0x0f,
	FORM_REF_ADDR = 0x10,
	FORM_REF1 = 0x11,
	FORM_REF2 = 0x12,
	FORM_REF4 = 0x13,
	FORM_REF8 = 0x14,
	FORM_REF_UDATA = 0x15,
	FORM_INDIRECT = 0x16,
	FORM_SEC_OFFSET = 0x17,
	FORM_EXPRLOC = 0x18,
	FORM_FLAG_PRESENT = 0x19,
	FORM_STRX = 0x1a,
	FORM_ADDRX = 0x1b,
	FORM_REF_SUP4 = 0x1c,
	FORM_STRP_SUP = 0x1d,
	FORM_DATA16 = 0x1e,
	FORM_LINE_STRP = 0x1f,
	FORM_REF_SIG8 = 0x20,
	FORM_IMPLICIT_CONST = 0x21,
	FORM_LOCLISTX = 0x22,
	FORM_RNGLISTX = 0x23,
	FORM_REF_SUP8 = 0x24,
	FORM_STRX1 = 0x25,
	FORM_STRX2 = 0x26,
	FORM_STRX3 = 0x27,
	FORM_STRX4 = 0x28,
	FORM_ADDRX1 = 0x29,
	FORM_ADDRX2 = 0x2a,
	FORM_ADDRX3 = 0x2b,
	FORM_ADDRX4 = 0x2c,
	FORM_GNU_ADDR_INDEX = 0x1f01,
	FORM_GNU_STR_INDEX = 0x1f02,
	FORM_GNU_REF_ALT = 0x1f20,
	FORM_GNU_STRP_ALT = 0x1f21,
};

enum {
	UNIT_COMPILE = 1,
	UNIT_PARTIAL = 3,
	UNIT_SKELETON = 4,
	UNIT_SPLIT_COMPILE = 5,
	SIZE_UNKNOWN_FORM = -2,
	SIZE_VARIES = -1,
	ATTRS_MOST = 512, /* of one entry */
};

/* ---- memory ---- */

bool dwarf_grow(struct dwarf *d, void **list, uint32_t *cap, size_t item_bytes)
{
	uint32_t grown_cap = *cap ? *cap + *cap / 2 : 64;
	size_t more = (grown_cap - *cap) * item_bytes;
	void *grown;

	if (grown_cap < *cap || d->used_bytes > d->limit_bytes ||
	    more > d->limit_bytes - d->used_bytes)
		return false;
	grown = realloc(*list, grown_cap * item_bytes);
	if (!grown)
		abort();
	*list = grown;
	*cap = grown_cap;
	d->used_bytes += more;
	return true;
}

void dwarf_drop(struct dwarf *d, void **list, uint32_t *cap, size_t item_bytes)
{
	free(*list);
	d->used_bytes -= *cap * item_bytes;
	*list = NULL;
	*cap = 0;
}

/* ---- forms ---- */

static int form_bytes(uint64_t form, uint8_t address_bytes, uint8_t offset_bytes, uint16_t version)
{
	switch (form) {
	case FORM_FLAG_PRESENT:
	case FORM_IMPLICIT_CONST:
		return 0;
	case FORM_DATA1:
	case FORM_FLAG:
	case FORM_REF1:
	case FORM_STRX1:
	case FORM_ADDRX1:
		return 1;
	case FORM_DATA2:
	case FORM_REF2:
	case FORM_STRX2:
	case FORM_ADDRX2:
		return 2;
	case FORM_STRX3:
	case FORM_ADDRX3:
		return 3;
	case FORM_DATA4:
	case FORM_REF4:
	case FORM_STRX4:
	case FORM_ADDRX4:
	case FORM_REF_SUP4:
		return 4;
	case FORM_DATA8:
	case FORM_REF8:
	case FORM_REF_SIG8:
	case FORM_REF_SUP8:
		return 8;
	case FORM_DATA16:
		return 16;
	case FORM_ADDR:
		return address_bytes;
	case FORM_REF_ADDR:
		return version <= 2 ? address_bytes : offset_bytes;
	case FORM_STRP:
	case FORM_LINE_STRP:
	case FORM_SEC_OFFSET:
	case FORM_STRP_SUP:
	case FORM_GNU_REF_ALT:
	case FORM_GNU_STRP_ALT:
		return offset_bytes;
	case FORM_BLOCK:
	case FORM_BLOCK1:
	case FORM_BLOCK2:
	case FORM_BLOCK4:
	case FORM_EXPRLOC:
	case FORM_STRING:
	case FORM_SDATA:
	case FORM_UDATA:
	case FORM_REF_UDATA:
	case FORM_INDIRECT:
	case FORM_STRX:
	case FORM_ADDRX:
	case FORM_LOCLISTX:
	case FORM_RNGLISTX:
	case FORM_GNU_ADDR_INDEX:
	case FORM_GNU_STR_INDEX:
		return SIZE_VARIES;
	default:
		return SIZE_UNKNOWN_FORM;
	}
}

static void attr_read(const struct unit *u, struct byte_reader *r, uint64_t form, int64_t implicit,
		      struct die_attr *out)
{
	int bytes = form_bytes(form, u->address_bytes, u->offset_bytes, u->version);

	out->form = (uint16_t)form;
	out->value = 0;
	if (bytes >= 0 && bytes <= 8) {
		out->value = form == FORM_IMPLICIT_CONST ? (uint64_t)implicit
			     : form == FORM_FLAG_PRESENT ? 1
							 : read_uint(r, (unsigned)bytes);
		return;
	}
	switch (form) {
	case FORM_STRING:
		out->inline_text = read_cstr(r);
		return;
	case FORM_SDATA:
		out->value = (uint64_t)read_sleb128(r);
		return;
	case FORM_UDATA:
	case FORM_REF_UDATA:
	case FORM_STRX:
	case FORM_ADDRX:
	case FORM_LOCLISTX:
	case FORM_RNGLISTX:
	case FORM_GNU_ADDR_INDEX:
	case FORM_GNU_STR_INDEX:
		out->value = read_uleb128(r);
		return;
	case FORM_BLOCK1:
		read_skip(r, read_u8(r));
		return;
	case FORM_BLOCK2:
		read_skip(r, read_u16(r));
		return;
	case FORM_BLOCK4:
		read_skip(r, read_u32(r));
		return;
	case FORM_BLOCK:
	case FORM_EXPRLOC:
		read_skip(r, read_uleb128(r));
		return;
	case FORM_DATA16:
		read_skip(r, 16);
		return;
	case FORM_INDIRECT:
		form = read_uleb128(r);
		if (form != FORM_INDIRECT && form != FORM_IMPLICIT_CONST) {
			attr_read(u, r, form, 0, out);
			return;
		}
		break;
	default:
		break;
	}
	r->failed = true; /* a form we do not know has a size we do not know */
}

static int attr_id(uint64_t name)
{
	switch (name) {
	case 0x01:
		return ATTR_SIBLING;
	case 0x03:
		return ATTR_NAME;
	case 0x10:
		return ATTR_STMT_LIST;
	case 0x11:
		return ATTR_LOW_PC;
	case 0x12:
		return ATTR_HIGH_PC;
	case 0x1b:
		return ATTR_COMP_DIR;
	case 0x31:
		return ATTR_ORIGIN;
	case 0x3b:
		return ATTR_DECL_LINE;
	case 0x47:
		return ATTR_SPECIFICATION;
	case 0x55:
		return ATTR_RANGES;
	case 0x57:
		return ATTR_CALL_COLUMN;
	case 0x58:
		return ATTR_CALL_FILE;
	case 0x59:
		return ATTR_CALL_LINE;
	case 0x6e:
	case 0x2007: /* DW_AT_MIPS_linkage_name */
		return ATTR_LINKAGE_NAME;
	case 0x72:
		return ATTR_STR_OFFSETS_BASE;
	case 0x73:
	case 0x2133: /* DW_AT_GNU_addr_base */
		return ATTR_ADDR_BASE;
	case 0x74:
		return ATTR_RNGLISTS_BASE;
	default:
		return -1;
	}
}

/* ---- abbreviations ---- */

/* One declaration's attribute list: its end, and what it takes in an entry. */
static bool abbrev_attrs(const struct unit *u, struct byte_reader *r, uint16_t *fixed_bytes)
{
	uint32_t total = 0;

	for (int i = 0; i < ATTRS_MOST; i++) {
		uint64_t name = read_uleb128(r), form = read_uleb128(r);
		int bytes;

		if (form == FORM_IMPLICIT_CONST)
			read_sleb128(r);
		if (r->failed)
			return false;
		if (!name && !form) {
			*fixed_bytes = total < ABBREV_VARIES ? (uint16_t)total : ABBREV_VARIES;
			return true;
		}
		bytes = form_bytes(form, u->address_bytes, u->offset_bytes, u->version);
		if (bytes < 0 || total > ABBREV_VARIES)
			total = ABBREV_VARIES + 1;
		else
			total += (uint32_t)bytes;
	}
	return false;
}

static bool abbrev_next(const struct unit *u, struct byte_reader *r, const uint8_t *section,
			struct abbrev *out)
{
	uint64_t code = read_uleb128(r), tag;

	if (r->failed || !code || code > UINT32_MAX)
		return false;
	tag = read_uleb128(r);
	*out = (struct abbrev){ .code = (uint32_t)code,
				.tag = tag > UINT16_MAX ? UINT16_MAX : (uint16_t)tag,
				.children = read_u8(r) != 0 };
	out->attrs_at = (uint32_t)(r->ptr - section);
	return abbrev_attrs(u, r, &out->fixed_bytes);
}

static int by_code(const void *a, const void *b)
{
	const struct abbrev *x = a, *y = b;

	return x->code < y->code ? -1 : x->code > y->code;
}

static void abbrevs_load(const struct unit *u, struct abbrev_table *t)
{
	struct bytes section = section_of(u->dwarf, DWARF_ABBREV);
	struct byte_reader r = byte_reader_at(section, u->abbrev_offset);
	struct abbrev a;

	t->offset = u->abbrev_offset;
	t->address_bytes = u->address_bytes;
	t->offset_bytes = u->offset_bytes;
	t->version = (uint8_t)u->version;
	t->count = 0;
	t->sequential = true;
	while (t->count < ABBREVS_MOST && abbrev_next(u, &r, section.ptr, &a)) {
		if (t->count == t->cap &&
		    !dwarf_grow(u->dwarf, (void **)&t->list, &t->cap, sizeof(*t->list)))
			break;
		t->sequential &= a.code == t->count + 1;
		t->list[t->count++] = a;
	}
	if (!t->sequential)
		qsort(t->list, t->count, sizeof(*t->list), by_code);
}

const struct abbrev_table *abbrevs_of(const struct unit *u)
{
	struct abbrev_table *oldest = &u->dwarf->abbrevs[0];

	for (int i = 0; i < ABBREV_TABLES_KEPT; i++) {
		struct abbrev_table *t = &u->dwarf->abbrevs[i];

		if (t->list && t->offset == u->abbrev_offset &&
		    t->address_bytes == u->address_bytes && t->offset_bytes == u->offset_bytes &&
		    t->version == u->version) {
			t->used = ++u->dwarf->stamp;
			return t;
		}
		if (t->used < oldest->used)
			oldest = t;
	}
	abbrevs_load(u, oldest);
	oldest->used = ++u->dwarf->stamp;
	return oldest;
}

static const struct abbrev *abbrev_find(const struct abbrev_table *t, uint64_t code)
{
	struct abbrev key = { .code = (uint32_t)code };

	if (code > UINT32_MAX || !t->count)
		return NULL;
	if (t->sequential)
		return code <= t->count ? &t->list[code - 1] : NULL;
	return bsearch(&key, t->list, t->count, sizeof(key), by_code);
}

/* ---- entries ---- */

static bool die_attrs(const struct unit *u, const struct abbrev *a, struct byte_reader *r,
		      struct die *out)
{
	struct byte_reader specs = byte_reader_at(section_of(u->dwarf, DWARF_ABBREV), a->attrs_at);
	struct die_attr ignored;

	for (int i = 0; i < ATTRS_MOST; i++) {
		uint64_t name = read_uleb128(&specs), form = read_uleb128(&specs);
		int64_t implicit = form == FORM_IMPLICIT_CONST ? read_sleb128(&specs) : 0;
		int id;

		if (specs.failed)
			return false;
		if (!name && !form)
			return true;
		id = attr_id(name);
		attr_read(u, r, form, implicit, id < 0 ? &ignored : &out->attr[id]);
		if (r->failed)
			return false;
		if (id >= 0)
			out->present |= 1U << id;
	}
	return false;
}

static bool die_start(const struct unit *u, const struct abbrev_table *t, uint64_t offset,
		      struct byte_reader *r, const struct abbrev **a, struct die *out)
{
	struct bytes section = section_of(u->dwarf, DWARF_INFO);
	uint64_t code;

	section.len = section.len < u->end ? section.len : u->end;
	*r = byte_reader_at(section, offset);
	code = read_uleb128(r);
	out->offset = offset;
	out->present = 0;
	out->tag = 0;
	out->children = false;
	out->next = (uint64_t)(r->ptr - section.ptr);
	if (r->failed)
		return false;
	*a = NULL;
	if (!code)
		return true;
	*a = abbrev_find(t, code);
	if (!*a)
		return false;
	out->tag = (*a)->tag;
	out->children = (*a)->children;
	return true;
}

static bool die_read_or_skip(const struct unit *u, const struct abbrev *a, bool wanted,
			     struct byte_reader *r, struct die *out)
{
	if (a && !wanted && a->fixed_bytes != ABBREV_VARIES)
		read_skip(r, a->fixed_bytes);
	else if (a && !die_attrs(u, a, r, out))
		return false;
	out->next = (uint64_t)(r->ptr - section_of(u->dwarf, DWARF_INFO).ptr);
	return !r->failed;
}

bool die_read_if(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
		 uint16_t wanted, struct die *out)
{
	const struct abbrev *a;
	struct byte_reader r;

	return die_start(u, abbrevs, offset, &r, &a, out) &&
	       die_read_or_skip(u, a, out->tag == wanted, &r, out);
}

bool die_read_scope(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
		    struct die *out)
{
	const struct abbrev *a;
	struct byte_reader r;

	return die_start(u, abbrevs, offset, &r, &a, out) &&
	       die_read_or_skip(u, a, out->children || out->tag == TAG_INLINED_SUBROUTINE, &r, out);
}

bool die_read(const struct unit *u, const struct abbrev_table *abbrevs, uint64_t offset,
	      struct die *out)
{
	const uint8_t *section = section_of(u->dwarf, DWARF_INFO).ptr;
	const struct abbrev *a;
	struct byte_reader r;

	if (!die_start(u, abbrevs, offset, &r, &a, out))
		return false;
	if (a && !die_attrs(u, a, &r, out))
		return false;
	out->next = (uint64_t)(r.ptr - section);
	return true;
}

/* ---- attributes ---- */

static struct str string_by_index(const struct unit *u, uint64_t index)
{
	struct bytes offsets = section_of(u->dwarf, DWARF_STR_OFFSETS);
	struct byte_reader r;
	uint64_t at;

	if (__builtin_mul_overflow(index, u->offset_bytes, &at) ||
	    __builtin_add_overflow(at, u->str_offsets_base, &at))
		return (struct str){ 0 };
	r = byte_reader_at(offsets, at);
	at = read_uint(&r, u->offset_bytes);
	return r.failed ? (struct str){ 0 } : bytes_cstr_at(section_of(u->dwarf, DWARF_STR), at);
}

struct str die_string(const struct unit *u, const struct die *die, enum die_attr_id id)
{
	const struct die_attr *a = &die->attr[id];

	if (!die_has(die, id))
		return (struct str){ 0 };
	switch (a->form) {
	case FORM_STRING:
		return a->inline_text;
	case FORM_STRP:
		return bytes_cstr_at(section_of(u->dwarf, DWARF_STR), a->value);
	case FORM_LINE_STRP:
		return bytes_cstr_at(section_of(u->dwarf, DWARF_LINE_STR), a->value);
	case FORM_STRP_SUP:
	case FORM_GNU_STRP_ALT:
		return u->dwarf->alt ? bytes_cstr_at(section_of(u->dwarf->alt, DWARF_STR), a->value)
				     : (struct str){ 0 };
	case FORM_STRX:
	case FORM_STRX1:
	case FORM_STRX2:
	case FORM_STRX3:
	case FORM_STRX4:
	case FORM_GNU_STR_INDEX:
		return string_by_index(u, a->value);
	default:
		return (struct str){ 0 };
	}
}

bool die_address(const struct unit *u, const struct die *die, enum die_attr_id id, uint64_t *out)
{
	const struct die_attr *a = &die->attr[id];
	struct byte_reader r;
	uint64_t at;

	if (!die_has(die, id))
		return false;
	switch (a->form) {
	case FORM_ADDR:
		*out = a->value;
		return true;
	case FORM_ADDRX:
	case FORM_ADDRX1:
	case FORM_ADDRX2:
	case FORM_ADDRX3:
	case FORM_ADDRX4:
	case FORM_GNU_ADDR_INDEX:
		if (__builtin_mul_overflow(a->value, u->address_bytes, &at) ||
		    __builtin_add_overflow(at, u->addr_base, &at))
			return false;
		r = byte_reader_at(section_of(u->dwarf, DWARF_ADDR), at);
		*out = read_uint(&r, u->address_bytes);
		return !r.failed;
	default:
		return false;
	}
}

uint32_t die_u32(const struct die *die, enum die_attr_id id)
{
	return die_has(die, id) && die->attr[id].value <= UINT32_MAX ? (uint32_t)die->attr[id].value
								     : 0;
}

bool die_reference(const struct unit *u, const struct die *die, enum die_attr_id id,
		   struct dwarf **target, uint64_t *offset)
{
	const struct die_attr *a = &die->attr[id];

	if (!die_has(die, id))
		return false;
	*target = u->dwarf;
	switch (a->form) {
	case FORM_REF1:
	case FORM_REF2:
	case FORM_REF4:
	case FORM_REF8:
	case FORM_REF_UDATA:
		return !__builtin_add_overflow(u->offset, a->value, offset);
	case FORM_REF_ADDR:
		*offset = a->value;
		return true;
	case FORM_REF_SUP4:
	case FORM_REF_SUP8:
	case FORM_GNU_REF_ALT:
		*target = u->dwarf->alt;
		*offset = a->value;
		return *target != NULL;
	default:
		return false;
	}
}

/* ---- units ---- */

/* The initial length: 32 bits, or ffffffff and 64 bits. */
static uint64_t read_unit_length(struct byte_reader *r, uint8_t *offset_bytes)
{
	uint32_t length = read_u32(r);

	*offset_bytes = 4;
	if (length < 0xfffffff0)
		return length;
	*offset_bytes = 8;
	if (length != 0xffffffff)
		r->failed = true;
	return read_u64(r);
}

bool unit_extent(const struct dwarf *d, uint64_t offset, uint64_t *end)
{
	struct bytes info = section_of(d, DWARF_INFO);
	struct byte_reader r = byte_reader_at(info, offset);
	uint8_t offset_bytes;
	uint64_t length = read_unit_length(&r, &offset_bytes);

	if (r.failed || !length || length > byte_reader_left(&r))
		return false;
	*end = (uint64_t)(r.ptr - info.ptr) + length;
	return true;
}

static void unit_root(struct unit *u)
{
	const struct die *root = &u->root;

	/* Bases first: the others may be indices. Without one, the list follows its header. */
	u->str_offsets_base = die_has(root, ATTR_STR_OFFSETS_BASE)
				      ? root->attr[ATTR_STR_OFFSETS_BASE].value
			      : u->version >= 5 ? (u->offset_bytes == 8 ? 16 : 8)
						: 0;
	u->addr_base = die_has(root, ATTR_ADDR_BASE) ? root->attr[ATTR_ADDR_BASE].value
		       : u->version >= 5             ? 8
						     : 0;
	u->rnglists_base = die_has(root, ATTR_RNGLISTS_BASE) ? root->attr[ATTR_RNGLISTS_BASE].value
			   : u->offset_bytes == 8            ? 20
							     : 12;
	if (!die_address(u, root, ATTR_LOW_PC, &u->low_pc))
		u->low_pc = 0;
	u->has_lines = die_has(root, ATTR_STMT_LIST);
	u->lines_at = u->has_lines ? root->attr[ATTR_STMT_LIST].value : 0;
	u->directory = die_string(u, root, ATTR_COMP_DIR);
}

bool unit_parse(struct dwarf *d, uint64_t offset, struct unit *out)
{
	struct bytes info = section_of(d, DWARF_INFO);
	struct byte_reader r = byte_reader_at(info, offset);
	struct abbrev a = { 0 };
	uint8_t kind = UNIT_COMPILE;
	struct byte_reader abbrevs, entry;
	uint64_t code;

	memset(out, 0, offsetof(struct unit, root));
	out->dwarf = d;
	out->offset = offset;
	if (!unit_extent(d, offset, &out->end))
		return false;
	read_unit_length(&r, &out->offset_bytes);
	out->version = read_u16(&r);
	if (out->version < 2 || out->version > 5)
		return false;
	if (out->version >= 5) {
		kind = read_u8(&r);
		out->address_bytes = read_u8(&r);
		out->abbrev_offset = read_uint(&r, out->offset_bytes);
		if (kind == UNIT_SKELETON || kind == UNIT_SPLIT_COMPILE)
			read_skip(&r, 8);
	} else {
		out->abbrev_offset = read_uint(&r, out->offset_bytes);
		out->address_bytes = read_u8(&r);
	}
	if (r.failed || (out->address_bytes != 4 && out->address_bytes != 8))
		return false;
	out->code = kind == UNIT_COMPILE || kind == UNIT_PARTIAL || kind == UNIT_SKELETON;
	out->first_die = (uint64_t)(r.ptr - info.ptr);
	if (!out->code)
		return true;
	/* The root's abbreviation is nearly always the first: no need of the whole table. */
	entry = r;
	code = read_uleb128(&entry);
	abbrevs = byte_reader_at(section_of(d, DWARF_ABBREV), out->abbrev_offset);
	for (uint32_t i = 0; i < ABBREVS_MOST; i++) {
		if (!abbrev_next(out, &abbrevs, section_of(d, DWARF_ABBREV).ptr, &a))
			return false;
		if (a.code == code)
			break;
	}
	if (a.code != code || a.attrs_at == 0)
		return false;
	out->root.offset = out->first_die;
	out->root.tag = a.tag;
	out->root.children = a.children;
	out->root.present = 0;
	if (!die_attrs(out, &a, &entry, &out->root))
		return false;
	out->root.next = (uint64_t)(entry.ptr - info.ptr);
	unit_root(out);
	return true;
}

struct unit *unit_holding(struct dwarf *d, uint64_t die_offset)
{
	uint32_t low = 0, high = d->unit_count;
	struct unit *u;

	for (int i = 0; i < UNITS_KEPT; i++) {
		u = &d->units[i];
		if (u->dwarf && die_offset >= u->offset && die_offset < u->end)
			return u;
	}
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (d->unit_offsets[mid] <= die_offset)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	u = &d->units[d->next_unit_slot++ % UNITS_KEPT];
	if (!unit_parse(d, d->unit_offsets[low - 1], u) || die_offset >= u->end) {
		u->dwarf = NULL;
		return NULL;
	}
	return u;
}
