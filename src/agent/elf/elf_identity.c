/*
 * elf_identity.c - who an ELF file is and what it belongs to: notes, hashes, the dynamic section,
 * links to debug files.
 *
 *   note: u32 name_bytes, u32 desc_bytes, u32 type, name padded to 4, desc padded to 4 (8 in
 *   segments aligned to 8)
 */
#include "agent/elf/elf_file.h"
#include <endian.h>
#include <libdeflate.h>
#include <sha2.h>
#include "agent/elf/elf_internal.h"

enum {
	HTLHASH_PART_BYTES = 4096,
	GO_NOTE_TYPE = 4,
	NOTES_MOST = 256,         /* in one segment or section */
	NEEDED_MOST = 4096,       /* entries of a dynamic section that are looked at, times 16 */
	GO_INFO_SPAN = 64 * 1024, /* the build info lies at the start of the data segment */
	GO_INFO_ALIGN = 16,
};

/* ---- notes ---- */

static uint64_t padded(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

bool elf_note_find(struct bytes notes, uint64_t align, struct str name, uint32_t type,
		   struct bytes *desc)
{
	struct byte_reader r = byte_reader_of(notes);

	if (align != 8)
		align = 4;
	for (int i = 0; i < NOTES_MOST && byte_reader_left(&r) >= 12; i++) {
		uint32_t name_bytes = read_u32(&r), desc_bytes = read_u32(&r);
		uint32_t note_type = read_u32(&r);
		struct bytes note = { r.ptr, byte_reader_left(&r) }, note_name;
		uint64_t desc_at = padded(12 + (uint64_t)name_bytes, align) - 12;

		if (!bytes_part(note, 0, name_bytes, &note_name))
			return false;
		if (note_type == type && name_bytes == name.len + 1 &&
		    memcmp(note_name.ptr, name.ptr, name.len) == 0)
			return bytes_part(note, desc_at, desc_bytes, desc);
		read_skip(&r, desc_at + padded(desc_bytes, align));
	}
	return false;
}

static bool note_of(const struct elf_file *f, struct str name, uint32_t type, struct bytes *desc)
{
	struct elf_segment p;
	struct elf_section s;
	struct bytes notes;

	for (uint32_t i = 0; elf_file_segment(f, i, &p); i++) {
		if (p.type == PT_NOTE &&
		    bytes_part(f->image, p.file_offset, p.file_bytes, &notes) &&
		    elf_note_find(notes, p.align, name, type, desc))
			return true;
	}
	for (uint32_t i = 1; elf_file_section(f, i, &s); i++) {
		if (s.type == SHT_NOTE && bytes_part(f->image, s.file_offset, s.size, &notes) &&
		    elf_note_find(notes, s.align, name, type, desc))
			return true;
	}
	return false;
}

struct bytes elf_file_build_id(const struct elf_file *f)
{
	struct bytes desc;

	if (!note_of(f, STR("GNU"), NT_GNU_BUILD_ID, &desc) || desc.len > ELF_BUILD_ID_MOST)
		return (struct bytes){ 0 };
	return desc;
}

struct str elf_file_go_build_id(const struct elf_file *f)
{
	struct bytes desc;

	if (!note_of(f, STR("Go"), GO_NOTE_TYPE, &desc) || desc.len > 1024)
		return (struct str){ 0 };
	return str_from(desc.ptr, desc.len);
}

/* ---- hashes ---- */

void elf_file_htlhash(const struct elf_file *f, uint8_t out[ELF_HTLHASH_BYTES])
{
	size_t part = f->image.len < HTLHASH_PART_BYTES ? f->image.len : HTLHASH_PART_BYTES;
	uint64_t length = htobe64(f->image.len);
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, f->image.ptr, part);
	SHA256Update(&ctx, f->image.ptr + (f->image.len - part), part);
	SHA256Update(&ctx, (const uint8_t *)&length, sizeof(length));
	SHA256Final(digest, &ctx);
	memcpy(out, digest, ELF_HTLHASH_BYTES);
}

uint32_t elf_file_crc(const struct elf_file *f)
{
	return libdeflate_crc32(0, f->image.ptr, f->image.len);
}

/* ---- Go ---- */

static bool has_go_build_info(const struct elf_file *f)
{
	static const char magic[] = "\xff Go buildinf:";

	for (uint32_t i = 0; i < f->load_count; i++) {
		const struct elf_segment *p = &f->loads[i];
		struct bytes data;

		if (!(p->flags & PF_W))
			continue;
		data = elf_file_at_vaddr(f, p->vaddr);
		for (size_t at = 0; at < GO_INFO_SPAN && at + GO_INFO_ALIGN <= data.len;
		     at += GO_INFO_ALIGN) {
			if (memcmp(data.ptr + at, magic, sizeof(magic) - 1) == 0)
				return true;
		}
	}
	return false;
}

bool elf_file_is_go(const struct elf_file *f)
{
	static const char *const names[] = { ".go.buildinfo", ".gopclntab", ".note.go.buildid",
					     ".data.rel.ro.gopclntab", ".go.module" };
	struct elf_section s;
	struct bytes desc;

	for (uint32_t i = 1; elf_file_section(f, i, &s); i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			if (str_is(s.name, names[k]))
				return true;
		}
	}
	return note_of(f, STR("Go"), GO_NOTE_TYPE, &desc) || has_go_build_info(f);
}

/* ---- dynamic section ---- */

static bool dynamic_at(const struct elf_file *f, uint32_t index, Elf64_Dyn *d)
{
	struct bytes part;

	if (index >= NEEDED_MOST ||
	    !bytes_part(f->dynamic, (uint64_t)index * sizeof(*d), sizeof(*d), &part))
		return false;
	memcpy(d, part.ptr, sizeof(*d));
	return d->d_tag != DT_NULL;
}

bool elf_file_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value)
{
	Elf64_Dyn d;

	for (uint32_t i = 0; dynamic_at(f, i, &d); i++) {
		if (d.d_tag == tag) {
			*value = d.d_un.d_val;
			return true;
		}
	}
	return false;
}

static struct bytes dynamic_strings(const struct elf_file *f)
{
	uint64_t vaddr, size;
	struct bytes all, part;

	if (!elf_file_dynamic(f, DT_STRTAB, &vaddr))
		return (struct bytes){ 0 };
	all = elf_file_at_vaddr(f, vaddr);
	if (elf_file_dynamic(f, DT_STRSZ, &size) && bytes_part(all, 0, size, &part))
		return part;
	return all;
}

struct str elf_file_soname(const struct elf_file *f)
{
	uint64_t offset;

	if (!elf_file_dynamic(f, DT_SONAME, &offset))
		return (struct str){ 0 };
	return bytes_cstr_at(dynamic_strings(f), offset);
}

bool elf_file_needed(const struct elf_file *f, uint32_t index, struct str *out)
{
	Elf64_Dyn d;

	for (uint32_t i = 0; dynamic_at(f, i, &d); i++) {
		if (d.d_tag != DT_NEEDED || index--)
			continue;
		*out = bytes_cstr_at(dynamic_strings(f), d.d_un.d_val);
		return true;
	}
	return false;
}

bool elf_file_needs(const struct elf_file *f, struct str prefix)
{
	struct bytes strings = dynamic_strings(f);
	Elf64_Dyn d;

	for (uint32_t i = 0; dynamic_at(f, i, &d); i++) {
		if (d.d_tag == DT_NEEDED &&
		    str_has_prefix(bytes_cstr_at(strings, d.d_un.d_val), prefix))
			return true;
	}
	return false;
}

/* ---- links to debug files ---- */

static bool small_section(const struct elf_file *f, const char *name, struct bytes *out)
{
	struct elf_section s;

	return elf_file_section_named(f, name, &s) && s.type != SHT_NOBITS &&
	       !(s.flags & SHF_COMPRESSED) && s.size <= 8192 &&
	       bytes_part(f->image, s.file_offset, s.size, out);
}

bool elf_file_debuglink(const struct elf_file *f, struct elf_debuglink *out)
{
	struct byte_reader r;
	struct bytes data;
	struct str name;
	uint32_t crc;

	if (!small_section(f, ".gnu_debuglink", &data))
		return false;
	r = byte_reader_of(data);
	name = read_cstr(&r);
	r = byte_reader_at(data, padded(name.len + 1, 4));
	crc = read_u32(&r);
	if (r.failed || !name.len || str_find(name, '/') >= 0)
		return false;
	*out = (struct elf_debuglink){ name, crc };
	return true;
}

bool elf_file_debugaltlink(const struct elf_file *f, struct str *path, struct bytes *build_id)
{
	struct byte_reader r;
	struct bytes data;
	struct str name;

	if (!small_section(f, ".gnu_debugaltlink", &data))
		return false;
	r = byte_reader_of(data);
	name = read_cstr(&r);
	if (r.failed || !name.len || byte_reader_left(&r) > ELF_BUILD_ID_MOST)
		return false;
	*path = name;
	*build_id = (struct bytes){ r.ptr, byte_reader_left(&r) };
	return true;
}
