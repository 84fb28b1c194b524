/* sender_metrics.h - what a sender counts and logs, under the Collector's names and in its words.
 */
#pragma once
#include "pipeline/component.h"

enum drop_reason {
	DROP_REFUSED,      /* the peer will never take it */
	DROP_NO_RETRY,     /* retry_on_failure is off */
	DROP_RETRIES_OVER, /* max_elapsed_time has passed */
	DROP_SHUTDOWN,     /* the process stops */
};

struct sender_metrics {
	struct metric *sent, *send_failed, *enqueue_failed, *queue_size, *queue_capacity,
		*in_flight;
	struct metric *dropped[DROP_SHUTDOWN + 1];
	struct metric *retries;
};

/* A counter of samples of an exporter; destination NULL = a local one. */
struct metric *exporter_samples(struct metrics *m, const char *name, const char *help,
				const char *id, const struct component_destination *destination);
void sender_metrics_init(struct sender_metrics *m, struct metrics *registry, const char *id,
			 const struct component_destination *destination);
void sender_metrics_sent(struct sender_metrics *m, const char *id, uint64_t samples,
			 const struct outcome *o);
void sender_metrics_retry(struct sender_metrics *m, const char *id, const struct err *err,
			  uint64_t wait_ns);
/* rejecting: whoever sent it is told, so it is not lost here. */
void sender_metrics_dropped(struct sender_metrics *m, const char *id, uint64_t samples,
			    enum drop_reason reason, const struct err *err, bool rejecting);
