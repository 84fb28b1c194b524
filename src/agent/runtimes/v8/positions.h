/*
 * positions.h - where in its script an instruction comes from: V8's source position tables.
 * Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/v8/heap.h"

/* A row of the table: the last one that begins up to an offset. */
struct v8_position {
	int32_t script;   /* character of the source, from 0 */
	int32_t inlining; /* of compiled code: which inlined function; -1: the function itself */
};

/* From the word that tables have of it. */
void v8_position_unpack(int64_t word, struct v8_position *out);
/* The contents of a ByteArray, for the caller to free; NULL: it is none, or is too long. */
uint8_t *v8_byte_array(const struct v8_heap *h, uint64_t table, size_t *length);
/* The next number of such a table: unsigned, 7 bits a byte. False: it ends. */
bool v8_take_number(const uint8_t **at, const uint8_t *end, uint64_t *number);
/* `table` is a ByteArray. False: it has no row for the offset, or makes no sense. */
bool v8_position_find(const struct v8_heap *h, uint64_t table, uint32_t offset,
		      struct v8_position *out);
