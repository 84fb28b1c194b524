/*
 * bodies.h - what a file of profiles holds, one body after another.
 *
 * A body is an export request or ProfilesData (or a profile of another format: then it is the only
 * one). They stand as plain protobuf (joined.h tells where one ends), as OTLP/JSON (objects, as one
 * a line), length-prefixed as the Collector's file exporter writes them (4 bytes big-endian, then
 * the body), or as gRPC frames (1 byte flag, 4 bytes length). Protobuf and JSON may take turns. The
 * bytes are decompressed already; where compressed ones follow, a body ends, and bodies_rest()
 * begins with them.
 */
#pragma once
#include "base/blob.h"

enum bodies_form { BODIES_PROTOBUF, BODIES_JSON, BODIES_LENGTH_PREFIXED, BODIES_GRPC_FRAMES };

struct bodies {
	struct blob *bytes; /* the caller's, outlives it */
	enum bodies_form form;
	size_t offset; /* of the next body */
};

/* From `offset` on. */
void bodies_begin(struct bodies *b, struct blob *bytes, size_t offset);
/* What was not given yet. */
struct str bodies_rest(const struct bodies *b);
/* The next body and its offset, or false at the end. The caller unrefs. An empty file is one empty
 * body. */
bool bodies_next(struct bodies *b, struct blob **body, size_t *offset);
