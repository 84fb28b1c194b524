/*
 * elf_file.h - one 64-bit little-endian ELF file, mapped read-only: what it says of itself.
 *
 * The file is somebody else's and may lie, be cut short or change while it is read. Every offset is
 * checked against the size it had when opened, by subtraction; values are copied out before they
 * are judged; a file that is truncated later reads as zeros and says so (elf_file_damaged, see
 * file_guard.h). A header table that does not lie inside the file counts as not there: enough of a
 * stripped or half-broken file is still useful. Returned names and bytes point into the mapping.
 *
 * Words: `file_offset` is a place in the file, `elf_vaddr` an address as the file has it, `pc` one
 * in a process; pc = elf_vaddr + load_bias. Source: System V gABI, chapters 4 and 5.
 *
 * Memory: the struct only (1 KiB); the bytes are the mapping's. Threads: read-only once opened, any
 * number of readers.
 */
#pragma once
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"
#include "base/err.h"
#include "base/str.h"

enum {
	ELF_SEGMENTS_MOST = 128,     /* program headers; chromium has 14 */
	ELF_SECTIONS_MOST = 1 << 16, /* looked at; more are ignored */
	ELF_LOADS_MOST = 32,         /* PT_LOAD; more are ERR_LIMIT */
	ELF_BUILD_ID_MOST = 64,      /* GNU; SHA-1 has 20 */
	ELF_HTLHASH_BYTES = 16,
};
#define ELF_FILE_BYTES_MOST (UINT64_C(8) << 30)

struct elf_file;

struct elf_segment {
	uint32_t type, flags; /* PT_*, PF_* */
	uint64_t file_offset, file_bytes;
	uint64_t vaddr, memory_bytes;
	uint64_t align;
};

struct elf_section {
	struct str name;
	uint32_t index;
	uint32_t type, link, info; /* SHT_* */
	uint64_t flags;            /* SHF_* */
	uint64_t vaddr, file_offset, size, entry_size;
	uint64_t align;
};

/* ---- opening ---- */

/*
 * Maps the file behind fd, which stays the caller's and may be closed at once. The caller has seen
 * to it that it is a regular file. ERR_UNSUPPORTED: 32 bits, big-endian, or a machine that is
 * neither x86-64 nor arm64. ERR_INVALID: no ELF. ERR_LIMIT: larger than ELF_FILE_BYTES_MOST.
 */
struct elf_file *elf_file_open(int fd, struct err *err) MUST_CHECK;
/* An image in memory: the vDSO, an inflated .gnu_debugdata. Borrowed until elf_file_free(), or
 * taken over when `heap`: then free()d, also when this fails. */
struct elf_file *elf_file_from_memory(const void *image, size_t bytes, bool heap,
				      struct err *err) MUST_CHECK;
void elf_file_free(struct elf_file *f);
/* Pages of the file that were read no longer count as ours; what is read again comes from the
 * kernel's cache, or from the disk. Names and bytes that point into the mapping stay valid. NULL,
 * or an image in memory: nothing happens. */
void elf_file_let_go(const struct elf_file *f);

/* The file has lost pages since it was opened; nothing read from it deserves trust. */
bool elf_file_damaged(const struct elf_file *f);
struct bytes elf_file_bytes(const struct elf_file *f);

/* ---- headers ---- */

uint16_t elf_file_machine(const struct elf_file *f); /* EM_X86_64, EM_AARCH64 */
uint16_t elf_file_type(const struct elf_file *f);    /* ET_EXEC, ET_DYN, ... */
uint64_t elf_file_entry(const struct elf_file *f);   /* elf_vaddr */

uint32_t elf_file_segment_count(const struct elf_file *f);
bool elf_file_segment(const struct elf_file *f, uint32_t index, struct elf_segment *out);
uint32_t elf_file_section_count(const struct elf_file *f);
bool elf_file_section(const struct elf_file *f, uint32_t index, struct elf_section *out);
bool elf_file_section_named(const struct elf_file *f, const char *name, struct elf_section *out);
/* The first of this type. */
bool elf_file_section_typed(const struct elf_file *f, uint32_t type, struct elf_section *out);

/* ---- contents ---- */

/* Contents of a section: the mapping's bytes, or inflated ones that elf_data_release() frees. */
struct elf_data {
	struct bytes bytes;
	void *owned;         /* blob; NULL: borrowed from the file */
	size_t mapped_bytes; /* of elf_file_section_spill() */
};
/*
 * SHF_COMPRESSED (zlib, zstd) and the older .zdebug form are inflated, up to limit_bytes
 * (ERR_LIMIT). ERR_NOT_FOUND: SHT_NOBITS, as in debug files. ERR_INVALID: lies outside the file.
 */
bool elf_file_section_data(const struct elf_file *f, const struct elf_section *section,
			   size_t limit_bytes, struct elf_data *out, struct err *err) MUST_CHECK;
/* A packed section inflated into a nameless file of this folder (on a disk, so that it counts as
 * cache and not as our memory), and mapped. Otherwise as above. */
bool elf_file_section_spill(const struct elf_file *f, const struct elf_section *section, int folder,
			    uint64_t limit_bytes, struct elf_data *out, struct err *err) MUST_CHECK;
void elf_data_release(struct elf_data *d);
/* As elf_file_let_go(), of what was spilled. */
void elf_data_let_go(const struct elf_data *d);
/* Is it SHF_COMPRESSED, and what does it grow to? */
bool elf_section_compressed(const struct elf_file *f, const struct elf_section *section,
			    uint64_t *inflated_bytes);

/* Bytes at an address, from the segments: valid also without section headers. At most what the
 * segment has in the file behind `vaddr`; empty when no segment holds it. */
struct bytes elf_file_at_vaddr(const struct elf_file *f, uint64_t elf_vaddr);

/* ---- addresses ---- */

bool elf_file_vaddr_to_offset(const struct elf_file *f, uint64_t elf_vaddr, uint64_t *file_offset);
/* Where a page of the file is loaded. Two segments may share a page of the file: an executable
 * one is preferred. */
bool elf_file_offset_to_vaddr(const struct elf_file *f, uint64_t file_offset, uint64_t *elf_vaddr);
/* pc - elf_vaddr, for a mapping [start, ...) of the file from file_offset on, executable or not. */
bool elf_file_load_bias(const struct elf_file *f, uint64_t start, uint64_t file_offset,
			bool executable, uint64_t *load_bias);
/* The executable segments span [lowest, end). False: there is none. */
bool elf_file_text_span(const struct elf_file *f, uint64_t *lowest, uint64_t *end);

/* ---- identity and relations ---- */

/* The content of the first note of that name and type; false: there is none. `align` 8 or else 4.
 */
bool elf_note_find(struct bytes notes, uint64_t align, struct str name, uint32_t type,
		   struct bytes *desc);
/* NT_GNU_BUILD_ID, from the segments or the sections; empty without one. */
struct bytes elf_file_build_id(const struct elf_file *f);
/* The Go linker's (note "Go", type 4); text. */
struct str elf_file_go_build_id(const struct elf_file *f);
/* SHA-256 over the first 4,096 bytes, the last 4,096 and the length as 8 bytes big-endian, cut to
 * 16: the id that goes with files without a build id. */
void elf_file_htlhash(const struct elf_file *f, uint8_t out[ELF_HTLHASH_BYTES]);
/* Made by the Go linker: the build info, the pclntab or the note is there. */
bool elf_file_is_go(const struct elf_file *f);

struct str elf_file_soname(const struct elf_file *f); /* empty without one */
/* The i-th DT_NEEDED; false past the last. */
bool elf_file_needed(const struct elf_file *f, uint32_t i, struct str *out);
/* Does a DT_NEEDED begin with `prefix`, as in "libpython3."? */
bool elf_file_needs(const struct elf_file *f, struct str prefix);
/* First entry of the dynamic section with this tag. */
bool elf_file_dynamic(const struct elf_file *f, int64_t tag, uint64_t *value);

struct elf_debuglink {
	struct str name; /* a file name, no path */
	uint32_t crc;
};
bool elf_file_debuglink(const struct elf_file *f, struct elf_debuglink *out);
/* .gnu_debugaltlink: what dwz moved into a common file. */
bool elf_file_debugaltlink(const struct elf_file *f, struct str *path, struct bytes *build_id);
/* The checksum a .gnu_debuglink holds (CRC-32 of the whole file). Reads all of it. */
uint32_t elf_file_crc(const struct elf_file *f);
