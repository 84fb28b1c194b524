#include "agent/unwind/cfi_read.h"

#include <assert.h>
#include <stdlib.h>

#include "base/vec.h"

/* LSB 5.0 Core, 10.5.1 */
enum {
	DW_EH_PE_ABSPTR = 0x00,
	DW_EH_PE_ULEB128 = 0x01,
	DW_EH_PE_UDATA2 = 0x02,
	DW_EH_PE_UDATA4 = 0x03,
	DW_EH_PE_UDATA8 = 0x04,
	DW_EH_PE_SLEB128 = 0x09,
	DW_EH_PE_SDATA2 = 0x0a,
	DW_EH_PE_SDATA4 = 0x0b,
	DW_EH_PE_SDATA8 = 0x0c,
	DW_EH_PE_FORMAT = 0x0f,
	DW_EH_PE_PCREL = 0x10,
	DW_EH_PE_TEXTREL = 0x20,
	DW_EH_PE_DATAREL = 0x30,
	DW_EH_PE_APPLICATION = 0x70,
	DW_EH_PE_INDIRECT = 0x80,
	DW_EH_PE_OMIT = 0xff,
	USUAL_TABLE = DW_EH_PE_DATAREL | DW_EH_PE_SDATA4,
};

/* One entry's frame: its bytes behind the length, and its id field. */
struct entry {
	uint64_t offset;    /* of the length field */
	uint64_t next;      /* offset of the next entry */
	uint64_t id_offset; /* of the id field */
	uint64_t id;
	bool is_cie;
	struct byte_reader rest; /* behind the id, up to the entry's end */
};

static uint64_t offset_of(const struct cfi_section *s, const struct byte_reader *r)
{
	return (uint64_t)(r->ptr - s->bytes.ptr);
}

enum entry_result { ENTRY_END, ENTRY_TERMINATOR, ENTRY_OK };

static enum entry_result entry_read(const struct cfi_section *s, uint64_t offset, struct entry *e)
{
	struct byte_reader r = byte_reader_at(s->bytes, offset);
	uint64_t length = read_u32(&r);
	bool wide = length == 0xffffffff;

	if (wide)
		length = read_u64(&r);
	if (r.failed)
		return ENTRY_END;
	e->offset = offset;
	e->next = offset_of(s, &r);
	if (length == 0)
		return ENTRY_TERMINATOR;
	if (length > byte_reader_left(&r))
		return ENTRY_END;
	e->next += length;
	r.end = r.ptr + length;
	e->id_offset = offset_of(s, &r);
	/* In .eh_frame the id is four bytes in either format. */
	wide = wide && s->debug_frame;
	e->id = wide ? read_u64(&r) : read_u32(&r);
	e->rest = r;
	if (s->debug_frame)
		e->is_cie = e->id == (wide ? UINT64_MAX : UINT32_MAX);
	else
		e->is_cie = e->id == 0;
	return r.failed ? ENTRY_TERMINATOR : ENTRY_OK;
}

static uint64_t read_format(struct byte_reader *r, uint8_t encoding)
{
	switch (encoding & DW_EH_PE_FORMAT) {
	case DW_EH_PE_ABSPTR:
	case DW_EH_PE_UDATA8:
	case DW_EH_PE_SDATA8:
		return read_u64(r);
	case DW_EH_PE_ULEB128:
		return read_uleb128(r);
	case DW_EH_PE_UDATA2:
		return read_u16(r);
	case DW_EH_PE_UDATA4:
		return read_u32(r);
	case DW_EH_PE_SLEB128:
		return (uint64_t)read_sleb128(r);
	case DW_EH_PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)read_u16(r);
	case DW_EH_PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)read_u32(r);
	default:
		r->failed = true;
		return 0;
	}
}

uint64_t cfi_read_pointer(const struct cfi_section *s, struct byte_reader *r, uint8_t encoding)
{
	uint64_t at = s->vaddr + offset_of(s, r), v = read_format(r, encoding);

	switch (encoding & (DW_EH_PE_APPLICATION | DW_EH_PE_INDIRECT)) {
	case 0:
		return v;
	case DW_EH_PE_PCREL:
		return v + at;
	case DW_EH_PE_TEXTREL:
		return v + s->text_vaddr;
	case DW_EH_PE_DATAREL:
		return v + s->data_vaddr;
	default: /* indirect: only personalities are; aligned, function-relative: nobody's */
		r->failed = true;
		return 0;
	}
}

/* The letters of a CIE's augmentation. False: what follows cannot be understood. */
static bool read_augmentation(struct byte_reader *r, struct str letters, struct cfi_cie *cie)
{
	struct byte_reader data;
	uint64_t len;

	if (!letters.len)
		return true;
	if (letters.ptr[0] != 'z') {
		cie->signal_frame = str_is(letters, "S");
		return cie->signal_frame;
	}
	cie->sized_augmentation = true;
	len = read_uleb128(r);
	if (len > byte_reader_left(r))
		return false;
	data = *r;
	data.end = r->ptr + len;
	read_skip(r, len);
	for (size_t i = 1; i < letters.len; i++) {
		uint8_t encoding;

		switch (letters.ptr[i]) {
		case 'R':
			cie->pointer_encoding = read_u8(&data);
			break;
		case 'L':
			read_u8(&data);
			break;
		case 'P': /* the personality: only its length matters */
			encoding = read_u8(&data);
			read_format(&data, encoding);
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* arm64: return addresses are signed with the B key */
		case 'G': /* arm64: memory tagging */
			break;
		default:
			/* Letters unknown to us end the list; the length has told where the program
			 * begins, but not whether an 'R' follows. */
			return memchr(letters.ptr + i, 'R', letters.len - i) == NULL &&
			       !data.failed;
		}
	}
	return !data.failed;
}

bool cfi_cie_read(const struct cfi_section *s, uint64_t offset, struct cfi_cie *out)
{
	struct cfi_cie cie = { .offset = offset };
	struct entry e;
	struct byte_reader r;
	struct str letters;
	uint8_t version;

	if (entry_read(s, offset, &e) != ENTRY_OK || !e.is_cie)
		return false;
	r = e.rest;
	version = read_u8(&r);
	if (version != 1 && version != 3 && version != 4)
		return false;
	letters = read_cstr(&r);
	if (str_is(letters, "eh")) { /* gcc 2: a pointer, then as without augmentation */
		read_u64(&r);
		letters = STR("");
	}
	if (version == 4 && (read_u8(&r) != 8 || read_u8(&r) != 0))
		return false; /* address size, segment selector size */
	cie.code_alignment = read_uleb128(&r);
	cie.data_alignment = read_sleb128(&r);
	cie.ra_column = version == 1 ? read_u8(&r) : (uint32_t)read_uleb128(&r);
	if (r.failed || !read_augmentation(&r, letters, &cie) || r.failed)
		return false;
	cie.program = (struct bytes){ r.ptr, byte_reader_left(&r) };
	*out = cie;
	return true;
}

/* Where the CIE of an FDE lies; false when the id points out of the section. */
static bool cie_offset_of(const struct cfi_section *s, const struct entry *e, uint64_t *offset)
{
	if (s->debug_frame)
		*offset = e->id;
	else if (e->id > e->id_offset)
		return false;
	else
		*offset = e->id_offset - e->id;
	return *offset < s->bytes.len;
}

static bool fde_of(const struct cfi_section *s, struct entry *e, struct cfi_cie *cie,
		   struct cfi_fde *out, struct unwind_counts *counts)
{
	struct cfi_fde fde = { 0 };
	struct byte_reader r = e->rest;
	uint64_t len;

	if (!cie_offset_of(s, e, &fde.cie_offset)) {
		counts->lost[UNWIND_LOSS_FDE]++;
		return false;
	}
	if (fde.cie_offset != cie->offset && !cfi_cie_read(s, fde.cie_offset, cie)) {
		cie->offset = CFI_NO_CIE;
		counts->lost[UNWIND_LOSS_CIE]++;
		return false;
	}
	fde.begin = cfi_read_pointer(s, &r, cie->pointer_encoding);
	len = read_format(&r, cie->pointer_encoding);
	if (cie->sized_augmentation)
		read_skip(&r, read_uleb128(&r));
	if (r.failed || __builtin_add_overflow(fde.begin, len, &fde.end)) {
		counts->lost[UNWIND_LOSS_FDE]++;
		return false;
	}
	if (!len || !fde.begin) /* a function that the linker dropped */
		return false;
	fde.program = (struct bytes){ r.ptr, byte_reader_left(&r) };
	*out = fde;
	return true;
}

bool cfi_fde_read(const struct cfi_section *s, uint64_t offset, struct cfi_cie *cie,
		  struct cfi_fde *out, struct unwind_counts *counts)
{
	struct entry e;

	if (entry_read(s, offset, &e) != ENTRY_OK || e.is_cie) {
		counts->lost[UNWIND_LOSS_FDE]++;
		return false;
	}
	return fde_of(s, &e, cie, out, counts);
}

/* ---- the index ---- */

struct header {
	uint64_t eh_frame_vaddr;
	struct bytes table;
	uint32_t count;
};

static bool header_read(struct bytes bytes, uint64_t vaddr, struct header *out)
{
	/* Pointers in the header count from its own begin. */
	const struct cfi_section s = { .bytes = bytes, .vaddr = vaddr, .data_vaddr = vaddr };
	struct byte_reader r = byte_reader_of(bytes);
	uint8_t version = read_u8(&r), pointer = read_u8(&r), count = read_u8(&r);
	uint8_t table = read_u8(&r);
	uint64_t n;

	if (r.failed || version != 1 || pointer == DW_EH_PE_OMIT)
		return false;
	out->eh_frame_vaddr = cfi_read_pointer(&s, &r, pointer);
	out->table = (struct bytes){ 0 };
	out->count = 0;
	if (r.failed)
		return false;
	if (count == DW_EH_PE_OMIT || table != USUAL_TABLE)
		return true;
	n = cfi_read_pointer(&s, &r, count);
	if (r.failed || n > byte_reader_left(&r) / 8 || n > CFI_FDES_MOST)
		return true;
	out->table = (struct bytes){ r.ptr, (size_t)n * 8 };
	out->count = (uint32_t)n;
	return true;
}

bool cfi_header_eh_frame(struct bytes header, uint64_t header_vaddr, uint64_t *eh_frame_vaddr)
{
	struct header h;

	if (!header_read(header, header_vaddr, &h))
		return false;
	*eh_frame_vaddr = h.eh_frame_vaddr;
	return true;
}

static int32_t table_s32(struct bytes table, uint32_t word)
{
	int32_t v;

	memcpy(&v, table.ptr + (size_t)word * 4, sizeof(v));
	return v;
}

static bool table_sorted(struct bytes table, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (table_s32(table, 2 * i) < table_s32(table, 2 * i - 2))
			return false;
	return true;
}

struct found_fde {
	uint64_t begin, offset;
};

static int by_begin(const void *a, const void *b)
{
	const struct found_fde *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Every FDE that can be read, as it comes. */
static struct found_fde *walk(const struct cfi_section *s, uint32_t *found,
			      struct unwind_counts *counts)
{
	struct found_fde *list = NULL;
	struct cfi_cie cie = { .offset = CFI_NO_CIE };
	uint32_t count = 0, cap = 0;
	struct cfi_fde fde;
	struct entry e;
	enum entry_result result;

	for (uint64_t at = 0; (result = entry_read(s, at, &e)) != ENTRY_END; at = e.next) {
		if (result != ENTRY_OK || e.is_cie || !fde_of(s, &e, &cie, &fde, counts))
			continue;
		if (count == CFI_FDES_MOST) {
			counts->lost[UNWIND_LOSS_FAR]++;
			continue;
		}
		VEC_ROOM(list, count, cap);
		list[count++] = (struct found_fde){ fde.begin, at };
	}
	*found = count;
	return list;
}

static void index_by_walk(struct cfi_index *x, struct unwind_counts *counts)
{
	uint32_t found;
	struct found_fde *list = walk(x->section, &found, counts);

	if (!found) {
		free(list);
		return;
	}
	qsort(list, found, sizeof(*list), by_begin);
	x->base = list[0].begin;
	x->own = malloc(found * sizeof(*x->own));
	assert(x->own);
	for (uint32_t i = 0; i < found; i++) {
		if (list[i].begin - x->base > UINT32_MAX || list[i].offset > UINT32_MAX) {
			counts->lost[UNWIND_LOSS_FAR]++;
			continue;
		}
		x->own[x->count++] = (struct cfi_index_entry){ (uint32_t)(list[i].begin - x->base),
							       (uint32_t)list[i].offset };
	}
	free(list);
}

bool cfi_index_init(struct cfi_index *x, const struct cfi_section *s, struct bytes header,
		    uint64_t header_vaddr, struct unwind_counts *counts)
{
	struct header h = { 0 };

	*x = (struct cfi_index){ .section = s, .header_vaddr = header_vaddr };
	if (header_read(header, header_vaddr, &h) && h.count && h.eh_frame_vaddr == s->vaddr &&
	    table_sorted(h.table, h.count)) {
		x->header = h.table;
		x->count = h.count;
	} else {
		index_by_walk(x, counts);
	}
	return x->count > 0;
}

void cfi_index_release(struct cfi_index *x)
{
	free(x->own);
	*x = (struct cfi_index){ 0 };
}

uint64_t cfi_index_begin(const struct cfi_index *x, uint32_t i)
{
	if (x->own)
		return x->base + x->own[i].begin;
	return x->header_vaddr + (uint64_t)(int64_t)table_s32(x->header, 2 * i);
}

uint64_t cfi_index_offset(const struct cfi_index *x, uint32_t i)
{
	if (x->own)
		return x->own[i].offset;
	return x->header_vaddr + (uint64_t)(int64_t)table_s32(x->header, 2 * i + 1) -
	       x->section->vaddr;
}

uint32_t cfi_index_find(const struct cfi_index *x, uint64_t elf_vaddr)
{
	uint32_t lo = 0, hi = x->count;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (cfi_index_begin(x, mid) <= elf_vaddr)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}
