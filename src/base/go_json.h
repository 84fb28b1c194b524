/*
 * go_json.h - a string as Go's encoding/json writes it: the texts of the reference are byte for
 * byte what Go would have written. Beyond JSON's own escapes these are U+2028 and U+2029 as \u2028
 * and \u2029, and <, >, & as \u003c... where HTML is minded; bad UTF-8 is \ufffd; DEL stands as
 * it is.
 */
#pragma once
#include "base/buf.h"

/* As json.Marshal() does: HTML is minded. */
void go_json_string(struct buf *b, struct str s);
/* As an Encoder after SetEscapeHTML(false) does: <, > and & stand as they are. */
void go_json_string_plain(struct buf *b, struct str s);
