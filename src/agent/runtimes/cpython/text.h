/*
 * text.h - a str of a Python process, as UTF-8. Source: PEP 393, and unicodeobject.h.
 */
#pragma once
#include <stdbool.h>
#include "agent/runtimes/cpython/table.h"
#include "agent/runtimes/runtime.h"
#include "base/buf.h"

enum { CPYTHON_TEXT_MOST = 1024 }; /* characters; longer ones are cut, and end in "..." */

/* Appends it. False, and nothing is appended: not there, or no str. */
bool cpython_read_text(const struct runtime_memory *m, const struct cpython_offsets *o,
		       uint32_t pid, uint64_t at, struct buf *out);
