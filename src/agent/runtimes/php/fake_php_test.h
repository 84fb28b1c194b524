/*
 * fake_php_test.h - the memory of a made-up PHP process: functions, strings and frames as the table
 * of a version says they lie.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "agent/process/executable.h"
#include "agent/runtimes/php/php.h"

enum { FAKE_BASE = 0x100000, FAKE_BYTES = 64 << 10, FAKE_PID = 7, FAKE_CODES = 100 };

struct fake_php {
	uint8_t memory[FAKE_BYTES];
	uint32_t used;
	struct runtime_memory access;
	struct php_facts facts;
	struct executable executable;
};

static inline bool fake_read(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct fake_php *p = ctx;
	uint64_t at = address - FAKE_BASE;

	if (pid != FAKE_PID || at > FAKE_BYTES || bytes > FAKE_BYTES - at)
		return false;
	memcpy(to, p->memory + at, bytes);
	return true;
}

static inline void fake_put(struct fake_php *p, uint64_t at, const void *data, size_t bytes)
{
	assert_true(at - FAKE_BASE <= FAKE_BYTES && bytes <= FAKE_BYTES - (at - FAKE_BASE));
	memcpy(p->memory + (at - FAKE_BASE), data, bytes);
}

static inline void fake_word(struct fake_php *p, uint64_t at, uint64_t word)
{
	fake_put(p, at, &word, sizeof(word));
}

static inline void fake_half(struct fake_php *p, uint64_t at, uint32_t half)
{
	fake_put(p, at, &half, sizeof(half));
}

static inline uint64_t fake_alloc(struct fake_php *p, uint32_t bytes)
{
	uint64_t at = FAKE_BASE + p->used;

	p->used += (bytes + 15) & ~15u;
	assert_true(p->used <= FAKE_BYTES);
	return at;
}

static inline void fake_init(struct fake_php *p, uint32_t version)
{
	static struct offset_table table;
	struct err err;

	memset(p, 0, sizeof(*p));
	if (!php_table_parse(&table, php_table_built_in(), &err))
		fail_msg("%s", err.msg);
	assert_true(php_table_find(&table, version, &p->facts.offsets));
	p->used = 2048; /* globals lie before */
	p->access = (struct runtime_memory){ .read = fake_read, .ctx = p };
	p->facts.version = version;
	p->executable = (struct executable){ .id = 1,
					     .runtime_step = UNWIND_STEP_PHP,
					     .runtime = &p->facts,
					     .runtime_bytes = sizeof(p->facts) };
}

static inline uint64_t fake_string(struct fake_php *p, const char *text, uint64_t hash)
{
	const struct php_offsets *o = &p->facts.offsets;
	size_t length = strlen(text);
	uint64_t at = fake_alloc(p, (uint32_t)((size_t)o->string_text + length + 1));

	fake_word(p, at + (uint64_t)o->string_hash, hash);
	fake_word(p, at + (uint64_t)o->string_length, length);
	fake_put(p, at + (uint64_t)o->string_text, text, length);
	return at;
}

/* A function of FAKE_CODES instructions, of which the n-th is at line 10 + n; name or class NULL:
 * none. */
static inline uint64_t fake_function(struct fake_php *p, uint32_t type, uint32_t flags,
				     const char *class_name, const char *name, const char *file)
{
	const struct php_offsets *o = &p->facts.offsets;
	uint64_t at = fake_alloc(p, PHP_FUNCTION_MOST), class_entry = 0, code = 0;

	if (class_name) {
		class_entry = fake_alloc(p, 64);
		fake_word(p, class_entry + (uint64_t)o->class_name, fake_string(p, class_name, 0));
	}
	fake_put(p, at + (uint64_t)o->function_type, &type, 1);
	fake_half(p, at + (uint64_t)o->function_flags, flags);
	fake_word(p, at + (uint64_t)o->function_name, name ? fake_string(p, name, 0) : 0);
	fake_word(p, at + (uint64_t)o->function_class, class_entry);
	if (type == PHP_INTERNAL)
		return at;
	code = fake_alloc(p, FAKE_CODES * (uint32_t)o->instruction_bytes);
	for (uint32_t i = 0; i < FAKE_CODES; i++)
		fake_half(p,
			  code + i * (uint64_t)o->instruction_bytes + (uint64_t)o->instruction_line,
			  10 + i);
	fake_word(p, at + (uint64_t)o->function_code, code);
	fake_half(p, at + (uint64_t)o->function_count, FAKE_CODES);
	fake_word(p, at + (uint64_t)o->function_file, fake_string(p, file, 0));
	fake_half(p, at + (uint64_t)o->function_line, 9);
	return at;
}

static inline uint64_t fake_code_of(const struct fake_php *p, uint64_t function)
{
	uint64_t code;

	memcpy(&code, p->memory + (function - FAKE_BASE) + p->facts.offsets.function_code,
	       sizeof(code));
	return code;
}

/* A frame of `function` at its n-th instruction, called by the frame `previous`. */
static inline uint64_t fake_frame(struct fake_php *p, uint64_t function, uint32_t n, uint32_t info,
				  uint64_t previous)
{
	const struct php_offsets *o = &p->facts.offsets;
	uint64_t at = fake_alloc(p, CPYTHON_FRAME_BYTES);

	fake_word(p, at + (uint64_t)o->frame_function, function);
	if (function)
		fake_word(p, at + (uint64_t)o->frame_instruction,
			  fake_code_of(p, function) + n * (uint64_t)o->instruction_bytes);
	fake_half(p, at + (uint64_t)o->frame_info, info);
	fake_word(p, at + (uint64_t)o->frame_previous, previous);
	return at;
}
