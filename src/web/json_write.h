/* json_write.h - small pieces of JSON that several answers share. */
#pragma once
#include "base/buf.h"
#include "query/query.h"

/* Attributes as an object; a key that comes twice is written twice with a number ("k#2"). */
void json_attributes(struct buf *b, struct source_attributes attributes);
void json_any(struct buf *b, const struct any_value *v);
/* ["name","file",line,"binary","type"] without the brackets */
void json_frame(struct buf *b, const struct query_frame *f, enum query_by by);
