#include "agent/elf/elf_file.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/elf/elf_internal.h"
#include "agent/elf/file_guard.h"

enum { PAGE_BYTES = 4096 }; /* the least there is: kernels with larger ones map at multiples */

static bool copy_at(struct bytes b, uint64_t offset, void *out, size_t n)
{
	struct bytes part;

	if (!bytes_part(b, offset, n, &part))
		return false;
	memcpy(out, part.ptr, n);
	return true;
}

/* ---- headers ---- */

static bool segment_at(struct bytes table, uint16_t entry_bytes, uint32_t index,
		       struct elf_segment *out)
{
	Elf64_Phdr p;

	if (!copy_at(table, (uint64_t)index * entry_bytes, &p, sizeof(p)))
		return false;
	*out = (struct elf_segment){ .type = p.p_type,
				     .flags = p.p_flags,
				     .file_offset = p.p_offset,
				     .file_bytes = p.p_filesz,
				     .vaddr = p.p_vaddr,
				     .memory_bytes = p.p_memsz,
				     .align = p.p_align };
	return true;
}

bool elf_file_segment(const struct elf_file *f, uint32_t index, struct elf_segment *out)
{
	return index < f->segment_count &&
	       segment_at(f->program_headers, f->program_header_bytes, index, out);
}

uint32_t elf_file_segment_count(const struct elf_file *f)
{
	return f->segment_count;
}

static bool section_at(const struct elf_file *f, uint32_t index, Elf64_Shdr *s)
{
	return copy_at(f->section_headers, (uint64_t)index * f->section_header_bytes, s,
		       sizeof(*s));
}

bool elf_file_section(const struct elf_file *f, uint32_t index, struct elf_section *out)
{
	Elf64_Shdr s;

	if (index >= f->section_count || !section_at(f, index, &s))
		return false;
	*out = (struct elf_section){ .name = bytes_cstr_at(f->section_names, s.sh_name),
				     .index = index,
				     .type = s.sh_type,
				     .link = s.sh_link,
				     .info = s.sh_info,
				     .flags = s.sh_flags,
				     .vaddr = s.sh_addr,
				     .file_offset = s.sh_offset,
				     .size = s.sh_size,
				     .entry_size = s.sh_entsize,
				     .align = s.sh_addralign };
	return true;
}

uint32_t elf_file_section_count(const struct elf_file *f)
{
	return f->section_count;
}

bool elf_file_section_named(const struct elf_file *f, const char *name, struct elf_section *out)
{
	struct elf_section s;

	for (uint32_t i = 1; i < f->section_count; i++) {
		if (elf_file_section(f, i, &s) && str_is(s.name, name)) {
			*out = s;
			return true;
		}
	}
	return false;
}

bool elf_file_section_typed(const struct elf_file *f, uint32_t type, struct elf_section *out)
{
	struct elf_section s;

	for (uint32_t i = 1; i < f->section_count; i++) {
		if (elf_file_section(f, i, &s) && s.type == type) {
			*out = s;
			return true;
		}
	}
	return false;
}

uint16_t elf_file_machine(const struct elf_file *f)
{
	return f->machine;
}

uint16_t elf_file_type(const struct elf_file *f)
{
	return f->type;
}

uint64_t elf_file_entry(const struct elf_file *f)
{
	return f->entry;
}

struct bytes elf_file_bytes(const struct elf_file *f)
{
	return f->image;
}

/* ---- opening ---- */

static bool check_ident(const Elf64_Ehdr *h, struct err *err)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return err_set(err, ERR_INVALID, "no ELF file: it begins with %02x %02x %02x %02x",
			       h->e_ident[0], h->e_ident[1], h->e_ident[2], h->e_ident[3]);
	if (h->e_ident[EI_CLASS] != ELFCLASS64)
		return err_set(err, ERR_UNSUPPORTED,
			       "ELF class %u: only 64 bits (class %u) are read",
			       h->e_ident[EI_CLASS], ELFCLASS64);
	if (h->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, ERR_UNSUPPORTED,
			       "ELF data encoding %u: only little-endian (%u) is read",
			       h->e_ident[EI_DATA], ELFDATA2LSB);
	if (h->e_machine != EM_X86_64 && h->e_machine != EM_AARCH64)
		return err_set(err, ERR_UNSUPPORTED,
			       "ELF machine %u: only x86-64 (%u) and arm64 (%u) "
			       "are read",
			       h->e_machine, EM_X86_64, EM_AARCH64);
	return true;
}

/* gABI, chapter 4, "Sections": counts past 16 bits lie in section 0. */
static void find_sections(struct elf_file *f, const Elf64_Ehdr *h)
{
	uint64_t count = h->e_shnum;
	uint32_t names = h->e_shstrndx;
	Elf64_Shdr s;

	if (!h->e_shoff || h->e_shentsize < sizeof(Elf64_Shdr) ||
	    !copy_at(f->image, h->e_shoff, &s, sizeof(s)))
		return;
	if (count == 0)
		count = s.sh_size;
	if (names == SHN_XINDEX)
		names = s.sh_link;
	if (count > ELF_SECTIONS_MOST)
		count = ELF_SECTIONS_MOST;
	if (!bytes_part(f->image, h->e_shoff, count * h->e_shentsize, &f->section_headers))
		return;
	f->section_header_bytes = h->e_shentsize;
	f->section_count = (uint32_t)count;
	if (names < count && section_at(f, names, &s) && s.sh_type != SHT_NOBITS &&
	    !bytes_part(f->image, s.sh_offset, s.sh_size, &f->section_names))
		f->section_names = (struct bytes){ 0 };
}

static bool find_segments(struct elf_file *f, const Elf64_Ehdr *h, struct err *err)
{
	uint32_t count = h->e_phnum;
	Elf64_Shdr s;

	if (count == PN_XNUM && f->section_count && section_at(f, 0, &s))
		count = s.sh_info;
	if (count > ELF_SEGMENTS_MOST)
		return err_set(err, ERR_LIMIT, "%u program headers, at most %d are read", count,
			       ELF_SEGMENTS_MOST);
	if (!count || h->e_phentsize < sizeof(Elf64_Phdr) ||
	    !bytes_part(f->image, h->e_phoff, (uint64_t)count * h->e_phentsize,
			&f->program_headers))
		return true; /* an object file, or a header that lies */
	f->program_header_bytes = h->e_phentsize;
	f->segment_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct elf_segment p;

		if (!elf_file_segment(f, i, &p) || p.type != PT_LOAD)
			continue;
		if (f->load_count == ELF_LOADS_MOST)
			return err_set(err, ERR_LIMIT, "more than %d segments to load",
				       ELF_LOADS_MOST);
		f->loads[f->load_count++] = p;
	}
	return true;
}

/* The segment's contents, as much as the file has: debug files keep headers without contents. */
static void find_dynamic(struct elf_file *f)
{
	struct elf_segment p;
	struct elf_section s;

	for (uint32_t i = 0; i < f->segment_count; i++) {
		if (!elf_file_segment(f, i, &p) || p.type != PT_DYNAMIC)
			continue;
		if (bytes_part(f->image, p.file_offset, p.file_bytes, &f->dynamic))
			return;
	}
	f->dynamic = (struct bytes){ 0 };
	if (elf_file_section_typed(f, SHT_DYNAMIC, &s) &&
	    !bytes_part(f->image, s.file_offset, s.size, &f->dynamic))
		f->dynamic = (struct bytes){ 0 };
}

static bool read_headers(struct elf_file *f, struct err *err)
{
	Elf64_Ehdr h;

	if (f->image.len < EI_NIDENT)
		return err_set(err, ERR_INVALID, "no ELF file: %zu bytes, a header has %zu",
			       f->image.len, sizeof(h));
	memset(&h, 0, sizeof(h));
	memcpy(&h, f->image.ptr, f->image.len < sizeof(h) ? f->image.len : sizeof(h));
	if (!check_ident(&h, err))
		return false;
	if (f->image.len < sizeof(h))
		return err_set(err, ERR_INVALID, "ELF file of %zu bytes, a header has %zu",
			       f->image.len, sizeof(h));
	f->machine = h.e_machine;
	f->type = h.e_type;
	f->entry = h.e_entry;
	find_sections(f, &h);
	if (!find_segments(f, &h, err))
		return false;
	find_dynamic(f);
	return true;
}

static struct elf_file *elf_file_alloc(void)
{
	struct elf_file *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->guard_slot = -1;
	return f;
}

static bool map_file(struct elf_file *f, int fd, struct err *err)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) != 0)
		return err_set_errno(err, "fstat");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "not a regular file (mode %o)", st.st_mode);
	if (st.st_size <= 0)
		return err_set(err, ERR_INVALID, "an empty file");
	if ((uint64_t)st.st_size > ELF_FILE_BYTES_MOST)
		return err_set(err, ERR_LIMIT, "%lld bytes, at most %llu are mapped",
			       (long long)st.st_size, (unsigned long long)ELF_FILE_BYTES_MOST);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_set_errno(err, "mapping %lld bytes", (long long)st.st_size);
	f->mapped_bytes = ((size_t)st.st_size + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	f->image = (struct bytes){ p, (size_t)st.st_size };
	return file_guard_add(p, f->mapped_bytes, &f->guard_slot, err);
}

struct elf_file *elf_file_open(int fd, struct err *err)
{
	struct elf_file *f = elf_file_alloc();

	if (map_file(f, fd, err) && read_headers(f, err))
		return f;
	elf_file_free(f);
	return NULL;
}

struct elf_file *elf_file_from_memory(const void *image, size_t bytes, bool heap, struct err *err)
{
	struct elf_file *f = elf_file_alloc();

	f->image = (struct bytes){ image, bytes };
	f->heap = heap ? (void *)(uintptr_t)image : NULL;
	if (read_headers(f, err))
		return f;
	elf_file_free(f);
	return NULL;
}

void elf_file_free(struct elf_file *f)
{
	if (!f)
		return;
	if (f->guard_slot >= 0)
		file_guard_remove(f->guard_slot);
	if (f->mapped_bytes)
		munmap((void *)(uintptr_t)f->image.ptr, f->mapped_bytes);
	free(f->heap);
	free(f);
}

void elf_file_let_go(const struct elf_file *f)
{
	if (f && f->mapped_bytes)
		(void)madvise((void *)(uintptr_t)f->image.ptr, f->mapped_bytes, MADV_DONTNEED);
}

bool elf_file_damaged(const struct elf_file *f)
{
	return f->guard_slot >= 0 && file_guard_damaged(f->guard_slot);
}

/* ---- addresses ---- */

bool elf_file_vaddr_to_offset(const struct elf_file *f, uint64_t elf_vaddr, uint64_t *file_offset)
{
	for (uint32_t i = 0; i < f->load_count; i++) {
		const struct elf_segment *p = &f->loads[i];

		if (elf_vaddr < p->vaddr || elf_vaddr - p->vaddr >= p->file_bytes)
			continue;
		*file_offset = p->file_offset + (elf_vaddr - p->vaddr);
		return true;
	}
	return false;
}

/* The segment as the kernel maps it, in whole pages; `exact` is as the header has it. */
static bool segment_holds_offset(const struct elf_segment *p, uint64_t file_offset, bool exact)
{
	uint64_t slack = exact ? 0 : p->file_offset % PAGE_BYTES;
	uint64_t from = p->file_offset - slack;

	return file_offset >= from && file_offset - from < p->file_bytes + slack;
}

static const struct elf_segment *segment_of_offset(const struct elf_file *f, uint64_t file_offset,
						   bool executable)
{
	const struct elf_segment *found = NULL;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < f->load_count; i++) {
			const struct elf_segment *p = &f->loads[i];

			if (!segment_holds_offset(p, file_offset, pass == 0))
				continue;
			if (((p->flags & PF_X) != 0) == executable)
				return p;
			if (!found)
				found = p;
		}
	}
	return found;
}

bool elf_file_offset_to_vaddr(const struct elf_file *f, uint64_t file_offset, uint64_t *elf_vaddr)
{
	const struct elf_segment *p = segment_of_offset(f, file_offset, true);

	if (!p)
		return false;
	*elf_vaddr = p->vaddr + (file_offset - p->file_offset); /* may go below it, by design */
	return true;
}

bool elf_file_load_bias(const struct elf_file *f, uint64_t start, uint64_t file_offset,
			bool executable, uint64_t *load_bias)
{
	const struct elf_segment *p = segment_of_offset(f, file_offset, executable);

	if (!p)
		return false;
	*load_bias = start - (p->vaddr + (file_offset - p->file_offset));
	return true;
}

bool elf_file_text_span(const struct elf_file *f, uint64_t *lowest, uint64_t *end)
{
	bool found = false;

	for (uint32_t i = 0; i < f->load_count; i++) {
		const struct elf_segment *p = &f->loads[i];
		uint64_t to;

		if (!(p->flags & PF_X) || __builtin_add_overflow(p->vaddr, p->memory_bytes, &to))
			continue;
		if (!found || p->vaddr < *lowest)
			*lowest = p->vaddr;
		if (!found || to > *end)
			*end = to;
		found = true;
	}
	return found;
}

struct bytes elf_file_at_vaddr(const struct elf_file *f, uint64_t elf_vaddr)
{
	struct bytes part;

	for (uint32_t i = 0; i < f->load_count; i++) {
		const struct elf_segment *p = &f->loads[i];
		uint64_t skip = elf_vaddr - p->vaddr, offset;

		if (elf_vaddr < p->vaddr || skip >= p->file_bytes ||
		    __builtin_add_overflow(p->file_offset, skip, &offset) || offset >= f->image.len)
			continue;
		part.ptr = f->image.ptr + offset;
		part.len = f->image.len - offset;
		if (part.len > p->file_bytes - skip)
			part.len = p->file_bytes - skip;
		return part;
	}
	return (struct bytes){ 0 };
}
