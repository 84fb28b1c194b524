/*
 * json_reader.h - reads JSON from a slice, value by value, as the caller asks for it.
 *
 *   if (json_begin_object(&j))
 *           while (json_next_key(&j, &key))
 *                   if (json_key_is(key, "period"))
 *                           period = json_int64(&j);
 *                   else
 *                           json_skip(&j);
 *   if (!json_finish(&j, err)) ...
 *
 * The reader remembers its first fault and where it was, and then yields zeros and ends: callers
 * check once. `null` is read as the default of whatever was asked for. Equal keys are all given;
 * what they mean is the caller's business. Memory: a string without escapes points into the slice,
 * one with them into the reader, until the next string. Threads: one. Source: RFC 8259;
 * protobuf.dev/programming-guides/json for numbers as strings.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { JSON_DEPTH_DEFAULT = 512 };

struct json_reader {
	const char *begin, *at, *end;
	struct buf text; /* the last string with escapes */
	struct buf key;  /* the last key with escapes */
	uint32_t depth, depth_limit;
	bool first; /* nothing read yet of the innermost object or array */
	bool failed;
	bool shape_fault; /* good JSON, but not what was asked for */
	enum err_kind fault_kind;
	const char *fault_at;
	char fault[160];
};

enum json_kind {
	JSON_END,
	JSON_OBJECT,
	JSON_ARRAY,
	JSON_STRING,
	JSON_NUMBER,
	JSON_BOOL,
	JSON_NULL,
	JSON_BAD
};

void json_reader_init(struct json_reader *j, struct str text,
		      uint32_t depth_limit); /* 0 = JSON_DEPTH_DEFAULT */
void json_reader_release(struct json_reader *j);

enum json_kind json_peek(struct json_reader *j);
/* False for null (then read) and on failure. */
bool json_begin_object(struct json_reader *j);
bool json_begin_array(struct json_reader *j);
/* The next key with its colon read, or false at the end of the object (then read) and on failure.
 */
bool json_next_key(struct json_reader *j, struct str *key);
bool json_next_element(struct json_reader *j);
bool json_key_is(struct str key,
		 const char *name); /* lowerCamelCase or snake_case form of `name` */

struct str json_string(struct json_reader *j);
bool json_bool(struct json_reader *j); /* also "true" and "false" as strings */
/* As a number or a string; "1e3" and "1.0" are integers, too. Out of range or with a fraction: a
 * failure. */
int64_t json_int64(struct json_reader *j);
uint64_t json_uint64(struct json_reader *j);
int64_t json_int_within(struct json_reader *j, int64_t least, int64_t most);
double json_double(struct json_reader *j); /* also "NaN", "Infinity", "-Infinity" */
void json_skip(struct json_reader *j);

/* A failure the caller found, at the value last read. Returns false. */
bool json_fail(struct json_reader *j, enum err_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* True when all was well and nothing but white space is left; else err has text, offset, line and
 * column. */
bool json_finish(struct json_reader *j, struct err *err) MUST_CHECK;
