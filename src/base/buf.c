#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/digits.h"
#include "base/text.h"

enum { CAP_LEAST = 256 };

static const char hex_digits[16] = "0123456789abcdef";

void buf_init(struct buf *b, size_t limit_bytes)
{
	*b = (struct buf){ .limit_bytes = limit_bytes };
}

void buf_release(struct buf *b)
{
	free(b->ptr);
	*b = (struct buf){ .limit_bytes = b->limit_bytes };
}

void buf_trim(struct buf *b, size_t keep_bytes)
{
	if (b->cap > keep_bytes && b->len <= keep_bytes / 2) {
		struct buf smaller = { .limit_bytes = b->limit_bytes, .failed = b->failed };

		if (b->len)
			buf_append(&smaller, b->ptr, b->len);
		free(b->ptr);
		*b = smaller;
	}
}

/* Doubles: n appends cost O(n) copies. realloc() moves large blocks by remapping them, and never
 * keeps two. */
bool buf_grow(struct buf *b, size_t extra)
{
	size_t limit = b->limit_bytes ? b->limit_bytes : SIZE_MAX / 2;
	size_t cap = b->cap < CAP_LEAST ? CAP_LEAST : b->cap;
	char *p;

	if (b->failed)
		return false;
	if (b->len > limit || extra > limit - b->len) {
		b->failed = true;
		b->cap = b->len; /* the inline appends must ask again, and be refused, whatever
				    their size */
		return false;
	}
	while (cap - b->len < extra)
		cap = cap > SIZE_MAX / 4 ? b->len + extra : cap * 2;
	if (cap > limit)
		cap = limit;
	p = realloc(b->ptr, cap + 1); /* the one more is for vsnprintf()'s NUL */
	assert(p);
	b->ptr = p;
	b->cap = cap;
	return true;
}

enum { NUMBER_ROOM = 1 + DIGITS_U64_MOST + 8 };

static inline size_t number_put(char *to, uint64_t v)
{
	const uint32_t e8 = 100000000;
	uint64_t high = v / e8;
	uint32_t top;
	size_t n;

	if (v < e8)
		return digits_put(to, (uint32_t)v);
	if (high < e8) {
		n = digits_put(to, (uint32_t)high);
	} else {
		top = (uint32_t)(high / e8);
		n = digits_put(to, top);
		digits_put_8(to + n, (uint32_t)(high - (uint64_t)top * e8));
		n += 8;
	}
	digits_put_8(to + n, (uint32_t)(v - high * e8));
	return n + 8;
}

static void append_number(struct buf *b, uint64_t v, bool negative)
{
	char text[NUMBER_ROOM], *to = text;
	bool room = b->cap - b->len >= NUMBER_ROOM;
	size_t n = negative;

	if (room)
		to = b->ptr + b->len;
	*to = '-';
	n += number_put(to + n, v);
	if (room)
		buf_advance(b, n);
	else
		buf_append(b, text, n); /* grows, or finds that this number still fits */
}

void buf_u64(struct buf *b, uint64_t v)
{
	append_number(b, v, false);
}

void buf_i64(struct buf *b, int64_t v)
{
	append_number(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

void buf_hex(struct buf *b, const void *data, size_t n)
{
	const unsigned char *in = data;
	size_t out_len = n <= SIZE_MAX / 4 ? 2 * n : SIZE_MAX;
	char *out = buf_reserve(b, out_len);

	if (!out) /* past the limit, or nothing at all to an empty buffer */
		return;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = hex_digits[in[i] >> 4];
		out[2 * i + 1] = hex_digits[in[i] & 15];
	}
	buf_advance(b, out_len);
}

static void json_escape(struct buf *b, unsigned char c)
{
	static const char short_names[128] = {
		['"'] = '"',  ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r',
		['\t'] = 't', ['\b'] = 'b',  ['\f'] = 'f',
	};

	buf_char(b, '\\');
	if (short_names[c]) {
		buf_char(b, short_names[c]);
		return;
	}
	buf_lit(b, "u00");
	buf_hex(b, &c, 1);
}

static bool json_plain(unsigned char c)
{
	return c >= 0x20 && c != '"' && c != '\\' && c < 0x80;
}

/* Eight at once: a byte that is not plain sets a high bit, its own or by the borrow. */
static bool json_plain_8(const char *p)
{
	const uint64_t each = 0x0101010101010101, high = 0x80 * each;
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return !((v | (v - 0x20 * each) | ((v ^ '"' * each) - each) | ((v ^ '\\' * each) - each)) &
		 high);
}

static size_t json_plain_run(struct str s)
{
	size_t n = 0;

	while (s.len - n >= 8 && json_plain_8(s.ptr + n))
		n += 8;
	while (n < s.len && json_plain((unsigned char)s.ptr[n]))
		n++;
	return n;
}

void buf_json_string(struct buf *b, struct str s)
{
	size_t at = 0;

	buf_char(b, '"');
	while (at < s.len) {
		size_t from = at;

		at += json_plain_run(str_skip(s, at));
		buf_append(b, s.ptr + from, at - from);
		if (at == s.len)
			break;
		if ((unsigned char)s.ptr[at] < 0x80) {
			json_escape(b, (unsigned char)s.ptr[at++]);
			continue;
		}
		for (from = at; at < s.len && (unsigned char)s.ptr[at] >= 0x80; at++)
			;
		utf8_append_clean(b, str_from(s.ptr + from, at - from));
	}
	buf_char(b, '"');
}

void buf_base64(struct buf *b, const void *data, size_t n)
{
	static const char alphabet[64] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;
	size_t out_len = n <= SIZE_MAX / 4 ? (n + 2) / 3 * 4 : SIZE_MAX;
	char *out = buf_reserve(b, out_len);

	if (!out)
		return;
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
			     (left > 2 ? (uint32_t)in[i + 2] : 0);

		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		*out++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
		*out++ = left > 2 ? alphabet[v & 63] : '=';
	}
	buf_advance(b, out_len);
}

void buf_varint(struct buf *b, uint64_t v)
{
	char bytes[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		bytes[n++] = (char)(v | 0x80);
	bytes[n++] = (char)v;
	buf_append(b, bytes, n);
}

void buf_vprintf(struct buf *b, const char *format, va_list ap)
{
	size_t room = b->ptr ? b->cap - b->len : 0;
	va_list again;
	int len;

	if (b->failed)
		return;
	va_copy(again, ap);
	len = vsnprintf(b->ptr ? b->ptr + b->len : NULL, b->ptr ? room + 1 : 0, format, ap);
	assert(len >= 0);
	if ((size_t)len > room) {
		char *p = buf_reserve(b, (size_t)len);

		len = p ? vsnprintf(p, (size_t)len + 1, format, again) : 0;
	}
	va_end(again);
	buf_advance(b, (size_t)len);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	buf_vprintf(b, format, ap);
	va_end(ap);
}

char *buf_take(struct buf *b, size_t *len)
{
	char *p = b->ptr;

	*len = b->len;
	*b = (struct buf){ .limit_bytes = b->limit_bytes };
	return p;
}
