/*
 * server.h - a listening address that speaks HTTP/1.1, HTTP/2 (preface or ALPN) and gRPC, plain or
 * over TLS.
 *
 * One app (routes and gRPC methods) may be served by several listeners. A request's body is
 * collected, decompressed and charged to the loops' budget before its handler runs; the handler
 * answers then or later, from any thread. Limits: headers 64 KiB, connections and streams bounded,
 * idle and slow connections closed. Refusals before a handler (413, 431, 503, RESOURCE_EXHAUSTED,
 * ...) are answered by the server in the protocol's form and counted by reason.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/blob.h"
#include "base/err.h"
#include "base/metrics.h"
#include "base/str.h"
#include "net/loops.h"
#include "net/tls.h"

struct net_app;
struct net_listener;
struct net_request; /* one HTTP request or gRPC call, until answered */

enum net_transport { NET_HTTP1, NET_HTTP2, NET_GRPC };

/* The handler owns `body` (decompressed, never NULL; gRPC: the one message, de-framed) and must
 * call exactly one of the net_reply_*() functions for r, then or later, from any thread. Runs on
 * the connection's loop thread. */
struct net_handler {
	void (*handle)(struct net_request *r, struct blob *body, void *ctx);
	void *ctx;
};

struct net_app_options {
	size_t max_body_bytes;         /* of a decompressed HTTP body or gRPC message; 0 = 64 MiB */
	uint64_t retry_hint_ns;        /* what a refusal for lack of memory suggests; 0 = 1 s */
	uint64_t keepalive_time_ns;    /* server pings on idle h2 connections; 0 = 2 h as grpc-go */
	uint64_t keepalive_timeout_ns; /* how long a ping may stay unanswered; 0 = 20 s */
	uint64_t header_timeout_ns;    /* 0 = 10 s */
	uint64_t
		progress_timeout_ns; /* a body or an answer of which not one byte moves; 0 = 30 s */
	uint64_t idle_timeout_ns;    /* HTTP/1.1 and h2 without streams; 0 = 15 min */
	uint32_t max_concurrent_streams; /* 0 = 100 */
	uint32_t max_connections;        /* of the app; 0 = 4096; further ones are closed at once */
	/* Counters, see below; may be NULL; outlives the app and the last answer:
	 * flametap_net_connections                       open now
	 * flametap_net_connections_total                 accepted so far
	 * flametap_net_requests_total{transport}         http1, http2, grpc: whose head was read
	 * flametap_net_refused_total{reason}             what the server itself refused; the
	 * reasons are in net_refusal.c flametap_net_late_replies_total{reason}        answers that
	 * nobody took: peer_gone, deadline, closed */
	struct metrics *metrics;
	/* Told of each connection that ends before its first request because one side speaks TLS
	 * and the other does not, or does not trust it. On a loop thread; may be NULL. */
	void (*handshake_failed)(const char *peer, const struct err *why);
	/* Encodes an error of the server's own into a body for this request (google.rpc.Status);
	 * NULL = text/plain. */
	void (*error_body)(struct net_request *r, int http_status, struct str message,
			   struct buf *out, const char **content_type);
};

struct net_app *net_app_new(const struct net_app_options *options);
void net_app_free(struct net_app *app); /* after its listeners are closed */
/* method NULL = any (else a wrong one gets 405 with Allow); path exact, or a prefix when it ends in
 * "/": the most specific path decides, of several with that path the method. content_types: comma
 * list of accepted media types or NULL (else 415, text "415 unsupported media type, supported:
 * [...]"). */
void net_app_route(struct net_app *app, const char *method, const char *path,
		   const char *content_types, struct net_handler handler);
/* path: "/package.Service/Method" */
void net_app_grpc_method(struct net_app *app, const char *path, struct net_handler handler);
/* Calls of unknown gRPC methods; default UNIMPLEMENTED "unknown service package.Service". */
void net_app_grpc_fallback(struct net_app *app, struct net_handler handler);
/* Adds grpc.health.v1.Health (Check, List, Watch) and sets what it says. */
void net_app_grpc_health(struct net_app *app, bool serving);
/* Adds grpc.reflection.v1 and v1alpha; files are serialized FileDescriptorProtos, static,
 * dependencies included. */
struct net_proto_file {
	const char *name;
	struct str descriptor;
};
void net_app_grpc_reflection(struct net_app *app, const struct net_proto_file *files, size_t count);

/* What goes wrong between a request and its answer is counted by flametap_net_refused_total; a
 * request that was handed to a handler always gets its answer, or the answer is counted as late. */

/* "host:port", "[::1]:4317", ":4317" (all addresses), "localhost:0", "unix:///path". ERR_BUSY names
 * the port and, where /proc tells, its holder (pid and name). */
struct net_listener *net_listen(struct net_loops *loops, struct net_app *app, const char *address,
				struct tls_context *tls, struct err *err) MUST_CHECK;
/* The bound address with the real port. */
const char *net_listener_address(const struct net_listener *l);
/* Stops accepting, sends GOAWAY / Connection: close, lets running requests finish until the
 * deadline (monotonic), then closes. Blocks. */
/* NULL is fine. */
void net_listener_close(struct net_listener *l, uint64_t deadline_ns);

/* What a request says. Valid until it is answered. Header names in lower case. */
enum net_transport net_request_transport(const struct net_request *r);
struct str net_request_method(const struct net_request *r);
struct str net_request_path(const struct net_request *r); /* without the query */
struct str net_request_query(const struct net_request *r);
struct str net_request_header(const struct net_request *r,
			      const char *name);            /* first one; ptr NULL when absent */
bool net_request_accepts_gzip(const struct net_request *r); /* RFC 9110, 12.5.3 */
const char *net_request_peer(const struct net_request *r);  /* "127.0.0.1:51234" */
uint64_t net_request_deadline_ns(
	const struct net_request *r); /* monotonic; from grpc-timeout; 0 = none */
/* True once nobody waits for the answer any more; it must be given all the same. Any thread. */
const atomic_bool *net_request_gone(const struct net_request *r);
/* As net_request_gone(), and also once an HTTP/1.1 peer has ended its side: nearly always it hung
 * up, though it may still read. For answers that take long and that nobody would miss. Any thread.
 */
const atomic_bool *net_request_hung_up(const struct net_request *r);
struct net_loop *net_request_loop(const struct net_request *r);

struct net_header {
	const char *name;
	struct str value;
};
/* HTTP answer; body is copied (or compressed when large and the client accepts gzip). */
void net_reply_http(struct net_request *r, int status, const struct net_header *headers,
		    size_t count, struct str body);
/*
 * A HTTP answer that goes on until one side ends it (server-sent events): the head goes out at
 * once, then what net_events_send() is given. Counts as the request's reply. Any thread, one at a
 * time; net_events_close() ends and frees it and must be called, also once the client has gone.
 */
struct net_events;
struct net_events *net_reply_events(struct net_request *r, const struct net_header *headers,
				    size_t count);
/* Text that has not gone out when the next is sent is replaced by it: a slow client sees the latest
 * state. False: the client has gone. */
bool net_events_send(struct net_events *e, struct str text);
/* Text that goes out in order, behind what waits. NET_EVENTS_FULL: that and it would be more than
 * `most` bytes, and it is not sent: whoever reads so slowly is best sent the latest state. */
enum net_events_fate { NET_EVENTS_SENT, NET_EVENTS_FULL, NET_EVENTS_GONE };
enum net_events_fate net_events_append(struct net_events *e, struct str text, size_t most);
void net_events_close(struct net_events *e);

/* gRPC answers. details: a serialized google.rpc.Status for grpc-status-details-bin, or empty. */
void net_reply_grpc(struct net_request *r, struct str message);
void net_reply_grpc_error(struct net_request *r, int grpc_status, struct str message,
			  struct str details);

/* gRPC status codes (grpc/status.h names). */
enum {
	GRPC_OK = 0,
	GRPC_CANCELLED,
	GRPC_UNKNOWN,
	GRPC_INVALID_ARGUMENT,
	GRPC_DEADLINE_EXCEEDED,
	GRPC_NOT_FOUND,
	GRPC_ALREADY_EXISTS,
	GRPC_PERMISSION_DENIED,
	GRPC_RESOURCE_EXHAUSTED,
	GRPC_FAILED_PRECONDITION,
	GRPC_ABORTED,
	GRPC_OUT_OF_RANGE,
	GRPC_UNIMPLEMENTED,
	GRPC_INTERNAL,
	GRPC_UNAVAILABLE,
	GRPC_DATA_LOSS,
	GRPC_UNAUTHENTICATED,
};
