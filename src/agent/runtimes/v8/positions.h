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
/* `table` is a ByteArray. False: it has no row for the offset, or makes no sense. */
bool v8_position_find(const struct v8_heap *h, uint64_t table, uint32_t offset,
		      struct v8_position *out);
