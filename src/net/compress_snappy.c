/*
 * compress_snappy.c - snappy, block and framed.
 *
 * libsnappy is C++ and would bring libstdc++ (2 MB of memory) into every process: it is loaded when
 *first needed.
 *
 * Framed (snappy's framing_format.txt), chunks of
 *	type:1  length:3 little endian  data
 *	ff  06 00 00  "sNaPpY"                       stream identifier, first, may come again
 *	00  length    crc:4 block                    compressed, at most 65536 bytes of content
 *	01  length    crc:4 content                  not compressed
 *	02-7f         unknown, must not be skipped   80-fe: padding and unknown, skipped
 * crc is the masked CRC-32C of the content.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <snappy-c.h>

#include "net/compress_internal.h"

enum { CHUNK_CONTENT_MOST = 65536, CHUNK_HEAD = 4, CHUNK_CRC = 4 };
enum { CHUNK_COMPRESSED = 0x00, CHUNK_PLAIN = 0x01, CHUNK_SKIPPABLE = 0x80, CHUNK_STREAM = 0xff };

static struct {
	pthread_once_t once;
	bool loaded;
	__typeof__(&snappy_compress) compress;
	__typeof__(&snappy_uncompress) uncompress;
	__typeof__(&snappy_max_compressed_length) max_compressed_length;
	__typeof__(&snappy_uncompressed_length) uncompressed_length;
} lib = { .once = PTHREAD_ONCE_INIT };

static void lib_load_once(void)
{
	void *h = dlopen("libsnappy.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!h)
		return;
	*(void **)&lib.compress = dlsym(h, "snappy_compress");
	*(void **)&lib.uncompress = dlsym(h, "snappy_uncompress");
	*(void **)&lib.max_compressed_length = dlsym(h, "snappy_max_compressed_length");
	*(void **)&lib.uncompressed_length = dlsym(h, "snappy_uncompressed_length");
	lib.loaded = lib.compress && lib.uncompress && lib.max_compressed_length &&
		     lib.uncompressed_length;
}

static bool lib_load(struct err *err)
{
	pthread_once(&lib.once, lib_load_once);
	if (!lib.loaded)
		return err_set(err, ERR_UNSUPPORTED,
			       "snappy needs libsnappy.so.1 (Debian: libsnappy1v5)");
	return true;
}

static bool block_inflate(struct str in, size_t content_most, struct inflated *o, struct err *err)
{
	size_t len;

	if (lib.uncompressed_length(in.ptr, in.len, &len) != SNAPPY_OK)
		return err_set(err, ERR_INVALID, "bad snappy data: no length at its start");
	if (content_most && len > content_most)
		return err_set(err, ERR_INVALID, "snappy chunk announces %zu bytes, at most %zu",
			       len, content_most);
	/* A byte of snappy makes at most 64 bytes: what announces more is a lie, refused before it
	 * costs memory. */
	if (len / 64 > in.len)
		return len > o->limit_bytes ? inflated_too_big(o, err)
					    : err_set(err, ERR_INVALID,
						      "bad snappy data: %zu bytes announced in %zu",
						      len, in.len);
	if (!inflated_reserve(o, len, err))
		return false;
	if (lib.uncompress(in.ptr, in.len, o->blob->ptr + o->blob->len, &len) != SNAPPY_OK)
		return err_set(err, ERR_INVALID, "bad snappy data");
	o->blob->len += len;
	return true;
}

bool inflate_snappy(struct str in, struct inflated *o, struct err *err)
{
	return lib_load(err) && block_inflate(in, 0, o, err);
}

/* CRC-32C (Castagnoli, reflected), half a byte at a time. */
static uint32_t crc32c(const char *data, size_t n)
{
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < n; i++) {
		crc ^= (unsigned char)data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static uint32_t crc_masked(const char *data, size_t n)
{
	uint32_t crc = crc32c(data, n);

	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static uint32_t u32_le(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static bool chunk_content(unsigned type, struct str data, struct inflated *o, struct err *err)
{
	size_t before = o->blob->len;
	uint32_t want, have;

	if (data.len < CHUNK_CRC)
		return err_set(err, ERR_INVALID, "snappy chunk has %zu bytes, at least %d",
			       data.len, CHUNK_CRC);
	want = u32_le(data.ptr);
	data = str_skip(data, CHUNK_CRC);
	if (type == CHUNK_COMPRESSED) {
		if (!block_inflate(data, CHUNK_CONTENT_MOST, o, err))
			return false;
	} else {
		if (data.len > CHUNK_CONTENT_MOST)
			return err_set(err, ERR_INVALID, "snappy chunk has %zu bytes, at most %d",
				       data.len, CHUNK_CONTENT_MOST);
		if (!inflated_reserve(o, data.len, err))
			return false;
		memcpy(o->blob->ptr + before, data.ptr, data.len);
		o->blob->len += data.len;
	}
	have = crc_masked(o->blob->ptr + before, o->blob->len - before);
	if (have != want)
		return err_set(err, ERR_INVALID, "snappy chunk has CRC %08x, says %08x", have,
			       want);
	return true;
}

bool inflate_snappy_framed(struct str in, struct inflated *o, struct err *err)
{
	if (!lib_load(err))
		return false;
	if (!str_has_prefix(in, STR("\xff\x06\x00\x00sNaPpY")))
		return err_set(err, ERR_INVALID, "bad snappy data: no stream identifier");
	while (in.len) {
		unsigned type = (unsigned char)in.ptr[0];
		size_t len;

		if (in.len < CHUNK_HEAD)
			return err_set(err, ERR_INVALID, "snappy data is cut short");
		len = u32_le(in.ptr) >> 8;
		in = str_skip(in, CHUNK_HEAD);
		if (len > in.len)
			return err_set(err, ERR_INVALID, "snappy chunk of %zu bytes, %zu are left",
				       len, in.len);
		if (type == CHUNK_COMPRESSED || type == CHUNK_PLAIN) {
			if (!chunk_content(type, str_head(in, len), o, err))
				return false;
		} else if (type < CHUNK_SKIPPABLE) {
			return err_set(err, ERR_INVALID, "unknown snappy chunk type %u", type);
		} else if (type == CHUNK_STREAM && !str_equal(str_head(in, len), STR("sNaPpY"))) {
			return err_set(err, ERR_INVALID, "bad snappy stream identifier");
		}
		in = str_skip(in, len);
	}
	return true;
}

bool deflate_snappy(struct str in, struct buf *out, struct err *err)
{
	size_t len;
	char *to;

	if (!lib_load(err))
		return false;
	len = lib.max_compressed_length(in.len);
	to = buf_reserve(out, len);
	if (!to)
		return err_set(err, ERR_LIMIT, "%zu bytes of compressed data do not fit in %zu",
			       len, out->limit_bytes);
	if (lib.compress(in.ptr, in.len, to, &len) != SNAPPY_OK)
		return err_set(err, ERR_INTERNAL, "snappy cannot compress %zu bytes", in.len);
	buf_advance(out, len);
	return true;
}

static void put_le(char *p, uint32_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (char)(v >> 8 * i);
}

bool deflate_snappy_framed(struct str in, struct buf *out, struct err *err)
{
	buf_lit(out, "\xff\x06\x00\x00sNaPpY");
	while (in.len) {
		struct str part = str_head(in, CHUNK_CONTENT_MOST);
		char head[CHUNK_HEAD + CHUNK_CRC] = { CHUNK_COMPRESSED };
		size_t at = out->len;

		put_le(head + CHUNK_HEAD, crc_masked(part.ptr, part.len), 4);
		buf_append(out, head, sizeof(head));
		if (!deflate_snappy(part, out, err))
			return false;
		put_le(out->ptr + at + 1, (uint32_t)(out->len - at - CHUNK_HEAD), 3);
		in = str_skip(in, part.len);
	}
	if (out->failed)
		return err_set(err, ERR_LIMIT, "compressed data do not fit in %zu bytes",
			       out->limit_bytes);
	return true;
}
