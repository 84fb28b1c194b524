/*
 * blob.h - shared, immutable bytes with a reference count: a request body that a decoded message
 * points into.
 *
 * A blob may have been charged to a budget; the last blob_unref() gives that back. Threads: the
 * count is atomic; the bytes are read-only once shared.
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include "base/str.h"

struct budget;

struct blob {
	atomic_uint refs;
	char *ptr; /* heap; freed with the last reference */
	size_t len, cap;
	struct budget *budget; /* NULL: not charged */
	size_t charged_bytes;
};

struct blob *blob_new(size_t cap); /* len 0, one reference, room for cap bytes */
struct blob *blob_copy(struct str bytes);
struct blob *blob_adopt(char *heap, size_t len); /* takes over a malloc()ed block */
struct blob *blob_ref(struct blob *b);
void blob_unref(struct blob *b); /* NULL is fine */
static inline struct str blob_view(const struct blob *b)
{
	return str_from(b->ptr, b->len);
}
