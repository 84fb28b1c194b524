/* Sources -> components with their settings checked; service is config_service.c's. */
#include "pipeline/config.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

#include "base/text.h"
#include "pipeline/config_service.h"
#include "pipeline/expand.h"
#include "pipeline/source.h"

enum { TYPE_LEN_MOST = 63, NAME_LEN_MOST = 1024, COMPONENTS_MOST = 1000, KINDS = 4 };

const char *config_section_name(enum component_kind kind)
{
	static const char *const names[] = { "receivers", "processors", "exporters", "extensions" };

	return names[kind];
}

struct str config_id_type(struct str id)
{
	ptrdiff_t at = str_find(id, '/');

	return at < 0 ? id : str_head(id, (size_t)at);
}

static bool type_valid(struct str type)
{
	if (type.len == 0 || type.len > TYPE_LEN_MOST || !isalpha((unsigned char)type.ptr[0]))
		return false;
	for (size_t i = 1; i < type.len; i++)
		if (!isalnum((unsigned char)type.ptr[i]) && type.ptr[i] != '_')
			return false;
	return true;
}

static bool name_valid(struct str name)
{
	if (name.len == 0 || name.len > NAME_LEN_MOST || !utf8_valid(name))
		return false;
	for (size_t i = 0; i < name.len; i++)
		if ((unsigned char)name.ptr[i] <= ' ' || name.ptr[i] == 0x7f)
			return false;
	return true;
}

bool config_id_check(struct str id, const struct config_pos *pos, const char *section,
		     struct problems *problems)
{
	struct str type = config_id_type(id);
	const char *why = NULL;

	if (!type_valid(type))
		why = "the type must be a letter and then letters, digits or underscores, at most "
		      "63";
	else if (type.len < id.len && !name_valid(str_skip(id, type.len + 1)))
		why = "the part behind \"/\" must be 1 to 1024 printable characters";
	if (why)
		problem_error(problems, pos, "%s: invalid id \"%.*s\": %s", section, STR_ARG(id),
			      why);
	return !why;
}

static size_t type_names(const struct config *c, enum component_kind kind, const char **names,
			 size_t room)
{
	size_t count = 0;

	for (size_t i = 0; c->known[i] && count < room; i++)
		if (c->known[i]->kind == kind)
			names[count++] = c->known[i]->type;
	return count;
}

static void report_type(const struct config *c, enum component_kind kind,
			const struct config_entry *e, struct str type, struct problems *problems)
{
	const char *section = config_section_name(kind), *names[256], *near;
	size_t count = type_names(c, kind, names, sizeof(names) / sizeof(names[0]));
	struct buf list;

	buf_init(&list, 4096);
	for (size_t i = 0; i < count; i++)
		buf_printf(&list, "%s%s", i ? " " : "", names[i]);
	near = text_suggest(type, names, count);
	problem_error(
		problems, &e->pos,
		"%s::%.*s: there is no %s \"%.*s\"%s%s%s; '%s' unknown type: \"%.*s\" for id: "
		"\"%.*s\" (valid values: [%.*s])",
		section, STR_ARG(e->key), component_kind_name(kind), STR_ARG(type),
		near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", section,
		STR_ARG(type), STR_ARG(e->key), STR_ARG(buf_view(&list)));
	buf_release(&list);
}

static void read_component(struct config *c, enum component_kind kind, const struct config_entry *e,
			   struct problems *problems)
{
	const char *section = config_section_name(kind);
	struct str type = config_id_type(e->key);
	const struct component_ops *ops;
	struct config_component *component;
	bool deprecated;

	if (!config_id_check(e->key, &e->pos, section, problems))
		return;
	ops = component_find(c->known, kind, type, &deprecated);
	if (!ops) {
		report_type(c, kind, e, type, problems);
		return;
	}
	if (deprecated)
		problem_warn(problems, &e->pos, "\"%.*s\" alias is deprecated; use \"%s\" instead",
			     STR_ARG(type), ops->type);
	component = &c->components[c->component_count++];
	component->kind = kind;
	component->id = str_dup_cstr(&c->arena, e->key);
	component->ops = ops;
	component->pos = e->pos;
	component->path = str_printf(&c->arena, "%s::%s", section, component->id).ptr;
	component->node = e->value;
}

static const struct config_node *section_node(const struct config *c, const char *name,
					      struct problems *problems)
{
	const struct config_node *n = node_get(c->root, name);

	if (!n || n->kind == NODE_NULL)
		return NULL;
	if (n->kind == NODE_MAP)
		return n;
	problem_error(problems, &n->pos, "%s: must be a map, got %s; expected a map, got '%s'",
		      name, node_kind_name(n), node_kind_name(n));
	return NULL;
}

static void read_components(struct config *c, struct problems *problems)
{
	uint32_t count = 0;

	for (int kind = 0; kind < KINDS; kind++) {
		const struct config_node *n = node_get(c->root, config_section_name(kind));

		count += n && n->kind == NODE_MAP ? n->count : 0;
	}
	if (count > COMPONENTS_MOST) {
		problem_error(problems, NULL, "%u components, at most %d are possible", count,
			      COMPONENTS_MOST);
		return;
	}
	c->components = arena_zalloc(&c->arena, count * sizeof(*c->components));
	assert(c->components);
	for (int kind = 0; kind < KINDS; kind++) {
		const struct config_node *n = section_node(c, config_section_name(kind), problems);

		for (uint32_t i = 0; n && i < n->count; i++)
			read_component(c, kind, &n->entries[i], problems);
	}
}

/* No connector exists here yet, so each is unknown, in the words of the other kinds. */
static void read_connectors(struct config *c, struct problems *problems)
{
	const struct config_node *n = section_node(c, "connectors", problems);

	for (uint32_t i = 0; n && i < n->count; i++) {
		const struct config_entry *e = &n->entries[i];

		problem_error(
			problems, &e->pos,
			"connectors::%.*s: there are no connectors here; 'connectors' unknown "
			"type: \"%.*s\" for id: \"%.*s\" (valid values: [])",
			STR_ARG(e->key), STR_ARG(config_id_type(e->key)), STR_ARG(e->key));
	}
}

static void check_top(const struct config *c, struct problems *problems)
{
	static const char *const names[] = { "receivers",  "processors", "exporters",
					     "connectors", "extensions", "service" };
	static const size_t count = sizeof(names) / sizeof(names[0]);

	for (uint32_t i = 0; i < c->root->count; i++) {
		const struct config_entry *e = &c->root->entries[i];
		const char *near;
		bool known = false;

		for (size_t k = 0; k < count; k++)
			known = known || str_is(e->key, names[k]);
		if (known)
			continue;
		near = text_suggest(e->key, names, count);
		problem_error(
			problems, &e->pos,
			"unknown section \"%.*s\"%s%s%s; 'otelcol.configSettings' has invalid "
			"keys: %.*s",
			STR_ARG(e->key), near ? " (did you mean \"" : "", near ? near : "",
			near ? "\"?)" : "", STR_ARG(e->key));
	}
}

void *config_component_state(const struct config_component *c, struct arena *arena,
			     struct problems *problems)
{
	uint32_t errors = problems->error_count;
	void *state = calloc(1, c->ops->state_size ? c->ops->state_size : 1);
	struct err err;

	assert(state);
	options_fill(c->ops->fields, state, c->node, c->path, arena, problems);
	if (problems->error_count != errors) {
		free(state);
		return NULL;
	}
	if (c->ops->read)
		c->ops->read(state, c->node, c->path, arena, problems);
	if (problems->error_count == errors && c->ops->check && !c->ops->check(state, &err))
		problem_error(problems, &c->pos, "%s: %s", c->path, err.msg);
	if (problems->error_count == errors)
		return state;
	if (c->ops->release)
		c->ops->release(state);
	free(state);
	return NULL;
}

/* Unused ones, too: a mistake in them is one. */
static void check_components(struct config *c, struct problems *problems)
{
	for (uint32_t i = 0; i < c->component_count; i++) {
		const struct config_component *component = &c->components[i];
		struct arena scratch;
		void *state;

		arena_init(&scratch, 4096, 0);
		state = config_component_state(component, &scratch, problems);
		if (state && component->ops->release)
			component->ops->release(state);
		free(state);
		arena_release(&scratch);
	}
}

static void config_read(struct config *c, const struct config_source *sources, uint32_t count,
			struct problems *problems)
{
	struct expand x = { .arena = &c->arena, .problems = problems };
	struct config_node *raw = sources_read(&c->arena, sources, count, problems);

	c->root = raw ? expand_tree(&x, raw) : NULL;
	if (!c->root)
		return;
	check_top(c, problems);
	read_components(c, problems);
	read_connectors(c, problems);
	check_components(c, problems);
	config_read_service(c, section_node(c, "service", problems), problems);
}

struct config *config_load(const struct config_source *sources, uint32_t count,
			   const struct component_ops *const *known, struct problems *problems)
{
	struct config *c = calloc(1, sizeof(*c));
	uint32_t errors = problems->error_count;

	assert(c);
	arena_init(&c->arena, 16384, 0);
	c->known = known;
	config_read(c, sources, count, problems);
	if (problems->error_count == errors)
		return c;
	config_free(c);
	return NULL;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	arena_release(&c->arena);
	free(c);
}

const struct config_component *config_component_find(const struct config *c,
						     enum component_kind kind, const char *id)
{
	for (uint32_t i = 0; i < c->component_count; i++)
		if (c->components[i].kind == kind && strcmp(c->components[i].id, id) == 0)
			return &c->components[i];
	return NULL;
}
