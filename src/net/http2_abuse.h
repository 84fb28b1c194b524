/*
 * http2_abuse.h - counts what an HTTP/2 peer may do too often, as pure functions of frames and
 * time.
 *
 * Each kind has a bucket that a peer's frames fill and time empties. A peer that makes one run over
 * is no client: it gets GOAWAY ENHANCE_YOUR_CALM. Work done for the peer (an answer sent) empties
 * the buckets of frames that honest peers send in step with answers. nghttp2 1.52 has limits of its
 * own only for queued acknowledgements.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum http2_glitch {
	GLITCH_RESET,        /* streams opened and reset: CVE-2023-44487 */
	GLITCH_PING,         /* CVE-2019-9512; grpc peers ping once per answer */
	GLITCH_SETTINGS,     /* CVE-2019-9515 */
	GLITCH_EMPTY,        /* DATA without data and without END_STREAM: CVE-2019-9518 */
	GLITCH_CONTINUATION, /* of one header block: CVE-2024-27316 */
	GLITCH_WINDOW,       /* WINDOW_UPDATE that nothing was sent for */
	GLITCH_OTHER,        /* PRIORITY, unknown types, invalid frames */
	GLITCH_COUNT,
};

struct http2_abuse {
	uint64_t since_ns;
	uint32_t level[GLITCH_COUNT];
};

/* True: too much. */
bool http2_abuse_note(struct http2_abuse *a, enum http2_glitch kind, uint64_t now_ns);
/* An answer went out. */
void http2_abuse_worked(struct http2_abuse *a);
void http2_abuse_header_block(struct http2_abuse *a); /* a new one begins */
/* What the peer did, and how much of it is allowed: for the GOAWAY's debug data. */
const char *http2_abuse_text(enum http2_glitch kind);
