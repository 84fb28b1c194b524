/* HTTP/1.1 heads and chunked bodies. The same bytes cut anywhere must mean the same: two readings
 * that differ are smuggling. */
#include "fuzz/fuzz.h"

#include "base/buf.h"
#include "net/http1_parser.h"

static enum http1_result read_chunks(struct str in, size_t step, struct buf *body, size_t *used)
{
	struct http1_chunked c = { 0 };
	enum http1_result rc = HTTP1_MORE;
	const char *why;
	size_t at = 0;

	while (rc == HTTP1_MORE && at < in.len) {
		struct str part = str_head(str_skip(in, at), step), rest = part, data;

		do {
			rc = http1_chunked_next(&c, &rest, &data, &why);
			buf_str(body, data);
		} while (rc == HTTP1_MORE && rest.len);
		at += part.len - rest.len;
	}
	*used = at;
	return rc;
}

static void fuzz_chunks(struct str in)
{
	struct buf whole, bytes;
	size_t used_whole, used_bytes;
	enum http1_result a, b;

	buf_init(&whole, 0);
	buf_init(&bytes, 0);
	a = read_chunks(in, in.len, &whole, &used_whole);
	b = read_chunks(in, 1, &bytes, &used_bytes);
	if (a != b || used_whole != used_bytes || !str_equal(buf_view(&whole), buf_view(&bytes)))
		__builtin_trap();
	buf_release(&whole);
	buf_release(&bytes);
}

static void fuzz_head(struct str in)
{
	struct http1_head head;
	const char *why = "";
	size_t used = 0, scanned = 0;
	enum http1_result rc = http1_parse_head(in, &head, &used, &why);

	if (rc != HTTP1_OK) {
		if (rc != HTTP1_MORE && !why[0])
			__builtin_trap();
		return;
	}
	if (!used || used > in.len || (head.chunked && head.has_length))
		__builtin_trap();
	/* Nothing of the head is needed from behind its end, and the cheap test agrees. */
	if (!http1_head_is_whole(str_head(in, used), &scanned))
		__builtin_trap();
	if (head.chunked)
		fuzz_chunks(str_skip(in, used));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_from(data, size);

	fuzz_head(in);
	fuzz_chunks(in);
	return 0;
}
