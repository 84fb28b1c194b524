/*
 * otlp_export.h - what the OTLP exporters share: a batch becomes one request, or several when the
 * peer takes no larger ones.
 *
 * A batch whose body is unchanged and of the wanted version is sent as it came, without being
 * encoded again. A peer that refuses a request for its size gets it in halves with minimal
 * dictionaries, down to single samples; what is refused even so is lost and counted, the rest is
 * kept. When a part fails retryably, the outcome is RETRY and the next consume() of the same
 * request sends only what is left (otlp_leftovers.h).
 * One attempt at a time for each batch; batches run side by side. Threads: any.
 */
#pragma once
#include <pthread.h>
#include "components/exporters/otlp_leftovers.h"
#include "components/exporters/otlp_unwritten.h"
#include "components/exporters/otlp_verdict.h"
#include "pipeline/component.h"

struct otlp_export {
	/* The owner's, before otlp_export_start(). */
	enum wire_version version;
	bool json;
	bool log_sent;    /* a line for each request that was taken */
	const char *peer; /* in that line */
	/* One request; `body` is only borrowed. */
	void (*send)(struct otlp_export *x, struct blob *body, struct client_call *call);
	void (*judge)(struct otlp_export *x, const struct client_result *r, struct verdict *out);

	struct leftovers leftovers;
	struct metric *splits, *lost_samples, *rejected_profiles;
	struct otlp_unwritten unwritten;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;
	uint32_t pending; /* batches */
	uint32_t sending; /* threads inside send() */
	bool stopping;
};

/* The wire_version option; NULL = the newest. ERR_UNSUPPORTED: a version that is not written. */
bool otlp_export_version(const char *text, enum wire_version *out, struct err *err) MUST_CHECK;
void otlp_export_start(struct otlp_export *x, const struct component_host *host);
/* Owns one reference of batch, as component_ops.consume. */
void otlp_export_consume(struct otlp_export *x, struct batch *batch, struct completion *done);
/* Sends no further parts; waits until nothing is under way, or the deadline. No thread is inside
 * send() when it returns: the owner may close its client, which ends the rest. */
void otlp_export_stop(struct otlp_export *x, uint64_t deadline_ns);
void otlp_export_release(struct otlp_export *x);
