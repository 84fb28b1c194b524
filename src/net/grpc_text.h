/*
 * grpc_text.h - the small texts of gRPC over HTTP/2: status names, percent-encoded messages, binary
 * metadata, timeouts.
 *
 * Source: grpc/doc/PROTOCOL-HTTP2.md, http-grpc-status-mapping.md, statuscodes.md. Threads: no
 * state.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/str.h"

/* "UNAVAILABLE"; "UNKNOWN CODE" for a number that gRPC does not have. */
const char *grpc_status_name(int status);
/* What an answer that is no gRPC means; never GRPC_OK. */
int grpc_status_from_http(int http_status);
/* What a stream reset with an HTTP/2 error code means. */
int grpc_status_from_h2_error(uint32_t error_code);

/* grpc-message: %XX decoded; a broken escape stays as it is, as the specification demands. */
void grpc_message_decode(struct buf *out, struct str text);
enum { GRPC_TIMEOUT_ROOM = 16 };
/* grpc-timeout: at most 8 digits and the finest unit that holds them, rounded up: 5 s is
 * "5000000u". */
void grpc_timeout_format(char out[GRPC_TIMEOUT_ROOM], uint64_t timeout_ns);
