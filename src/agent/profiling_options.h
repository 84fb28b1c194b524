/*
 * profiling_options.h - the options of the receiver `profiling`, and what they mean together.
 *
 * Names and defaults are the eBPF profiler's, in all three generations that are in use:
 * `SamplesPerSecond` (no key tags), `samples_per_second` with `tracers`, `u_probe_links` and
 * `load_probe` (2025), and `interpreters` with `probes` (2026). What was renamed is read with a
 * warning; what is not offered is refused with the reason, never ignored.
 */
#pragma once
#include "agent/agent.h"
#include "base/arena.h"
#include "pipeline/options.h"

/* The runtimes that have a name in -tracers, in the order that the reference lists them. */
enum tracer {
	TRACER_PERL,
	TRACER_PHP,
	TRACER_PYTHON,
	TRACER_HOTSPOT,
	TRACER_RUBY,
	TRACER_V8,
	TRACER_DOTNET,
	TRACER_GO,
	TRACER_LABELS,
	TRACER_BEAM,
	TRACER_LUAJIT,
	TRACER_COUNT,
};

struct tracer_switch {
	bool disabled;
};

struct profiling_options {
	uint32_t samples_per_second;
	uint64_t reporter_interval_ns, monitor_interval_ns, clock_sync_interval_ns;
	double reporter_jitter;
	uint32_t frame_cache_size;
	uint64_t probabilistic_interval_ns;
	uint32_t probabilistic_threshold;
	const char *tracers;
	struct {
		struct tracer_switch python, perl, php, hotspot, ruby, v8, dotnet, beam, luajit;
		struct {
			bool disabled;
			struct tracer_switch labels, symbolization;
		} go;
	} interpreters;
	bool send_error_frames, send_idle_frames, verbose_mode;
	uint64_t filter_min_process_age_ns;
	double off_cpu_threshold;
	struct config_strings include_env_vars;
	uint32_t map_scale_factor, bpf_verifier_log_level, max_grpc_retries;
	uint64_t max_rpc_msg_size;
	bool no_kernel_version_check, obi_process_ctx, pid_namespace_translation, load_probe;
	const char *bpf_fs_root, *pin_cpu_ids;
	int error_mode; /* enum profiling_error_mode */
	const struct config_node *probes;
	struct config_strings u_probe_links;
	/* ours */
	const char *service_name;
	struct config_pairs resource_attributes;
	const char *process_filter;
	struct config_strings cgroups, pids;
	bool native_symbols, inlines;
	uint64_t symbol_memory_bytes, unwind_memory_bytes, naming_budget_ns;
	const char *cache_dir, *debuginfod_urls, *runtime_tables;
	uint64_t debuginfod_wait_ns;
};

enum profiling_error_mode { PROFILING_PROPAGATE, PROFILING_IGNORE };

extern const struct config_field profiling_fields[];

/* Everything but the numbers' ranges: lists, names, what is not offered. */
bool profiling_options_check(const struct profiling_options *o, struct err *err) MUST_CHECK;
/* Of the CPUs that are to be sampled those that are not online are appended, ", " between them.
 * `online` and `possible` are such lists as /sys/devices/system/cpu has. ERR_INVALID: the machine
 * can have none of them. */
bool profiling_cpus_check(const struct profiling_options *o, struct str online, struct str possible,
			  struct buf *absent, struct err *err) MUST_CHECK;
/* For agent_start(); lists are made in `arena`, strings stay where they are. */
bool profiling_agent_options(const struct profiling_options *o, struct arena *arena,
			     struct agent_options *out, struct err *err) MUST_CHECK;
/* All that an agent cannot change while it runs: where the keys of two are equal, one does for the
 * other. Bytes, not text. */
void profiling_sampler_key(const struct profiling_options *o, struct buf *out);

/* A set of tracers as bits (1 << enum tracer), from a list: "all", "python,go"; blanks and letter
 * case do not matter, "native" is always on. `named` gets those that were asked for by name. */
bool tracers_parse(struct str list, uint32_t *set, uint32_t *named, struct err *err) MUST_CHECK;
/* Those that this program walks and names; the frames of others are shown as native code. */
uint32_t tracers_offered(void);
/* The set that the options ask for. */
bool profiling_tracers(const struct profiling_options *o, uint32_t *set, uint32_t *named,
		       struct err *err) MUST_CHECK;
/* "python,go,labels". */
void tracers_append(struct buf *b, uint32_t set);
