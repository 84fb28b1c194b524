/*
 * native.h - ClickHouse's format Native, for reading: blocks of columns. A block is the number of
 * its columns and that of its rows, varints, then each column's name and type, Strings as in
 * RowBinary, and its values side by side; an Array's are the rows' ends, 64 bits each, and then the
 * elements.
 *
 * Memory: what is read is borrowed, and not aligned. Threads: none of its own.
 * Source: ClickHouse documentation, formats, Native; the same since 18.16 where, as over HTTP, no
 * revision of the protocol is named.
 */
#pragma once
#include "store/clickhouse/rowbinary.h"

/* The next block; false at the answer's end, or where it is damaged. */
static inline bool native_block(struct codec *c, uint32_t columns, uint32_t *rows)
{
	uint64_t found, n;

	if (!codec_more(c))
		return false;
	found = codec_get(c);
	n = codec_get(c);
	if (found != columns || n > UINT32_MAX)
		c->failed = true;
	*rows = (uint32_t)n;
	return !c->failed;
}

static inline const uint8_t *native_take(struct codec *c, uint64_t bytes)
{
	return c->failed ? NULL : (const uint8_t *)row_get_fixed(c, bytes).ptr;
}

/* A column of numbers of such a type: rows * bytes; NULL where it is another. */
static inline const uint8_t *native_numbers(struct codec *c, const char *type, uint32_t rows,
					    size_t bytes)
{
	codec_get_str(c); /* its name */
	if (!str_is(codec_get_str(c), type))
		c->failed = true;
	return native_take(c, (uint64_t)rows * bytes);
}

struct native_arrays {
	const uint8_t *ends, *elements;
	uint64_t count; /* of elements */
};

static inline uint64_t native_u64(const uint8_t *at, uint64_t row)
{
	uint64_t v;

	memcpy(&v, at + row * sizeof(v), sizeof(v));
	return v;
}
static inline uint32_t native_u32(const uint8_t *at, uint64_t row)
{
	uint32_t v;

	memcpy(&v, at + row * sizeof(v), sizeof(v));
	return v;
}
static inline uint16_t native_u16(const uint8_t *at, uint64_t row)
{
	uint16_t v;

	memcpy(&v, at + row * sizeof(v), sizeof(v));
	return v;
}

/* The ends of rows are checked here, once: they ascend up to the number of elements. */
static inline struct native_arrays native_arrays(struct codec *c, const char *type, uint32_t rows,
						 size_t bytes)
{
	struct native_arrays a = { .ends = native_numbers(c, type, rows, sizeof(uint64_t)) };
	uint64_t before = 0;

	for (uint32_t i = 0; a.ends && i < rows; i++) {
		uint64_t end = native_u64(a.ends, i);

		if (end < before || end > (uint64_t)(c->end - c->at) / bytes) {
			c->failed = true;
			return a;
		}
		before = end;
	}
	a.count = before;
	a.elements = native_take(c, before * bytes);
	return a;
}

/* A row's elements. */
struct native_list {
	uint64_t first;
	uint32_t count;
};
static inline struct native_list native_list(const struct native_arrays *a, uint32_t row)
{
	uint64_t first = row ? native_u64(a->ends, row - 1) : 0;

	return (struct native_list){ first, (uint32_t)(native_u64(a->ends, row) - first) };
}
