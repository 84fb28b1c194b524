#include "components/receivers/otlp_counters.h"

#include <stdlib.h>

static struct metric *count(struct metrics *m, const char *name, const char *help,
			    const char *const *labels, const struct str *values)
{
	return metric_get(metrics_family(m, METRIC_COUNTER, name, help, labels, 0), values);
}

struct otlp_counters *otlp_counters_new(struct metrics *m, const char *id)
{
	static const char *const by_receiver[] = { "receiver", NULL };
	static const char *const by_version[] = { "receiver", "version", NULL };
	static const char *const by_signal[] = { "receiver", "signal", NULL };
	struct otlp_counters *c = calloc(1, sizeof(*c));
	struct str self = str_cstr(id);

	receiver_metrics_init(&c->samples[OTLP_OVER_GRPC], m, id, "grpc");
	receiver_metrics_init(&c->samples[OTLP_OVER_HTTP], m, id, "http");
	c->undecodable = count(m, "flametap_otlp_undecodable_requests_total",
			       "Requests that are not OTLP messages", by_receiver, &self);
	c->rejected = count(m, "flametap_otlp_rejected_profiles_total",
			    "Profiles refused for an index past its table (strict validation)",
			    by_receiver, &self);
	c->bad_indices =
		count(m, "flametap_otlp_bad_indices_total",
		      "Indices past their table, shown as bad and kept (lenient validation)",
		      by_receiver, &self);
	c->unknown_fields =
		count(m, "flametap_otlp_unknown_fields_total",
		      "Fields that no known schema has, kept as they came", by_receiver, &self);
	c->ambiguous = count(m, "flametap_otlp_ambiguous_version_requests_total",
			     "Requests whose bytes fit several wire versions; the newest was taken",
			     by_receiver, &self);
	for (int v = WIRE_V1_3; v <= WIRE_NEWEST; v++) {
		struct str values[] = { self, str_cstr(wire_version_name((enum wire_version)v)) };

		c->by_version[v] = count(m, "flametap_otlp_requests_total",
					 "Decoded requests by the wire version they came in",
					 by_version, values);
	}
	for (int s = 0; s < OTLP_SIGNAL_COUNT; s++) {
		struct str values[] = { self, str_cstr(otlp_signals[s].name) };

		c->other_items[s] =
			count(m, "flametap_otlp_other_signal_items_total",
			      "Spans, data points and log records that were answered as rejected",
			      by_signal, values);
	}
	return c;
}

void otlp_counters_free(struct otlp_counters *c)
{
	free(c);
}
