/*
 * json_any.h - an attribute's value as JSON that keeps its kind.
 *
 *   string   "text", bad UTF-8 replaced
 *   int      42, all 64 bits
 *   double   1.5, 2.0, 1e+21; {"$double":"NaN"}, "Infinity", "-Infinity"
 *   bool     true
 *   bytes    {"$bytes":"base64"}
 *   array    [...]
 *   kvlist   {...} in the order that came, equal keys and all
 *   empty    null
 */
#pragma once
#include "base/buf.h"
#include "model/profiles.h"

void json_any_append(struct buf *b, const struct any_value *v);
