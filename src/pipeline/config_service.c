#include "pipeline/config_service.h"

#include <assert.h>

#include "base/clock.h"
#include "base/text.h"

enum { METRICS_PORT_USUAL = 8888 };

#define OFF(type, member) .offset = offsetof(type, member)

static const char *const log_levels[] = { "debug", "info", "warn", "error", NULL };
static const char *const log_encodings[] = { "console", "json", NULL };
static const char *const metric_levels[] = { "none", "basic", "normal", "detailed", NULL };
static const char *const fsync_choices[] = { "always", "interval", "never", NULL };

/* clang-format off */
static const struct config_field logs_fields[] = {
	{ .name = "level", .kind = CONFIG_ENUM, OFF(struct telemetry_logs, level), .default_text = "info",
	  .choices = log_levels, .help = "least severe lines to log" },
	{ .name = "encoding", .kind = CONFIG_ENUM, OFF(struct telemetry_logs, encoding), .default_text = "console",
	  .choices = log_encodings, .help = "text lines or JSON lines" },
	{ .name = "development", .kind = CONFIG_BOOL, OFF(struct telemetry_logs, development),
	  .help = "accepted, without effect" },
	{ .name = "disable_caller", .kind = CONFIG_BOOL, OFF(struct telemetry_logs, disable_caller),
	  .help = "accepted, without effect" },
	{ .name = "disable_stacktrace", .kind = CONFIG_BOOL, OFF(struct telemetry_logs, disable_stacktrace),
	  .help = "accepted, without effect" },
	{ .name = "output_paths", .kind = CONFIG_STRINGS, OFF(struct telemetry_logs, output_paths),
	  .help = "accepted; the log goes to stderr" },
	{ .name = "error_output_paths", .kind = CONFIG_STRINGS, OFF(struct telemetry_logs, error_output_paths),
	  .help = "accepted; the log goes to stderr" },
	{ .name = "initial_fields", .kind = CONFIG_ANY, OFF(struct telemetry_logs, initial_fields),
	  .help = "accepted, without effect" },
	{ .name = "sampling", .kind = CONFIG_ANY, OFF(struct telemetry_logs, sampling),
	  .help = "accepted; lines that repeat are limited where they come from" },
	{ .name = "processors", .kind = CONFIG_ANY, OFF(struct telemetry_logs, processors),
	  .help = "accepted, without effect" },
	{ 0 },
};

static const struct config_field metrics_fields[] = {
	{ .name = "level", .kind = CONFIG_ENUM, OFF(struct telemetry_metrics, level), .default_text = "normal",
	  .choices = metric_levels, .help = "none switches the metrics endpoint off" },
	{ .name = "readers", .kind = CONFIG_ANY, OFF(struct telemetry_metrics, readers),
	  .help = "one pull reader with a prometheus exporter; default localhost:8888" },
	{ .name = "views", .kind = CONFIG_ANY, OFF(struct telemetry_metrics, views), .help = "accepted, without effect" },
	{ 0 },
};

const struct config_field telemetry_fields[] = {
	{ .name = "logs", .kind = CONFIG_SECTION, OFF(struct telemetry_options, logs), .fields = logs_fields,
	  .help = "own log" },
	{ .name = "metrics", .kind = CONFIG_SECTION, OFF(struct telemetry_options, metrics), .fields = metrics_fields,
	  .help = "own metrics" },
	{ .name = "traces", .kind = CONFIG_ANY, OFF(struct telemetry_options, traces), .help = "accepted, without effect" },
	{ .name = "resource", .kind = CONFIG_ANY, OFF(struct telemetry_options, resource),
	  .help = "accepted, without effect" },
	{ 0 },
};

static const struct config_field spool_fields[] = {
	{ .name = "directory", .kind = CONFIG_STRING, OFF(struct spool_settings, directory),
	  .help = "where durable queues keep what waits; none: no spools" },
	{ .name = "max_mib", .kind = CONFIG_SIZE_MIB, OFF(struct spool_settings, max_bytes), .default_text = "512",
	  .min = 1, .max = 1 << 30, .help = "most that all spools together may hold" },
	{ .name = "fsync", .kind = CONFIG_ENUM, OFF(struct spool_settings, fsync), .default_text = "always",
	  .choices = fsync_choices, .help = "before success is answered, at intervals, or never" },
	{ .name = "fsync_interval", .kind = CONFIG_DURATION, OFF(struct spool_settings, fsync_interval_ns),
	  .default_text = "1s", .min = 1e6, .max = 3600e9, .help = "with fsync: interval" },
	{ 0 },
};

const struct config_field engine_fields[] = {
	{ .name = "max_inflight_mib", .kind = CONFIG_SIZE_MIB, OFF(struct engine_options, max_inflight_bytes),
	  .default_text = "256", .min = 1, .max = 1 << 30, .help = "most memory of all that is under way" },
	{ .name = "durable", .kind = CONFIG_BOOL, OFF(struct engine_options, durable), .default_text = "false",
	  .help = "success is answered once every sink has kept the request" },
	{ .name = "strict", .kind = CONFIG_BOOL, OFF(struct engine_options, strict), .default_text = "true",
	  .help = "refuse profiles with bad indices, else keep them and say so" },
	{ .name = "dedup_window", .kind = CONFIG_DURATION, OFF(struct engine_options, dedup_window_ns),
	  .default_text = "10m", .help = "how long a repeated request is known again" },
	{ .name = "shutdown_timeout", .kind = CONFIG_DURATION, OFF(struct engine_options, shutdown_timeout_ns),
	  .default_text = "10s", .help = "how long a stop waits for what is under way" },
	{ .name = "worker_user", .kind = CONFIG_STRING, OFF(struct engine_options, worker_user),
	  .help = "with the receiver profiling: user of all but the sampler" },
	{ .name = "spool", .kind = CONFIG_SECTION, OFF(struct engine_options, spool), .fields = spool_fields,
	  .help = "durable queues in front of remote exporters" },
	{ 0 },
};

struct service_options {
	const struct config_node *extensions, *pipelines;
	struct telemetry_options telemetry;
	struct engine_options engine;
};

static const struct config_field service_fields[] = {
	{ .name = "extensions", .kind = CONFIG_ANY, OFF(struct service_options, extensions) },
	{ .name = "pipelines", .kind = CONFIG_ANY, OFF(struct service_options, pipelines) },
	{ .name = "telemetry", .kind = CONFIG_SECTION, OFF(struct service_options, telemetry), .fields = telemetry_fields },
	{ .name = "flametap", .kind = CONFIG_SECTION, OFF(struct service_options, engine), .fields = engine_fields },
	{ 0 },
};

struct prometheus_reader {
	const char *host;
	uint32_t port;
	bool without_scope_info, without_type_suffix, without_units;
	const struct config_node *with_resource_constant_labels;
	int translation_strategy;
};

static const char *const translation_choices[] = {
	"UnderscoreEscapingWithSuffixes", "UnderscoreEscapingWithoutSuffixes", "NoUTF8EscapingWithSuffixes",
	"NoTranslation", NULL,
};

static const struct config_field prometheus_fields[] = {
	{ .name = "host", .kind = CONFIG_STRING, OFF(struct prometheus_reader, host), .default_text = "localhost" },
	{ .name = "port", .kind = CONFIG_UINT32, OFF(struct prometheus_reader, port), .default_text = "8888",
	  .min = 0, .max = 65535 },
	{ .name = "without_scope_info", .kind = CONFIG_BOOL, OFF(struct prometheus_reader, without_scope_info) },
	{ .name = "without_type_suffix", .kind = CONFIG_BOOL, OFF(struct prometheus_reader, without_type_suffix) },
	{ .name = "without_units", .kind = CONFIG_BOOL, OFF(struct prometheus_reader, without_units) },
	{ .name = "with_resource_constant_labels", .kind = CONFIG_ANY,
	  OFF(struct prometheus_reader, with_resource_constant_labels) },
	{ .name = "translation_strategy", .kind = CONFIG_ENUM, OFF(struct prometheus_reader, translation_strategy),
	  .choices = translation_choices, .default_text = "UnderscoreEscapingWithoutSuffixes" },
	{ 0 },
};
/* clang-format on */

static void read_reader(struct config *c, const struct config_node *reader,
			struct problems *problems)
{
	const struct config_node *pull = node_get(reader, "pull");
	const struct config_node *prometheus = node_get(node_get(pull, "exporter"), "prometheus");
	struct telemetry_metrics *m = &c->telemetry.metrics;
	struct prometheus_reader p = { 0 };

	if (!prometheus) {
		problem_warn(problems, &reader->pos,
			     "service::telemetry::metrics::readers: only a pull reader with a "
			     "prometheus exporter is served here; this one is left out");
		return;
	}
	if (m->host) {
		problem_warn(problems, &reader->pos,
			     "service::telemetry::metrics::readers: a second prometheus reader is "
			     "left out");
		return;
	}
	options_fill(prometheus_fields, &p, prometheus,
		     "service::telemetry::metrics::readers::pull::exporter::prometheus", &c->arena,
		     problems);
	m->host = p.host;
	m->port = p.port;
}

static void read_readers(struct config *c, struct problems *problems)
{
	struct telemetry_metrics *m = &c->telemetry.metrics;
	const struct config_node *readers = m->readers;

	if (m->level == TELEMETRY_NONE)
		return;
	if (!readers) {
		m->host = "localhost";
		m->port = METRICS_PORT_USUAL;
		return;
	}
	if (readers->kind != NODE_LIST || readers->count == 0) {
		problem_error(
			problems, &readers->pos,
			"service::telemetry::metrics::readers: must be a list with a reader; "
			"collector telemetry metrics reader should exist when metric level is "
			"not none");
		return;
	}
	for (uint32_t i = 0; i < readers->count; i++)
		read_reader(c, readers->items[i], problems);
}

struct reference {
	const char *where; /* "service::pipelines::profiles" */
	enum component_kind kind;
	bool once; /* a second mention is an error, else a warning */
};

static void report_reference(const struct config *c, const struct reference *ref,
			     const struct config_node *item, struct problems *problems)
{
	const char *names[256], *near;
	size_t count = 0;

	for (uint32_t i = 0; i < c->component_count && count < 256; i++)
		if (c->components[i].kind == ref->kind)
			names[count++] = c->components[i].id;
	near = text_suggest(item->text, names, count);
	problem_error(problems, &item->pos,
		      "%s: references %s \"%.*s\" which is not configured%s%s%s", ref->where,
		      component_kind_name(ref->kind), STR_ARG(item->text),
		      near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

static bool named(const struct config *c, enum component_kind kind, struct str id)
{
	return node_entry(node_get(c->root, config_section_name(kind)), id) != NULL;
}

static const struct config_component *resolve(struct config *c, const struct reference *ref,
					      const struct config_node *item,
					      struct problems *problems)
{
	for (uint32_t i = 0; i < c->component_count; i++) {
		struct config_component *component = &c->components[i];

		if (component->kind != ref->kind || !str_is(item->text, component->id))
			continue;
		component->used = true;
		return component;
	}
	if (!named(c, ref->kind, item->text)) /* else what is wrong with it is told there */
		report_reference(c, ref, item, problems);
	return NULL;
}

static bool listed(const struct config_component *const *list, uint32_t count,
		   const struct config_component *component)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == component)
			return true;
	return false;
}

static const struct config_component **read_references(struct config *c,
						       const struct reference *ref,
						       const struct config_node *n, uint32_t *count,
						       struct problems *problems)
{
	const struct config_component **list;

	*count = 0;
	if (!n || n->kind == NODE_NULL)
		return NULL;
	if (n->kind != NODE_LIST) {
		problem_error(problems, &n->pos, "%s: %ss must be a list, got %s", ref->where,
			      component_kind_name(ref->kind), node_kind_name(n));
		return NULL;
	}
	list = arena_alloc_array(&c->arena, n->count, sizeof(*list));
	assert(list);
	for (uint32_t i = 0; i < n->count; i++) {
		const struct config_component *component = resolve(c, ref, n->items[i], problems);

		if (!component)
			continue;
		if (!listed(list, *count, component))
			list[(*count)++] = component;
		else if (ref->once)
			problem_error(problems, &n->items[i]->pos,
				      "%s: references %s \"%s\" multiple times", ref->where,
				      component_kind_name(ref->kind), component->id);
		else
			problem_warn(problems, &n->items[i]->pos,
				     "%s: references %s \"%s\" multiple times; once is meant",
				     ref->where, component_kind_name(ref->kind), component->id);
	}
	return list;
}

struct pipeline_nodes {
	const struct config_node *receivers, *processors, *exporters;
};

static const struct config_field pipeline_fields[] = {
	{ .name = "receivers", .kind = CONFIG_ANY, OFF(struct pipeline_nodes, receivers) },
	{ .name = "processors", .kind = CONFIG_ANY, OFF(struct pipeline_nodes, processors) },
	{ .name = "exporters", .kind = CONFIG_ANY, OFF(struct pipeline_nodes, exporters) },
	{ 0 },
};

static void pipeline_need(const struct config_pipeline *p, const char *where,
			  const struct config_node *n, const char *what, struct problems *problems)
{
	bool none = !n || n->kind == NODE_NULL || (n->kind == NODE_LIST && n->count == 0);

	if (none)
		problem_error(problems, &p->pos, "%s: must have at least one %s", where, what);
}

static void read_pipeline(struct config *c, struct config_pipeline *p, const struct config_entry *e,
			  struct problems *problems)
{
	const char *where = str_printf(&c->arena, "service::pipelines::%.*s", STR_ARG(e->key)).ptr;
	struct reference ref = { .where = where };
	struct pipeline_nodes nodes = { 0 };

	p->id = str_dup_cstr(&c->arena, e->key);
	p->pos = e->pos;
	options_fill(pipeline_fields, &nodes, e->value, where, &c->arena, problems);
	pipeline_need(p, where, nodes.receivers, "receiver", problems);
	pipeline_need(p, where, nodes.exporters, "exporter", problems);
	ref.kind = COMPONENT_RECEIVER;
	p->receivers = read_references(c, &ref, nodes.receivers, &p->receiver_count, problems);
	ref.kind = COMPONENT_EXPORTER;
	p->exporters = read_references(c, &ref, nodes.exporters, &p->exporter_count, problems);
	ref.kind = COMPONENT_PROCESSOR;
	ref.once = true;
	p->processors = read_references(c, &ref, nodes.processors, &p->processor_count, problems);
}

static bool signal_check(const struct config_entry *e, struct problems *problems)
{
	static const char *const signals[] = { "profiles", "traces", "metrics", "logs" };
	struct str signal = config_id_type(e->key);
	const char *near;

	if (!config_id_check(e->key, &e->pos, "service::pipelines", problems))
		return false;
	if (str_is(signal, "profiles"))
		return true;
	for (size_t i = 1; i < 4; i++) {
		if (!str_is(signal, signals[i]))
			continue;
		problem_error(problems, &e->pos,
			      "service::pipelines::%.*s: this program moves profiles; it has no "
			      "component for the signal \"%s\": telemetry type is not supported",
			      STR_ARG(e->key), signals[i]);
		return false;
	}
	near = text_suggest(signal, signals, 4);
	problem_error(
		problems, &e->pos,
		"service::pipelines::%.*s: there is no such signal%s%s%s; 'service.pipelines' "
		"in \"%.*s\" id: unknown pipeline signal: \"%.*s\"",
		STR_ARG(e->key), near ? " (did you mean \"" : "", near ? near : "",
		near ? "\"?)" : "", STR_ARG(e->key), STR_ARG(signal));
	return false;
}

static void read_pipelines(struct config *c, const struct config_node *n, struct problems *problems)
{
	if (!n || n->kind != NODE_MAP || n->count == 0) {
		problem_error(problems, n ? &n->pos : NULL,
			      "service::pipelines: service must have at least one pipeline");
		return;
	}
	c->pipelines = arena_zalloc(&c->arena, n->count * sizeof(*c->pipelines));
	assert(c->pipelines);
	for (uint32_t i = 0; i < n->count; i++)
		if (signal_check(&n->entries[i], problems))
			read_pipeline(c, &c->pipelines[c->pipeline_count++], &n->entries[i],
				      problems);
}

static void check_kinds(const struct config *c, struct problems *problems)
{
	static const char *const needed[] = { "receivers", "exporters" };
	static const char *const words[] = { "receiver", "exporter" };

	for (size_t k = 0; k < 2; k++) {
		const struct config_node *n = node_get(c->root, needed[k]);

		if (!n || n->kind == NODE_NULL || n->count == 0)
			problem_error(problems, NULL, "no %s configuration specified in config",
				      words[k]);
	}
}

void config_read_service(struct config *c, const struct config_node *service,
			 struct problems *problems)
{
	struct reference extensions = { .where = "service", .kind = COMPONENT_EXTENSION };
	struct service_options options = { 0 };

	options_fill(service_fields, &options, service, "service", &c->arena, problems);
	c->telemetry = options.telemetry;
	c->engine = options.engine;
	extensions.where = "service::extensions";
	c->extensions =
		read_references(c, &extensions, options.extensions, &c->extension_count, problems);
	check_kinds(c, problems);
	read_pipelines(c, options.pipelines, problems);
	read_readers(c, problems);
}
