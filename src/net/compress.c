#include "net/compress.h"

#include <assert.h>
#include <libdeflate.h>
#include <lz4frame.h>
#include <stdlib.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_findDecompressedSize() */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/budget.h"
#include "net/compress_internal.h"

/* What a first attempt makes room for when the input does not say how much comes out. */
enum { GUESS_RATIO = 4, GUESS_LEAST = 1024 };
enum { DEFLATE_RATIO_MOST = 1032, GZIP_LEAST = 18 };
/* What becomes larger than the first is counted before it gets that much memory, unless it
 * announced it and is no more than so many times as large as it came. */
enum { COUNTED_FROM = 64 << 20, RATIO_TRUSTED = 64 };

static const struct {
	const char *name;
	enum compression kind;
} names[] = {
	{ "", COMPRESSION_NONE },         { "identity", COMPRESSION_NONE },
	{ "none", COMPRESSION_NONE },     { "gzip", COMPRESSION_GZIP },
	{ "x-gzip", COMPRESSION_GZIP },   { "deflate", COMPRESSION_DEFLATE },
	{ "zlib", COMPRESSION_DEFLATE },  { "zstd", COMPRESSION_ZSTD },
	{ "snappy", COMPRESSION_SNAPPY }, { "x-snappy-framed", COMPRESSION_SNAPPY_FRAMED },
	{ "lz4", COMPRESSION_LZ4 },
};

bool compression_parse(struct str name, enum compression *out)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_equal_nocase(name, str_cstr(names[i].name))) {
			*out = names[i].kind;
			return true;
		}
	return false;
}

const char *compression_name(enum compression c)
{
	switch (c) {
	case COMPRESSION_NONE:
		return "identity";
	case COMPRESSION_GZIP:
		return "gzip";
	case COMPRESSION_DEFLATE:
		return "deflate";
	case COMPRESSION_ZSTD:
		return "zstd";
	case COMPRESSION_SNAPPY:
		return "snappy";
	case COMPRESSION_SNAPPY_FRAMED:
		return "x-snappy-framed";
	case COMPRESSION_LZ4:
		return "lz4";
	}
	return "unknown";
}

enum compression compression_sniff(struct str bytes)
{
	if (str_has_prefix(bytes, STR("\x1f\x8b")))
		return COMPRESSION_GZIP;
	if (str_has_prefix(bytes, STR("\x28\xb5\x2f\xfd")))
		return COMPRESSION_ZSTD;
	return COMPRESSION_NONE;
}

/* The output that grows. */

bool inflated_too_big(const struct inflated *o, struct err *err)
{
	return err_set(err, ERR_LIMIT, "decompressed body is larger than the limit of %zu bytes",
		       o->limit_bytes);
}

static bool inflated_set_cap(struct inflated *o, size_t cap, struct err *err)
{
	struct blob *b = o->blob;
	char *heap;

	if (o->budget && !budget_take(o->budget, cap - b->cap))
		return err_set(err, ERR_BUSY, "no memory left to decompress into (%zu bytes)", cap);
	b->budget = o->budget;
	b->charged_bytes += cap - b->cap;
	heap = realloc(b->ptr, cap);
	assert(heap);
	b->ptr = heap;
	b->cap = cap;
	return true;
}

bool inflated_reserve(struct inflated *o, size_t extra, struct err *err)
{
	struct blob *b = o->blob;
	size_t cap = b->cap;

	if (extra > o->limit_bytes - b->len)
		return inflated_too_big(o, err);
	if (extra <= cap - b->len)
		return true;
	cap = cap > o->limit_bytes / 2 ? o->limit_bytes : cap * 2;
	if (cap - b->len < extra)
		cap = b->len + extra;
	return inflated_set_cap(o, cap, err);
}

/* For codecs that want the whole room at once: twice as much, up to the limit. */
static bool inflated_double(struct inflated *o, struct err *err)
{
	size_t room = o->blob->cap - o->blob->len;

	if (o->blob->cap >= o->limit_bytes)
		return inflated_too_big(o, err);
	if (room > (o->limit_bytes - o->blob->len) / 2)
		room = o->limit_bytes - o->blob->len;
	else
		room = room ? room * 2 : 1;
	return inflated_reserve(o, room, err);
}

/* Exactly as much room as the rest of the data needs; where that cannot be counted, as it is. */
static bool inflated_count(struct inflated *o, enum compression c, struct str rest, struct err *err)
{
	size_t left = o->limit_bytes - o->blob->len;
	uint64_t count = count_inflated(c, rest, left);

	o->counted = true;
	if (count == UINT64_MAX)
		return true;
	/* One to spare, as for what announces its size. */
	return count > left ? inflated_too_big(o, err)
			    : inflated_reserve(o, count < left ? count + 1 : left, err);
}

/* inflated_double(), unless that much is to be counted first. */
static bool inflated_grow(struct inflated *o, enum compression c, struct str rest, struct err *err)
{
	size_t before = o->blob->cap;

	if (!o->counted && o->limit_bytes > COUNTED_FROM && before >= COUNTED_FROM / 2) {
		if (!inflated_count(o, c, rest, err))
			return false;
		if (o->blob->cap > before)
			return true;
	}
	return inflated_double(o, err);
}

/* Gives back what was guessed too much, when that is worth a copy. */
static void inflated_shrink(struct inflated *o)
{
	struct blob *b = o->blob;
	char *heap;

	if (b->cap - b->len < b->cap / 4 || b->cap - b->len < 4096)
		return;
	heap = realloc(b->ptr, b->len ? b->len : 1);
	if (!heap)
		return;
	if (b->budget) {
		budget_give(b->budget, b->cap - b->len);
		b->charged_bytes -= b->cap - b->len;
	}
	b->ptr = heap;
	b->cap = b->len;
}

static size_t guess(struct str in, size_t announced, size_t limit)
{
	size_t n = announced ? announced
			     : (in.len > limit / GUESS_RATIO ? limit : in.len * GUESS_RATIO);

	if (!announced && n < GUESS_LEAST)
		n = GUESS_LEAST;
	return n > limit ? limit : n;
}

/* gzip, zlib, deflate: libdeflate, whole at once; 2.3 times as fast as zlib on a body of profiles.
 */

/* RFC 1952: the last four bytes are the last member's size, modulo 2^32. Only a hint: they may lie.
 */
static size_t gzip_announced(struct str in)
{
	const unsigned char *p = (const unsigned char *)in.ptr + in.len - 4;
	size_t n = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;

	if (n / DEFLATE_RATIO_MOST > in.len)
		return 0; /* no deflate stream of this length can hold that */
	return n + 1;     /* so that an empty one is not "unknown" */
}

/* RFC 1950: method 8 and a header that is a multiple of 31; else some senders mean a raw deflate
 * stream. */
static bool looks_like_zlib(struct str in)
{
	const unsigned char *p = (const unsigned char *)in.ptr;

	return in.len >= 2 && (p[0] & 0x0f) == 8 && (p[0] << 8 | p[1]) % 31 == 0;
}

enum deflate_format { FORMAT_GZIP, FORMAT_ZLIB, FORMAT_RAW };

static enum libdeflate_result deflate_once(struct libdeflate_decompressor *d,
					   enum deflate_format format, struct str in,
					   struct blob *out, size_t *used, size_t *made)
{
	char *to = out->ptr + out->len;
	size_t room = out->cap - out->len;

	switch (format) {
	case FORMAT_GZIP:
		return libdeflate_gzip_decompress_ex(d, in.ptr, in.len, to, room, used, made);
	case FORMAT_ZLIB:
		return libdeflate_zlib_decompress_ex(d, in.ptr, in.len, to, room, used, made);
	case FORMAT_RAW:
		break;
	}
	return libdeflate_deflate_decompress_ex(d, in.ptr, in.len, to, room, used, made);
}

static bool deflate_member(struct libdeflate_decompressor *d, enum deflate_format format,
			   struct str *in, struct inflated *o, struct err *err)
{
	enum libdeflate_result rc;
	size_t used = 0, made = 0;

	for (;;) {
		rc = deflate_once(d, format, *in, o->blob, &used, &made);
		if (rc != LIBDEFLATE_INSUFFICIENT_SPACE)
			break;
		if (!inflated_grow(o,
				   format == FORMAT_GZIP ? COMPRESSION_GZIP : COMPRESSION_DEFLATE,
				   *in, err))
			return false;
	}
	if (rc != LIBDEFLATE_SUCCESS)
		return err_set(err, ERR_INVALID, "bad %s data after %zu bytes of output",
			       format == FORMAT_GZIP ? "gzip" : "deflate", o->blob->len);
	o->blob->len += made;
	*in = str_skip(*in, used);
	return true;
}

static bool inflate_deflate(struct str in, enum deflate_format format, struct inflated *o,
			    struct err *err)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	bool ok;

	assert(d);
	/* RFC 1952, 2.2: a gzip file is a series of members. */
	do
		ok = deflate_member(d, format, &in, o, err);
	while (ok && format == FORMAT_GZIP && in.len);
	libdeflate_free_decompressor(d);
	if (ok && in.len)
		return err_set(err, ERR_INVALID, "%zu bytes follow the deflate stream", in.len);
	return ok;
}

/* zstd: whole at once into the output, so that no window is allocated (a frame may ask for 128 MiB
 * of it). */

static bool inflate_zstd(struct str in, struct inflated *o, struct err *err)
{
	ZSTD_DCtx *d = ZSTD_createDCtx();
	size_t rc;

	assert(d);
	for (;;) {
		rc = ZSTD_decompressDCtx(d, o->blob->ptr, o->blob->cap, in.ptr, in.len);
		if (!ZSTD_isError(rc) || ZSTD_getErrorCode(rc) != ZSTD_error_dstSize_tooSmall)
			break;
		if (!inflated_grow(o, COMPRESSION_ZSTD, in, err)) {
			ZSTD_freeDCtx(d);
			return false;
		}
	}
	ZSTD_freeDCtx(d);
	if (ZSTD_isError(rc))
		return err_set(err, ERR_INVALID, "bad zstd data: %s", ZSTD_getErrorName(rc));
	o->blob->len = rc;
	return true;
}

static bool zstd_announced(struct str in, size_t limit, size_t *announced, struct err *err)
{
	unsigned long long n = ZSTD_findDecompressedSize(in.ptr, in.len);

	*announced = 0;
	if (n == ZSTD_CONTENTSIZE_UNKNOWN)
		return true;
	if (n == ZSTD_CONTENTSIZE_ERROR)
		return err_set(err, ERR_INVALID, "bad zstd data: no valid frame");
	if (n > limit)
		return err_set(err, ERR_LIMIT,
			       "zstd data announces %llu bytes, the limit is %zu bytes", n, limit);
	/* A lie may announce much and bring nothing: blocks are at most 128 KiB and at least 3
	 * bytes. */
	if (n / (128 * 1024) <= in.len / 3)
		*announced = n ? (size_t)n : 1;
	return true;
}

/* lz4: the frame format, as collectors write it. */

static bool inflate_lz4_stream(LZ4F_dctx *d, struct str in, struct inflated *o, struct err *err)
{
	struct blob *b = o->blob;
	size_t need = 1;

	while (in.len || need) {
		size_t used = in.len, made;
		bool full = b->len == o->limit_bytes;
		char spill; /* one byte past the limit shows that there is more than an end mark */

		if (b->len == b->cap && !full && !inflated_double(o, err))
			return false;
		made = full ? 1 : b->cap - b->len;
		need = LZ4F_decompress(d, full ? &spill : b->ptr + b->len, &made, in.ptr, &used,
				       NULL);
		if (LZ4F_isError(need))
			return err_set(err, ERR_INVALID, "bad lz4 data: %s",
				       LZ4F_getErrorName(need));
		if (full && made)
			return inflated_too_big(o, err);
		b->len += made;
		in = str_skip(in, used);
		if (!used && !made && need && !in.len)
			return err_set(err, ERR_INVALID, "lz4 data is cut short");
	}
	return true;
}

static bool inflate_lz4(struct str in, struct inflated *o, struct err *err)
{
	LZ4F_dctx *d;
	LZ4F_errorCode_t rc = LZ4F_createDecompressionContext(&d, LZ4F_VERSION);
	bool ok;

	assert(!LZ4F_isError(rc));
	ok = inflate_lz4_stream(d, in, o, err);
	LZ4F_freeDecompressionContext(d);
	return ok;
}

/* All. */

static bool inflate_none(struct str in, struct inflated *o, struct err *err)
{
	if (!inflated_reserve(o, in.len, err))
		return false;
	if (in.len)
		memcpy(o->blob->ptr, in.ptr, in.len);
	o->blob->len = in.len;
	return true;
}

static bool first_room(enum compression c, struct str in, struct inflated *o, struct err *err)
{
	size_t announced = 0, room;

	if (c == COMPRESSION_NONE)
		return true;
	if (c == COMPRESSION_GZIP) {
		if (in.len < GZIP_LEAST)
			return err_set(err, ERR_INVALID, "gzip data is cut short: %zu bytes",
				       in.len);
		announced = gzip_announced(in);
	}
	if (c == COMPRESSION_ZSTD && !zstd_announced(in, o->limit_bytes, &announced, err))
		return false;
	if (c == COMPRESSION_SNAPPY || c == COMPRESSION_SNAPPY_FRAMED)
		return true; /* each block says its size */
	room = guess(in, announced, o->limit_bytes);
	if (c == COMPRESSION_GZIP && room > COUNTED_FROM && room / RATIO_TRUSTED > in.len &&
	    !inflated_count(o, c, in, err))
		return false;
	if (o->blob->cap)
		return true;
	return inflated_reserve(o, room, err);
}

/* grpc-go and Collectors call the framed stream "snappy", too. It begins with its stream
 * identifier; a block that does would announce 895 bytes and then break off. */
static const struct str snappy_stream_head = { "\xff\x06\x00\x00sNaPpY", 10 };

static bool inflate_any(enum compression c, struct str in, struct inflated *o, struct err *err)
{
	if (!first_room(c, in, o, err))
		return false;
	switch (c) {
	case COMPRESSION_NONE:
		return inflate_none(in, o, err);
	case COMPRESSION_GZIP:
		return inflate_deflate(in, FORMAT_GZIP, o, err);
	case COMPRESSION_DEFLATE:
		return inflate_deflate(in, looks_like_zlib(in) ? FORMAT_ZLIB : FORMAT_RAW, o, err);
	case COMPRESSION_ZSTD:
		return inflate_zstd(in, o, err);
	case COMPRESSION_SNAPPY:
		if (str_has_prefix(in, snappy_stream_head))
			return inflate_snappy_framed(in, o, err);
		return inflate_snappy(in, o, err);
	case COMPRESSION_SNAPPY_FRAMED:
		return inflate_snappy_framed(in, o, err);
	case COMPRESSION_LZ4:
		return inflate_lz4(in, o, err);
	}
	return err_set(err, ERR_UNSUPPORTED, "unknown compression %d", (int)c);
}

struct blob *decompress_charged(enum compression c, struct str in, size_t limit_bytes,
				struct budget *budget, struct err *err)
{
	struct inflated o = { .blob = blob_new(0), .limit_bytes = limit_bytes, .budget = budget };

	if (!inflate_any(c, in, &o, err)) {
		blob_unref(o.blob);
		return NULL;
	}
	inflated_shrink(&o);
	return o.blob;
}

struct blob *decompress(enum compression c, struct str in, size_t limit_bytes, struct err *err)
{
	return decompress_charged(c, in, limit_bytes, NULL, err);
}

/* Compression. */

static bool no_room(struct buf *out, size_t bytes, struct err *err)
{
	return err_set(err, ERR_LIMIT, "%zu bytes of compressed data do not fit in %zu", bytes,
		       out->limit_bytes);
}

/* Profiles come out as small as at Go's default level (39.8 kB of a body of 111.5, beside 40.3), in
 * 0.8 ms; level 6 takes 1.5 ms for 38.5 kB. */
enum { DEFLATE_DEFAULT_LEVEL = 2 };

static bool deflate_level(bool gzip, int level, struct str in, struct buf *out, struct err *err)
{
	struct libdeflate_compressor *z =
		libdeflate_alloc_compressor(level > 0 ? level : DEFLATE_DEFAULT_LEVEL);
	size_t bound, n;
	char *to;

	if (!z)
		return err_set(err, ERR_INVALID, "compression level %d is not within 1 to 12",
			       level);
	bound = gzip ? libdeflate_gzip_compress_bound(z, in.len)
		     : libdeflate_zlib_compress_bound(z, in.len);
	to = buf_reserve(out, bound);
	if (!to) {
		libdeflate_free_compressor(z);
		return no_room(out, bound, err);
	}
	n = gzip ? libdeflate_gzip_compress(z, in.ptr, in.len, to, bound)
		 : libdeflate_zlib_compress(z, in.ptr, in.len, to, bound);
	libdeflate_free_compressor(z);
	assert(n); /* the bound suffices */
	buf_advance(out, n);
	return true;
}

static bool deflate_zstd(int level, struct str in, struct buf *out, struct err *err)
{
	size_t bound = ZSTD_compressBound(in.len), n;
	char *to = buf_reserve(out, bound);

	if (!to)
		return no_room(out, bound, err);
	n = ZSTD_compress(to, bound, in.ptr, in.len, level ? level : ZSTD_CLEVEL_DEFAULT);
	if (ZSTD_isError(n))
		return err_set(err, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
	buf_advance(out, n);
	return true;
}

static bool deflate_lz4(int level, struct str in, struct buf *out, struct err *err)
{
	LZ4F_preferences_t preferences = { .compressionLevel = level,
					   .frameInfo.contentSize = in.len };
	size_t bound = LZ4F_compressFrameBound(in.len, &preferences), n;
	char *to = buf_reserve(out, bound);

	if (!to)
		return no_room(out, bound, err);
	n = LZ4F_compressFrame(to, bound, in.ptr, in.len, &preferences);
	if (LZ4F_isError(n))
		return err_set(err, ERR_INTERNAL, "lz4: %s", LZ4F_getErrorName(n));
	buf_advance(out, n);
	return true;
}

bool compress_into(enum compression c, int level, struct str in, struct buf *out, struct err *err)
{
	switch (c) {
	case COMPRESSION_NONE:
		buf_str(out, in);
		return !out->failed || no_room(out, in.len, err);
	case COMPRESSION_GZIP:
		return deflate_level(true, level, in, out, err);
	case COMPRESSION_DEFLATE:
		return deflate_level(false, level, in, out, err);
	case COMPRESSION_ZSTD:
		return deflate_zstd(level, in, out, err);
	case COMPRESSION_SNAPPY:
		return deflate_snappy(in, out, err);
	case COMPRESSION_SNAPPY_FRAMED:
		return deflate_snappy_framed(in, out, err);
	case COMPRESSION_LZ4:
		return deflate_lz4(level, in, out, err);
	}
	return err_set(err, ERR_UNSUPPORTED, "unknown compression %d", (int)c);
}

bool compress_gzip_buf(struct buf *b, struct err *err)
{
	struct buf plain = *b;
	bool ok;

	buf_init(b, plain.limit_bytes);
	ok = compress_into(COMPRESSION_GZIP, 0, buf_view(&plain), b, err);
	buf_release(&plain);
	return ok;
}
