/*
 * h2_out.h - what an HTTP/2 connection is about to write: frame headers in one buffer, bodies as
 * slices of their blobs.
 *
 * A body is never copied on its way to a plain socket. Each slice holds a reference, so that a call
 * may end while its last bytes are still being written. Threads: one.
 */
#pragma once
#include <uv.h>
#include "base/blob.h"
#include "base/buf.h"

struct h2_out_piece {
	struct blob *blob; /* NULL: of `bytes` */
	size_t at, len;
};

struct h2_out {
	struct buf bytes;
	struct h2_out_piece *pieces;
	uv_buf_t *bufs; /* as many as pieces; made by h2_out_bufs() */
	size_t count, cap;
	size_t total_bytes;
};

void h2_out_init(struct h2_out *o);
void h2_out_release(struct h2_out *o);
void h2_out_reset(struct h2_out *o);
void h2_out_copy(struct h2_out *o, const void *data, size_t len);
void h2_out_slice(struct h2_out *o, struct blob *blob, size_t at, size_t len);
/* What is left after the first `skip_bytes`; valid until the next change. */
const uv_buf_t *h2_out_bufs(struct h2_out *o, size_t skip_bytes, unsigned *count);
