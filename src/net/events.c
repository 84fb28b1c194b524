/*
 * events.c - HTTP answers that go on: text from any thread to a request on its loop.
 *
 * The sender leaves the latest text under a lock and posts a task; on the loop it is written unless
 * the peer has not yet taken what went before: then it waits until it has, and is meanwhile
 * replaced or added to by what is sent next. The request stays "handed" until the sender closes, so
 * that it outlives its connection.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "net/server_internal.h"

enum { BACKLOG_MOST = 16 * 1024 }; /* of a peer that does not take what was sent */

struct net_events {
	struct net_task task; /* first; guarded by `posted` */
	struct net_request *request;
	pthread_mutex_t lock;
	struct buf latest; /* guarded */
	bool fresh;        /* guarded: `latest` has not gone out */
	bool posted;       /* guarded: the task is on its way */
	bool closing;      /* guarded */
	bool gone;         /* guarded */
};

static void events_free(struct net_events *e)
{
	struct net_request *r = e->request;

	r->events = NULL;
	r->handed = false;
	pthread_mutex_destroy(&e->lock);
	buf_release(&e->latest);
	free(e);
	request_free_if_done(r);
}

/* HTTP/1.1: what the socket has not taken; HTTP/2: what flow control holds back. */
static size_t backlog(const struct net_request *r)
{
	return net_stream_pending(&r->conn->stream) + r->answer->body.len - r->answer->body_at;
}

static void write_latest(struct net_events *e)
{
	struct net_request *r = e->request;
	bool closing;

	pthread_mutex_lock(&e->lock);
	e->posted = false;
	closing = e->closing;
	if (r->conn && r->answer->open && e->fresh && (closing || backlog(r) <= BACKLOG_MOST)) {
		buf_str(&r->answer->body, buf_view(&e->latest));
		buf_reset(&e->latest);
		e->fresh = false;
	}
	pthread_mutex_unlock(&e->lock);
	if (closing && r->answer)
		r->answer->open = false;
	if (r->conn && r->answer)
		r->conn->protocol->answer(r->conn, r);
	if (closing)
		events_free(e);
}

static void deliver(struct net_task *task)
{
	write_latest((struct net_events *)task);
}

/* On the loop's thread: the head. */
static void begin(struct net_task *task)
{
	struct net_events *e = (struct net_events *)task;
	struct net_request *r = e->request;

	if (r->conn && !r->answer) {
		r->answer = r->handler_answer;
		r->handler_answer = NULL;
	} else {
		answer_free(r->handler_answer);
		r->handler_answer = NULL;
		pthread_mutex_lock(&e->lock);
		e->gone = true;
		pthread_mutex_unlock(&e->lock);
	}
	write_latest(e);
}

/* Under the lock. */
static void post(struct net_events *e, void (*run)(struct net_task *task))
{
	if (e->posted)
		return;
	e->posted = true;
	e->task.run = run;
	net_loop_post(e->request->loop, &e->task);
}

struct net_events *net_reply_events(struct net_request *r, const struct net_header *headers,
				    size_t count)
{
	struct net_events *e = calloc(1, sizeof(*e));
	struct answer *a = answer_http(r, 200, headers, count, STR(""));

	assert(e && a && !r->handler_answer);
	a->open = true;
	pthread_mutex_init(&e->lock, NULL);
	buf_init(&e->latest, 0);
	e->request = r;
	r->handler_answer = a;
	r->events = e;
	pthread_mutex_lock(&e->lock);
	post(e, begin);
	pthread_mutex_unlock(&e->lock);
	return e;
}

bool net_events_send(struct net_events *e, struct str text)
{
	bool there;

	pthread_mutex_lock(&e->lock);
	there = !e->gone;
	if (there) {
		buf_reset(&e->latest);
		buf_str(&e->latest, text);
		e->fresh = true;
		post(e, deliver);
	}
	pthread_mutex_unlock(&e->lock);
	return there;
}

enum net_events_fate net_events_append(struct net_events *e, struct str text, size_t most)
{
	enum net_events_fate fate = NET_EVENTS_SENT;

	pthread_mutex_lock(&e->lock);
	if (e->gone)
		fate = NET_EVENTS_GONE;
	else if (e->fresh && (text.len > most || e->latest.len > most - text.len))
		fate = NET_EVENTS_FULL;
	if (fate == NET_EVENTS_SENT) {
		if (!e->fresh)
			buf_reset(&e->latest);
		buf_str(&e->latest, text);
		e->fresh = true;
		post(e, deliver);
	}
	pthread_mutex_unlock(&e->lock);
	return fate;
}

void net_events_close(struct net_events *e)
{
	pthread_mutex_lock(&e->lock);
	e->closing = true;
	post(e, deliver);
	pthread_mutex_unlock(&e->lock);
}

void events_drained(struct net_events *e)
{
	pthread_mutex_lock(&e->lock);
	if (e->fresh)
		post(e, deliver);
	pthread_mutex_unlock(&e->lock);
}

void events_gone(struct net_events *e)
{
	pthread_mutex_lock(&e->lock);
	e->gone = true;
	pthread_mutex_unlock(&e->lock);
}
