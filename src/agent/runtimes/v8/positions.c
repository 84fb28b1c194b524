/* Source: V8's src/codegen/source-position-table.cc, source-position.h. */
#include "agent/runtimes/v8/positions.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum { TABLE_MOST = 1 << 20, LENGTH_AT = 8, DATA_AT = 16 };

struct table {
	const uint8_t *at, *end;
};

/* Little end first, 7 bits a byte. */
static bool take_number(struct table *t, uint64_t *number)
{
	*number = 0;
	for (unsigned shift = 0; t->at < t->end && shift < 63; shift += 7) {
		uint8_t byte = *t->at++;

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
static bool take_offset(struct table *t, bool packed, int64_t *offset)
{
	uint64_t number;

	if (!take_number(t, &number))
		return false;
	if (packed) {
		*offset += (int64_t)(number >> 2);
		return true;
	}
	*offset += signed_number(number) < 0 ? ~signed_number(number) : signed_number(number);
	return true;
}

static bool find_row(const struct v8_offsets *o, struct table t, uint32_t offset, int64_t *position)
{
	int64_t at = -o->positions_before, sum = 0;
	bool found = false;

	while (t.at < t.end) {
		uint64_t number;

		if (!take_offset(&t, o->positions_packed, &at) || !take_number(&t, &number))
			return false;
		if (at > (int64_t)offset)
			break;
		sum = (int64_t)((uint64_t)sum + (uint64_t)signed_number(number));
		*position = sum;
		found = true;
	}
	return found;
}

static bool read_table(const struct v8_heap *h, uint64_t table, uint8_t **data, size_t *length)
{
	uint64_t word;

	if (v8_type_of(h, table) != h->o->positions_type || !v8_word(h, table, LENGTH_AT, &word))
		return false;
	*length = v8_is_integer(word) ? (size_t)(word >> 32) : (size_t)(word & UINT32_MAX);
	if (!*length || *length > TABLE_MOST)
		return false;
	*data = malloc(*length);
	return *data && v8_read(h, table - 1 + DATA_AT, *data, *length);
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
	AUTO(ptr_free) uint8_t *data = NULL;
	int64_t position = 0;
	size_t length;

	if (!read_table(h, table, &data, &length) ||
	    !find_row(h->o, (struct table){ data, data + length }, offset, &position) ||
	    position & 1)
		return false;
	v8_position_unpack(position, out);
	return out->script >= 0;
}
