/*
 * server_internal.h - what the server's files share: app, listener, connection, request, answer.
 *
 *	listener.c   accepts, spreads connections over loops, drains
 *	conn.c       one connection: sniffs the protocol, times, memory pressure
 *	conn_http1.c, conn_http2.c   the two protocols: bytes <-> requests and answers
 *	request.c    one request: body, decompression, handler
 *	route.c, answer.c, refuse.c  its handler; answers; the server's own answers
 *	grpc_call.c  what is particular to a gRPC call
 *
 * Everything here runs on the connection's loop thread, but for net_reply_*() up to the post in
 *request.c.
 */
#pragma once
#include <stdatomic.h>
#include "net/compress.h"
#include "net/grpc_frame.h"
#include "net/headers.h"
#include "net/net_refusal.h"
#include "net/server.h"
#include "net/stream.h"

enum { HEADER_BYTES_MOST = 64 * 1024 };
#define LINGER_NS (2 * SECOND_NS) /* for the peer to read our last answer */

/* An answer of a handler or of the server itself. Made on any thread, given to the loop. */
struct answer {
	bool grpc;
	int status;                  /* HTTP or gRPC */
	struct header_list headers;  /* HTTP: without content-length and connection */
	struct buf body;             /* HTTP: as it goes out; gRPC: framed messages */
	size_t body_at;              /* what of it the protocol has taken */
	struct buf message, details; /* gRPC: encoded for grpc-message, grpc-status-details-bin */
	bool accept_encoding;        /* gRPC: say which encodings we take */
	bool open;                   /* a stream: more may come */
	bool head_sent;              /* HTTP/1.1, open */
};
struct answer *answer_new(void);
/* The body is copied, or compressed when large and the client takes that. */
struct answer *answer_http(const struct net_request *r, int status,
			   const struct net_header *headers, size_t count, struct str body);
struct answer *answer_grpc(int grpc_status, struct str message, struct str details);
void answer_free(struct answer *a);

/* A gRPC method that streams: health's Watch and reflection. Callbacks on the loop's thread. */
struct grpc_stream_method {
	void (*message)(struct net_request *r, struct str message, void *ctx);
	void (*ended)(struct net_request *r, void *ctx); /* the client sends no more */
	void (*closed)(struct net_request *r,
		       void *ctx); /* last; r->stream_state is yours to free */
	void *ctx;
};
void grpc_stream_send(struct net_request *r, struct str message);
void grpc_stream_finish(struct net_request *r, int grpc_status, struct str message);

struct route {
	char *method; /* NULL = any */
	char *path;
	char *content_types;
	size_t path_len;
	bool prefix;
	struct net_handler handler;
};

struct grpc_method {
	char *path;
	struct net_handler handler;
	const struct grpc_stream_method *stream; /* instead of handler */
};

struct app_metrics {
	struct metric *connections, *connections_total, *requests[3], *refused[REFUSED_COUNT],
		*late[LATE_COUNT];
};

struct grpc_health;
struct grpc_reflection;

struct net_app {
	atomic_uint refs; /* of the owner, of each request */
	struct net_app_options options;
	struct route *routes;
	struct grpc_method *methods;
	uint32_t route_count, method_count;
	struct net_handler grpc_fallback;
	struct grpc_health *health;
	struct grpc_reflection *reflection;
	struct app_metrics metrics;
	atomic_uint connections;
};
void app_unref(struct net_app *app);
void app_add_method(struct net_app *app, const char *path, struct net_handler handler,
		    const struct grpc_stream_method *stream);
const struct grpc_method *app_find_method(const struct net_app *app, struct str path);
void app_count_refusal(struct net_app *app, enum net_refusal reason);
void app_count_late(struct net_app *app, enum net_late reason);
void health_free(struct grpc_health *h);
void reflection_free(struct grpc_reflection *r);

/* A body while it comes in. */
struct body_in {
	struct blob *blob; /* NULL until the first byte */
	size_t announced;  /* SIZE_MAX = unknown */
};

struct net_request {
	struct net_task task;            /* first: brings an answer from another thread */
	struct net_app *app;             /* counted */
	struct net_loop *loop;           /* counted */
	struct conn *conn;               /* NULL once the connection or stream is gone */
	struct net_request *prev, *next; /* of the connection's */
	enum net_transport transport;
	struct header_list headers;
	struct str method, path, query;
	char peer[64];
	int32_t stream_id; /* HTTP/2 */
	bool headers_too_large;
	bool handed;          /* the handler has it and owes an answer */
	bool body_done;       /* the whole request was read, or nothing more of it matters */
	bool expired;         /* answered DEADLINE_EXCEEDED by the server */
	enum net_late gone;   /* why there is no connection any more */
	atomic_bool detached; /* `conn` is NULL, for other threads */
	atomic_bool hung_up;  /* detached, or the peer sends no more */
	bool no_body;         /* HEAD */
	bool submitted;       /* HTTP/2: the answer has begun */
	bool reset;           /* HTTP/2: given up, the stream is about to close */
	uint64_t deadline_ns; /* 0 = none */
	uint64_t moved_ns;    /* when the last byte of the request came, or of the answer went */
	struct body_in body;
	enum compression compression;
	struct net_handler handler;
	struct answer *answer;         /* what is being sent */
	struct answer *handler_answer; /* on its way to the loop */
	/* gRPC */
	struct grpc_frame_reader frames;
	unsigned message_count;
	const struct grpc_stream_method *stream;
	void *stream_state;
	struct net_events *events; /* NULL once closed */
};
/* The peer has taken what was sent: what waited for that goes out next. On the loop's thread. */
void events_drained(struct net_events *e);
/* The connection or stream is gone. */
void events_gone(struct net_events *e);

enum conn_phase {
	CONN_TLS,     /* until the handshake is done */
	CONN_HEAD,    /* a request's head is due */
	CONN_IDLE,    /* between requests */
	CONN_BODY,    /* a request's body is due */
	CONN_RUNNING, /* handlers run */
	CONN_LINGER,  /* the last answer is out */
};

struct conn;
struct conn_protocol {
	void (*data)(struct conn *c, struct str bytes);
	void (*ended)(struct conn *c);
	void (*drained)(struct conn *c);
	/* r->answer is set, or has grown (streams). */
	void (*answer)(struct conn *c, struct net_request *r);
	/* Ends gracefully once what runs is done; again is fine. */
	void (*drain)(struct conn *c);
	/* The phase's time is over. */
	void (*timeout)(struct conn *c);
	/* Of the timer; lowers *next to when it wants to be called again. May be NULL. */
	void (*tick)(struct conn *c, uint64_t now_ns, uint64_t *next_ns);
	void (*release)(struct conn *c);
};

struct listener_loop {
	struct net_loop *loop;
	struct net_listener *listener;
	struct conn *conns; /* loop's thread only */
};

struct conn {
	struct net_stream stream; /* first */
	struct net_task task;     /* brings it to its loop */
	struct conn *prev, *next; /* of its listener_loop */
	struct listener_loop *home;
	struct net_app *app; /* lives as long as the listener */
	int fd;              /* until the stream has it */
	uv_timer_t timer;
	bool timer_closed, stream_closed;
	uint64_t wake_ns; /* when the timer is set to, 0 = not */
	enum conn_phase phase;
	uint64_t deadline_ns;   /* of the phase; 0 = none */
	uint64_t held_since_ns; /* reading waits for memory; 0 = not */
	bool hold_spent;        /* waited long enough: read on and refuse */
	bool draining;
	uint64_t stalled_since_ns; /* the peer takes nothing of our output; 0 = not so */
	uint64_t stalled_at_bytes; /* of stream.sent_bytes */
	char peer[64];
	const struct conn_protocol *protocol; /* NULL until sniffed */
	union {
		struct http1 *http1;
		struct http2 *http2;
	};
	unsigned char sniffed[24];
	unsigned sniffed_len;
	struct net_request *requests;
	unsigned request_count;
};
void conn_start(struct conn *c); /* on its loop */
void conn_set_phase(struct conn *c, enum conn_phase phase);
void conn_wake_at(struct conn *c, uint64_t monotonic_ns);
void conn_written(struct conn *c);          /* after writing: watches that the peer takes it */
uint64_t conn_now_ns(const struct conn *c); /* the loop's cached monotonic clock */
void conn_close(struct conn *c);
void conn_drain(struct conn *c);
void listener_conn_closed(struct listener_loop *home);

void http1_start(struct conn *c);
void http2_start(struct conn *c);

/* Requests, as the protocols drive them. */
struct net_request *request_new(struct conn *c, enum net_transport transport);
/* The head is complete. May answer at once. `length` SIZE_MAX = unknown. */
void request_begin(struct net_request *r, size_t length);
void request_data(struct net_request *r, struct str bytes);
void request_complete(struct net_request *r);
/* The protocol is done with it (sent whole or not) or its connection is gone. */
void request_detach(struct net_request *r, bool sent);
void request_free_if_done(struct net_request *r);
/* The server's own answer. */
void request_refuse(struct net_request *r, enum net_refusal reason, int http_status,
		    int grpc_status, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* 405 over HTTP, with the methods that the path has: "GET, POST". */
void request_refuse_method(struct net_request *r, struct str allow, struct str message);
void request_refuse_retry(struct net_request *r, const char *message); /* no memory */
void request_expire(struct net_request *r);
void request_answer(struct net_request *r,
		    struct answer *a); /* takes a over; on the loop's thread */
void request_reply(struct net_request *r, struct answer *a); /* the handler's; any thread */
bool route_request(struct net_request *r); /* sets the handler; false: refused, r may be gone */
size_t request_limit(const struct net_request *r);

enum body_verdict { BODY_OK, BODY_TOO_LARGE, BODY_NO_MEMORY };
enum body_verdict body_append(struct body_in *b, struct str bytes, size_t limit,
			      struct budget *budget);
/* The bytes so far as a blob, never NULL; the caller owns it. */
struct blob *body_take(struct body_in *b);

/* gRPC's part of a request. */
void grpc_begin(struct net_request *r);
void grpc_data(struct net_request *r, struct str bytes);
void grpc_complete(struct net_request *r);
