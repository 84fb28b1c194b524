/*
 * elf_content.c - contents of sections, inflated where they are packed.
 *
 *   SHF_COMPRESSED  Elf64_Chdr { u32 type (1 zlib, 2 zstd), u32, u64 size, u64 align }, stream
 *   .zdebug_*       "ZLIB", size as 8 bytes big-endian, zlib stream (GNU, before 2015)
 */
#include "agent/elf/elf_file.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <zstd.h>
#include "agent/elf/elf_internal.h"
#include "base/blob.h"
#include "base/cleanup.h"
#include "net/compress.h"

enum { ZDEBUG_HEAD_BYTES = 12 };

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

struct packed {
	bool is_packed;
	enum compression method;
	bool known_method;
	uint32_t method_number;
	uint64_t inflated_bytes;
	struct bytes stream;
};

/* How the section is packed; false when its head is cut short. */
static bool packed_of(struct bytes raw, const struct elf_section *section, struct packed *out)
{
	*out = (struct packed){ 0 };
	if (section->flags & SHF_COMPRESSED) {
		Elf64_Chdr head;

		if (raw.len < sizeof(head))
			return false;
		memcpy(&head, raw.ptr, sizeof(head));
		out->is_packed = true;
		out->method_number = head.ch_type;
		out->known_method =
			head.ch_type == ELFCOMPRESS_ZLIB || head.ch_type == ELFCOMPRESS_ZSTD;
		out->method =
			head.ch_type == ELFCOMPRESS_ZLIB ? COMPRESSION_DEFLATE : COMPRESSION_ZSTD;
		out->inflated_bytes = head.ch_size;
		return bytes_part(raw, sizeof(head), raw.len - sizeof(head), &out->stream);
	}
	if (str_has_prefix(section->name, STR(".zdebug_")) && raw.len >= ZDEBUG_HEAD_BYTES &&
	    memcmp(raw.ptr, "ZLIB", 4) == 0) {
		uint64_t size;

		memcpy(&size, raw.ptr + 4, sizeof(size));
		out->is_packed = out->known_method = true;
		out->method = COMPRESSION_DEFLATE;
		out->inflated_bytes = be64toh(size);
		return bytes_part(raw, ZDEBUG_HEAD_BYTES, raw.len - ZDEBUG_HEAD_BYTES,
				  &out->stream);
	}
	return true;
}

static bool inflate_section(const struct packed *packed, const struct elf_section *section,
			    size_t limit_bytes, struct elf_data *out, struct err *err)
{
	struct blob *blob;

	if (!packed->known_method)
		return err_set(err, ERR_UNSUPPORTED, "section %.*s: compression %u is not known",
			       STR_ARG(section->name), packed->method_number);
	if (packed->inflated_bytes > limit_bytes)
		return err_set(err, ERR_LIMIT, "section %.*s inflates to %llu bytes, limit is %zu",
			       STR_ARG(section->name), (unsigned long long)packed->inflated_bytes,
			       limit_bytes);
	blob = decompress(packed->method, str_from(packed->stream.ptr, packed->stream.len),
			  (size_t)packed->inflated_bytes, err);
	if (!blob)
		return err_prefix(err, "section %.*s", STR_ARG(section->name));
	if (blob->len != packed->inflated_bytes) {
		err_set(err, ERR_INVALID, "section %.*s inflates to %zu bytes, its head says %llu",
			STR_ARG(section->name), blob->len,
			(unsigned long long)packed->inflated_bytes);
		blob_unref(blob);
		return false;
	}
	*out = (struct elf_data){ { (const uint8_t *)blob->ptr, blob->len }, blob, 0 };
	return true;
}

bool elf_file_section_data(const struct elf_file *f, const struct elf_section *section,
			   size_t limit_bytes, struct elf_data *out, struct err *err)
{
	struct packed packed;
	struct bytes raw;

	if (section->type == SHT_NOBITS)
		return err_set(err, ERR_NOT_FOUND, "section %.*s has no contents in this file",
			       STR_ARG(section->name));
	if (!bytes_part(f->image, section->file_offset, section->size, &raw))
		return err_set(err, ERR_INVALID,
			       "section %.*s: %llu bytes at %llu, the file has %zu",
			       STR_ARG(section->name), (unsigned long long)section->size,
			       (unsigned long long)section->file_offset, f->image.len);
	if (!packed_of(raw, section, &packed))
		return err_set(err, ERR_INVALID,
			       "section %.*s: %zu bytes are too few for a compression header",
			       STR_ARG(section->name), raw.len);
	if (packed.is_packed)
		return inflate_section(&packed, section, limit_bytes, out, err);
	*out = (struct elf_data){ raw, NULL, 0 };
	return true;
}

/* ---- onto disk ---- */

static bool unpack_to(const struct packed *packed, void *to, struct err *err)
{
	size_t bytes = (size_t)packed->inflated_bytes, got = 0;
	struct libdeflate_decompressor *d;

	if (packed->method == COMPRESSION_ZSTD) {
		got = ZSTD_decompress(to, bytes, packed->stream.ptr, packed->stream.len);
		return got == bytes || err_set(err, ERR_INVALID, "a broken zstd stream");
	}
	d = libdeflate_alloc_decompressor();
	if (!d)
		abort();
	if (libdeflate_zlib_decompress(d, packed->stream.ptr, packed->stream.len, to, bytes,
				       &got) != LIBDEFLATE_SUCCESS)
		got = 0;
	libdeflate_free_decompressor(d);
	return got == bytes || err_set(err, ERR_INVALID, "a broken zlib stream");
}

/* Room on the disk is taken beforehand: a write into a mapping cannot say that it is full. */
static void *map_nameless(int folder, size_t bytes, struct err *err)
{
	AUTO(fd_close) int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	void *p;

	if (fd < 0) {
		err_set_errno(err, "a nameless file");
		return NULL;
	}
	errno = posix_fallocate(fd, 0, (off_t)bytes);
	if (errno) {
		err_set_errno(err, "%zu bytes of disk", bytes);
		return NULL;
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		err_set_errno(err, "mapping %zu bytes", bytes);
		return NULL;
	}
	return p;
}

bool elf_file_section_spill(const struct elf_file *f, const struct elf_section *section, int folder,
			    uint64_t limit_bytes, struct elf_data *out, struct err *err)
{
	struct packed packed;
	struct bytes raw;
	size_t bytes;
	void *p;

	if (section->type == SHT_NOBITS ||
	    !bytes_part(f->image, section->file_offset, section->size, &raw) ||
	    !packed_of(raw, section, &packed) || !packed.is_packed || !packed.inflated_bytes)
		return elf_file_section_data(f, section, 0, out, err);
	if (!packed.known_method || packed.inflated_bytes > limit_bytes)
		return inflate_section(&packed, section, 0, out, err); /* says why not */
	bytes = (size_t)packed.inflated_bytes;
	p = map_nameless(folder, bytes, err);
	if (!p)
		return err_prefix(err, "section %.*s", STR_ARG(section->name));
	if (!unpack_to(&packed, p, err)) {
		munmap(p, bytes);
		return err_prefix(err, "section %.*s", STR_ARG(section->name));
	}
	mprotect(p, bytes, PROT_READ);
	*out = (struct elf_data){ { p, bytes }, NULL, bytes };
	return true;
}

bool elf_section_compressed(const struct elf_file *f, const struct elf_section *section,
			    uint64_t *inflated_bytes)
{
	struct packed packed;
	struct bytes raw;

	if (section->type == SHT_NOBITS ||
	    !bytes_part(f->image, section->file_offset, section->size, &raw) ||
	    !packed_of(raw, section, &packed) || !packed.is_packed)
		return false;
	*inflated_bytes = packed.inflated_bytes;
	return true;
}

void elf_data_let_go(const struct elf_data *d)
{
	if (d->mapped_bytes)
		(void)madvise((void *)(uintptr_t)d->bytes.ptr, d->mapped_bytes, MADV_DONTNEED);
}

void elf_data_release(struct elf_data *d)
{
	if (d->owned)
		blob_unref(d->owned);
	if (d->mapped_bytes)
		munmap((void *)(uintptr_t)d->bytes.ptr, d->mapped_bytes);
	*d = (struct elf_data){ 0 };
}
