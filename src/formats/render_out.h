/*
 * render_out.h - where a renderer's text goes: a buffer that is handed on in chunks.
 *
 * Renderers append to `buf` and call render_out_check() at least once a line; when the buffer
 * holds a chunk it goes to `write` and is empty again, so that memory stays bounded however long
 * a request's text is. The caller keeps the last part: render_out_finish() hands it on. A small
 * body may resolve to text without end (a million samples of one deep stack), hence limit_bytes.
 *
 * Memory: `buf` is the caller's and kept between requests. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

struct render_out {
	struct buf *buf;
	size_t chunk_bytes;   /* 0 = all in the buffer, nothing is handed on before
				 render_out_finish() */
	uint64_t limit_bytes; /* of one request's text; 0 = none */
	uint64_t handed_bytes;
	/* Takes all of `text` or fails; NULL = the text stays in the buffer. */
	bool (*write)(void *ctx, struct str text, struct err *err);
	void *ctx;
};

bool render_out_hand_on(struct render_out *out, struct err *err) MUST_CHECK;

/* Hands the buffer on once it holds a chunk. ERR_LIMIT past limit_bytes; else what `write` says. */
static inline bool render_out_check(struct render_out *out, struct err *err)
{
	size_t len = out->buf->len;

	if (len < out->chunk_bytes ||
	    (out->chunk_bytes == 0 && !out->limit_bytes && !out->buf->failed))
		return true;
	return render_out_hand_on(out, err);
}

/* Hands on what is left. */
bool render_out_finish(struct render_out *out, struct err *err) MUST_CHECK;
