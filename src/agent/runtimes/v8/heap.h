/*
 * heap.h - objects of a V8 process: their types, strings, small integers.
 *
 * Everything is read as it is found: false, or nothing appended, where it makes no sense. Pointers
 * are tagged, as they stand in objects.
 */
#pragma once
#include "agent/runtimes/v8/v8.h"
#include "base/buf.h"

enum { V8_OBJECT_BYTES = 64 }; /* of an object that names need */

struct v8_heap {
	const struct runtime_memory *memory;
	const struct v8_offsets *o;
	const struct v8_facts *facts;
	uint32_t pid;
};

bool v8_read(const struct v8_heap *h, uint64_t address, void *to, size_t bytes);
/* A word of the object. */
bool v8_word(const struct v8_heap *h, uint64_t object, int32_t offset, uint64_t *word);
/* Its instance type; -1: it is no object. */
int32_t v8_type_of(const struct v8_heap *h, uint64_t object);
bool v8_is_string(const struct v8_heap *h, uint64_t object);
/* Appends a String as UTF-8, at most so many of its characters. */
bool v8_string(const struct v8_heap *h, uint64_t string, uint32_t most, struct buf *out);

static inline bool v8_is_pointer(uint64_t word)
{
	return (word & 3) == 1;
}

static inline bool v8_is_integer(uint64_t word)
{
	return !(word & UINT32_MAX);
}

static inline int32_t v8_integer(uint64_t word)
{
	return (int32_t)(word >> 32);
}

/* How many line feeds the first `position` characters of a String have, and how many characters
 * come behind the last one. */
bool v8_count_lines(const struct v8_heap *h, uint64_t string, uint32_t position, uint32_t *lines,
		    uint32_t *column);
