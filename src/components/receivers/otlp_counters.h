/*
 * otlp_counters.h - what the OTLP receiver counts. Pointers are looked up once; counting takes no
 * lock.
 *
 * Samples under the Collector's names are pipeline/telemetry.h's; the flametap_otlp_* families have
 * no counterpart there.
 */
#pragma once
#include "base/metrics.h"
#include "components/receivers/otlp.h"
#include "pipeline/telemetry.h"

enum otlp_transport { OTLP_OVER_GRPC, OTLP_OVER_HTTP, OTLP_TRANSPORTS };

struct otlp_counters {
	struct receiver_metrics samples[OTLP_TRANSPORTS];
	struct metric *undecodable; /* requests that are not OTLP messages */
	struct metric *rejected;    /* profiles refused for a bad index (strict) */
	struct metric *bad_indices; /* indices past their table, kept as "not set" (lenient) */
	struct metric *unknown_fields;
	struct metric *ambiguous; /* requests whose wire version nothing told */
	struct metric *by_version[WIRE_NEWEST + 1];
	struct metric *other_items[OTLP_SIGNAL_COUNT];
};
