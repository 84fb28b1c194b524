/*
 * byte_reader.h - reads little-endian fields of untrusted bytes, each byte once.
 *
 * A read past the end yields zero, remembers the failure and leaves the reader at the end, so a
 * parser checks `failed` where it matters rather than at every field. Each field is copied out
 * before it is judged: the bytes may be a mapped file that changes while we read. Memory: borrowed.
 * Threads: values.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/str.h"

struct bytes {
	const uint8_t *ptr;
	size_t len;
};

struct byte_reader {
	const uint8_t *ptr, *end;
	bool failed;
};

/* The part [offset, offset + len) of `b`; false when it does not lie inside. */
static inline bool bytes_part(struct bytes b, uint64_t offset, uint64_t len, struct bytes *out)
{
	if (offset > b.len || len > b.len - offset)
		return false;
	*out = (struct bytes){ b.ptr ? b.ptr + offset : NULL, (size_t)len };
	return true;
}

static inline struct byte_reader byte_reader_of(struct bytes b)
{
	return (struct byte_reader){ b.ptr, b.ptr ? b.ptr + b.len : NULL, false };
}

/* From `offset` to the end; a reader that has failed when offset lies outside. */
static inline struct byte_reader byte_reader_at(struct bytes b, uint64_t offset)
{
	struct byte_reader r = byte_reader_of(b);

	if (offset > b.len) {
		r.ptr = r.end;
		r.failed = true;
	} else if (offset) {
		r.ptr += offset;
	}
	return r;
}

static inline size_t byte_reader_left(const struct byte_reader *r)
{
	return (size_t)(r->end - r->ptr);
}

static inline bool byte_reader_take(struct byte_reader *r, void *out, size_t n)
{
	if (byte_reader_left(r) < n) {
		r->ptr = r->end;
		r->failed = true;
		memset(out, 0, n);
		return false;
	}
	memcpy(out, r->ptr, n);
	r->ptr += n;
	return true;
}

static inline uint8_t read_u8(struct byte_reader *r)
{
	uint8_t v;

	byte_reader_take(r, &v, sizeof(v));
	return v;
}

static inline uint16_t read_u16(struct byte_reader *r)
{
	uint16_t v;

	byte_reader_take(r, &v, sizeof(v));
	return v;
}

static inline uint32_t read_u32(struct byte_reader *r)
{
	uint32_t v;

	byte_reader_take(r, &v, sizeof(v));
	return v;
}

static inline uint64_t read_u64(struct byte_reader *r)
{
	uint64_t v;

	byte_reader_take(r, &v, sizeof(v));
	return v;
}

/* n of 1 to 8 bytes. */
static inline uint64_t read_uint(struct byte_reader *r, unsigned n)
{
	uint64_t v = 0;

	if (n > sizeof(v)) {
		r->ptr = r->end;
		r->failed = true;
		return 0;
	}
	byte_reader_take(r, &v, n);
	return v;
}

static inline void read_skip(struct byte_reader *r, uint64_t n)
{
	if (n > byte_reader_left(r)) {
		r->ptr = r->end;
		r->failed = true;
		return;
	}
	r->ptr += n;
}

/* Bits past the 64th are dropped, as every other reader of LEB128 does. */
static inline uint64_t read_uleb128(struct byte_reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;

	while (r->ptr < r->end) {
		uint8_t b = *r->ptr++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
		shift += 7;
	}
	r->failed = true;
	return 0;
}

static inline int64_t read_sleb128(struct byte_reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;

	while (r->ptr < r->end) {
		uint8_t b = *r->ptr++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		if (b & 0x80)
			continue;
		if (shift < 64 && (b & 0x40))
			v |= ~UINT64_C(0) << shift;
		return (int64_t)v;
	}
	r->failed = true;
	return 0;
}

/* Up to the NUL, which is consumed; fails without one. */
static inline struct str read_cstr(struct byte_reader *r)
{
	size_t left = byte_reader_left(r);
	const void *nul = left ? memchr(r->ptr, 0, left) : NULL;
	struct str s;

	if (!nul) {
		r->ptr = r->end;
		r->failed = true;
		return (struct str){ 0 };
	}
	s = str_from(r->ptr, (size_t)((const uint8_t *)nul - r->ptr));
	r->ptr = (const uint8_t *)nul + 1;
	return s;
}

/* The string at `offset` of a table of NUL-terminated strings; empty when there is none. */
static inline struct str bytes_cstr_at(struct bytes table, uint64_t offset)
{
	struct byte_reader r = byte_reader_at(table, offset);

	return read_cstr(&r);
}
