/*
 * compress_torn.h - what can be had of a gzip or zstd file that is cut short or damaged.
 *
 * decompress() gives all or nothing, which is right for requests. A person who looks into a broken
 * file wants what stands before the fault. gzip is read with zlib, which is loaded on first use.
 * Also reads what decompress() does not: gzip members and zstd frames one after another.
 */
#pragma once
#include "net/compress.h"

/*
 * Decompresses up to the first fault, `fault` says what it is and where; at most limit_bytes. Of
 * good data it gives all and leaves `fault` at ERR_NONE. NULL when nothing comes out.
 */
struct blob *decompress_torn(enum compression c, struct str in, size_t limit_bytes,
			     struct err *fault) MUST_CHECK;
