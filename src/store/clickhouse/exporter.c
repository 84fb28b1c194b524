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
 * is first made to have ended (store/clickhouse/fence.h), then the samples that are there are
 * counted, and only the missing ones are sent; so are those of a process before this one.
 */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipeline/sending.h"
#include "pipeline/spool_seen.h"
#include "pipeline/worker.h"
#include "store/clickhouse/encode.h"
#include "store/clickhouse/fence.h"
#include "store/clickhouse/replicas.h"
#include "store/clickhouse/rowbinary.h"
#include "store/clickhouse/schema.h"
#include "store/clickhouse/server.h"
#include "store/exporters.h"
#include "store/schema.h"

enum { EXPIRE_EVERY_S = 3600, PASSWORD_MOST = 4096, UNSURE_MOST_S = 86400, WAITING_MOST = 4096 };

struct clickhouse {
	/* options */
	const char *endpoint, *username, *password, *password_file, *database, *cluster_name,
		*tenant;
	struct {
		const char *name, *params;
	} table_engine;
	struct {
		bool insecure, insecure_skip_verify;
		const char *ca_file, *cert_file, *key_file, *server_name_override;
	} tls;
	struct config_pairs connection_params;
	int compress;
	bool create_schema, async_insert;
	uint32_t insert_quorum, max_rows;
	uint64_t ttl_ns, flush_interval_ns, max_bytes, dedup_window_ns;
	struct sending_options sending;

	/* checked */
	struct ch_endpoint at;
	char *file_password, *settings;

	/* run time; the worker's but where said */
	const struct component_host *host;
	struct worker *worker;
	struct ch_server *server;
	struct ch_version version;
	struct ch_schema schema;
	struct ch_encoder encoder;
	bool ready;               /* tables are there */
	struct spool_seen unsure; /* requests that an insert of ours failed with */
	struct ch_fence fence;    /* of samples and requests */
	uint64_t started_unix_ns, expire_at_ns;
	struct buf sql, answer;
	struct metric *requests, *duplicates, *samples, *rows, *repaired;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more;
	uint32_t waiting; /* batches that were taken and not answered */
	uint64_t waiting_bytes;
	bool stopping;
};

/* ---- options ---- */

static const char *const compressions[] = { "auto", "zstd", "gzip",  "lz4",
					    "none", "true", "false", NULL };

#define FIELD(name_, kind_, member, default_, help_, ...)                                        \
	{                                                                                        \
		.name = (name_), .kind = (kind_), .offset = offsetof(struct clickhouse, member), \
		.default_text = (default_), .help = (help_), ##__VA_ARGS__                       \
	}
#define PART(section, name_, kind_, member, default_, help_)            \
	{                                                               \
		.name = (name_), .kind = (kind_),                       \
		.offset = offsetof(struct clickhouse, section.member) - \
			  offsetof(struct clickhouse, section),         \
		.default_text = (default_), .help = (help_)             \
	}

static const struct config_field engine_fields[] = {
	PART(table_engine, "name", CONFIG_STRING, name, NULL,
	     "MergeTree, ReplicatedMergeTree; default: the second where there is a cluster_name"),
	PART(table_engine, "params", CONFIG_STRING, params, NULL,
	     "default: '/clickhouse/tables/{shard}/DATABASE/TABLE', '{replica}'"),
	{ 0 },
};

static const struct config_field tls_fields[] = {
	PART(tls, "insecure", CONFIG_BOOL, insecure, "false",
	     "read for compatibility: the endpoint says whether there is TLS"),
	PART(tls, "insecure_skip_verify", CONFIG_BOOL, insecure_skip_verify, "false",
	     "TLS with any certificate"),
	PART(tls, "ca_file", CONFIG_STRING, ca_file, NULL,
	     "roots for the server's certificate; default: the system's"),
	PART(tls, "cert_file", CONFIG_STRING, cert_file, NULL,
	     "our certificate, for servers that ask"),
	PART(tls, "key_file", CONFIG_STRING, key_file, NULL, "its key"),
	PART(tls, "server_name_override", CONFIG_STRING, server_name_override, NULL,
	     "the name that the server's certificate must have"),
	{ 0 },
};

static const struct config_field clickhouse_fields[] = {
	FIELD("endpoint", CONFIG_STRING, endpoint, "http://127.0.0.1:8123",
	      "HTTP port of the server: http://user@host:8123/database, or https://"),
	FIELD("username", CONFIG_STRING, username, NULL,
	      "default: the endpoint's, else \"default\""),
	FIELD("password", CONFIG_SECRET, password, NULL, "of that user"),
	FIELD("password_file", CONFIG_STRING, password_file, NULL,
	      "a file whose first line is the password"),
	FIELD("database", CONFIG_STRING, database, NULL,
	      "default: the endpoint's path, else \"default\""),
	FIELD("connection_params", CONFIG_MAP, connection_params, NULL,
	      "settings of ClickHouse's for each call"),
	FIELD("tls", CONFIG_SECTION, tls, NULL, "TLS to an https:// endpoint",
	      .fields = tls_fields),
	FIELD("ttl", CONFIG_DURATION, ttl_ns, "0",
	      "how long to keep what arrived, in whole days (0: for ever)"),
	FIELD("cluster_name", CONFIG_STRING, cluster_name, NULL,
	      "make the tables ON CLUSTER, and Distributed ones over them"),
	FIELD("table_engine", CONFIG_SECTION, table_engine, NULL, "of the tables",
	      .fields = engine_fields),
	FIELD("create_schema", CONFIG_BOOL, create_schema, "true",
	      "make the tables; else they must be there (store ddl)"),
	FIELD("async_insert", CONFIG_BOOL, async_insert, "false",
	      "let the server put inserts together; they are still waited for "
	      "(wait_for_async_insert)"),
	FIELD("compress", CONFIG_ENUM, compress, "auto",
	      "of what is inserted; auto: none to this machine, else zstd, which is gzip where the "
	      "server is too old for it",
	      .choices = compressions),
	FIELD("insert_quorum", CONFIG_UINT32, insert_quorum, "0",
	      "replicas that must have an insert (0: the one we talk to)"),
	FIELD("max_rows", CONFIG_UINT32, max_rows, "100000", "of samples, in one go", .min = 1000,
	      .max = 1000000),
	FIELD("max_bytes", CONFIG_SIZE, max_bytes, "32MiB", "of requests, in one go",
	      .min = 1 << 20, .max = 1 << 30),
	FIELD("flush_interval", CONFIG_DURATION, flush_interval_ns, "1s",
	      "least time between two inserts, unless enough waits"),
	FIELD("dedup_window", CONFIG_DURATION, dedup_window_ns, "10m",
	      "how long a request is known again when its sender repeats it"),
	FIELD("tenant", CONFIG_STRING, tenant, NULL, "whose samples these are"),
	SENDING_FIELDS(struct clickhouse, sending, "30s"),
	{ 0 },
};

static const char *text_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static bool read_password(struct clickhouse *x, struct err *err)
{
	char bytes[PASSWORD_MOST + 1];
	AUTO(fd_close) int fd = open(x->password_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return err_set_errno(err, "password_file %s", x->password_file);
	n = read(fd, bytes, sizeof(bytes));
	if (n < 0)
		return err_set_errno(err, "password_file %s", x->password_file);
	if (n > PASSWORD_MOST)
		return err_set(err, ERR_LIMIT, "password_file %s has more than %d bytes",
			       x->password_file, PASSWORD_MOST);
	bytes[n] = 0;
	bytes[strcspn(bytes, "\r\n")] = 0;
	x->file_password = strdup(bytes);
	assert(x->file_password);
	explicit_bzero(bytes, sizeof(bytes));
	return true;
}

static bool put_setting(struct buf *b, const struct config_pair *p, struct err *err)
{
	buf_printf(b, "&%s=", p->name);
	for (const char *c = p->name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", *c))
			return err_set(err, ERR_INVALID,
				       "connection_params: \"%s\" is no setting's name", p->name);
	for (const char *c = p->value ? p->value : ""; *c; c++)
		if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		    (*c >= 'A' && *c <= 'Z'))
			buf_char(b, *c);
		else
			buf_printf(b, "%%%02X", (unsigned char)*c);
	return true;
}

static bool make_settings(struct clickhouse *x, struct err *err)
{
	struct buf b;
	size_t len;
	bool ok = true;

	buf_init(&b, 0);
	for (uint32_t i = 0; ok && i < x->connection_params.count; i++)
		ok = put_setting(&b, &x->connection_params.items[i], err);
	buf_char(&b, '\0');
	x->settings = buf_take(&b, &len);
	return ok;
}

static bool clickhouse_check(void *state, struct err *err)
{
	struct clickhouse *x = state;

	x->schema = (struct ch_schema){ .cluster = x->cluster_name,
					.engine = x->table_engine.name,
					.engine_params = x->table_engine.params,
					.ttl_ns = x->ttl_ns };
	if (!ch_schema_check(&x->schema, err) ||
	    !ch_endpoint_parse(x->endpoint ? x->endpoint : "", &x->at, err))
		return false;
	if (text_or_null(x->password) && text_or_null(x->password_file))
		return err_set(err, ERR_INVALID, "give either password or password_file, not both");
	if ((x->tls.cert_file != NULL) != (x->tls.key_file != NULL))
		return err_set(err, ERR_INVALID, "tls: cert_file and key_file go together");
	return (!text_or_null(x->password_file) || read_password(x, err)) && make_settings(x, err);
}

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

static void count(struct metric *m, uint64_t n)
{
	if (m)
		metric_add(m, (int64_t)n);
}

/* ---- the server and its tables ---- */

static bool connect(struct clickhouse *x, struct err *err)
{
	if (x->ready)
		return true;
	if (!ch_server_connect(x->server, &x->version, err) &&
	    !(err->kind == ERR_NOT_FOUND && x->create_schema &&
	      ch_server_make_database(x->server, x->cluster_name, err) &&
	      ch_server_connect(x->server, &x->version, err)))
		return false;
	x->schema.features = x->version.features;
	x->schema.database = ch_server_database(x->server);
	if (x->create_schema && !ch_schema_create(&x->schema, x->server, err))
		return false;
	if (!ch_schema_test(x->server, err) ||
	    (!x->create_schema && !ch_schema_mark(x->server, err)))
		return false;
	/* What is put together with others' is another block each time. */
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

/* ---- what is there already ---- */

struct work {
	struct worker_item *item;
	struct ch_request request;
	uint32_t *have;
	uint16_t day;
	bool unsure, there; /* maybe partly there; wholly there */
	bool repaired, inserted;
};

static int by_place(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Inserts and the counts of them go to the same replica of each shard, the first that is there:
 * another one may lag behind, and what it does not have yet would be sent again. */
#define IN_ORDER "&load_balancing=in_order"

static bool is_cluster(const struct clickhouse *x)
{
	return text_or_null(x->cluster_name) != NULL;
}

/* Reading one's own inserts from whichever replica answers needs the quorum's help. */
static const char *reading(const struct clickhouse *x)
{
	if (x->insert_quorum > 1)
		return is_cluster(x) ? IN_ORDER "&select_sequential_consistency=1"
				     : "&select_sequential_consistency=1";
	return is_cluster(x) ? IN_ORDER : NULL;
}

/* To the times that samples of a message may have as t0. */
static void widen(const struct profiles *p, uint64_t *from, uint64_t *to)
{
	for (uint32_t i = 0; i < p->timestamp_count; i++) {
		*from = p->timestamps[i] < *from ? p->timestamps[i] : *from;
		*to = p->timestamps[i] > *to ? p->timestamps[i] : *to;
	}
	for (uint32_t i = 0; i < p->profile_count; i++) {
		*from = p->profiles[i].time_unix_nano < *from ? p->profiles[i].time_unix_nano
							      : *from;
		*to = p->profiles[i].time_unix_nano > *to ? p->profiles[i].time_unix_nano : *to;
	}
}

static void put_ids(struct clickhouse *x, const struct work *works, uint32_t n, bool unsure_only)
{
	const char *comma = "";
	uint64_t from = UINT64_MAX, to = 0;
	uint16_t first = UINT16_MAX, last = 0;

	buf_lit(&x->sql, " WHERE request IN (");
	for (uint32_t i = 0; i < n; i++) {
		if (works[i].there || (unsure_only && !works[i].unsure))
			continue;
		buf_printf(&x->sql, "%s%llu", comma,
			   (unsigned long long)ch_request_id(works[i].request.hash));
		comma = ",";
		first = works[i].day < first ? works[i].day : first;
		last = works[i].day > last ? works[i].day : last;
		if (unsure_only)
			widen(works[i].request.profiles, &from, &to);
	}
	/* A repeated request arrived within the window; one out of the spool has the day it had. */
	first = (uint16_t)(first > 1 ? first - 1 : first);
	buf_printf(&x->sql, ") AND date >= toDate(%u) AND date <= toDate(%u)", first, last);
	if (unsure_only) /* samples lie by their time */
		buf_printf(&x->sql,
			   " AND intDiv(t0, " CH_BUCKET_NS ") >= %llu AND intDiv(t0, " CH_BUCKET_NS
			   ") <= %llu",
			   (unsigned long long)(from / STORE_BUCKET_NS),
			   (unsigned long long)(to / STORE_BUCKET_NS));
}

static bool mark_there(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	struct codec c;

	buf_reset(&x->sql);
	buf_lit(&x->sql, "SELECT request, arrived FROM flametap_requests");
	put_ids(x, works, n, false);
	buf_lit(&x->sql, " FORMAT RowBinary");
	if (!ch_query(x->server, buf_view(&x->sql), reading(x), &x->answer, err))
		return false;
	c = codec_of(buf_view(&x->answer));
	while (codec_more(&c)) {
		uint64_t id = row_get(&c, 8), arrived = row_get(&c, 8);

		for (uint32_t i = 0; i < n; i++) {
			uint64_t mine = works[i].request.arrived_unix_ns;
			uint64_t apart = mine > arrived ? mine - arrived : arrived - mine;

			/* The same request again, or the very one that we are about to insert. */
			if (ch_request_id(works[i].request.hash) == id &&
			    (!apart || apart < x->dedup_window_ns))
				works[i].there = true;
		}
	}
	return !c.failed ||
	       err_set(err, ERR_INTERNAL, "ClickHouse's answer about requests is cut short");
}

static struct work *work_of(struct work *works, uint32_t n, uint64_t id)
{
	for (uint32_t i = 0; i < n; i++)
		if (works[i].unsure && !works[i].there &&
		    ch_request_id(works[i].request.hash) == id)
			return &works[i];
	return NULL;
}

/* Which samples of unsure requests are there: at most their own number, so memory is bounded by the
 * batch's. */
static bool count_samples(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	struct codec c;
	uint32_t unsure = 0;

	for (uint32_t i = 0; i < n; i++)
		unsure += works[i].unsure && !works[i].there;
	if (!unsure)
		return true;
	buf_reset(&x->sql);
	buf_lit(&x->sql, "SELECT request, base, groupArray(place) FROM flametap_samples");
	put_ids(x, works, n, true);
	buf_lit(&x->sql, " GROUP BY request, base FORMAT RowBinary");
	if (!ch_query(x->server, buf_view(&x->sql), reading(x), &x->answer, err))
		return false;
	c = codec_of(buf_view(&x->answer));
	while (codec_more(&c)) {
		uint64_t id = row_get(&c, 8), base = row_get(&c, 8);
		uint32_t places = row_get_count(&c, 4);
		struct work *w = work_of(works, n, id);

		if (w && places > w->request.have_count) {
			free(w->have);
			w->have = malloc(places * sizeof(*w->have));
			assert(w->have);
			for (uint32_t i = 0; i < places; i++)
				w->have[i] = (uint32_t)row_get(&c, 4);
			qsort(w->have, places, sizeof(*w->have), by_place);
			w->request.have = w->have;
			w->request.have_count = places;
			w->request.base = base;
			w->repaired = true;
		} else {
			row_get_fixed(&c, (size_t)places * 4);
		}
	}
	return !c.failed ||
	       err_set(err, ERR_INTERNAL, "ClickHouse's answer about samples is cut short");
}

/* ---- inserting ---- */

static void insert_settings(const struct clickhouse *x, struct buf *b)
{
	/* All of it in one block, and in one part. */
	buf_lit(b, "&insert_distributed_sync=1&max_insert_block_size=1048576");
	if (x->version.features & CH_ASYNC_INSERT)
		buf_printf(b, "&async_insert=%d&wait_for_async_insert=1", x->async_insert);
	if (is_cluster(x))
		buf_lit(b, IN_ORDER);
	if (x->insert_quorum)
		buf_printf(b, "&insert_quorum=%u", x->insert_quorum);
	buf_char(b, '\0');
}

static bool insert(struct clickhouse *x, const char *sql, struct str rows, struct err *err)
{
	struct buf settings;
	bool ok;

	if (!rows.len)
		return true;
	buf_init(&settings, 0);
	insert_settings(x, &settings);
	/* Entries and links may be there twice. */
	ok = sql == ch_insert_samples || sql == ch_insert_requests
		     ? ch_fence_insert(&x->fence, x->server, sql, settings.ptr, rows, err)
		     : ch_insert(x->server, str_cstr(sql), settings.ptr, rows, err);
	buf_release(&settings);
	return ok;
}

static bool insert_samples(struct clickhouse *x, struct err *err)
{
	struct ch_encoder *e = &x->encoder;
	struct str all = buf_view(&e->samples);
	size_t from = 0;
	bool ok = true;

	for (uint32_t i = 0; ok && i <= e->cut_count; i++) {
		size_t to = i < e->cut_count ? e->cuts[i] : all.len;

		ok = insert(x, ch_insert_samples, str_from(all.ptr + from, to - from), err);
		from = to;
	}
	return ok;
}

/* A column that is a day has one a batch, so that one insert is one partition. */
static bool insert_day(struct clickhouse *x, struct work *works, uint32_t n, uint16_t day,
		       struct err *err)
{
	struct ch_encoder *e = &x->encoder;
	uint64_t now = clock_realtime_ns();
	bool ok;

	ch_encoder_reset(e);
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && works[i].day == day)
			ch_encoder_put(e, &works[i].request, now);
	ok = insert(x, ch_insert_dictionary, buf_view(&e->dictionary), err) &&
	     insert(x, ch_insert_links, buf_view(&e->links), err) && insert_samples(x, err) &&
	     insert(x, ch_insert_requests, buf_view(&e->requests), err);
	if (!ok) {
		ch_encoder_forget(e);
		return false;
	}
	count(x->rows, e->dictionary_rows);
	count(x->samples, e->sample_rows);
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && works[i].day == day) {
			works[i].inserted = true;
			count(x->repaired, works[i].repaired);
		}
	return true;
}

/* The same request twice in one batch. */
static void mark_doubles(struct work *works, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = 0; k < i; k++)
			works[i].there |= works[k].request.hash.lo == works[i].request.hash.lo &&
					  works[k].request.hash.hi == works[i].request.hash.hi;
}

/* What of the batch is there: of what is unsure only by replicas that know it. */
static bool find_there(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	bool unsure = false;

	for (uint32_t i = 0; i < n; i++)
		unsure |= works[i].unsure;
	return (!unsure || ch_replicas_have_all(x->server, &x->schema, reading(x), err)) &&
	       mark_there(x, works, n, err) && count_samples(x, works, n, err) &&
	       /* Another one may have answered by then. */
	       (!unsure || ch_replicas_have_all(x->server, &x->schema, reading(x), err));
}

/* What nobody saw the end of must have ended before it can be counted. */
static bool close_fence(struct clickhouse *x, struct err *err)
{
	struct buf settings;
	bool ok;

	buf_init(&settings, 0);
	insert_settings(x, &settings);
	ok = ch_fence_close(&x->fence, x->server, x->cluster_name, settings.ptr, err);
	buf_release(&settings);
	return ok;
}

static bool insert_all(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	uint64_t fresh = 0;

	mark_doubles(works, n);
	if (!close_fence(x, err) || !find_there(x, works, n, err))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && !works[i].inserted &&
		    !insert_day(x, works, n, works[i].day, err))
			return false;
	for (uint32_t i = 0; i < n; i++)
		fresh += works[i].inserted;
	count(x->requests, fresh);
	count(x->duplicates, n - fresh);
	return true;
}

/* ---- the worker ---- */

/* An upload by a person is always kept: it is a request of its own, however often it comes. */
static struct hash128 hash_of(struct batch *b)
{
	struct hash128 h = batch_request_hash(b);

	if (b->transport && strcmp(b->transport, "file") == 0)
		h.hi ^= b->received_unix_ns * UINT64_C(0x9e3779b97f4a7c15);
	return h;
}

static void make_works(struct clickhouse *x, struct worker_item *items, uint32_t n,
		       struct work *works)
{
	for (uint32_t i = 0; i < n; i++) {
		struct batch *b = items[i].batch;
		struct hash128 hash = hash_of(b);

		works[i] = (struct work){
			.item = &items[i],
			.request = { .profiles = b->profiles,
				     .hash = hash,
				     .arrived_unix_ns = b->received_unix_ns },
			.day = ch_day(b->received_unix_ns),
			.unsure = b->received_unix_ns < x->started_unix_ns ||
				  spool_seen_has(&x->unsure, hash, clock_realtime_ns()),
		};
	}
}

static void answer(struct clickhouse *x, struct worker_item *item, bool ok, const struct err *err)
{
	struct outcome o = ok ? outcome_ok() : outcome_of(err);
	size_t bytes = batch_bytes(item->batch);

	/* The batch can be read: it is the server that cannot take it now. */
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
	ok = connect(x, &err) && insert_all(x, works, n, &err);
	if (!ok && err.kind == ERR_NOT_FOUND)
		x->ready = false; /* somebody dropped a table */
	if (!ok && log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_ERROR, "ClickHouse cannot be written", LOG_S("endpoint", x->at.base),
		    LOG_S("error", err.msg), LOG_U("unlogged", skipped));
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

/* Until the next insert is due: by time, or because nobody can come any more, or much has come. */
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

	/* The first look is at start, so that a wrong address is seen before the first request. */
	if (!x->ready && !connect(x, &err)) {
		static struct log_gate gate;
		uint64_t skipped;

		if (log_gate_open(&gate, MINUTE_NS, &skipped))
			LOG(LOG_WARN, "ClickHouse is not ready", LOG_S("endpoint", x->at.base),
			    LOG_S("error", err.msg));
	}
	expire(x);
}

/* ---- the component ---- */

static bool on_this_machine(const struct clickhouse *x)
{
	struct str host = str_cstr(x->at.base);
	ptrdiff_t scheme = str_search(host, STR("://"));

	host = str_skip(host, (size_t)(scheme < 0 ? 0 : scheme + 3));
	return str_has_prefix(host, STR("127.")) || str_has_prefix(host, STR("[::1]")) ||
	       str_has_prefix(host, STR("localhost:")) || str_has_prefix(host, STR("localhost/"));
}

/* What goes nowhere is packed and unpacked for nothing. */
static bool compresses(const struct clickhouse *x)
{
	const char *how = compressions[x->compress];

	if (strcmp(how, "auto") == 0)
		return !on_this_machine(x);
	return strcmp(how, "none") != 0 && strcmp(how, "false") != 0;
}

static struct ch_server *make_server(struct clickhouse *x, struct err *err)
{
	struct ch_options o = {
		.endpoint = &x->at,
		.user = text_or_null(x->username),
		.password = x->file_password ? x->file_password : x->password,
		.database = text_or_null(x->database),
		.tls = { .ca_file = text_or_null(x->tls.ca_file),
			 .cert_file = text_or_null(x->tls.cert_file),
			 .key_file = text_or_null(x->tls.key_file),
			 .server_name = text_or_null(x->tls.server_name_override),
			 .insecure_skip_verify = x->tls.insecure_skip_verify },
		.timeout_ns = x->sending.timeout_ns,
		.compress = compresses(x),
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
	.sending_offset = offsetof(struct clickhouse, sending),
	.check = clickhouse_check,
	.start = clickhouse_start,
	.consume = clickhouse_consume,
	.stop = clickhouse_stop,
	.release = clickhouse_release,
	.destination = clickhouse_destination,
};
