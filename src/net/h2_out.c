#include "net/h2_out.h"

#include <assert.h>
#include <stdlib.h>

enum { PIECES_AT_FIRST = 16, KEEP_BYTES = 16384 };

void h2_out_init(struct h2_out *o)
{
	*o = (struct h2_out){ 0 };
	buf_init(&o->bytes, 0);
}

void h2_out_reset(struct h2_out *o)
{
	for (size_t i = 0; i < o->count; i++)
		blob_unref(o->pieces[i].blob);
	o->count = 0;
	o->total_bytes = 0;
	buf_reset(&o->bytes);
	buf_trim(&o->bytes, KEEP_BYTES);
}

void h2_out_release(struct h2_out *o)
{
	h2_out_reset(o);
	buf_release(&o->bytes);
	free(o->pieces);
	free(o->bufs);
	*o = (struct h2_out){ 0 };
}

static struct h2_out_piece *piece_add(struct h2_out *o)
{
	if (o->count == o->cap) {
		o->cap = o->cap ? o->cap * 2 : PIECES_AT_FIRST;
		o->pieces = realloc(o->pieces, o->cap * sizeof(*o->pieces));
		o->bufs = realloc(o->bufs, o->cap * sizeof(*o->bufs));
		assert(o->pieces && o->bufs);
	}
	return &o->pieces[o->count++];
}

void h2_out_copy(struct h2_out *o, const void *data, size_t len)
{
	struct h2_out_piece *last = o->count ? &o->pieces[o->count - 1] : NULL;

	if (!len)
		return;
	if (last && !last->blob)
		last->len += len; /* it ends where `bytes` ends */
	else
		*piece_add(o) = (struct h2_out_piece){ .at = o->bytes.len, .len = len };
	buf_append(&o->bytes, data, len);
	o->total_bytes += len;
}

void h2_out_slice(struct h2_out *o, struct blob *blob, size_t at, size_t len)
{
	if (!len)
		return;
	*piece_add(o) = (struct h2_out_piece){ .blob = blob_ref(blob), .at = at, .len = len };
	o->total_bytes += len;
}

const uv_buf_t *h2_out_bufs(struct h2_out *o, size_t skip_bytes, unsigned *count)
{
	unsigned n = 0;

	for (size_t i = 0; i < o->count; i++) {
		const struct h2_out_piece *p = &o->pieces[i];
		char *base = p->blob ? p->blob->ptr : o->bytes.ptr;

		if (skip_bytes >= p->len) {
			skip_bytes -= p->len;
			continue;
		}
		o->bufs[n++] =
			(uv_buf_t){ .base = base + p->at + skip_bytes, .len = p->len - skip_bytes };
		skip_bytes = 0;
	}
	*count = n;
	return o->bufs;
}
