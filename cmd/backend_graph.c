/* backend_graph.c - the backend's flags as the YAML of a graph: otlp -> the chosen sinks, one
 * pipeline. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "graph_yaml.h"

static void put_server_tls(const struct backend_flags *f, struct yaml_out *y)
{
	if (!f->tls_cert)
		return;
	graph_begin(y, "tls");
	graph_put(y, "cert_file", f->tls_cert);
	graph_put(y, "key_file", f->tls_key);
	graph_put(y, "client_ca_file", f->tls_client_ca);
	yaml_map_end(y);
}

static void put_grpc(const struct backend_flags *f, struct yaml_out *y)
{
	graph_begin(y, "grpc");
	graph_put(y, "endpoint", f->grpc_address);
	if (f->extra_address)
		graph_put_list(y, "extra_endpoints", "127.0.0.1:4137");
	graph_put_number(y, "max_recv_msg_size_mib", f->max_recv_msg_size_mib);
	put_server_tls(f, y);
	yaml_map_end(y);
}

static void put_http(const struct backend_flags *f, struct yaml_out *y)
{
	char size[40];

	snprintf(size, sizeof(size), "%sMiB", f->max_recv_msg_size_mib);
	graph_begin(y, "http");
	graph_put(y, "endpoint", f->http_address);
	graph_put(y, "max_request_body_size", size);
	put_server_tls(f, y);
	yaml_map_end(y);
}

static void put_receiver(const struct backend_flags *f, struct yaml_out *y)
{
	graph_begin(y, "receivers");
	graph_begin(y, "otlp");
	graph_begin(y, "protocols");
	if (f->grpc_address[0])
		put_grpc(f, y);
	if (f->http_address[0])
		put_http(f, y);
	yaml_map_end(y);
	graph_put(y, "wire_version", f->wire_version);
	graph_put(y, "validation", f->strict ? "strict" : "lenient");
	graph_put(y, "other_signals", "reject_each");
	yaml_map_end(y);
	if (f->with_agent) {
		graph_begin(y, "profiling");
		yaml_map_end(y);
	}
	yaml_map_end(y);
}

static bool put_stdout(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	graph_put(y, "layout", f->stdout_layout);
	graph_put(y, "color", f->stdout_color);
	graph_put_list(y, "sample_types", f->stdout_sample_types);
	graph_put_list(y, "export_stack_frame_types", f->stdout_frame_types);
	graph_put_true(y, "ignore_profiles_without_container_id", f->stdout_require_container_id);
	graph_put_true(y, "export_function_file", f->stdout_function_file);
	return true;
}

static bool put_filesystem(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	graph_put(y, "dir", f->filesystem_dir);
	graph_put(y, "format", f->filesystem_format);
	graph_put(y, "container_id", f->filesystem_container_id);
	graph_put_number(y, "max_mib", f->filesystem_max_mib);
	graph_put_true(y, "fsync", f->filesystem_fsync);
	return true;
}

static bool put_prometheus(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	graph_put(y, "endpoint", f->prometheus_metrics);
	return true;
}

static bool put_sqlite(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	graph_put(y, "path", f->sqlite_path);
	graph_put(y, "retention", f->sqlite_retention);
	graph_put(y, "max_size", f->sqlite_max_size);
	graph_put(y, "durability", f->sqlite_durability);
	return true;
}

static bool put_clickhouse(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	graph_put(y, "endpoint", f->clickhouse_url);
	graph_put(y, "password_file", f->clickhouse_password_file);
	graph_put(y, "ttl", f->clickhouse_ttl);
	graph_put(y, "cluster_name", f->clickhouse_cluster);
	return true;
}

static bool put_nop(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)f, (void)y, (void)err;
	return true;
}

static void put_client_tls(const struct backend_peer *p, struct yaml_out *y)
{
	if (!p->insecure && !p->ca && !p->cert)
		return;
	graph_begin(y, "tls");
	graph_put_true(y, "insecure", p->insecure);
	graph_put(y, "ca_file", p->ca);
	graph_put(y, "cert_file", p->cert);
	graph_put(y, "key_file", p->key);
	yaml_map_end(y);
}

static bool put_peer(const struct backend_peer *p, const char *name, struct yaml_out *y,
		     struct err *err)
{
	if (!p->endpoint)
		return err_set(err, ERR_INVALID, "the sink %s needs -%s.endpoint", name, name);
	graph_put(y, "endpoint", p->endpoint);
	graph_put(y, "compression", p->compression);
	graph_put(y, "encoding", p->encoding);
	graph_put(y, "wire_version", p->wire_version);
	put_client_tls(p, y);
	return graph_put_pairs(y, "headers", p->headers, err) ||
	       err_prefix(err, "-%s.headers", name);
}

static bool put_otlp(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	return put_peer(&f->otlp, "otlp", y, err);
}

static bool put_otlphttp(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	return put_peer(&f->otlphttp, "otlphttp", y, err);
}

static const struct sink {
	const char *name; /* in -receiver */
	const char *component;
	bool (*put)(const struct backend_flags *f, struct yaml_out *y, struct err *err);
	bool remote;
} sinks[] = {
	{ "stdout", "stdout", put_stdout, false },
	{ "sqlite", "sqlite", put_sqlite, false },
	{ "clickhouse", "clickhouse", put_clickhouse, true },
	{ "filesystem", "filesystem", put_filesystem, false },
	{ "prometheus", "prometheus", put_prometheus, false },
	{ "otlp", "otlp_grpc", put_otlp, true },
	{ "otlphttp", "otlp_http", put_otlphttp, true },
	{ "nop", "nop", put_nop, false },
};

static bool unknown_sink(struct str name, struct err *err)
{
	const char *names[ARRAY_LEN(sinks)];
	const char *near;

	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		names[i] = sinks[i].name;
	near = text_suggest(name, names, ARRAY_LEN(names));
	if (near)
		return err_set(err, ERR_INVALID, "unknown receiver \"%.*s\"; did you mean \"%s\"?",
			       STR_ARG(name), near);
	return err_set(
		err, ERR_INVALID,
		"unknown receiver \"%.*s\" (supported: stdout, sqlite, clickhouse, filesystem, "
		"prometheus, otlp, otlphttp, nop)",
		STR_ARG(name));
}

static bool choose_sinks(const char *list, bool *chosen, struct err *err)
{
	struct str rest = str_cstr(list), name;
	bool any = false;

	while (str_split(&rest, ',', &name)) {
		size_t i = 0;

		name = str_trim(name);
		while (i < ARRAY_LEN(sinks) && !str_is(name, sinks[i].name))
			i++;
		if (i == ARRAY_LEN(sinks))
			return unknown_sink(name, err);
		if (chosen[i])
			return err_set(err, ERR_INVALID, "-receiver names \"%s\" twice",
				       sinks[i].name);
		chosen[i] = any = true;
	}
	return any || err_set(err, ERR_INVALID, "-receiver is empty");
}

static bool put_exporters(const struct backend_flags *f, const bool *chosen, struct yaml_out *y,
			  struct err *err)
{
	bool ok = true;

	graph_begin(y, "exporters");
	for (size_t i = 0; ok && i < ARRAY_LEN(sinks); i++) {
		if (!chosen[i])
			continue;
		graph_begin(y, sinks[i].component);
		ok = sinks[i].put(f, y, err);
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static void put_pipeline(const struct backend_flags *f, const bool *chosen, struct yaml_out *y)
{
	graph_begin(y, "pipelines");
	graph_begin(y, "profiles");
	graph_put_list(y, "receivers", f->with_agent ? "otlp,profiling" : "otlp");
	yaml_key(y, STR("exporters"));
	yaml_list_begin(y, true);
	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		if (chosen[i])
			yaml_string(y, str_cstr(sinks[i].component));
	yaml_list_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool any_remote(const bool *chosen)
{
	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		if (chosen[i] && sinks[i].remote)
			return true;
	return false;
}

static void put_engine(const struct backend_flags *f, const bool *chosen, struct yaml_out *y)
{
	graph_begin(y, "flametap");
	graph_put_number(y, "max_inflight_mib", f->max_inflight_mib);
	graph_put_bool(y, "durable", true);
	graph_put_bool(y, "strict", f->strict);
	if (any_remote(chosen) || f->spool_dir) {
		graph_begin(y, "spool");
		if (f->spool_dir)
			graph_put(y, "directory", f->spool_dir);
		else
			graph_put_default_spool_directory(y);
		graph_put_number(y, "max_mib", f->spool_max_mib);
		yaml_map_end(y);
	}
	yaml_map_end(y);
}

static bool put_graph(const struct backend_flags *f, const bool *chosen, struct yaml_out *y,
		      struct err *err)
{
	bool ok;

	yaml_map_begin(y);
	put_receiver(f, y);
	ok = put_exporters(f, chosen, y, err);
	if (ok) {
		graph_begin(y, "service");
		put_pipeline(f, chosen, y);
		ok = graph_put_telemetry(y, f->log_level, f->log_format, f->metrics_address, err);
		put_engine(f, chosen, y);
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

bool backend_graph_yaml(const struct backend_flags *f, struct buf *out, struct err *err)
{
	bool chosen[ARRAY_LEN(sinks)] = { false };
	struct yaml_out *y;
	bool ok;

	if (!choose_sinks(f->receiver, chosen, err))
		return false;
	y = yaml_out_new(out);
	ok = put_graph(f, chosen, y, err);
	yaml_out_free(y);
	return ok;
}
