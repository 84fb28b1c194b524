/*
 * input.h - reads the files that decode and check are given: any container of OTLP profiles bodies
 * (wire/bodies.h), which may be compressed (gzip, zstd), plain and compressed ones also in turns.
 */
#pragma once
#include "base/blob.h"
#include "base/err.h"
#include "wire/bodies.h"

enum { INPUT_FILE_LIMIT_MIB = 1024 };

struct input {
	struct blob *raw;
	size_t raw_next; /* where what follows the part begins */
	const char *path;
	bool broken;          /* input_open_broken() */
	bool plain;           /* the part is raw itself */
	struct bodies bodies; /* of the part that is read, decompressed */
	struct err damage;    /* input_open_broken(): what is wrong with the part, or ERR_NONE; the
				 caller clears it */
};

/* path "-" is standard input. */
bool input_open(struct input *in, const char *path, struct err *err) MUST_CHECK;
/* As input_open(), but of a gzip or zstd file that is cut or damaged it takes what stands before
 * the fault. */
bool input_open_broken(struct input *in, const char *path, struct err *err) MUST_CHECK;
/* The next body and its offset in the decompressed part it is in, or in the file if that is plain;
 * or false at the end (err->kind ERR_NONE) or at a fault. The caller unrefs. */
bool input_next(struct input *in, struct blob **body, size_t *offset, struct err *err);
void input_close(struct input *in);
