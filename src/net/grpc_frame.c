#include "net/grpc_frame.h"

#include "base/clock.h"
#include "base/hex.h"
#include "net/proto_text.h"

enum { MESSAGE_BYTES_MOST = 4096, TIMEOUT_DIGITS_MOST = 8 };

static enum grpc_frame_event prefix_next(struct grpc_frame_reader *r, struct str *in)
{
	while (in->len && r->have < GRPC_PREFIX_BYTES) {
		r->prefix[r->have++] = (unsigned char)in->ptr[0];
		*in = str_skip(*in, 1);
	}
	if (r->have && r->prefix[0] > 1)
		return GRPC_FRAME_BAD;
	if (r->have < GRPC_PREFIX_BYTES)
		return GRPC_FRAME_MORE;
	r->compressed = r->prefix[0] == 1;
	r->len = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
		 (uint32_t)r->prefix[3] << 8 | r->prefix[4];
	r->got = 0;
	return GRPC_FRAME_BEGIN;
}

enum grpc_frame_event grpc_frame_next(struct grpc_frame_reader *r, struct str *in,
				      struct str *piece)
{
	if (r->have < GRPC_PREFIX_BYTES)
		return prefix_next(r, in);
	if (r->got == r->len) {
		r->have = 0;
		return GRPC_FRAME_END;
	}
	if (!in->len)
		return GRPC_FRAME_MORE;
	*piece = str_head(*in, r->len - r->got);
	*in = str_skip(*in, piece->len);
	r->got += (uint32_t)piece->len;
	return GRPC_FRAME_DATA;
}

bool grpc_frame_at_boundary(const struct grpc_frame_reader *r)
{
	return r->have == 0;
}

void grpc_frame_append(struct buf *out, struct str message)
{
	uint32_t n = (uint32_t)message.len;
	const unsigned char prefix[GRPC_PREFIX_BYTES] = {
		0,
		(unsigned char)(n >> 24),
		(unsigned char)(n >> 16),
		(unsigned char)(n >> 8),
		(unsigned char)n,
	};

	buf_append(out, prefix, sizeof(prefix));
	buf_str(out, message);
}

bool grpc_timeout_parse(struct str text, uint64_t *out_ns)
{
	static const struct {
		char name;
		uint64_t ns;
	} units[] = { { 'H', 60 * MINUTE_NS }, { 'M', MINUTE_NS }, { 'S', SECOND_NS },
		      { 'm', MILLI_NS },       { 'u', 1000 },      { 'n', 1 } };
	uint64_t n;

	if (text.len < 2 || text.len > TIMEOUT_DIGITS_MOST + 1 ||
	    !str_to_u64(str_head(text, text.len - 1), &n))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].name == text.ptr[text.len - 1]) {
			*out_ns = n > UINT64_MAX / units[i].ns ? UINT64_MAX : n * units[i].ns;
			return true;
		}
	return false;
}

void grpc_message_encode(struct buf *out, struct str text)
{
	text = str_head(text, MESSAGE_BYTES_MOST);
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c >= 0x20 && c <= 0x7e && c != '%')
			buf_char(out, (char)c);
		else
			percent_append(out, c);
	}
}

void grpc_base64_encode(struct buf *out, struct str bytes)
{
	buf_base64(out, bytes.ptr, bytes.len);
	while (out->len && out->ptr[out->len - 1] == '=')
		out->len--;
}

void grpc_status_with_retry(struct buf *out, int grpc_status, struct str message, uint64_t retry_ns)
{
	struct buf duration, info, any;

	buf_init(&duration, 0);
	buf_init(&info, 0);
	buf_init(&any, 0);
	proto_put_number(&duration, 1, retry_ns / SECOND_NS); /* Duration.seconds */
	proto_put_number(&duration, 2, retry_ns % SECOND_NS); /* Duration.nanos */
	proto_put_bytes(&info, 1, buf_view(&duration));       /* RetryInfo.retry_delay */
	proto_put_bytes(&any, 1, STR("type.googleapis.com/google.rpc.RetryInfo"));
	proto_put_bytes(&any, 2, buf_view(&info));
	proto_put_number(out, 1, (uint64_t)grpc_status); /* Status.code */
	proto_put_bytes(out, 2, message);                /* Status.message */
	proto_put_bytes(out, 3, buf_view(&any));         /* Status.details */
	buf_release(&duration);
	buf_release(&info);
	buf_release(&any);
}
