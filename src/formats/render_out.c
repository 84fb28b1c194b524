#include "formats/render_out.h"

#include <inttypes.h>

static bool within_limits(const struct render_out *out, struct err *err)
{
	if (out->buf->failed)
		return err_set(err, ERR_LIMIT, "the text passes its buffer's limit of %zu bytes",
			       out->buf->limit_bytes);
	if (out->limit_bytes && (out->handed_bytes > out->limit_bytes ||
				 out->buf->len > out->limit_bytes - out->handed_bytes))
		return err_set(err, ERR_LIMIT,
			       "the text of this request passes the limit of %" PRIu64 " bytes",
			       out->limit_bytes);
	return true;
}

bool render_out_hand_on(struct render_out *out, struct err *err)
{
	if (!within_limits(out, err))
		return false;
	if (out->write && out->buf->len >= out->chunk_bytes && out->chunk_bytes)
		return render_out_finish(out, err);
	return true;
}

bool render_out_finish(struct render_out *out, struct err *err)
{
	if (!within_limits(out, err))
		return false;
	if (!out->write || out->buf->len == 0)
		return true;
	if (!out->write(out->ctx, buf_view(out->buf), err))
		return false;
	out->handed_bytes += out->buf->len;
	buf_reset(out->buf);
	return true;
}
