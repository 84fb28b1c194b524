/*
 * base64.h - reads base64 (RFC 4648, 4 and 5).
 *
 * Writing bytes as base64 is buf_base64() of buf.h. Threads: values, no state.
 */
#pragma once
#include <stdbool.h>
#include "base/err.h"
#include "base/str.h"

struct buf;

/* Appends the bytes that `text` stands for: either alphabet, with or without padding. False on
 * anything else; `out` may then hold some of the bytes. */
bool base64_decode(struct str text, struct buf *out) MUST_CHECK;
