/*
 * otlp_grpc.c - the exporter `otlp_grpc` (once `otlp`): profiles to an OTLP peer over gRPC.
 *
 * Options, defaults and statuses as the Collector's otlpexporter has them; ours is wire_version.
 * Queue, retries and spool stand before it (pipeline/sender.h): each consume() is one attempt.
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
#include "net/endpoint.h"
#include "net/loops.h"
#include "pipeline/sending.h"

#define EXPORT_PATH "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

enum { KEEPALIVE_LEAST_S = 10 }; /* as grpc-go: servers call shorter ones abuse */

struct otlp_keepalive {
	uint64_t time_ns, timeout_ns;
	bool permit_without_stream;
};

struct otlp_grpc {
	struct otlp_export export; /* first */
	/* options */
	const char *endpoint;
	int compression;
	struct {
		uint32_t level;
	} compression_params;
	struct otlp_tls tls;
	struct config_pairs headers;
	bool keepalive_enabled;
	struct otlp_keepalive keepalive;
	bool wait_for_ready;
	const char *balancer_name;
	uint64_t read_buffer_size, write_buffer_size;
	const char *authority, *user_agent, *wire_version;
	struct sending_options sending;
	/* run time */
	struct tls_context *tls_context;
	struct grpc_client *client;
};

static const char *const compression_choices[] = { "gzip", "snappy", "zstd", "deflate",
						   "none", "",       NULL };
static const enum compression compressions[] = { COMPRESSION_GZIP, COMPRESSION_SNAPPY,
						 COMPRESSION_ZSTD, COMPRESSION_DEFLATE,
						 COMPRESSION_NONE, COMPRESSION_NONE };

/* clang-format off */
static const struct config_field keepalive_fields[] = {
	EXPORTER_FIELD("time", CONFIG_DURATION, offsetof(struct otlp_keepalive, time_ns), "10s", "quiet time before a ping; at least 10s"),
	EXPORTER_FIELD("timeout", CONFIG_DURATION, offsetof(struct otlp_keepalive, timeout_ns), "20s", "how long its answer may take"),
	EXPORTER_FIELD("permit_without_stream", CONFIG_BOOL, offsetof(struct otlp_keepalive, permit_without_stream), "false",
		       "pings also while nothing is sent"),
	{ 0 },
};

static const struct config_field params_fields[] = {
	EXPORTER_FIELD("level", CONFIG_UINT32, 0, "0", "0: the default", .min = 0, .max = 22),
	{ 0 },
};

static const struct config_field otlp_grpc_fields[] = {
	EXPORTER_FIELD("endpoint", CONFIG_STRING, offsetof(struct otlp_grpc, endpoint), NULL,
		       "host:port, http://host:port (no TLS), https://host:port, dns:///host:port, unix:///path"),
	EXPORTER_FIELD("compression", CONFIG_ENUM, offsetof(struct otlp_grpc, compression), "gzip", "compression of requests",
		       .choices = compression_choices),
	EXPORTER_FIELD("compression_params", CONFIG_SECTION, offsetof(struct otlp_grpc, compression_params), NULL, "how hard it tries",
		       .fields = params_fields),
	EXPORTER_FIELD("tls", CONFIG_SECTION, offsetof(struct otlp_grpc, tls), NULL, "TLS to the peer", .fields = otlp_tls_fields),
	EXPORTER_FIELD("headers", CONFIG_MAP, offsetof(struct otlp_grpc, headers), NULL, "metadata of each request",
		       .secret_values = true),
	EXPORTER_FIELD("keepalive", CONFIG_OPTIONAL, offsetof(struct otlp_grpc, keepalive), NULL, "pings on a quiet connection",
		       .fields = keepalive_fields, .offset_enabled = offsetof(struct otlp_grpc, keepalive_enabled)),
	EXPORTER_FIELD("wait_for_ready", CONFIG_BOOL, offsetof(struct otlp_grpc, wait_for_ready), "false",
		       "an attempt waits for a connection until its timeout, rather than failing at once"),
	EXPORTER_FIELD("balancer_name", CONFIG_STRING, offsetof(struct otlp_grpc, balancer_name), NULL,
		       "read for compatibility: there is one connection at a time"),
	EXPORTER_FIELD("read_buffer_size", CONFIG_SIZE, offsetof(struct otlp_grpc, read_buffer_size), NULL,
		       "read for compatibility: nothing is buffered"),
	EXPORTER_FIELD("write_buffer_size", CONFIG_SIZE, offsetof(struct otlp_grpc, write_buffer_size), NULL,
		       "read for compatibility: nothing is copied"),
	EXPORTER_FIELD("authority", CONFIG_STRING, offsetof(struct otlp_grpc, authority), NULL, "the :authority header; default: the endpoint"),
	EXPORTER_FIELD("user_agent", CONFIG_STRING, offsetof(struct otlp_grpc, user_agent), NULL, "default: flametap and its version"),
	EXPORTER_FIELD("wire_version", CONFIG_STRING, offsetof(struct otlp_grpc, wire_version), "1.10",
		       "the OTLP version that the peer understands: 1.10 (also 1.11), 1.9, 1.8 or 1.7"),
	EXPORTER_FIELD("log_sent", CONFIG_BOOL, offsetof(struct otlp_grpc, export.log_sent), "false",
		       "a line in the log for each request that the peer took"),
	SENDING_FIELDS(struct otlp_grpc, sending, "5s"),
	{ 0 },
};
/* clang-format on */

static bool otlp_grpc_check(void *state, struct err *err)
{
	struct otlp_grpc *o = state;
	struct endpoint endpoint;

	if (!o->endpoint || !*o->endpoint)
		return err_set(err, ERR_INVALID, "requires a non-empty \"endpoint\"");
	return endpoint_parse(str_cstr(o->endpoint), &endpoint, err) &&
	       otlp_tls_check(&o->tls, err) &&
	       otlp_export_version(o->wire_version, &o->export.version, err);
}

static void otlp_grpc_send(struct otlp_export *x, struct blob *body, struct client_call *call)
{
	struct otlp_grpc *o = (struct otlp_grpc *)x;

	grpc_client_call(o->client, EXPORT_PATH, body, o->sending.timeout_ns, call);
}

static void otlp_grpc_judge(struct otlp_export *x, const struct client_result *r,
			    struct verdict *out)
{
	(void)x;
	verdict_of_grpc(r, out);
}

/* TLS unless the scheme or `insecure` says no; https:// says yes whatever else is said. */
static bool wants_tls(const struct otlp_grpc *o)
{
	struct endpoint endpoint;
	struct err err;

	if (!endpoint_parse(str_cstr(o->endpoint), &endpoint, &err))
		return false;
	return endpoint.scheme == ENDPOINT_HTTPS ||
	       (endpoint.scheme != ENDPOINT_HTTP && !o->tls.insecure);
}

static bool start_tls(struct otlp_grpc *o, struct err *err)
{
	struct tls_options options = otlp_tls_options(&o->tls);

	if (!wants_tls(o))
		return true;
	options.alpn_h2_only = true;
	o->tls_context = tls_context_new(&options, err);
	return o->tls_context != NULL;
}

static uint64_t at_least(uint64_t ns, uint64_t least_ns)
{
	return ns < least_ns ? least_ns : ns;
}

static bool start_client(struct otlp_grpc *o, struct net_loops *loops, struct err *err)
{
	struct client_header *headers =
		calloc(o->headers.count ? o->headers.count : 1, sizeof(*headers));
	struct grpc_client_options options = {
		.endpoint = o->endpoint,
		.tls = o->tls_context,
		.compression = compressions[o->compression],
		.compression_level = (int)o->compression_params.level,
		.headers = headers,
		.header_count = o->headers.count,
		.authority = o->authority,
		.user_agent = o->user_agent,
		.wait_for_ready = o->wait_for_ready,
	};

	assert(headers);
	for (uint32_t i = 0; i < o->headers.count; i++)
		headers[i] = (struct client_header){ o->headers.items[i].name,
						     o->headers.items[i].value };
	if (o->keepalive_enabled) {
		options.keepalive_time_ns =
			at_least(o->keepalive.time_ns, KEEPALIVE_LEAST_S * SECOND_NS);
		options.keepalive_timeout_ns = o->keepalive.timeout_ns;
		options.keepalive_without_calls = o->keepalive.permit_without_stream;
	}
	o->client = grpc_client_new(net_loops_pick(loops), &options, err);
	free(headers);
	return o->client != NULL;
}

static bool otlp_grpc_start(void *state, const struct component_host *host, struct err *err)
{
	struct otlp_grpc *o = state;

	o->export.send = otlp_grpc_send;
	o->export.peer = o->endpoint;
	o->export.judge = otlp_grpc_judge;
	if (!start_tls(o, err) || !start_client(o, host->loops, err)) {
		tls_context_free(o->tls_context);
		o->tls_context = NULL;
		return false;
	}
	otlp_export_start(&o->export, host);
	return true;
}

static bool otlp_grpc_reload(void *state, struct err *err)
{
	struct otlp_grpc *o = state;

	return !o->tls_context || tls_context_reload(o->tls_context, err);
}

static void otlp_grpc_consume(void *state, struct batch *batch, struct completion *done)
{
	otlp_export_consume(&((struct otlp_grpc *)state)->export, batch, done);
}

static void otlp_grpc_stop(void *state, uint64_t deadline_ns)
{
	struct otlp_grpc *o = state;

	otlp_export_stop(&o->export, deadline_ns);
	grpc_client_free(
		o->client); /* ends what is left, each completion called before it returns */
	o->client = NULL;
	tls_context_free(o->tls_context);
	o->tls_context = NULL;
	otlp_export_release(&o->export);
}

static struct component_destination otlp_grpc_destination(const void *state)
{
	return destination_of_endpoint(str_cstr(((const struct otlp_grpc *)state)->endpoint));
}

const struct component_ops otlp_grpc_exporter = {
	.type = "otlp_grpc",
	.aliases = { "!otlp" },
	.summary = "profiles to an OTLP peer over gRPC",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct otlp_grpc),
	.fields = otlp_grpc_fields,
	.remote = true,
	.sending_offset = offsetof(struct otlp_grpc, sending),
	.check = otlp_grpc_check,
	.start = otlp_grpc_start,
	.consume = otlp_grpc_consume,
	.stop = otlp_grpc_stop,
	.reload = otlp_grpc_reload,
	.destination = otlp_grpc_destination,
};
