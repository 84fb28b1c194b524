/*
 * name_cache.h - lines and inlined functions found once, by build id, in files that outlive us.
 *
 *   BUILDID.names: "FTNAMES1", then records
 *     u32 bytes that follow the checksum, u32 CRC-32 of them, u64 elf_vaddr, u32 lines, lines
 *   line: u32 line, u32 column, u32 start line, u16 bytes of function, system name, file; these
 *
 * Only answers with a line are kept: symbols cost little to find again, and may be better once a
 * debug file is installed. A file that does not check is removed and counted; the names are found
 * again. Records are appended with one write each, so that two agents may share a folder.
 *
 * Memory: the file's contents and 8 bytes an entry, within the limit; what does not fit is not
 * kept. Threads: one.
 */
#pragma once
#include "agent/report/namer.h"

struct name_cache;

/* NULL: the folder cannot be written to. *refused: there was a file, and it was broken. */
struct name_cache *name_cache_open(int folder, struct str build_id_hex, size_t limit_bytes,
				   bool *refused);
void name_cache_free(struct name_cache *c); /* NULL is fine */
size_t name_cache_bytes(const struct name_cache *c);
uint32_t name_cache_count(const struct name_cache *c);
/* Texts hold until the next name_cache_add(). Returns the number of lines, 0: not kept. */
uint32_t name_cache_find(const struct name_cache *c, uint64_t elf_vaddr, struct name_line *lines,
			 uint32_t cap);
void name_cache_add(struct name_cache *c, uint64_t elf_vaddr, const struct name_line *lines,
		    uint32_t count);
