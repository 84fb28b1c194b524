/* json_cut.h - makes JSON that ends too early readable again. */
#pragma once
#include "base/buf.h"

/*
 * When `text` (a JSON object) ends before it closes: appends it to `out` up to the last whole
 * object or string of a list, and closes what is open there. False when it closes, or nothing is
 * whole.
 */
bool json_close_cut(struct str text, struct buf *out);
