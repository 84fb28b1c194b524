/*
 * batch: collects requests into larger ones, by size or time. queuebatch: the same under the names
 * of an exporter's sending queue, with a bound on what is under way behind it.
 *
 * Names and defaults are the Collector's, whose own batch processor cannot do profiles. Success is
 * answered on taking in, so a pipeline with it is a memory pipeline: what is pending is lost with
 * the process, and what the successor does not keep is dropped here, counted and logged. Merging
 * interns the dictionaries into one; a split part has only what it uses. One thread collects,
 * merges and hands on.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "components/processors/processors.h"
#include "model/subset.h"

enum { PENDING_MOST = 4096 };
static const size_t pending_bytes_most = (size_t)64 << 20;

struct batcher {
	uint64_t timeout_ns;
	uint32_t send_batch_size, send_batch_max_size;
	struct config_strings metadata_keys;
	uint32_t metadata_cardinality_limit;
	/* queuebatch alone; 0 in batch: no bound but that on memory. */
	uint64_t num_consumers, queue_size;
	int sizer, batch_sizer; /* enum queue_sizer */
	bool enabled, block_on_overflow, wait_for_result;
	const char *storage;

	const struct component_host *host;
	struct metric *size_trigger, *timeout_trigger, *sent_samples, *dropped_refused,
		*dropped_failed;
	pthread_t thread;

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;  /* for the thread */
	pthread_cond_t idle;  /* for stop */
	struct batch *pending[PENDING_MOST];
	uint32_t count;
	uint64_t samples;
	size_t bytes;
	uint64_t due_ns; /* of the oldest pending */
	uint32_t in_flight;
	bool stopping;
};

struct flush {
	struct completion completion;
	struct batcher *batcher;
	uint64_t samples;
};

#define OFF(member) .offset = offsetof(struct batcher, member)

/* clang-format off */
static const struct config_field batch_fields[] = {
	{ .name = "timeout", .kind = CONFIG_DURATION, OFF(timeout_ns), .default_text = "200ms",
	  .help = "longest wait for a batch to fill; 0 = none" },
	{ .name = "send_batch_size", .kind = CONFIG_UINT32, OFF(send_batch_size), .default_text = "8192",
	  .help = "samples that make a batch full; 0 = send at once" },
	{ .name = "send_batch_max_size", .kind = CONFIG_UINT32, OFF(send_batch_max_size), .default_text = "0",
	  .help = "a larger batch is split; 0 = never" },
	{ .name = "metadata_keys", .kind = CONFIG_STRINGS, OFF(metadata_keys), .help = "must be empty: there is no client metadata" },
	{ .name = "metadata_cardinality_limit", .kind = CONFIG_UINT32, OFF(metadata_cardinality_limit),
	  .default_text = "1000", .help = "accepted, without effect" },
	{ 0 },
};
/* clang-format on */

enum queue_sizer { SIZER_REQUESTS, SIZER_ITEMS, SIZER_BYTES };
static const char *const queue_sizers[] = { "requests", "items", "bytes", NULL };
static const char *const batch_sizers[] = { "items", NULL };

/* clang-format off */
static const struct config_field partition_fields[] = {
	{ .name = "metadata_keys", .kind = CONFIG_STRINGS, OFF(metadata_keys), .help = "must be empty: there is no client metadata" },
	{ 0 },
};
static const struct config_field queuebatch_batch_fields[] = {
	{ .name = "flush_timeout", .kind = CONFIG_DURATION, OFF(timeout_ns), .default_text = "200ms", .help = "longest wait for a batch to fill" },
	{ .name = "min_size", .kind = CONFIG_UINT32, OFF(send_batch_size), .default_text = "8192", .help = "samples that make a batch full" },
	{ .name = "max_size", .kind = CONFIG_UINT32, OFF(send_batch_max_size), .default_text = "0", .help = "a larger batch is split; 0 = never" },
	{ .name = "sizer", .kind = CONFIG_ENUM, OFF(batch_sizer), .default_text = "items", .choices = batch_sizers, .help = "of the two: samples" },
	{ .name = "partition", .kind = CONFIG_SECTION, .fields = partition_fields, .help = "what is kept apart" },
	{ 0 },
};
static const struct config_field queuebatch_fields[] = {
	{ .name = "enabled", .kind = CONFIG_BOOL, OFF(enabled), .default_text = "true", .help = "false: everything passes" },
	{ .name = "num_consumers", .kind = CONFIG_UINT64, OFF(num_consumers), .default_text = "1", .min = 1, .max = 10000,
	  .help = "batches that may be under way at once" },
	{ .name = "queue_size", .kind = CONFIG_UINT64, OFF(queue_size), .default_text = "10", .min = 1, .max = 1e15,
	  .help = "what may wait while they are; more is refused" },
	{ .name = "sizer", .kind = CONFIG_ENUM, OFF(sizer), .default_text = "requests", .choices = queue_sizers, .help = "what queue_size counts" },
	{ .name = "block_on_overflow", .kind = CONFIG_BOOL, OFF(block_on_overflow), .default_text = "true",
	  .help = "accepted: senders are asked to try again either way" },
	{ .name = "wait_for_result", .kind = CONFIG_BOOL, OFF(wait_for_result), .default_text = "false", .help = "must be false" },
	{ .name = "storage", .kind = CONFIG_STRING, OFF(storage), .help = "must be absent: the exporter's sending_queue has one" },
	{ .name = "batch", .kind = CONFIG_SECTION, .fields = queuebatch_batch_fields, .help = "how requests are put together" },
	{ 0 },
};
/* clang-format on */

static bool queuebatch_check(void *state, struct err *err)
{
	const struct batcher *b = state;

	if (b->send_batch_max_size && b->send_batch_max_size < b->send_batch_size)
		return err_set(err, ERR_INVALID,
			       "\"max_size\" of batch must be greater or equal to \"min_size\"");
	if (b->metadata_keys.count)
		return err_set(err, ERR_UNSUPPORTED,
			       "\"metadata_keys\" cannot be kept apart here: leave it out");
	if (b->wait_for_result)
		return err_set(err, ERR_UNSUPPORTED, "\"wait_for_result\" is not offered here");
	if (b->storage)
		return err_set(err, ERR_UNSUPPORTED,
			       "\"storage\" is not offered here: give it to the exporter's "
			       "sending_queue");
	return true;
}

static bool batcher_check(void *state, struct err *err)
{
	const struct batcher *b = state;

	if (b->send_batch_max_size && b->send_batch_max_size < b->send_batch_size)
		return err_set(err, ERR_INVALID,
			       "send_batch_max_size must be greater or equal to send_batch_size");
	if (b->metadata_keys.count)
		return err_set(err, ERR_UNSUPPORTED,
			       "\"metadata_keys\" cannot be kept apart here: leave it out");
	return true;
}

static void count_dropped(struct batcher *b, struct metric *why, uint64_t samples,
			  const struct err *err)
{
	static struct log_gate gate;
	uint64_t skipped;

	metric_add(why, (int64_t)samples);
	if (log_gate_open(&gate, SECOND_NS, &skipped))
		LOG(LOG_ERROR, "Batch is lost: the pipeline behind does not take it",
		    LOG_S("processor", b->host->id), LOG_S("error", err->msg),
		    LOG_U("dropped_items", samples), LOG_U("like_lines_skipped", skipped));
}

static void flush_done(struct completion *c, const struct outcome *o)
{
	struct flush *f = CONTAINER_OF(c, struct flush, completion);
	struct batcher *b = f->batcher;

	if (o->kind == OUTCOME_OK)
		metric_add(b->sent_samples, (int64_t)f->samples);
	else
		count_dropped(b, b->dropped_refused, f->samples, &o->err);
	free(f);
	pthread_mutex_lock(&b->lock);
	b->in_flight--;
	pthread_cond_broadcast(&b->idle);
	pthread_cond_signal(&b->wake); /* who waited for a consumer */
	pthread_mutex_unlock(&b->lock);
}

static void hand_on(struct batcher *b, struct batch *batch)
{
	struct flush *f = malloc(sizeof(*f));

	assert(f);
	*f = (struct flush){ { flush_done }, b, batch_sample_count(batch) };
	pthread_mutex_lock(&b->lock);
	b->in_flight++;
	pthread_mutex_unlock(&b->lock);
	consumer_consume(b->host->next, batch, &f->completion);
}

/* A repeated set of requests makes the same batch: its identity is that of its parts. */
static struct hash128 parts_hash(struct batch **parts, uint32_t count)
{
	struct hash128 hash;
	struct buf all;

	buf_init(&all, 0);
	for (uint32_t i = 0; i < count; i++) {
		hash = batch_request_hash(parts[i]);
		buf_append(&all, &hash, sizeof(hash));
	}
	hash = hash128(buf_view(&all));
	buf_release(&all);
	return hash;
}

static void send_message(struct batcher *b, struct profiles *p, struct hash128 hash,
			 uint64_t received_unix_ns)
{
	struct batch *batch;
	struct err err;

	batch = batch_new(p, NULL, b->host->budget, &err);
	if (!batch) {
		count_dropped(b, b->dropped_failed, p->sample_count, &err);
		profiles_free(p);
		return;
	}
	batch->received_unix_ns = received_unix_ns;
	batch->transport = "batch";
	batch_set_request_hash(batch, hash);
	hand_on(b, batch);
}

/* Cut into parts of at most send_batch_max_size samples. */
static void send_parts(struct batcher *b, struct profiles *whole, struct hash128 hash,
		       uint64_t received_unix_ns)
{
	uint32_t most = b->send_batch_max_size;

	for (uint32_t first = 0; first < whole->sample_count; first += most) {
		uint32_t count =
			whole->sample_count - first < most ? whole->sample_count - first : most;
		struct profiles *part;
		struct err err;

		part = profiles_subset(whole, first, count, &err);
		hash.lo++; /* each part is a request of its own */
		if (part)
			send_message(b, part, hash, received_unix_ns);
		else
			count_dropped(b, b->dropped_failed, count, &err);
	}
	profiles_free(whole);
}

static void flush(struct batcher *b, struct batch **parts, uint32_t count)
{
	const struct profiles *messages[PENDING_MOST];
	uint64_t received_unix_ns = parts[0]->received_unix_ns, samples = 0;
	struct profiles *merged;
	struct hash128 hash;
	struct err err;
	bool split;

	for (uint32_t i = 0; i < count; i++) {
		messages[i] = parts[i]->profiles;
		samples += parts[i]->profiles->sample_count;
	}
	split = b->send_batch_max_size && samples > b->send_batch_max_size;
	if (count == 1 && !split) { /* as it came, body and all */
		hand_on(b, parts[0]);
		return;
	}
	hash = parts_hash(parts, count);
	merged = profiles_merge(messages, count, &err);
	for (uint32_t i = 0; i < count; i++)
		batch_unref(parts[i]); /* before the merged one asks for memory */
	if (!merged)
		count_dropped(b, b->dropped_failed, samples, &err);
	else if (split)
		send_parts(b, merged, hash, received_unix_ns);
	else
		send_message(b, merged, hash, received_unix_ns);
}

static bool full_locked(const struct batcher *b)
{
	return b->count && (b->samples >= b->send_batch_size || b->count == PENDING_MOST ||
			    b->bytes >= pending_bytes_most);
}

static bool may_send_locked(const struct batcher *b)
{
	return !b->num_consumers || b->in_flight < b->num_consumers;
}

/* Until a batch is full or its time has come, and a consumer is free, or the end. */
static void wait_locked(struct batcher *b)
{
	while (!b->stopping && !(full_locked(b) && may_send_locked(b))) {
		struct timespec until = { .tv_sec = (time_t)(b->due_ns / SECOND_NS),
					  .tv_nsec = (long)(b->due_ns % SECOND_NS) };

		if (b->count == 0 || !may_send_locked(b))
			pthread_cond_wait(&b->wake, &b->lock);
		else if (clock_monotonic_ns() >= b->due_ns)
			return;
		else
			pthread_cond_timedwait(&b->wake, &b->lock, &until);
	}
}

/* The oldest, up to a full batch; what came meanwhile begins the next one. */
static uint32_t take_locked(struct batcher *b, struct batch **parts)
{
	uint64_t samples = 0;
	uint32_t n = 0;

	while (n < b->count && (n == 0 || samples < b->send_batch_size)) {
		parts[n] = b->pending[n];
		samples += batch_sample_count(parts[n]);
		b->bytes -= batch_bytes(parts[n]);
		n++;
	}
	b->count -= n;
	b->samples -= samples;
	memmove(b->pending, b->pending + n, b->count * sizeof(struct batch *));
	b->due_ns = clock_monotonic_ns() + b->timeout_ns;
	return n;
}

static void *batcher_loop(void *arg)
{
	struct batcher *b = arg;
	struct batch **parts = calloc(PENDING_MOST, sizeof(struct batch *));
	uint32_t count;

	assert(parts);
	pthread_setname_np(pthread_self(), "batch");
	pthread_mutex_lock(&b->lock);
	for (;;) {
		wait_locked(b);
		if (b->count == 0)
			break;
		metric_add(full_locked(b) ? b->size_trigger : b->timeout_trigger, 1);
		count = take_locked(b, parts);
		pthread_mutex_unlock(&b->lock);
		flush(b, parts, count);
		pthread_mutex_lock(&b->lock);
	}
	pthread_mutex_unlock(&b->lock);
	free(parts);
	return NULL;
}

static void refuse(struct batch *batch, struct completion *done, enum err_kind kind,
		   const char *why)
{
	struct outcome o = { .kind = OUTCOME_RETRY };

	err_set(&o.err, kind, "%s", why);
	batch_unref(batch);
	completion_done(done, &o);
}

static bool queue_full_locked(const struct batcher *b)
{
	if (b->count == PENDING_MOST || b->bytes >= pending_bytes_most)
		return true;
	if (!b->queue_size || may_send_locked(b))
		return false;
	if (b->sizer == SIZER_REQUESTS)
		return b->count >= b->queue_size;
	return (b->sizer == SIZER_ITEMS ? b->samples : b->bytes) >= b->queue_size;
}

static void batcher_consume(void *state, struct batch *batch, struct completion *done)
{
	const struct outcome ok = { .kind = OUTCOME_OK };
	struct batcher *b = state;
	bool taken = false, stopping;

	pthread_mutex_lock(&b->lock);
	stopping = b->stopping;
	if (!stopping && !queue_full_locked(b)) {
		if (b->count == 0)
			b->due_ns = clock_monotonic_ns() + b->timeout_ns;
		b->pending[b->count++] = batch;
		b->samples += batch_sample_count(batch);
		b->bytes += batch_bytes(batch);
		taken = true;
		if (b->count == 1 || full_locked(b))
			pthread_cond_signal(&b->wake);
	}
	pthread_mutex_unlock(&b->lock);
	if (taken)
		completion_done(done, &ok);
	else if (stopping)
		refuse(batch, done, ERR_UNAVAILABLE, "shutting down");
	else
		refuse(batch, done, ERR_BUSY,
		       b->queue_size ? "sending queue is full" : "the batch processor is full");
}

static struct metric *counter(const struct component_host *h, const char *name, const char *help)
{
	static const char *const labels[] = { "processor", NULL };
	struct str id = str_cstr(h->id);

	return metric_get(metrics_family(h->metrics, METRIC_COUNTER, name, help, labels, 0), &id);
}

static struct metric *dropped(const struct component_host *h, const char *reason)
{
	static const char *const labels[] = { "processor", "reason", NULL };
	struct str values[] = { str_cstr(h->id), str_cstr(reason) };

	return metric_get(
		metrics_family(h->metrics, METRIC_COUNTER, "flametap_batch_dropped_samples_total",
			       "Samples lost in a batch that the pipeline behind refused, or "
			       "that could not be made (failed: no memory, too large).",
			       labels, 0),
		values);
}

static bool batcher_start(void *state, const struct component_host *host, struct err *err)
{
	struct batcher *b = state;
	pthread_condattr_t attr;
	int rc;

	b->host = host;
	b->size_trigger = counter(host, "otelcol_processor_batch_batch_size_trigger_send",
				  "Batches sent as they were full.");
	b->timeout_trigger = counter(host, "otelcol_processor_batch_timeout_trigger_send",
				     "Batches sent as their time had come.");
	b->sent_samples = counter(host, "otelcol_processor_batch_batch_send_size_sum",
				  "Samples in the batches that were sent.");
	b->dropped_refused = dropped(host, "refused");
	b->dropped_failed = dropped(host, "failed");
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->wake, &attr);
	pthread_cond_init(&b->idle, &attr);
	pthread_condattr_destroy(&attr);
	rc = pthread_create(&b->thread, NULL, batcher_loop, b);
	if (rc == 0)
		return true;
	errno = rc;
	return err_set_errno(err, "cannot start the batch processor's thread");
}

/* What is pending goes on; the exporters behind still run and answer. */
static void batcher_stop(void *state, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
				  .tv_nsec = (long)(deadline_ns % SECOND_NS) };
	struct batcher *b = state;
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	b->stopping = true;
	pthread_cond_signal(&b->wake);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	pthread_mutex_lock(&b->lock);
	while (b->in_flight && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&b->idle, &b->lock, &until);
	pthread_mutex_unlock(&b->lock);
}

static void queuebatch_consume(void *state, struct batch *batch, struct completion *done)
{
	struct batcher *b = state;

	if (b->enabled)
		batcher_consume(b, batch, done);
	else
		consumer_consume(b->host->next, batch, done);
}

const struct component_ops queuebatch_processor = {
	.type = "queuebatch",
	.summary = "collects requests into larger ones, behind a bounded queue",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct batcher),
	.fields = queuebatch_fields,
	.memory = true,
	.check = queuebatch_check,
	.start = batcher_start,
	.consume = queuebatch_consume,
	.stop = batcher_stop,
};

const struct component_ops batch_processor = {
	.type = "batch",
	.summary = "collects requests into larger ones",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct batcher),
	.fields = batch_fields,
	.memory = true,
	.check = batcher_check,
	.start = batcher_start,
	.consume = batcher_consume,
	.stop = batcher_stop,
};
