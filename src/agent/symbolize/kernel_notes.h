/*
 * kernel_notes.h - the GNU build ids of the running kernel and its modules, which their mappings
 * carry (docs/agent.md, what a report holds).
 *
 *   /sys/kernel/notes, /sys/module/NAME/notes/.note.gnu.build-id: ELF notes, aligned to 4
 *
 * Every user may read them. What was found, or found missing, is kept until kernel_notes_forget():
 * a module may go and another of its name come. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/elf_file.h"
#include "base/err.h"
#include "base/str.h"

enum {
	KERNEL_NOTES_KEPT = 64,       /* modules; the oldest gives way */
	KERNEL_MODULE_NAME_MOST = 63, /* of the kernel: 64 - sizeof(long) */
};

struct kernel_note {
	char module[KERNEL_MODULE_NAME_MOST + 1];
	char hex[2 * ELF_BUILD_ID_MOST + 1]; /* "": it has none */
};

struct kernel_notes {
	/* A new descriptor of a file of this machine (symbol_access.open_path, with pid 0). NULL:
	 * no ids. */
	bool (*open_path)(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err);
	void *ctx;
	struct kernel_note of[KERNEL_NOTES_KEPT];
	uint32_t count, oldest;
};

/* In hex digits; "" where none is known. `module`: "vmlinux" is the kernel itself. Holds until the
 * next call. */
struct str kernel_notes_build_id(struct kernel_notes *notes, struct str module);
void kernel_notes_forget(struct kernel_notes *notes);
