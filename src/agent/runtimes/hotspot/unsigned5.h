/*
 * unsigned5.h - HotSpot's compressed integers, as in scopes data and line number tables.
 *
 * A number is 1 to 5 bytes, the lowest 6 bits' worth first; a byte of 192 or more says that another
 * follows. From JDK 20 on no byte is 0: each counts from 1. Signed ones are zig-zag.
 * Source: HotSpot, utilities/unsigned5.hpp. A reader that ran out yields 0 and remembers it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"

struct unsigned5 {
	struct bytes bytes;
	uint64_t at;
	uint32_t least; /* 0, or 1 from JDK 20 on */
	bool failed;
};

static inline uint32_t unsigned5_byte(struct unsigned5 *r)
{
	if (r->at >= r->bytes.len) {
		r->failed = true;
		return 0;
	}
	return r->bytes.ptr[r->at++];
}

static inline uint32_t unsigned5_next(struct unsigned5 *r)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 5; i++) {
		uint32_t byte = unsigned5_byte(r);

		if (byte < r->least)
			r->failed = true;
		if (r->failed)
			return 0;
		sum += (byte - r->least) << 6 * i;
		if (byte < 192)
			break;
	}
	return sum;
}

static inline int32_t unsigned5_next_signed(struct unsigned5 *r)
{
	uint32_t v = unsigned5_next(r);

	return (int32_t)(v >> 1 ^ (0U - (v & 1)));
}
