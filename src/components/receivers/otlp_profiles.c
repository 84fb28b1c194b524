/* otlp_profiles.c - one profiles request: bytes -> model -> pipeline -> answer. */
#include "components/receivers/otlp.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "components/receivers/otlp_counters.h"
#include "wire/otlp_json.h"

/* A request between its hand-over to the pipeline and its answer. */
struct pending {
	struct completion completion;
	struct net_request *request;
	struct otlp_receiver *receiver;
	enum otlp_transport transport;
	uint64_t samples;
	uint32_t refused_profiles; /* by our validation */
	char problem[240];
};

static const uint64_t RETRY_HINT_NS = SECOND_NS;

bool otlp_receiver_strict(const struct otlp_receiver *r)
{
	if (r->validation == OTLP_VALIDATION_DEFAULT)
		return r->host->strict;
	return r->validation == OTLP_VALIDATION_STRICT;
}

static enum otlp_transport transport_of(const struct net_request *r)
{
	return net_request_transport(r) == NET_GRPC ? OTLP_OVER_GRPC : OTLP_OVER_HTTP;
}

static enum wire_hint hint_of(const struct net_request *r)
{
	struct str path = net_request_path(r);

	if (str_search(path, STR("v1experimental")) >= 0)
		return WIRE_HINT_EXPERIMENTAL;
	if (str_search(path, STR("v1development")) >= 0)
		return WIRE_HINT_DEVELOPMENT;
	return WIRE_HINT_NONE;
}

static bool decode(struct otlp_receiver *receiver, struct net_request *r, struct blob *body,
		   struct profiles **out, struct otlp_decode_report *report, struct err *err)
{
	struct otlp_decode_options options = {
		.version = receiver->wire_version,
		.hint = hint_of(r),
		.strict = otlp_receiver_strict(receiver),
	};

	if (net_request_transport(r) != NET_GRPC && otlp_request_is_json(r))
		return otlp_json_decode(body, &options, out, report, err);
	return otlp_decode(body, &options, out, report, NULL, err);
}

static uint64_t refused_samples(const struct profiles *p)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < p->profile_count; i++)
		if (p->profiles[i].refused)
			count += p->profiles[i].samples.count;
	return count;
}

static void count_decoded(struct otlp_counters *c, enum otlp_transport transport,
			  const struct profiles *p, const struct otlp_decode_report *report)
{
	metric_add(c->by_version[report->version], 1);
	if (report->version_ambiguous)
		metric_add(c->ambiguous, 1);
	if (report->unknown_field_count)
		metric_add(c->unknown_fields, report->unknown_field_count);
	if (report->refused_profiles) {
		metric_add(c->rejected, report->refused_profiles);
		metric_add(c->samples[transport].refused, (int64_t)refused_samples(p));
	} else if (report->bad_index_count) {
		metric_add(c->bad_indices, report->bad_index_count);
	}
}

static void log_decoded(const struct net_request *r, const struct otlp_decode_report *report)
{
	static struct log_gate problems;
	uint64_t skipped;

	LOG(LOG_DEBUG, "Decoded profiles request", LOG_S("peer", net_request_peer(r)),
	    LOG_S("version", wire_version_name(report->version)),
	    LOG_S("evidence", report->evidence));
	if (report->first_problem[0] && log_gate_open(&problems, 10 * SECOND_NS, &skipped))
		LOG(LOG_WARN, "Profiles with bad indices", LOG_S("peer", net_request_peer(r)),
		    LOG_S("first", report->first_problem),
		    LOG_U("bad_indices", report->bad_index_count),
		    LOG_U("refused_profiles", report->refused_profiles),
		    LOG_U("similar_not_logged", skipped));
}

static void reply_kept(struct pending *p, const struct outcome *o)
{
	int64_t rejected = (int64_t)(p->refused_profiles + o->rejected_profiles);
	const char *message = o->warning[0] ? o->warning : p->problem;

	otlp_reply_success(p->request, rejected, str_cstr(message));
}

static void reply_not_kept(struct pending *p, const struct outcome *o)
{
	bool retry = o->kind == OUTCOME_RETRY;
	uint64_t hint = retry ? (o->retry_after_ns ? o->retry_after_ns : RETRY_HINT_NS) : 0;
	int code = retry ? GRPC_UNAVAILABLE : otlp_grpc_code(o->err.kind, false);

	otlp_reply_error(p->request, code, str_cstr(o->err.msg), hint);
}

static void pending_done(struct completion *completion, const struct outcome *o)
{
	struct pending *p = CONTAINER_OF(completion, struct pending, completion);

	receiver_metrics_count(&p->receiver->counters->samples[p->transport], p->samples, o);
	if (o->kind == OUTCOME_OK)
		reply_kept(p, o);
	else
		reply_not_kept(p, o);
	free(p);
}

static void describe_batch(struct batch *b, const struct net_request *r,
			   const struct otlp_decode_report *report)
{
	bool json = net_request_transport(r) != NET_GRPC && otlp_request_is_json(r);

	b->encoding = json ? BATCH_BODY_JSON : BATCH_BODY_PROTOBUF;
	b->wire_version = (uint8_t)report->version;
	b->received_unix_ns = clock_realtime_ns();
	b->transport = transport_of(r) == OTLP_OVER_GRPC ? "grpc" : "http";
	snprintf(b->peer, sizeof(b->peer), "%s", net_request_peer(r));
}

static struct pending *pending_new(struct otlp_receiver *receiver, struct net_request *r,
				   const struct otlp_decode_report *report)
{
	struct pending *p = calloc(1, sizeof(*p));

	*p = (struct pending){
		.completion.done = pending_done,
		.request = r,
		.receiver = receiver,
		.transport = transport_of(r),
		.refused_profiles = report->refused_profiles,
	};
	if (report->first_problem[0])
		snprintf(p->problem, sizeof(p->problem), "%s", report->first_problem);
	return p;
}

static void hand_over(struct otlp_receiver *receiver, struct net_request *r, struct batch *b,
		      const struct otlp_decode_report *report)
{
	struct pending *p = pending_new(receiver, r, report);

	describe_batch(b, r, report);
	p->samples = batch_sample_count(b);
	consumer_consume(receiver->host->next, b, &p->completion);
}

/* It is no message, or there is no room to read it now. */
static void refuse_undecoded(struct otlp_receiver *receiver, struct net_request *r,
			     const struct err *err)
{
	struct receiver_metrics *m = &receiver->counters->samples[transport_of(r)];
	bool retry = err_retryable(err->kind);
	static struct log_gate gate;
	uint64_t skipped;

	if (retry) {
		receiver_metrics_refused(m);
	} else {
		metric_add(receiver->counters->undecodable, 1);
		receiver_metrics_failed(m);
	}
	if (!retry && log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_WARN, "Refused a request that is not an OTLP profiles message",
		    LOG_S("peer", net_request_peer(r)), LOG_S("error", err->msg),
		    LOG_U("similar_not_logged", skipped));
	otlp_reply_error(r, otlp_grpc_code(err->kind, retry), str_cstr(err->msg),
			 retry ? RETRY_HINT_NS : 0);
}

/* An empty request, or one whose every profile is refused. */
static bool has_nothing_to_keep(const struct profiles *p)
{
	return p->resource_count == 0 ||
	       (p->refused_profile_count > 0 && p->refused_profile_count == p->profile_count);
}

void otlp_handle_profiles(struct net_request *r, struct blob *body, void *ctx)
{
	struct otlp_receiver *receiver = ctx;
	struct otlp_decode_report report = { 0 };
	enum otlp_transport transport = transport_of(r);
	struct outcome o = outcome_ok();
	struct profiles *profiles;
	struct batch *batch;
	struct err err;

	if (!decode(receiver, r, body, &profiles, &report, &err)) {
		blob_unref(body);
		refuse_undecoded(receiver, r, &err);
		return;
	}
	count_decoded(receiver->counters, transport, profiles, &report);
	log_decoded(r, &report);
	if (has_nothing_to_keep(profiles)) { /* a success; in part when profiles were refused */
		receiver_metrics_count(&receiver->counters->samples[transport], 0, &o);
		otlp_reply_success(r, report.refused_profiles, str_cstr(report.first_problem));
		profiles_free(profiles);
		blob_unref(body);
		return;
	}
	batch = batch_new(profiles, body, receiver->host->budget, &err);
	if (!batch) {
		o.kind = OUTCOME_RETRY;
		receiver_metrics_count(&receiver->counters->samples[transport],
				       profiles->sample_count - refused_samples(profiles), &o);
		profiles_free(profiles);
		blob_unref(body);
		otlp_reply_error(r, GRPC_UNAVAILABLE, str_cstr(err.msg), RETRY_HINT_NS);
		return;
	}
	hand_over(receiver, r, batch, &report);
	blob_unref(body);
}
