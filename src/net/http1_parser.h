/*
 * http1_parser.h - HTTP/1.1 messages as pure functions over bytes (RFC 9112): the head at once,
 * then chunks.
 *
 * Strict where leniency lets two parsers disagree (request smuggling): no bare CR, no space before
 * a colon, no folded lines, no Transfer-Encoding beside Content-Length, only "chunked", one
 * Content-Length. Memory: nothing is kept; what is found points into the input. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"

enum { HTTP1_HEAD_BYTES_MOST = 64 * 1024, HTTP1_HEADERS_MOST = 256 };

struct http1_header {
	struct str name, value; /* the name as it came; the value trimmed */
};

struct http1_head {
	struct str method, target;
	unsigned minor; /* of HTTP/1.minor: 0 or 1 */
	struct http1_header headers[HTTP1_HEADERS_MOST];
	unsigned header_count;
	bool has_length, chunked; /* at most one of them */
	uint64_t content_length;
	bool keep_alive, expect_continue;
	bool bad_expect; /* an Expect that is not 100-continue: 417 */
};

enum http1_result {
	HTTP1_OK,
	HTTP1_MORE,           /* not all there yet */
	HTTP1_BAD,            /* 400 */
	HTTP1_TOO_LARGE,      /* 431 */
	HTTP1_BAD_VERSION,    /* 505 */
	HTTP1_UNKNOWN_CODING, /* 501: a Transfer-Encoding that is not chunked */
};

/* On HTTP1_OK *used is the length of the head with its empty line. Otherwise *why says what is
 * wrong. Empty lines before the head are skipped (RFC 9112, 2.2). `in` may hold more than the head.
 */
enum http1_result http1_parse_head(struct str in, struct http1_head *head, size_t *used,
				   const char **why);

/* Whether `in` may hold a whole head; looks only at what came since the last call (*scanned, 0 at
 * first), so that a head that drips in byte by byte costs no more than one that comes at once. */
bool http1_head_is_whole(struct str in, size_t *scanned);

/* The value of a field in a head that may be malformed, cut short or too large: for the form of the
 * answer to what http1_parse_head() refuses, nothing else. `name` in lower case; ptr NULL when it
 * is not there or holds what no value may. */
struct str http1_find_field(struct str head, struct str name);

/* A chunked body, fed piece by piece. */
struct http1_chunked {
	enum {
		CHUNK_SIZE,
		CHUNK_EXTENSION,
		CHUNK_SIZE_LF,
		CHUNK_DATA,
		CHUNK_DATA_CR,
		CHUNK_DATA_LF,
		CHUNK_TRAILER_START,
		CHUNK_TRAILER,
		CHUNK_TRAILER_LF,
		CHUNK_END_LF,
		CHUNK_DONE,
	} state;
	uint64_t left;           /* of the chunk */
	uint32_t digits;         /* of the size being read */
	uint32_t overhead_bytes; /* extensions and trailers so far; limited */
};

/* Takes from *in; *data is body, maybe empty. HTTP1_OK: the body has ended, *in is what follows.
 * HTTP1_MORE: call again while *in is not empty. */
enum http1_result http1_chunked_next(struct http1_chunked *c, struct str *in, struct str *data,
				     const char **why);
