/*
 * input.h - reads the files that decode and check are given: any container of OTLP profiles bodies.
 *
 * A file may be compressed (gzip, zstd) and holds bodies (an export request or ProfilesData each)
 * one after another: plain protobuf (wire/joined.h tells where one ends), OTLP/JSON (objects, as
 * one a line), length-prefixed as the Collector's file exporter writes them (4 bytes big-endian,
 * then the body), or gRPC frames (1 byte flag, 4 bytes length).
 */
#pragma once
#include "base/blob.h"
#include "base/err.h"

enum { INPUT_FILE_LIMIT_MIB = 1024 };

enum input_form { INPUT_PROTOBUF, INPUT_JSON, INPUT_LENGTH_PREFIXED, INPUT_GRPC_FRAMES };

struct input {
	struct blob *bytes; /* decompressed */
	enum input_form form;
	size_t offset;     /* of the next body */
	struct err damage; /* input_open_broken(): what is wrong with the container, or ERR_NONE */
};

/* path "-" is standard input. */
bool input_open(struct input *in, const char *path, struct err *err) MUST_CHECK;
/* As input_open(), but of a gzip or zstd file that is cut or damaged it takes what stands before
 * the fault. */
bool input_open_broken(struct input *in, const char *path, struct err *err) MUST_CHECK;
/* The next body and its offset, or false at the end (err->kind ERR_NONE) or at a fault. The caller
 * unrefs. */
bool input_next(struct input *in, struct blob **body, size_t *offset, struct err *err);
void input_close(struct input *in);
