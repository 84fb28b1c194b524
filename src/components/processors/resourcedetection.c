/*
 * resourcedetection: attributes of the machine that this collector runs on, set on every resource.
 *
 * Options are the Collector's. Detectors are asked once, at start, one after the other; of two that
 * know a key the first one counts. One that fails leaves its attributes out with a warning, or,
 * with fail_on_missing_metadata, stops the start.
 */
#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "components/processors/changed.h"
#include "components/processors/detect/detect.h"
#include "components/processors/processors.h"
#include "pipeline/node.h"

enum { DETECTORS_MOST = 16 };

/* Places of detectors[] that have options of their own. */
enum { SYSTEM = 1, K8SNODE = 6 };

/* One detector's section. */
struct section {
	const struct config_node *attributes;
	struct config_strings hostname_sources; /* system */
	const char *node_from_env_var;          /* k8snode, and the next */
	int auth_type;
};

struct resourcedetection {
	struct config_strings names;
	uint64_t timeout_ns, refresh_interval_ns;
	bool override, fail_on_missing_metadata;
	struct retry_settings {
		bool enabled;
		uint64_t initial_interval_ns, max_interval_ns, max_elapsed_time_ns;
		double randomization_factor, multiplier;
	} retry;
	struct section sections[DETECTORS_MOST]; /* in the order of detectors[] */

	struct arena arena; /* of what was found */
	bool arena_made;
	struct detected *found;
	const struct component_host *host;
};

#define OFF(member)   .offset = offsetof(struct resourcedetection, member)
#define RETRY(member) .offset = offsetof(struct retry_settings, member)
#define ATTRIBUTES                                                 \
	{                                                          \
		.name = "resource_attributes", .kind = CONFIG_ANY, \
		.offset = offsetof(struct section, attributes),    \
		.help = "map of {NAME: {enabled: BOOL}}"           \
	}
#define SECTION(text, i, its)                                                              \
	{                                                                                  \
		.name = (text), .kind = CONFIG_SECTION, OFF(sections[i]), .fields = (its), \
		.help = "options of the detector"                                          \
	}

enum auth_type { AUTH_SERVICE_ACCOUNT, AUTH_NONE };
static const char *const auth_types[] = { "serviceAccount", "none", NULL };

/* clang-format off */
static const struct config_field system_fields[] = {
	{ .name = "hostname_sources", .kind = CONFIG_STRINGS, .offset = offsetof(struct section, hostname_sources),
	  .default_text = "dns,os", .help = "of host.name, the first that knows: dns, os, cname, lookup" },
	ATTRIBUTES,
	{ 0 },
};
static const struct config_field k8snode_fields[] = {
	{ .name = "auth_type", .kind = CONFIG_ENUM, .offset = offsetof(struct section, auth_type), .default_text = "serviceAccount",
	  .choices = auth_types, .help = "none: without a token, and the server is not verified" },
	{ .name = "node_from_env_var", .kind = CONFIG_STRING, .offset = offsetof(struct section, node_from_env_var),
	  .default_text = "K8S_NODE_NAME", .help = "the environment variable that names this node" },
	ATTRIBUTES,
	{ 0 },
};
static const struct config_field detector_fields[] = { ATTRIBUTES, { 0 } };
static const struct config_field retry_fields[] = {
	{ .name = "enabled", .kind = CONFIG_BOOL, RETRY(enabled), .default_text = "true", .help = "ask again after a failure" },
	{ .name = "initial_interval", .kind = CONFIG_DURATION, RETRY(initial_interval_ns), .default_text = "1s", .help = "first wait" },
	{ .name = "randomization_factor", .kind = CONFIG_DOUBLE, RETRY(randomization_factor), .default_text = "0.5", .help = "accepted, without effect" },
	{ .name = "multiplier", .kind = CONFIG_DOUBLE, RETRY(multiplier), .default_text = "2", .min = 1, .max = 100, .help = "of each further wait" },
	{ .name = "max_interval", .kind = CONFIG_DURATION, RETRY(max_interval_ns), .default_text = "30s", .help = "longest wait" },
	{ .name = "max_elapsed_time", .kind = CONFIG_DURATION, RETRY(max_elapsed_time_ns), .default_text = "0s", .help = "longest in all; 0 = timeout" },
	{ 0 },
};
static const struct config_field resourcedetection_fields[] = {
	{ .name = "detectors", .kind = CONFIG_STRINGS, OFF(names), .default_text = "env",
	  .help = "of env, system, docker, ec2, gcp, azure, k8snode; the first that knows an attribute counts" },
	{ .name = "timeout", .kind = CONFIG_DURATION, OFF(timeout_ns), .default_text = "5s", .help = "for each detector" },
	{ .name = "override", .kind = CONFIG_BOOL, OFF(override), .default_text = "true", .help = "replace what a resource says already" },
	{ .name = "fail_on_missing_metadata", .kind = CONFIG_BOOL, OFF(fail_on_missing_metadata), .default_text = "false",
	  .help = "a detector that fails stops the start" },
	{ .name = "refresh_interval", .kind = CONFIG_DURATION, OFF(refresh_interval_ns), .default_text = "0s", .help = "must be 0: detectors are asked at start" },
	{ .name = "retry", .kind = CONFIG_SECTION, OFF(retry), .fields = retry_fields, .help = "of a detector that fails" },
	SECTION("env", 0, detector_fields), SECTION("system", 1, system_fields), SECTION("docker", 2, detector_fields),
	SECTION("ec2", 3, detector_fields), SECTION("gcp", 4, detector_fields), SECTION("azure", 5, detector_fields), SECTION("k8snode", 6, k8snode_fields),
	{ 0 },
};
/* clang-format on */

static int detector_named(const char *name)
{
	for (int i = 0; detectors[i]; i++)
		if (strcmp(detectors[i]->name, name) == 0)
			return i;
	return -1;
}

/* ---- the configuration ---- */

static const struct detect_attribute *attribute_of(const struct detector *d, struct str name)
{
	for (const struct detect_attribute *a = d->attributes; a && a->name; a++)
		if (str_is(name, a->name))
			return a;
	return NULL;
}

static void check_attributes(const struct detector *d, const struct config_node *map,
			     const char *path, struct problems *problems)
{
	for (uint32_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
		const struct config_node *enabled = node_get(map->entries[i].value, "enabled");
		const char *names[32], *near;
		size_t count = 0;

		for (const struct detect_attribute *a = d->attributes; a && a->name; a++)
			names[count++] = a->name;
		near = text_suggest(map->entries[i].key, names, count);
		if (!attribute_of(d, map->entries[i].key))
			problem_error(problems, &map->entries[i].pos,
				      "%s: the detector %s has no attribute \"%.*s\"%s%s%s", path,
				      d->name, STR_ARG(map->entries[i].key),
				      near ? " (did you mean \"" : "", near ? near : "",
				      near ? "\"?)" : "");
		else if (!enabled || enabled->kind != NODE_SCALAR ||
			 (!str_is(enabled->text, "true") && !str_is(enabled->text, "false")))
			problem_error(problems, &map->entries[i].pos,
				      "%s: \"%.*s\" wants {enabled: true} or {enabled: false}",
				      path, STR_ARG(map->entries[i].key));
	}
	if (map && map->kind != NODE_MAP && map->kind != NODE_NULL)
		problem_error(problems, &map->pos, "%s: \"resource_attributes\" must be a map",
			      path);
}

static void check_names(const struct config_strings *list, const char *const *known, size_t count,
			const char *what, const struct config_node *node, const char *path,
			struct problems *problems)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct str name = str_cstr(list->items[i]);
		const char *near = text_suggest(name, known, count);
		bool ok = false;

		for (size_t k = 0; k < count; k++)
			ok |= str_is(name, known[k]);
		if (!ok)
			problem_error(problems, node ? &node->pos : NULL,
				      "%s: there is no %s \"%s\"%s%s%s", path, what, list->items[i],
				      near ? " (did you mean \"" : "", near ? near : "",
				      near ? "\"?)" : "");
	}
}

static void resourcedetection_read(void *state, const struct config_node *node, const char *path,
				   struct arena *arena, struct problems *problems)
{
	static const char *const sources[] = { "dns", "os", "cname", "lookup" };
	const struct config_node *list = node_get(node, "detectors");
	struct resourcedetection *r = state;
	const char *names[DETECTORS_MOST];
	size_t count = 0;

	(void)arena;
	for (int i = 0; detectors[i]; i++) {
		names[count++] = detectors[i]->name;
		check_attributes(detectors[i], r->sections[i].attributes, path, problems);
	}
	check_names(&r->names, names, count, "detector", list, path, problems);
	check_names(&r->sections[SYSTEM].hostname_sources, sources, 4, "hostname source",
		    node_get(node, "system"), path, problems);
}

static bool resourcedetection_check(void *state, struct err *err)
{
	const struct resourcedetection *r = state;

	if (r->refresh_interval_ns)
		return err_set(err, ERR_UNSUPPORTED,
			       "\"refresh_interval\" must be 0: detectors are "
			       "asked at start");
	if (!r->timeout_ns && !r->retry.max_elapsed_time_ns)
		return err_set(err, ERR_INVALID, "\"timeout\" must be greater than zero");
	return true;
}

/* ---- detecting ---- */

static bool enabled(const struct resourcedetection *r, int detector, struct str name)
{
	const struct config_node *map = r->sections[detector].attributes;
	const struct detect_attribute *a = attribute_of(detectors[detector], name);
	const struct config_entry *e = map ? node_entry(map, name) : NULL;

	if (e)
		return str_is(node_get(e->value, "enabled")->text, "true");
	return !a || a->enabled;
}

static bool sleep_until_again(uint64_t wait_ns, uint64_t deadline_ns)
{
	struct timespec pause = { (time_t)(wait_ns / SECOND_NS), (long)(wait_ns % SECOND_NS) };

	if (clock_monotonic_ns() + wait_ns >= deadline_ns)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static bool ask(const struct resourcedetection *r, int detector, struct detected *out,
		struct err *err)
{
	uint64_t total_ns = r->retry.max_elapsed_time_ns;
	uint64_t end_ns = clock_monotonic_ns() + (total_ns ? total_ns : r->timeout_ns);
	uint64_t wait_ns = r->retry.initial_interval_ns;
	struct detect_options o = {
		.hostname_sources = r->sections[SYSTEM].hostname_sources.items,
		.hostname_source_count = r->sections[SYSTEM].hostname_sources.count,
		.node_variable = r->sections[K8SNODE].node_from_env_var,
		.anonymous = r->sections[K8SNODE].auth_type == AUTH_NONE,
	};

	for (;;) {
		uint64_t attempt_ns = clock_monotonic_ns() + r->timeout_ns;

		o.deadline_ns = r->timeout_ns && attempt_ns < end_ns ? attempt_ns : end_ns;
		out->count = 0;
		if (detectors[detector]->detect(&o, out, err))
			return true;
		if (!r->retry.enabled || !err_retryable(err->kind) ||
		    !sleep_until_again(wait_ns, end_ns))
			return false;
		wait_ns = (uint64_t)((double)wait_ns * r->retry.multiplier);
		if (wait_ns > r->retry.max_interval_ns)
			wait_ns = r->retry.max_interval_ns;
	}
}

static void take_enabled(struct resourcedetection *r, int detector, const struct detected *found)
{
	for (uint32_t i = 0; i < found->count; i++)
		if (enabled(r, detector, found->pairs[i].key))
			detected_add(r->found, str_dup_cstr(&r->arena, found->pairs[i].key),
				     found->pairs[i].value.string);
}

static bool detect_all(struct resourcedetection *r, struct err *err)
{
	struct detected *one = arena_zalloc(&r->arena, sizeof(*one));

	assert(one);
	one->arena = &r->arena;
	for (uint32_t i = 0; i < r->names.count; i++) {
		int detector = detector_named(r->names.items[i]);

		if (ask(r, detector, one, err)) {
			take_enabled(r, detector, one);
			continue;
		}
		if (r->fail_on_missing_metadata || err->kind == ERR_INVALID)
			return err_prefix(err, "the detector %s failed", r->names.items[i]);
		LOG(LOG_WARN, "Resource detector failed; its attributes are left out",
		    LOG_S("processor", r->host->id), LOG_S("detector", r->names.items[i]),
		    LOG_S("error", err->msg));
	}
	return true;
}

static bool resourcedetection_start(void *state, const struct component_host *host, struct err *err)
{
	struct resourcedetection *r = state;

	r->host = host;
	arena_init(&r->arena, 4096, 0);
	r->arena_made = true;
	r->found = arena_zalloc(&r->arena, sizeof(*r->found));
	assert(r->found);
	r->found->arena = &r->arena;
	if (!detect_all(r, err))
		return false;
	LOG(LOG_INFO, "Resource detected", LOG_S("processor", host->id),
	    LOG_U("attributes", r->found->count));
	return true;
}

static void resourcedetection_release(void *state)
{
	struct resourcedetection *r = state;

	if (r->arena_made)
		arena_release(&r->arena);
}

/* ---- one message ---- */

static bool change_resource(struct resourcedetection *r, struct edit *edit, struct edit_list *l,
			    struct err *err)
{
	bool changed = false;

	for (uint32_t i = 0; i < r->found->count; i++) {
		const struct key_value *kv = &r->found->pairs[i];
		const struct edit_attribute *old = edit_find(l, kv->key);

		if (old && (!r->override || any_value_equal(&old->value, &kv->value)))
			continue;
		edit_set(l, kv->key, &kv->value);
		changed = true;
	}
	return !changed || edit_store(edit, l, err);
}

static void resourcedetection_consume(void *state, struct batch *batch, struct completion *done)
{
	struct edit *edit = edit_new(batch->profiles);
	struct resourcedetection *r = state;
	struct edit_list list = { 0 };
	struct err err = { 0 };
	bool ok = true;

	for (uint32_t i = 0; i < batch->profiles->resource_count && ok; i++) {
		edit_load(batch->profiles, MESSAGE_RESOURCE, i, &list);
		ok = change_resource(r, edit, &list, &err);
	}
	edit_list_release(&list);
	changed_hand_on(r->host, batch, edit, ok, &err, done);
	edit_free(edit);
}

const struct component_ops resourcedetection_processor = {
	.type = "resourcedetection",
	.aliases = { "resource_detection" },
	.summary = "sets what the machine, its container engine or its cloud says of it",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct resourcedetection),
	.fields = resourcedetection_fields,
	.mutates = true,
	.read = resourcedetection_read,
	.check = resourcedetection_check,
	.start = resourcedetection_start,
	.consume = resourcedetection_consume,
	.release = resourcedetection_release,
};
