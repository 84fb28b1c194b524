/*
 * sqlite_exporter.c - the exporter that keeps everything in one SQLite file.
 *
 * One thread writes. What queued while it committed is its next transaction, so that the cost of
 * making it durable (fsync) is shared by whoever waits for it, and nobody waits for a timer. A
 * batch is acknowledged once its transaction is committed; one that came before within dedup_window
 * is acknowledged and not stored again. A full disk is answered RETRY until there is room.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/failing.h"
#include "pipeline/worker.h"
#include "store/exporters.h"
#include "store/write/writer.h"

enum {
	IDLE_NS = 1000000000,
	UPKEEP_IDLE_NS = 200000000, /* in a pause: a request that comes then waits so long */
	UPKEEP_BUSY_NS = 5000000,   /* after each commit */
	OVER_SHARE = 8,             /* too large by that part of the limit is worth a word */
	CACHE_LEAST = 1 << 20,
	CACHE_MOST = 1 << 30,
};

struct sqlite_exporter {
	const char *path, *tenant;
	int durability;
	uint64_t retention_ns, max_size_bytes, dedup_window_ns, cache_bytes;

	const struct component_host *host;
	struct worker *worker;
	struct store_writer *writer; /* the worker's */
	struct metric *requests, *duplicates, *samples, *rows, *file_bytes, *set_aside;
	struct metric *swept_samples, *swept_rows;
	struct store_writer_facts counted;
};

static const char *const durabilities[] = { "full", "process", NULL };

#define FIELD(name_, kind_, member, default_, help_, ...)                                       \
	{                                                                                       \
		.name = (name_), .kind = (kind_),                                               \
		.offset = offsetof(struct sqlite_exporter, member), .default_text = (default_), \
		.help = (help_), ##__VA_ARGS__                                                  \
	}

static const struct config_field sqlite_fields[] = {
	FIELD("path", CONFIG_STRING, path, "flametap.db", "the file; made when missing"),
	FIELD("retention", CONFIG_DURATION, retention_ns, "0",
	      "how long to keep data; 0 = forever"),
	FIELD("max_size", CONFIG_SIZE, max_size_bytes, "0",
	      "size limit; the oldest data goes first; 0 = none"),
	FIELD("durability", CONFIG_ENUM, durability, "full",
	      "what acknowledged data survives: power loss (full), or only a crash of the "
	      "process (process)",
	      .choices = durabilities),
	FIELD("dedup_window", CONFIG_DURATION, dedup_window_ns, "10m",
	      "how long a request is known again when its sender repeats it (0: never)"),
	FIELD("tenant", CONFIG_STRING, tenant, NULL, "whose samples these are"),
	FIELD("cache", CONFIG_SIZE, cache_bytes, "8MiB",
	      "memory for pages of the file, and as much again for what is known to be in it"),
	{ 0 },
};

/* ---- counting ---- */

static struct metric *counter(const struct component_host *host, const char *name, const char *help)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str id = str_cstr(host->id);

	return metric_get(metrics_family(host->metrics, METRIC_COUNTER, name, help, labels, 0),
			  &id);
}

static void make_metrics(struct sqlite_exporter *x)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str id = str_cstr(x->host->id);

	if (!x->host->metrics)
		return;
	x->requests = counter(x->host, "flametap_store_requests_total", "requests committed");
	x->duplicates = counter(x->host, "flametap_store_duplicate_requests_total",
				"requests that came again within dedup_window: acknowledged, not "
				"stored again");
	x->samples = counter(x->host, "flametap_store_samples_total", "samples committed");
	x->rows = counter(x->host, "flametap_store_dictionary_rows_total",
			  "dictionary entries (texts, functions, stacks, ...) committed");
	x->swept_samples = counter(x->host, "flametap_store_expired_samples_total",
				   "samples deleted by retention or max_size");
	x->swept_rows = counter(x->host, "flametap_store_expired_rows_total",
				"dictionary entries deleted because no sample needs them any more");
	x->set_aside = counter(x->host, "flametap_store_damaged_files_total",
			       "damaged store files that were set aside");
	x->file_bytes = metric_get(metrics_family(x->host->metrics, METRIC_GAUGE,
						  "flametap_store_file_bytes",
						  "size of the store's file and log", labels, 0),
				   &id);
}

static void count(struct sqlite_exporter *x)
{
	struct store_writer_facts now = store_writer_facts(x->writer);

	if (!x->requests)
		return;
	metric_add(x->requests, (int64_t)(now.requests - x->counted.requests));
	metric_add(x->duplicates, (int64_t)(now.duplicates - x->counted.duplicates));
	metric_add(x->samples, (int64_t)(now.samples - x->counted.samples));
	metric_add(x->rows, (int64_t)(now.rows_added - x->counted.rows_added));
	metric_add(x->swept_samples, (int64_t)(now.swept_samples - x->counted.swept_samples));
	metric_add(x->swept_rows, (int64_t)(now.swept_rows - x->counted.swept_rows));
	metric_set(x->file_bytes, (int64_t)now.file_bytes);
	x->counted = now;
}

/* ---- writing ---- */

static bool open_writer(struct sqlite_exporter *x, struct err *err)
{
	struct store_writer_options options = {
		.path = x->path,
		.durability = (enum store_durability)x->durability,
		.dedup_window_ns = x->dedup_window_ns,
		.retention_ns = x->retention_ns,
		.max_size_bytes = x->max_size_bytes,
		.tenant = x->tenant,
		.known_bytes = x->cache_bytes,
		.cache_bytes = x->cache_bytes,
	};
	char aside[512];

	if (!store_writer_open(&options, &x->writer, aside, err))
		return false;
	x->counted = store_writer_facts(x->writer);
	if (!aside[0])
		return true;
	LOG(LOG_ERROR,
	    "The store was damaged: set aside, a new one begun; 'flametap store salvage' reads "
	    "what it can "
	    "of the old one",
	    LOG_S("path", x->path), LOG_S("damaged", aside));
	if (x->set_aside)
		metric_add(x->set_aside, 1);
	return true;
}

/* A damaged file shows itself in the middle of the work too. */
static bool reopen_when_damaged(struct sqlite_exporter *x, struct err *err)
{
	if (x->writer && !store_writer_damaged(x->writer))
		return true;
	store_writer_close(x->writer);
	x->writer = NULL;
	return open_writer(x, err);
}

/* All of them in one transaction, or none. */
static bool write_items(struct sqlite_exporter *x, const struct worker_item *items, uint32_t n,
			struct err *err)
{
	if (!reopen_when_damaged(x, err) || !store_writer_begin(x->writer, err))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct batch *b = items[i].batch;
		struct store_request r = {
			.profiles = b->profiles,
			.hash = batch_request_hash(b),
			.arrived_unix_ns = b->received_unix_ns,
			.always = b->transport && strcmp(b->transport, "file") == 0,
		};
		bool duplicate;

		if (!store_writer_put(x->writer, &r, &duplicate, err)) {
			store_writer_rollback(x->writer);
			return false;
		}
	}
	return store_writer_commit(x->writer, err);
}

static void answer(struct worker_item *item, bool ok, const struct err *err)
{
	struct outcome o = ok ? outcome_ok() : outcome_of(err);

	/* The batch can be read: it is the store that cannot take it now. */
	if (!ok && err->kind != ERR_LIMIT)
		o.kind = OUTCOME_RETRY;
	worker_item_done(item, &o);
}

/* What max_size cannot hold is said, and why. */
static void tell_too_large(const struct sqlite_exporter *x, const struct store_writer_facts *f)
{
	static struct log_gate gate;
	uint64_t limit = x->max_size_bytes, skipped;
	const char *why =
		f->nothing_older ? "the newest request alone, with its names, takes that"
		: f->log_bytes > limit / 4
			? "its log is not given back while it is read or written without a pause"
		: f->giving_back ? "what was deleted is being given back to the file system"
				 : "more comes than can be deleted meanwhile";

	if (!limit || f->file_bytes <= limit + limit / OVER_SHARE ||
	    !log_gate_open(&gate, 60 * SECOND_NS, &skipped))
		return;
	LOG(LOG_WARN, "The store is larger than max_size", LOG_S("path", x->path),
	    LOG_U("bytes", f->file_bytes), LOG_U("log_bytes", f->log_bytes),
	    LOG_U("max_size", limit), LOG_S("why", why), LOG_U("unlogged", skipped));
}

/* Retention, a slice at a time, between commits and in pauses. */
static void upkeep(struct sqlite_exporter *x, uint64_t budget_ns)
{
	static struct log_gate gate;
	struct store_writer_facts facts;
	struct err err = { 0 };
	uint64_t skipped;
	bool more;

	if (!x->writer)
		return;
	if (!store_writer_upkeep(x->writer, budget_ns, &more, &err) &&
	    log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_ERROR, "The store's retention cannot go on", LOG_S("path", x->path),
		    LOG_S("error", err.msg), LOG_U("unlogged", skipped));
	facts = store_writer_facts(x->writer);
	tell_too_large(x, &facts);
	count(x);
}

static void sqlite_idle(void *arg)
{
	upkeep(arg, UPKEEP_IDLE_NS);
}

static void sqlite_work(void *arg, struct worker_item *items, uint32_t n)
{
	static struct log_gate gate;
	struct sqlite_exporter *x = arg;
	struct err err = { 0 };
	uint64_t skipped;
	bool ok = write_items(x, items, n, &err);

	/* One that is too large must not take the others with it. */
	for (uint32_t i = 0; !ok && n > 1 && err.kind == ERR_LIMIT && i < n; i++) {
		struct err own = { 0 };

		answer(&items[i], write_items(x, &items[i], 1, &own), &own);
	}
	if (!ok && log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_ERROR, "The store cannot be written", LOG_S("path", x->path),
		    LOG_S("error", err.msg), LOG_U("unlogged", skipped));
	if (x->writer)
		count(x);
	if (ok || err.kind != ERR_LIMIT) /* a request that is too large says nothing of the store */
		store_failing_note(x->path, n, ok ? NULL : &err);
	for (uint32_t i = 0; i < n; i++)
		if (items[i].batch)
			answer(&items[i], ok, &err);
	upkeep(x, UPKEEP_BUSY_NS);
}

/* ---- the component ---- */

static bool sqlite_check(void *state, struct err *err)
{
	const struct sqlite_exporter *x = state;

	if (!x->path || !*x->path)
		return err_set(err, ERR_INVALID, "'path' is empty");
	if (x->max_size_bytes && x->max_size_bytes < 16 << 20)
		return err_set(err, ERR_INVALID,
			       "'max_size' is %llu bytes, less than 16 MiB are no store",
			       (unsigned long long)x->max_size_bytes);
	if (x->cache_bytes < CACHE_LEAST || x->cache_bytes > CACHE_MOST)
		return err_set(err, ERR_INVALID, "'cache' is %llu bytes, wanted are 1 MiB to 1 GiB",
			       (unsigned long long)x->cache_bytes);
	return true;
}

static bool sqlite_start(void *state, const struct component_host *host, struct err *err)
{
	struct sqlite_exporter *x = state;
	struct worker_options options = {
		.name = "sqlite",
		.work = sqlite_work,
		.idle = sqlite_idle,
		.idle_ns = IDLE_NS,
		.idle_again = true,
		.arg = x,
	};

	x->host = host;
	make_metrics(x);
	if (!open_writer(x, err))
		return false;
	LOG(LOG_INFO, "Keeping profiles in SQLite", LOG_S("path", x->path),
	    LOG_S("durability", durabilities[x->durability]));
	x->worker = worker_new(&options, err);
	return x->worker != NULL;
}

static void sqlite_consume(void *state, struct batch *batch, struct completion *done)
{
	struct sqlite_exporter *x = state;

	worker_push(x->worker, batch, done);
}

static void sqlite_stop(void *state, uint64_t deadline_ns)
{
	struct sqlite_exporter *x = state;

	worker_stop(x->worker, deadline_ns);
}

static void sqlite_release(void *state)
{
	struct sqlite_exporter *x = state;

	worker_free(x->worker);
	store_writer_close(x->writer);
}

const struct component_ops sqlite_exporter = {
	.type = "sqlite",
	.summary = "keeps every sample of every profile in one SQLite file",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct sqlite_exporter),
	.fields = sqlite_fields,
	.check = sqlite_check,
	.start = sqlite_start,
	.consume = sqlite_consume,
	.stop = sqlite_stop,
	.release = sqlite_release,
};
