/*
 * grpc_frame.h - the server's small texts and frames of gRPC (grpc/doc/PROTOCOL-HTTP2.md), as pure
 * functions.
 *
 * A message on the wire:  compressed:1 (0 or 1)  length:4 big endian  length bytes
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/str.h"

enum { GRPC_PREFIX_BYTES = 5 };

struct grpc_frame_reader {
	unsigned char prefix[GRPC_PREFIX_BYTES];
	unsigned have; /* bytes of the prefix */
	bool compressed;
	uint32_t len; /* of the message; once have is GRPC_PREFIX_BYTES */
	uint32_t got;
};

enum grpc_frame_event {
	GRPC_FRAME_MORE,  /* *in is used up */
	GRPC_FRAME_BEGIN, /* compressed and len are known */
	GRPC_FRAME_DATA,  /* *piece is part of the message */
	GRPC_FRAME_END,   /* the message is whole; the next byte begins another */
	GRPC_FRAME_BAD,   /* a flag that is neither 0 nor 1 */
};
enum grpc_frame_event grpc_frame_next(struct grpc_frame_reader *r, struct str *in,
				      struct str *piece);
/* False: the bytes so far end inside a message. */
bool grpc_frame_at_boundary(const struct grpc_frame_reader *r);
void grpc_frame_append(struct buf *out, struct str message);

/* "5000000u": at most 8 digits and one of H M S m u n. */
bool grpc_timeout_parse(struct str text, uint64_t *out_ns);
/* grpc-message: bytes outside of 0x20..0x7e and '%' as %XX. Cut at 4 KiB. */
void grpc_message_encode(struct buf *out, struct str text);
/* "-bin" metadata: base64 without padding. */
void grpc_base64_encode(struct buf *out, struct str bytes);
/* A google.rpc.Status with one google.rpc.RetryInfo among its details. */
void grpc_status_with_retry(struct buf *out, int grpc_status, struct str message,
			    uint64_t retry_ns);
