/*
 * otlp_signals.c - traces, metrics and logs sent to a profiles program: counted and answered.
 *
 * Where asked (`backend`, `up`), they get success with partial_success: all rejected and why, so
 * that an SDK that sends everything to one endpoint neither fails nor repeats (OTLP spec, "Partial
 * Success"). A body that is broken is refused, as every OTLP receiver does.
 */
#include "components/receivers/otlp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "components/receivers/otlp_counters.h"

#define SERVICE(package, name) "/opentelemetry.proto.collector." package ".v1." name "/Export"

const struct otlp_signal otlp_signals[OTLP_SIGNAL_COUNT] = {
	{ "traces",
	  "spans",
	  SERVICE("trace", "TraceService"),
	  "/v1/traces",
	  "rejectedSpans",
	  { "resource_spans", "scope_spans", "spans" } },
	{ "metrics",
	  "metric data points",
	  SERVICE("metrics", "MetricsService"),
	  "/v1/metrics",
	  "rejectedDataPoints",
	  { "resource_metrics", "scope_metrics", "metrics", "*", "data_points" } },
	{ "logs",
	  "log records",
	  SERVICE("logs", "LogsService"),
	  "/v1/logs",
	  "rejectedLogRecords",
	  { "resource_logs", "scope_logs", "log_records" } },
};

bool otlp_receiver_answers_other_signals(const struct otlp_receiver *r)
{
	if (r->other_signals == OTLP_OTHER_DEFAULT)
		return !r->host->strict;
	return r->other_signals == OTLP_OTHER_REJECT_EACH;
}

static void reply_json(struct net_request *r, const struct otlp_signal *s, uint64_t count,
		       const char *message)
{
	AUTO(buf_release) struct buf body = { 0 };
	struct net_header type = { "content-type", STR("application/json") };

	buf_printf(&body, "{\"partialSuccess\":{\"%s\":\"%" PRIu64 "\",\"errorMessage\":",
		   s->json_rejected, count);
	buf_json_string(&body, str_cstr(message));
	buf_lit(&body, "}}");
	net_reply_http(r, 200, &type, 1, buf_view(&body));
}

static void refuse(struct otlp_receiver *receiver, struct net_request *r,
		   const struct otlp_signal *s, const struct err *err)
{
	static struct log_gate gate;
	char message[320];
	uint64_t skipped;

	metric_add(receiver->counters->undecodable, 1);
	if (log_gate_open(&gate, MINUTE_NS, &skipped))
		LOG(LOG_WARN, "Refused a request of a signal that is not kept here: it is broken",
		    LOG_S("signal", s->name), LOG_S("peer", net_request_peer(r)),
		    LOG_S("error", err->msg), LOG_U("similar_not_logged", skipped));
	snprintf(message, sizeof(message), "no OTLP %s request: %s", s->name, err->msg);
	otlp_reply_error(r, GRPC_INVALID_ARGUMENT, str_cstr(message), 0);
}

static void reply_all_rejected(struct net_request *r, const struct otlp_signal *s, uint64_t count,
			       bool json)
{
	char message[160];

	snprintf(message, sizeof(message),
		 "flametap keeps profiles only: these %s were not stored; send them to a backend "
		 "for %s",
		 s->items, s->name);
	if (json)
		reply_json(r, s, count, message);
	else
		otlp_reply_success(r, (int64_t)count, str_cstr(message));
}

void otlp_handle_other_signal(struct net_request *r, struct blob *body, void *ctx)
{
	static struct log_gate gates[OTLP_SIGNAL_COUNT];
	const struct otlp_signal_route *route = ctx;
	const struct otlp_signal *s = route->signal;
	size_t which = (size_t)(s - otlp_signals);
	bool json = net_request_transport(r) != NET_GRPC && otlp_request_is_json(r);
	uint64_t count = 0, skipped;
	struct err err = { 0 };
	bool ok = json ? otlp_signal_count_json(s, blob_view(body), &count, &err)
		       : otlp_signal_count_protobuf(s, blob_view(body), &count, &err);

	blob_unref(body);
	if (!ok) {
		refuse(route->receiver, r, s, &err);
		return;
	}
	metric_add(route->receiver->counters->other_items[which], (int64_t)count);
	if (log_gate_open(&gates[which], MINUTE_NS, &skipped))
		LOG(LOG_WARN, "Received a signal that is not kept here", LOG_S("signal", s->name),
		    LOG_S("peer", net_request_peer(r)), LOG_U("rejected_items", count),
		    LOG_U("similar_not_logged", skipped));
	reply_all_rejected(r, s, count, json);
}
