#include "pipeline/sender_metrics.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

static const char *const reasons[] = {
	[DROP_REFUSED] = "refused",
	[DROP_NO_RETRY] = "no_retry",
	[DROP_RETRIES_OVER] = "retries_over",
	[DROP_SHUTDOWN] = "shutdown",
};

static struct metric *get(struct metrics *m, enum metric_kind kind, const char *name,
			  const char *help, const char *id)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str value = str_cstr(id);

	return metric_get(metrics_family(m, kind, name, help, labels, 0), &value);
}

struct metric *exporter_samples(struct metrics *m, const char *name, const char *help,
				const char *id, const struct component_destination *destination)
{
	static const char *const labels[] = { "exporter", "server_address", "server_port",
					      "url_path", NULL };
	struct component_destination none = { STR(""), STR(""), STR("") };
	const struct component_destination *d = destination ? destination : &none;
	struct str values[] = { str_cstr(id), d->address, d->port, d->path };

	return metric_get(metrics_family(m, METRIC_COUNTER, name, help, labels, 0), values);
}

static struct metric *get_typed(struct metrics *m, const char *name, const char *help,
				const char *id)
{
	static const char *const labels[] = { "data_type", "exporter", NULL };
	struct str values[] = { STR("profiles"), str_cstr(id) };

	return metric_get(metrics_family(m, METRIC_GAUGE, name, help, labels, 0), values);
}

void sender_metrics_init(struct sender_metrics *m, struct metrics *registry, const char *id,
			 const struct component_destination *destination)
{
	static const char *const labels[] = { "exporter", "reason", NULL };

	m->sent = exporter_samples(registry, "otelcol_exporter_sent_profile_samples",
				   "Samples an exporter delivered.", id, destination);
	m->send_failed =
		exporter_samples(registry, "otelcol_exporter_send_failed_profile_samples",
				 "Samples an exporter failed to deliver.", id, destination);
	m->enqueue_failed =
		get(registry, METRIC_COUNTER, "otelcol_exporter_enqueue_failed_profile_samples",
		    "Samples that a full queue, a full spool or a disk refused.", id);
	m->retries = get(registry, METRIC_COUNTER, "flametap_exporter_retries_total",
			 "Attempts that failed and were or will be made again.", id);
	m->queue_size = get_typed(registry, "otelcol_exporter_queue_size",
				  "What waits in the queue, in units of its sizer; a spool: "
				  "requests.",
				  id);
	m->queue_capacity = get_typed(registry, "otelcol_exporter_queue_capacity",
				      "Most that the queue holds; 0: bounded in bytes only.", id);
	m->in_flight = get_typed(registry, "otelcol_exporter_in_flight_requests",
				 "Requests on their way to the peer.", id);
	for (int r = 0; r <= DROP_SHUTDOWN; r++) {
		struct str values[] = { str_cstr(id), str_cstr(reasons[r]) };

		m->dropped[r] = metric_get(
			metrics_family(registry, METRIC_COUNTER,
				       "flametap_exporter_dropped_requests_total",
				       "Requests that an exporter gave up, by reason: refused by "
				       "the peer for good, no_retry, retries_over, shutdown.",
				       labels, 0),
			values);
	}
}

void sender_metrics_sent(struct sender_metrics *m, const char *id, uint64_t samples,
			 const struct outcome *o)
{
	static struct log_gate gate;
	uint64_t skipped;

	metric_add(m->sent, (int64_t)(samples - o->lost_samples));
	metric_add(m->send_failed, (int64_t)o->lost_samples);
	if ((o->rejected_profiles || o->warning[0]) && log_gate_open(&gate, SECOND_NS, &skipped))
		LOG(LOG_WARN, "Partial success response", LOG_S("exporter", id),
		    LOG_S("message", o->warning), LOG_U("dropped_profiles", o->rejected_profiles),
		    LOG_U("like_lines_skipped", skipped));
}

void sender_metrics_retry(struct sender_metrics *m, const char *id, const struct err *err,
			  uint64_t wait_ns)
{
	static struct log_gate gate;
	struct buf interval;
	uint64_t skipped;

	metric_add(m->retries, 1);
	if (!log_gate_open(&gate, SECOND_NS, &skipped))
		return;
	buf_init(&interval, 64);
	duration_append(&interval, wait_ns);
	LOG(LOG_INFO, "Exporting failed. Will retry the request after interval.",
	    LOG_S("exporter", id), LOG_S("error", err->msg),
	    LOG_STR("interval", buf_view(&interval)), LOG_U("like_lines_skipped", skipped));
	buf_release(&interval);
}

void sender_metrics_dropped(struct sender_metrics *m, const char *id, uint64_t samples,
			    enum drop_reason reason, const struct err *err, bool rejecting)
{
	static struct log_gate gate;
	uint64_t skipped;

	metric_add(m->send_failed, (int64_t)samples);
	metric_add(m->dropped[reason], 1);
	if (!log_gate_open(&gate, SECOND_NS, &skipped))
		return;
	if (rejecting)
		LOG(LOG_ERROR, "Exporting failed. Rejecting data.", LOG_S("exporter", id),
		    LOG_S("error", err->msg), LOG_S("reason", reasons[reason]),
		    LOG_U("rejected_items", samples), LOG_U("like_lines_skipped", skipped));
	else
		LOG(LOG_ERROR, "Exporting failed. Dropping data.", LOG_S("exporter", id),
		    LOG_S("error", err->msg), LOG_S("reason", reasons[reason]),
		    LOG_U("dropped_items", samples), LOG_U("like_lines_skipped", skipped));
}
