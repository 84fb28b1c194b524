/*
 * dwarf_line.c - runs the line program of a unit up to an address (DWARF 5, 6.2).
 *
 * The first run of a unit notes checkpoints, the registers at the start of each sequence and at
 * every 128th row, so that later ones begin near their address.
 *
 *   unit length, u16 version, [5: u8 address size, u8 segment selector size], header length,
 *   u8 least instruction length, [4: u8 operations per instruction], u8 default is_stmt,
 *   i8 line base, u8 line range, u8 opcode base, u8 operands of opcodes 1...,
 *   2 to 4: directories as strings, "", files as { string, directory, mtime, length }, ""
 *   5: formats and entries of directories, then of files
 */
#include <stdlib.h>
#include "agent/symbolize/dwarf_internal.h"

enum {
	CONTENT_PATH = 1,
	CONTENT_DIRECTORY = 2,
	FORMATS_MOST = 16,
	ENTRIES_MOST = 1 << 18,
	CHECKPOINT_ROWS = 128,
	OVERLAPS_LOOK_BACK = 32
};

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

/* What is done with the rows: one address is looked for, or checkpoints are noted. */
struct run {
	const struct line_header *h;
	struct dwarf *dwarf;
	struct machine m;
	uint64_t target;
	struct line_row *found;
	struct unit_functions *noting; /* NULL: looking */
	bool open, full;               /* noting: the last checkpoint has no end yet; no room */
	uint32_t rows;                 /* since then */
};

static void machine_reset(struct machine *m)
{
	*m = (struct machine){ .row = { .file = 1, .line = 1 } };
}

static void advance(struct run *run, uint64_t by)
{
	if (run->h->operations > 1) {
		uint64_t all = run->m.operation + by;

		run->m.operation = (uint32_t)(all % run->h->operations);
		by = all / run->h->operations;
	}
	run->m.row.address += by * run->h->least_instruction;
}

static void checkpoint_close(struct run *run)
{
	struct unit_functions *f = run->noting;
	struct line_checkpoint *c = &f->checkpoints[f->checkpoint_count - 1];
	uint64_t end = run->m.row.address - run->dwarf->text_low;

	run->open = false;
	if (run->m.row.address < run->dwarf->text_low || end <= c->low || end > UINT32_MAX)
		f->checkpoint_count--; /* no address is in it */
	else
		c->high = (uint32_t)end;
}

static void checkpoint_note(struct run *run, uint64_t at, bool end)
{
	struct unit_functions *f = run->noting;
	const struct line_row *row = &run->m.row;
	uint64_t low = row->address - run->dwarf->text_low;

	if (run->open && (end || run->rows++ >= CHECKPOINT_ROWS))
		checkpoint_close(run);
	if (run->open || end || run->m.dead || row->address < run->dwarf->text_low ||
	    low > UINT32_MAX || at > UINT32_MAX)
		return;
	if (f->checkpoint_count == f->checkpoint_cap &&
	    !dwarf_grow(run->dwarf, (void **)&f->checkpoints, &f->checkpoint_cap,
			sizeof(*f->checkpoints))) {
		run->full = true;
		return;
	}
	f->checkpoints[f->checkpoint_count++] =
		(struct line_checkpoint){ (uint32_t)low, 0,         (uint32_t)at,
					  row->file,     row->line, row->column };
	run->open = true;
	run->rows = 0;
}

/* A row begins at the registers' address, so the one before ends there. True: stop. */
static bool emit(struct run *run, const struct byte_reader *r, bool end)
{
	struct machine *m = &run->m;

	if (!m->has_last && m->row.address == 0 && run->dwarf->text_low)
		m->dead = true;
	if (run->noting) {
		checkpoint_note(run, (uint64_t)(r->ptr - run->h->section.ptr), end);
	} else if (m->has_last && !m->dead && run->target >= m->last.address &&
		   run->target < m->row.address) {
		*run->found = m->last;
		return true;
	}
	m->last = m->row;
	m->has_last = true;
	return run->full;
}

/* An extended opcode. True: stop. */
static bool run_extended(struct run *run, struct byte_reader *r)
{
	uint64_t length = read_uleb128(r);
	struct byte_reader op = *r;
	bool stop = false;

	read_skip(r, length);
	if (r->failed || !length)
		return false;
	op.end = op.ptr + length;
	switch (read_u8(&op)) {
	case 1: /* end of sequence */
		stop = emit(run, r, true);
		machine_reset(&run->m);
		break;
	case 2:
		run->m.row.address = read_uint(&op, (unsigned)(length - 1 <= 8 ? length - 1 : 9));
		run->m.operation = 0;
		if (run->m.row.address >= UINT64_MAX - 1)
			run->m.dead = true;
		break;
	default:
		break; /* discriminators, files defined in between, and the vendors' own */
	}
	return stop;
}

static bool run_standard(struct run *run, uint8_t opcode, struct byte_reader *r)
{
	const struct line_header *h = run->h;
	struct machine *m = &run->m;

	switch (opcode) {
	case 1: /* copy */
		return emit(run, r, false);
	case 2:
		advance(run, read_uleb128(r));
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
		advance(run, (255U - h->opcode_base) / h->line_range);
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

/* True: it was stopped, by what it looked for or for want of room. */
static bool run_program(struct run *run, struct byte_reader *r)
{
	const struct line_header *h = run->h;

	while (!r->failed && r->ptr < r->end) {
		uint8_t opcode = read_u8(r);

		if (opcode >= h->opcode_base) {
			uint8_t n = (uint8_t)(opcode - h->opcode_base);

			advance(run, n / h->line_range);
			run->m.row.line += (uint32_t)(h->line_base + n % h->line_range);
			if (emit(run, r, false))
				return true;
		} else if (opcode == 0 ? run_extended(run, r) : run_standard(run, opcode, r)) {
			return true;
		}
	}
	return false;
}

/* ---- checkpoints ---- */

static int by_low(const void *a, const void *b)
{
	const struct line_checkpoint *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static bool note_checkpoints(const struct unit *u, const struct line_header *h,
			     struct unit_functions *f)
{
	struct run run = { .h = h, .dwarf = u->dwarf, .noting = f };
	struct byte_reader r = byte_reader_at(h->section, h->program_at);

	f->lines_noted = true;
	machine_reset(&run.m);
	f->lines_whole = h->operations == 1 && !run_program(&run, &r);
	if (run.open)
		f->checkpoint_count--;
	if (f->checkpoint_count)
		qsort(f->checkpoints, f->checkpoint_count, sizeof(*f->checkpoints), by_low);
	return f->lines_whole;
}

static const struct line_checkpoint *checkpoint_of(const struct unit_functions *f, uint32_t at)
{
	uint32_t low = 0, high = f->checkpoint_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (f->checkpoints[mid].low <= at)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t back = 1; back <= low && back <= OVERLAPS_LOOK_BACK; back++) {
		if (at < f->checkpoints[low - back].high)
			return &f->checkpoints[low - back];
	}
	return NULL;
}

bool line_find(const struct unit *u, struct unit_functions *f, uint64_t elf_vaddr,
	       struct line_row *out)
{
	struct run run = { .dwarf = u->dwarf, .target = elf_vaddr, .found = out };
	const struct line_checkpoint *c = NULL;
	struct line_header h;
	struct byte_reader r;

	if (!header_read(u, &h))
		return false;
	if (!f->lines_noted)
		note_checkpoints(u, &h, f);
	if (f->lines_whole) {
		c = checkpoint_of(f, (uint32_t)(elf_vaddr - u->dwarf->text_low));
		if (!c)
			return false;
	}
	run.h = &h;
	machine_reset(&run.m);
	if (c) {
		run.m.row = (struct line_row){ c->low + u->dwarf->text_low, c->file, c->line,
					       c->column };
		run.m.last = run.m.row;
		run.m.has_last = true;
	}
	r = byte_reader_at(h.section, c ? c->at : h.program_at);
	return run_program(&run, &r);
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

/* File tables are lists to walk: the paths asked for last are kept. */
bool line_path(const struct unit *u, uint32_t file, struct dwarf_path *out)
{
	struct kept_path *kept = &u->dwarf->paths[(file ^ (uint32_t)(u->offset >> 2)) % PATHS_KEPT];
	struct dwarf_path path = { .unit_directory = u->directory };
	struct line_header h;

	if (kept->known && kept->unit_offset == u->offset && kept->file == file) {
		*out = kept->path;
		return true;
	}
	if (!header_read(u, &h) ||
	    !(h.version >= 5 ? path_new(u, &h, file, &path) : path_old(&h, file, &path)))
		return false;
	*kept = (struct kept_path){ u->offset, path, file, true };
	*out = path;
	return true;
}
