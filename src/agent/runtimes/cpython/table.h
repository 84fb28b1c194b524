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
#include "agent/runtimes/offset_table.h"

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

/* Each is -1 where the version has no such thing. */
struct cpython_offsets {
#define X(name) int32_t name;
	CPYTHON_FIELDS(X)
#undef X
};

bool cpython_table_parse(struct offset_table *t, struct str text, struct err *err) MUST_CHECK;
/* The one that is built in. */
struct str cpython_table_built_in(void);
/* False: a version that the table does not have. */
bool cpython_table_find(const struct offset_table *t, uint32_t minor, struct cpython_offsets *out);
/* Overrides `o` with what _Py_DebugOffsets says, which _PyRuntime begins with from 3.13 on. False,
 * and nothing is changed: it is not there, or belongs to another version. */
bool cpython_offsets_from_debug(struct cpython_offsets *o, struct bytes debug, uint32_t minor);
/* Can the step work with these? It reads so much of a frame and no more (bpf/step_cpython.h). */
bool cpython_offsets_usable(const struct cpython_offsets *o, struct err *err) MUST_CHECK;
