/*
 * demangle.h - C++ (Itanium ABI) and Rust (legacy and v0) names as people write them.
 *
 * libiberty does the work, through callbacks: no heap. Hostile names are bounded in length, depth
 * and output. A Rust legacy name loses its hash; `.cold`, `.isra.0`, `.llvm.123` and the like are
 * kept as " [clone .cold]". Threads: any; needs up to 1 MiB of stack for the longest names.
 */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "base/str.h"

enum {
	DEMANGLE_IN_MOST = 4096,  /* longer names stay as they are */
	DEMANGLE_OUT_MOST = 8192, /* longer results too: a name that long is no help */
};

/* Appends the plain name; false (and nothing appended) when `name` is not mangled or not to be
 * read. */
bool demangle(struct str name, struct buf *out);
