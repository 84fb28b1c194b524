#include "formats/line_cache.h"

#include <assert.h>
#include <stdlib.h>

enum {
	SPANS_KEPT = 1 << 14, /* 128 KiB: more than a real dictionary has locations */
	TEXT_KEPT_BYTES = 1 << 20,
};

void line_cache_init(struct line_cache *c, size_t text_limit_bytes)
{
	*c = (struct line_cache){ .text_limit_bytes = text_limit_bytes };
	assert(text_limit_bytes < UINT32_MAX / 4);
	buf_init(&c->text,
		 2 * text_limit_bytes); /* the newest entry may pass the limit by as much */
}

void line_cache_release(struct line_cache *c)
{
	free(c->spans);
	buf_release(&c->text);
	*c = (struct line_cache){ .text_limit_bytes = c->text_limit_bytes };
}

static void line_cache_forget(struct line_cache *c)
{
	if (c->count)
		memset(c->spans, 0xff, c->count * sizeof(*c->spans));
	buf_reset(&c->text);
}

void line_cache_begin(struct line_cache *c, uint32_t count)
{
	if (count > c->cap || (c->cap > SPANS_KEPT && count <= SPANS_KEPT)) {
		free(c->spans);
		c->cap = count < 256 ? 256 : count;
		c->spans = malloc(c->cap * sizeof(*c->spans));
		assert(c->spans);
	}
	c->count = count;
	line_cache_forget(c);
	buf_trim(&c->text, TEXT_KEPT_BYTES);
}

struct buf *line_cache_make(struct line_cache *c, size_t *start)
{
	if (c->text.len > c->text_limit_bytes)
		line_cache_forget(c);
	*start = c->text.len;
	return &c->text;
}

bool line_cache_made(struct line_cache *c, uint32_t index, size_t start, struct str *out)
{
	if (!buf_reserve(&c->text, LINE_CACHE_SLACK)) {
		line_cache_forget(c);
		return false;
	}
	*out = str_from(c->text.ptr + start, c->text.len - start);
	c->spans[index] = (struct line_span){ (uint32_t)start, (uint32_t)out->len };
	return true;
}
