/*
 * receiver.c - the receiver `pyroscope`: what is sent to the address of an extension `web`, as a
 * Pyroscope takes it: POST /ingest, push.v1.PusherService/Push, and OTLP over gRPC and HTTP.
 *
 * A sender is answered when the pipeline says what became of its profiles.
 */
#include "web/receiver.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/receivers/otlp.h"
#include "pipeline/telemetry.h"
#include "web/extension.h"
#include "web/ingest.h"
#include "web/intake.h"

struct pyroscope_receiver_state {
	const char *page; /* id of the extension */

	struct otlp_receiver otlp;     /* decodes and answers OTLP; listens nowhere */
	struct receiver_metrics count; /* of /ingest and push */
	const struct component_host *host;
	struct web_door *door;
};

static const struct config_field fields[] = {
	{ .name = "page",
	  .kind = CONFIG_STRING,
	  .offset = offsetof(struct pyroscope_receiver_state, page),
	  .default_text = "web",
	  .help = "the extension at whose address is taken" },
	{ 0 },
};

/* ---- one push ---- */

struct pending {
	struct completion completion;
	struct pyroscope_receiver_state *receiver;
	struct web_question *question;
	uint64_t samples;
};

static void done(struct completion *completion, const struct outcome *o)
{
	struct pending *p = CONTAINER_OF(completion, struct pending, completion);
	struct err err = o->err;

	receiver_metrics_count(&p->receiver->count, p->samples, o);
	if (o->kind == OUTCOME_RETRY && web_status_of(&err) != 503) /* a full disk is ERR_IO */
		err.kind = ERR_UNAVAILABLE;
	if (o->kind == OUTCOME_OK)
		web_question_reply(p->question);
	else
		web_question_refuse(p->question, &err);
	free(p);
}

static bool read_sent(struct pyroscope_receiver_state *s, struct web_question *q,
		      enum web_sent what, struct blob *body, struct profiles **out, struct err *err)
{
	struct ingest_context c = { &q->ask.arena, s->host->budget, q->ask.now_ns };
	struct str type = net_request_header(q->request, "content-type");

	if (what == WEB_SENT_INGEST)
		return ingest_read(&c, &q->ask.params, type, body, out, err);
	return connect_read(&q->ask, q->request, body, &push_method, err) &&
	       push_read(&c, q->ask.message, out, err);
}

static void hand_over(struct pyroscope_receiver_state *s, struct web_question *q,
		      struct batch *batch)
{
	struct pending *p = calloc(1, sizeof(*p));

	*p = (struct pending){
		.completion.done = done,
		.receiver = s,
		.question = q,
		.samples = batch_sample_count(batch),
	};
	batch->transport = "http";
	snprintf(batch->peer, sizeof(batch->peer), "%s", net_request_peer(q->request));
	consumer_consume(s->host->next, batch, &p->completion);
}

static void take(void *ctx, struct web_question *q, enum web_sent what, struct blob *body)
{
	struct pyroscope_receiver_state *s = ctx;
	struct profiles *profiles = NULL;
	struct batch *batch = NULL;
	struct err err = { 0 };
	bool ok = read_sent(s, q, what, body, &profiles, &err);

	blob_unref(body);
	q->ask.content_type = "text/plain; charset=utf-8";
	if (ok && !profiles) {
		web_question_reply(q);
		return;
	}
	if (ok)
		batch = batch_new(profiles, NULL, s->host->budget, &err);
	if (batch) {
		hand_over(s, q, batch);
		return;
	}
	profiles_free(profiles);
	if (err_retryable(err.kind))
		receiver_metrics_refused(&s->count);
	else
		receiver_metrics_failed(&s->count);
	web_question_refuse(q, &err);
}

static void take_otlp(void *ctx, struct net_request *r, struct blob *body)
{
	struct pyroscope_receiver_state *s = ctx;

	otlp_handle_profiles(r, body, &s->otlp);
}

/* ---- life ---- */

static bool receiver_start(void *state, const struct component_host *host, struct err *err)
{
	struct pyroscope_receiver_state *s = state;
	void *extension = host->extension(host, &web_extension, s->page);
	struct web_intake intake = { take_otlp, take, s };

	if (!extension)
		return err_set(err, ERR_INVALID,
			       "page: service::extensions has no extension \"%s\" of the type web",
			       s->page);
	s->host = host;
	s->otlp.host = host;
	s->otlp.counters = otlp_counters_new(host->metrics, host->id);
	receiver_metrics_init(&s->count, host->metrics, host->id, "push");
	s->door = web_extension_door(extension);
	web_door_open(s->door, &intake);
	return true;
}

static void receiver_stop(void *state, uint64_t deadline_ns)
{
	struct pyroscope_receiver_state *s = state;

	(void)deadline_ns;
	web_door_open(s->door, NULL);
}

static void receiver_release(void *state)
{
	struct pyroscope_receiver_state *s = state;

	otlp_counters_free(s->otlp.counters);
}

const struct component_ops pyroscope_receiver = {
	.type = "pyroscope",
	.summary = "what Pyroscope's clients and OTLP senders send to the page's address",
	.kind = COMPONENT_RECEIVER,
	.state_size = sizeof(struct pyroscope_receiver_state),
	.fields = fields,
	.start = receiver_start,
	.stop = receiver_stop,
	.release = receiver_release,
};
