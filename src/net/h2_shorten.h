/*
 * h2_shorten.h - cuts very long header fields of an HTTP/2 peer before nghttp2 sees them.
 *
 * nghttp2 ends the connection, and so every call on it, at a name or value of more than 65,536
 * bytes (as it is on the wire); the limit is compiled in. Such a request is to get its own answer
 * (431, RESOURCE_EXHAUSTED) and the others are to go on. So a string's length is rewritten in place
 * to 65,536, and what is past that is left out of the CONTINUATION frames that it comes in: still
 * more than the 64 KiB of headers that a request may have. A Huffman-coded string becomes a plain
 * one (cut, its code would not end well): nobody reads it. The decoders stay in step: an entry of
 * this size empties the peer's dynamic table as it would have, uncut (RFC 7541, 4.4).
 *
 * Bytes of a connection that never sends such a field are passed on untouched, in one piece for
 * each call. What is no HTTP/2 is passed on as it is, for nghttp2 to refuse.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

enum { H2_STRING_MOST = 65536, H2_HELD_MOST = 9 };

struct h2_shorten {
	uint64_t shortened; /* strings so far */

	/* A frame's head or a string's length, not passed on yet. */
	uint8_t held[H2_HELD_MOST];
	uint8_t held_len;
	uint8_t frame, step; /* enums of h2_shorten.c */
	uint8_t flags, strings_due, length_bytes;
	bool length_sent; /* the length went out with the frame before: too late to change it */
	bool gave_up;
	uint32_t length;
	uint32_t skip;       /* to pass on before the next step of the frame */
	uint32_t block, pad; /* of this frame: bytes of the header block, of padding */
	uint32_t pass, cut;  /* of the string coming in: bytes to pass on, then to leave out */
};

void h2_shorten_init(struct h2_shorten *s);
/*
 * The next piece for nghttp2, taken from the front of *in; empty once *in is used up. A piece
 * points into *in or into *s and is valid until the next call.
 */
struct str h2_shorten_next(struct h2_shorten *s, struct str *in);
