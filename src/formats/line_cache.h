/*
 * line_cache.h - the text of a dictionary's entries, made once a request and copied from then on.
 *
 * A body names some thousand locations and shows each of them a dozen times: what a location, an
 * attribute or a mapping looks like in a layout is kept here by its index. Entries are forgotten
 * when a request ends, or all at once when their text passes text_limit_bytes (they are then made
 * again: slower, never wrong). An entry longer than that is not kept at all: line_cache_made()
 * refuses it, and the caller streams it.
 *
 * Memory: own heap, kept between requests up to what an ordinary one needs. Threads: one at a
 * time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

enum { LINE_CACHE_SLACK = 64 }; /* bytes behind each text that may be read, whatever they hold */

struct line_span {
	uint32_t offset, len; /* offset UINT32_MAX: not made yet */
};

struct line_cache {
	struct line_span *spans;
	uint32_t count, cap;
	struct buf text;
	size_t text_limit_bytes;
};

void line_cache_init(struct line_cache *c, size_t text_limit_bytes);
void line_cache_release(struct line_cache *c);
/* A new dictionary with `count` entries. */
void line_cache_begin(struct line_cache *c, uint32_t count);

/* The entry's text; valid until the next line_cache_make(). False when it has to be made. */
static inline bool line_cache_get(const struct line_cache *c, uint32_t index, struct str *out)
{
	const struct line_span *s = &c->spans[index];

	if (s->offset == UINT32_MAX)
		return false;
	*out = str_from(c->text.ptr + s->offset, s->len);
	return true;
}

/* Appends an entry's text, which may lack its first bytes: copies of fixed size, cheaper than calls
 * to memcpy() for texts this short. What they copy too much lies in LINE_CACHE_SLACK and is
 * overwritten by what follows. */
static inline void line_cache_copy(struct buf *b, struct str text)
{
	char *to;

	if (text.len > 2 * LINE_CACHE_SLACK || b->cap - b->len < 2 * LINE_CACHE_SLACK) {
		buf_str(b, text);
		return;
	}
	to = b->ptr + b->len;
	memcpy(to, text.ptr, LINE_CACHE_SLACK);
	if (text.len > LINE_CACHE_SLACK)
		memcpy(to + LINE_CACHE_SLACK, text.ptr + LINE_CACHE_SLACK, LINE_CACHE_SLACK);
	buf_advance(b, text.len);
}

/* The buffer to append the text of an entry to, ended by line_cache_made() with what
 * line_cache_make() put in `start`. */
struct buf *line_cache_make(struct line_cache *c, size_t *start);
/* False when the entry is too long to be kept: nothing of it is, and `out` is untouched. */
bool line_cache_made(struct line_cache *c, uint32_t index, size_t start,
		     struct str *out) MUST_CHECK;
