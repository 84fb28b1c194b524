/* backend_graph.c - the backend's flags as the YAML of a graph: otlp -> the chosen sinks, one
 * pipeline. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "pipeline/yaml_out.h"

/* Values as given; what refers to the environment stays a reference, so that --print-config shows
 * no secret. */
static void put_value(struct yaml_out *y, const char *value)
{
	if (strstr(value, "${"))
		yaml_reference(y, str_cstr(value));
	else
		yaml_string(y, str_cstr(value));
}

/* A line only where the flag was given: the component's own default holds else. */
static void put(struct yaml_out *y, const char *key, const char *value)
{
	if (!value)
		return;
	yaml_key(y, str_cstr(key));
	put_value(y, value);
}

static void put_number(struct yaml_out *y, const char *key, const char *digits)
{
	if (!digits)
		return;
	yaml_key(y, str_cstr(key));
	yaml_bare(y, str_cstr(digits));
}

static void put_bool(struct yaml_out *y, const char *key, bool value)
{
	put_number(y, key, value ? "true" : "false");
}

static void put_true(struct yaml_out *y, const char *key, bool value)
{
	if (value)
		put_bool(y, key, true);
}

static void begin(struct yaml_out *y, const char *key)
{
	yaml_key(y, str_cstr(key));
	yaml_map_begin(y);
}

static void put_list(struct yaml_out *y, const char *key, const char *comma_list)
{
	struct str rest = str_cstr(comma_list), item;

	if (rest.len == 0)
		return;
	yaml_key(y, str_cstr(key));
	yaml_list_begin(y, true);
	while (str_split(&rest, ',', &item))
		if (str_trim(item).len)
			yaml_string(y, str_trim(item));
	yaml_list_end(y);
}

static bool put_pair(struct yaml_out *y, struct str pair, struct err *err)
{
	ptrdiff_t equals = str_find(pair, '=');
	AUTO(buf_release) struct buf value = { 0 };

	if (equals <= 0)
		return err_set(err, ERR_INVALID, "\"%.*s\" is no name=value", STR_ARG(pair));
	buf_str(&value, str_trim(str_skip(pair, (size_t)equals + 1)));
	buf_char(&value, '\0');
	yaml_key(y, str_trim(str_head(pair, (size_t)equals)));
	put_value(y, value.ptr);
	return true;
}

/* A map from "k=v,k=v". */
static bool put_pairs(struct yaml_out *y, const char *key, const char *pairs, struct err *err)
{
	struct str rest = str_cstr(pairs), pair;
	bool ok = true;

	if (rest.len == 0)
		return true;
	begin(y, key);
	while (ok && str_split(&rest, ',', &pair))
		ok = put_pair(y, pair, err);
	yaml_map_end(y);
	return ok;
}

static void put_server_tls(const struct backend_flags *f, struct yaml_out *y)
{
	if (!f->tls_cert)
		return;
	begin(y, "tls");
	put(y, "cert_file", f->tls_cert);
	put(y, "key_file", f->tls_key);
	put(y, "client_ca_file", f->tls_client_ca);
	yaml_map_end(y);
}

static void put_grpc(const struct backend_flags *f, struct yaml_out *y)
{
	begin(y, "grpc");
	put(y, "endpoint", f->grpc_address);
	if (f->extra_address)
		put_list(y, "extra_endpoints", "127.0.0.1:4137");
	put_number(y, "max_recv_msg_size_mib", f->max_recv_msg_size_mib);
	put_server_tls(f, y);
	yaml_map_end(y);
}

static void put_http(const struct backend_flags *f, struct yaml_out *y)
{
	char size[40];

	snprintf(size, sizeof(size), "%sMiB", f->max_recv_msg_size_mib);
	begin(y, "http");
	put(y, "endpoint", f->http_address);
	put(y, "max_request_body_size", size);
	put_server_tls(f, y);
	yaml_map_end(y);
}

static void put_receiver(const struct backend_flags *f, struct yaml_out *y)
{
	begin(y, "receivers");
	begin(y, "otlp");
	begin(y, "protocols");
	if (f->grpc_address[0])
		put_grpc(f, y);
	if (f->http_address[0])
		put_http(f, y);
	yaml_map_end(y);
	put(y, "wire_version", f->wire_version);
	put(y, "validation", f->strict ? "strict" : "lenient");
	put(y, "other_signals", "reject_each");
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool put_stdout(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	put(y, "layout", f->stdout_layout);
	put(y, "color", f->stdout_color);
	put_list(y, "sample_types", f->stdout_sample_types);
	put_list(y, "export_stack_frame_types", f->stdout_frame_types);
	put_true(y, "ignore_profiles_without_container_id", f->stdout_require_container_id);
	put_true(y, "export_function_file", f->stdout_function_file);
	return true;
}

static bool put_filesystem(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	put(y, "dir", f->filesystem_dir);
	put(y, "format", f->filesystem_format);
	put(y, "container_id", f->filesystem_container_id);
	put_number(y, "max_mib", f->filesystem_max_mib);
	put_true(y, "fsync", f->filesystem_fsync);
	return true;
}

static bool put_prometheus(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	put(y, "endpoint", f->prometheus_metrics);
	return true;
}

static bool put_sqlite(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	(void)err;
	put(y, "path", f->sqlite_path);
	put(y, "retention", f->sqlite_retention);
	put(y, "max_size", f->sqlite_max_size);
	put(y, "durability", f->sqlite_durability);
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
	begin(y, "tls");
	put_true(y, "insecure", p->insecure);
	put(y, "ca_file", p->ca);
	put(y, "cert_file", p->cert);
	put(y, "key_file", p->key);
	yaml_map_end(y);
}

static bool put_peer(const struct backend_peer *p, const char *name, struct yaml_out *y,
		     struct err *err)
{
	if (!p->endpoint)
		return err_set(err, ERR_INVALID, "the sink %s needs -%s.endpoint", name, name);
	put(y, "endpoint", p->endpoint);
	put(y, "compression", p->compression);
	put(y, "encoding", p->encoding);
	put(y, "wire_version", p->wire_version);
	put_client_tls(p, y);
	return put_pairs(y, "headers", p->headers, err) || err_prefix(err, "-%s.headers", name);
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
		"unknown receiver \"%.*s\" (supported: stdout, sqlite, filesystem, prometheus, "
		"otlp, otlphttp, nop)",
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

	begin(y, "exporters");
	for (size_t i = 0; ok && i < ARRAY_LEN(sinks); i++) {
		if (!chosen[i])
			continue;
		begin(y, sinks[i].component);
		ok = sinks[i].put(f, y, err);
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static void put_pipeline(const bool *chosen, struct yaml_out *y)
{
	begin(y, "pipelines");
	begin(y, "profiles");
	put_list(y, "receivers", "otlp");
	yaml_key(y, STR("exporters"));
	yaml_list_begin(y, true);
	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		if (chosen[i])
			yaml_string(y, str_cstr(sinks[i].component));
	yaml_list_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
}

/* metrics.readers: [{pull: {exporter: {prometheus: {host, port}}}}] */
static void put_reader(struct yaml_out *y, const char *host, const char *port)
{
	yaml_key(y, STR("readers"));
	yaml_list_begin(y, false);
	yaml_map_begin(y);
	begin(y, "pull");
	begin(y, "exporter");
	begin(y, "prometheus");
	put(y, "host", host);
	put_number(y, "port", port);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_list_end(y);
}

static bool put_own_metrics(const char *address, struct yaml_out *y, struct err *err)
{
	const char *colon = strrchr(address, ':');
	AUTO(buf_release) struct buf host = { 0 };
	uint64_t port;

	if (!colon || !str_to_u64(str_cstr(colon + 1), &port) || port > 65535)
		return err_set(err, ERR_INVALID, "-metrics-address \"%s\" is no HOST:PORT",
			       address);
	buf_append(&host, address, (size_t)(colon - address));
	if (host.len == 0)
		buf_lit(&host, "0.0.0.0");
	buf_char(&host, '\0');
	begin(y, "metrics");
	put(y, "level", "normal");
	put_reader(y, host.ptr, colon + 1);
	yaml_map_end(y);
	return true;
}

static bool put_telemetry(const struct backend_flags *f, struct yaml_out *y, struct err *err)
{
	bool ok = true;

	begin(y, "telemetry");
	begin(y, "logs");
	put(y, "level", f->log_level);
	put(y, "encoding", f->log_format);
	yaml_map_end(y);
	if (f->metrics_address && f->metrics_address[0]) {
		ok = put_own_metrics(f->metrics_address, y, err);
	} else {
		begin(y, "metrics");
		put(y, "level", "none");
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static void put_default_spool_directory(struct yaml_out *y)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	AUTO(buf_release) struct buf path = { 0 };

	if (geteuid() == 0)
		buf_lit(&path, "/var/lib/flametap/spool");
	else if (state && state[0] == '/')
		buf_printf(&path, "%s/flametap/spool", state);
	else
		buf_printf(&path, "%s/.local/state/flametap/spool", home ? home : "/tmp");
	buf_char(&path, '\0');
	put(y, "directory", path.ptr);
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
	begin(y, "flametap");
	put_number(y, "max_inflight_mib", f->max_inflight_mib);
	put_bool(y, "durable", true);
	put_bool(y, "strict", f->strict);
	if (any_remote(chosen) || f->spool_dir) {
		begin(y, "spool");
		if (f->spool_dir)
			put(y, "directory", f->spool_dir);
		else
			put_default_spool_directory(y);
		put_number(y, "max_mib", f->spool_max_mib);
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
		begin(y, "service");
		put_pipeline(chosen, y);
		ok = put_telemetry(f, y, err);
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
