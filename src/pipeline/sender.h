/*
 * sender.h - what stands before a remote exporter: its queue, its retries, and in durable pipelines
 * its spool.
 *
 * SENDER_DIRECT  no queue: the answer is the peer's. In a durable graph one attempt (the sender
 * repeats), else with retries. SENDER_MEMORY  OK on enqueue; bounded in requests (or samples,
 * bytes) and in bytes; lost with the process, and counted. SENDER_SPOOL   OK once the request is in
 * the spool; it is sent from there until the peer took it or refused it for good.
 *
 * One thread for each sender keeps queue, retries and spool; up to num_consumers attempts are in
 * flight (more for an exporter that gathers them), each a consume() of the exporter. What lies in
 * the spool is sent out of memory as well, half of max_mib of it, and else read back; it is packed
 * while the peer does not take it, or it fills half of the spools' room. A wait between attempts is
 * initial_interval x multiplier^n, by chance up to randomization_factor longer or shorter, at most
 * max_interval, and at least what the peer asked for.
 *
 * Counts otelcol_exporter_{sent,send_failed,enqueue_failed}_profile_samples, _queue_size,
 * _queue_capacity, _in_flight_requests, and flametap_exporter_dropped_requests_total by reason.
 */
#pragma once
#include "pipeline/config.h"
#include "pipeline/sending.h"

enum sender_mode { SENDER_DIRECT, SENDER_MEMORY, SENDER_SPOOL };

struct sender_options {
	const char *id; /* of the exporter */
	const struct component_ops *ops;
	void *state;
	const struct sending_options *sending;
	enum sender_mode mode;
	bool retry; /* DIRECT: with retries */
	const char *
		spool_path; /* SPOOL: a directory of this sender's own; made when it is not there */
	int spool_fsync;    /* enum spool_fsync */
	uint64_t destination; /* hash of what tells the peer from another; 0: not said */
	uint64_t spool_fsync_interval_ns;
	uint64_t dedup_window_ns;    /* of the spool */
	struct budget *spool_budget; /* bytes on disk, shared by all spools; NULL = none */
	struct budget *budget;       /* memory of batches read back */
	struct metrics *metrics;
};

struct sender;

struct sender *sender_new(const struct sender_options *options);
/* Opens the spool and starts the thread; the exporter has been started. */
bool sender_start(struct sender *s, struct err *err) MUST_CHECK;
struct consumer *sender_consumer(struct sender *s);
/*
 * The end, in two steps with the exporter's own stop() between them. drain: takes nothing more;
 * sends what is in memory, one attempt each, until the deadline; what is in a spool stays there.
 * finish: drops and counts what is left, joins the thread.
 */
void sender_drain(struct sender *s, uint64_t deadline_ns);
void sender_finish(struct sender *s);
void sender_free(struct sender *s); /* NULL is fine */
