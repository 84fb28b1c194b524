/*
 * table.h - where things lie in Ruby's structures: one row of numbers per version, from ruby.table
 * (built in, or a file that replaces it). Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/offset_table.h"

/* clang-format off */
#define RUBY_FIELDS(X)       \
	X(ec_stack)          \
	X(ec_stack_words)    \
	X(ec_frame)          \
	X(frame_bytes)       \
	X(frame_pc)          \
	X(frame_iseq)        \
	X(frame_ep)          \
	X(iseq_body)         \
	X(body_size)         \
	X(body_code)         \
	X(body_path)         \
	X(body_base_label)   \
	X(body_label)        \
	X(body_first_line)   \
	X(first_line_tagged) \
	X(body_info)         \
	X(body_info_count)   \
	X(body_info_index)   \
	X(info_bytes)        \
	X(method_definition) \
	X(method_owner)      \
	X(definition_id)     \
	X(class_ext)         \
	X(ext_variables)     \
	X(class_path)        \
	X(class_attached)    \
	X(string_length)     \
	X(string_embedded)   \
	X(last_operator)
/* clang-format on */

struct ruby_offsets {
#define X(name) int32_t name;
	RUBY_FIELDS(X)
#undef X
};

bool ruby_table_parse(struct offset_table *t, struct str text, struct err *err) MUST_CHECK;
/* The one that is built in. */
struct str ruby_table_built_in(void);
/* False: a version that the table does not have. */
bool ruby_table_find(const struct offset_table *t, uint32_t version, struct ruby_offsets *out);
/* Can the step and the names work with these? They read so much of a structure and no more. */
bool ruby_offsets_usable(const struct ruby_offsets *o, struct err *err) MUST_CHECK;
