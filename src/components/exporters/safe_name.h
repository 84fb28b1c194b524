/*
 * safe_name.h - any text as the name of one file or directory.
 *
 * Kept as they are: valid UTF-8 without '/', '%', control characters (C0, DEL, C1) and without a
 * leading '.'. All else becomes %XX, byte by byte: "/docker-1.scope" is "%2Fdocker-1.scope", ".."
 * is "%2E.". The empty text is "%". A name that would pass 255 bytes is cut and ends in "%~" and 32
 * hex digits, the XXH3 of the whole. So different texts have different names.
 */
#pragma once
#include "base/buf.h"

void safe_name_append(struct buf *b, struct str text);
