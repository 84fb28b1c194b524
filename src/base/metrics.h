/*
 * metrics.h - counters and gauges with labels, and their Prometheus text.
 *
 * A metric family has a name, a help text and up to METRIC_LABELS_MAX label names; metric_get()
 * finds or makes the series of given label values once, the caller keeps the pointer and counts
 * without a lock. A family has a limit of series; past it all further label sets share the series
 * whose label values are "other", and flametap_metric_series_dropped_total{metric} counts. Pass it
 * once per label set and keep the pointer: each further metric_get() past the limit counts again.
 * A label whose value is empty is not written: to Prometheus that is the same.
 * Threads: any.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>
#include "base/str.h"

enum { METRIC_LABELS_MAX = 6 };
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct buf;
struct metrics; /* a registry */
struct metric_family;

struct metric {
	_Atomic int64_t value;
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* The same name again gives the same family. label_names ends with NULL. series_limit 0 = 1000.
 * Names and help are static. */
struct metric_family *metrics_family(struct metrics *m, enum metric_kind kind, const char *name,
				     const char *help, const char *const *label_names,
				     uint32_t series_limit);
struct metric *metric_get(struct metric_family *f, const struct str *label_values);

static inline void metric_add(struct metric *s, int64_t n)
{
	atomic_fetch_add_explicit(&s->value, n, memory_order_relaxed);
}
static inline void metric_set(struct metric *s, int64_t v)
{
	atomic_store_explicit(&s->value, v, memory_order_relaxed);
}
/* A gauge read when asked for: by the thread of metrics_write(), under the registry's lock, so it
 * may not come back here. */
void metrics_gauge_fn(struct metrics *m, const char *name, const char *help,
		      int64_t (*read)(void *), void *arg);
/* A counter of seconds, read as a gauge is; read gives microseconds. */
void metrics_seconds_fn(struct metrics *m, const char *name, const char *help,
			int64_t (*read_us)(void *), void *arg);
/* Prometheus text exposition format 0.0.4, families sorted by name. */
void metrics_write(struct metrics *m, struct buf *out);
