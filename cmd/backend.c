/*
 * backend.c - flametap backend: OTLP in, resolved stacks out, with the lazy backend's flags and
 * more.
 *
 * The flags become the YAML of a graph (backend_graph.c); --print-config prints it, and `flametap
 * collector` runs the same. Called by a lazy backend's name it keeps that program's contract and
 * listens on all addresses, with a warning.
 */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "command.h"
#include "flags.h"
#include "service.h"

extern const char *program_name;

static const char *const versions[] = { "auto", "1.3", "1.4",  "1.5",  "1.6", "1.7",
					"1.8",  "1.9", "1.10", "1.11", NULL };
static const char *const out_versions[] = { "1.7", "1.8", "1.9", "1.10", "1.11", NULL };

static bool print_config;

static const char IN[] = "Listening";
static const char OUT[] = "Sinks";
static const char ONWARD[] = "Onward (sinks otlp and otlphttp)";
static const char LIMITS[] = "Limits and safety";
static const char SELF[] = "The program itself";

#define GRPC   "receivers/otlp/protocols/grpc/"
#define HTTP   "receivers/otlp/protocols/http/"
#define BOTH   "receivers/otlp/protocols/*/"
#define ENGINE "service/flametap/"

/* clang-format off */
static struct flag flags[] = {
	OPTION(IN, "grpc-address", "HOST:PORT", GRPC "endpoint", .fallback = "127.0.0.1:4317",
	       .help = "OTLP/gRPC; -grpc-address '' = off"),
	OPTION(IN, "http-address", "HOST:PORT", HTTP "endpoint", .fallback = "127.0.0.1:4318",
	       .help = "OTLP/HTTP, protobuf and JSON; '' = off"),
	FLAG(IN, "wire-version", FLAG_WIRE_VERSION, NULL, "VERSION", "auto", "read all requests as this opentelemetry-proto version",
	     .choices = versions, .option = "receivers/otlp/wire_version"),
	OPTION(IN, "tls-cert", "FILE", BOTH "tls/cert_file", .help = "certificate chain, PEM: TLS on both addresses"),
	OPTION(IN, "tls-key", "FILE", BOTH "tls/key_file", .help = "its private key"),
	OPTION(IN, "tls-client-ca", "FILE", BOTH "tls/client_ca_file", .help = "senders must show a certificate of this CA"),
	FLAG(IN, "with-agent", FLAG_BOOL, NULL, NULL, NULL, "profile this machine too, as 'flametap agent' does"),
	FLAG(IN, "strict", FLAG_BOOL, NULL, NULL, NULL, "refuse profiles with indices past their tables", .advanced = true),
	FLAG(IN, "lenient", FLAG_BOOL, NULL, NULL, "on", "keep them, shown as <bad index 7 of 5>", .advanced = true),

	FLAG(OUT, "receiver", FLAG_STRING, NULL, "LIST", "stdout",
	     "stdout, filesystem, otlp, otlphttp, sqlite, clickhouse, nop,\nprometheus; several at once"),
	OPTION(OUT, "stdout.layout", "LAYOUT", "exporters/stdout/layout"),
	OPTION(OUT, "stdout.sample-types", "LIST", "exporters/stdout/sample_types"),
	OPTION(OUT, "stdout.color", "WHEN", "exporters/stdout/color", .advanced = true),
	OPTION(OUT, "stdout.frame-types", "LIST", "exporters/stdout/export_stack_frame_types", .advanced = true),
	OPTION(OUT, "stdout.require-container-id", NULL, "exporters/stdout/ignore_profiles_without_container_id", .advanced = true),
	OPTION(OUT, "stdout.function-file", NULL, "exporters/stdout/export_function_file", .advanced = true),
	OPTION(OUT, "filesystem.dir", "DIR", "exporters/filesystem/dir"),
	OPTION(OUT, "filesystem.format", "FORMAT", "exporters/filesystem/format"),
	OPTION(OUT, "filesystem.container-id", "ID", "exporters/filesystem/container_id", .advanced = true),
	OPTION(OUT, "filesystem.fsync", NULL, "exporters/filesystem/fsync", .advanced = true),
	OPTION(OUT, "filesystem.max-mib", "N", "exporters/filesystem/max_mib", .advanced = true),
	OPTION(OUT, "prometheus.metrics", "HOST:PORT", "exporters/prometheus/endpoint", .advanced = true),
	OPTION(OUT, "sqlite.path", "FILE", "exporters/sqlite/path"),
	OPTION(OUT, "sqlite.retention", "TIME", "exporters/sqlite/retention"),
	OPTION(OUT, "sqlite.max-size", "SIZE", "exporters/sqlite/max_size"),
	OPTION(OUT, "sqlite.durability", "WHAT", "exporters/sqlite/durability", .advanced = true),
	OPTION(OUT, "clickhouse.url", "URL", "exporters/clickhouse/endpoint", .advanced = true),
	OPTION(OUT, "clickhouse.password-file", "FILE", "exporters/clickhouse/password_file", .advanced = true),
	OPTION(OUT, "clickhouse.ttl", "TIME", "exporters/clickhouse/ttl", .advanced = true),
	OPTION(OUT, "clickhouse.cluster", "NAME", "exporters/clickhouse/cluster_name", .advanced = true),

	OPTION(ONWARD, "otlp.endpoint", "HOST:PORT", "exporters/otlp_grpc/endpoint", .help = "OTLP/gRPC peer of the sink otlp"),
	OPTION(ONWARD, "otlp.insecure", NULL, "exporters/otlp_grpc/tls/insecure"),
	OPTION(ONWARD, "otlp.ca", "FILE", "exporters/otlp_grpc/tls/ca_file", .advanced = true),
	OPTION(ONWARD, "otlp.cert", "FILE", "exporters/otlp_grpc/tls/cert_file", .advanced = true),
	OPTION(ONWARD, "otlp.key", "FILE", "exporters/otlp_grpc/tls/key_file", .advanced = true),
	OPTION(ONWARD, "otlp.headers", "K=V,...", "exporters/otlp_grpc/headers", .advanced = true),
	OPTION(ONWARD, "otlp.compression", "CODEC", "exporters/otlp_grpc/compression", .advanced = true),
	FLAG(ONWARD, "otlp.wire-version", FLAG_WIRE_VERSION, NULL, "VERSION", "1.10", "for older peers: 1.7, 1.8, 1.9",
	     .choices = out_versions, .option = "exporters/otlp_grpc/wire_version", .advanced = true),
	OPTION(ONWARD, "otlphttp.endpoint", "URL", "exporters/otlp_http/endpoint", .help = "OTLP/HTTP peer: http://host:4318"),
	OPTION(ONWARD, "otlphttp.ca", "FILE", "exporters/otlp_http/tls/ca_file", .advanced = true),
	OPTION(ONWARD, "otlphttp.cert", "FILE", "exporters/otlp_http/tls/cert_file", .advanced = true),
	OPTION(ONWARD, "otlphttp.key", "FILE", "exporters/otlp_http/tls/key_file", .advanced = true),
	OPTION(ONWARD, "otlphttp.headers", "K=V,...", "exporters/otlp_http/headers", .advanced = true),
	OPTION(ONWARD, "otlphttp.compression", "CODEC", "exporters/otlp_http/compression", .advanced = true),
	OPTION(ONWARD, "otlphttp.encoding", "FORM", "exporters/otlp_http/encoding", .advanced = true),
	FLAG(ONWARD, "otlphttp.wire-version", FLAG_WIRE_VERSION, NULL, "VERSION", "1.10", "for older peers: 1.7, 1.8, 1.9",
	     .choices = out_versions, .option = "exporters/otlp_http/wire_version", .advanced = true),

	OPTION(LIMITS, "max-inflight-mib", "N", ENGINE "max_inflight_mib",
	       .help = "memory of all unfinished requests; past it: retry later"),
	OPTION(LIMITS, "max-recv-msg-size-mib", "N", GRPC "max_recv_msg_size_mib", .fallback = "64",
	       .help = "largest request, after decompression", .advanced = true),
	OPTION(LIMITS, "spool-dir", "DIR", ENGINE "spool/directory",
	       .help = "where unsent profiles wait (root: /var/lib/flametap/spool)"),
	OPTION(LIMITS, "spool-max-mib", "N", ENGINE "spool/max_mib", .help = "at most this much of them", .advanced = true),

	FLAG(SELF, "metrics-address", FLAG_STRING, NULL, "HOST:PORT", NULL, "own metrics for Prometheus, as 127.0.0.1:8888"),
	OPTION(SELF, "log-level", "LEVEL", "service/telemetry/logs/level", .advanced = true),
	OPTION(SELF, "log-format", "FORM", "service/telemetry/logs/encoding", .advanced = true),
	FLAG(SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL, "print the YAML that 'flametap collector' would run alike"),
	{ 0 },
};
/* clang-format on */

static const char *const examples[] = {
	"flametap backend",
	"flametap backend -receiver filesystem,prometheus -filesystem.format jsonl",
	NULL,
};

static const struct command command = {
	.name = "backend",
	.words = "",
	.summary = "Receive OTLP profiles of any wire version and show them, every stack resolved, "
		   "nothing lost.",
	.examples = examples,
	.flags = flags,
};

static bool is_lazybackend(void)
{
	return strcmp(program_name, "opentelemetry-lazybackend") == 0 ||
	       strcmp(program_name, "opentelemetry-profiles-lazybackend") == 0;
}

static bool keeps_lazybackend_contract(void)
{
	return is_lazybackend() || getenv("FLAMETAP_IMAGE") != NULL;
}

static void open_default_addresses(void)
{
	if (!keeps_lazybackend_contract())
		return;
	for (struct flag *flag = flags; flag->name; flag++) {
		if (strcmp(flag->name, "grpc-address") == 0)
			flag->fallback = "0.0.0.0:4317";
		else if (strcmp(flag->name, "http-address") == 0)
			flag->fallback = "0.0.0.0:4318";
	}
}

static void tell_open_addresses(void)
{
	const struct flag *grpc = flags_find(flags, STR("grpc-address")),
			  *http = flags_find(flags, STR("http-address"));

	if (print_config || (flags_given(grpc) && flags_given(http)))
		return;
	fprintf(stderr,
		"flametap: %s%s, so listening on all addresses (0.0.0.0)%s; "
		"-grpc-address 127.0.0.1:4317 -http-address 127.0.0.1:4318 keeps to this "
		"machine\n",
		is_lazybackend() ? "called as " : "in a container image",
		is_lazybackend() ? program_name : "",
		is_lazybackend() ? ", as that program does" : "");
}

static bool is_chosen(struct str sink)
{
	struct str rest = str_cstr(flags_value(flags, "receiver")), name;

	while (str_split(&rest, ',', &name))
		if (str_equal(str_trim(name), sink))
			return true;
	return false;
}

/* A sink's flags are "otlp.endpoint". */
static void warn_of_idle_flags(void)
{
	for (const struct flag *flag = flags; flag->name; flag++) {
		struct str rest = str_cstr(flag->name), sink;

		if (!strchr(flag->name, '.') || !flags_given(flag))
			continue;
		str_split(&rest, '.', &sink);
		if (!is_chosen(sink))
			fprintf(stderr,
				"flametap backend: -%s does nothing: -receiver %s does not name "
				"%.*s\n",
				flag->name, flags_value(flags, "receiver"), STR_ARG(sink));
	}
}

static bool check_flags(struct err *err)
{
	bool cert = flags_value(flags, "tls-cert"), key = flags_value(flags, "tls-key");

	if (flags_is_true(flags, "strict") && flags_is_true(flags, "lenient"))
		return err_set(err, ERR_INVALID, "-strict and -lenient exclude each other");
	if (cert != key)
		return err_set(err, ERR_INVALID, "-tls-cert and -tls-key belong together");
	if (flags_value(flags, "tls-client-ca") && !cert)
		return err_set(err, ERR_INVALID, "-tls-client-ca needs -tls-cert and -tls-key");
	if (!flags_value(flags, "grpc-address")[0] && !flags_value(flags, "http-address")[0])
		return err_set(
			err, ERR_INVALID,
			"-grpc-address and -http-address are both empty: nothing to listen on");
	return true;
}

int backend_run(int argc, char **argv)
{
	AUTO(buf_release) struct buf yaml = { 0 };
	struct config_source source = { CONFIG_FROM_TEXT, NULL, NULL }; /* nobody sees its lines */
	struct service_options options = { .command = "backend",
					   .sources = &source,
					   .source_count = 1 };
	struct words words;
	struct err err;
	int status;

	open_default_addresses();
	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	if (keeps_lazybackend_contract())
		tell_open_addresses();
	if (!check_flags(&err) || !backend_graph_yaml(flags, &yaml, &err))
		return command_usage_error("backend", &err);
	warn_of_idle_flags();
	buf_char(&yaml, '\0');
	source.text = yaml.ptr;
	options.print_config = print_config;
	return service_run(&options);
}
