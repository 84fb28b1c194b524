/* backend.h - the backend's flags and the graph that they describe. */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"

struct backend_peer {
	const char *endpoint, *ca, *cert, *key, *headers, *compression, *encoding, *wire_version;
	bool insecure;
};

/* As given, or the default; NULL = not given where there is none. */
struct backend_flags {
	const char *grpc_address, *http_address; /* "" = off */
	const char *wire_version, *tls_cert, *tls_key, *tls_client_ca;
	const char *receiver;
	const char *stdout_layout, *stdout_sample_types, *stdout_color, *stdout_frame_types;
	const char *filesystem_dir, *filesystem_format, *filesystem_container_id,
		*filesystem_max_mib;
	const char *prometheus_metrics;
	const char *sqlite_path, *sqlite_retention, *sqlite_max_size, *sqlite_durability;
	const char *clickhouse_url, *clickhouse_password_file, *clickhouse_ttl, *clickhouse_cluster;
	const char *max_inflight_mib, *max_recv_msg_size_mib, *spool_dir, *spool_max_mib;
	const char *metrics_address, *log_level, *log_format;
	struct backend_peer otlp, otlphttp;
	bool stdout_require_container_id, stdout_function_file, filesystem_fsync;
	bool strict, extra_address, with_agent;
};

/* Appends the YAML; false (ERR_INVALID) for an unknown sink or a malformed list. */
bool backend_graph_yaml(const struct backend_flags *f, struct buf *out, struct err *err) MUST_CHECK;
