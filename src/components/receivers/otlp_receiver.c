/*
 * otlp_receiver.c - the component `otlp`: OTLP profiles over gRPC and HTTP, both on one kind of
 * server.
 *
 * gRPC and HTTP are two listeners, but each speaks both: a gRPC call on the HTTP port works as
 * well. Beside the Collector's options it has wire_version, validation, other_signals and
 * grpc.extra_endpoints (addresses that are taken where free).
 */
#include "components/receivers/otlp.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "components/receivers/otlp_counters.h"
#include "components/receivers/receivers.h"
#include "wire/descriptors.h"

static const char *const validations[] = { "default", "strict", "lenient", NULL };
static const char *const other_signals[] = { "default", "refuse", "reject_each", NULL };

#define TLS_FIELDS(type)                                                                        \
	{ .name = "cert_file",                                                                  \
	  CONFIG_STRING,                                                                        \
	  offsetof(type, cert_file),                                                            \
	  .help = "certificate chain, PEM" },                                                   \
		{ .name = "key_file",                                                           \
		  CONFIG_STRING,                                                                \
		  offsetof(type, key_file),                                                     \
		  .help = "private key, PEM" },                                                 \
		{ .name = "cert_pem",                                                           \
		  CONFIG_STRING,                                                                \
		  offsetof(type, cert_pem),                                                     \
		  .help = "certificate chain as text" },                                        \
		{ .name = "key_pem",                                                            \
		  CONFIG_SECRET,                                                                \
		  offsetof(type, key_pem),                                                      \
		  .help = "private key as text" },                                              \
		{ .name = "client_ca_file",                                                     \
		  CONFIG_STRING,                                                                \
		  offsetof(type, client_ca_file),                                               \
		  .help = "clients must show a certificate that this CA signed" },              \
		{ .name = "min_version",                                                        \
		  CONFIG_STRING,                                                                \
		  offsetof(type, min_version),                                                  \
		  "1.2",                                                                        \
		  .help = "lowest TLS version" },                                               \
		{ .name = "max_version",                                                        \
		  CONFIG_STRING,                                                                \
		  offsetof(type, max_version),                                                  \
		  .help = "highest TLS version" },                                              \
	{                                                                                       \
		.name = "reload_interval", CONFIG_DURATION, offsetof(type, reload_interval_ns), \
		"0s", .help = "re-read the files this often (SIGHUP always does)"               \
	}

static const struct config_field tls_fields[] = {
	TLS_FIELDS(struct otlp_tls_config),
	{ 0 },
};

static const struct config_field grpc_fields[] = {
	{ .name = "endpoint",
	  CONFIG_STRING,
	  offsetof(struct otlp_grpc_config, endpoint),
	  "localhost:4317",
	  .help = "address to listen on" },
	{ .name = "transport",
	  CONFIG_STRING,
	  offsetof(struct otlp_grpc_config, transport),
	  "tcp",
	  .help = "tcp, or unix with a path as endpoint" },
	{ .name = "extra_endpoints",
	  CONFIG_STRINGS,
	  offsetof(struct otlp_grpc_config, extra_endpoints),
	  .help = "more addresses, each taken only where it is free" },
	{ .name = "max_recv_msg_size_mib",
	  CONFIG_UINT32,
	  offsetof(struct otlp_grpc_config, max_recv_msg_size_mib),
	  "64",
	  .help = "largest message, after decompression",
	  .min = 1,
	  .max = 2047 },
	{ .name = "max_concurrent_streams",
	  CONFIG_UINT32,
	  offsetof(struct otlp_grpc_config, max_concurrent_streams),
	  "100",
	  .help = "running calls of one connection",
	  .min = 1,
	  .max = 100000 },
	{ .name = "read_buffer_size",
	  CONFIG_UINT64,
	  offsetof(struct otlp_grpc_config, read_buffer_size),
	  "524288",
	  .help = "accepted for compatibility; buffers are shared between connections" },
	{ .name = "write_buffer_size",
	  CONFIG_UINT64,
	  offsetof(struct otlp_grpc_config, write_buffer_size),
	  "0",
	  .help = "accepted for compatibility" },
	{ .name = "include_metadata",
	  CONFIG_BOOL,
	  offsetof(struct otlp_grpc_config, include_metadata),
	  "false",
	  .help = "accepted for compatibility" },
	{ .name = "tls",
	  CONFIG_OPTIONAL,
	  offsetof(struct otlp_grpc_config, tls),
	  .help = "TLS; absent = plain text",
	  .fields = tls_fields,
	  .offset_enabled = offsetof(struct otlp_grpc_config, tls_enabled) },
	{ 0 },
};

static const struct config_field http_fields[] = {
	{ .name = "endpoint",
	  CONFIG_STRING,
	  offsetof(struct otlp_http_config, endpoint),
	  "localhost:4318",
	  .help = "address to listen on" },
	{ .name = "max_request_body_size",
	  CONFIG_SIZE,
	  offsetof(struct otlp_http_config, max_request_body_size),
	  "64MiB",
	  .help = "largest body, after decompression" },
	{ .name = "include_metadata",
	  CONFIG_BOOL,
	  offsetof(struct otlp_http_config, include_metadata),
	  "false",
	  .help = "accepted for compatibility" },
	{ .name = "tls",
	  CONFIG_OPTIONAL,
	  offsetof(struct otlp_http_config, tls),
	  .help = "TLS; absent = plain text",
	  .fields = tls_fields,
	  .offset_enabled = offsetof(struct otlp_http_config, tls_enabled) },
	{ 0 },
};

static const struct config_field protocol_fields[] = {
	{ .name = "grpc",
	  CONFIG_OPTIONAL,
	  offsetof(struct otlp_receiver, protocols.grpc) -
		  offsetof(struct otlp_receiver, protocols),
	  .help = "OTLP/gRPC",
	  .fields = grpc_fields,
	  .offset_enabled = offsetof(struct otlp_receiver, protocols.grpc.enabled) -
			    offsetof(struct otlp_receiver, protocols) },
	{ .name = "http",
	  CONFIG_OPTIONAL,
	  offsetof(struct otlp_receiver, protocols.http) -
		  offsetof(struct otlp_receiver, protocols),
	  .help = "OTLP/HTTP",
	  .fields = http_fields,
	  .offset_enabled = offsetof(struct otlp_receiver, protocols.http.enabled) -
			    offsetof(struct otlp_receiver, protocols) },
	{ 0 },
};

static const struct config_field receiver_fields[] = {
	{ .name = "protocols",
	  CONFIG_SECTION,
	  offsetof(struct otlp_receiver, protocols),
	  .help = "what to listen for",
	  .fields = protocol_fields },
	{ .name = "wire_version",
	  CONFIG_STRING,
	  offsetof(struct otlp_receiver, wire_version_text),
	  "auto",
	  .help = "read every request as this opentelemetry-proto version: auto, 1.3 to 1.11" },
	{ .name = "validation",
	  CONFIG_ENUM,
	  offsetof(struct otlp_receiver, validation),
	  "default",
	  .help = "strict refuses profiles with bad indices, lenient keeps and marks them",
	  .choices = validations },
	{ .name = "other_signals",
	  CONFIG_ENUM,
	  offsetof(struct otlp_receiver, other_signals),
	  "default",
	  .help = "traces, metrics, logs: refuse (unknown service, 404) or reject_each (success, "
		  "all rejected)",
	  .choices = other_signals },
	{ 0 },
};

static bool tls_check(bool enabled, const struct otlp_tls_config *tls, struct err *err)
{
	bool cert = tls->cert_file || tls->cert_pem, key = tls->key_file || tls->key_pem;

	if (enabled && !(cert && key))
		return err_set(err, ERR_INVALID,
			       "TLS configuration must include both certificate and key for server "
			       "connections");
	return true;
}

static bool receiver_check(void *state, struct err *err)
{
	struct otlp_receiver *r = state;

	if (!r->protocols.grpc.enabled && !r->protocols.http.enabled)
		return err_set(err, ERR_INVALID,
			       "must specify at least one protocol when using the OTLP receiver");
	if (strcmp(r->protocols.grpc.transport, "tcp") != 0 &&
	    strcmp(r->protocols.grpc.transport, "unix") != 0)
		return err_set(err, ERR_INVALID,
			       "protocols::grpc::transport is \"%s\"; it takes tcp and unix",
			       r->protocols.grpc.transport);
	if (!wire_version_parse(str_cstr(r->wire_version_text), &r->wire_version, err))
		return err_prefix(err, "wire_version");
	return tls_check(r->protocols.grpc.tls_enabled, &r->protocols.grpc.tls, err) &&
	       tls_check(r->protocols.http.tls_enabled, &r->protocols.http.tls, err);
}

static bool tls_open(bool enabled, const struct otlp_tls_config *c, struct tls_context **out,
		     struct err *err)
{
	struct tls_options options = {
		.server = true,
		.cert_file = c->cert_file,
		.key_file = c->key_file,
		.ca_file = c->client_ca_file,
		.cert_pem = c->cert_pem,
		.key_pem = c->key_pem,
		.min_version = c->min_version,
		.max_version = c->max_version,
		.reload_interval_ns = c->reload_interval_ns,
	};

	if (!enabled)
		return true;
	*out = tls_context_new(&options, err);
	return *out != NULL;
}

static const char *const profile_methods[] = {
	"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
	"/opentelemetry.proto.collector.profiles.v1experimental.ProfilesService/Export",
};
static const char *const profile_paths[] = { "/v1development/profiles", "/v1experimental/profiles",
					     "/v1/profiles" };
static const char content_types[] = "application/json, application/x-protobuf";

static void handle_unfed_profiles(struct net_request *r, struct blob *body, void *ctx)
{
	struct otlp_receiver *receiver = ctx;
	char message[160];

	blob_unref(body);
	snprintf(message, sizeof(message),
		 "no profiles pipeline: receiver \"%s\" stands in no service::pipelines::profiles "
		 "of the configuration",
		 receiver->host->id);
	otlp_reply_error(r, GRPC_UNIMPLEMENTED, str_cstr(message), 0);
}

static const struct otlp_signal *signal_at(struct str path)
{
	for (int i = 0; i < OTLP_SIGNAL_COUNT; i++)
		if (str_is(path, otlp_signals[i].grpc_path) ||
		    str_is(path, otlp_signals[i].http_path))
			return &otlp_signals[i];
	return NULL;
}

/* A signal without a pipeline, or no OTLP method at all: UNIMPLEMENTED or 404 that says what is
 * missing. */
static void handle_unknown_method(struct net_request *r, struct blob *body, void *ctx)
{
	struct str path = net_request_path(r);
	const struct otlp_signal *signal = signal_at(path);
	char message[256];

	(void)ctx;
	blob_unref(body);
	if (signal)
		snprintf(message, sizeof(message),
			 "unknown service: no %s pipeline is configured; this receiver feeds "
			 "profiles only",
			 signal->name);
	else
		snprintf(message, sizeof(message),
			 "unknown service or method %.*s; profiles go to %s", STR_ARG(path),
			 profile_methods[0]);
	otlp_reply_error(r, GRPC_UNIMPLEMENTED, str_cstr(message), 0);
}

static void add_routes(struct otlp_receiver *r, struct net_app *app)
{
	struct net_handler profiles = { otlp_handle_profiles, r };
	struct net_handler fallback = { handle_unknown_method, r };

	if (!r->host->profiles_pipeline)
		profiles.handle = handle_unfed_profiles;
	for (size_t i = 0; i < ARRAY_LEN(profile_methods); i++)
		net_app_grpc_method(app, profile_methods[i], profiles);
	for (size_t i = 0; i < ARRAY_LEN(profile_paths); i++)
		net_app_route(app, "POST", profile_paths[i], content_types, profiles);
	net_app_grpc_fallback(app, fallback);
	for (int i = 0; i < OTLP_SIGNAL_COUNT; i++) {
		if (!otlp_receiver_answers_other_signals(r)) {
			net_app_route(app, "POST", otlp_signals[i].http_path, content_types,
				      fallback);
			continue;
		}
		struct net_handler other = { otlp_handle_other_signal, &r->signal_routes[i] };

		r->signal_routes[i] = (struct otlp_signal_route){ r, &otlp_signals[i] };
		net_app_grpc_method(app, otlp_signals[i].grpc_path, other);
		net_app_route(app, "POST", otlp_signals[i].http_path, content_types, other);
	}
}

static void add_reflection(struct net_app *app)
{
	static struct net_proto_file files[16];
	const struct otlp_descriptor *descriptors;
	size_t count = otlp_descriptors(&descriptors);

	for (size_t i = 0; i < count && i < ARRAY_LEN(files); i++)
		files[i] = (struct net_proto_file){ descriptors[i].name, descriptors[i].bytes };
	net_app_grpc_reflection(app, files, count);
}

static void log_handshake(const char *peer, const struct err *why)
{
	static struct log_gate gate;
	uint64_t skipped;

	if (log_gate_open(&gate, SECOND_NS, &skipped))
		LOG(LOG_WARN, "Refused a connection", LOG_S("peer", peer), LOG_S("error", why->msg),
		    LOG_U("similar_not_logged", skipped));
}

static struct net_app *make_app(struct otlp_receiver *r, size_t max_body_bytes)
{
	struct net_app_options options = {
		.max_body_bytes = max_body_bytes,
		.max_concurrent_streams = r->protocols.grpc.max_concurrent_streams,
		.metrics = r->host->metrics,
		.handshake_failed = log_handshake,
		.error_body = otlp_error_body,
	};
	struct net_app *app = net_app_new(&options);

	add_routes(r, app);
	net_app_grpc_health(app, true);
	add_reflection(app);
	return app;
}

static bool listen_on(struct otlp_receiver *r, struct net_app *app, const char *address,
		      struct tls_context *tls, const char *what, struct err *err)
{
	struct net_listener *l;

	if (r->listener_count == ARRAY_LEN(r->listeners))
		return err_set(err, ERR_LIMIT, "more than %zu addresses", ARRAY_LEN(r->listeners));
	l = net_listen(r->host->loops, app, address, tls, err);
	if (!l)
		return false;
	r->listeners[r->listener_count++] = l;
	LOG(LOG_INFO, what, LOG_S("endpoint", net_listener_address(l)),
	    LOG_S("tls", tls ? "on" : "off"));
	return true;
}

/* Extra addresses are a courtesy: one that is taken is no error. */
static void listen_where_free(struct otlp_receiver *r)
{
	const struct config_strings *extra = &r->protocols.grpc.extra_endpoints;

	for (uint32_t i = 0; i < extra->count; i++) {
		struct err err;

		if (!listen_on(r, r->grpc_app, extra->items[i], r->grpc_tls, "Starting GRPC server",
			       &err))
			LOG(LOG_INFO, "Not listening on an extra address",
			    LOG_S("endpoint", extra->items[i]), LOG_S("reason", err.msg));
	}
}

/* With transport unix the endpoint is a path. */
static const char *grpc_address(const struct otlp_grpc_config *c, char *out, size_t cap)
{
	if (strcmp(c->transport, "unix") != 0 || strncmp(c->endpoint, "unix:", 5) == 0)
		return c->endpoint;
	snprintf(out, cap, "unix://%s", c->endpoint);
	return out;
}

static bool start_grpc(struct otlp_receiver *r, struct err *err)
{
	const struct otlp_grpc_config *c = &r->protocols.grpc;
	char path[200];

	if (!c->enabled)
		return true;
	if (!tls_open(c->tls_enabled, &c->tls, &r->grpc_tls, err))
		return false;
	r->grpc_app = make_app(r, (size_t)c->max_recv_msg_size_mib << 20);
	if (!listen_on(r, r->grpc_app, grpc_address(c, path, sizeof(path)), r->grpc_tls,
		       "Starting GRPC server", err))
		return false;
	listen_where_free(r);
	return true;
}

static bool start_http(struct otlp_receiver *r, struct err *err)
{
	const struct otlp_http_config *c = &r->protocols.http;

	if (!c->enabled)
		return true;
	if (!tls_open(c->tls_enabled, &c->tls, &r->http_tls, err))
		return false;
	r->http_app = make_app(r, c->max_request_body_size);
	return listen_on(r, r->http_app, c->endpoint, r->http_tls, "Starting HTTP server", err);
}

static void close_listeners(struct otlp_receiver *r, uint64_t deadline_ns)
{
	for (unsigned i = 0; i < r->listener_count; i++)
		net_listener_close(r->listeners[i], deadline_ns);
	r->listener_count = 0;
}

static bool receiver_start(void *state, const struct component_host *host, struct err *err)
{
	struct otlp_receiver *r = state;

	r->host = host;
	r->counters = otlp_counters_new(host->metrics, host->id);
	if (start_grpc(r, err) && start_http(r, err))
		return true;
	close_listeners(r, 0);
	return false;
}

static void receiver_stop(void *state, uint64_t deadline_ns)
{
	close_listeners(state, deadline_ns);
}

static bool receiver_reload(void *state, struct err *err)
{
	struct otlp_receiver *r = state;

	return (!r->grpc_tls || tls_context_reload(r->grpc_tls, err)) &&
	       (!r->http_tls || tls_context_reload(r->http_tls, err));
}

static void receiver_release(void *state)
{
	struct otlp_receiver *r = state;

	net_app_free(r->grpc_app);
	net_app_free(r->http_app);
	tls_context_free(r->grpc_tls);
	tls_context_free(r->http_tls);
	otlp_counters_free(r->counters);
}

const struct component_ops otlp_receiver = {
	.type = "otlp",
	.summary = "OTLP profiles over gRPC and HTTP, every wire version",
	.kind = COMPONENT_RECEIVER,
	.state_size = sizeof(struct otlp_receiver),
	.fields = receiver_fields,
	.check = receiver_check,
	.start = receiver_start,
	.stop = receiver_stop,
	.reload = receiver_reload,
	.release = receiver_release,
};
