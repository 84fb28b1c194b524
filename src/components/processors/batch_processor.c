/*
 * batch: collects requests into larger ones, by size or time.
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

/* Until a batch is full, its time has come, or the end. */
static void wait_locked(struct batcher *b)
{
	while (!b->stopping && !full_locked(b)) {
		struct timespec until = { .tv_sec = (time_t)(b->due_ns / SECOND_NS),
					  .tv_nsec = (long)(b->due_ns % SECOND_NS) };

		if (b->count == 0)
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

static void batcher_consume(void *state, struct batch *batch, struct completion *done)
{
	const struct outcome ok = { .kind = OUTCOME_OK };
	struct batcher *b = state;
	bool taken = false, stopping;

	pthread_mutex_lock(&b->lock);
	stopping = b->stopping;
	if (!stopping && b->count < PENDING_MOST && b->bytes < pending_bytes_most) {
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
		refuse(batch, done, ERR_BUSY, "the batch processor is full");
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
