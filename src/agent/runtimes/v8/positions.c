/* Source: V8's src/codegen/source-position-table, source-position. */
#include "agent/runtimes/v8/positions.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum { TABLE_MOST = 1 << 20, LENGTH_AT = 8, DATA_AT = 16 };

bool v8_take_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
	*number = 0;
	for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
		uint8_t byte = *(*at)++;

		*number |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static int64_t signed_number(uint64_t number)
{
	return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/*
 * How far the row lies behind the one before it. A row that is an expression has the complement of
 * that (up to V8 13), or a bit that says what it is.
 */
static int64_t offset_of(uint64_t number, bool packed)
{
	int64_t value = signed_number(number);

	if (packed)
		return (int64_t)(number >> 2);
	return value < 0 ? ~value : value;
}

static bool find_row(const struct v8_offsets *o, const uint8_t *row, const uint8_t *end,
		     uint32_t offset, int64_t *position)
{
	int64_t at = -o->positions_before, sum = 0;
	bool found = false;

	while (row < end) {
		uint64_t ahead, moved;

		if (!v8_take_number(&row, end, &ahead) || !v8_take_number(&row, end, &moved))
			return false;
		at = (int64_t)((uint64_t)at + (uint64_t)offset_of(ahead, o->positions_packed));
		if (at > (int64_t)offset)
			break;
		sum = (int64_t)((uint64_t)sum + (uint64_t)signed_number(moved));
		*position = sum;
		found = true;
	}
	return found;
}

uint8_t *v8_byte_array(const struct v8_heap *h, uint64_t table, size_t *length)
{
	uint8_t *data;
	uint64_t word;

	if (v8_type_of(h, table) != h->o->positions_type || !v8_word(h, table, LENGTH_AT, &word))
		return NULL;
	*length = v8_is_integer(word) ? (size_t)(word >> 32) : (size_t)(word & UINT32_MAX);
	if (!*length || *length > TABLE_MOST)
		return NULL;
	data = malloc(*length);
	if (!data || v8_read(h, table - 1 + DATA_AT, data, *length))
		return data;
	free(data);
	return NULL;
}

/* Bit 0: of no script; 1 to 30: the character + 1; from 31 on: the inlining + 1. */
void v8_position_unpack(int64_t word, struct v8_position *out)
{
	out->script = (int32_t)(word >> 1 & 0x3fffffff) - 1;
	out->inlining = (int32_t)(word >> 31 & 0xffff) - 1;
}

bool v8_position_find(const struct v8_heap *h, uint64_t table, uint32_t offset,
		      struct v8_position *out)
{
	size_t length = 0;
	AUTO(ptr_free) uint8_t *data = v8_byte_array(h, table, &length);
	int64_t position = 0;

	if (!data || !find_row(h->o, data, data + length, offset, &position) || position & 1)
		return false;
	v8_position_unpack(position, out);
	return out->script >= 0;
}
