/*
 * pb_writer.h - writes protobuf's wire format backwards, from the last field to the first.
 *
 * A nested message's length stands before it; written backwards it is known by then, so that
 * nothing is measured twice and nothing is moved. Callers put the fields of a message in descending
 * order and repeated ones from the last element; the bytes then read in ascending order, as
 * protobuf libraries write them.
 *
 *   size_t mark = pw_mark(&w);
 *   pw_uint(&w, 2, line);        (left out when 0)
 *   pw_uint(&w, 1, function);
 *   pw_message(&w, 3, mark);     (length and tag of field 3, before what was put since the mark)
 *
 * Memory: the spare room of the given buffer, moved to its place by pw_finish(). The writer
 * remembers when the buffer's limit is passed; pw_finish() tells. Threads: one. Source:
 * protobuf.dev/programming-guides/encoding.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/buf.h"
#include "base/str.h"

struct pb_writer {
	uint8_t *begin, *at, *end; /* written: [at, end) */
	struct buf *out;
	size_t limit_bytes; /* of `out`, which has none while it is written to */
	bool failed;
};

enum { PW_VARINT_MOST = 10, PW_FIELD_MOST = 20 /* a tag and a varint */ };

/* `guess_bytes`: what the message will probably need; 0 is fine. */
void pw_begin(struct pb_writer *w, struct buf *out, size_t guess_bytes);
/* Makes what was put the newest bytes of `out`. False (and `out` as it was, but failed) past its
 * limit. */
bool pw_finish(struct pb_writer *w) __attribute__((warn_unused_result));
/* Gives the buffer back as it was. */
void pw_abandon(struct pb_writer *w);
bool pw_grow(struct pb_writer *w, size_t bytes);

static inline bool pw_room(struct pb_writer *w, size_t bytes)
{
	return (size_t)(w->at - w->begin) >= bytes || pw_grow(w, bytes);
}

static inline size_t pw_mark(const struct pb_writer *w)
{
	return (size_t)(w->end - w->at);
}

/* The caller made room for PW_VARINT_MOST. */
static inline void pw_put_varint(struct pb_writer *w, uint64_t v)
{
	uint8_t *p;
	unsigned bytes;

	if (v < 0x80) {
		*--w->at = (uint8_t)v;
		return;
	}
	bytes = (70 - (unsigned)__builtin_clzll(v)) / 7;
	p = w->at -= bytes;
	while (--bytes) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p = (uint8_t)v;
}

/*
 * The same on a pointer of the caller's, for entries that come by the thousand: the compiler keeps
 * it in a register. Tags below 128 only; the caller made room (pw_room) for PW_FIELD_MOST a field.
 */
static inline uint8_t *pw_at_varint(uint8_t *at, uint64_t v)
{
	struct pb_writer w;

	if (v < 0x80) {
		*--at = (uint8_t)v;
		return at;
	}
	if (v < 0x4000) {
		*--at = (uint8_t)(v >> 7);
		*--at = (uint8_t)(v | 0x80);
		return at;
	}
	w.at = at;
	pw_put_varint(&w, v);
	return w.at;
}

static inline uint8_t *pw_at_uint(uint8_t *at, uint8_t number, uint64_t v)
{
	if (!v)
		return at;
	at = pw_at_varint(at, v);
	*--at = (uint8_t)(number << 3);
	return at;
}

/* Length and tag of a message whose fields are [at, end). */
static inline uint8_t *pw_at_message(uint8_t *at, uint8_t number, const uint8_t *end)
{
	at = pw_at_varint(at, (uint64_t)(end - at));
	*--at = (uint8_t)(number << 3 | 2);
	return at;
}

static inline void pw_put_tag(struct pb_writer *w, uint32_t number, uint32_t type)
{
	pw_put_varint(w, number << 3 | type);
}

/* A varint field that is there even when 0. */
static inline void pw_uint_present(struct pb_writer *w, uint32_t number, uint64_t v)
{
	if (!pw_room(w, PW_FIELD_MOST))
		return;
	pw_put_varint(w, v);
	pw_put_tag(w, number, 0);
}

static inline void pw_uint(struct pb_writer *w, uint32_t number, uint64_t v)
{
	if (v)
		pw_uint_present(w, number, v);
}

static inline void pw_int(struct pb_writer *w, uint32_t number, int64_t v)
{
	pw_uint(w, number, (uint64_t)v);
}

static inline void pw_fixed64_present(struct pb_writer *w, uint32_t number, uint64_t v)
{
	if (!pw_room(w, PW_FIELD_MOST))
		return;
	w->at -= sizeof(v);
	memcpy(w->at, &v, sizeof(v)); /* little-endian, as our targets */
	pw_put_tag(w, number, 1);
}

static inline void pw_fixed64(struct pb_writer *w, uint32_t number, uint64_t v)
{
	if (v)
		pw_fixed64_present(w, number, v);
}

/* Bytes as they are: fields that were encoded before. */
static inline void pw_raw(struct pb_writer *w, struct str bytes)
{
	if (!bytes.len || !pw_room(w, bytes.len))
		return;
	w->at -= bytes.len;
	memcpy(w->at, bytes.ptr, bytes.len);
}

/* Length and tag of what was put since `mark`. */
static inline void pw_message(struct pb_writer *w, uint32_t number, size_t mark)
{
	if (!pw_room(w, PW_FIELD_MOST))
		return;
	pw_put_varint(w, pw_mark(w) - mark);
	pw_put_tag(w, number, 2);
}

/* A string or bytes field that is there even when empty. */
static inline void pw_bytes_present(struct pb_writer *w, uint32_t number, struct str bytes)
{
	size_t mark = pw_mark(w);

	pw_raw(w, bytes);
	pw_message(w, number, mark);
}

static inline void pw_bytes(struct pb_writer *w, uint32_t number, struct str bytes)
{
	if (bytes.len)
		pw_bytes_present(w, number, bytes);
}

/* Packed repeated fields; nothing when count is 0. */
void pw_packed_u32(struct pb_writer *w, uint32_t number, const uint32_t *v, uint32_t count);
void pw_packed_i64(struct pb_writer *w, uint32_t number, const int64_t *v, uint32_t count);
void pw_packed_u64(struct pb_writer *w, uint32_t number, const uint64_t *v, uint32_t count);
void pw_packed_fixed64(struct pb_writer *w, uint32_t number, const uint64_t *v, uint32_t count);
/* The elements only, without length and tag: for a packed field that is put in several pieces. */
void pw_put_u32s(struct pb_writer *w, const uint32_t *v, uint32_t count);
