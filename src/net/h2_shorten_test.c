/* Header blocks by nghttp2's own deflater, framed and cut by hand, through the filter into
 * nghttp2's own server session: it must see what was sent, long fields cut, and stay in step. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/h2_shorten.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { REQUESTS = 6, FRAME_MOST = 16384 };

static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct wire {
	struct buf bytes;
	nghttp2_hd_deflater *deflater;
	uint32_t chance;
};

static uint32_t chance(struct wire *w, uint32_t below)
{
	w->chance = w->chance * 1664525 + 1013904223;
	return (w->chance >> 8) % below;
}

static void put_frame(struct wire *w, int type, int flags, uint32_t stream, struct str payload)
{
	const char head[] = { (char)(payload.len >> 16),
			      (char)(payload.len >> 8),
			      (char)payload.len,
			      (char)type,
			      (char)flags,
			      0,
			      0,
			      0,
			      (char)stream };

	buf_append(&w->bytes, head, sizeof(head));
	buf_str(&w->bytes, payload);
}

/* A HEADERS frame, padded and with a priority now and then, and CONTINUATIONs, some of them empty.
 */
static void put_block(struct wire *w, uint32_t stream, struct str block, uint32_t first_most)
{
	uint32_t flags = chance(w, 4), pad = flags & 1 ? chance(w, 200) : 0;
	struct str part = str_head(block, 1 + chance(w, first_most));
	struct buf payload;

	buf_init(&payload, 0);
	block = str_skip(block, part.len);
	if (flags & 1)
		buf_char(&payload, (char)pad);
	if (flags & 2)
		buf_append(&payload, "\0\0\0\0\x10", 5);
	buf_str(&payload, part);
	for (uint32_t i = 0; i < pad; i++)
		buf_char(&payload, 0);
	put_frame(w, NGHTTP2_HEADERS,
		  NGHTTP2_FLAG_END_STREAM | (block.len ? 0 : NGHTTP2_FLAG_END_HEADERS) |
			  (flags & 1 ? NGHTTP2_FLAG_PADDED : 0) |
			  (flags & 2 ? NGHTTP2_FLAG_PRIORITY : 0),
		  stream, buf_view(&payload));
	buf_release(&payload);
	for (bool tiny = chance(w, 2); block.len; tiny = false) {
		part = str_head(block, tiny ? chance(w, 3) : FRAME_MOST - chance(w, 100));
		block = str_skip(block, part.len);
		put_frame(w, NGHTTP2_CONTINUATION, block.len ? 0 : NGHTTP2_FLAG_END_HEADERS, stream,
			  part);
	}
}

static void put_request(struct wire *w, uint32_t stream, const nghttp2_nv *extra, size_t count,
			uint32_t first_most)
{
	nghttp2_nv nv[16] = {
		{ (uint8_t *)":method", (uint8_t *)"POST", 7, 4, 0 },
		{ (uint8_t *)":scheme", (uint8_t *)"http", 7, 4, 0 },
		{ (uint8_t *)":path", (uint8_t *)"/a/longer/path", 5, 14, 0 },
		{ (uint8_t *)":authority", (uint8_t *)"somebody", 10, 8, 0 },
	};
	size_t room = 4 << 20;
	char *out = malloc(room);
	ssize_t n;

	assert_non_null(out);
	memcpy(nv + 4, extra, count * sizeof(*extra));
	n = nghttp2_hd_deflate_hd(w->deflater, (uint8_t *)out, room, nv, 4 + count);
	assert_true(n > 0);
	put_block(w, stream, str_from(out, (size_t)n), first_most);
	free(out);
}

/* What a server's session is told: a line a field, its length and a sum of its bytes. */

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		    void *user)
{
	uint32_t sum = 0;

	(void)session;
	(void)flags;
	for (size_t i = 0; i < value_len && value_len < H2_STRING_MOST; i++)
		sum = sum * 31 + value[i];
	buf_printf(user, "%d %.*s/%zu %zu %u\n", frame->hd.stream_id,
		   name_len < 50 ? (int)name_len : 0, (const char *)name, name_len, value_len, sum);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	(void)session;
	buf_printf(user, "%d frame %d\n", frame->hd.stream_id, frame->hd.type);
	return 0;
}

static nghttp2_session *session_new(struct buf *told)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;

	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	assert_int_equal(nghttp2_session_server_new(&session, callbacks, told), 0);
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

/* nghttp2 gets all in one piece: it counts a CONTINUATION once for each piece of its head. */
static void tell(struct buf *told, struct buf *passed, struct str all, size_t chunk,
		 struct h2_shorten *s)
{
	nghttp2_session *session = session_new(told);
	ssize_t n;

	h2_shorten_init(s);
	while (all.len) {
		struct str in = str_head(all, chunk), piece;

		all = str_skip(all, in.len);
		while ((piece = h2_shorten_next(s, &in)).len)
			buf_str(passed, piece);
		assert_int_equal(in.len, 0);
	}
	n = nghttp2_session_mem_recv(session, (const uint8_t *)passed->ptr, passed->len);
	if (n != (ssize_t)passed->len)
		fail_msg("nghttp2 says %zd after:\n%.*s", n, (int)told->len, told->ptr);
	nghttp2_session_del(session);
}

static nghttp2_nv field(const char *name, const char *value, size_t name_len, size_t value_len)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len,
			     value_len, 0 };
}

static const struct {
	size_t name_len, value_len; /* of the third request's field; name 0 = "x-long" */
	bool huffman;               /* letters that Huffman's code makes shorter */
	uint8_t flags;
	uint64_t want_shortened;
} cases[] = {
	{ 0, 10, true, 0, 0 },
	{ 0, 126, false, 0, 0 },
	{ 0, 127, false, 0, 0 },
	{ 0, 60000, false, 0, 0 },
	{ 0, 65536, false, 0, 0 },
	{ 0, 65537, false, 0, 1 },
	{ 0, 65537, false, NGHTTP2_NV_FLAG_NO_INDEX, 1 },
	{ 0, 66000, true, 0, 0 }, /* its code is shorter than the limit */
	{ 0, 81920, false, 0, 1 },
	{ 0, 131072, false, 0, 1 },
	{ 0, 200000, true, 0, 1 },
	{ 0, 1000000, false, 0, 1 },
	{ 70000, 10, false, 0, 1 },
	{ 70000, 30000, false, 0, 1 },
};

static void run_case(size_t c, const char *bytes, size_t chunk, uint32_t seed, uint32_t first_most)
{
	AUTO(buf_release) struct buf told = { 0 }, want = { 0 }, passed = { 0 };
	size_t name_len = cases[c].name_len ? cases[c].name_len : 6, value_len = cases[c].value_len;
	struct wire w = { .chance = seed };
	struct h2_shorten s;

	buf_append(&w.bytes, magic, sizeof(magic) - 1);
	put_frame(&w, NGHTTP2_SETTINGS, 0, 0, STR(""));
	assert_int_equal(nghttp2_hd_deflate_new(&w.deflater, 4096), 0);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		nghttp2_nv nv[3] = { field("x-every", "every request's", 7, 15) };
		size_t count = 1;

		if (i == 2) {
			nv[count] = field(cases[c].name_len ? bytes : "x-long",
					  bytes + (cases[c].huffman ? 2000000 : 0), name_len,
					  value_len);
			nv[count++].flags = cases[c].flags;
		}
		nv[count++] = field("x-number", "0123456789" + i, 8, 1);
		put_request(&w, 2 * i + 1, nv, count, first_most);
		put_frame(&w, NGHTTP2_PING, 0, 0, STR("12345678"));
	}
	tell(&told, &passed, buf_view(&w.bytes), chunk, &s);
	if (s.shortened != cases[c].want_shortened)
		fail_msg("case %zu chunk %zu seed %u: %d strings shortened", c, chunk, seed,
			 (int)s.shortened);
	if (!s.shortened)
		assert_true(str_equal(buf_view(&passed), buf_view(&w.bytes)));
	if (str_search(buf_view(&told), STR("11 x-number/8 1 53\n11 frame 1\n")) < 0)
		fail_msg("case %zu chunk %zu seed %u: out of step:\n%.*s", c, chunk, seed,
			 (int)told.len, told.ptr);
	buf_printf(&want, "/%zu %zu ", name_len > H2_STRING_MOST ? H2_STRING_MOST : name_len,
		   value_len > H2_STRING_MOST && s.shortened ? H2_STRING_MOST : value_len);
	if (str_search(buf_view(&told), buf_view(&want)) < 0)
		fail_msg("case %zu chunk %zu seed %u: not told of %.*s:\n%.*s", c, chunk, seed,
			 (int)want.len, want.ptr, (int)told.len, told.ptr);
	nghttp2_hd_deflate_del(w.deflater);
	buf_release(&w.bytes);
}

/* Bytes that make valid names: letters that Huffman's code makes longer, then one it makes shorter.
 */
static char *field_bytes(void)
{
	char *bytes = malloc(4000000);

	assert_non_null(bytes);
	memset(bytes, '~', 2000000);
	memset(bytes + 2000000, 'e', 2000000);
	return bytes;
}

static void test_long_fields(void **state)
{
	static const size_t chunks[] = { 1, 7, 1000, 16393, SIZE_MAX };
	char *bytes = field_bytes();

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(cases); c++)
		for (uint32_t i = 0; i < ARRAY_LEN(chunks); i++)
			run_case(c, bytes, chunks[i], (uint32_t)c * 10 + i, 8000);
	free(bytes);
}

/* A string's length may be cut between two frames: then the string is too late to shorten, and
 * without a long one nothing changes. */
static void test_lengths_between_frames(void **state)
{
	char *bytes = field_bytes();

	(void)state;
	for (uint32_t seed = 0; seed < 400; seed++)
		run_case(seed % 4, bytes, seed % 2 ? 5 : SIZE_MAX, seed, 60);
	free(bytes);
}

/* What is no HTTP/2 goes on as it is. */
static void test_nonsense_passes(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed < 3000; seed++) {
		AUTO(buf_release) struct buf sent = { 0 }, passed = { 0 };
		struct wire w = { .chance = seed };
		struct h2_shorten s;
		struct str in, piece;

		buf_append(&sent, magic, sizeof(magic) - 1);
		for (uint32_t i = 0; i < 300; i++) {
			static const char common[] = "\0\0\0\1\x9\4\x7f\xff\x40\x0f";

			buf_char(&sent, chance(&w, 2) ? common[chance(&w, sizeof(common) - 1)]
						      : (char)chance(&w, 256));
		}
		h2_shorten_init(&s);
		in = buf_view(&sent);
		while ((piece = h2_shorten_next(&s, &in)).len)
			buf_str(&passed, piece);
		assert_int_equal(in.len, 0);
		buf_append(&passed, s.held,
			   s.frame ? s.held_len : 0); /* a head is held as a copy */
		if (!s.shortened && !str_equal(buf_view(&sent), buf_view(&passed)))
			fail_msg("seed %u", seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_fields),
		cmocka_unit_test(test_lengths_between_frames),
		cmocka_unit_test(test_nonsense_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
