/*
 * str.h - a borrowed slice of bytes: pointer and length, passed by value, not NUL-terminated.
 *
 * The bytes may hold anything (bad UTF-8, NUL); whoever shows them to people cleans them (text.h).
 * Memory: borrowed; str_dup() and str_printf() copy into an arena. Threads: values, no state.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct arena;

struct str {
	const char *ptr; /* may be NULL when len is 0 */
	size_t len;
};

#define STR(literal) ((struct str){ ("" literal), sizeof(literal) - 1 })
#define STR_ARG(s)   (int)(s).len, (s).ptr ? (s).ptr : "" /* for "%.*s" */

static inline struct str str_from(const void *ptr, size_t len)
{
	return (struct str){ (const char *)ptr, len };
}

static inline struct str str_cstr(const char *cstr)
{
	return (struct str){ cstr, cstr ? strlen(cstr) : 0 };
}

static inline bool str_equal(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool str_is(struct str a, const char *cstr)
{
	return str_equal(a, str_cstr(cstr));
}

static inline bool str_has_prefix(struct str s, struct str prefix)
{
	return s.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool str_has_suffix(struct str s, struct str suffix)
{
	return s.len >= suffix.len &&
	       (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

static inline struct str str_skip(struct str s, size_t n)
{
	return n >= s.len ? (struct str){ s.ptr ? s.ptr + s.len : NULL, 0 }
			  : (struct str){ s.ptr + n, s.len - n };
}

static inline struct str str_head(struct str s, size_t n)
{
	return (struct str){ s.ptr, n < s.len ? n : s.len };
}

bool str_equal_nocase(struct str a, struct str b); /* ASCII only */
int str_compare(struct str a, struct str b);       /* bytewise, shorter first */
struct str str_trim(struct str s);                 /* spaces, tabs, CR, LF at both ends */

/* Takes the text before the next `sep` off `*rest`; false once nothing is left. "a,,b" gives a, "",
 * b. */
bool str_split(struct str *rest, char sep, struct str *out);
/* Index of the first `c`, or -1. */
ptrdiff_t str_find(struct str s, char c);
/* Index of the first occurrence of `needle`, or -1. */
ptrdiff_t str_search(struct str s, struct str needle);

/* Decimal; the whole text must be digits (a leading '-' for the signed one). False on overflow. */
bool str_to_u64(struct str s, uint64_t *out);
bool str_to_i64(struct str s, int64_t *out);

struct str str_dup(struct arena *a, struct str s); /* the copy is followed by a NUL */
char *str_dup_cstr(struct arena *a, struct str s); /* NUL-terminated; for system calls */
struct str str_printf(struct arena *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
