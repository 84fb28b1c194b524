/*
 * dwarf_line.c - runs the line program of a unit up to an address (DWARF 5, 6.2).
 *
 *   unit length, u16 version, [5: u8 address size, u8 segment selector size], header length,
 *   u8 least instruction length, [4: u8 operations per instruction], u8 default is_stmt,
 *   i8 line base, u8 line range, u8 opcode base, u8 operands of opcodes 1...,
 *   2 to 4: directories as strings, "", files as { string, directory, mtime, length }, ""
 *   5: formats and entries of directories, then of files
 */
#include "agent/symbolize/dwarf_internal.h"

enum { CONTENT_PATH = 1, CONTENT_DIRECTORY = 2, FORMATS_MOST = 16, ENTRIES_MOST = 1 << 18 };

struct line_header {
	struct bytes section; /* to the end of this program */
	uint16_t version;
	uint8_t offset_bytes;
	uint8_t least_instruction, operations, line_range, opcode_base;
	int8_t line_base;
	struct bytes operand_counts;
	uint64_t tables_at, program_at;
};

static bool header_read(const struct unit *u, struct line_header *h)
{
	struct bytes all = section_of(u->dwarf, DWARF_LINE);
	struct byte_reader r;
	uint64_t length, header_length, end;

	if (!u->has_lines)
		return false;
	r = byte_reader_at(all, u->lines_at);
	h->offset_bytes = 4;
	length = read_u32(&r);
	if (length == 0xffffffff) {
		h->offset_bytes = 8;
		length = read_u64(&r);
	}
	if (r.failed || length > byte_reader_left(&r))
		return false;
	end = (uint64_t)(r.ptr - all.ptr) + length;
	h->section = (struct bytes){ all.ptr, (size_t)end };
	r.end = all.ptr + end;
	h->version = read_u16(&r);
	if (h->version < 2 || h->version > 5)
		return false;
	if (h->version >= 5)
		read_skip(&r, 2);
	header_length = read_uint(&r, h->offset_bytes);
	if (r.failed || header_length > byte_reader_left(&r))
		return false;
	h->program_at = (uint64_t)(r.ptr - all.ptr) + header_length;
	h->least_instruction = read_u8(&r);
	h->operations = h->version >= 4 ? read_u8(&r) : 1;
	read_u8(&r);
	h->line_base = (int8_t)read_u8(&r);
	h->line_range = read_u8(&r);
	h->opcode_base = read_u8(&r);
	if (r.failed || !h->line_range || !h->opcode_base ||
	    !bytes_part((struct bytes){ r.ptr, byte_reader_left(&r) }, 0, h->opcode_base - 1U,
			&h->operand_counts))
		return false;
	h->tables_at = (uint64_t)(r.ptr - all.ptr) + h->opcode_base - 1U;
	if (!h->operations)
		h->operations = 1;
	return true;
}

/* ---- the program ---- */

struct machine {
	struct line_row row; /* as the registers stand */
	uint32_t operation;
	struct line_row last; /* last row of this sequence */
	bool has_last;
	bool dead; /* the sequence's code was dropped by the linker */
};

static void machine_reset(struct machine *m)
{
	*m = (struct machine){ .row = { .file = 1, .line = 1 } };
}

static void advance(const struct line_header *h, struct machine *m, uint64_t by)
{
	if (h->operations > 1) {
		uint64_t all = m->operation + by;

		m->operation = (uint32_t)(all % h->operations);
		by = all / h->operations;
	}
	m->row.address += by * h->least_instruction;
}

/* A row begins at the registers' address, so the one before ends there. True: it holds the target.
 */
static bool emit(struct machine *m, uint64_t target, uint64_t text_low, struct line_row *out)
{
	if (!m->has_last && m->row.address == 0 && text_low)
		m->dead = true;
	if (m->has_last && !m->dead && target >= m->last.address && target < m->row.address) {
		*out = m->last;
		return true;
	}
	m->last = m->row;
	m->has_last = true;
	return false;
}

/* An extended opcode. True: found. */
static bool run_extended(struct byte_reader *r, struct machine *m, uint64_t target,
			 uint64_t text_low, struct line_row *out)
{
	uint64_t length = read_uleb128(r);
	struct byte_reader op = *r;
	bool found = false;

	read_skip(r, length);
	if (r->failed || !length)
		return false;
	op.end = op.ptr + length;
	switch (read_u8(&op)) {
	case 1: /* end of sequence */
		found = emit(m, target, text_low, out);
		machine_reset(m);
		break;
	case 2:
		m->row.address = read_uint(&op, (unsigned)(length - 1 <= 8 ? length - 1 : 9));
		m->operation = 0;
		if (m->row.address >= UINT64_MAX - 1)
			m->dead = true;
		break;
	default:
		break; /* discriminators, files defined in between, and the vendors' own */
	}
	return found;
}

static bool run_standard(const struct line_header *h, uint8_t opcode, struct byte_reader *r,
			 struct machine *m, uint64_t target, uint64_t text_low,
			 struct line_row *out)
{
	switch (opcode) {
	case 1: /* copy */
		return emit(m, target, text_low, out);
	case 2:
		advance(h, m, read_uleb128(r));
		break;
	case 3:
		m->row.line += (uint32_t)read_sleb128(r);
		break;
	case 4:
		m->row.file = (uint32_t)read_uleb128(r);
		break;
	case 5:
		m->row.column = (uint32_t)read_uleb128(r);
		break;
	case 8:
		advance(h, m, (255U - h->opcode_base) / h->line_range);
		break;
	case 9:
		m->row.address += read_u16(r);
		m->operation = 0;
		break;
	case 6: /* is_stmt, basic block, prologue end, epilogue begin */
	case 7:
	case 10:
	case 11:
		break;
	default: /* 12 is the instruction set; later ones say how many operands they have */
		for (uint8_t i = 0; i < h->operand_counts.ptr[opcode - 1]; i++)
			read_uleb128(r);
	}
	return false;
}

bool line_find(const struct unit *u, uint64_t elf_vaddr, struct line_row *out)
{
	uint64_t text_low = u->dwarf->text_low;
	struct line_header h;
	struct byte_reader r;
	struct machine m;

	if (!header_read(u, &h))
		return false;
	r = byte_reader_at(h.section, h.program_at);
	machine_reset(&m);
	while (!r.failed && r.ptr < r.end) {
		uint8_t opcode = read_u8(&r);

		if (opcode >= h.opcode_base) {
			uint8_t n = (uint8_t)(opcode - h.opcode_base);

			advance(&h, &m, n / h.line_range);
			m.row.line += (uint32_t)(h.line_base + n % h.line_range);
			if (emit(&m, elf_vaddr, text_low, out))
				return true;
		} else if (opcode == 0) {
			if (run_extended(&r, &m, elf_vaddr, text_low, out))
				return true;
		} else if (run_standard(&h, opcode, &r, &m, elf_vaddr, text_low, out)) {
			return true;
		}
	}
	return false;
}

/* ---- files ---- */

static bool path_old(const struct line_header *h, uint32_t file, struct dwarf_path *out)
{
	struct byte_reader r = byte_reader_at(h->section, h->tables_at), directories = r;
	uint64_t directory = 0;
	struct str name;

	for (uint32_t i = 0; i < ENTRIES_MOST && read_cstr(&r).len; i++)
		continue;
	for (uint32_t i = 1; i < ENTRIES_MOST; i++) {
		name = read_cstr(&r);
		directory = read_uleb128(&r);
		read_uleb128(&r);
		read_uleb128(&r);
		if (r.failed || !name.len)
			return false;
		if (i == file)
			break;
	}
	out->file = name;
	for (uint64_t i = 1; i <= directory && i < ENTRIES_MOST; i++)
		out->directory = read_cstr(&directories);
	return file > 0;
}

struct entry_format {
	uint32_t count;
	struct {
		uint64_t content, form;
	} field[FORMATS_MOST];
};

static void format_read(struct byte_reader *r, struct entry_format *f)
{
	f->count = read_u8(r);
	for (uint32_t i = 0; i < f->count; i++) {
		uint64_t content = read_uleb128(r), form = read_uleb128(r);

		if (i < FORMATS_MOST) {
			f->field[i].content = content;
			f->field[i].form = form;
		}
	}
	if (f->count > FORMATS_MOST)
		r->failed = true;
}

/* Forms a path or a directory index comes in (DWARF 5, 6.2.4.1), and those of what is skipped. */
static void field_read(const struct unit *u, const struct line_header *h, struct byte_reader *r,
		       uint64_t form, struct str *text, uint64_t *number)
{
	switch (form) {
	case 0x08:
		*text = read_cstr(r);
		break;
	case 0x0e:
		*text = bytes_cstr_at(section_of(u->dwarf, DWARF_STR),
				      read_uint(r, h->offset_bytes));
		break;
	case 0x1f:
		*text = bytes_cstr_at(section_of(u->dwarf, DWARF_LINE_STR),
				      read_uint(r, h->offset_bytes));
		break;
	case 0x0b:
		*number = read_u8(r);
		break;
	case 0x05:
		*number = read_u16(r);
		break;
	case 0x06:
		*number = read_u32(r);
		break;
	case 0x07:
		*number = read_u64(r);
		break;
	case 0x0f:
		*number = read_uleb128(r);
		break;
	case 0x1e: /* an MD5 */
		read_skip(r, 16);
		break;
	case 0x09:
		read_skip(r, read_uleb128(r));
		break;
	default:
		r->failed = true;
	}
}

/* The entry of this number; reads the list up to it, or to its end. */
static bool entry_read(const struct unit *u, const struct line_header *h, struct byte_reader *r,
		       uint64_t wanted, struct str *path, uint64_t *directory)
{
	struct entry_format f;
	uint64_t count;
	bool found = false;

	format_read(r, &f);
	count = read_uleb128(r);
	if (!f.count)
		return false;
	for (uint64_t i = 0; i < count && i < ENTRIES_MOST && !r->failed; i++) {
		struct str text = { 0 };
		uint64_t number = 0, index = 0;

		for (uint32_t k = 0; k < f.count; k++) {
			struct str t = { 0 };

			number = 0;
			field_read(u, h, r, f.field[k].form, &t, &number);
			if (f.field[k].content == CONTENT_PATH)
				text = t;
			else if (f.field[k].content == CONTENT_DIRECTORY)
				index = number;
		}
		if (i == wanted && !r->failed) {
			*path = text;
			*directory = index;
			found = true;
		}
	}
	return found;
}

static bool path_new(const struct unit *u, const struct line_header *h, uint32_t file,
		     struct dwarf_path *out)
{
	struct byte_reader r = byte_reader_at(h->section, h->tables_at), again = r;
	struct str ignored;
	uint64_t directory = 0, unused;

	entry_read(u, h, &r, UINT64_MAX, &ignored, &unused);
	if (r.failed || !entry_read(u, h, &r, file, &out->file, &directory))
		return false;
	entry_read(u, h, &again, directory, &out->directory, &unused);
	return out->file.len > 0;
}

bool line_path(const struct unit *u, uint32_t file, struct dwarf_path *out)
{
	struct dwarf_path path = { .unit_directory = u->directory };
	struct line_header h;

	if (!header_read(u, &h) ||
	    !(h.version >= 5 ? path_new(u, &h, file, &path) : path_old(&h, file, &path)))
		return false;
	*out = path;
	return true;
}
