/* gRPC's frames, cut anywhere, and the small texts beside them. */
#include "fuzz/fuzz.h"

#include "base/buf.h"
#include "net/grpc_frame.h"
#include "net/proto_text.h"

/* Frames as text: length, flag and bytes of each, and how it ended. */
static void read_frames(struct str in, size_t step, struct buf *out)
{
	struct grpc_frame_reader r = { 0 };

	for (size_t at = 0; at < in.len; at += step) {
		struct str part = str_head(str_skip(in, at), step), piece;
		enum grpc_frame_event e;

		while ((e = grpc_frame_next(&r, &part, &piece)) != GRPC_FRAME_MORE) {
			if (e == GRPC_FRAME_BAD) {
				buf_lit(out, "bad");
				return;
			}
			if (e == GRPC_FRAME_BEGIN)
				buf_printf(out, "<%d %u ", r.compressed, r.len);
			else if (e == GRPC_FRAME_DATA)
				buf_str(out, piece);
			else
				buf_lit(out, ">");
		}
		if (part.len)
			__builtin_trap();
	}
	buf_printf(out, "%d", grpc_frame_at_boundary(&r));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_from(data, size), rest = in;
	struct buf whole, bytes, text;
	struct proto_field f;
	uint64_t ns;

	buf_init(&whole, 0);
	buf_init(&bytes, 0);
	buf_init(&text, 0);
	if (size) {
		read_frames(in, size, &whole);
		read_frames(in, 1, &bytes);
	}
	if (!str_equal(buf_view(&whole), buf_view(&bytes)))
		__builtin_trap();
	if (grpc_timeout_parse(in, &ns) && size > 9)
		__builtin_trap();
	grpc_message_encode(&text, in);
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
			__builtin_trap();
	while (proto_next(&rest, &f))
		if (f.is_bytes &&
		    (f.bytes.ptr < in.ptr || f.bytes.ptr + f.bytes.len > in.ptr + in.len))
			__builtin_trap();
	buf_release(&whole);
	buf_release(&bytes);
	buf_release(&text);
	return 0;
}
