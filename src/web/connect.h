/*
 * connect.h - unary calls of the Connect protocol and of gRPC: one message in, one out.
 *
 *   POST /package.Service/Method   application/proto or application/json: the bare message
 *   GET  ...?connect=v1&encoding=json|proto&message=M[&base64=1][&compression=gzip]
 *   gRPC over HTTP/2, protobuf
 *
 * An error is a status and {"code": "invalid_argument", "message": ...}, whatever the request's
 * encoding. Source: connectrpc.com/docs/protocol.
 */
#pragma once
#include "web/internal.h"
#include "web/proto_json.h"

struct connect_method {
	const char *path;
	const struct proto_message *request, *response;
	web_answer_fn *answer; /* reads ask->message, fills ask->body with protobuf */
};

/* Takes the message out of the request into ask->message. */
bool connect_read(struct web_ask *a, struct net_request *r, struct blob *body,
		  const struct connect_method *m, struct err *err) MUST_CHECK;
extern const struct web_form connect_form;
/* Refuses a request that is no question yet, in its own form. */
void connect_refuse(struct net_request *r, const struct err *err);
