/*
 * compress.h - gzip, zlib/deflate, zstd, snappy (block and framed), lz4: whole bodies, bounded.
 *
 * Decompression stops as soon as the output passes limit_bytes (ERR_LIMIT), and a block that
 * announces its size is refused before a byte is written. A bomb of gzip or zstd costs 64 MiB at
 * most: what would become more is counted first, without keeping it.
 */
#pragma once
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"

enum compression {
	COMPRESSION_NONE,
	COMPRESSION_GZIP,
	COMPRESSION_DEFLATE, /* zlib stream; a raw deflate stream is read too */
	COMPRESSION_ZSTD,
	COMPRESSION_SNAPPY, /* written as a block; read as a block or as the framed stream, by its
			       head */
	COMPRESSION_SNAPPY_FRAMED,
	COMPRESSION_LZ4,
};
/* "gzip", "x-gzip", "deflate", "zlib", "zstd", "snappy", "x-snappy-framed", "lz4", "", "identity",
 * "none". */
bool compression_parse(struct str name, enum compression *out);
const char *compression_name(enum compression c);
/* By magic number: gzip, zstd; else COMPRESSION_NONE. For files. */
enum compression compression_sniff(struct str bytes);

struct blob *decompress(enum compression c, struct str in, size_t limit_bytes,
			struct err *err) MUST_CHECK;
/* As decompress(), charging `budget` (which may be NULL) for the result while it grows: ERR_BUSY
 * when it has no room. */
struct blob *decompress_charged(enum compression c, struct str in, size_t limit_bytes,
				struct budget *budget, struct err *err) MUST_CHECK;
/* level 0 = the default. */
bool compress_into(enum compression c, int level, struct str in, struct buf *out,
		   struct err *err) MUST_CHECK;
/* The buffer's content as a gzip file in its place, within the same limit. */
bool compress_gzip_buf(struct buf *b, struct err *err) MUST_CHECK;
