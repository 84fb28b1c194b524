/*
 * extension.c - the extension `web`: the page on a store that an exporter of the same graph, or
 * another process, writes.
 *
 * The store is opened when it is first asked for (its writer makes it), read-only, and once: each
 * question takes a snapshot of its own.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "pipeline/failing.h"
#include "store/store.h"
#include "web/extension.h"
#include "web/intake.h"
#include "web/web.h"

struct web_state {
	const char *endpoint, *store_path, *allowed_hosts, *token, *basic_file, *bearer_file;
	const char *tls_cert_file, *tls_key_file, *uploads, *source;
	uint32_t threads;
	uint64_t timeout_ns, uploads_retention_ns, uploads_most_bytes;

	char *store_name; /* of its exporter's */
	pthread_mutex_t lock;
	struct store *store; /* guarded: NULL until it was there */
	struct web_server *server;
};

#define FIELD(name_, kind_, member, default_, help_)                                            \
	{                                                                                       \
		.name = (name_), .kind = (kind_), .offset = offsetof(struct web_state, member), \
		.default_text = (default_), .help = (help_)                                     \
	}

static const struct config_field web_fields[] = {
	FIELD("endpoint", CONFIG_STRING, endpoint, "127.0.0.1:4040", "where the page is"),
	FIELD("store", CONFIG_STRING, store_path, "flametap.db",
	      "what is shown: an SQLite file, or the URL of a ClickHouse database"),
	FIELD("allowed_hosts", CONFIG_STRING, allowed_hosts, NULL,
	      "more host names of the page, comma-separated"),
	FIELD("token", CONFIG_SECRET, token, NULL, "asked for with each request when set"),
	FIELD("basic_file", CONFIG_STRING, basic_file, NULL,
	      "a line user:password for each who may ask"),
	FIELD("bearer_file", CONFIG_STRING, bearer_file, NULL,
	      "a line for each token (Authorization: Bearer) that may ask"),
	FIELD("tls_cert_file", CONFIG_STRING, tls_cert_file, NULL, "certificate chain, PEM"),
	FIELD("tls_key_file", CONFIG_STRING, tls_key_file, NULL, "private key, PEM"),
	FIELD("query_threads", CONFIG_UINT32, threads, "2", "questions answered at a time"),
	FIELD("query_timeout", CONFIG_DURATION, timeout_ns, "30s", "most time for a question"),
	FIELD("source", CONFIG_STRING, source, NULL,
	      "folder of source files, whose text the page may show"),
	FIELD("uploads", CONFIG_STRING, uploads, NULL,
	      "folder of dropped files; default: the store's name and .uploads (ClickHouse: "
	      "memory)"),
	FIELD("uploads_retention", CONFIG_DURATION, uploads_retention_ns, "720h",
	      "how long those are kept"),
	FIELD("uploads_max_size", CONFIG_SIZE, uploads_most_bytes, "256MiB",
	      "of all of them together; the oldest go first"),
	{ 0 },
};

static struct store *opened(struct web_state *w, struct err *err)
{
	struct store *store;

	pthread_mutex_lock(&w->lock);
	if (!w->store &&
	    !store_open(&(struct store_open_options){ .location = w->store_path }, &w->store, err))
		w->store = NULL;
	store = w->store;
	pthread_mutex_unlock(&w->lock);
	return store;
}

static bool open_source(void *ctx, struct source **out, struct err *err)
{
	struct store *store = opened(ctx, err);

	return store && store_begin(store, out, err);
}

static bool is_failing(void *ctx, struct store_failing *out)
{
	const struct web_state *w = ctx;

	return store_failing_now(w->store_name, out);
}

static bool web_extension_start(void *state, const struct component_host *host, struct err *err)
{
	struct web_state *w = state;
	AUTO(buf_release) struct buf folder = { 0 };
	struct web_options options = {
		.address = w->endpoint,
		.allowed_hosts = w->allowed_hosts,
		.token = w->token && *w->token ? w->token : NULL,
		.basic_file = w->basic_file,
		.bearer_file = w->bearer_file,
		.tls_cert_file = w->tls_cert_file,
		.tls_key_file = w->tls_key_file,
		.source_folder = w->source && *w->source ? w->source : NULL,
		.sources = { .open = open_source,
			     .ctx = w,
			     .failing = is_failing,
			     .kind = strstr(w->store_path, "://") ? "clickhouse" : "sqlite",
			     .path = w->store_path },
		.metrics = host->metrics,
		.threads = w->threads,
		.timeout_ns = w->timeout_ns,
	};

	w->store_name = store_name(w->store_path);
	if (w->uploads || !strstr(w->store_path, "://")) {
		buf_str(&folder, str_cstr(w->uploads ? w->uploads : w->store_path));
		buf_str(&folder, w->uploads ? (struct str){ 0 } : STR(".uploads"));
		buf_char(&folder, '\0');
		options.upload_folder = folder.ptr; /* copied */
	}
	options.upload_retention_ns = w->uploads_retention_ns;
	options.upload_most_bytes = w->uploads_most_bytes;
	pthread_mutex_init(&w->lock, NULL);
	w->server = web_start(host->loops, &options, err);
	if (!w->server) {
		struct err why = *err;

		if (why.kind == ERR_BUSY)
			err_set(err, ERR_BUSY, "%s; another one: `endpoint`, flametap up --listen",
				why.msg);
		pthread_mutex_destroy(&w->lock);
		free(w->store_name);
		return false;
	}
	LOG(LOG_INFO, "The page is served", LOG_S("endpoint", web_address(w->server)),
	    LOG_S("store", w->store_path));
	return true;
}

static bool web_extension_reload(void *state, struct err *err)
{
	struct web_state *w = state;

	return web_reload(w->server, err);
}

static void web_extension_ready(void *state, bool ready)
{
	struct web_state *w = state;

	if (ready)
		web_door_settle(web_server_door(w->server));
}

struct web_door *web_extension_door(void *state)
{
	struct web_state *w = state;

	return web_server_door(w->server);
}

static void web_extension_stop(void *state, uint64_t deadline_ns)
{
	struct web_state *w = state;

	web_stop(w->server, deadline_ns);
	store_close(w->store);
	pthread_mutex_destroy(&w->lock);
	free(w->store_name);
}

const struct component_ops web_extension = {
	.type = "web",
	.summary = "the page and its API: flame graphs of a store in the browser",
	.kind = COMPONENT_EXTENSION,
	.state_size = sizeof(struct web_state),
	.fields = web_fields,
	.start = web_extension_start,
	.stop = web_extension_stop,
	.ready = web_extension_ready,
	.reload = web_extension_reload,
};
