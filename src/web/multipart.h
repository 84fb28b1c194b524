/*
 * multipart.h - a multipart/form-data body, part by part (RFC 7578, RFC 2046, 5.1.1).
 *
 * Memory: parts point into the body. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include "base/err.h"
#include "base/str.h"

enum { MULTIPART_PARTS_MOST = 64 };

struct multipart {
	struct str boundary, rest;
	unsigned count;
	bool begun;
};

struct multipart_part {
	struct str name, file_name, content; /* names without quotes; escapes stay as they are */
};

/* False: content_type is no multipart/form-data with a boundary. */
bool multipart_begin(struct multipart *m, struct str content_type, struct str body,
		     struct err *err) MUST_CHECK;
/* False at the end, with err->kind ERR_NONE, and on failure. */
bool multipart_next(struct multipart *m, struct multipart_part *out, struct err *err) MUST_CHECK;
