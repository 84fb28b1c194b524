/*
 * batch.h - what travels through a pipeline: a sealed message with where it came from, counted by
 * reference.
 *
 * Fan-out shares a batch; a component with `.mutates` gets one that is its own (batch_make_own()).
 * The memory of the message is charged to the pipeline's budget until the last reference goes.
 *
 * Threads: one writer until the batch is handed on (a receiver fills in encoding, wire_version,
 * transport and peer after batch_new()); shared and read-only from then on, but for whom
 * batch_make_own() gave it to.
 */
#pragma once
#include <stdatomic.h>
#include "base/blob.h"
#include "base/budget.h"
#include "base/hash.h"
#include "model/profiles.h"

enum batch_encoding { BATCH_BODY_NONE, BATCH_BODY_PROTOBUF, BATCH_BODY_JSON };

struct batch {
	atomic_uint refs;
	struct profiles *profiles; /* sealed */
	struct blob *body; /* the decompressed request as it came; NULL when it was changed or never
			      was one */
	enum batch_encoding encoding; /* of body */
	uint8_t wire_version;         /* of body: enum wire_version */
	struct hash128 request_hash;  /* read it with batch_request_hash(): made on first use */
	atomic_uint request_hash_state;
	uint64_t received_unix_ns;
	const char *transport; /* "grpc", "http", "file", "agent": static */
	char peer[64];         /* "127.0.0.1:51234" or "" */
	struct budget *budget;
	size_t charged_bytes;
};

/* Takes over `profiles`; references body (NULL = none). received_unix_ns is now, transport "".
 * Charges budget (NULL = none) with the arena's size: NULL and ERR_BUSY when it has no room
 * (profiles is then still the caller's). */
struct batch *batch_new(struct profiles *profiles, struct blob *body, struct budget *budget,
			struct err *err) MUST_CHECK;
struct batch *batch_ref(struct batch *b);
void batch_unref(struct batch *b); /* NULL is fine */
/* The request's identity: the hash of the body as it came, else of the message's newest encoding. A
 * changed copy keeps that of what it was made from, so that a repeated request is known again
 * behind a processor. Threads: any. */
struct hash128 batch_request_hash(struct batch *b);
void batch_set_request_hash(
	struct batch *b,
	struct hash128 hash); /* before the batch is shared: merged or split batches */
/* Bytes that the batch keeps in memory: the model and, when it holds one, the body. */
size_t batch_bytes(const struct batch *b);
/*
 * Takes over one reference and gives a batch whose message may be changed in place: itself when
 * that was the only one, else a deep copy with nothing lost (strings in the body stay borrowed). It
 * has no `body` any more: what is changed is not what came. NULL and err (ERR_BUSY) when the budget
 * has no room for the copy; the reference is then still the caller's.
 */
struct batch *batch_make_own(struct batch *b, struct err *err) MUST_CHECK;
/* A batch of another message that was made of this one's: with its identity, origin and budget.
 * Takes over `p`; NULL (ERR_BUSY) when the budget has no room, and both are still the caller's. */
struct batch *batch_derive(struct batch *from, struct profiles *p, struct err *err) MUST_CHECK;
/* Charges what the message of an own batch has grown by; ERR_BUSY when there is no room. */
bool batch_charge_growth(struct batch *b, struct err *err) MUST_CHECK;
uint64_t batch_sample_count(
	const struct batch *b); /* what the Collector's metrics count; refused profiles left out */
