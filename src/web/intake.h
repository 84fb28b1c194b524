/*
 * intake.h - what is sent to the page's address: OTLP (gRPC and HTTP), and what Pyroscope's clients
 * push. The page's server guards it and hands it to whoever takes it, a receiver of the graph.
 */
#pragma once
#include "web/internal.h"

enum web_sent { WEB_SENT_INGEST, WEB_SENT_PUSH };

/* Both own what they are given. On the connection's loop. */
struct web_intake {
	void (*take_otlp)(void *ctx, struct net_request *r, struct blob *body);
	/* The question is answered by web_question_reply() or web_question_refuse(). */
	void (*take)(void *ctx, struct web_question *q, enum web_sent what, struct blob *body);
	void *ctx;
};

struct web_door;
struct web_door *web_door_new(struct net_app *app, const struct web_options *options,
			      struct web_guard *guard);
void web_door_free(struct web_door *d); /* after the listener; NULL is fine */
/* NULL: nobody takes any more; none of `before`'s functions runs when it returns. */
void web_door_open(struct web_door *d, const struct web_intake *intake);
/* Who has not opened it by now never will: senders are told that nothing is taken here. */
void web_door_settle(struct web_door *d);

struct web_server;
struct web_door *web_server_door(struct web_server *s);
