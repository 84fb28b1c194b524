/*
 * table.h - where things lie in PHP's structures: one row of numbers per version, from
 * php.table (built in, or a file that replaces it). Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/offset_table.h"

/* clang-format off */
#define PHP_FIELDS(X)        \
	X(globals_current)   \
	X(frame_instruction) \
	X(frame_function)    \
	X(frame_object)      \
	X(frame_info)        \
	X(frame_previous)    \
	X(frame_top)         \
	X(frame_code)        \
	X(frame_generator)   \
	X(function_type)     \
	X(function_flags)    \
	X(function_name)     \
	X(function_class)    \
	X(function_code)     \
	X(function_count)    \
	X(function_file)     \
	X(function_line)     \
	X(flag_passing)      \
	X(flag_copy)         \
	X(instruction_bytes) \
	X(instruction_line)  \
	X(class_name)        \
	X(string_hash)       \
	X(string_length)     \
	X(string_text)       \
	X(generator_frame)   \
	X(generator_parent)  \
	X(generator_stand_in) \
	X(globals_fiber)     \
	X(fiber_context)     \
	X(fiber_caller)      \
	X(fiber_bottom)      \
	X(context_stack)
/* clang-format on */

struct php_offsets {
#define X(name) int32_t name;
	PHP_FIELDS(X)
#undef X
};

bool php_table_parse(struct offset_table *t, struct str text, struct err *err) MUST_CHECK;
/* The one that is built in. */
struct str php_table_built_in(void);
/* False: a version that the table does not have. */
bool php_table_find(const struct offset_table *t, uint32_t version, struct php_offsets *out);
/* Can the step and the names work with these? They read so much of a structure and no more. */
bool php_offsets_usable(const struct php_offsets *o, struct err *err) MUST_CHECK;
