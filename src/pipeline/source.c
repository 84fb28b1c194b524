#include "pipeline/source.h"

#include <assert.h>
#include <stdlib.h>

#include "pipeline/expand.h"

struct reader {
	struct arena *arena;
	struct problems *problems;
	uint32_t nodes_left;
};

static struct config_node *parse(struct reader *r, struct str yaml, const char *name)
{
	return node_parse(r->arena, yaml, name, &r->nodes_left, r->problems);
}

static struct config_node *read_path(struct reader *r, const char *path)
{
	struct str content;
	struct err err;

	if (!expand_read_file(r->arena, path, &content, &err)) {
		problem_error(
			r->problems, NULL,
			"cannot resolve the configuration: cannot retrieve the configuration: "
			"unable to read the file file:%s: %s",
			path, err.msg);
		return NULL;
	}
	return parse(r, content, path);
}

static struct config_node *read_env(struct reader *r, const char *uri, const char *name)
{
	const char *value = getenv(name);

	if (!value)
		problem_warn(r->problems, NULL,
			     "Configuration references unset environment variable \"%s\"", name);
	return parse(r, str_cstr(value ? value : ""), uri);
}

/* "a::b: 1" is {a: {b: 1}}: in URIs and settings nobody wants to write nested YAML. */
static struct config_node *unfold_keys(struct reader *r, struct config_node *n)
{
	struct config_node *to;

	if (n->kind != NODE_MAP)
		return n;
	to = node_new(r->arena, NODE_MAP, n->pos);
	for (uint32_t i = 0; i < n->count; i++)
		to = node_merge(r->arena, to,
				node_wrap(r->arena, n->entries[i].key, STR("::"),
					  unfold_keys(r, n->entries[i].value)));
	return to;
}

static struct config_node *read_yaml_uri(struct reader *r, const char *uri, const char *yaml)
{
	struct config_node *n = parse(r, str_cstr(yaml), uri);

	return n ? unfold_keys(r, n) : NULL;
}

/* The scheme's length, or 0 for a path: one letter and a colon is a drive, and "./a:b" has no
 * scheme. */
static size_t scheme_len(struct str uri)
{
	size_t i = 0;

	while (i < uri.len &&
	       ((uri.ptr[i] >= 'a' && uri.ptr[i] <= 'z') ||
		(uri.ptr[i] >= 'A' && uri.ptr[i] <= 'Z') ||
		(i && ((uri.ptr[i] >= '0' && uri.ptr[i] <= '9') || uri.ptr[i] == '+' ||
		       uri.ptr[i] == '.' || uri.ptr[i] == '-'))))
		i++;
	return i > 1 && i < uri.len && uri.ptr[i] == ':' ? i : 0;
}

static struct config_node *read_uri(struct reader *r, const char *uri)
{
	size_t len = scheme_len(str_cstr(uri));
	struct str scheme = str_from(uri, len);

	if (len == 0)
		return read_path(r, uri);
	if (str_is(scheme, "file"))
		return read_path(r, uri + len + 1);
	if (str_is(scheme, "env"))
		return read_env(r, uri, uri + len + 1);
	if (str_is(scheme, "yaml"))
		return read_yaml_uri(r, uri, uri + len + 1);
	problem_error(r->problems, NULL,
		      "cannot resolve the configuration: unsupported scheme on URI \"%s\"", uri);
	return NULL;
}

/* "a.b.c=value": the value is YAML; keys that hold dots cannot be set this way, as in the
 * Collector. */
static struct config_node *read_setting(struct reader *r, const char *setting)
{
	struct str text = str_cstr(setting);
	ptrdiff_t at = str_find(text, '=');
	struct config_node *value;

	if (at <= 0) {
		problem_error(r->problems, NULL,
			      "invalid argument \"%s\" for \"--set\": missing equal sign", setting);
		return NULL;
	}
	value = parse(r, str_skip(text, (size_t)at + 1), "--set");
	if (!value)
		return NULL;
	value->pos = (struct config_pos){ "--set", 1, 1 };
	return node_wrap(r->arena, str_head(text, (size_t)at), STR("."), value);
}

static struct config_node *read_source(struct reader *r, const struct config_source *s)
{
	switch (s->kind) {
	case CONFIG_FROM_URI:
		return read_uri(r, s->text);
	case CONFIG_FROM_TEXT:
		return parse(r, str_cstr(s->text), s->name);
	case CONFIG_FROM_SET:
		return read_setting(r, s->text);
	}
	return NULL;
}

static struct config_node *merge_kind(struct reader *r, struct config_node *root,
				      const struct config_source *sources, uint32_t count,
				      bool settings)
{
	for (uint32_t i = 0; i < count; i++) {
		struct config_node *n;

		if ((sources[i].kind == CONFIG_FROM_SET) != settings)
			continue;
		n = read_source(r, &sources[i]);
		if (!n || n->kind == NODE_NULL)
			continue;
		if (n->kind != NODE_MAP)
			problem_error(r->problems, &n->pos, "a configuration must be a map, got %s",
				      node_kind_name(n));
		else
			root = node_merge(r->arena, root, n);
	}
	return root;
}

struct config_node *sources_read(struct arena *a, const struct config_source *sources,
				 uint32_t count, struct problems *problems)
{
	struct reader r = { .arena = a, .problems = problems, .nodes_left = NODES_MOST };
	uint32_t errors = problems->error_count, documents = 0;
	struct config_node *root = NULL;

	for (uint32_t i = 0; i < count; i++)
		documents += sources[i].kind != CONFIG_FROM_SET;
	if (documents == 0)
		problem_error(problems, NULL, "at least one config flag must be provided");
	root = merge_kind(&r, root, sources, count, false);
	root = merge_kind(&r, root, sources, count, true);
	if (!root && problems->error_count == errors)
		problem_error(problems, NULL, "empty configuration file");
	return problems->error_count == errors ? root : NULL;
}
