#include "agent/runtimes/cpython/lines.h"

/* Lines are not negative, whatever a table says; past 2^31 it is no line either. */
static uint32_t as_line(int64_t line)
{
	return line > 0 && line < INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t by_lnotab(struct bytes table, uint32_t first_line, int32_t offset)
{
	int64_t line = first_line, at = 0;

	for (size_t i = 0; i + 1 < table.len; i += 2) {
		at += table.ptr[i];
		if (at > offset)
			break;
		line += (int8_t)table.ptr[i + 1];
	}
	return as_line(line);
}

static uint32_t by_linetable(struct bytes table, uint32_t first_line, int32_t offset)
{
	int64_t line = first_line, end = 0;

	for (size_t i = 0; i + 1 < table.len; i += 2) {
		int8_t step = (int8_t)table.ptr[i + 1];

		end += table.ptr[i];
		line += step == -128 ? 0 : step;
		if (offset < end)
			return step == -128 ? 0 : as_line(line);
	}
	return 0;
}

/* Six bits a byte, the lowest first; bit 6: more follow. The lowest bit of all is the sign. */
static int64_t read_signed(struct byte_reader *r)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = read_u8(r);
		if (shift < 60)
			value |= (uint64_t)(byte & 63) << shift;
		shift += 6;
	} while (byte & 64 && !r->failed);
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static uint32_t by_locations(struct bytes table, uint32_t first_line, int32_t offset)
{
	enum { NO_COLUMNS = 13, LONG = 14, NONE = 15, ONE_LINE = 10, UNIT = 2 };
	struct byte_reader r = byte_reader_of(table);
	int64_t line = first_line, end = 0;

	while (byte_reader_left(&r)) {
		uint8_t first = read_u8(&r);
		uint32_t kind = first >> 3 & 15;

		end += ((first & 7) + 1) * UNIT;
		if (kind == LONG || kind == NO_COLUMNS)
			line += read_signed(&r);
		else if (kind >= ONE_LINE && kind < NO_COLUMNS)
			line += kind - ONE_LINE;
		if (offset < end)
			return kind == NONE || r.failed ? 0 : as_line(line);
		/* Columns: all bytes up to the next entry's first. */
		while (byte_reader_left(&r) && !(*r.ptr & 0x80))
			r.ptr++;
	}
	return 0;
}

uint32_t cpython_line(enum cpython_lines kind, struct bytes table, uint32_t first_line,
		      int32_t offset)
{
	if (offset < 0)
		return as_line(first_line);
	switch (kind) {
	case CPYTHON_LNOTAB:
		return by_lnotab(table, first_line, offset);
	case CPYTHON_LINETABLE:
		return by_linetable(table, first_line, offset);
	case CPYTHON_LOCATIONS:
		return by_locations(table, first_line, offset);
	}
	return 0;
}
