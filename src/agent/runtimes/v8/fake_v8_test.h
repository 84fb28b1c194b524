/*
 * fake_v8_test.h - the memory of a made-up V8 process: maps, strings, functions, byte code and
 * compiled code as the table of a version says they lie. Objects are named by tagged pointers.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "agent/process/executable.h"
#include "agent/runtimes/v8/v8.h"
#include "bpf/records.h"

enum { FAKE_BASE = 0x100000, FAKE_BYTES = 64 << 10, FAKE_PID = 7 };
/* Instance types of strings, as all versions have them. */
enum {
	FAKE_TWO_BYTE = 32,
	FAKE_CONS = 33,
	FAKE_SLICED = 35,
	FAKE_THIN = 37,
	FAKE_ONE_BYTE = 40,
	FAKE_EXTERNAL = 42,
};

struct fake_v8 {
	uint8_t memory[FAKE_BYTES];
	uint32_t used;
	struct runtime_memory access;
	struct v8_facts facts;
	struct executable executable;
};

static inline bool fake_read(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct fake_v8 *p = ctx;
	uint64_t at = address - FAKE_BASE;

	if (pid != FAKE_PID || at > FAKE_BYTES || bytes > FAKE_BYTES - at)
		return false;
	memcpy(to, p->memory + at, bytes);
	return true;
}

static inline void fake_put(struct fake_v8 *p, uint64_t at, const void *data, size_t bytes)
{
	assert_true(at - FAKE_BASE <= FAKE_BYTES && bytes <= FAKE_BYTES - (at - FAKE_BASE));
	memcpy(p->memory + (at - FAKE_BASE), data, bytes);
}

/* A word of a tagged object. */
static inline void fake_word(struct fake_v8 *p, uint64_t object, int32_t offset, uint64_t word)
{
	fake_put(p, object - 1 + (uint64_t)offset, &word, sizeof(word));
}

static inline uint64_t fake_integer(int32_t value)
{
	return (uint64_t)(uint32_t)value << 32;
}

static inline uint64_t fake_alloc(struct fake_v8 *p, uint32_t bytes)
{
	uint64_t at = FAKE_BASE + p->used;

	p->used += (bytes + 7) & ~7u;
	assert_true(p->used <= FAKE_BYTES);
	return at + 1;
}

static inline uint64_t fake_object(struct fake_v8 *p, int32_t type, uint32_t bytes)
{
	uint64_t map = fake_alloc(p, 64), object = fake_alloc(p, bytes);
	uint16_t number = (uint16_t)type;

	fake_put(p, map - 1 + (uint64_t)p->facts.offsets.map_type, &number, sizeof(number));
	fake_word(p, object, 0, map);
	return object;
}

static inline void fake_init(struct fake_v8 *p, uint32_t version)
{
	static struct offset_table table;
	struct err err;

	memset(p, 0, sizeof(*p));
	if (!v8_table_parse(&table, v8_table_built_in(), &err))
		fail_msg("%s", err.msg);
	assert_true(v8_table_find(&table, version, &p->facts.offsets));
	assert_true(v8_offsets_usable(&p->facts.offsets, &err));
	p->used = 4096;
	p->access = (struct runtime_memory){ .read = fake_read, .ctx = p };
	p->facts.version = version;
	/* Of byte codes, 10 has one operand. */
	memset(p->facts.bytecode_bytes, 1, sizeof(p->facts.bytecode_bytes));
	p->facts.bytecode_bytes[0][10] = 2;
	p->facts.bytecode_bytes[1][10] = 3;
	p->executable = (struct executable){ .id = 1,
					     .runtime_step = UNWIND_STEP_V8,
					     .runtime = &p->facts,
					     .runtime_bytes = sizeof(p->facts) };
}

static inline uint64_t fake_string_of(struct fake_v8 *p, int32_t type, uint32_t length,
				      uint64_t first, uint64_t second)
{
	uint64_t object = fake_object(p, type, 32);

	fake_word(p, object, 8, (uint64_t)length << 32);
	fake_word(p, object, 16, first);
	fake_word(p, object, 24, second);
	return object;
}

static inline uint64_t fake_string(struct fake_v8 *p, const char *text)
{
	uint32_t length = (uint32_t)strlen(text);
	uint64_t object = fake_object(p, FAKE_ONE_BYTE, 24 + length);

	fake_word(p, object, 8, (uint64_t)length << 32);
	fake_put(p, object - 1 + 16, text, length);
	return object;
}

static inline uint64_t fake_bytes(struct fake_v8 *p, const uint8_t *data, uint32_t length)
{
	uint64_t object = fake_object(p, p->facts.offsets.positions_type, 16 + length);

	fake_word(p, object, 8, fake_integer((int32_t)length));
	fake_put(p, object - 1 + 16, data, length);
	return object;
}

static inline uint64_t fake_array(struct fake_v8 *p, const uint64_t *items, uint32_t count)
{
	uint64_t object = fake_object(p, 1, 16 + 8 * count);

	fake_word(p, object, 8, fake_integer((int32_t)count));
	fake_put(p, object - 1 + 16, items, 8 * (size_t)count);
	return object;
}

static inline uint64_t fake_script(struct fake_v8 *p, uint64_t name, uint64_t source)
{
	uint64_t object = fake_object(p, p->facts.offsets.script_type, 64);

	fake_word(p, object, p->facts.offsets.script_name, name);
	fake_word(p, object, p->facts.offsets.script_source, source);
	return object;
}

/* A SharedFunctionInfo; `name` is a String or a ScopeInfo. */
static inline uint64_t fake_shared(struct fake_v8 *p, uint64_t name, uint64_t script)
{
	uint64_t object = fake_object(p, p->facts.offsets.shared_type, 64);

	fake_word(p, object, p->facts.offsets.shared_name, name);
	fake_word(p, object, p->facts.offsets.shared_script, script);
	return object;
}

static inline uint64_t fake_function(struct fake_v8 *p, uint64_t shared)
{
	uint64_t object = fake_object(p, p->facts.offsets.first_function, 64);

	fake_word(p, object, p->facts.offsets.function_shared, shared);
	return object;
}

/* A table of positions: pairs of an offset and a character (or a word with an inlining), by
 * distances from the pair before. Numbers are small: a byte or two each. */
static inline void fake_number(uint8_t *table, uint32_t *length, uint64_t number)
{
	for (; number > 0x7f; number >>= 7)
		table[(*length)++] = (uint8_t)(number | 0x80);
	table[(*length)++] = (uint8_t)number;
}

static inline uint64_t fake_positions(struct fake_v8 *p, const int64_t (*rows)[2], uint32_t count)
{
	int64_t offset = -p->facts.offsets.positions_before, position = 0;
	uint32_t length = 0;
	uint8_t table[256];

	for (uint32_t i = 0; i < count; i++) {
		int64_t ahead = rows[i][0] - offset, moved = rows[i][1] - position;

		fake_number(table, &length,
			    p->facts.offsets.positions_packed ? (uint64_t)ahead << 2 | 1
							      : (uint64_t)ahead << 1);
		fake_number(table, &length, (uint64_t)(moved << 1 ^ moved >> 63));
		offset = rows[i][0];
		position = rows[i][1];
	}
	return fake_bytes(p, table, length);
}

/* A position as tables have it. */
static inline int64_t fake_position(int32_t character, int32_t inlining)
{
	return (int64_t)(inlining + 1) << 31 | (int64_t)(character + 1) << 1;
}

static inline uint64_t fake_bytecode(struct fake_v8 *p, const uint8_t *code, uint32_t length,
				     uint64_t positions)
{
	const struct v8_offsets *o = &p->facts.offsets;
	uint64_t object = fake_object(p, o->bytecode_type, (uint32_t)o->bytecode_first + length);

	fake_word(p, object, 8, fake_integer((int32_t)length));
	fake_word(p, object, o->bytecode_positions, positions);
	fake_put(p, object + (uint64_t)o->bytecode_first, code, length);
	return object;
}

/* Compiled code of 256 bytes; the address of its instructions. */
static inline uint64_t fake_code(struct fake_v8 *p, uint64_t data, uint64_t positions)
{
	const struct v8_offsets *o = &p->facts.offsets;
	uint64_t stream = fake_object(p, o->stream_type, (uint32_t)o->stream_first + 256), code;
	uint32_t size = 256;

	code = o->stream_code < 0 ? stream : fake_object(p, o->code_type, 96);
	if (o->stream_code >= 0)
		fake_word(p, stream, o->stream_code, code);
	fake_put(p, code - 1 + (uint64_t)o->code_size, &size, sizeof(size));
	fake_word(p, code, o->code_deopt, data);
	fake_word(p, code, o->code_positions, positions);
	return stream - 1 + (uint64_t)o->stream_first;
}
