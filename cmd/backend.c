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

static struct backend_flags f = {
	.receiver = "stdout",
	.wire_version = "auto",
	.max_recv_msg_size_mib = "64",
	.max_inflight_mib = "256",
	.spool_max_mib = "512",
	.log_level = "info",
	.log_format = "console",
};
static bool print_config, strict, lenient;

static const char *const versions[] = { "auto", "1.3", "1.4",  "1.5",  "1.6", "1.7",
					"1.8",  "1.9", "1.10", "1.11", NULL };
static const char *const out_versions[] = { "1.7", "1.8", "1.9", "1.10", "1.11", NULL };
static const char *const layouts[] = { "2026", "seed-000", "seed-001", "typed", "full", NULL };
static const char *const colors[] = { "auto", "always", "never", NULL };
static const char *const formats[] = { "json", "jsonl", "otlp", NULL };
static const char *const grpc_codecs[] = { "gzip", "zstd", "snappy", "none", NULL };
static const char *const http_codecs[] = { "gzip",   "zstd", "zlib", "deflate",
					   "snappy", "lz4",  "none", NULL };
static const char *const levels[] = { "debug", "info", "warn", "error", NULL };
static const char *const log_formats[] = { "console", "json", NULL };
static const char *const durabilities[] = { "full", "process", NULL };
static const char *const encodings[] = { "proto", "json", NULL };

static const char IN[] = "Listening";
static const char OUT[] = "Sinks";
static const char ONWARD[] = "Onward (sinks otlp and otlphttp)";
static const char LIMITS[] = "Limits and safety";
static const char SELF[] = "The program itself";

static struct flag flags[] = {
	{ IN, "grpc-address", FLAG_STRING, &f.grpc_address, "HOST:PORT", "127.0.0.1:4317",
	  "OTLP/gRPC; -grpc-address '' = off", NULL, false, false },
	{ IN, "http-address", FLAG_STRING, &f.http_address, "HOST:PORT", "127.0.0.1:4318",
	  "OTLP/HTTP, protobuf and JSON; '' = off", NULL, false, false },
	{ IN, "wire-version", FLAG_WIRE_VERSION, &f.wire_version, "VERSION", "auto",
	  "read all requests as this opentelemetry-proto version", versions, false, false },
	{ IN, "tls-cert", FLAG_STRING, &f.tls_cert, "FILE", NULL,
	  "certificate chain, PEM: TLS on both addresses", NULL, false, false },
	{ IN, "tls-key", FLAG_STRING, &f.tls_key, "FILE", NULL, "its private key", NULL, false,
	  false },
	{ IN, "tls-client-ca", FLAG_STRING, &f.tls_client_ca, "FILE", NULL,
	  "senders must show a certificate of this CA", NULL, false, false },
	{ IN, "with-agent", FLAG_BOOL, &f.with_agent, NULL, NULL,
	  "profile this machine too, as 'flametap agent' does", NULL, false, false },
	{ IN, "strict", FLAG_BOOL, &strict, NULL, NULL,
	  "refuse profiles with indices past their tables", NULL, true, false },
	{ IN, "lenient", FLAG_BOOL, &lenient, NULL, "on", "keep them, shown as <bad index 7 of 5>",
	  NULL, true, false },

	{ OUT, "receiver", FLAG_STRING, &f.receiver, "LIST", "stdout",
	  "stdout, filesystem, otlp, otlphttp, sqlite, clickhouse, nop,\n"
	  "prometheus; several at once",
	  NULL, false, false },
	{ OUT, "stdout.layout", FLAG_CHOICE, &f.stdout_layout, "LAYOUT", "2026",
	  "2026, seed-000, seed-001, typed, full", layouts, false, false },
	{ OUT, "stdout.sample-types", FLAG_STRING, &f.stdout_sample_types, "LIST", "all",
	  "only these: samples,events", NULL, false, false },
	{ OUT, "stdout.color", FLAG_CHOICE, &f.stdout_color, "WHEN", "auto", "auto, always, never",
	  colors, true, false },
	{ OUT, "stdout.frame-types", FLAG_STRING, &f.stdout_frame_types, "LIST", "all",
	  "only frames of these types: native,kernel,go", NULL, true, false },
	{ OUT, "stdout.require-container-id", FLAG_BOOL, &f.stdout_require_container_id, NULL, NULL,
	  "skip resources without container.id", NULL, true, false },
	{ OUT, "stdout.function-file", FLAG_BOOL, &f.stdout_function_file, NULL, NULL,
	  "layout typed: file and line of each frame", NULL, true, false },
	{ OUT, "filesystem.dir", FLAG_STRING, &f.filesystem_dir, "DIR", "profiles",
	  "where files go", NULL, false, false },
	{ OUT, "filesystem.format", FLAG_CHOICE, &f.filesystem_format, "FORMAT", "json",
	  "json: a file a sample; jsonl, otlp: append-only", formats, false, false },
	{ OUT, "filesystem.container-id", FLAG_STRING, &f.filesystem_container_id, "ID", NULL,
	  "only this container", NULL, true, false },
	{ OUT, "filesystem.fsync", FLAG_BOOL, &f.filesystem_fsync, NULL, NULL,
	  "flush to the disk before a request is acknowledged", NULL, true, false },
	{ OUT, "filesystem.max-mib", FLAG_UINT, &f.filesystem_max_mib, "N", "100",
	  "jsonl, otlp: start a new file past this size; 0 = never", NULL, true, false },
	{ OUT, "prometheus.metrics", FLAG_STRING, &f.prometheus_metrics, "HOST:PORT",
	  "127.0.0.1:2112", "where the sink prometheus serves /metrics", NULL, true, false },
	{ OUT, "sqlite.path", FLAG_STRING, &f.sqlite_path, "FILE", "flametap.db",
	  "where the sink sqlite keeps profiles", NULL, false, false },
	{ OUT, "sqlite.retention", FLAG_DURATION, &f.sqlite_retention, "TIME", "0",
	  "keep data this long: 168h; 0 = forever", NULL, false, false },
	{ OUT, "sqlite.max-size", FLAG_SIZE, &f.sqlite_max_size, "SIZE", "0",
	  "at most this much, oldest goes first: 10GiB; 0 = no limit", NULL, false, false },
	{ OUT, "sqlite.durability", FLAG_CHOICE, &f.sqlite_durability, "WHAT", "full",
	  "what acknowledged outlives: a loss of power (full), of the process", durabilities, true,
	  false },
	{ OUT, "clickhouse.url", FLAG_STRING, &f.clickhouse_url, "URL", NULL,
	  "its HTTP port: http://user@host:8123/database", NULL, true, false },
	{ OUT, "clickhouse.password-file", FLAG_STRING, &f.clickhouse_password_file, "FILE", NULL,
	  "the password of that user", NULL, true, false },
	{ OUT, "clickhouse.ttl", FLAG_DURATION, &f.clickhouse_ttl, "TIME", "0",
	  "keep data this long, in days: 168h; 0 = forever", NULL, true, false },
	{ OUT, "clickhouse.cluster", FLAG_STRING, &f.clickhouse_cluster, "NAME", NULL,
	  "tables ON CLUSTER NAME, and Distributed ones over them", NULL, true, false },

	{ ONWARD, "otlp.endpoint", FLAG_STRING, &f.otlp.endpoint, "HOST:PORT", NULL,
	  "OTLP/gRPC peer of the sink otlp", NULL, false, false },
	{ ONWARD, "otlp.insecure", FLAG_BOOL, &f.otlp.insecure, NULL, NULL, "no TLS", NULL, false,
	  false },
	{ ONWARD, "otlp.ca", FLAG_STRING, &f.otlp.ca, "FILE", "system",
	  "CA of the peer's certificate", NULL, true, false },
	{ ONWARD, "otlp.cert", FLAG_STRING, &f.otlp.cert, "FILE", NULL,
	  "own certificate, for peers that ask", NULL, true, false },
	{ ONWARD, "otlp.key", FLAG_STRING, &f.otlp.key, "FILE", NULL, "its private key", NULL, true,
	  false },
	{ ONWARD, "otlp.headers", FLAG_STRING, &f.otlp.headers, "K=V,...", NULL,
	  "metadata of each call", NULL, true, true },
	{ ONWARD, "otlp.compression", FLAG_CHOICE, &f.otlp.compression, "CODEC", "gzip",
	  "gzip, zstd, snappy, none", grpc_codecs, true, false },
	{ ONWARD, "otlp.wire-version", FLAG_WIRE_VERSION, &f.otlp.wire_version, "VERSION", "1.10",
	  "for older peers: 1.7, 1.8, 1.9", out_versions, true, false },
	{ ONWARD, "otlphttp.endpoint", FLAG_STRING, &f.otlphttp.endpoint, "URL", NULL,
	  "OTLP/HTTP peer: http://host:4318", NULL, false, false },
	{ ONWARD, "otlphttp.ca", FLAG_STRING, &f.otlphttp.ca, "FILE", "system",
	  "CA of the peer's certificate", NULL, true, false },
	{ ONWARD, "otlphttp.cert", FLAG_STRING, &f.otlphttp.cert, "FILE", NULL, "own certificate",
	  NULL, true, false },
	{ ONWARD, "otlphttp.key", FLAG_STRING, &f.otlphttp.key, "FILE", NULL, "its private key",
	  NULL, true, false },
	{ ONWARD, "otlphttp.headers", FLAG_STRING, &f.otlphttp.headers, "K=V,...", NULL,
	  "headers of each request", NULL, true, true },
	{ ONWARD, "otlphttp.compression", FLAG_CHOICE, &f.otlphttp.compression, "CODEC", "gzip",
	  "gzip, zstd, deflate, snappy, lz4, none", http_codecs, true, false },
	{ ONWARD, "otlphttp.encoding", FLAG_CHOICE, &f.otlphttp.encoding, "FORM", "proto",
	  "proto, json", encodings, true, false },
	{ ONWARD, "otlphttp.wire-version", FLAG_WIRE_VERSION, &f.otlphttp.wire_version, "VERSION",
	  "1.10", "for older peers: 1.7, 1.8, 1.9", out_versions, true, false },

	{ LIMITS, "max-inflight-mib", FLAG_UINT, &f.max_inflight_mib, "N", "256",
	  "memory of all unfinished requests; past it: retry later", NULL, false, false },
	{ LIMITS, "max-recv-msg-size-mib", FLAG_UINT, &f.max_recv_msg_size_mib, "N", "64",
	  "largest request, after decompression", NULL, true, false },
	{ LIMITS, "spool-dir", FLAG_STRING, &f.spool_dir, "DIR", NULL,
	  "where unsent profiles wait (root: /var/lib/flametap/spool)", NULL, false, false },
	{ LIMITS, "spool-max-mib", FLAG_UINT, &f.spool_max_mib, "N", "512",
	  "at most this much of them", NULL, true, false },

	{ SELF, "metrics-address", FLAG_STRING, &f.metrics_address, "HOST:PORT", NULL,
	  "own metrics for Prometheus, as 127.0.0.1:8888", NULL, false, false },
	{ SELF, "log-level", FLAG_CHOICE, &f.log_level, "LEVEL", "info", "debug, info, warn, error",
	  levels, true, false },
	{ SELF, "log-format", FLAG_CHOICE, &f.log_format, "FORM", "console", "console, json",
	  log_formats, true, false },
	{ SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL,
	  "print the YAML that 'flametap collector' would run alike", NULL, false, false },
	{ 0 },
};

static const struct flag_range ranges[] = {
	{ "max-recv-msg-size-mib", 1, 2047 },
	{ "filesystem.max-mib", 0, 1 << 30 },
	{ "spool-max-mib", 1, 1 << 30 },
	{ "max-inflight-mib", 1, 1 << 30 },
	{ 0 },
};

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
	.ranges = ranges,
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

/* In the help. */
static void show_default_addresses(void)
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

static void choose_addresses(void)
{
	bool everywhere = keeps_lazybackend_contract();

	f.extra_address = !f.grpc_address; /* the seeds' agents send to 4137 */
	if ((!f.grpc_address || !f.http_address) && everywhere && !print_config)
		fprintf(stderr,
			"flametap: %s%s, so listening on all addresses (0.0.0.0)%s; "
			"-grpc-address 127.0.0.1:4317 -http-address 127.0.0.1:4318 keeps to this "
			"machine\n",
			is_lazybackend() ? "called as " : "in a container image",
			is_lazybackend() ? program_name : "",
			is_lazybackend() ? ", as that program does" : "");
	if (!f.grpc_address)
		f.grpc_address = everywhere ? "0.0.0.0:4317" : "127.0.0.1:4317";
	if (!f.http_address)
		f.http_address = everywhere ? "0.0.0.0:4318" : "127.0.0.1:4318";
}

static bool was_given(const struct flag *flag)
{
	return flag->kind == FLAG_BOOL ? *(const bool *)flag->target
				       : *(const char *const *)flag->target != NULL;
}

static bool is_chosen(struct str sink)
{
	struct str rest = str_cstr(f.receiver), name;

	while (str_split(&rest, ',', &name))
		if (str_equal(str_trim(name), sink))
			return true;
	return false;
}

/* A sink's flags, "otlp.endpoint", have no default here, so that those that were given show. */
static void warn_of_idle_flags(void)
{
	for (const struct flag *flag = flags; flag->name; flag++) {
		struct str rest = str_cstr(flag->name), sink;

		if (!strchr(flag->name, '.') || !was_given(flag))
			continue;
		str_split(&rest, '.', &sink);
		if (!is_chosen(sink))
			fprintf(stderr,
				"flametap backend: -%s does nothing: -receiver %s does not name "
				"%.*s\n",
				flag->name, f.receiver, STR_ARG(sink));
	}
}

static bool check_flags(struct err *err)
{
	if (strict && lenient)
		return err_set(err, ERR_INVALID, "-strict and -lenient exclude each other");
	if (!f.tls_cert != !f.tls_key)
		return err_set(err, ERR_INVALID, "-tls-cert and -tls-key belong together");
	if (f.tls_client_ca && !f.tls_cert)
		return err_set(err, ERR_INVALID, "-tls-client-ca needs -tls-cert and -tls-key");
	f.strict = strict;
	choose_addresses();
	if (!f.grpc_address[0] && !f.http_address[0])
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

	show_default_addresses();
	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	if (!check_flags(&err) || !backend_graph_yaml(&f, &yaml, &err))
		return command_usage_error("backend", &err);
	warn_of_idle_flags();
	buf_char(&yaml, '\0');
	source.text = yaml.ptr;
	options.print_config = print_config;
	return service_run(&options);
}
