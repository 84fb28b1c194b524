/*
 * compress_zlib.h - libz.so.1, loaded on first use: it reads gzip piece by piece, which libdeflate
 * does not.
 */
#pragma once
#include <stdbool.h>
#define ZLIB_CONST
#define compress zlib_compress /* that name is taken here */
#include <zlib.h>
#undef compress
#include "base/err.h"

struct zlib {
	void *handle;
	__typeof__(&inflateInit2_) init;
	__typeof__(&inflate) step;
	__typeof__(&inflateReset) reset;
	__typeof__(&inflateEnd) end;
};

bool zlib_open(struct zlib *z, struct err *err) MUST_CHECK;
void zlib_close(struct zlib *z);
/* False: the library is not the version we were built for. */
bool zlib_begin_gzip(const struct zlib *z, z_stream *s) MUST_CHECK;
