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

static struct agent_flags f = {
	.native_symbols = true,
	.max_inflight_mib = "64",
	.spool_max_mib = "512",
	.log_level = "info",
	.log_format = "console",
};
static const char *config_path, *pprof_address;
static bool print_config, print_version, print_copyright;

static const char *const levels[] = { "debug", "info", "warn", "error", NULL };
static const char *const log_formats[] = { "console", "json", NULL };
static const char *const codecs[] = { "gzip", "zstd", "snappy", "none", NULL };

static const char TO[] = "Where to";
static const char WHAT[] = "What is sampled";
static const char NAMES[] = "Names";
static const char WHO[] = "Who says it";
static const char LIMITS[] = "Limits and safety";
static const char SELF[] = "The program itself";
static const char OTHER[] = "Read for compatibility, or not offered yet";

/* clang-format off */
static const struct flag flags[] = {
	{ TO, "collection-agent", FLAG_STRING, &f.collection_agent, "HOST:PORT", NULL, "OTLP/gRPC peer; else OTEL_EXPORTER_OTLP_ENDPOINT", NULL, false, false },
	{ TO, "disable-tls", FLAG_BOOL, &f.disable_tls, NULL, NULL, "no TLS to it", NULL, false, false },
	{ TO, "reporter-interval", FLAG_DURATION, &f.reporter_interval, "TIME", "5s", "how often a report is sent", NULL, false, false },
	{ TO, "reporter-jitter", FLAG_STRING, &f.reporter_jitter, "SHARE", "0.2", "the interval varies by this share", NULL, true, false },
	{ TO, "ca", FLAG_STRING, &f.ca, "FILE", "system", "CA of the peer's certificate", NULL, true, false },
	{ TO, "cert", FLAG_STRING, &f.cert, "FILE", NULL, "own certificate, for peers that ask", NULL, true, false },
	{ TO, "key", FLAG_STRING, &f.key, "FILE", NULL, "its private key", NULL, true, false },
	{ TO, "headers", FLAG_STRING, &f.headers, "K=V,...", NULL, "metadata of each call; also OTEL_EXPORTER_OTLP_HEADERS", NULL, true, true },
	{ TO, "compression", FLAG_CHOICE, &f.compression, "CODEC", "gzip", "gzip, zstd, snappy, none", codecs, true, false },

	{ WHAT, "samples-per-second", FLAG_UINT, &f.samples_per_second, "N", "20", "how often each CPU is looked at", NULL, false, false },
	{ WHAT, "process-filter", FLAG_STRING, &f.process_filter, "REGEX", "all", "only executables, comms or scripts of such a name", NULL, false, false },
	{ WHAT, "pid", FLAG_LIST, &f.pids, "PID,...", "all", "only these processes and what they start; several times", NULL, false, false },
	{ WHAT, "cgroup", FLAG_LIST, &f.cgroups, "PATH", "all", "only this cgroup and below: /a/b or its folder; several times", NULL, false, false },
	{ WHAT, "tracers", FLAG_STRING, &f.tracers, "LIST", "all", "runtimes whose frames are shown: python,go,...", NULL, false, false },
	{ WHAT, "t", FLAG_STRING, &f.tracers, "LIST", "all", "the same", NULL, true, false },
	{ WHAT, "pin-cpu-ids", FLAG_STRING, &f.pin_cpu_ids, "LIST", "all", "only these CPUs: 0-15,20,31", NULL, true, false },
	{ WHAT, "filter-min-process-age", FLAG_DURATION, &f.filter_min_process_age, "TIME", "0s", "younger processes are left out", NULL, true, false },
	{ WHAT, "probabilistic-threshold", FLAG_UINT, &f.probabilistic_threshold, "N", "100", "in how many of 100 intervals is sampled", NULL, true, false },
	{ WHAT, "probabilistic-interval", FLAG_DURATION, &f.probabilistic_interval, "TIME", "1m", "of which length, 1m to 5m", NULL, true, false },
	{ WHAT, "send-error-frames", FLAG_BOOL, &f.send_error_frames, NULL, NULL, "a marker where a stack ends early", NULL, true, false },
	{ WHAT, "send-idle-frames", FLAG_BOOL, &f.send_idle_frames, NULL, NULL, "idle CPUs too", NULL, true, false },
	{ WHAT, "env-vars", FLAG_STRING, &f.env_vars, "LIST", NULL, "variables of processes to send", NULL, true, false },

	{ NAMES, "native-symbols", FLAG_BOOL, &f.native_symbols, NULL, "true", "names of native functions; false: as the reference does", NULL, false, false },
	{ NAMES, "inlines", FLAG_BOOL, &f.inlines, NULL, NULL, "inlined functions, from debug information", NULL, false, false },
	{ NAMES, "symbol-memory", FLAG_SIZE, &f.symbol_memory, "SIZE", "8MiB", "for symbols", NULL, true, false },
	{ NAMES, "runtime-tables", FLAG_STRING, &f.runtime_tables, "DIR", "built in", "offsets of runtimes: DIR/cpython.table", NULL, true, false },
	{ NAMES, "cache-dir", FLAG_STRING, &f.cache_dir, "DIR", "none", "keeps lines and debug files over restarts", NULL, true, false },
	{ NAMES, "frame-cache-size", FLAG_UINT, &f.frame_cache_size, "N", "16384", "names of frames kept", NULL, true, false },

	{ WHO, "service-name", FLAG_STRING, &f.service_name, "NAME", "OTEL_SERVICE_NAME", "service.name of processes that name none", NULL, false, false },
	{ WHO, "tags", FLAG_STRING, &f.tags, "K=V,...", "OTEL_RESOURCE_ATTRIBUTES", "attributes of every resource", NULL, false, false },

	{ LIMITS, "unwind-memory", FLAG_SIZE, &f.unwind_memory, "SIZE", "128MiB", "for unwind tables, at most", NULL, true, false },
	{ LIMITS, "map-scale-factor", FLAG_UINT, &f.map_scale_factor, "N", "0", "BPF maps 2^N times as large, 0 to 8", NULL, true, false },
	{ LIMITS, "spool-dir", FLAG_STRING, &f.spool_dir, "DIR", "/var/lib/flametap/spool", "what the peer has not taken yet", NULL, false, false },
	{ LIMITS, "spool-max-mib", FLAG_UINT, &f.spool_max_mib, "N", "512", "of it, at most", NULL, true, false },
	{ LIMITS, "max-inflight-mib", FLAG_UINT, &f.max_inflight_mib, "N", "64", "memory of reports under way", NULL, true, false },
	{ LIMITS, "user", FLAG_STRING, &f.user, "USER", "as started", "whom the part without privileges runs as", NULL, false, false },

	{ SELF, "config", FLAG_STRING, &config_path, "FILE", NULL, "lines of 'flag value'; SIGHUP reads it again", NULL, false, false },
	{ SELF, "metrics-address", FLAG_STRING, &f.metrics_address, "HOST:PORT", "off", "serve own metrics", NULL, false, false },
	{ SELF, "verbose", FLAG_BOOL, &f.verbose, NULL, NULL, "log more", NULL, false, false },
	{ SELF, "v", FLAG_BOOL, &f.verbose, NULL, NULL, "the same", NULL, true, false },
	{ SELF, "log-level", FLAG_CHOICE, &f.log_level, "LEVEL", "info", "debug, info, warn, error", levels, true, false },
	{ SELF, "log-format", FLAG_CHOICE, &f.log_format, "FORM", "console", "console, json", log_formats, true, false },
	{ SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL, "print the YAML that 'flametap collector' would run alike", NULL, false, false },
	{ SELF, "version", FLAG_BOOL, &print_version, NULL, NULL, "print the version", NULL, true, false },
	{ SELF, "copyright", FLAG_BOOL, &print_copyright, NULL, NULL, "print the licenses", NULL, true, false },

	{ OTHER, "off-cpu-threshold", FLAG_STRING, &f.off_cpu_threshold, "SHARE", "0", "off-CPU profiling: not offered yet", NULL, true, false },
	{ OTHER, "probe-link", FLAG_LIST, &f.probe_links, "PROBE", NULL, "probes: not offered yet", NULL, true, false },
	{ OTHER, "load-probe", FLAG_BOOL, &f.load_probe, NULL, NULL, "a program for probes: not offered yet", NULL, true, false },
	{ OTHER, "obi-process-ctx", FLAG_BOOL, &f.obi_process_ctx, NULL, NULL, "OBI's contexts: not offered yet", NULL, true, false },
	{ OTHER, "monitor-interval", FLAG_DURATION, &f.monitor_interval, "TIME", "5s", "without effect: metrics are counted as things happen", NULL, true, false },
	{ OTHER, "clock-sync-interval", FLAG_DURATION, &f.clock_sync_interval, "TIME", "3m", "how often the wall clock is read anew; 0 = at start only", NULL, true, false },
	{ OTHER, "no-kernel-version-check", FLAG_BOOL, &f.no_kernel_version_check, NULL, NULL, "without effect: features are tried, not versions", NULL, true, false },
	{ OTHER, "bpf-log-level", FLAG_UINT, &f.bpf_log_level, "N", "0", "of the verifier, 0 to 2", NULL, true, false },
	{ OTHER, "bpffs-root", FLAG_STRING, &f.bpffs_root, "DIR", "/sys/fs/bpf/", "without effect: nothing is pinned", NULL, true, false },
	{ OTHER, "pprof", FLAG_STRING, &pprof_address, "HOST:PORT", NULL, "without effect: there is no Go runtime to look into", NULL, true, false },
	{ 0 },
};
/* clang-format on */

static const struct flag_range ranges[] = {
	{ "samples-per-second", 1, 10000 },
	{ "probabilistic-threshold", 1, 100 },
	{ "frame-cache-size", 1024, 1 << 20 },
	{ "map-scale-factor", 0, 8 },
	{ "bpf-log-level", 0, 2 },
	{ "spool-max-mib", 1, 1 << 30 },
	{ "max-inflight-mib", 1, 1 << 30 },
	{ 0 },
};

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
	.ranges = ranges,
};

/* What the file says, over what was typed or is in the environment. */
struct source {
	struct agent_flags typed;
	unsigned mark; /* of the flags given before the file */
	char *text;    /* of the file: flags point into it */
	struct buf yaml;
	struct config_source *config;
};

static bool read_source(struct source *s, struct err *err)
{
	f = s->typed;
	flags_forget(s->mark);
	free(s->text);
	s->text = NULL;
	if (config_path && !flags_read_file(&command, config_path, &s->text, err))
		return false;
	buf_reset(&s->yaml);
	if (!agent_graph_yaml(&f, &s->yaml, err))
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
	source.typed = f;
	source.mark = flags_mark();
	if (read_source(&source, &err))
		status = run(&source);
	else
		status = command_usage_error("agent", &err);
	buf_release(&source.yaml);
	free(source.text);
	return status;
}
