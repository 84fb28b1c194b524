/*
 * ingest.h - what Pyroscope's clients send, as messages: POST /ingest and
 * push.v1.PusherService/Push.
 *
 * The labels become attributes of the resource: `service_name`, or the name of the application, is
 * service.name. Memory: the message copies what it keeps. Threads: no state.
 */
#pragma once
#include "base/blob.h"
#include "model/profiles.h"
#include "web/connect.h"
#include "web/params.h"

struct budget;

struct ingest_context {
	struct arena *arena;
	struct budget *budget; /* what is unpacked is charged here; may be NULL */
	uint64_t now_ns;
};

/* /ingest: `query` are the URL's parameters (name, from, until, format, sampleRate, units). */
bool ingest_read(const struct ingest_context *c, const struct params *query,
		 struct str content_type, struct blob *body, struct profiles **out,
		 struct err *err) MUST_CHECK;
/* A PushRequest. *out is NULL when it holds no profile. */
bool push_read(const struct ingest_context *c, struct str message, struct profiles **out,
	       struct err *err) MUST_CHECK;
extern const struct connect_method push_method; /* without an answer of its own */
