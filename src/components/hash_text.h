/* hash_text.h - digests as lower-case hex, for values that must not be readable any more. */
#pragma once
#include "base/buf.h"

void hash_text_sha256(struct buf *out, struct str s);
