/*
 * prometheus.c - the exporter that counts what it receives and serves the counters on /metrics of
 * an address of its own:
 *
 *   lazybackend_received_profiles_total{container_id}
 *   lazybackend_received_samples_total{container_id,process_executable_name}
 *   lazybackend_received_locations_total{container_id,process_executable_name,language}
 *
 * Names and labels are the lazy backend's of 2026: a label without a value is "unknown", language
 * is the frame type, a location counts once for each of its lines and once without any. Two things
 * differ, where it counted what its names do not say: profiles are profiles, not scopes; and
 * container and process are looked for on the sample, where profilers put them up to OTLP 1.4 and
 * 1.9, then on its resource. A profile counts once: for the container that all its samples share,
 * else for its resource's. Past `max_series` a metric's further label sets are counted together,
 * with "other" in every label; past 31 frame types of one request the further ones are "other".
 */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "components/exporters/exporters.h"
#include "components/exporters/frame_counts.h"
#include "model/intern.h"
#include "net/server.h"

enum {
	LABEL_MOST_BYTES = 256, /* longer values are cut: they are not names any more */
	GROUPS_AT_ONCE = 1024,
	UNKNOWN = 0, /* the label */
};

#define CONTAINER_KEY STR("container.id")
#define PROCESS_KEY   STR("process.executable.name")

struct prometheus {
	const char *endpoint;
	uint32_t max_series;

	struct metrics *metrics; /* not the program's own: what is served here */
	struct metric_family *profiles, *samples, *locations;
	struct net_app *app;
	struct net_listener *listener;
};

static const struct config_field prometheus_fields[] = {
	EXPORTER_FIELD("endpoint", CONFIG_STRING, offsetof(struct prometheus, endpoint),
		       "127.0.0.1:2112", "address to serve /metrics on", .aliases = { "metrics" }),
	EXPORTER_FIELD("max_series", CONFIG_UINT32, offsetof(struct prometheus, max_series), "1000",
		       "label sets of each metric; what comes after is counted as \"other\"",
		       .min = 1, .max = 1000000),
	{ 0 },
};

/* ---- counting ---- */

/* Samples of one container and process, and their frames by type. */
struct group {
	uint32_t container, process; /* of tally.labels */
	int64_t samples;
	int64_t frames[FRAME_TYPES_MOST];
};

enum attribute_role { ROLE_NOT_LOOKED_AT, ROLE_NONE, ROLE_CONTAINER, ROLE_PROCESS };

/* What an attribute is to us, looked up once a request: its text may be as long as the body, and
 * any number of samples may name it. */
struct attribute_seen {
	uint8_t role;
	uint32_t label;
};

/* One request. What it counts is added to the counters every GROUPS_AT_ONCE groups, and at its
 * end. */
struct tally {
	struct prometheus *prometheus;
	const struct profiles *profiles;
	struct frame_counts frames;
	struct arena arena;
	struct attribute_seen *attributes;
	struct str *labels; /* their texts, each once; 0 is "unknown" */
	uint32_t label_count, label_cap;
	struct intern_table label_table, group_table;
	struct group *groups;
	uint32_t group_count, newest;
};

static bool same_label(const void *ctx, uint32_t index, const void *key)
{
	const struct tally *t = ctx;

	return str_equal(t->labels[index], *(const struct str *)key);
}

static uint32_t label_of_text(struct tally *t, struct str text)
{
	uint32_t found;

	text = str_head(text, LABEL_MOST_BYTES);
	found = intern_find_or_add(&t->label_table, hash64(text), same_label, t, &text,
				   t->label_count);
	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(t->labels, t->label_count, t->label_cap);
	t->labels[t->label_count] = str_dup(&t->arena, text);
	return t->label_count++;
}

/* UNKNOWN without a value. */
static uint32_t label_of(struct tally *t, const struct any_value *v)
{
	uint32_t label = UNKNOWN;
	struct buf text;

	if (!v)
		return UNKNOWN;
	buf_init(&text, 0);
	any_value_append_text(&text, v);
	if (text.len)
		label = label_of_text(t, buf_view(&text));
	buf_release(&text);
	return label;
}

static const struct attribute_seen *look_at(struct tally *t, uint32_t index)
{
	const struct attribute *a = &t->profiles->dict.attributes[index];
	struct attribute_seen *seen = &t->attributes[index];
	struct str key = profiles_string(t->profiles, a->key);

	if (seen->role != ROLE_NOT_LOOKED_AT)
		return seen;
	seen->role = str_equal(key, CONTAINER_KEY) ? ROLE_CONTAINER
		     : str_equal(key, PROCESS_KEY) ? ROLE_PROCESS
						   : ROLE_NONE;
	if (seen->role != ROLE_NONE)
		seen->label = label_of(t, &a->value);
	return seen;
}

static bool same_group(const void *ctx, uint32_t index, const void *key)
{
	const struct group *a = &((const struct tally *)ctx)->groups[index], *b = key;

	return a->container == b->container && a->process == b->process;
}

static void add_frames(struct tally *t, const struct group *g)
{
	struct str labels[] = { t->labels[g->container], t->labels[g->process], STR("") };

	metric_add(metric_get(t->prometheus->samples, labels), g->samples);
	for (uint32_t i = 0; i < t->frames.type_count; i++) {
		labels[2] = frame_counts_type(&t->frames, i);
		if (g->frames[i])
			metric_add(metric_get(t->prometheus->locations, labels), g->frames[i]);
	}
}

static void tally_flush(struct tally *t)
{
	for (uint32_t i = 0; i < t->group_count; i++)
		add_frames(t, &t->groups[i]);
	t->group_count = 0;
	intern_release(&t->group_table);
	intern_init(&t->group_table);
}

/* Samples of one process mostly come in a row. */
static struct group *group_of(struct tally *t, uint32_t container, uint32_t process)
{
	struct group key = { .container = container, .process = process };
	uint64_t ids = (uint64_t)container << 32 | process;
	uint32_t found;

	if (t->newest < t->group_count && same_group(t, t->newest, &key))
		return &t->groups[t->newest];
	if (t->group_count == GROUPS_AT_ONCE)
		tally_flush(t);
	found = intern_find_or_add(&t->group_table, hash64(str_from(&ids, sizeof(ids))), same_group,
				   t, &key, t->group_count);
	if (found == UINT32_MAX) {
		found = t->group_count++;
		t->groups[found] = key;
	}
	t->newest = found;
	return &t->groups[found];
}

/* What the sample says of itself wins: up to OTLP 1.4 the one resource was the host. */
static uint32_t tally_sample(struct tally *t, const struct group *resource, const struct sample *s)
{
	uint32_t labels[] = { [ROLE_CONTAINER] = UNKNOWN, [ROLE_PROCESS] = UNKNOWN };
	struct group *g;

	for (uint32_t i = 0; i < s->attributes.count; i++) {
		const struct attribute_seen *seen =
			look_at(t, t->profiles->attribute_refs[s->attributes.first + i].v);

		if (seen->role >= ROLE_CONTAINER && labels[seen->role] == UNKNOWN)
			labels[seen->role] = seen->label;
	}
	if (labels[ROLE_CONTAINER] == UNKNOWN)
		labels[ROLE_CONTAINER] = resource->container;
	if (labels[ROLE_PROCESS] == UNKNOWN)
		labels[ROLE_PROCESS] = resource->process;
	g = group_of(t, labels[ROLE_CONTAINER], labels[ROLE_PROCESS]);
	g->samples++;
	frame_counts_add(&t->frames, s->stack.v, g->frames);
	return labels[ROLE_CONTAINER];
}

/* The container that a profile counts for. */
static uint32_t tally_profile(struct tally *t, const struct group *resource,
			      const struct profile *profile)
{
	uint32_t common = resource->container;

	for (uint32_t i = 0; i < profile->samples.count; i++) {
		const struct sample *s = &t->profiles->samples[profile->samples.first + i];
		uint32_t container = tally_sample(t, resource, s);

		if (i == 0)
			common = container;
		else if (container != common)
			common = resource->container;
	}
	return common;
}

static void tally_resource(struct tally *t, const struct resource_profiles *r)
{
	const struct group resource = {
		.container = label_of(t, key_values_find(r->attributes, CONTAINER_KEY)),
		.process = label_of(t, key_values_find(r->attributes, PROCESS_KEY)),
	};

	for (uint32_t i = r->scopes.first; i < r->scopes.first + r->scopes.count; i++) {
		struct range list = t->profiles->scopes[i].profiles;

		for (uint32_t k = list.first; k < list.first + list.count; k++) {
			const struct profile *profile = &t->profiles->profiles[k];
			uint32_t container;

			if (profile->refused)
				continue;
			container = tally_profile(t, &resource, profile);
			metric_add(metric_get(t->prometheus->profiles, &t->labels[container]), 1);
		}
	}
}

static void tally_message(struct prometheus *s, const struct profiles *p)
{
	struct tally t = { .prometheus = s, .profiles = p };

	arena_init(&t.arena, 4096, 0);
	intern_init(&t.label_table);
	intern_init(&t.group_table);
	frame_counts_init(&t.frames, p);
	t.attributes = arena_zalloc(&t.arena, p->dict.attribute_count * sizeof(*t.attributes));
	t.groups = malloc(GROUPS_AT_ONCE * sizeof(*t.groups));
	assert(t.groups);
	label_of_text(&t, STR("unknown"));
	for (uint32_t i = 0; i < p->resource_count; i++)
		tally_resource(&t, &p->resources[i]);
	tally_flush(&t);
	free(t.groups);
	free(t.labels);
	frame_counts_release(&t.frames);
	intern_release(&t.group_table);
	intern_release(&t.label_table);
	arena_release(&t.arena);
}

static void prometheus_consume(void *state, struct batch *batch, struct completion *done)
{
	static const struct outcome ok = { .kind = OUTCOME_OK };

	tally_message(state, batch->profiles);
	batch_unref(batch);
	completion_done(done, &ok);
}

/* ---- serving ---- */

static void serve_metrics(struct net_request *r, struct blob *body, void *ctx)
{
	static const struct net_header headers[] = {
		{ "content-type",
		  { "text/plain; version=0.0.4; charset=utf-8",
		    sizeof("text/plain; version=0.0.4; charset=utf-8") - 1 } },
	};
	struct prometheus *s = ctx;
	struct buf text;

	blob_unref(body);
	buf_init(&text, 0);
	metrics_write(s->metrics, &text);
	net_reply_http(r, 200, headers, ARRAY_LEN(headers), buf_view(&text));
	buf_release(&text);
}

static void make_families(struct prometheus *s)
{
	static const char *const profile_labels[] = { "container_id", NULL };
	static const char *const sample_labels[] = { "container_id", "process_executable_name",
						     NULL };
	static const char *const location_labels[] = { "container_id", "process_executable_name",
						       "language", NULL };

	s->metrics = metrics_new();
	s->profiles =
		metrics_family(s->metrics, METRIC_COUNTER, "lazybackend_received_profiles_total",
			       "Profiles received.", profile_labels, s->max_series);
	s->samples =
		metrics_family(s->metrics, METRIC_COUNTER, "lazybackend_received_samples_total",
			       "Samples received.", sample_labels, s->max_series);
	s->locations = metrics_family(
		s->metrics, METRIC_COUNTER, "lazybackend_received_locations_total",
		"Frames received, inlined ones counted each.", location_labels, s->max_series);
}

static bool prometheus_start(void *state, const struct component_host *host, struct err *err)
{
	const struct net_app_options options = { .metrics = host->metrics };
	struct prometheus *s = state;

	make_families(s);
	s->app = net_app_new(&options);
	net_app_route(s->app, "GET", "/metrics", NULL, (struct net_handler){ serve_metrics, s });
	s->listener = net_listen(host->loops, s->app, s->endpoint, NULL, err);
	if (!s->listener)
		return err_prefix(err, "serving Prometheus metrics");
	LOG(LOG_INFO, "Serving Prometheus metrics on /metrics", LOG_S("exporter", host->id),
	    LOG_S("endpoint", net_listener_address(s->listener)));
	return true;
}

static void prometheus_stop(void *state, uint64_t deadline_ns)
{
	struct prometheus *s = state;

	net_listener_close(s->listener, deadline_ns);
	s->listener = NULL;
}

static void prometheus_release(void *state)
{
	struct prometheus *s = state;

	if (s->app)
		net_app_free(s->app);
	if (s->metrics)
		metrics_free(s->metrics);
}

const struct component_ops prometheus_exporter = {
	.type = "prometheus",
	.summary = "counts what it receives and serves the counters to Prometheus",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct prometheus),
	.fields = prometheus_fields,
	.start = prometheus_start,
	.consume = prometheus_consume,
	.stop = prometheus_stop,
	.release = prometheus_release,
};
