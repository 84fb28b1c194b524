/* net_refusal.h - why the server itself refuses, closes or drops: the reasons of its counters, for
 * docs/metrics/receiving.md. */
#pragma once

enum net_refusal {
	REFUSED_CONNECTIONS, /* more connections than max_connections: closed at once */
	REFUSED_FILES,       /* no file descriptor left for a new connection: closed at once */
	REFUSED_TLS,         /* the TLS handshake failed */
	REFUSED_BAD_REQUEST, /* 400: malformed HTTP/1.1 */
	REFUSED_VERSION,     /* 505 */
	REFUSED_HEADERS_TOO_LARGE, /* 431 */
	REFUSED_HEAD_TIMEOUT,      /* 408: no complete head in time */
	REFUSED_BODY_TIMEOUT,      /* 408 / DEADLINE_EXCEEDED: a body that stopped coming */
	REFUSED_BODY_CUT,          /* the peer went away in the middle of its body */
	REFUSED_NOT_FOUND,         /* 404 */
	REFUSED_METHOD,            /* 405 */
	REFUSED_MEDIA_TYPE,        /* 415 */
	REFUSED_ENCODING,       /* 415 / UNIMPLEMENTED: unknown content-encoding or grpc-encoding */
	REFUSED_EXPECTATION,    /* 417 */
	REFUSED_UNKNOWN_METHOD, /* UNIMPLEMENTED */
	REFUSED_TOO_LARGE,      /* 413 / RESOURCE_EXHAUSTED, by what was announced, received or
				   decompressed */
	REFUSED_BAD_COMPRESSION, /* 400 / INTERNAL: the body does not decompress */
	REFUSED_BAD_FRAME,       /* INTERNAL: gRPC framing */
	REFUSED_NO_MEMORY, /* 503 / UNAVAILABLE with a retry hint: -max-inflight-mib is spent */
	REFUSED_DEADLINE,  /* DEADLINE_EXCEEDED */
	REFUSED_ABUSE,     /* HTTP/2: floods of resets, pings, settings, empty frames...: GOAWAY */
	REFUSED_PROTOCOL,  /* HTTP/2: frames that break the protocol */
	REFUSED_STALLED,   /* the peer does not read our answer, or does not answer our ping */
	REFUSED_COUNT,
};
const char *net_refusal_name(enum net_refusal reason);

/* Answers of handlers that nobody took. */
enum net_late {
	LATE_PEER_GONE, /* connection closed or stream reset before the answer was sent */
	LATE_DEADLINE,  /* grpc-timeout was over, the client has been told so */
	LATE_CLOSED,    /* our own drain deadline was over */
	LATE_COUNT,
};
const char *net_late_name(enum net_late reason);
