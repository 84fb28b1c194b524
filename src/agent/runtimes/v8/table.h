/*
 * table.h - where things lie in V8's objects, and the numbers of their types: one row per version,
 * from v8.table (built in, or a file that replaces it). Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/offset_table.h"

/* clang-format off */
#define V8_FIELDS(X)          \
	X(map_type)           \
	X(first_nonstring)    \
	X(first_function)     \
	X(last_function)      \
	X(shared_type)        \
	X(scope_type)         \
	X(script_type)        \
	X(bytecode_type)      \
	X(positions_type)     \
	X(function_shared)    \
	X(shared_name)        \
	X(shared_script)      \
	X(script_source)      \
	X(script_name)        \
	X(scope_count)        \
	X(scope_first)        \
	X(frame_array)        \
	X(bytecode_first)     \
	X(bytecode_positions) \
	X(positions_before)   \
	X(positions_packed)   \
	X(frame_wasm)         \
	X(frame_regexp)       \
	X(stream_type) \
	X(code_type) \
	X(stream_code) \
	X(stream_first) \
	X(code_size) \
	X(code_deopt) \
	X(code_positions) \
	X(deopt_literals) \
	X(deopt_inlined)      \
	X(shared_code)        \
	X(baseline_bytecode)
/* clang-format on */

struct v8_offsets {
#define X(name) int32_t name;
	V8_FIELDS(X)
#undef X
};

bool v8_table_parse(struct offset_table *t, struct str text, struct err *err) MUST_CHECK;
/* The one that is built in. */
struct str v8_table_built_in(void);
/* False: a version that the table does not have. */
bool v8_table_find(const struct offset_table *t, uint32_t version, struct v8_offsets *out);
/* Can the step and the names work with these? They read so much of an object and no more. */
bool v8_offsets_usable(const struct v8_offsets *o, struct err *err) MUST_CHECK;
