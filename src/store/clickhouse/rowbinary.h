/*
 * rowbinary.h - ClickHouse's format RowBinary, both ways: numbers little-endian, a String is a
 * varint length and its bytes, an Array a varint count and its elements, a FixedString its bytes.
 *
 * Memory: appends go to the caller's buf; what is read is borrowed. Threads: none of its own.
 * Source: ClickHouse documentation, formats, RowBinary; the same since 18.16.
 */
#pragma once
#include "base/buf.h"
#include "store/schema/codec.h"

static inline void row_u8(struct buf *b, uint8_t v)
{
	buf_char(b, (char)v);
}
static inline void row_u16(struct buf *b, uint16_t v)
{
	buf_append(b, &v, sizeof(v));
}
static inline void row_u32(struct buf *b, uint32_t v)
{
	buf_append(b, &v, sizeof(v));
}
static inline void row_u64(struct buf *b, uint64_t v)
{
	buf_append(b, &v, sizeof(v));
}
static inline void row_str(struct buf *b, struct str s)
{
	codec_put_str(b, s);
}
static inline void row_count(struct buf *b, uint64_t n)
{
	codec_put(b, n);
}

/* An id in two columns: its upper 48 bits, and the lower 16, in which neighbours differ. */
static inline void ch_put_id(struct buf *b, uint64_t id)
{
	row_u64(b, id >> 16);
	row_u16(b, (uint16_t)id);
}
/* A list of them: in two arrays. */
static inline void ch_put_refs(struct buf *b, const uint64_t *refs, size_t count)
{
	row_count(b, count);
	for (size_t i = 0; i < count; i++)
		row_u64(b, refs[i] >> 16);
	row_count(b, count);
	for (size_t i = 0; i < count; i++)
		row_u16(b, (uint16_t)refs[i]);
}

/* Remembers its first fault and then yields zeros, as struct codec, which it is. */
static inline uint64_t row_get(struct codec *c, size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->at) < bytes) {
		c->failed = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&v, c->at, bytes);
	c->at += bytes;
	return v;
}
static inline struct str row_get_str(struct codec *c)
{
	return codec_get_str(c);
}
static inline struct str row_get_fixed(struct codec *c, size_t bytes)
{
	struct str s = { (const char *)c->at, bytes };

	if ((size_t)(c->end - c->at) < bytes) {
		c->failed = true;
		c->at = c->end;
		return (struct str){ 0 };
	}
	c->at += bytes;
	return s;
}
/* The number of an array's elements, which have at least `least` bytes each: never more than there
 * are. */
static inline uint32_t row_get_count(struct codec *c, size_t least)
{
	uint64_t n = codec_get(c);

	if (n > (uint64_t)(c->end - c->at) / least) {
		c->failed = true;
		c->at = c->end;
		return 0;
	}
	return (uint32_t)n;
}
