/*
 * buf.h - a growing byte buffer for output.
 *
 * Appends never fail one by one: the buffer remembers that it passed its limit (`failed`) and then
 * ignores appends; the caller checks once at the end. Memory: own heap block; buf_release() frees
 * it, buf_take() hands it over. Threads: one at a time.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/str.h"

struct buf {
	char *ptr;
	size_t len, cap;
	size_t limit_bytes; /* 0 = none */
	bool failed;
};

void buf_init(struct buf *b, size_t limit_bytes);
void buf_release(struct buf *b);
static inline void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}
/* For buffers that live long: once a rare large content is gone (half of keep_bytes holds what is
 * left), gives its memory back. */
void buf_trim(struct buf *b, size_t keep_bytes);
bool buf_grow(struct buf *b, size_t extra); /* room for `extra` more; false past the limit */

/* Room for `n` more bytes to be written at the returned pointer, then buf_advance(); NULL past the
 * limit. */
static inline char *buf_reserve(struct buf *b, size_t n)
{
	if (b->cap - b->len < n && !buf_grow(b, n))
		return NULL;
	return (char *)((uintptr_t)b->ptr + b->len); /* an empty buffer has no pointer to add to */
}
static inline void buf_advance(struct buf *b, size_t n)
{
	b->len += n;
}
static inline void buf_append(struct buf *b, const void *data, size_t n)
{
	char *p = buf_reserve(b, n);

	if (p && n) {
		memcpy(p, data, n);
		b->len += n;
	}
}
static inline void buf_str(struct buf *b, struct str s)
{
	buf_append(b, s.ptr, s.len);
}
static inline void buf_char(struct buf *b, char c)
{
	char *p = buf_reserve(b, 1);

	if (p) {
		*p = c;
		b->len++;
	}
}
#define buf_lit(b, literal) buf_append(b, "" literal, sizeof(literal) - 1)

void buf_u64(struct buf *b, uint64_t v); /* decimal */
void buf_i64(struct buf *b, int64_t v);
void buf_hex(struct buf *b, const void *data, size_t n); /* lower case */
void buf_json_string(struct buf *b,
		     struct str s); /* quoted and escaped; bad UTF-8 becomes U+FFFD */
void buf_base64(struct buf *b, const void *data, size_t n); /* padded */
void buf_varint(struct buf *b, uint64_t v); /* as protobuf: 7 bits a byte, low bits first */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));

static inline struct str buf_view(const struct buf *b)
{
	return str_from(b->ptr, b->len);
}
char *buf_take(struct buf *b, size_t *len); /* the caller frees; the buffer is empty again */
