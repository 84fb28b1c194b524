/*
 * grpc_response.h - what a peer answers to one unary gRPC call, put together header by header and
 * byte by byte.
 *
 * HTTP/2 headers or trailers, then at most one message:
 *   | compressed: 1 byte | length: 4 bytes, big endian | message |
 * An answer that is no gRPC (a proxy's 502, a web server's 404) is kept as text, its first KiB.
 * Source: grpc/doc/PROTOCOL-HTTP2.md. Memory: own buffers, bounded. Threads: one.
 */
#pragma once
#include "base/buf.h"
#include "net/client.h"

struct grpc_response {
	size_t limit_bytes; /* of the message, decompressed too */
	int http_status;    /* 0 until headers came */
	bool is_grpc;       /* by content-type */
	bool has_status;
	int status;
	struct buf message; /* grpc-message, decoded */
	struct buf details; /* grpc-status-details-bin, decoded */
	char content_type[64];
	enum compression encoding;
	char encoding_name[32]; /* "" = identity */
	bool encoding_known;
	uint8_t prefix[5];
	unsigned prefix_len;
	uint32_t message_len;
	struct buf body; /* the message, or the text of a peer that speaks no gRPC */
	struct blob *decompressed;
	int fault; /* a gRPC status when the peer broke the protocol or a limit; 0 = none */
	char fault_text[200];
};

void grpc_response_init(struct grpc_response *r, size_t limit_bytes);
void grpc_response_release(struct grpc_response *r);
void grpc_response_header(struct grpc_response *r, struct str name, struct str value);
/* False once the peer broke the protocol or a limit: the stream is to be reset. */
bool grpc_response_data(struct grpc_response *r, struct str bytes);
/*
 * The stream is closed, by the peer or by a reset with this HTTP/2 error code. `out` borrows from
 * r. A status OK without a message is taken as an empty message: what the peer says it did counts.
 */
void grpc_response_finish(struct grpc_response *r, uint32_t h2_error_code,
			  struct client_result *out);
