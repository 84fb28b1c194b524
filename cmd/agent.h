/* agent.h - the agent's flags and the graph that they describe: profiling -> OTLP. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"
#include "flags.h"
#include "pipeline/yaml_out.h"

/* As given; NULL = not given: the component's own default holds. */
struct agent_flags {
	/* sampling: keys of the receiver `profiling` */
	const char *samples_per_second, *reporter_interval, *reporter_jitter, *monitor_interval,
		*clock_sync_interval, *tracers, *frame_cache_size, *probabilistic_interval,
		*probabilistic_threshold, *map_scale_factor, *bpf_log_level, *pin_cpu_ids,
		*filter_min_process_age, *off_cpu_threshold, *env_vars, *bpffs_root,
		*process_filter, *symbol_memory, *unwind_memory, *cache_dir, *runtime_tables;
	struct flag_list probe_links, cgroups, pids;
	bool send_error_frames, send_idle_frames, no_kernel_version_check, obi_process_ctx,
		load_probe, native_symbols, inlines;
	/* who says it */
	const char *service_name, *tags;
	/* where it goes */
	const char *collection_agent, *ca, *cert, *key, *headers, *compression;
	bool disable_tls;
	/* the program */
	const char *spool_dir, *spool_max_mib, *max_inflight_mib, *metrics_address, *log_level,
		*log_format, *user;
	bool verbose;
};

/* The entries of the receiver `profiling`, flags and OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
 */
bool agent_put_receiver(const struct agent_flags *f, struct yaml_out *y,
			struct err *err) MUST_CHECK;
/* Appends the whole YAML; also reads OTEL_EXPORTER_OTLP_*. */
bool agent_graph_yaml(const struct agent_flags *f, struct buf *out, struct err *err) MUST_CHECK;
