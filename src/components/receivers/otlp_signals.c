/*
 * otlp_signals.c - traces, metrics and logs sent to a profiles program: counted and answered.
 *
 * Where asked (`backend`, `up`), they get success with partial_success: all rejected and why, so
 * that an SDK that sends everything to one endpoint neither fails nor repeats (OTLP spec, "Partial
 * Success").
 */
#include "components/receivers/otlp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "components/receivers/otlp_counters.h"
#include "wire/json_reader.h"
#include "wire/pb_reader.h"

#define SERVICE(package, name) "/opentelemetry.proto.collector." package ".v1." name "/Export"

const struct otlp_signal otlp_signals[OTLP_SIGNAL_COUNT] = {
	{ "traces",
	  "spans",
	  SERVICE("trace", "TraceService"),
	  "/v1/traces",
	  "rejectedSpans",
	  { 1, 2, 2 },
	  { "resource_spans", "scope_spans", "spans" } },
	{ "metrics",
	  "metric data points",
	  SERVICE("metrics", "MetricsService"),
	  "/v1/metrics",
	  "rejectedDataPoints",
	  { 1, 2, 2 },
	  { "resource_metrics", "scope_metrics", "metrics", "*", "data_points" } },
	{ "logs",
	  "log records",
	  SERVICE("logs", "LogsService"),
	  "/v1/logs",
	  "rejectedLogRecords",
	  { 1, 2, 2 },
	  { "resource_logs", "scope_logs", "log_records" } },
};

static uint64_t count_below(struct str body, const uint8_t *path)
{
	struct pb_reader r = pb_reader_of(body);
	uint64_t count = 0;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag != PB_TAG(path[0], PB_LEN)) {
			pb_skip(&r, tag);
			continue;
		}
		struct str inner = pb_bytes(&r);

		count += path[1] ? count_below(inner, path + 1) : 1;
	}
	return count;
}

/* Metric: gauge 5, sum 7, histogram 9, exponential histogram 10, summary 11; data_points is 1 in
 * each. */
static uint64_t count_data_points(struct str metric)
{
	struct pb_reader r = pb_reader_of(metric);
	uint64_t count = 0;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r), number = tag >> 3;

		if ((tag & 7) == PB_LEN &&
		    (number == 5 || number == 7 || (number >= 9 && number <= 11)))
			count += count_below(pb_bytes(&r), (const uint8_t[]){ 1, 0 });
		else
			pb_skip(&r, tag);
	}
	return count;
}

/* Walks ResourceMetrics 1, ScopeMetrics 2, Metric 2. */
static uint64_t count_metrics(struct str body, const uint8_t *path)
{
	struct pb_reader r = pb_reader_of(body);
	uint64_t count = 0;

	if (!path[0])
		return count_data_points(body);
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(path[0], PB_LEN))
			count += count_metrics(pb_bytes(&r), path + 1);
		else
			pb_skip(&r, tag);
	}
	return count;
}

static uint64_t count_json(struct json_reader *j, const char *const *keys);

/* The elements of an array, or what each holds below further keys. */
static uint64_t count_json_elements(struct json_reader *j, const char *const *keys)
{
	uint64_t count = 0;

	if (json_peek(j) != JSON_ARRAY) {
		json_skip(j);
		return 0;
	}
	if (!json_begin_array(j))
		return 0;
	while (json_next_element(j)) {
		if (keys[0]) {
			count += count_json(j, keys);
		} else {
			json_skip(j);
			count++;
		}
	}
	return count;
}

/* keys[0] "*" stands for any key: a metric's gauge, sum, histogram, ... */
static uint64_t count_json(struct json_reader *j, const char *const *keys)
{
	bool any = keys[0][0] == '*';
	uint64_t count = 0;
	struct str key;

	if (json_peek(j) != JSON_OBJECT) {
		json_skip(j);
		return 0;
	}
	if (!json_begin_object(j))
		return 0;
	while (json_next_key(j, &key)) {
		if (any)
			count += count_json(j, keys + 1);
		else if (json_key_is(key, keys[0]))
			count += count_json_elements(j, keys + 1);
		else
			json_skip(j);
	}
	return count;
}

uint64_t otlp_signal_count_json(const struct otlp_signal *s, struct str body)
{
	struct json_reader j;
	uint64_t count;

	json_reader_init(&j, body, 0);
	count = count_json(&j, s->json_path);
	json_reader_release(&j);
	return count;
}

uint64_t otlp_signal_count_protobuf(const struct otlp_signal *s, struct str body)
{
	return s == &otlp_signals[1] ? count_metrics(body, s->path) : count_below(body, s->path);
}

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

void otlp_handle_other_signal(struct net_request *r, struct blob *body, void *ctx)
{
	static struct log_gate gates[OTLP_SIGNAL_COUNT];
	const struct otlp_signal_route *route = ctx;
	const struct otlp_signal *s = route->signal;
	size_t which = (size_t)(s - otlp_signals);
	bool json = net_request_transport(r) != NET_GRPC && otlp_request_is_json(r);
	uint64_t count = json ? otlp_signal_count_json(s, blob_view(body))
			      : otlp_signal_count_protobuf(s, blob_view(body));
	uint64_t skipped;
	char message[160];

	blob_unref(body);
	metric_add(route->receiver->counters->other_items[which], (int64_t)count);
	snprintf(message, sizeof(message),
		 "flametap keeps profiles only: these %s were not stored; send them to a backend "
		 "for %s",
		 s->items, s->name);
	if (log_gate_open(&gates[which], MINUTE_NS, &skipped))
		LOG(LOG_WARN, "Received a signal that is not kept here", LOG_S("signal", s->name),
		    LOG_S("peer", net_request_peer(r)), LOG_U("rejected_items", count),
		    LOG_U("similar_not_logged", skipped));
	if (json)
		reply_json(r, s, count, message);
	else
		otlp_reply_success(r, (int64_t)count, str_cstr(message));
}
