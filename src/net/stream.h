/*
 * stream.h - one connected socket on a loop, plain or TLS: plain bytes in by callback, plain bytes
 * out by a call.
 *
 * Reads go through the loop's shared scratch memory, so that an idle connection holds no buffer.
 * What the socket does not take at once waits in `pending`; who writes much looks at
 * net_stream_pending() and goes on at drained(). Memory: embedded in its owner, who frees it in
 * closed(), the last callback. Threads: the loop's only.
 */
#pragma once
#include "base/buf.h"
#include "net/loops_internal.h"
#include "net/tls_internal.h"

struct net_stream;

struct net_stream_ops {
	/* The connection is usable: at once, or after the TLS handshake; protocol from ALPN, may be
	 * empty. */
	void (*opened)(struct net_stream *s, struct str protocol);
	/* Asked before each read; false: reading was paused, nothing is read now. NULL = always. */
	bool (*may_read)(struct net_stream *s);
	/* The bytes live until it returns. May still be called once after a pause, for what had
	 * been received. */
	void (*data)(struct net_stream *s, struct str bytes);
	void (*ended)(struct net_stream *s);   /* the peer sends no more */
	void (*drained)(struct net_stream *s); /* nothing waits to be sent any more */
	void (*failed)(struct net_stream *s,
		       const struct err *why); /* reset, bad TLS; closes by itself then */
	void (*closed)(struct net_stream *s);  /* free it now */
};

struct net_stream {
	uv_poll_t poll;
	struct net_member member;
	struct net_loop *loop;
	const struct net_stream_ops *ops;
	int fd;
	int events;              /* what the poll watches */
	struct tls_session *tls; /* NULL = plain */
	struct buf pending;
	size_t pending_at;   /* what of it was sent */
	uint64_t sent_bytes; /* that the kernel took, ever */
	bool opened, paused, ended, finishing, finished, closing;
};

/* Takes over the connected, non-blocking fd; opened() comes within the call when there is no TLS.
 */
void net_stream_start(struct net_stream *s, struct net_loop *loop, int fd, struct tls_session *tls,
		      const struct net_stream_ops *ops);
void net_stream_write(struct net_stream *s, struct str bytes);
size_t net_stream_pending(const struct net_stream *s);
void net_stream_pause(struct net_stream *s);
void net_stream_resume(struct net_stream *s);
/* Sends what is pending and the end; goes on reading (and discarding) until the peer ends too or
 * the owner closes. */
void net_stream_finish(struct net_stream *s);
/* At once; pending output is lost. closed() comes later, from the loop. */
void net_stream_close(struct net_stream *s);
