/*
 * hex.h - hex digits, and percent-escapes made of them (RFC 3986, 2.1): "%2F" is a slash.
 *
 * Writing bytes as hex is buf_hex() of buf.h. Threads: values, no state.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"

struct buf;

/* 0 to 15, -1 of what is no hex digit; either case. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* True when the text is 2 * len hex digits and nothing else; `out` may be written in any case. */
bool hex_decode(struct str text, uint8_t *out, size_t len);

/* The byte that the escape at s.ptr[at] stands for, or -1 when there is none. */
static inline int percent_escape_at(struct str s, size_t at)
{
	int high, low;

	if (s.len - at < 3 || s.ptr[at] != '%')
		return -1;
	high = hex_value(s.ptr[at + 1]);
	low = hex_value(s.ptr[at + 2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* What only looks like an escape stays as it is. */
void percent_decode(struct buf *out, struct str text);
/* "%2F" */
void percent_append(struct buf *out, unsigned char byte);
