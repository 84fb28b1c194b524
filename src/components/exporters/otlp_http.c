/*
 * otlp_http.c - the exporter `otlp_http` (once `otlphttp`): profiles to an OTLP peer over HTTP,
 * protobuf or JSON.
 *
 * Options, defaults and statuses as the Collector's otlphttpexporter has them; ours is
 * wire_version. Queue, retries and spool stand before it (pipeline/sender.h): each consume() is one
 * attempt.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "components/exporters/exporters.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/exporters/destination.h"
#include "components/exporters/otlp_export.h"
#include "components/exporters/otlp_tls.h"
#include "net/client.h"
#include "pipeline/sending.h"

#define PROFILES_PATH "/v1development/profiles"

struct otlp_http {
	struct otlp_export export; /* first */
	/* options */
	const char *endpoint, *profiles_endpoint, *traces_endpoint, *metrics_endpoint,
		*logs_endpoint;
	int encoding, compression;
	struct {
		uint32_t level;
	} compression_params;
	struct otlp_tls tls;
	struct config_pairs headers;
	const char *proxy_url, *wire_version;
	uint32_t max_idle_conns;
	uint64_t read_buffer_size, write_buffer_size, idle_conn_timeout_ns;
	bool force_attempt_http2;
	struct sending_options sending;
	/* run time */
	char *url;
	struct http_client *client;
};

static const char *const encoding_choices[] = { "proto", "json", NULL };
static const char *const compression_choices[] = {
	"gzip", "zstd", "zlib", "deflate", "snappy", "x-snappy-framed", "lz4", "none", "", NULL
};
static const enum compression compressions[] = {
	COMPRESSION_GZIP,    COMPRESSION_ZSTD,   COMPRESSION_DEFLATE,
	COMPRESSION_DEFLATE, COMPRESSION_SNAPPY, COMPRESSION_SNAPPY_FRAMED,
	COMPRESSION_LZ4,     COMPRESSION_NONE,   COMPRESSION_NONE,
};

/* clang-format off */
static const struct config_field params_fields[] = {
	EXPORTER_FIELD("level", CONFIG_UINT32, 0, "0", "0: the default", .min = 0, .max = 22),
	{ 0 },
};

static const struct config_field otlp_http_fields[] = {
	EXPORTER_FIELD("endpoint", CONFIG_STRING, offsetof(struct otlp_http, endpoint), NULL,
		       "the peer's base URL; " PROFILES_PATH " is put behind it"),
	EXPORTER_FIELD("profiles_endpoint", CONFIG_STRING, offsetof(struct otlp_http, profiles_endpoint), NULL,
		       "the whole URL, where it is another one"),
	EXPORTER_FIELD("traces_endpoint", CONFIG_STRING, offsetof(struct otlp_http, traces_endpoint), NULL, "read for compatibility"),
	EXPORTER_FIELD("metrics_endpoint", CONFIG_STRING, offsetof(struct otlp_http, metrics_endpoint), NULL, "read for compatibility"),
	EXPORTER_FIELD("logs_endpoint", CONFIG_STRING, offsetof(struct otlp_http, logs_endpoint), NULL, "read for compatibility"),
	EXPORTER_FIELD("encoding", CONFIG_ENUM, offsetof(struct otlp_http, encoding), "proto", "encoding of requests", .choices = encoding_choices),
	EXPORTER_FIELD("compression", CONFIG_ENUM, offsetof(struct otlp_http, compression), "gzip", "compression of requests",
		       .choices = compression_choices),
	EXPORTER_FIELD("compression_params", CONFIG_SECTION, offsetof(struct otlp_http, compression_params), NULL, "how hard it tries",
		       .fields = params_fields),
	EXPORTER_FIELD("tls", CONFIG_SECTION, offsetof(struct otlp_http, tls), NULL, "TLS to an https:// peer", .fields = otlp_tls_fields),
	EXPORTER_FIELD("headers", CONFIG_MAP, offsetof(struct otlp_http, headers), NULL, "headers of each request",
		       .secret_values = true),
	EXPORTER_FIELD("proxy_url", CONFIG_STRING, offsetof(struct otlp_http, proxy_url), NULL,
		       "default: http_proxy, https_proxy and no_proxy of the environment"),
	EXPORTER_FIELD("max_idle_conns", CONFIG_UINT32, offsetof(struct otlp_http, max_idle_conns), "100", "most connections at a time"),
	EXPORTER_FIELD("idle_conn_timeout", CONFIG_DURATION, offsetof(struct otlp_http, idle_conn_timeout_ns), "90s",
		       "read for compatibility: an idle connection is kept for 90s"),
	EXPORTER_FIELD("force_attempt_http2", CONFIG_BOOL, offsetof(struct otlp_http, force_attempt_http2), "true",
		       "read for compatibility: HTTP/1.1 is spoken"),
	EXPORTER_FIELD("read_buffer_size", CONFIG_SIZE, offsetof(struct otlp_http, read_buffer_size), NULL, "read for compatibility"),
	EXPORTER_FIELD("write_buffer_size", CONFIG_SIZE, offsetof(struct otlp_http, write_buffer_size), NULL, "read for compatibility"),
	EXPORTER_FIELD("wire_version", CONFIG_STRING, offsetof(struct otlp_http, wire_version), "1.10",
		       "the OTLP version that the peer understands: 1.10 (also 1.11), 1.9, 1.8 or 1.7"),
	EXPORTER_FIELD("log_sent", CONFIG_BOOL, offsetof(struct otlp_http, export.log_sent), "false",
		       "a line in the log for each request that the peer took"),
	SENDING_FIELDS(struct otlp_http, sending, "30s"),
	{ 0 },
};
/* clang-format on */

static bool is_http_url(const char *url)
{
	struct str s = str_cstr(url);

	return (str_has_prefix(s, STR("http://")) && s.len > 7) ||
	       (str_has_prefix(s, STR("https://")) && s.len > 8);
}

static bool check_url(const char *name, const char *url, struct err *err)
{
	if (url && *url && !is_http_url(url))
		return err_set(err, ERR_INVALID,
			       "%s is \"%s\", it must begin with http:// or https://", name, url);
	return true;
}

static char *profiles_url(const struct otlp_http *o)
{
	struct str base = str_cstr(o->endpoint);
	char *url;

	if (o->profiles_endpoint && *o->profiles_endpoint) {
		url = strdup(o->profiles_endpoint);
		assert(url);
		return url;
	}
	if (str_has_suffix(base, STR("/")))
		base.len--;
	if (asprintf(&url, "%.*s" PROFILES_PATH, STR_ARG(base)) < 0)
		abort();
	return url;
}

static bool otlp_http_check(void *state, struct err *err)
{
	struct otlp_http *o = state;
	bool has_endpoint = o->endpoint && *o->endpoint;
	bool has_profiles = o->profiles_endpoint && *o->profiles_endpoint;

	if (!has_endpoint && !has_profiles)
		return err_set(err, ERR_INVALID, "at least one endpoint must be specified");
	o->export.json = o->encoding == 1;
	if (!check_url("endpoint", o->endpoint, err) ||
	    !check_url("profiles_endpoint", o->profiles_endpoint, err) ||
	    !otlp_tls_check(&o->tls, err) ||
	    !otlp_export_version(o->wire_version, &o->export.version, err))
		return false;
	if (o->export.json && o->export.version != WIRE_NEWEST)
		return err_set(
			err, ERR_UNSUPPORTED,
			"encoding json is written in the newest wire_version only, not in %s",
			wire_version_name(o->export.version));
	o->url = profiles_url(o);
	return true;
}

static void otlp_http_send(struct otlp_export *x, struct blob *body, struct client_call *call)
{
	struct otlp_http *o = (struct otlp_http *)x;

	http_client_call(o->client, "POST", o->url,
			 x->json ? "application/json" : "application/x-protobuf", body,
			 o->sending.timeout_ns, call);
}

static void otlp_http_judge(struct otlp_export *x, const struct client_result *r,
			    struct verdict *out)
{
	verdict_of_http(r, ((struct otlp_http *)x)->url, x->json, out);
}

/* A wrong file is said at start, not with the first request. */
static bool check_certificates(const struct otlp_http *o, struct err *err)
{
	struct tls_options options = otlp_tls_options(&o->tls);
	struct tls_context *probe;

	if (!str_has_prefix(str_cstr(o->url), STR("https://")))
		return true;
	probe = tls_context_new(&options, err);
	tls_context_free(probe);
	return probe != NULL;
}

static bool start_client(struct otlp_http *o, struct err *err)
{
	struct client_header *headers =
		calloc(o->headers.count ? o->headers.count : 1, sizeof(*headers));
	struct http_client_options options = {
		.tls = otlp_tls_options(&o->tls),
		.compression = compressions[o->compression],
		.compression_level = (int)o->compression_params.level,
		.headers = headers,
		.header_count = o->headers.count,
		.proxy_url = o->proxy_url,
		.max_connections = o->max_idle_conns,
	};

	assert(headers);
	for (uint32_t i = 0; i < o->headers.count; i++)
		headers[i] = (struct client_header){ o->headers.items[i].name,
						     o->headers.items[i].value };
	o->client = http_client_new(&options, err);
	free(headers);
	return o->client != NULL;
}

static bool otlp_http_start(void *state, const struct component_host *host, struct err *err)
{
	struct otlp_http *o = state;

	o->export.send = otlp_http_send;
	o->export.judge = otlp_http_judge;
	o->export.peer = o->url;
	if (!check_certificates(o, err) || !start_client(o, err))
		return false;
	otlp_export_start(&o->export, host);
	return true;
}

static void otlp_http_consume(void *state, struct batch *batch, struct completion *done)
{
	otlp_export_consume(&((struct otlp_http *)state)->export, batch, done);
}

static void otlp_http_stop(void *state, uint64_t deadline_ns)
{
	struct otlp_http *o = state;

	otlp_export_stop(&o->export, deadline_ns);
	http_client_free(
		o->client); /* ends what is left, each completion called before it returns */
	o->client = NULL;
	otlp_export_release(&o->export);
}

static void otlp_http_release(void *state)
{
	free(((struct otlp_http *)state)->url);
}

static struct component_destination otlp_http_destination(const void *state)
{
	return destination_of_url(str_cstr(((const struct otlp_http *)state)->url));
}

const struct component_ops otlp_http_exporter = {
	.type = "otlp_http",
	.aliases = { "!otlphttp" },
	.summary = "profiles to an OTLP peer over HTTP",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct otlp_http),
	.fields = otlp_http_fields,
	.remote = true,
	.sending_offset = offsetof(struct otlp_http, sending),
	.check = otlp_http_check,
	.start = otlp_http_start,
	.consume = otlp_http_consume,
	.stop = otlp_http_stop,
	.release = otlp_http_release,
	.destination = otlp_http_destination,
};
