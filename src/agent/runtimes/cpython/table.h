/*
 * table.h - where things lie in CPython's structures: one row of numbers per minor version,
 * read from a table (cpython.table, built in, or a file that replaces it) and, from 3.13 on, from
 * what the interpreter says of itself (_Py_DebugOffsets).
 *
 * Memory: values. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"
#include "base/err.h"
#include "base/str.h"

#define CPYTHON_FIELDS(X)       \
	X(runtime_interpreters) \
	X(runtime_current)      \
	X(interpreter_next)     \
	X(interpreter_threads)  \
	X(interpreter_jit)      \
	X(thread_next)          \
	X(thread_interpreter)   \
	X(thread_id)            \
	X(thread_frame)         \
	X(cframe_frame)         \
	X(loop)                 \
	X(frame_previous)       \
	X(frame_code)           \
	X(frame_instruction)    \
	X(frame_owner)          \
	X(owner_shim)           \
	X(frame_tlbc)           \
	X(code_tlbc)            \
	X(instruction_bytes)    \
	X(code_line)            \
	X(code_file)            \
	X(code_name)            \
	X(code_qualified_name)  \
	X(code_lines)           \
	X(code_instructions)    \
	X(lines)                \
	X(text_length)          \
	X(text_state)           \
	X(text_ascii)           \
	X(text_other)           \
	X(bytes_length)         \
	X(bytes_data)

enum {
	CPYTHON_VERSIONS_MOST = 16,
	CPYTHON_OFFSET_MOST = 1 << 20,
	CPYTHON_TABLE_BYTES_MOST = 64 << 10,
};

/* Each is -1 where the version has no such thing. */
struct cpython_offsets {
#define X(name) int32_t name;
	CPYTHON_FIELDS(X)
#undef X
};

struct cpython_table {
	uint32_t minor[CPYTHON_VERSIONS_MOST]; /* 3.minor */
	struct cpython_offsets offsets[CPYTHON_VERSIONS_MOST];
	uint32_t count;
};

/* False: a line that makes no sense, or a field that is missing; err names it. */
bool cpython_table_parse(struct cpython_table *t, struct str text, struct err *err) MUST_CHECK;
/* The one that is built in. */
struct str cpython_table_built_in(void);
/* NULL: a version that it does not have. */
const struct cpython_offsets *cpython_table_find(const struct cpython_table *t, uint32_t minor);
/* Overrides `o` with what _Py_DebugOffsets says, which _PyRuntime begins with from 3.13 on. False,
 * and nothing is changed: it is not there, or belongs to another version. */
bool cpython_offsets_from_debug(struct cpython_offsets *o, struct bytes debug, uint32_t minor);
/* Can the step work with these? It reads so much of a frame and no more (bpf/step_cpython.h). */
bool cpython_offsets_usable(const struct cpython_offsets *o, struct err *err) MUST_CHECK;
