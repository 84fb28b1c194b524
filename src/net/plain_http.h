/*
 * plain_http.h - call after call on one connection to an http:// server: POST, and its answer.
 *
 * For who asks often and waits for it: no thread and no library. What it lacks (TLS, proxies, HTTP
 * compression, calls that must not be made twice) client.h has. A call is begun and ended apart, so
 * that those of several connections run side by side.
 *
 * The connection is kept; when it turns out to have died meanwhile, the call is made once more on a
 * new one. Threads: one.
 * Source: RFC 9112.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "net/client.h"

struct plain_http_options {
	const char *url; /* "http://host:8123/"; what follows the host is left out */
	const struct client_header *headers; /* borrowed, as `stopped` and `arg` */
	uint32_t header_count;
	uint64_t connect_timeout_ns, timeout_ns; /* of each call */
	size_t answer_most_bytes;
	bool (*stopped)(const void *arg); /* is asked ten times a second */
	const void *arg;
};

/* Whether it would do for that URL in this environment: http:// and no proxy. */
bool plain_http_can(const char *url);

struct plain_http;
/* Connects with the first call. ERR_INVALID: the URL. */
struct plain_http *plain_http_new(const struct plain_http_options *options,
				  struct err *err) MUST_CHECK;
void plain_http_free(struct plain_http *c); /* NULL is fine */
/* `target`: "/?a=b", encoded. */
bool plain_http_begin(struct plain_http *c, struct str target, struct str body,
		      struct err *err) MUST_CHECK;
/*
 * Waits for what was begun. `answer` is reset first, and gets the body, of an error's too. Kinds of
 * err: UNAVAILABLE (no answer, or none that is HTTP, in time), LIMIT, CANCELLED: stopped.
 */
bool plain_http_end(struct plain_http *c, int *status, struct buf *answer,
		    struct err *err) MUST_CHECK;
/* What was begun is not wanted any more. */
void plain_http_drop(struct plain_http *c);
