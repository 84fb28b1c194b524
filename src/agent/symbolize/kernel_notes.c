#include "agent/symbolize/kernel_notes.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/cleanup.h"

enum { NOTES_BYTES_MOST = 4096 };

/* A name of kallsyms is the kernel's own word, but it becomes a part of a path here. */
static bool is_plain(struct str name)
{
	if (!name.len || name.len > KERNEL_MODULE_NAME_MOST || name.ptr[0] == '.')
		return false;
	return !memchr(name.ptr, '/', name.len) && !memchr(name.ptr, '\0', name.len);
}

static size_t read_whole(const struct kernel_notes *notes, const char *path, uint8_t *to,
			 size_t cap)
{
	AUTO(fd_close) int fd = -1;
	struct err err;
	size_t len = 0;
	ssize_t n;

	if (!notes->open_path || !notes->open_path(notes->ctx, 0, path, &fd, &err))
		return 0;
	while (len < cap && (n = read(fd, to + len, cap - len)) > 0)
		len += (size_t)n;
	return len;
}

static void read_note(const struct kernel_notes *notes, struct str module, struct kernel_note *out)
{
	char path[128] = "/sys/kernel/notes";
	uint8_t content[NOTES_BYTES_MOST];
	struct bytes id;
	size_t len;

	snprintf(out->module, sizeof(out->module), "%.*s", STR_ARG(module));
	out->hex[0] = '\0';
	if (!str_is(module, "vmlinux"))
		snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id",
			 out->module);
	len = read_whole(notes, path, content, sizeof(content));
	if (!elf_note_find((struct bytes){ content, len }, 4, STR("GNU"), NT_GNU_BUILD_ID, &id) ||
	    id.len > ELF_BUILD_ID_MOST)
		return;
	for (size_t i = 0; i < id.len; i++)
		snprintf(out->hex + 2 * i, 3, "%02x", id.ptr[i]);
}

struct str kernel_notes_build_id(struct kernel_notes *notes, struct str module)
{
	struct kernel_note *note;

	if (!is_plain(module))
		return (struct str){ 0 };
	for (uint32_t i = 0; i < notes->count; i++) {
		if (str_is(module, notes->of[i].module))
			return str_cstr(notes->of[i].hex);
	}
	if (notes->count < KERNEL_NOTES_KEPT)
		note = &notes->of[notes->count++];
	else
		note = &notes->of[notes->oldest++ % KERNEL_NOTES_KEPT];
	read_note(notes, module, note);
	return str_cstr(note->hex);
}

void kernel_notes_forget(struct kernel_notes *notes)
{
	notes->count = 0;
	notes->oldest = 0;
}
