/*
 * debug_files.h - the debug file that belongs to an ELF file: what a distribution split off.
 *
 * Looked for by build id (/usr/lib/debug/.build-id/ab/cdef.debug) and by the name in .gnu_debuglink
 * (beside the file, in .debug/ there, under /usr/lib/debug), in the root of the process first, then
 * in ours. Only a file with the same build id counts, or, without build ids, the same checksum.
 * Threads: the symbolizer's.
 */
#pragma once
#include "agent/elf/elf_file.h"
#include "agent/symbolize/symbolizer.h"

/* `directory` is where the file lies, or "". NULL: there is none. */
struct elf_file *debug_file_find(const struct symbol_access *access, uint32_t pid,
				 const struct elf_file *f, struct str directory);
/* `fd` as the debug file of `f`; NULL: it is not, or no ELF file. */
struct elf_file *debug_file_of(int fd, const struct elf_file *f);
/* The common file of dwz that `debug` (or the file itself) refers to. NULL: none, or not here. */
struct elf_file *debug_file_find_alt(const struct symbol_access *access, uint32_t pid,
				     const struct elf_file *f, struct str directory);
/* /usr/lib/debug/.build-id/ab/cdef.debug */
void debug_file_build_id_path(struct bytes build_id, char *out, size_t cap);
