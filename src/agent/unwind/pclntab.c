#include "agent/unwind/pclntab.h"

enum {
	HEADER_MAGIC = 8, /* bytes of the header that never change but for the version */
	WORD = 8,
	FLAG_ASSEMBLY = 4,
};

static bool version_of(uint32_t magic, enum pclntab_version *out)
{
	switch (magic) {
	case 0xfffffffb:
		*out = PCLNTAB_1_2;
		return true;
	case 0xfffffffa:
		*out = PCLNTAB_1_16;
		return true;
	case 0xfffffff0:
		*out = PCLNTAB_1_18;
		return true;
	case 0xfffffff1:
		*out = PCLNTAB_1_20;
		return true;
	default:
		return false;
	}
}

static bool from_offset(struct bytes all, uint64_t offset, struct bytes *out)
{
	return offset <= all.len && bytes_part(all, offset, all.len - offset, out);
}

static unsigned entry_bytes(const struct pclntab *t)
{
	return t->version >= PCLNTAB_1_18 ? 8 : 16;
}

/* Header words behind the first eight bytes, by version. */
static bool parse_layout(struct pclntab *t, struct byte_reader *r, uint64_t text)
{
	uint64_t count = read_u64(r), at;
	struct bytes *const parts[] = { &t->names, &t->cutab, &t->filetab, &t->pctab, &t->records };

	if (count == 0 || count > PCLNTAB_FUNCTIONS_MOST)
		return false;
	t->function_count = (uint32_t)count;
	if (t->version == PCLNTAB_1_2) {
		t->names = t->pctab = t->cutab = t->filetab = t->records = t->bytes;
		return from_offset(t->bytes, HEADER_MAGIC + WORD, &t->functab);
	}
	read_u64(r); /* nfiles */
	if (t->version >= PCLNTAB_1_18) {
		at = read_u64(r);
		t->text = text ? text : at;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		at = read_u64(r);
		if (r->failed || !from_offset(t->bytes, at, parts[i]))
			return false;
	}
	t->functab = t->records;
	return t->version < PCLNTAB_1_18 || t->text;
}

bool pclntab_parse(struct bytes bytes, uint64_t vaddr, uint64_t text, struct pclntab *out)
{
	struct pclntab t = { .bytes = bytes, .vaddr = vaddr };
	struct byte_reader r = byte_reader_of(bytes);
	uint64_t need;

	if (!version_of(read_u32(&r), &t.version) || read_u16(&r) != 0)
		return false;
	t.quantum = read_u8(&r);
	if ((t.quantum != 1 && t.quantum != 4) || read_u8(&r) != WORD)
		return false;
	if (!parse_layout(&t, &r, text))
		return false;
	need = (uint64_t)t.function_count * entry_bytes(&t) + entry_bytes(&t) / 2;
	if (need > t.functab.len)
		return false;
	t.functab.len = need;
	*out = t;
	return true;
}

/* ---- where it lies ---- */

/*
 * The module's data begins with the address of the table: {pcHeader, six slices, findfunctab,
 * minpc, maxpc, text, ...}. It tells where the text begins, which the header does not do from
 * Go 1.26 on. Source: src/runtime/symtab.go, type moduledata.
 */
enum { MODULE_TEXT = 8 + 6 * 24 + 3 * 8 };

static bool module_text_in(struct bytes data, uint64_t table_vaddr, uint64_t *text)
{
	for (size_t at = 0; at + MODULE_TEXT + WORD <= data.len; at += WORD) {
		uint64_t word;

		memcpy(&word, data.ptr + at, sizeof(word));
		if (word != table_vaddr)
			continue;
		memcpy(text, data.ptr + at + MODULE_TEXT, sizeof(*text));
		return true;
	}
	return false;
}

static bool executable_at(const struct elf_file *file, uint64_t vaddr)
{
	struct elf_segment s;

	for (uint32_t i = 0; i < elf_file_segment_count(file); i++)
		if (elf_file_segment(file, i, &s) && s.type == PT_LOAD && (s.flags & PF_X) &&
		    vaddr >= s.vaddr && vaddr - s.vaddr < s.memory_bytes)
			return true;
	return false;
}

/* Where the Go code begins: what the module says, else what the header says, else .text. */
static uint64_t text_of(const struct elf_file *file, struct bytes bytes, uint64_t table_vaddr)
{
	enum { HEADER_TEXT = HEADER_MAGIC + 2 * WORD };
	struct byte_reader r = byte_reader_at(bytes, HEADER_TEXT);
	uint64_t text = read_u64(&r);
	struct elf_section section;
	struct elf_segment s;

	if (!r.failed && text && executable_at(file, text))
		return text;
	for (uint32_t i = 0; i < elf_file_segment_count(file); i++)
		if (elf_file_segment(file, i, &s) && s.type == PT_LOAD && !(s.flags & PF_X) &&
		    module_text_in(elf_file_at_vaddr(file, s.vaddr), table_vaddr, &text) &&
		    executable_at(file, text))
			return text;
	return elf_file_section_named(file, ".text", &section) ? section.vaddr : 0;
}

static bool open_at(const struct elf_file *file, uint64_t vaddr, uint64_t size, struct pclntab *out)
{
	struct bytes bytes = elf_file_at_vaddr(file, vaddr);
	enum pclntab_version version;
	struct byte_reader r = byte_reader_of(bytes);

	if (!version_of(read_u32(&r), &version))
		return false;
	if (size && size < bytes.len)
		bytes.len = (size_t)size;
	return pclntab_parse(bytes, vaddr,
			     version >= PCLNTAB_1_18 ? text_of(file, bytes, vaddr) : 0, out) &&
	       executable_at(file, pclntab_begin(out, 0));
}

/* Without section headers: the first place in the data that reads as a table. */
static bool search_segment(const struct elf_file *file, const struct elf_segment *s,
			   struct pclntab *out)
{
	static const uint8_t behind_magic[] = { 0xff, 0xff, 0xff, 0x00, 0x00 };
	struct bytes data = elf_file_at_vaddr(file, s->vaddr);
	size_t at = 1;

	while (at < data.len) {
		const uint8_t *hit =
			memmem(data.ptr + at, data.len - at, behind_magic, sizeof(behind_magic));

		if (!hit)
			return false;
		at = (size_t)(hit - data.ptr);
		if (((s->vaddr + at - 1) & 7) == 0 && open_at(file, s->vaddr + at - 1, 0, out))
			return true;
		at++;
	}
	return false;
}

bool pclntab_open(const struct elf_file *file, struct pclntab *out)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	struct elf_section section;
	struct elf_segment s;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (elf_file_section_named(file, names[i], &section) &&
		    open_at(file, section.vaddr, section.size, out))
			return true;
	if (!elf_file_is_go(file))
		return false;
	for (uint32_t i = 0; i < elf_file_segment_count(file); i++)
		if (elf_file_segment(file, i, &s) && s.type == PT_LOAD && !(s.flags & PF_X) &&
		    search_segment(file, &s, out))
			return true;
	return false;
}

/* ---- functions ---- */

uint64_t pclntab_begin(const struct pclntab *t, uint32_t i)
{
	struct byte_reader r = byte_reader_at(t->functab, (uint64_t)i * entry_bytes(t));

	return t->version >= PCLNTAB_1_18 ? t->text + read_u32(&r) : read_u64(&r);
}

bool pclntab_function(const struct pclntab *t, uint32_t i, struct pclntab_function *out)
{
	struct byte_reader r = byte_reader_at(t->functab, (uint64_t)i * entry_bytes(t));
	struct pclntab_function f;

	if (t->version >= PCLNTAB_1_18) {
		f.begin = t->text + read_u32(&r);
		r = byte_reader_at(t->records, read_u32(&r));
		read_u32(&r); /* entry again */
	} else {
		f.begin = read_u64(&r);
		r = byte_reader_at(t->records, read_u64(&r));
		read_u64(&r);
	}
	f.end = pclntab_begin(t, i + 1);
	f.name = (int32_t)read_u32(&r);
	read_skip(&r, 8); /* args, deferreturn */
	f.pcsp = read_u32(&r);
	f.pcfile = read_u32(&r);
	f.pcln = read_u32(&r);
	read_u32(&r); /* npcdata */
	f.cu = t->version == PCLNTAB_1_2 ? 0 : read_u32(&r);
	f.compiled = false;
	if (t->version == PCLNTAB_1_20) {
		read_skip(&r, 4 + 1); /* startLine, funcID */
		f.compiled = !(read_u8(&r) & FLAG_ASSEMBLY);
	}
	*out = f;
	return !r.failed && f.begin < f.end;
}

uint32_t pclntab_find(const struct pclntab *t, uint64_t elf_vaddr)
{
	uint32_t lo = 0, hi = t->function_count;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (pclntab_begin(t, mid) <= elf_vaddr)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

struct str pclntab_name(const struct pclntab *t, const struct pclntab_function *f)
{
	return bytes_cstr_at(t->names, (uint32_t)f->name);
}

struct pclntab_walk pclntab_walk(const struct pclntab *t, const struct pclntab_function *f,
				 uint32_t table)
{
	struct pclntab_walk w = { .begin = f->begin,
				  .end = f->begin,
				  .value = -1,
				  .quantum = t->quantum,
				  .limit = f->end };

	w.r = byte_reader_at(t->pctab, table);
	if (!table)
		w.r.ptr = w.r.end; /* no table: nothing to walk, and no failure */
	return w;
}

bool pclntab_next(struct pclntab_walk *w)
{
	uint64_t change, distance;

	if (w->r.failed || w->end >= w->limit || w->r.ptr == w->r.end)
		return false;
	change = read_uleb128(&w->r);
	if (w->r.failed || (!change && w->started))
		return false;
	w->started = true;
	change = change & 1 ? ~(change >> 1) : change >> 1;
	w->value = (int32_t)((uint32_t)w->value + (uint32_t)change); /* wraps in a bad table */
	distance = read_uleb128(&w->r) * w->quantum;
	if (w->r.failed || !distance)
		return false;
	w->begin = w->end;
	w->end = distance < w->limit - w->begin ? w->begin + distance : w->limit;
	return true;
}
