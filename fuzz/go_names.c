/* A hostile table of Go functions, in a file or as bare bytes behind a small ELF head. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include "agent/symbolize/go_pclntab.h"

static void walk(const struct elf_file *f)
{
	struct go_frame frames[GO_FRAMES_MOST];
	struct go_pclntab p;
	uint64_t start, limit;
	struct err err;
	struct str name;

	if (!go_pclntab_open(f, &p, &err))
		return;
	for (uint32_t i = 0; i < 64 && go_pclntab_function(&p, i, &start, &limit, &name); i++) {
		uint32_t n = go_pclntab_frames(&p, start, frames, GO_FRAMES_MOST);

		if (n > GO_FRAMES_MOST)
			__builtin_trap();
		go_pclntab_frames(&p, limit - 1, frames, 2);
	}
}

static void walk_bytes(const uint8_t *data, size_t size)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p;
	} head = { .h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_EXEC,
			  .e_machine = EM_X86_64,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 1 } };
	size_t all = sizeof(head) + size;
	uint8_t *image = malloc(all);
	struct elf_file *f;
	struct err err;

	if (!image)
		return;
	head.p = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = all, .p_memsz = all
	};
	memcpy(image, &head, sizeof(head));
	memcpy(image + sizeof(head), data, size);
	f = elf_file_from_memory(image, all, true, &err);
	if (f)
		walk(f);
	elf_file_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	struct elf_file *f = elf_file_from_memory(data, size, false, &err);

	if (f)
		walk(f);
	else
		walk_bytes(data, size);
	elf_file_free(f);
	return 0;
}
