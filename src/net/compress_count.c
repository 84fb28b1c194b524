/*
 * compress_count.c - how much comes out of compressed data, counted without keeping it.
 *
 * Twice the work, so it is done only where a little data claims, or turns out, to be much.
 */
#include <assert.h>
#include <stdlib.h>
#include <zstd.h>

#include "net/compress_internal.h"
#include "net/compress_zlib.h"

enum { AT_ONCE = 128 * 1024 };

/* One call of inflate(). False at the end of the data and at a fault. */
static bool count_gzip_step(const struct zlib *z, z_stream *s, const char *end, char *room,
			    uint64_t *count)
{
	size_t rest = (size_t)(end - (const char *)s->next_in);
	int rc;

	s->avail_in = rest < AT_ONCE ? (uInt)rest : AT_ONCE;
	s->next_out = (Bytef *)room;
	s->avail_out = AT_ONCE;
	rc = z->step(s, Z_NO_FLUSH);
	*count += AT_ONCE - s->avail_out;
	rest = (size_t)(end - (const char *)s->next_in);
	if (rc == Z_STREAM_END) /* the next member? */
		return compression_sniff(str_from(s->next_in, rest)) == COMPRESSION_GZIP &&
		       z->reset(s) == Z_OK;
	return rc == Z_OK;
}

static uint64_t count_gzip(struct str in, uint64_t most, char *room)
{
	z_stream s = { .next_in = (const Bytef *)in.ptr };
	struct zlib z = { 0 };
	struct err ignored;
	uint64_t count = 0;

	if (!zlib_open(&z, &ignored))
		return UINT64_MAX;
	if (zlib_begin_gzip(&z, &s)) {
		while (count_gzip_step(&z, &s, in.ptr + in.len, room, &count) && count <= most)
			;
		z.end(&s);
	} else {
		count = UINT64_MAX;
	}
	zlib_close(&z);
	return count;
}

static uint64_t count_zstd(struct str in, uint64_t most, char *room)
{
	ZSTD_DStream *d = ZSTD_createDStream();
	ZSTD_inBuffer from = { in.ptr, in.len, 0 };
	uint64_t count = 0;
	bool more = true;

	assert(d);
	while (more && count <= most) {
		ZSTD_outBuffer to = { room, AT_ONCE, 0 };
		size_t rc = ZSTD_decompressStream(d, &to, &from);

		count += to.pos;
		more = !ZSTD_isError(rc) && (from.pos < from.size || to.pos == to.size);
	}
	ZSTD_freeDStream(d);
	return count;
}

uint64_t count_inflated(enum compression c, struct str in, uint64_t most)
{
	char *room = malloc(AT_ONCE);
	uint64_t count = UINT64_MAX;

	assert(room);
	if (c == COMPRESSION_GZIP)
		count = count_gzip(in, most, room);
	else if (c == COMPRESSION_ZSTD)
		count = count_zstd(in, most, room);
	free(room);
	return count;
}
