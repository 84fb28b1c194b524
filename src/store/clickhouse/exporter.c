/*
 * exporter.c - the exporter `clickhouse`: every sample of every profile, in a ClickHouse server or
 * cluster.
 *
 * One thread inserts. What queued while it did so is its next insert; between two there is at least
 * flush_interval, unless enough waits, so that a server gets few large inserts, and the first
 * request after a pause none to wait for. A batch is acknowledged once all of it is inserted:
 * dictionary, links, samples, and last the row of the request, which is what makes it received. A
 * server that is away is answered RETRY: what stands before a remote exporter (pipeline/sender.h)
 * keeps it in the spool and then pushes back.
 *
 * Once and never twice. The row of a request says that it is there. An insert whose end nobody saw
 * is fenced (fence.h) so that it cannot arrive later; then the samples that are there are counted,
 * and only the missing ones are sent. The same goes for inserts of the process before this one.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipeline/failing.h"
#include "store/clickhouse/exporter_internal.h"
#include "store/exporters.h"

enum { EXPIRE_EVERY_S = 3600, UNSURE_MOST_S = 86400, WAITING_MOST = 4096 };

/* ---- counting ---- */

static struct metric *counter(const struct clickhouse *x, const char *name, const char *help)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str id = str_cstr(x->host->id);

	return metric_get(metrics_family(x->host->metrics, METRIC_COUNTER, name, help, labels, 0),
			  &id);
}

static void make_metrics(struct clickhouse *x)
{
	if (!x->host->metrics)
		return;
	x->requests = counter(x, "flametap_store_requests_total", "requests committed");
	x->duplicates = counter(x, "flametap_store_duplicate_requests_total",
				"requests that came again within dedup_window: acknowledged, not "
				"stored again");
	x->samples = counter(x, "flametap_store_samples_total", "samples committed");
	x->rows = counter(x, "flametap_store_dictionary_rows_total",
			  "dictionary entries (texts, functions, stacks, ...) committed");
	x->repaired = counter(x, "flametap_store_completed_requests_total",
			      "requests of which an insert had left a part, completed");
}

/* ---- the server and its tables ---- */

/* The entries of a writer have numbers of their own. */
static bool begin_writer(struct clickhouse *x, struct err *err)
{
	uint32_t writer;

	if (!ch_schema_new_writer(x->server, &writer, err))
		return err_prefix(err, "a number for this writer");
	ch_encoder_writer(&x->encoder, writer);
	return true;
}

static bool connect(struct clickhouse *x, struct err *err)
{
	if (x->ready)
		return !ch_encoder_is_spent(&x->encoder) || begin_writer(x, err);
	if (!ch_server_connect(x->server, &x->version, err) &&
	    !(err->kind == ERR_NOT_FOUND && x->create_schema &&
	      ch_server_make_database(x->server, x->cluster_name, err) &&
	      ch_server_connect(x->server, &x->version, err)))
		return false;
	x->schema.features = x->version.features;
	x->schema.database = ch_server_database(x->server);
	if (x->create_schema && !ch_schema_create(&x->schema, x->server, err))
		return false;
	if ((!x->create_schema && !ch_schema_mark(x->server, err)) ||
	    !ch_schema_test(x->server, err) || !begin_writer(x, err))
		return false;
	/* A block that the server merges with others' is a different one each time. */
	x->fence.again = false;
	if (!x->async_insert && !ch_schema_knows_again(&x->schema, x->server, &x->fence.again, err))
		return false;
	x->ready = true;
	LOG(LOG_INFO, "Keeping profiles in ClickHouse", LOG_S("endpoint", x->at.base),
	    LOG_S("database", x->schema.database), LOG_U("major", x->version.major),
	    LOG_U("minor", x->version.minor));
	return true;
}

static void expire(struct clickhouse *x)
{
	static struct log_gate gate;
	uint64_t now = clock_monotonic_ns(), skipped;
	struct err err;

	if (!x->ready || now < x->expire_at_ns)
		return;
	x->expire_at_ns = now + EXPIRE_EVERY_S * SECOND_NS;
	if (!ch_schema_expire(&x->schema, x->server, clock_realtime_ns(), &err) &&
	    log_gate_open(&gate, MINUTE_NS, &skipped))
		LOG(LOG_ERROR, "ClickHouse keeps what is older than the ttl",
		    LOG_S("error", err.msg));
}

/* ---- the worker ---- */

/* Nothing is lost: the sender in front of the exporter keeps the batch or sends it again. */
static void tell_state(const struct clickhouse *x, const struct err *failure)
{
	store_failing_note(x->store_name, 0, failure);
}

/* An upload by a person is always kept: it is a request of its own, however often it comes. */
static struct hash128 hash_of(struct batch *b)
{
	struct hash128 h = batch_request_hash(b);

	if (b->transport && strcmp(b->transport, "file") == 0)
		h.hi ^= b->received_unix_ns * UINT64_C(0x9e3779b97f4a7c15);
	return h;
}

/* A spool knows a request again that it gave to a process before this one. Without it, who was not
 * answered by that one may send it again for a while. */
static bool is_spooled(const struct clickhouse *x)
{
	return x->sending.queue.enabled && x->host->durable && x->host->spool_dir;
}

static void make_works(struct clickhouse *x, struct worker_item *items, uint32_t n,
		       struct work *works)
{
	uint64_t unsure_until = x->started_unix_ns + (is_spooled(x) ? 0 : x->dedup_window_ns);

	for (uint32_t i = 0; i < n; i++) {
		struct batch *b = items[i].batch;
		struct hash128 hash = hash_of(b);

		works[i] = (struct work){
			.item = &items[i],
			.request = { .profiles = b->profiles,
				     .hash = hash,
				     .arrived_unix_ns = b->received_unix_ns },
			.day = ch_day(b->received_unix_ns),
			.unsure = b->received_unix_ns < unsure_until ||
				  spool_seen_has(&x->unsure, hash, clock_realtime_ns()),
		};
	}
}

static void answer(struct clickhouse *x, struct worker_item *item, bool ok, const struct err *err)
{
	struct outcome o = ok ? outcome_ok() : outcome_of(err);
	size_t bytes = batch_bytes(item->batch);

	/* The batch is fine: the server cannot take it now. */
	if (!ok && err->kind != ERR_LIMIT)
		o.kind = OUTCOME_RETRY;
	worker_item_done(item, &o);
	pthread_mutex_lock(&x->lock);
	x->waiting--;
	x->waiting_bytes -= bytes;
	pthread_mutex_unlock(&x->lock);
}

static void write_items(struct clickhouse *x, struct worker_item *items, uint32_t n)
{
	static struct log_gate gate;
	struct work *works = calloc(n, sizeof(*works));
	struct err err = { 0 };
	uint64_t skipped;
	bool ok;

	assert(works);
	make_works(x, items, n, works);
	ok = connect(x, &err) && clickhouse_insert(x, works, n, &err);
	if (!ok && err.kind == ERR_NOT_FOUND)
		x->ready = false; /* somebody dropped a table */
	if (!ok && log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_ERROR, "ClickHouse cannot be written", LOG_S("endpoint", x->at.base),
		    LOG_S("error", err.msg), LOG_U("unlogged", skipped));
	if (ok ||
	    err.kind != ERR_LIMIT) /* a batch that is too large says nothing about the server */
		tell_state(x, ok ? NULL : &err);
	for (uint32_t i = 0; i < n; i++) {
		if (!ok)
			spool_seen_add(&x->unsure, works[i].request.hash, clock_realtime_ns());
		free(works[i].have);
		answer(x, works[i].item, ok, &err);
	}
	free(works);
}

/* How many of the items go into one insert. */
static uint32_t take_run(const struct clickhouse *x, const struct worker_item *items, uint32_t n)
{
	uint64_t rows = 0, bytes = 0;
	uint32_t i = 0;

	while (i < n) {
		rows += items[i].batch->profiles->sample_count;
		bytes += batch_bytes(items[i].batch);
		if (i && (rows > x->max_rows || bytes > x->max_bytes))
			break;
		i++;
	}
	return i;
}

/* Waits until the next insert is due: its time has come, no more can come, or enough has come. */
static void pause_until(struct clickhouse *x, uint64_t due_ns)
{
	struct timespec t = { .tv_sec = (time_t)(due_ns / SECOND_NS),
			      .tv_nsec = (long)(due_ns % SECOND_NS) };
	uint32_t enough =
		x->sending.queue.enabled || x->host->durable ? x->sending.queue.num_consumers : 16;

	pthread_mutex_lock(&x->lock);
	while (!x->stopping && x->waiting < enough && x->waiting_bytes < x->max_bytes &&
	       clock_monotonic_ns() < due_ns)
		pthread_cond_timedwait(&x->more, &x->lock, &t);
	pthread_mutex_unlock(&x->lock);
}

static void clickhouse_work(void *arg, struct worker_item *items, uint32_t n)
{
	struct clickhouse *x = arg;
	uint64_t due = clock_monotonic_ns() + x->flush_interval_ns;

	while (n) {
		uint32_t run = take_run(x, items, n);

		write_items(x, items, run);
		items += run;
		n -= run;
	}
	expire(x);
	pause_until(x, due);
}

static void clickhouse_idle(void *arg)
{
	struct clickhouse *x = arg;
	struct err err;
	bool was_ready = x->ready, ok = was_ready || connect(x, &err);

	/* The first look is at start, so that a wrong address is seen before the first request. */
	if (!was_ready)
		tell_state(x, ok ? NULL : &err);
	if (!ok) {
		static struct log_gate gate;
		uint64_t skipped;

		if (log_gate_open(&gate, MINUTE_NS, &skipped))
			LOG(LOG_WARN, "ClickHouse is not ready", LOG_S("endpoint", x->at.base),
			    LOG_S("error", err.msg));
	}
	expire(x);
}

/* ---- the component ---- */

static struct ch_server *make_server(struct clickhouse *x, struct err *err)
{
	struct ch_options o = {
		.endpoint = &x->at,
		.user = clickhouse_text(x->username),
		.password = x->file_password ? x->file_password : x->password,
		.database = clickhouse_text(x->database),
		.tls = { .ca_file = clickhouse_text(x->tls.ca_file),
			 .cert_file = clickhouse_text(x->tls.cert_file),
			 .key_file = clickhouse_text(x->tls.key_file),
			 .server_name = clickhouse_text(x->tls.server_name_override),
			 .insecure_skip_verify = x->tls.insecure_skip_verify },
		.timeout_ns = x->sending.timeout_ns,
		.compress = clickhouse_compresses(x),
		.more_settings = x->settings,
	};

	return ch_server_new(&o, err);
}

static bool clickhouse_start(void *state, const struct component_host *host, struct err *err)
{
	struct clickhouse *x = state;
	struct worker_options options = {
		.name = "clickhouse",
		.work = clickhouse_work,
		.idle = clickhouse_idle,
		.idle_ns = SECOND_NS,
		.idle_again = true,
		.arg = x,
		.limit_bytes = SIZE_MAX / 2, /* consume() sees to both limits */
		.limit_batches = WAITING_MOST + 1,
	};
	pthread_condattr_t attr;

	x->host = host;
	x->started_unix_ns = clock_realtime_ns();
	make_metrics(x);
	pthread_mutex_init(&x->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&x->more, &attr);
	pthread_condattr_destroy(&attr);
	spool_seen_init(&x->unsure, UNSURE_MOST_S * SECOND_NS);
	ch_encoder_init(&x->encoder, x->tenant);
	ch_fence_init(&x->fence);
	x->server = make_server(x, err);
	if (!x->server)
		return false;
	x->worker = worker_new(&options, err);
	return x->worker != NULL;
}

static void clickhouse_consume(void *state, struct batch *batch, struct completion *done)
{
	struct clickhouse *x = state;
	struct outcome busy = { .kind = OUTCOME_RETRY };
	bool full;

	pthread_mutex_lock(&x->lock);
	full = x->waiting >= WAITING_MOST || x->waiting_bytes > 2 * x->max_bytes;
	x->waiting += !full;
	x->waiting_bytes += full ? 0 : batch_bytes(batch);
	pthread_cond_signal(&x->more);
	pthread_mutex_unlock(&x->lock);
	if (!full) {
		worker_push(x->worker, batch, done);
		return;
	}
	err_set(&busy.err, ERR_BUSY, "ClickHouse is slower than what comes");
	batch_unref(batch);
	completion_done(done, &busy);
}

static void clickhouse_stop(void *state, uint64_t deadline_ns)
{
	struct clickhouse *x = state;

	pthread_mutex_lock(&x->lock);
	x->stopping = true;
	pthread_cond_broadcast(&x->more);
	pthread_mutex_unlock(&x->lock);
	ch_server_end_by(x->server, deadline_ns);
	worker_stop(x->worker, deadline_ns);
}

static void clickhouse_release(void *state)
{
	struct clickhouse *x = state;

	worker_free(x->worker);
	ch_server_free(x->server);
	if (x->host) {
		ch_encoder_release(&x->encoder);
		ch_fence_release(&x->fence);
		spool_seen_release(&x->unsure);
		pthread_mutex_destroy(&x->lock);
		pthread_cond_destroy(&x->more);
	}
	ch_endpoint_release(&x->at);
	if (x->file_password)
		explicit_bzero(x->file_password, strlen(x->file_password));
	free(x->file_password);
	free(x->settings);
	free(x->store_name);
	buf_release(&x->sql);
	buf_release(&x->answer);
}

/* As its metrics name it. */
static struct component_destination clickhouse_destination(const void *state)
{
	const struct clickhouse *x = state;
	struct str rest = str_cstr(x->at.base);
	struct component_destination d = { 0 };
	ptrdiff_t scheme = str_search(rest, STR("://")), colon;

	rest = str_skip(rest, (size_t)(scheme < 0 ? 0 : scheme + 3));
	if (str_has_suffix(rest, STR("/")))
		rest.len--;
	for (colon = (ptrdiff_t)rest.len - 1;
	     colon > 0 && rest.ptr[colon] >= '0' && rest.ptr[colon] <= '9'; colon--)
		;
	d.address = rest;
	if (colon > 0 && rest.ptr[colon] == ':') {
		d.address = str_head(rest, (size_t)colon);
		d.port = str_skip(rest, (size_t)colon + 1);
	}
	return d;
}

const struct component_ops clickhouse_exporter = {
	.type = "clickhouse",
	.summary = "keeps every sample of every profile in ClickHouse",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct clickhouse),
	.fields = clickhouse_fields,
	.remote = true,
	.gathers = true,
	.sending_offset = offsetof(struct clickhouse, sending),
	.check = clickhouse_check,
	.start = clickhouse_start,
	.consume = clickhouse_consume,
	.stop = clickhouse_stop,
	.release = clickhouse_release,
	.destination = clickhouse_destination,
};
