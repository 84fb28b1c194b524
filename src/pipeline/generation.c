#include "pipeline/generation.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "pipeline/instance.h"

/* Instances in the order of their start: extensions, exporters, processors, receivers. */
struct generation {
	struct config *config;
	const struct graph_env *env;
	struct arena arena; /* option strings of the states */
	struct budget spool_budget;
	struct instance **instances;
	struct fanout *
		*fanouts; /* behind pipelines of several exporters, by pipeline; may be NULL */
	uint32_t count, cap, fanout_count;
	bool running;
};

struct builder {
	struct generation *g;
	struct problems *problems;
};

static void *find_extension(const struct component_host *host, const struct component_ops *ops,
			    const char *id)
{
	const struct generation *g = host->graph;

	for (uint32_t i = 0; i < g->count; i++) {
		const struct instance *one = g->instances[i];

		if (one->ops == ops && one->started && strcmp(one->component->id, id) == 0)
			return one->state;
	}
	return NULL;
}

static struct instance *add(struct builder *b, const struct config_component *component)
{
	struct generation *g = b->g;
	void *state = config_component_state(component, &g->arena, b->problems);
	struct instance *i;

	if (!state)
		return NULL;
	options_check_hidden(component->ops->fields, state, component->node, component->path,
			     b->problems);
	VEC_ROOM(g->instances, g->count, g->cap);
	i = instance_new(component, state, g->env);
	instance_metrics(i);
	i->host.spool_dir = g->config->engine.spool.directory;
	i->host.spool_max_bytes = g->config->engine.spool.max_bytes;
	i->host.durable = g->config->engine.durable;
	i->host.strict = g->config->engine.strict;
	i->host.profiles_pipeline = true;
	i->host.extension = find_extension;
	i->host.graph = g;
	g->instances[g->count++] = i;
	return i;
}

static struct instance *find(const struct generation *g, const struct config_component *component)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->instances[i]->component == component)
			return g->instances[i];
	return NULL;
}

/* "otlp/eu west" -> "exporter_otlp~2feu~20west": one file name for each id. */
static const char *spool_name(struct generation *g, const char *id)
{
	const char *name;
	struct buf b;

	buf_init(&b, 0);
	buf_lit(&b, "exporter_");
	for (; *id; id++) {
		unsigned char c = (unsigned char)*id;

		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    c == '_' || c == '-' || c == '.')
			buf_char(&b, (char)c);
		else
			buf_printf(&b, "~%02x", c);
	}
	name = str_dup_cstr(&g->arena, buf_view(&b));
	buf_release(&b);
	return name;
}

/* Where the exporter's queue is kept on disk: the storage it names, else the graph's spools; NULL =
 * nowhere. */
static const char *storage_directory(struct builder *b, const struct instance *exporter,
				     const struct sending_options *sending)
{
	const struct config_component *c = exporter->component;
	const struct config_component *extension;
	const struct instance *i;

	if (!sending->queue.storage || !*sending->queue.storage)
		return b->g->config->engine.durable ? b->g->config->engine.spool.directory : NULL;
	extension =
		config_component_find(b->g->config, COMPONENT_EXTENSION, sending->queue.storage);
	i = extension ? find(b->g, extension) : NULL;
	if (!i)
		problem_error(b->problems, &c->pos,
			      "%s::sending_queue: storage \"%s\" is not an extension listed in "
			      "service::extensions",
			      c->path, sending->queue.storage);
	else if (!i->ops->storage_directory)
		problem_error(b->problems, &c->pos,
			      "%s::sending_queue: extension \"%s\" is not a storage extension: "
			      "non-storage "
			      "extension found",
			      c->path, sending->queue.storage);
	else
		return i->ops->storage_directory(i->state);
	return NULL;
}

/* What tells the exporter's peer from another one; 0: no field of it says. */
static uint64_t destination_of(const struct instance *i)
{
	static const char *const names[] = { "endpoint", "profiles_endpoint", "database" };
	uint64_t parts[ARRAY_LEN(names)] = { 0 };
	bool said = false;

	for (const struct config_field *f = i->ops->fields; f && f->name; f++)
		for (size_t n = 0; n < ARRAY_LEN(names); n++) {
			const char *text;

			if (f->kind != CONFIG_STRING || strcmp(f->name, names[n]) != 0)
				continue;
			memcpy(&text, (const char *)i->state + f->offset, sizeof(text));
			parts[n] = text ? hash64(str_cstr(text)) : 0;
			said = said || text;
		}
	return said ? hash64(str_from(parts, sizeof(parts))) : 0;
}

static void add_sender(struct builder *b, struct instance *i)
{
	struct generation *g = b->g;
	const struct sending_options *sending =
		(const void *)((const char *)i->state + i->ops->sending_offset);
	struct sender_options o = {
		.id = i->component->id,
		.ops = i->ops,
		.state = i->state,
		.sending = sending,
		.destination = destination_of(i),
		.spool_fsync = g->config->engine.spool.fsync,
		.spool_fsync_interval_ns = g->config->engine.spool.fsync_interval_ns,
		.dedup_window_ns = g->config->engine.dedup_window_ns,
		.spool_budget = &g->spool_budget,
		.budget = g->env->budget,
		.metrics = g->env->metrics,
	};
	const char *directory = storage_directory(b, i, sending);

	if (sending->queue.enabled && directory) {
		o.mode = SENDER_SPOOL;
		o.spool_path =
			str_printf(&g->arena, "%s/%s", directory, spool_name(g, i->component->id))
				.ptr;
	} else if (sending->queue.enabled && !g->config->engine.durable) {
		o.mode = SENDER_MEMORY;
		o.retry = true;
	} else {
		o.mode = SENDER_DIRECT;
		o.retry = !g->config->engine.durable;
	}
	i->sender = sender_new(&o);
	i->memory = o.mode == SENDER_MEMORY && !sending->queue.wait_for_result;
}

static void build_extensions(struct builder *b)
{
	for (uint32_t i = 0; i < b->g->config->extension_count; i++)
		add(b, b->g->config->extensions[i]);
}

static void build_exporters(struct builder *b)
{
	const struct config *c = b->g->config;

	for (uint32_t p = 0; p < c->pipeline_count; p++) {
		for (uint32_t e = 0; e < c->pipelines[p].exporter_count; e++) {
			const struct config_component *component = c->pipelines[p].exporters[e];
			struct instance *i = find(b->g, component) ? NULL : add(b, component);

			if (i && i->ops->remote)
				add_sender(b, i);
		}
	}
}

/* The end of a pipeline: its exporter, or a fan-out to all of them. */
static struct consumer *pipeline_sink(struct builder *b, uint32_t p)
{
	const struct config_pipeline *pipeline = &b->g->config->pipelines[p];
	struct consumer *branches[FANOUT_BRANCHES_MOST];
	struct fanout_options o = { .branches = branches };

	if (pipeline->exporter_count > FANOUT_BRANCHES_MOST) {
		problem_error(b->problems, &pipeline->pos,
			      "service::pipelines::%s: %u exporters, at most %d are possible",
			      pipeline->id, pipeline->exporter_count, FANOUT_BRANCHES_MOST);
		return NULL;
	}
	for (uint32_t e = 0; e < pipeline->exporter_count; e++) {
		struct instance *i = find(b->g, pipeline->exporters[e]);

		if (!i)
			return NULL;
		branches[o.count++] = instance_consumer(i);
	}
	if (o.count == 1)
		return branches[0];
	o.name = str_printf(&b->g->arena, "pipelines::%s", pipeline->id).ptr;
	o.dedup_window_ns = b->g->config->engine.dedup_window_ns;
	o.metrics = b->g->env->metrics;
	b->g->fanouts[p] = fanout_new(&o);
	return fanout_consumer(b->g->fanouts[p]);
}

/* Processors from the last to the first: each needs its next. Gives the pipeline's entrance. */
static struct consumer *build_pipeline(struct builder *b, uint32_t p)
{
	const struct config_pipeline *pipeline = &b->g->config->pipelines[p];
	struct consumer *entrance = pipeline_sink(b, p);

	for (uint32_t k = pipeline->processor_count; k-- > 0;) {
		struct instance *i = add(b, pipeline->processors[k]);

		if (!i || !entrance)
			return NULL;
		i->next = entrance;
		i->host.next = &i->out;
		i->host.pipeline_id = pipeline->id;
		entrance = &i->in;
	}
	return entrance;
}

static bool pipeline_has(const struct config_pipeline *p, const struct config_component *receiver)
{
	for (uint32_t i = 0; i < p->receiver_count; i++)
		if (p->receivers[i] == receiver)
			return true;
	return false;
}

static void build_receiver(struct builder *b, const struct config_component *component,
			   struct consumer *const *entrances)
{
	const struct config *c = b->g->config;
	struct consumer *branches[FANOUT_BRANCHES_MOST];
	struct fanout_options o = { .branches = branches };
	struct instance *i;

	for (uint32_t p = 0; p < c->pipeline_count; p++)
		if (pipeline_has(&c->pipelines[p], component) && o.count < FANOUT_BRANCHES_MOST)
			branches[o.count++] = entrances[p];
	i = add(b, component);
	if (!i)
		return;
	i->host.next = branches[0];
	if (o.count == 1)
		return;
	o.name = component->path;
	o.dedup_window_ns = c->engine.dedup_window_ns;
	o.metrics = b->g->env->metrics;
	i->fanout = fanout_new(&o);
	i->host.next = fanout_consumer(i->fanout);
}

static void build_receivers(struct builder *b, struct consumer *const *entrances)
{
	const struct config *c = b->g->config;

	for (uint32_t k = 0; k < c->component_count; k++)
		if (c->components[k].kind == COMPONENT_RECEIVER && c->components[k].used)
			build_receiver(b, &c->components[k], entrances);
}

static bool build(struct builder *b)
{
	const struct config *c = b->g->config;
	uint32_t errors = b->problems->error_count;
	struct consumer **entrances = calloc(c->pipeline_count, sizeof(struct consumer *));

	b->g->fanout_count = c->pipeline_count;
	b->g->fanouts = calloc(c->pipeline_count, sizeof(struct fanout *));
	assert(entrances && b->g->fanouts);
	if (c->pipeline_count > FANOUT_BRANCHES_MOST)
		problem_error(b->problems, &c->pipelines[0].pos,
			      "service::pipelines: %u pipelines, at most %d are possible",
			      c->pipeline_count, FANOUT_BRANCHES_MOST);
	build_extensions(b);
	build_exporters(b);
	for (uint32_t p = 0; p < c->pipeline_count && b->problems->error_count == errors; p++)
		entrances[p] = build_pipeline(b, p);
	if (b->problems->error_count == errors)
		build_receivers(b, entrances);
	free(entrances);
	return b->problems->error_count == errors;
}

struct generation *generation_new(struct config *config, const struct graph_env *env,
				  struct problems *problems)
{
	struct generation *g = calloc(1, sizeof(*g));
	struct builder b = { g, problems };

	assert(g);
	g->config = config;
	g->env = env;
	arena_init(&g->arena, 16384, 0);
	budget_init(&g->spool_budget, config->engine.spool.max_bytes);
	if (build(&b))
		return g;
	generation_free(g);
	return NULL;
}

/* Why a pipeline answers before all has been kept; NULL: it does not. */
static const struct instance *memory_part(const struct generation *g,
					  const struct config_pipeline *p)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct instance *in = g->instances[i];
		bool mine = in->host.pipeline_id == p->id;

		for (uint32_t e = 0; e < p->exporter_count; e++)
			mine = mine || in->component == p->exporters[e];
		if (mine && (in->ops->memory || in->memory))
			return in;
	}
	return NULL;
}

static void log_pipelines(const struct generation *g)
{
	for (uint32_t p = 0; p < g->config->pipeline_count; p++) {
		const struct config_pipeline *pipeline = &g->config->pipelines[p];
		const struct instance *memory = memory_part(g, pipeline);

		if (memory)
			LOG(LOG_INFO, "Pipeline acknowledges what it has in memory",
			    LOG_S("pipeline", pipeline->id), LOG_S("mode", "memory"),
			    LOG_S("because_of", memory->component->id));
		else
			LOG(LOG_INFO, "Pipeline acknowledges what every exporter has kept",
			    LOG_S("pipeline", pipeline->id), LOG_S("mode", "durable"));
	}
}

static void set_ready(struct generation *g, bool ready)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->instances[i]->ops->ready && g->instances[i]->started)
			g->instances[i]->ops->ready(g->instances[i]->state, ready);
}

static void stop_kind(struct generation *g, enum component_kind kind, bool forward,
		      uint64_t deadline_ns)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct instance *in = g->instances[forward ? i : g->count - 1 - i];

		if (in->ops->kind == kind)
			instance_stop(in, deadline_ns);
	}
}

static void announce_stop(struct generation *g, uint64_t deadline_ns)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (g->instances[i]->ops->stopping && g->instances[i]->started)
			g->instances[i]->ops->stopping(g->instances[i]->state, deadline_ns);
}

static void stop_all(struct generation *g, uint64_t deadline_ns)
{
	announce_stop(g, deadline_ns);
	stop_kind(g, COMPONENT_RECEIVER, true, deadline_ns);
	stop_kind(g, COMPONENT_PROCESSOR, false,
		  deadline_ns); /* built from the last to the first */
	stop_kind(g, COMPONENT_EXPORTER, true, deadline_ns);
	stop_kind(g, COMPONENT_EXTENSION, false, deadline_ns);
}

bool generation_start(struct generation *g, struct err *err)
{
	log_pipelines(g);
	for (uint32_t i = 0; i < g->count; i++) {
		struct instance *in = g->instances[i];

		if (instance_start(in, err))
			continue;
		/* The error names the component; who asked for the start says it, once. */
		stop_all(g, clock_monotonic_ns() + g->config->engine.shutdown_timeout_ns);
		return false;
	}
	g->running = true;
	set_ready(g, true);
	LOG(LOG_INFO, "Everything is ready. Begin running and processing data.");
	return true;
}

void generation_stop(struct generation *g, uint64_t deadline_ns)
{
	if (!g->running)
		return;
	g->running = false;
	LOG(LOG_INFO, "Starting shutdown...");
	set_ready(g, false);
	stop_all(g, deadline_ns);
	LOG(LOG_INFO, "Shutdown complete.");
}

bool generation_reload(struct generation *g, struct err *err)
{
	bool ok = true;

	for (uint32_t i = 0; i < g->count; i++) {
		struct instance *in = g->instances[i];
		struct err one;

		if (!in->ops->reload || in->ops->reload(in->state, &one))
			continue;
		LOG(LOG_WARN, "Component keeps what it had: reload failed",
		    LOG_S("kind", component_kind_name(in->ops->kind)),
		    LOG_S("id", in->component->id), LOG_S("error", one.msg));
		if (ok)
			*err = one;
		ok = false;
	}
	return ok;
}

bool generation_running(const struct generation *g)
{
	return g->running;
}

const struct config *generation_config(const struct generation *g)
{
	return g->config;
}

struct config *generation_take_config(struct generation *g)
{
	struct config *config = g->config;

	g->config = NULL;
	return config;
}

void generation_free(struct generation *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->count; i++)
		instance_free(g->instances[i]);
	for (uint32_t p = 0; g->fanouts && p < g->fanout_count; p++)
		fanout_free(g->fanouts[p]);
	free(g->fanouts);
	free(g->instances);
	config_free(g->config);
	arena_release(&g->arena);
	free(g);
}
