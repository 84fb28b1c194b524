/*
 * output.h - the file that a command was told to write.
 *
 * A regular file gets its name only once it is whole: what fails or is killed leaves what was there
 * before. Pipes, devices and what is open already ("-", /dev/stdout) are written as they come.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct output {
	const char *path;
	int fd;
	char *real, *beside; /* where it will be, and is until then; NULL: written in place */
};

/* `inputs` are read meanwhile: none of them, nor what belongs to a store of that name, can be the
 * output. An entry may be NULL, or no file. */
bool output_begin(struct output *o, const char *path, const char *const *inputs, unsigned count,
		  struct err *err) MUST_CHECK;
bool output_write(const struct output *o, struct str bytes, struct err *err) MUST_CHECK;
/* With ok false what was written is dropped. False: then, or where the system refused. */
bool output_end(struct output *o, bool ok, struct err *err) MUST_CHECK;
