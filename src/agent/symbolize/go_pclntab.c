#include "agent/symbolize/go_pclntab.h"
#include "agent/elf/elf_symbols.h"

enum {
	POINTER_BYTES = 8,
	FUNCTIONS_MOST = 1 << 24,
	PC_TABLE_STEPS = 1 << 20, /* entries of one pc table that are walked */
	RELOCATIONS_MOST = 1 << 22,
	PCDATA_INLINE_INDEX = 2, /* internal/abi: PCDATA_InlTreeIndex */
	FUNCDATA_INLINE_TREE = 3,
	MODULE_TEXT = 176, /* of runtime.moduledata, 1.16 and later: the text field */
	MODULE_NAMES = 8,  /* the funcnametab slice */
	NO_FUNCDATA = -1,
};

static const uint32_t magics[] = { 0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1 };

/* ---- words of the file ---- */

static uint64_t word_at(struct bytes b, uint64_t offset, unsigned bytes, bool *ok)
{
	struct byte_reader r = byte_reader_at(b, offset);
	uint64_t v = read_uint(&r, bytes);

	if (r.failed)
		*ok = false;
	return v;
}

/* What a relative relocation writes to `vaddr`: position-independent files hold zeros there. */
static uint64_t relocated_word(const struct elf_file *f, uint64_t vaddr)
{
	uint64_t table, size;
	struct byte_reader r;
	struct bytes all;

	if (!elf_file_dynamic(f, DT_RELA, &table) || !elf_file_dynamic(f, DT_RELASZ, &size))
		return 0;
	all = elf_file_at_vaddr(f, table);
	if (all.len > size)
		all.len = (size_t)size;
	r = byte_reader_of(all);
	for (uint32_t i = 0; i < RELOCATIONS_MOST && byte_reader_left(&r) >= sizeof(Elf64_Rela);
	     i++) {
		uint64_t offset = read_u64(&r), info = read_u64(&r), addend = read_u64(&r);

		if (offset == vaddr && !ELF64_R_SYM(info))
			return addend;
	}
	return 0;
}

static uint64_t pointer_at(const struct elf_file *f, uint64_t vaddr)
{
	bool ok = true;
	uint64_t v = word_at(elf_file_at_vaddr(f, vaddr), 0, POINTER_BYTES, &ok);

	if (!ok)
		return 0;
	return v ? v : relocated_word(f, vaddr);
}

/* ---- finding the table ---- */

static bool version_of(struct bytes table, enum go_pclntab_version *out)
{
	bool ok = true;
	uint32_t magic = (uint32_t)word_at(table, 0, 4, &ok);

	if (!ok || table.len < 8 || table.ptr[4] || table.ptr[5] ||
	    (table.ptr[6] != 1 && table.ptr[6] != 2 && table.ptr[6] != 4))
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if (magic == magics[i]) {
			*out = (enum go_pclntab_version)i;
			return true;
		}
	}
	return false;
}

static bool part_from(struct bytes table, uint64_t offset, struct bytes *out)
{
	return offset <= table.len && bytes_part(table, offset, table.len - offset, out);
}

static bool read_header_1_2(struct go_pclntab *p, uint64_t *function_count)
{
	bool ok = true;
	uint64_t end_at, files_at;

	*function_count = word_at(p->table, 8, POINTER_BYTES, &ok);
	if (!ok || *function_count > FUNCTIONS_MOST)
		return false;
	end_at = 8 + POINTER_BYTES + *function_count * 2 * POINTER_BYTES;
	files_at = word_at(p->table, end_at + POINTER_BYTES, 4, &ok);
	p->names = p->pc_tables = p->table;
	return ok && part_from(p->table, 8 + POINTER_BYTES, &p->functions) &&
	       part_from(p->table, files_at, &p->files);
}

static bool read_header_1_16(struct go_pclntab *p, uint64_t *function_count)
{
	uint64_t at = 8 + 2 * POINTER_BYTES, offsets[5];
	bool ok = true;

	*function_count = word_at(p->table, 8, POINTER_BYTES, &ok);
	if (p->version >= GO_PCLNTAB_1_18) {
		p->text_start = word_at(p->table, at, POINTER_BYTES, &ok);
		at += POINTER_BYTES;
	}
	for (int i = 0; i < 5; i++, at += POINTER_BYTES)
		offsets[i] = word_at(p->table, at, POINTER_BYTES, &ok);
	return ok && part_from(p->table, offsets[0], &p->names) &&
	       part_from(p->table, offsets[1], &p->cu_table) &&
	       part_from(p->table, offsets[2], &p->files) &&
	       part_from(p->table, offsets[3], &p->pc_tables) &&
	       part_from(p->table, offsets[4], &p->functions);
}

static unsigned entry_word(const struct go_pclntab *p)
{
	return p->version >= GO_PCLNTAB_1_18 ? 4 : POINTER_BYTES;
}

/* Addresses of the table that ends at the function count: sorted, at least the first and the last.
 */
static bool functions_hold(const struct go_pclntab *p)
{
	unsigned w = entry_word(p);
	uint64_t first, second, end;
	bool ok = true;

	first = word_at(p->functions, 0, w, &ok);
	second = word_at(p->functions, (uint64_t)2 * w, w, &ok);
	end = word_at(p->functions, (uint64_t)p->function_count * 2 * w, w, &ok);
	return ok && first < second && second <= end;
}

static bool read_table(const struct elf_file *f, uint64_t vaddr, struct bytes table,
		       struct go_pclntab *out)
{
	struct go_pclntab p = { .file = f, .table = table, .vaddr = vaddr };
	uint64_t function_count;

	if (!version_of(table, &p.version) || table.ptr[7] != POINTER_BYTES)
		return false;
	p.quantum = table.ptr[6];
	if (!(p.version == GO_PCLNTAB_1_2 ? read_header_1_2(&p, &function_count)
					  : read_header_1_16(&p, &function_count)))
		return false;
	if (!function_count || function_count > FUNCTIONS_MOST)
		return false;
	p.function_count = (uint32_t)function_count;
	if (!functions_hold(&p))
		return false;
	*out = p;
	return true;
}

static bool find_by_section(const struct elf_file *f, struct go_pclntab *out)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	struct elf_section s;
	struct bytes table;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (elf_file_section_named(f, names[i], &s) && s.type != SHT_NOBITS &&
		    bytes_part(elf_file_bytes(f), s.file_offset, s.size, &table) &&
		    read_table(f, s.vaddr, table, out))
			return true;
	}
	return false;
}

/* Without section names (sstrip, packers, some linkers): the header is aligned to 8 at least. */
static bool find_by_magic(const struct elf_file *f, struct go_pclntab *out)
{
	struct elf_segment s;

	for (uint32_t i = 0; elf_file_segment(f, i, &s); i++) {
		struct bytes data, table;

		if (s.type != PT_LOAD || (s.flags & PF_X))
			continue;
		data = elf_file_at_vaddr(f, s.vaddr);
		for (uint64_t at = (0 - s.vaddr) % 8; at + 16 <= data.len; at += 8) {
			if (data.ptr[at + 1] != 0xff || data.ptr[at + 2] != 0xff ||
			    data.ptr[at + 3] != 0xff || data.ptr[at + 4] || data.ptr[at + 5])
				continue;
			if (part_from(data, at, &table) && read_table(f, s.vaddr + at, table, out))
				return true;
		}
	}
	return false;
}

/* ---- module data: text start, funcdata base ---- */

/* Its first words are the table's address and that of the names. */
static bool is_module_data(const struct go_pclntab *p, uint64_t vaddr)
{
	return pointer_at(p->file, vaddr) == p->vaddr &&
	       pointer_at(p->file, vaddr + MODULE_NAMES) ==
		       p->vaddr + (uint64_t)(p->names.ptr - p->table.ptr);
}

static bool module_data_by_relocation(const struct go_pclntab *p, uint64_t *out)
{
	uint64_t table, size;
	struct byte_reader r;
	struct bytes all;

	if (!elf_file_dynamic(p->file, DT_RELA, &table) ||
	    !elf_file_dynamic(p->file, DT_RELASZ, &size))
		return false;
	all = elf_file_at_vaddr(p->file, table);
	if (all.len > size)
		all.len = (size_t)size;
	r = byte_reader_of(all);
	for (uint32_t i = 0; i < RELOCATIONS_MOST && byte_reader_left(&r) >= sizeof(Elf64_Rela);
	     i++) {
		uint64_t offset = read_u64(&r), info = read_u64(&r), addend = read_u64(&r);

		if (addend == p->vaddr && !ELF64_R_SYM(info) && is_module_data(p, offset)) {
			*out = offset;
			return true;
		}
	}
	return false;
}

static bool module_data_by_scan(const struct go_pclntab *p, uint64_t *out)
{
	struct elf_segment s;

	for (uint32_t i = 0; elf_file_segment(p->file, i, &s); i++) {
		struct bytes data;

		if (s.type != PT_LOAD || (s.flags & PF_X))
			continue;
		data = elf_file_at_vaddr(p->file, s.vaddr);
		for (uint64_t at = (0 - s.vaddr) % 8; at + 16 <= data.len; at += 8) {
			uint64_t v;

			memcpy(&v, data.ptr + at, sizeof(v));
			if (v == p->vaddr && is_module_data(p, s.vaddr + at)) {
				*out = s.vaddr + at;
				return true;
			}
		}
	}
	return false;
}

static bool find_module_data(const struct go_pclntab *p, uint64_t *out)
{
	struct elf_section s;
	struct elf_symbol symbol;

	if (elf_file_section_named(p->file, ".go.module", &s) && is_module_data(p, s.vaddr)) {
		*out = s.vaddr;
		return true;
	}
	if (elf_file_find_symbol(p->file, STR("runtime.firstmoduledata"), &symbol) &&
	    is_module_data(p, symbol.value)) {
		*out = symbol.value;
		return true;
	}
	return module_data_by_scan(p, out) || module_data_by_relocation(p, out);
}

static void find_text_start(struct go_pclntab *p)
{
	struct elf_section s;
	struct elf_symbol symbol;
	uint64_t text = p->module_data ? pointer_at(p->file, p->module_data + MODULE_TEXT) : 0;

	if (text)
		p->text_start = text;
	else if (elf_file_find_symbol(p->file, STR("runtime.text"), &symbol))
		p->text_start = symbol.value;
	else if (!p->text_start && elf_file_section_named(p->file, ".text", &s))
		p->text_start = s.vaddr;
}

/* ---- functions ---- */

struct function {
	struct bytes data; /* of the _func, to the end of the table */
	uint64_t entry, limit;
	uint32_t name, pc_file, pc_line, pcdata_count, cu, funcdata_count;
	uint32_t start_line;
	uint64_t pcdata_at; /* in data */
};

static uint64_t function_pc(const struct go_pclntab *p, uint32_t i, bool *ok)
{
	unsigned w = entry_word(p);
	uint64_t v = word_at(p->functions, (uint64_t)i * 2 * w, w, ok);

	return p->version >= GO_PCLNTAB_1_18 ? p->text_start + v : v;
}

/*
 * struct _func: entry (8 bytes, from 1.18 on 4), then u32 each: name, args, deferreturn, pcsp,
 * pcfile, pcln, npcdata; from 1.16 on the cu offset; from 1.20 on the start line; then u8 function
 * id, u8 flags, u8, u8 nfuncdata; pcdata offsets; funcdata.
 */
static bool read_function(const struct go_pclntab *p, uint32_t i, struct function *out)
{
	unsigned w = entry_word(p);
	bool ok = true;
	uint64_t offset = word_at(p->functions, ((uint64_t)i * 2 + 1) * w, w, &ok);
	struct function fn = { .entry = function_pc(p, i, &ok),
			       .limit = function_pc(p, i + 1, &ok) };
	struct byte_reader r;

	if (!ok ||
	    !part_from(p->version == GO_PCLNTAB_1_2 ? p->table : p->functions, offset, &fn.data))
		return false;
	r = byte_reader_at(fn.data, w);
	fn.name = read_u32(&r);
	read_skip(&r, 12);
	fn.pc_file = read_u32(&r);
	fn.pc_line = read_u32(&r);
	fn.pcdata_count = read_u32(&r);
	if (p->version >= GO_PCLNTAB_1_16)
		fn.cu = read_u32(&r);
	if (p->version >= GO_PCLNTAB_1_20)
		fn.start_line = read_u32(&r);
	read_skip(&r, 3);
	fn.funcdata_count = read_u8(&r);
	fn.pcdata_at = (uint64_t)(r.ptr - fn.data.ptr);
	if (r.failed || (int32_t)fn.start_line < 0)
		return false;
	*out = fn;
	return true;
}

static bool find_function(const struct go_pclntab *p, uint64_t elf_vaddr, struct function *out)
{
	uint32_t low = 0, high = p->function_count;
	bool ok = true;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (function_pc(p, mid, &ok) <= elf_vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return ok && low > 0 && read_function(p, low - 1, out) && elf_vaddr < out->limit;
}

/* Pairs of varints { zig-zag value change, pc change in quanta }, from -1 at the entry; a zero
 * value change ends the table but for the first. */
static int32_t pc_value(const struct go_pclntab *p, uint64_t table, uint64_t entry, uint64_t pc)
{
	struct byte_reader r = byte_reader_at(p->pc_tables, table);
	int32_t value = -1;
	uint64_t at = entry;

	if (!table)
		return -1;
	for (uint32_t i = 0; i < PC_TABLE_STEPS && !r.failed; i++) {
		uint32_t change = (uint32_t)read_uleb128(&r);

		if (!change && i)
			return -1;
		value = (int32_t)((uint32_t)value + (change & 1 ? ~(change >> 1) : change >> 1));
		at += (uint32_t)read_uleb128(&r) * (uint64_t)p->quantum;
		if (!r.failed && pc < at)
			return value;
	}
	return -1;
}

static struct str file_name(const struct go_pclntab *p, const struct function *fn, int32_t number)
{
	bool ok = true;
	uint64_t offset;

	if (number < 0)
		return (struct str){ 0 };
	if (p->version == GO_PCLNTAB_1_2) {
		offset = word_at(p->files, (uint64_t)number * 4, 4, &ok);
		return ok && number ? bytes_cstr_at(p->table, offset) : (struct str){ 0 };
	}
	offset = word_at(p->cu_table, ((uint64_t)fn->cu + (uint32_t)number) * 4, 4, &ok);
	return ok && offset != UINT32_MAX ? bytes_cstr_at(p->files, offset) : (struct str){ 0 };
}

/* ---- inlined calls ---- */

static uint64_t inline_tree_vaddr(const struct go_pclntab *p, const struct function *fn,
				  uint64_t funcdata)
{
	uint64_t at = fn->pcdata_at + (uint64_t)fn->pcdata_count * 4;
	bool ok = true;
	uint64_t v;

	if (fn->funcdata_count <= FUNCDATA_INLINE_TREE)
		return 0;
	if (p->version >= GO_PCLNTAB_1_18) {
		v = word_at(fn->data, at + 4 * FUNCDATA_INLINE_TREE, 4, &ok);
		return ok && v != (uint32_t)NO_FUNCDATA && funcdata ? funcdata + v : 0;
	}
	/* Pointers, aligned in memory; a relocated file has zeros there. */
	at += (0 - (p->vaddr + (uint64_t)(fn->data.ptr - p->table.ptr) + at)) % POINTER_BYTES;
	at += (uint64_t)FUNCDATA_INLINE_TREE * POINTER_BYTES;
	v = word_at(fn->data, at, POINTER_BYTES, &ok);
	if (ok && !v)
		v = relocated_word(p->file,
				   p->vaddr + (uint64_t)(fn->data.ptr - p->table.ptr) + at);
	return ok ? v : 0;
}

struct inlined_call {
	struct str name;
	uint32_t parent_pc, start_line;
};

/*
 * 1.20 and later: u8 function id, 3 bytes, i32 name, i32 parent pc, i32 start line. Before: i16
 * parent, u8 function id, u8, i32 file, i32 line, i32 name, i32 parent pc.
 */
static bool inlined_call_at(const struct go_pclntab *p, const struct function *fn, uint64_t tree,
			    int32_t index, struct inlined_call *out)
{
	bool wide = p->version < GO_PCLNTAB_1_20;
	struct byte_reader r = byte_reader_at(elf_file_at_vaddr(p->file, tree),
					      (uint64_t)index * (wide ? 20 : 16) + (wide ? 12 : 4));
	uint32_t name = read_u32(&r);

	out->parent_pc = read_u32(&r);
	out->start_line = wide ? 0 : read_u32(&r);
	if (r.failed || out->parent_pc >= fn->limit - fn->entry || (int32_t)out->start_line < 0)
		return false;
	out->name = bytes_cstr_at(p->names, name);
	return out->name.len > 0;
}

static uint64_t pcdata_table(const struct function *fn, uint32_t index)
{
	bool ok = true;
	uint64_t v;

	if (index >= fn->pcdata_count)
		return 0;
	v = word_at(fn->data, fn->pcdata_at + (uint64_t)index * 4, 4, &ok);
	return ok ? v : 0;
}

/*
 * Where funcdata offsets count from stands in the module data, at a place that moved with the
 * versions. The candidate that gives a sound tree for the first function with inlined calls is it.
 */
static void find_funcdata(struct go_pclntab *p)
{
	static const uint32_t places[] = { 320, 304, 312, 328, 336 }; /* 1.20+, 1.18 */
	struct elf_symbol symbol;

	if (elf_file_find_symbol(p->file, STR("go:func.*"), &symbol) ||
	    elf_file_find_symbol(p->file, STR("go.func.*"), &symbol)) {
		p->funcdata = symbol.value;
		return;
	}
	for (uint32_t i = 0; p->module_data && i < p->function_count; i++) {
		struct function fn;
		struct inlined_call call;

		if (!read_function(p, i, &fn) || !inline_tree_vaddr(p, &fn, 1))
			continue;
		for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
			uint64_t base = pointer_at(p->file, p->module_data + places[k]);

			if (base &&
			    inlined_call_at(p, &fn, inline_tree_vaddr(p, &fn, base), 0, &call)) {
				p->funcdata = base;
				return;
			}
		}
		return;
	}
}

/* ---- public ---- */

bool go_pclntab_open(const struct elf_file *f, struct go_pclntab *out, struct err *err)
{
	struct go_pclntab p;

	if (!find_by_section(f, &p) && !find_by_magic(f, &p))
		return err_set(err, ERR_NOT_FOUND, "no table of Go functions");
	if (find_module_data(&p, &p.module_data) || p.version >= GO_PCLNTAB_1_18) {
		if (p.version >= GO_PCLNTAB_1_18)
			find_text_start(&p);
	}
	if (p.version >= GO_PCLNTAB_1_18) {
		if (!p.text_start)
			return err_set(err, ERR_INVALID,
				       "%u Go functions, and no place where they begin",
				       p.function_count);
		find_funcdata(&p);
	}
	*out = p;
	return true;
}

bool go_pclntab_function(const struct go_pclntab *p, uint32_t i, uint64_t *start, uint64_t *limit,
			 struct str *name)
{
	struct function fn;

	if (i >= p->function_count || !read_function(p, i, &fn))
		return false;
	*start = fn.entry;
	*limit = fn.limit;
	*name = bytes_cstr_at(p->names, fn.name);
	return true;
}

bool go_pclntab_covers(const struct go_pclntab *p, uint64_t elf_vaddr)
{
	bool ok = true;

	return elf_vaddr >= function_pc(p, 0, &ok) &&
	       elf_vaddr < function_pc(p, p->function_count, &ok) && ok;
}

uint32_t go_pclntab_frames(const struct go_pclntab *p, uint64_t elf_vaddr, struct go_frame *out,
			   uint32_t cap)
{
	uint64_t pc = elf_vaddr, tree, index_table;
	struct function fn;
	uint32_t n = 0;

	if (!cap || !find_function(p, elf_vaddr, &fn))
		return 0;
	tree = inline_tree_vaddr(p, &fn, p->funcdata);
	index_table = pcdata_table(&fn, PCDATA_INLINE_INDEX);
	for (; n + 1 < cap; n++) {
		struct inlined_call call;
		int32_t index = tree ? pc_value(p, index_table, fn.entry, pc) : -1, line;

		if (index < 0 || !inlined_call_at(p, &fn, tree, index, &call))
			break;
		line = pc_value(p, fn.pc_line, fn.entry, pc);
		out[n] = (struct go_frame){
			.function = call.name,
			.file = file_name(p, &fn, pc_value(p, fn.pc_file, fn.entry, pc)),
			.line = line > 0 ? (uint32_t)line : 0,
			.start_line = call.start_line,
		};
		pc = fn.entry + call.parent_pc;
	}
	out[n].function = bytes_cstr_at(p->names, fn.name);
	out[n].file = file_name(p, &fn, pc_value(p, fn.pc_file, fn.entry, pc));
	out[n].line = (uint32_t)pc_value(p, fn.pc_line, fn.entry, pc);
	if ((int32_t)out[n].line < 0)
		out[n].line = 0;
	out[n].start_line = fn.start_line;
	return out[n].function.len ? n + 1 : n;
}
