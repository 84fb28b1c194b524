/*
 * telemetry.h - what components count about themselves, under the Collector's names.
 *
 * The unit is the sample, as in the Collector. Threads: any, after _init.
 */
#pragma once
#include "pipeline/component.h"

/*
 * A receiver keeps one per transport ("grpc", "http") and tells it each request's end. It reads the
 * sample count with batch_sample_count() before it hands the batch on.
 */
struct receiver_metrics {
	struct metric *accepted, *refused, *failed;
	struct metric *requests_ok, *requests_refused, *requests_failed;
};
void receiver_metrics_init(struct receiver_metrics *r, struct metrics *m, const char *id,
			   const char *transport);
/* OK: accepted; RETRY: refused (the pipeline said not now); PERMANENT: failed. Samples refused by
 * strict decoding go to refused. */
void receiver_metrics_count(struct receiver_metrics *r, uint64_t samples, const struct outcome *o);
/* A request that never became a batch: undecodable (failed) or no room (refused). */
void receiver_metrics_refused(struct receiver_metrics *r);
void receiver_metrics_failed(struct receiver_metrics *r);

/* otelcol_process_*: RSS, CPU seconds, uptime, heap. Read when asked for. */
void process_metrics_register(struct metrics *m);
/* Resident memory of this process in bytes (/proc/self/statm); 0 when it cannot be read. */
uint64_t process_rss_bytes(void);
