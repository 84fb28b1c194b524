/* agent_graph.c - the agent's flags as the YAML of a graph: profiling -> one OTLP exporter,
 * durable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/text.h"
#include "graph_yaml.h"

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* OTEL_EXPORTER_OTLP_PROFILES_X, else OTEL_EXPORTER_OTLP_X. */
static const char *exporter_variable(const char *what)
{
	const char *value;
	char name[64];

	snprintf(name, sizeof(name), "OTEL_EXPORTER_OTLP_PROFILES_%s", what);
	value = variable(name);
	snprintf(name, sizeof(name), "OTEL_EXPORTER_OTLP_%s", what);
	return value ? value : variable(name);
}

/* ---- who says it ---- */

struct attribute_list {
	struct {
		struct str key;
		struct str value; /* of OTEL_RESOURCE_ATTRIBUTES still as it is spelled there */
		bool encoded;
	} at[128];
	size_t count;
};

/* The last one of a name holds. */
static bool set_attribute(struct attribute_list *list, struct str key, struct str value,
			  bool encoded, struct err *err)
{
	size_t at = 0;

	while (at < list->count && !str_equal(list->at[at].key, key))
		at++;
	if (at == ARRAY_LEN(list->at))
		return err_set(err, ERR_LIMIT, "more than %zu resource attributes",
			       ARRAY_LEN(list->at));
	list->count += at == list->count;
	list->at[at].key = key;
	list->at[at].value = value;
	list->at[at].encoded = encoded;
	return true;
}

static bool add_attributes(struct attribute_list *list, const char *pairs, bool encoded,
			   struct err *err)
{
	struct str rest = str_cstr(pairs), pair;

	while (str_split(&rest, ',', &pair)) {
		ptrdiff_t equals = str_find(pair, '=');

		if (!str_trim(pair).len)
			continue;
		if (equals <= 0)
			return err_set(err, ERR_INVALID, "\"%.*s\" is not of the form name=value",
				       STR_ARG(pair));
		if (!set_attribute(list, str_trim(str_head(pair, (size_t)equals)),
				   str_trim(str_skip(pair, (size_t)equals + 1)), encoded, err))
			return false;
	}
	return true;
}

static void put_attributes(const struct attribute_list *list, struct yaml_out *y)
{
	bool any = false;

	for (size_t i = 0; i < list->count; i++) {
		AUTO(buf_release) struct buf value = { 0 };

		if (str_is(list->at[i].key, "service.name"))
			continue;
		if (!any)
			graph_begin(y, "resource_attributes");
		any = true;
		if (list->at[i].encoded)
			percent_decode(&value, list->at[i].value);
		else
			buf_str(&value, list->at[i].value);
		yaml_key(y, list->at[i].key);
		yaml_string(y, buf_view(&value));
	}
	if (any)
		yaml_map_end(y);
}

/* -service-name, OTEL_SERVICE_NAME, then service.name among the attributes. */
static void put_service_name(const struct agent_flags *f, const struct attribute_list *list,
			     struct yaml_out *y)
{
	AUTO(buf_release) struct buf decoded = { 0 };
	const char *name = f->service_name ? f->service_name : variable("OTEL_SERVICE_NAME");

	for (size_t i = 0; !name && i < list->count; i++) {
		if (!str_is(list->at[i].key, "service.name"))
			continue;
		if (list->at[i].encoded)
			percent_decode(&decoded, list->at[i].value);
		else
			buf_str(&decoded, list->at[i].value);
		buf_char(&decoded, '\0');
		name = decoded.ptr;
	}
	graph_put(y, "service_name", name);
}

static bool put_identity(const struct agent_flags *f, struct yaml_out *y, struct err *err)
{
	struct attribute_list list = { .count = 0 };
	const char *from_environment = variable("OTEL_RESOURCE_ATTRIBUTES");

	if (from_environment && !add_attributes(&list, from_environment, true, err))
		return err_prefix(err, "OTEL_RESOURCE_ATTRIBUTES");
	if (f->tags && !add_attributes(&list, f->tags, false, err))
		return err_prefix(err, "-tags");
	put_service_name(f, &list, y);
	put_attributes(&list, y);
	return true;
}

/* ---- the receiver ---- */

static void put_items(struct yaml_out *y, const char *key, const struct flag_list *list)
{
	if (!list->count)
		return;
	yaml_key(y, str_cstr(key));
	yaml_list_begin(y, true);
	for (unsigned i = 0; i < list->count; i++)
		yaml_string(y, str_cstr(list->items[i]));
	yaml_list_end(y);
}

bool agent_put_receiver(const struct agent_flags *f, struct yaml_out *y, struct err *err)
{
	graph_put_number(y, "samples_per_second", f->samples_per_second);
	graph_put(y, "reporter_interval", f->reporter_interval);
	graph_put_number(y, "reporter_jitter", f->reporter_jitter);
	graph_put(y, "monitor_interval", f->monitor_interval);
	graph_put(y, "clock_sync_interval", f->clock_sync_interval);
	graph_put_number(y, "frame_cache_size", f->frame_cache_size);
	graph_put(y, "probabilistic_interval", f->probabilistic_interval);
	graph_put_number(y, "probabilistic_threshold", f->probabilistic_threshold);
	graph_put(y, "tracers", f->tracers);
	graph_put_true(y, "send_error_frames", f->send_error_frames);
	graph_put_true(y, "send_idle_frames", f->send_idle_frames);
	graph_put(y, "filter_min_process_age", f->filter_min_process_age);
	graph_put_number(y, "off_cpu_threshold", f->off_cpu_threshold);
	if (f->env_vars)
		graph_put_list(y, "include_env_vars", f->env_vars);
	graph_put_number(y, "map_scale_factor", f->map_scale_factor);
	graph_put_number(y, "bpf_verifier_log_level", f->bpf_log_level);
	graph_put_true(y, "no_kernel_version_check", f->no_kernel_version_check);
	graph_put(y, "bpf_fs_root", f->bpffs_root);
	graph_put_true(y, "obi_process_ctx", f->obi_process_ctx);
	graph_put(y, "pin_cpu_ids", f->pin_cpu_ids);
	put_items(y, "u_probe_links", &f->probe_links);
	graph_put_true(y, "load_probe", f->load_probe);
	graph_put(y, "process_filter", f->process_filter);
	put_items(y, "cgroups", &f->cgroups);
	graph_put_lists(y, "pids", f->pids.items, f->pids.count);
	if (!f->native_symbols)
		graph_put_bool(y, "native_symbols", false);
	graph_put_true(y, "inlines", f->inlines);
	graph_put(y, "symbol_memory", f->symbol_memory);
	graph_put(y, "unwind_memory", f->unwind_memory);
	graph_put(y, "runtime_tables", f->runtime_tables);
	graph_put(y, "cache_dir", f->cache_dir);
	return put_identity(f, y, err);
}

/* ---- the exporter ---- */

static bool is_http(void)
{
	const char *protocol = exporter_variable("PROTOCOL");

	return protocol && strncmp(protocol, "http/", 5) == 0;
}

static bool check_protocol(struct err *err)
{
	static const char *const known[] = { "grpc", "http/protobuf", "http/json" };
	const char *protocol = exporter_variable("PROTOCOL");

	for (size_t i = 0; protocol && i < ARRAY_LEN(known); i++)
		if (strcmp(protocol, known[i]) == 0)
			return true;
	return !protocol || err_set(err, ERR_INVALID,
				    "OTEL_EXPORTER_OTLP_PROTOCOL can't be \"%s\"; it takes grpc, "
				    "http/protobuf, http/json",
				    protocol);
}

static bool is_true(const char *value)
{
	return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static const char *first_of(const char *flag, const char *variable_name)
{
	return flag ? flag : exporter_variable(variable_name);
}

static void put_tls(const struct agent_flags *f, struct yaml_out *y)
{
	const char *ca = first_of(f->ca, "CERTIFICATE");
	const char *cert = first_of(f->cert, "CLIENT_CERTIFICATE");
	const char *key = first_of(f->key, "CLIENT_KEY");
	bool insecure = f->disable_tls || is_true(exporter_variable("INSECURE"));

	if (!ca && !cert && !key && !insecure)
		return;
	graph_begin(y, "tls");
	graph_put_true(y, "insecure", insecure);
	graph_put(y, "ca_file", ca);
	graph_put(y, "cert_file", cert);
	graph_put(y, "key_file", key);
	yaml_map_end(y);
}

/* OTEL_EXPORTER_OTLP_TIMEOUT counts milliseconds. */
static bool put_timeout(struct yaml_out *y, struct err *err)
{
	const char *text = exporter_variable("TIMEOUT");
	char duration[40];
	uint64_t ms;

	if (!text)
		return true;
	if (!str_to_u64(str_cstr(text), &ms) || ms > 3600000)
		return err_set(err, ERR_INVALID,
			       "OTEL_EXPORTER_OTLP_TIMEOUT \"%s\" is not a number of milliseconds",
			       text);
	snprintf(duration, sizeof(duration), "%llums", (unsigned long long)ms);
	graph_put(y, "timeout", duration);
	return true;
}

static const char *exporter_name(const struct agent_flags *f)
{
	return !f->collection_agent && is_http() ? "otlp_http" : "otlp_grpc";
}

static bool check_destination(const char *endpoint, struct err *err)
{
	if (!endpoint || !*endpoint)
		return err_set(err, ERR_INVALID,
			       "no collection agent to send to: -collection-agent HOST:PORT, or "
			       "OTEL_EXPORTER_OTLP_ENDPOINT");
	return check_protocol(err);
}

static void put_endpoint(const struct agent_flags *f, const char *endpoint, struct yaml_out *y)
{
	const char *whole_url = variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT");
	bool http = strcmp(exporter_name(f), "otlp_http") == 0;

	graph_put(y, http && whole_url ? "profiles_endpoint" : "endpoint", endpoint);
	if (http && strcmp(exporter_variable("PROTOCOL"), "http/json") == 0)
		graph_put(y, "encoding", "json");
}

/* Maps that were begun are ended, also when something is wrong. */
static bool put_exporter(const struct agent_flags *f, struct yaml_out *y, struct err *err)
{
	const char *headers = first_of(f->headers, "HEADERS");
	const char *endpoint = first_of(f->collection_agent, "ENDPOINT");
	bool ok;

	if (!check_destination(endpoint, err))
		return false;
	graph_begin(y, exporter_name(f));
	put_endpoint(f, endpoint, y);
	graph_put(y, "compression", first_of(f->compression, "COMPRESSION"));
	graph_put_true(y, "log_sent", true);
	put_tls(f, y);
	ok = !headers || graph_put_pairs(y, "headers", headers, err) || err_prefix(err, "headers");
	ok = ok && put_timeout(y, err);
	yaml_map_end(y);
	return ok;
}

/* ---- the graph ---- */

static void put_pipeline(const struct agent_flags *f, struct yaml_out *y)
{
	graph_begin(y, "pipelines");
	graph_begin(y, "profiles");
	graph_put_list(y, "receivers", "profiling");
	graph_put_list(y, "exporters", exporter_name(f));
	yaml_map_end(y);
	yaml_map_end(y);
}

static void put_engine(const struct agent_flags *f, struct yaml_out *y)
{
	graph_begin(y, "flametap");
	graph_put_number(y, "max_inflight_mib", f->max_inflight_mib);
	graph_put_bool(y, "durable", true);
	graph_put(y, "worker_user", f->user);
	graph_begin(y, "spool");
	if (f->spool_dir)
		graph_put(y, "directory", f->spool_dir);
	else
		graph_put_default_spool_directory(y);
	graph_put_number(y, "max_mib", f->spool_max_mib);
	/* A report is not worth a write to the disk every few seconds: most are delivered at once,
	 * and then there is nothing to sync. */
	graph_put(y, "fsync", "interval");
	graph_put(y, "fsync_interval", "30s");
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool put_service(const struct agent_flags *f, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, "service");
	put_pipeline(f, y);
	ok = graph_put_telemetry(y, f->verbose ? "debug" : f->log_level, f->log_format,
				 f->metrics_address, err);
	put_engine(f, y);
	yaml_map_end(y);
	return ok;
}

static bool put_graph(const struct agent_flags *f, struct yaml_out *y, struct err *err)
{
	bool ok;

	yaml_map_begin(y);
	graph_begin(y, "receivers");
	graph_begin(y, "profiling");
	ok = agent_put_receiver(f, y, err);
	yaml_map_end(y);
	yaml_map_end(y);
	graph_begin(y, "exporters");
	ok = ok && put_exporter(f, y, err);
	yaml_map_end(y);
	ok = ok && put_service(f, y, err);
	yaml_map_end(y);
	return ok;
}

bool agent_graph_yaml(const struct agent_flags *f, struct buf *out, struct err *err)
{
	struct yaml_out *y = yaml_out_new(out);
	bool ok = put_graph(f, y, err);

	yaml_out_free(y);
	return ok;
}
