/*
 * compress_torn.h - what can be had of a gzip or zstd file that is cut short or damaged, or has
 * something else behind it.
 *
 * decompress() gives all or nothing, which is right for requests. A person who looks into a broken
 * file wants what stands before the fault. gzip is read with zlib, which is loaded on first use.
 * Also reads what decompress() does not: gzip members and zstd frames one after another.
 */
#pragma once
#include "net/compress.h"

/*
 * Decompresses up to the first fault, `fault` says what it is and where; at most limit_bytes. Of
 * good data it gives all and leaves `fault` at ERR_NONE. A file is a series of gzip members or zstd
 * frames; where something else follows one, good data ends: `used` is its length (in.len after a
 * fault). NULL when nothing comes out because of a fault.
 */
struct blob *decompress_torn(enum compression c, struct str in, size_t limit_bytes, size_t *used,
			     struct err *fault) MUST_CHECK;
