#include "components/processors/attribute_match.h"

#include <assert.h>
#include <stdio.h>

#include "base/buf.h"
#include "components/processors/attribute_actions.h"

enum { MATCH_STRICT, MATCH_REGEXP };
static const char *const match_types[] = { "strict", "regexp", NULL };

struct pair_options {
	const char *key;
	const struct config_node *value;
};
struct library_options {
	const char *name, *version;
};

#define OFF(member) .offset = offsetof(struct attribute_match, member)

/* clang-format off */
const struct config_field attribute_match_fields[] = {
	{ .name = "match_type", .kind = CONFIG_ENUM, OFF(match_type), .default_text = "strict", .choices = match_types, .help = "how texts match" },
	{ .name = "services", .kind = CONFIG_STRINGS, OFF(services), .help = "one must be service.name" },
	{ .name = "resources", .kind = CONFIG_ANY, OFF(resource_list), .help = "list of {key, value}: the resource must have all" },
	{ .name = "libraries", .kind = CONFIG_ANY, OFF(library_list), .help = "list of {name, version}: one must be the scope" },
	{ .name = "attributes", .kind = CONFIG_ANY, OFF(attribute_list), .help = "list of {key, value}: the profile or sample must have all" },
	{ .name = "regexp", .kind = CONFIG_ANY, OFF(regexp), .help = "accepted: there is no cache to set" },
	{ 0 },
};
static const struct config_field pair_fields[] = {
	{ .name = "key", .kind = CONFIG_STRING, .offset = offsetof(struct pair_options, key), .required = true, .help = "of the attribute" },
	{ .name = "value", .kind = CONFIG_ANY, .offset = offsetof(struct pair_options, value), .help = "none: any" },
	{ 0 },
};
static const struct config_field library_fields[] = {
	{ .name = "name", .kind = CONFIG_STRING, .offset = offsetof(struct library_options, name), .required = true, .help = "of the scope" },
	{ .name = "version", .kind = CONFIG_STRING, .offset = offsetof(struct library_options, version), .help = "none: any" },
	{ 0 },
};
/* clang-format on */

struct reader {
	struct attribute_match *m;
	struct arena *arena;
	struct problems *problems;
};

static void read_text(struct reader *r, struct match_text *t, const char *text, const char *path,
		      const struct config_pos *pos)
{
	struct err err;

	if (!text)
		return;
	t->text = str_cstr(text);
	if (r->m->match_type != MATCH_REGEXP)
		return;
	t->regex = regex_new(t->text, REGEX_WITHIN, &err);
	if (!t->regex)
		problem_error(r->problems, pos, "%s: %s", path, err.msg);
}

static void read_pair(struct reader *r, struct match_pair *pair, const struct config_node *n,
		      const char *path)
{
	struct pair_options o = { 0 };

	options_fill(pair_fields, &o, n, path, r->arena, r->problems);
	pair->key = str_cstr(o.key);
	pair->value = any_value_of_node(r->arena, o.value);
	if (pair->value.kind == ANY_STRING)
		read_text(r, &pair->text, str_dup_cstr(r->arena, pair->value.string), path,
			  &n->pos);
}

static bool is_list(struct reader *r, const struct config_node *list, const char *path)
{
	if (!list || list->kind == NODE_NULL)
		return false;
	if (list->kind == NODE_LIST)
		return true;
	problem_error(r->problems, &list->pos, "%s must be a list, not '%s'", path,
		      node_kind_name(list));
	return false;
}

static struct match_pair *read_pairs(struct reader *r, const struct config_node *list,
				     const char *path, uint32_t *count)
{
	struct match_pair *pairs;

	if (!is_list(r, list, path))
		return NULL;
	pairs = arena_zalloc(r->arena, list->count * sizeof(*pairs));
	assert(pairs);
	for (uint32_t i = 0; i < list->count; i++)
		read_pair(r, &pairs[i], list->items[i], path);
	*count = list->count;
	return pairs;
}

static void read_libraries(struct reader *r, const char *path)
{
	const struct config_node *list = r->m->library_list;

	if (!is_list(r, list, path))
		return;
	r->m->libraries = arena_zalloc(r->arena, 2 * list->count * sizeof(*r->m->libraries));
	assert(r->m->libraries);
	r->m->library_count = list->count;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct config_pos *pos = &list->items[i]->pos;
		struct library_options o = { 0 };

		options_fill(library_fields, &o, list->items[i], path, r->arena, r->problems);
		read_text(r, &r->m->libraries[2 * i], o.name, path, pos);
		read_text(r, &r->m->libraries[2 * i + 1], o.version, path, pos);
	}
}

void attribute_match_read(struct attribute_match *m, const struct config_node *node,
			  pthread_mutex_t *lock, const char *path, struct arena *arena,
			  struct problems *problems)
{
	struct reader r = { m, arena, problems };
	char at[200];

	if (!m->given || !node)
		return;
	m->lock = lock;
	m->service_texts = arena_zalloc(arena, m->services.count * sizeof(*m->service_texts));
	assert(m->service_texts);
	for (uint32_t i = 0; i < m->services.count; i++)
		read_text(&r, &m->service_texts[i], m->services.items[i], path, &node->pos);
	snprintf(at, sizeof(at), "%s::resources", path);
	m->resources = read_pairs(&r, m->resource_list, at, &m->resource_count);
	snprintf(at, sizeof(at), "%s::attributes", path);
	m->attributes = read_pairs(&r, m->attribute_list, at, &m->attribute_count);
	snprintf(at, sizeof(at), "%s::libraries", path);
	read_libraries(&r, at);
	if (!m->services.count && !m->resource_count && !m->attribute_count && !m->library_count)
		problem_error(problems, &node->pos,
			      "%s: at least one of \"services\", \"resources\", \"libraries\" and "
			      "\"attributes\" must be given",
			      path);
}

void attribute_match_release(struct attribute_match *m)
{
	for (uint32_t i = 0; m->service_texts && i < m->services.count; i++)
		regex_free(m->service_texts[i].regex);
	for (uint32_t i = 0; i < m->resource_count; i++)
		regex_free(m->resources[i].text.regex);
	for (uint32_t i = 0; i < m->attribute_count; i++)
		regex_free(m->attributes[i].text.regex);
	for (uint32_t i = 0; i < 2 * m->library_count; i++)
		regex_free(m->libraries[i].regex);
}

static bool text_matches(const struct attribute_match *m, const struct match_text *t, struct str s,
			 bool *out, struct err *err)
{
	bool ok;

	*out = !t->text.ptr || str_equal(t->text, s);
	if (!t->regex)
		return true;
	pthread_mutex_lock(m->lock);
	ok = regex_match(t->regex, s, out, err);
	pthread_mutex_unlock(m->lock);
	return ok;
}

static bool pair_matches(const struct attribute_match *m, const struct match_pair *pair,
			 const struct any_value *v, bool *out, struct err *err)
{
	*out = v != NULL;
	if (!v || pair->value.kind == ANY_EMPTY)
		return true;
	if (pair->text.regex && v->kind == ANY_STRING)
		return text_matches(m, &pair->text, v->string, out, err);
	*out = any_value_equal(&pair->value, v);
	return true;
}

static bool service_matches(const struct attribute_match *m, struct key_values attributes,
			    bool *out, struct err *err)
{
	const struct any_value *v = key_values_find(attributes, STR("service.name"));

	*out = m->services.count == 0;
	for (uint32_t i = 0; i < m->services.count && !*out && v && v->kind == ANY_STRING; i++)
		if (!text_matches(m, &m->service_texts[i], v->string, out, err))
			return false;
	return true;
}

static bool library_matches(const struct attribute_match *m, const struct scope_profiles *scope,
			    bool *out, struct err *err)
{
	bool version;

	*out = m->library_count == 0;
	for (uint32_t i = 0; i < m->library_count && !*out; i++) {
		if (!text_matches(m, &m->libraries[2 * i], scope->name, out, err) ||
		    !text_matches(m, &m->libraries[2 * i + 1], scope->version, &version, err))
			return false;
		*out &= version;
	}
	return true;
}

bool attribute_match_outer(const struct attribute_match *m,
			   const struct resource_profiles *resource,
			   const struct scope_profiles *scope, bool *out, struct err *err)
{
	if (!service_matches(m, resource->attributes, out, err))
		return false;
	for (uint32_t i = 0; i < m->resource_count && *out; i++)
		if (!pair_matches(m, &m->resources[i],
				  key_values_find(resource->attributes, m->resources[i].key), out,
				  err))
			return false;
	return !*out || library_matches(m, scope, out, err);
}

bool attribute_match_refs(const struct attribute_match *m, const struct profiles *p,
			  struct range refs, bool *out, struct err *err)
{
	*out = true;
	for (uint32_t i = 0; i < m->attribute_count && *out; i++)
		if (!pair_matches(m, &m->attributes[i],
				  profiles_attribute(p, refs, m->attributes[i].key), out, err))
			return false;
	return true;
}
