/*
 * proto_json.h - protobuf messages by a table of their fields, and their JSON form both ways.
 *
 * As protojson has it: keys in lowerCamelCase (as in the .proto file is read, too), 64-bit numbers
 * as strings, bytes in base64, enums by name, defaults left out; unknown keys and fields are
 * skipped. Memory: output goes into a buffer. Threads: no state. Source:
 * protobuf.dev/programming-guides/json.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum proto_type {
	PROTO_INT64,
	PROTO_INT32,
	PROTO_BOOL,
	PROTO_DOUBLE,
	PROTO_STRING,
	PROTO_BYTES,
	PROTO_ENUM,
	PROTO_MESSAGE,
};

struct proto_message;

struct proto_field {
	const char *name;      /* as in the .proto file */
	const char *json_name; /* NULL: the name in lowerCamelCase */
	uint8_t number;
	enum proto_type type;
	bool repeated;
	uint8_t role; /* the owner's: what it means */
	const struct proto_message *message;
	const char *const *enum_names; /* by number, NULL-terminated */
};

struct proto_message {
	const struct proto_field *fields;
	uint32_t field_count;
};

enum { PROTO_DEPTH_MOST = 16 };

/* NULL: no such field. */
const struct proto_field *proto_field_find(const struct proto_message *m, uint32_t number);
bool proto_from_json(const struct proto_message *m, struct str json, struct buf *out,
		     struct err *err) MUST_CHECK;
bool proto_to_json(const struct proto_message *m, struct str protobuf, struct buf *out,
		   struct err *err) MUST_CHECK;
