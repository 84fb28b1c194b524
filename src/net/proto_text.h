/*
 * proto_text.h - just enough of protobuf for the server's own services: fields in, fields out.
 *
 * Net may not use src/wire, and health and reflection need no more than this. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/str.h"

struct proto_field {
	uint32_t number;
	bool is_bytes; /* wire type 2 */
	struct str bytes;
	uint64_t value; /* of the other wire types */
};
/* Takes a field off *message; false at its end, or at a broken field: then *message is not empty.
 */
bool proto_next(struct str *message, struct proto_field *out);
/* The first field of that number and wire type 2, or empty. */
struct str proto_find(struct str message, uint32_t number);

void proto_put_number(struct buf *out, uint32_t field, uint64_t value); /* 0 is left out */
void proto_put_bytes(struct buf *out, uint32_t field, struct str bytes);
