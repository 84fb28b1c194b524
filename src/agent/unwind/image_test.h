/*
 * image_test.h - small ELF images made in memory, for tests and fuzz targets.
 */
#pragma once
#include <assert.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A piece of an image: loaded by a segment of its own, and a section if it has a name. */
struct image_part {
	const char *name; /* NULL: no section */
	uint64_t vaddr;   /* 0: not loaded, a section only */
	const void *bytes;
	size_t len;
	bool executable;
	bool eh_frame_header; /* also PT_GNU_EH_FRAME */
};

struct image {
	uint8_t *bytes; /* heap */
	size_t len;
};

static inline size_t image_append(struct image *m, const void *bytes, size_t len)
{
	size_t at = (m->len + 15) & ~(size_t)15;

	m->bytes = realloc(m->bytes, at + len + 1);
	assert(m->bytes);
	memset(m->bytes + m->len, 0, at - m->len);
	if (len)
		memcpy(m->bytes + at, bytes, len);
	m->len = at + len;
	return at;
}

enum { IMAGE_PARTS_MOST = 8 };

static inline struct image image_make(uint16_t machine, uint64_t entry,
				      const struct image_part *parts, size_t count)
{
	struct image m = { 0 };
	Elf64_Ehdr e = { .e_type = ET_DYN, .e_machine = machine, .e_version = EV_CURRENT };
	Elf64_Phdr ph[2 * IMAGE_PARTS_MOST] = { 0 };
	Elf64_Shdr sh[IMAGE_PARTS_MOST + 2] = { 0 };
	char names[256] = "\0.shstrtab";
	size_t names_len = sizeof("\0.shstrtab"), segments = 0, sections = 1, place;

	assert(count <= IMAGE_PARTS_MOST);
	memcpy(e.e_ident, ELFMAG, SELFMAG);
	e.e_ident[EI_CLASS] = ELFCLASS64;
	e.e_ident[EI_DATA] = ELFDATA2LSB;
	e.e_ident[EI_VERSION] = EV_CURRENT;
	image_append(&m, &e, sizeof(e));
	place = image_append(&m, ph, sizeof(ph));
	for (size_t i = 0; i < count; i++) {
		const struct image_part *p = &parts[i];
		size_t at = image_append(&m, p->bytes, p->len);

		if (p->vaddr) {
			ph[segments++] = (Elf64_Phdr){ .p_type = PT_LOAD,
						       .p_flags = PF_R | (p->executable ? PF_X : 0),
						       .p_offset = at,
						       .p_vaddr = p->vaddr,
						       .p_filesz = p->len,
						       .p_memsz = p->len,
						       .p_align = 1 };
			if (p->eh_frame_header) {
				ph[segments] = ph[segments - 1];
				ph[segments++].p_type = PT_GNU_EH_FRAME;
			}
		}
		if (p->name) {
			assert(names_len + strlen(p->name) < sizeof(names));
			sh[sections++] = (Elf64_Shdr){ .sh_name = (uint32_t)names_len,
						       .sh_type = SHT_PROGBITS,
						       .sh_flags = p->vaddr ? SHF_ALLOC : 0,
						       .sh_addr = p->vaddr,
						       .sh_offset = at,
						       .sh_size = p->len };
			memcpy(names + names_len, p->name, strlen(p->name) + 1);
			names_len += strlen(p->name) + 1;
		}
	}
	sh[sections] = (Elf64_Shdr){ .sh_name = 1,
				     .sh_type = SHT_STRTAB,
				     .sh_offset = image_append(&m, names, names_len),
				     .sh_size = names_len };
	e.e_shstrndx = (uint16_t)sections++;
	e.e_entry = entry;
	e.e_phoff = place;
	e.e_phentsize = sizeof(ph[0]);
	e.e_phnum = (uint16_t)segments;
	e.e_ehsize = sizeof(e);
	e.e_shentsize = sizeof(sh[0]);
	e.e_shnum = (uint16_t)sections;
	e.e_shoff = image_append(&m, sh, sections * sizeof(sh[0]));
	memcpy(m.bytes, &e, sizeof(e));
	memcpy(m.bytes + place, ph, sizeof(ph));
	return m;
}
