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

static const struct sink {
	const char *name; /* in -receiver */
	const char *component;
	bool remote;
	const char *needs; /* a flag */
} sinks[] = {
	{ "stdout", "stdout", false, NULL },
	{ "sqlite", "sqlite", false, NULL },
	{ "clickhouse", "clickhouse", true, NULL },
	{ "filesystem", "filesystem", false, NULL },
	{ "prometheus", "prometheus", false, NULL },
	{ "otlp", "otlp_grpc", true, "otlp.endpoint" },
	{ "otlphttp", "otlp_http", true, "otlphttp.endpoint" },
	{ "nop", "nop", false, NULL },
};

/* The seeds' agents send to port 4137. */
static bool put_grpc(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	if (!flags_value(flags, "grpc-address")[0])
		return true;
	graph_begin(y, "grpc");
	ok = graph_put_options(y, flags, "receivers/otlp/protocols/grpc", err);
	if (!flags_given(flags_find(flags, STR("grpc-address"))))
		graph_put_list(y, "extra_endpoints", "127.0.0.1:4137");
	yaml_map_end(y);
	return ok;
}

static bool put_http(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	char size[40];
	bool ok;

	if (!flags_value(flags, "http-address")[0])
		return true;
	snprintf(size, sizeof(size), "%sMiB", flags_value(flags, "max-recv-msg-size-mib"));
	graph_begin(y, "http");
	ok = graph_put_options(y, flags, "receivers/otlp/protocols/http", err);
	graph_put(y, "max_request_body_size", size);
	yaml_map_end(y);
	return ok;
}

static bool put_receivers(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, "receivers");
	graph_begin(y, "otlp");
	graph_begin(y, "protocols");
	ok = put_grpc(flags, y, err) && put_http(flags, y, err);
	yaml_map_end(y);
	graph_put(y, "wire_version", flags_value(flags, "wire-version"));
	graph_put(y, "validation", flags_is_true(flags, "strict") ? "strict" : "lenient");
	graph_put(y, "other_signals", "reject_each");
	yaml_map_end(y);
	if (flags_is_true(flags, "with-agent")) {
		graph_begin(y, "profiling");
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static bool put_exporter(const struct flag *flags, const struct sink *s, struct yaml_out *y,
			 struct err *err)
{
	char path[64];
	bool ok;

	if (s->needs && !flags_value(flags, s->needs))
		return err_set(err, ERR_INVALID, "the sink %s needs -%s", s->name, s->needs);
	snprintf(path, sizeof(path), "exporters/%s", s->component);
	graph_begin(y, s->component);
	ok = graph_put_options(y, flags, path, err);
	yaml_map_end(y);
	return ok;
}

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

static bool put_exporters(const struct flag *flags, const bool *chosen, struct yaml_out *y,
			  struct err *err)
{
	bool ok = true;

	graph_begin(y, "exporters");
	for (size_t i = 0; ok && i < ARRAY_LEN(sinks); i++)
		if (chosen[i])
			ok = put_exporter(flags, &sinks[i], y, err);
	yaml_map_end(y);
	return ok;
}

static void put_pipeline(const struct flag *flags, const bool *chosen, struct yaml_out *y)
{
	graph_begin(y, "pipelines");
	graph_begin(y, "profiles");
	graph_put_list(y, "receivers",
		       flags_is_true(flags, "with-agent") ? "otlp,profiling" : "otlp");
	yaml_key(y, STR("exporters"));
	yaml_list_begin(y, true);
	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		if (chosen[i])
			yaml_string(y, str_cstr(sinks[i].component));
	yaml_list_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool wants_spool(const struct flag *flags, const bool *chosen)
{
	for (size_t i = 0; i < ARRAY_LEN(sinks); i++)
		if (chosen[i] && sinks[i].remote)
			return true;
	return flags_value(flags, "spool-dir") != NULL;
}

static bool put_engine(const struct flag *flags, const bool *chosen, struct yaml_out *y,
		       struct err *err)
{
	bool ok = true;

	graph_begin(y, "flametap");
	graph_put_number(y, "max_inflight_mib", flags_value(flags, "max-inflight-mib"));
	graph_put_bool(y, "durable", true);
	graph_put_bool(y, "strict", flags_is_true(flags, "strict"));
	if (wants_spool(flags, chosen))
		ok = graph_put_spool(y, flags, err);
	yaml_map_end(y);
	return ok;
}

static bool put_service(const struct flag *flags, const bool *chosen, struct yaml_out *y,
			struct err *err)
{
	bool ok;

	graph_begin(y, "service");
	put_pipeline(flags, chosen, y);
	ok = graph_put_telemetry(y, flags, err) && put_engine(flags, chosen, y, err);
	yaml_map_end(y);
	return ok;
}

bool backend_graph_yaml(const struct flag *flags, struct buf *out, struct err *err)
{
	bool chosen[ARRAY_LEN(sinks)] = { false };
	struct yaml_out *y;
	bool ok;

	if (!choose_sinks(flags_value(flags, "receiver"), chosen, err))
		return false;
	y = yaml_out_new(out);
	yaml_map_begin(y);
	ok = put_receivers(flags, y, err) && put_exporters(flags, chosen, y, err) &&
	     put_service(flags, chosen, y, err);
	yaml_map_end(y);
	yaml_out_free(y);
	return ok;
}
