/*
 * sending.h - the options that exporters to far peers share: timeout, retry_on_failure,
 * sending_queue.
 *
 * Names and defaults are the Collector's (exporterhelper). A remote exporter (component_ops.remote)
 * puts SENDING_FIELDS() into its table and names its struct sending_options by sending_offset;
 * pipeline/sender.h does the rest.
 *
 *   struct otlp { ...; struct sending_options sending; };
 *   static const struct config_field otlp_fields[] = {
 *           ...
 *           SENDING_FIELDS(struct otlp, sending, "5s"),
 *           {0},
 *   };
 *   const struct component_ops otlp_exporter = { ..., .remote = true, .sending_offset =
 * offsetof(struct otlp, sending) };
 */
#pragma once
#include "pipeline/options.h"

struct retry_options {
	bool enabled;
	uint64_t initial_interval_ns;
	double randomization_factor;
	double multiplier;
	uint64_t max_interval_ns;
	uint64_t max_elapsed_time_ns; /* 0 = forever; in front of a spool always forever */
};

enum queue_sizer { QUEUE_REQUESTS, QUEUE_ITEMS, QUEUE_BYTES };

struct queue_options {
	bool enabled;
	uint32_t num_consumers; /* requests in flight at once */
	uint64_t queue_size;    /* in units of sizer; items are samples */
	int sizer;              /* enum queue_sizer */
	uint64_t max_bytes;     /* ours: the bound in bytes besides, whatever the sizer */
	bool block_on_overflow;
	bool wait_for_result;
	const char *storage; /* id of a storage extension: the queue is a spool in its directory;
				NULL = none */
};

struct sending_options {
	uint64_t timeout_ns; /* of one attempt; the exporter keeps to it */
	struct retry_options retry;
	struct queue_options queue;
};

extern const struct config_field retry_fields[];
extern const struct config_field queue_fields[];

/* The wait after the n-th failure (from 1); chance is from [0, 1): 0.5 gives the interval itself.
 */
uint64_t retry_interval_ns(const struct retry_options *o, uint32_t failures, double chance);

/* clang-format off */
#define SENDING_FIELDS(type, member, timeout_default)                                                                  \
	{ .name = "timeout", .kind = CONFIG_DURATION, .offset = offsetof(type, member.timeout_ns),                     \
	  .default_text = timeout_default, .help = "longest time of one attempt" },                                    \
	{ .name = "retry_on_failure", .kind = CONFIG_SECTION, .offset = offsetof(type, member.retry),                  \
	  .fields = retry_fields, .help = "when and how long a failed request is sent again" },                        \
	{ .name = "sending_queue", .kind = CONFIG_SECTION, .offset = offsetof(type, member.queue),                     \
	  .fields = queue_fields, .help = "what waits for the peer" }
/* clang-format on */
