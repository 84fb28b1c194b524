/*
 * agent.c - flametap agent: every process of this machine, profiled and sent on, with the eBPF
 * profiler's flags and more.
 *
 * The flags become the YAML of a graph (agent_graph.c); --print-config prints it, and `flametap
 * collector` runs the same. What is not on the command line comes from OTEL_PROFILING_AGENT_*, then
 * from the file of -config, which SIGHUP reads again. Called as ebpf-profiler or
 * otel-profiling-agent it is that program.
 */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "command.h"
#include "service.h"

static const char PREFIX[] = "OTEL_PROFILING_AGENT_";

static const char *config_path, *pprof_address;
static bool print_config, print_version, print_copyright, verbose;

static const char TO[] = "Where to";
static const char WHAT[] = "What is sampled";
static const char NAMES[] = "Names";
static const char WHO[] = "Who says it";
static const char LIMITS[] = "Limits and safety";
static const char SELF[] = "The program itself";
static const char OTHER[] = "Read for compatibility, or not offered yet";

#define RECEIVER "receivers/profiling/"
#define EXPORTER "exporters/otlp_grpc/" /* or otlp_http, which has these too */
#define ENGINE   "service/flametap/"

/* clang-format off */
static const struct flag flags[] = {
	OPTION(TO, "collection-agent", "HOST:PORT", EXPORTER "endpoint", .help = "OTLP/gRPC peer; else OTEL_EXPORTER_OTLP_ENDPOINT"),
	OPTION(TO, "disable-tls", NULL, EXPORTER "tls/insecure", .help = "no TLS to it"),
	OPTION(TO, "reporter-interval", "TIME", RECEIVER "reporter_interval"),
	OPTION(TO, "reporter-jitter", "SHARE", RECEIVER "reporter_jitter", .advanced = true),
	OPTION(TO, "ca", "FILE", EXPORTER "tls/ca_file", .advanced = true),
	OPTION(TO, "cert", "FILE", EXPORTER "tls/cert_file", .advanced = true),
	OPTION(TO, "key", "FILE", EXPORTER "tls/key_file", .advanced = true),
	OPTION(TO, "headers", "K=V,...", EXPORTER "headers", .help = "metadata of each call; also OTEL_EXPORTER_OTLP_HEADERS", .advanced = true),
	OPTION(TO, "compression", "CODEC", EXPORTER "compression", .advanced = true),

	OPTION(WHAT, "samples-per-second", "N", RECEIVER "samples_per_second", .least = 1, .most = 10000),
	OPTION(WHAT, "process-filter", "REGEX", RECEIVER "process_filter", .help = "only executables, comms or scripts of such a name"),
	OPTION(WHAT, "pid", "PID,...", RECEIVER "pids", .help = "only these processes and what they start; several times"),
	FLAG(WHAT, "cgroup", FLAG_LIST, NULL, "PATH", NULL, "only this cgroup and below: /a/b or its folder; several times", .option = RECEIVER "cgroups"),
	OPTION(WHAT, "tracers", "LIST", RECEIVER "tracers", .help = "runtimes whose frames are shown: python,go,..."),
	OPTION(WHAT, "t", "LIST", RECEIVER "tracers", .help = "the same", .advanced = true),
	OPTION(WHAT, "pin-cpu-ids", "LIST", RECEIVER "pin_cpu_ids", .advanced = true),
	OPTION(WHAT, "filter-min-process-age", "TIME", RECEIVER "filter_min_process_age", .advanced = true),
	OPTION(WHAT, "probabilistic-threshold", "N", RECEIVER "probabilistic_threshold", .least = 1, .most = 100, .advanced = true),
	OPTION(WHAT, "probabilistic-interval", "TIME", RECEIVER "probabilistic_interval", .advanced = true),
	OPTION(WHAT, "send-error-frames", NULL, RECEIVER "send_error_frames", .advanced = true),
	OPTION(WHAT, "send-idle-frames", NULL, RECEIVER "send_idle_frames", .advanced = true),
	OPTION(WHAT, "env-vars", "LIST", RECEIVER "include_env_vars", .advanced = true),

	OPTION(NAMES, "native-symbols", NULL, RECEIVER "native_symbols", .help = "names of native functions; false: as the reference does"),
	OPTION(NAMES, "inlines", NULL, RECEIVER "inlines"),
	OPTION(NAMES, "symbol-memory", "SIZE", RECEIVER "symbol_memory", .advanced = true),
	OPTION(NAMES, "runtime-tables", "DIR", RECEIVER "runtime_tables", .help = "offsets of runtimes that replace the built-in ones: DIR/cpython.table", .advanced = true),
	OPTION(NAMES, "cache-dir", "DIR", RECEIVER "cache_dir", .advanced = true),
	OPTION(NAMES, "frame-cache-size", "N", RECEIVER "frame_cache_size", .least = 1024, .most = 1 << 20, .advanced = true),

	FLAG(WHO, "service-name", FLAG_STRING, NULL, "NAME", NULL, "service.name of processes that name none (OTEL_SERVICE_NAME)"),
	FLAG(WHO, "tags", FLAG_STRING, NULL, "K=V,...", NULL, "attributes of every resource (OTEL_RESOURCE_ATTRIBUTES)"),

	OPTION(LIMITS, "unwind-memory", "SIZE", RECEIVER "unwind_memory", .advanced = true),
	OPTION(LIMITS, "map-scale-factor", "N", RECEIVER "map_scale_factor", .least = 0, .most = 8, .advanced = true),
	OPTION(LIMITS, "spool-dir", "DIR", ENGINE "spool/directory", .help = "what the peer has not taken yet (/var/lib/flametap/spool)"),
	OPTION(LIMITS, "spool-max-mib", "N", ENGINE "spool/max_mib", .help = "of it, at most", .advanced = true),
	OPTION(LIMITS, "max-inflight-mib", "N", ENGINE "max_inflight_mib", .fallback = "64", .help = "memory of reports under way", .advanced = true),
	OPTION(LIMITS, "user", "USER", ENGINE "worker_user", .help = "whom the part without privileges runs as (as started)"),

	FLAG(SELF, "config", FLAG_STRING, &config_path, "FILE", NULL, "lines of 'flag value'; SIGHUP reads it again"),
	FLAG(SELF, "metrics-address", FLAG_STRING, NULL, "HOST:PORT", NULL, "serve own metrics"),
	FLAG(SELF, "verbose", FLAG_BOOL, &verbose, NULL, NULL, "log more: -log-level debug"),
	FLAG(SELF, "v", FLAG_BOOL, &verbose, NULL, NULL, "the same", .advanced = true),
	OPTION(SELF, "log-level", "LEVEL", "service/telemetry/logs/level", .advanced = true),
	OPTION(SELF, "log-format", "FORM", "service/telemetry/logs/encoding", .advanced = true),
	FLAG(SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL, "print the YAML that 'flametap collector' would run alike"),
	FLAG(SELF, "version", FLAG_BOOL, &print_version, NULL, NULL, "print the version", .advanced = true),
	FLAG(SELF, "copyright", FLAG_BOOL, &print_copyright, NULL, NULL, "print the licenses", .advanced = true),

	OPTION(OTHER, "off-cpu-threshold", "SHARE", RECEIVER "off_cpu_threshold", .help = "off-CPU profiling: not offered yet", .advanced = true),
	FLAG(OTHER, "probe-link", FLAG_LIST, NULL, "PROBE", NULL, "probes: not offered yet", .option = RECEIVER "u_probe_links", .advanced = true),
	OPTION(OTHER, "load-probe", NULL, RECEIVER "load_probe", .help = "a program for probes: not offered yet", .advanced = true),
	OPTION(OTHER, "obi-process-ctx", NULL, RECEIVER "obi_process_ctx", .help = "OBI's contexts: not offered yet", .advanced = true),
	OPTION(OTHER, "monitor-interval", "TIME", RECEIVER "monitor_interval", .advanced = true),
	OPTION(OTHER, "clock-sync-interval", "TIME", RECEIVER "clock_sync_interval", .advanced = true),
	OPTION(OTHER, "no-kernel-version-check", NULL, RECEIVER "no_kernel_version_check", .advanced = true),
	OPTION(OTHER, "bpf-log-level", "N", RECEIVER "bpf_verifier_log_level", .least = 0, .most = 2, .help = "of the verifier, 0 to 2", .advanced = true),
	OPTION(OTHER, "bpffs-root", "DIR", RECEIVER "bpf_fs_root", .advanced = true),
	FLAG(OTHER, "pprof", FLAG_STRING, &pprof_address, "HOST:PORT", NULL, "without effect: there is no Go runtime to look into", .advanced = true),
	{ 0 },
};
/* clang-format on */

static const char *const examples[] = {
	"flametap agent -collection-agent localhost:4317 -disable-tls",
	"flametap agent -collection-agent HOST:4317 -process-filter 'java|python' -tags env=prod",
	NULL,
};

static const struct command command = {
	.name = "agent",
	.words = "",
	.summary = "Profile every process of this machine and send it on, as OTLP. Needs "
		   "privileges: 'flametap doctor'.",
	.examples = examples,
	.flags = flags,
};

/* What the file says, over what was typed or is in the environment. */
struct source {
	unsigned mark; /* of the flags given before the file */
	char *text;    /* of the file: flags point into it */
	struct buf yaml;
	struct config_source *config;
};

static bool read_source(struct source *s, struct err *err)
{
	flags_forget(s->mark);
	free(s->text);
	s->text = NULL;
	if (config_path && !flags_read_file(&command, config_path, &s->text, err))
		return false;
	buf_reset(&s->yaml);
	if (!agent_graph_yaml(flags, &s->yaml, err))
		return false;
	buf_char(&s->yaml, '\0');
	s->config->text = s->yaml.ptr;
	return true;
}

static bool refresh(void *ctx, struct err *err)
{
	return read_source(ctx, err);
}

static int show_about(void)
{
	if (print_version)
		puts("flametap " FLAMETAP_VERSION);
	if (print_copyright)
		puts("Copyright the Flametap authors. Apache License 2.0; the BPF programs "
		     "also under BSD-2-Clause or GPL-2.0.");
	return EXIT_OK;
}

static int run(struct source *s)
{
	struct service_options options = { .command = "agent",
					   .sources = s->config,
					   .source_count = 1,
					   .print_config = print_config,
					   .refresh = refresh,
					   .refresh_arg = s };

	if (pprof_address)
		fprintf(stderr, "flametap: -pprof has no effect here; 'flametap record -p PID' "
				"profiles the agent as any process\n");
	return service_run(&options);
}

int agent_run(int argc, char **argv)
{
	struct config_source config = { CONFIG_FROM_TEXT, NULL, NULL }; /* nobody sees its lines */
	struct source source = { .config = &config };
	struct words words;
	struct err err;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	if (print_version || print_copyright)
		return show_about();
	if (!flags_read_environment(&command, PREFIX, &err))
		return command_usage_error("agent", &err);
	source.mark = flags_mark();
	if (read_source(&source, &err))
		status = run(&source);
	else
		status = command_usage_error("agent", &err);
	buf_release(&source.yaml);
	free(source.text);
	return status;
}
