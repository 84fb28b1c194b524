/* Sources: V8's src/baseline/bytecode-offset-iterator, src/interpreter/bytecodes. */
#include "agent/runtimes/v8/baseline.h"

#include <stdlib.h>

#include "agent/runtimes/v8/positions.h"
#include "base/cleanup.h"

enum {
	BYTECODES_MOST = 1 << 20, /* bytes of a function's byte code */
	LENGTH_AT = 8,
	/* byte codes that say that the next one's operands are wider: Wide, ExtraWide, and what a
	 * debugger puts in their places */
	PREFIXES = 4,
};

static uint8_t *read_bytecode(const struct v8_heap *h, uint64_t array, size_t *length)
{
	uint8_t *code;
	uint64_t word;

	if (!v8_word(h, array, LENGTH_AT, &word) || !v8_is_integer(word))
		return NULL;
	*length = (size_t)(word >> 32);
	if (*length > BYTECODES_MOST)
		return NULL;
	code = malloc(*length + 1);
	if (code && v8_read(h, array + (uint64_t)h->o->bytecode_first, code, *length))
		return code;
	free(code);
	return NULL;
}

/* 0: it is none, or goes past the end. */
static size_t bytecode_length(const struct v8_heap *h, const uint8_t *code, size_t left)
{
	size_t prefix = left && code[0] < PREFIXES;
	unsigned scale = prefix ? 1 + (code[0] & 1) : 0;

	return left > prefix ? prefix + h->facts->bytecode_bytes[scale][code[prefix]] : 0;
}

bool v8_baseline_offset(const struct v8_heap *h, uint64_t array, uint64_t table, uint64_t pc_offset,
			uint32_t *offset)
{
	size_t table_length = 0, length = 0, at = 0, step;
	AUTO(ptr_free) uint8_t *counts = v8_byte_array(h, table, &table_length);
	AUTO(ptr_free) uint8_t *code = counts ? read_bytecode(h, array, &length) : NULL;
	const uint8_t *next = counts;
	uint64_t end, bytes;

	if (!code || !v8_take_number(&next, counts + table_length, &end))
		return false;
	while (pc_offset >= end) { /* what comes first is the function's entry */
		if (!v8_take_number(&next, counts + table_length, &bytes) || at >= length)
			return false;
		end += bytes;
		*offset = (uint32_t)at;
		step = bytecode_length(h, code + at, length - at);
		if (!step)
			return false;
		at += step;
	}
	return at > 0;
}
