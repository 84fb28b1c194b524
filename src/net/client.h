/*
 * client.h - outgoing calls: gRPC over HTTP/2 (own, on a loop) and plain HTTP (libcurl, loaded on
 * first use).
 *
 * Each client keeps one connection to its endpoint, reconnects with DNS looked up anew, pings when
 * asked, and obeys GOAWAY. Calls are asynchronous: `done` runs exactly once on the client's loop
 * thread, also on timeout, cancel and close. Retry is the caller's business (pipeline/sender.h); a
 * call that never reached the peer says so (`sent` false).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/blob.h"
#include "base/err.h"
#include "base/str.h"
#include "net/compress.h"
#include "net/loops.h"
#include "net/tls.h"

struct client_header {
	const char *name, *value;
};

struct client_result {
	bool ok;         /* gRPC status OK / HTTP 2xx */
	bool sent;       /* the request may have reached the peer */
	int grpc_status; /* gRPC only */
	int http_status; /* HTTP: its status; gRPC: of a peer that answered no gRPC; 0 = no answer
			  */
	struct str message; /* grpc-message decoded, or what went wrong; valid during done() */
	struct str details; /* grpc-status-details-bin decoded, or the HTTP body of an error; during
			       done() */
	struct str body;    /* the response message; during done() */
	uint64_t retry_after_ns; /* HTTP Retry-After; 0 = none */
};

struct client_call {
	void (*done)(struct client_call *call, const struct client_result *result);
	void *ctx;
	void *internal;
};

struct grpc_client;
struct grpc_client_options {
	const char *endpoint; /* "host:port", "http://host:port", "https://…", "dns:///host:port",
				 "unix:///path" */
	struct tls_context *tls; /* NULL = plain */
	enum compression compression;
	int compression_level;               /* 0 = the default */
	const struct client_header *headers; /* metadata of each call; copied. Values of names in
						"-bin" are base64 already */
	uint32_t header_count;
	const char *authority, *user_agent; /* NULL = from the endpoint, "flametap/VERSION" */
	uint64_t connect_timeout_ns;        /* 0 = 5 s */
	uint64_t keepalive_time_ns, keepalive_timeout_ns; /* 0 = no pings; 20 s */
	bool keepalive_without_calls;                     /* pings also while no call runs */
	bool wait_for_ready; /* calls outlast failed connects, until their timeout; else they fail
				at once */
	uint64_t reconnect_min_ns,
		reconnect_max_ns;  /* pause after a failed connect, growing; 0 = 1 s, 5 s */
	size_t max_response_bytes; /* 0 = 4 MiB */
};
/* Connects with the first call. ERR_INVALID: the endpoint or a header; ERR_UNSUPPORTED: a
 * compression that gRPC does not know. */
struct grpc_client *grpc_client_new(struct net_loop *loop,
				    const struct grpc_client_options *options,
				    struct err *err) MUST_CHECK;
/* path "/package.Service/Method". `message` is referenced until done. timeout_ns 0 = none. Any
 * thread. */
void grpc_client_call(struct grpc_client *c, const char *path, struct blob *message,
		      uint64_t timeout_ns, struct client_call *call);
/* Fails what runs with CANCELLED, then frees. Blocks until the loop has done so; not from the
 * loop's thread. NULL is fine. When the loop has stopped before, everything was failed then. */
void grpc_client_free(struct grpc_client *c);
/* "idle", "connecting", "ready", "transient failure: connecting to 127.0.0.1:4317: connection
 * refused", for messages. Any thread. */
void grpc_client_state(struct grpc_client *c, char out[160]);

struct http_client;
struct http_client_options {
	struct tls_options tls; /* client side; used for https:// URLs */
	enum compression compression;
	int compression_level;
	const struct client_header *headers; /* copied */
	uint32_t header_count;
	const char *proxy_url;       /* NULL = from the environment, as curl does */
	uint64_t connect_timeout_ns; /* 0 = 5 s */
	size_t max_response_bytes;   /* 0 = 64 KiB */
	uint32_t max_connections;    /* 0 = 100 */
	/* A connection for each call. A call with a body is done once in any case; one without,
	 * on a connection that was used before and died, is repeated by libcurl itself. */
	bool fresh_connections;
};
/* ERR_UNSUPPORTED: libcurl is not installed. ERR_INVALID: a header or a TLS version. Redirects are
 * not followed; HTTP/1.1. */
struct http_client *http_client_new(const struct http_client_options *options,
				    struct err *err) MUST_CHECK;
/* done runs on the client's own thread; the client has let go of the body before. method "POST",
 * "GET"; content_type and body may be NULL.
 * timeout_ns 0 = none. Any thread. */
void http_client_call(struct http_client *c, const char *method, const char *url,
		      const char *content_type, struct blob *body, uint64_t timeout_ns,
		      struct client_call *call);
/* Fails what runs, then frees. Not from done(). NULL is fine. */
void http_client_free(struct http_client *c);
