#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"

static unsigned char ascii_lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

bool str_equal_nocase(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (ascii_lower((unsigned char)a.ptr[i]) != ascii_lower((unsigned char)b.ptr[i]))
			return false;
	return true;
}

int str_compare(struct str a, struct str b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int order = n ? memcmp(a.ptr, b.ptr, n) : 0;

	if (order)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.len && is_blank(s.ptr[0]))
		s = str_skip(s, 1);
	while (s.len && is_blank(s.ptr[s.len - 1]))
		s.len--;
	return s;
}

/* An exhausted rest is a NULL pointer, so that the empty text behind a last separator is still
 * given once. */
bool str_split(struct str *rest, char sep, struct str *out)
{
	ptrdiff_t at;

	if (!rest->ptr)
		return false;
	at = str_find(*rest, sep);
	if (at < 0) {
		*out = *rest;
		*rest = (struct str){ 0 };
		return true;
	}
	*out = str_head(*rest, (size_t)at);
	*rest = (struct str){ rest->ptr + at + 1, rest->len - (size_t)at - 1 };
	return true;
}

ptrdiff_t str_find(struct str s, char c)
{
	const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;

	return at ? at - s.ptr : -1;
}

ptrdiff_t str_search(struct str s, struct str needle)
{
	const char *at;

	if (needle.len == 0)
		return 0;
	if (s.len < needle.len)
		return -1;
	at = memmem(s.ptr, s.len, needle.ptr, needle.len);
	return at ? at - s.ptr : -1;
}

bool str_to_u64(struct str s, uint64_t *out)
{
	uint64_t v = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] < '0' || s.ptr[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.ptr[i] - '0'), &v))
			return false;
	}
	*out = v;
	return true;
}

bool str_to_i64(struct str s, int64_t *out)
{
	bool negative = s.len && s.ptr[0] == '-';
	uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	uint64_t v;

	if (!str_to_u64(negative ? str_skip(s, 1) : s, &v) || v > limit)
		return false;
	*out = negative ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

char *str_dup_cstr(struct arena *a, struct str s)
{
	char *copy = s.len < SIZE_MAX ? arena_alloc(a, s.len + 1) : NULL;

	if (!copy)
		return NULL;
	if (s.len)
		memcpy(copy, s.ptr, s.len);
	copy[s.len] = '\0';
	return copy;
}

struct str str_dup(struct arena *a, struct str s)
{
	char *copy = str_dup_cstr(a, s);

	return (struct str){ copy, copy ? s.len : 0 };
}

struct str str_printf(struct arena *a, const char *format, ...)
{
	va_list ap, again;
	char *text;
	int len;

	va_start(ap, format);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	assert(len >= 0);
	text = arena_alloc(a, (size_t)len + 1);
	if (text)
		vsnprintf(text, (size_t)len + 1, format, again);
	va_end(again);
	return (struct str){ text, text ? (size_t)len : 0 };
}
