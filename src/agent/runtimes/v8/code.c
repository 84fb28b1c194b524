/* Sources: V8's src/objects/code, instruction-stream, deoptimization-data. */
#include "agent/runtimes/v8/code.h"

#include <string.h>

#include "agent/runtimes/v8/baseline.h"
#include "agent/runtimes/v8/positions.h"

enum {
	CODE_MOST = 1 << 20, /* bytes of one function's instructions */
	CHUNK = 4096,
	ELEMENTS_AT = 16, /* of a FixedArray, behind its map and length */
	ELEMENTS_MOST = 1 << 24,
	INLINING_BYTES = 16, /* of an InliningPosition: position, function */
	INLINING_ID_MOST = 1 << 16,
};

struct code {
	uint64_t object; /* Code, tagged */
	uint64_t start;  /* of its instructions */
	uint32_t bytes;
};

static bool read_half(const struct v8_heap *h, uint64_t object, int32_t offset, uint32_t *half)
{
	return v8_read(h, object - 1 + (uint64_t)offset, half, sizeof(*half));
}

/* Is `at` where an object of code begins whose instructions pc is one of? */
static bool is_code(const struct v8_heap *h, uint64_t at, uint64_t pc, struct code *out)
{
	uint64_t stream = at + 1;

	if (v8_type_of(h, stream) != h->o->stream_type)
		return false;
	out->object = stream;
	if (h->o->stream_code >= 0 && !v8_word(h, stream, h->o->stream_code, &out->object))
		return false;
	out->start = at + (uint64_t)h->o->stream_first;
	return v8_is_pointer(out->object) && v8_type_of(h, out->object) == h->o->code_type &&
	       read_half(h, out->object, h->o->code_size, &out->bytes) && pc >= out->start &&
	       pc - out->start < out->bytes && out->bytes <= CODE_MOST;
}

/* Instructions lie behind the object's map: looks for that from pc downwards. */
static bool find_code(const struct v8_heap *h, uint64_t pc, struct code *out)
{
	uint64_t words[CHUNK / 8], end = (pc & ~(uint64_t)7) + 8;

	for (uint32_t looked = 0; looked < CODE_MOST; looked += CHUNK) {
		uint64_t start = (end - 1) & ~(uint64_t)(CHUNK - 1);
		size_t count = (size_t)(end - start) / 8;

		if (!v8_read(h, start, words, 8 * count))
			return false;
		while (count-- > 0)
			if (v8_is_pointer(words[count]) && words[count] >> 47 == 0 &&
			    words[count] > CHUNK && is_code(h, start + 8 * count, pc, out))
				return true;
		end = start;
	}
	return false;
}

static bool array_element(const struct v8_heap *h, uint64_t array, int32_t index, uint64_t *element)
{
	return index >= 0 && index < ELEMENTS_MOST &&
	       v8_word(h, array, ELEMENTS_AT + 8 * index, element);
}

/* The function that was inlined there, and the place of its call. */
static bool find_inlined(const struct v8_heap *h, uint64_t data, struct v8_position *at,
			 uint64_t *shared)
{
	uint64_t table, literals, words[INLINING_BYTES / 8];

	if (at->inlining >= INLINING_ID_MOST ||
	    !array_element(h, data, h->o->deopt_inlined, &table) || !v8_is_pointer(table) ||
	    !v8_read(h, table - 1 + ELEMENTS_AT + INLINING_BYTES * (uint64_t)at->inlining, words,
		     sizeof(words)) ||
	    !array_element(h, data, h->o->deopt_literals, &literals) ||
	    !array_element(h, literals, (int32_t)words[1], shared))
		return false;
	*shared = (*shared & ~(uint64_t)3) | 1; /* it may be a weak pointer */
	v8_position_unpack((int64_t)words[0], at);
	return v8_type_of(h, *shared) == h->o->shared_type;
}

static uint32_t find_places(const struct v8_heap *h, uint64_t data, struct v8_position at,
			    struct v8_code_place *places)
{
	uint32_t n = 0;

	while (at.inlining >= 0) {
		if (n == V8_INLINED_MOST)
			return 0;
		places[n].position = at.script;
		if (!find_inlined(h, data, &at, &places[n].shared))
			return 0;
		n++;
	}
	places[n] = (struct v8_code_place){ .position = at.script };
	return n + 1;
}

/*
 * Baseline code has its byte code where optimized code has what was inlined. Up to V8 9 its
 * function has it, and there is an empty array.
 */
static bool find_bytecode(const struct v8_heap *h, uint64_t shared, uint64_t data, uint64_t *array)
{
	uint64_t length, code;

	*array = data;
	if (h->o->baseline_bytecode >= 0 && (!v8_word(h, data, 8, &length) || length ||
					     !v8_word(h, shared, h->o->shared_code, &code) ||
					     !v8_word(h, code, h->o->baseline_bytecode, array)))
		return false;
	return v8_type_of(h, *array) == h->o->bytecode_type;
}

uint32_t v8_code_places(const struct v8_heap *h, uint64_t shared, uint64_t pc,
			struct v8_code_place places[V8_INLINED_MOST + 1])
{
	uint64_t table, data, array;
	struct v8_position at;
	struct code code;
	uint32_t offset;

	if (!pc || !find_code(h, pc, &code) ||
	    !v8_word(h, code.object, h->o->code_positions, &table) ||
	    !v8_word(h, code.object, h->o->code_deopt, &data))
		return 0;
	offset = (uint32_t)(pc - code.start);
	if (find_bytecode(h, shared, data, &array) &&
	    (!v8_baseline_offset(h, array, table, offset, &offset) ||
	     !v8_word(h, array, h->o->bytecode_positions, &table)))
		return 0;
	return v8_position_find(h, table, offset, &at) ? find_places(h, data, at, places) : 0;
}
