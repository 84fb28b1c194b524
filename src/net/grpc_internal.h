/*
 * grpc_internal.h - what the files of the gRPC client share: the client, its connection, its calls.
 *
 *   grpc_client.c  the public calls, waiting calls, deadlines, reconnecting
 *   grpc_dial.c    DNS and connect, address by address
 *   grpc_conn.c    one connection's bytes: socket, TLS, keepalive, end
 *   grpc_stream.c  HTTP/2: nghttp2's session, requests out, answers in
 *   grpc_response.c one answer
 *
 * Everything but the public functions runs on the client's loop thread. A client has at most one
 * connection that takes new calls, and those that peers told to go away, until their last call has
 * ended.
 */
#pragma once
#include <netdb.h>
#include <pthread.h>
#include <uv.h>
#include <nghttp2/nghttp2.h>
#include "net/client.h"
#include "net/endpoint.h"
#include "net/grpc_response.h"
#include "net/h2_out.h"
#include "net/loops_internal.h"

struct grpc_call {
	struct net_task task; /* first: brings the call to the loop */
	struct grpc_client *client;
	struct client_call *user; /* NULL once done() was called: the stream may live on until
				     HTTP/2 is through with it */
	char *path;
	struct blob *message;
	bool compressed;
	struct err
		refused; /* the message could not be compressed: said on the loop, as everything */
	uint64_t deadline_ns; /* monotonic; UINT64_MAX = none */
	bool requeued; /* a peer has refused it unprocessed once: it goes out a second time, not a
			  third */

	struct grpc_call *prev, *next; /* in client->waiting or conn->calls */
	struct grpc_conn *conn;        /* NULL while waiting */
	int32_t stream_id;
	bool sent; /* its HEADERS were written */
	uint8_t prefix[5];
	size_t sent_bytes; /* of prefix and message */
	struct grpc_response response;
};

struct grpc_call_list {
	struct grpc_call *first, *last;
};
void grpc_call_append(struct grpc_call_list *list, struct grpc_call *call);
void grpc_call_prepend(struct grpc_call_list *list, struct grpc_call *call);
void grpc_call_remove(struct grpc_call_list *list, struct grpc_call *call);
void grpc_call_free(struct grpc_call *call);

enum grpc_conn_state {
	GRPC_CONN_RESOLVING,
	GRPC_CONN_CONNECTING,
	GRPC_CONN_HANDSHAKE, /* TLS */
	GRPC_CONN_SETTINGS,  /* waits for the peer's first SETTINGS: then it speaks HTTP/2 and has
				told its limits */
	GRPC_CONN_READY,
	GRPC_CONN_CLOSED,
};

struct grpc_conn {
	struct grpc_client *client;
	struct grpc_conn *prev, *next; /* in client->conns */
	enum grpc_conn_state state;
	bool draining;           /* takes no new calls */
	struct net_timer *timer; /* until ready: the dial's; then keepalive */

	/* grpc_dial.c */
	uv_getaddrinfo_t resolver;
	bool resolving, handle_open;
	struct addrinfo *addresses, *address;
	unsigned addresses_left;
	uint64_t dial_deadline_ns;
	uv_connect_t connect;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	};

	/* grpc_conn.c */
	struct tls_session *tls;
	bool heard; /* bytes of the peer came */
	struct h2_out out;
	struct buf cipher; /* TLS: what is being written */
	uv_write_t write;
	bool writing, in_session;
	uint64_t last_read_ns;
	bool ping_waits;

	/* grpc_stream.c */
	nghttp2_session *session;
	struct grpc_call_list calls;
	uint32_t active_count;
	char goaway[100]; /* what the peer's GOAWAY said, "" = none came */
	bool calm_asked;  /* GOAWAY with ENHANCE_YOUR_CALM: our pings came too often */
};

struct grpc_header {
	char *name, *value;
};

struct grpc_client {
	struct net_member member; /* the loop closes us when it stops */
	struct net_loop *loop;
	struct endpoint endpoint;
	struct tls_context *tls;
	enum compression compression;
	int compression_level;
	struct grpc_header *headers;
	uint32_t header_count;
	char *authority, *user_agent;
	uint64_t connect_timeout_ns, keepalive_time_ns, keepalive_timeout_ns;
	uint64_t reconnect_min_ns, reconnect_max_ns;
	bool keepalive_without_calls, wait_for_ready;
	size_t max_response_bytes;

	/* The loop's thread only. */
	bool dead; /* fails every call at once */
	struct grpc_conn *conns;
	struct grpc_conn *current; /* takes new calls, or is being made */
	struct grpc_call_list waiting;
	unsigned failures; /* connects in a row */
	uint64_t retry_at_ns;
	struct err last_error;
	struct net_timer *deadline_timer, *retry_timer;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t closed_changed;
	bool closed;
	char state_text[160];
};

/* grpc_client.c, called by the connection. The connection is closed before _lost() and frees itself
 * after. */
void grpc_client_ready(struct grpc_client *c, struct grpc_conn *conn);
void grpc_client_draining(struct grpc_client *c, struct grpc_conn *conn);
void grpc_client_lost(struct grpc_client *c, struct grpc_conn *conn, const struct err *why,
		      bool was_ready);
void grpc_client_gone(struct grpc_client *c,
		      struct grpc_conn *conn); /* its memory is about to go */
void grpc_client_pump(struct grpc_client *c);
/* Calls the user's done(), once. The call itself stays until its owner frees it. */
void grpc_call_done(struct grpc_call *call, const struct client_result *result);
void grpc_call_fail(struct grpc_call *call, int grpc_status, const char *message);
/* A peer that did not process the call lets it go out once more; false when it was so once before.
 */
bool grpc_client_requeue(struct grpc_client *c, struct grpc_call *call);

/* grpc_conn.c */
struct grpc_conn *grpc_conn_new(struct grpc_client *c);
bool grpc_conn_usable(const struct grpc_conn *conn);
/* The socket is connected: TLS or HTTP/2 begins. */
void grpc_conn_connected(struct grpc_conn *conn);
/* The peer's first SETTINGS came. */
void grpc_conn_ready(struct grpc_conn *conn);
/* Writes what the session has to say; closes the connection when both sides are through. */
void grpc_conn_flush(struct grpc_conn *conn);
/* Ends it: running calls fail with `why`. May be called twice; never from within nghttp2. */
void grpc_conn_close(struct grpc_conn *conn, const struct err *why);
/* Ends it with a GOAWAY, and with TLS' own, where that goes without waiting. */
void grpc_conn_goodbye(struct grpc_conn *conn, const struct err *why);
/* As the last libuv request ends. */
void grpc_conn_unpin(struct grpc_conn *conn);

/* grpc_dial.c */
void grpc_dial_start(struct grpc_conn *conn);
void grpc_dial_timeout(struct grpc_conn *conn);

/* grpc_stream.c */
enum { GRPC_OUT_LIMIT_BYTES = 256 * 1024 }; /* gathered before the next write */
bool grpc_session_start(struct grpc_conn *conn, struct err *err) MUST_CHECK;
bool grpc_session_receive(struct grpc_conn *conn, const uint8_t *data, size_t len,
			  struct err *err) MUST_CHECK;
/* Room for one more call. */
bool grpc_session_has_room(const struct grpc_conn *conn);
void grpc_session_submit(struct grpc_conn *conn, struct grpc_call *call);
/* The user has his answer already; the stream is reset. */
void grpc_session_cancel(struct grpc_call *call);
