#include "pipeline/node.h"

#include <assert.h>
#include <stdlib.h>

struct config_node *node_new(struct arena *a, enum node_kind kind, struct config_pos pos)
{
	struct config_node *n = arena_zalloc(a, sizeof(*n));

	assert(n);
	n->kind = kind;
	n->pos = pos;
	return n;
}

/* Room for one more entry or item. */
static void *grown(struct arena *a, struct config_node *n, void *array, size_t size)
{
	uint32_t cap = n->cap ? n->cap * 2 : 4;

	if (n->count < n->cap)
		return array;
	array = arena_grow(a, array, n->cap * size, cap * size);
	assert(array);
	n->cap = cap;
	return array;
}

struct config_entry *node_add(struct arena *a, struct config_node *map, struct str key,
			      struct config_pos pos, struct config_node *value)
{
	assert(map->kind == NODE_MAP);
	map->entries = grown(a, map, map->entries, sizeof(*map->entries));
	map->entries[map->count] = (struct config_entry){ key, pos, value };
	return &map->entries[map->count++];
}

void node_append(struct arena *a, struct config_node *list, struct config_node *item)
{
	assert(list->kind == NODE_LIST);
	list->items = grown(a, list, list->items, sizeof(struct config_node *));
	list->items[list->count++] = item;
}

struct config_entry *node_entry(const struct config_node *map, struct str key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (uint32_t i = 0; i < map->count; i++)
		if (str_equal(map->entries[i].key, key))
			return &map->entries[i];
	return NULL;
}

struct config_node *node_get(const struct config_node *map, const char *key)
{
	struct config_entry *e = node_entry(map, str_cstr(key));

	return e ? e->value : NULL;
}

struct config_node *node_merge(struct arena *a, struct config_node *base, struct config_node *over)
{
	struct config_node *merged;

	if (!over || !base)
		return over ? over : base;
	if (base->kind != NODE_MAP || over->kind != NODE_MAP)
		return over;
	merged = node_new(a, NODE_MAP, base->pos);
	for (uint32_t i = 0; i < base->count; i++) {
		struct config_entry *e = &base->entries[i];

		node_add(a, merged, e->key, e->pos, e->value);
	}
	for (uint32_t i = 0; i < over->count; i++) {
		struct config_entry *e = &over->entries[i], *old = node_entry(merged, e->key);

		if (old)
			*old = (struct config_entry){ e->key, e->pos,
						      node_merge(a, old->value, e->value) };
		else
			node_add(a, merged, e->key, e->pos, e->value);
	}
	return merged;
}

struct config_node *node_wrap(struct arena *a, struct str path, struct str separator,
			      struct config_node *value)
{
	ptrdiff_t at = str_search(path, separator);
	struct config_node *map = node_new(a, NODE_MAP, value->pos);

	if (at < 0) {
		node_add(a, map, str_dup(a, path), value->pos, value);
		return map;
	}
	node_add(a, map, str_dup(a, str_head(path, (size_t)at)), value->pos,
		 node_wrap(a, str_skip(path, (size_t)at + separator.len), separator, value));
	return map;
}

static bool plain_is_number(struct str s, bool *whole)
{
	char text[64], *end;

	if (s.len == 0 || s.len >= sizeof(text) || (s.ptr[0] > '9' && s.ptr[0] != '.'))
		return false;
	memcpy(text, s.ptr, s.len);
	text[s.len] = 0;
	(void)strtod(text, &end);
	*whole = str_find(s, '.') < 0 && str_find(s, 'e') < 0 && str_find(s, 'E') < 0;
	return *end == 0;
}

struct config_pos node_pos_within(const struct config_node *n, size_t offset)
{
	struct config_pos pos = n->pos;

	if (n->reference.len || !pos.line)
		return pos;
	if (n->quote == '|') { /* the indent is not known: the line alone */
		pos.line++;
		pos.column = 1;
		for (size_t i = 0; i < offset && i < n->text.len; i++)
			pos.line += n->text.ptr[i] == '\n';
		return pos;
	}
	pos.column += (uint32_t)offset + (n->quote != 0);
	for (size_t i = 0; i < offset && i < n->text.len; i++) {
		char c = n->text.ptr[i];

		if (c == '\n')
			return n->pos;
		pos.column += (n->quote && c == n->quote) || (n->quote == '"' && c == '\\');
	}
	return pos;
}

const char *node_kind_name(const struct config_node *n)
{
	bool whole;

	switch (n->kind) {
	case NODE_NULL:
		return "null";
	case NODE_MAP:
		return "map";
	case NODE_LIST:
		return "slice";
	case NODE_SCALAR:
		break;
	}
	if (n->quoted)
		return "string";
	if (str_is(n->text, "true") || str_is(n->text, "false"))
		return "bool";
	if (plain_is_number(n->text, &whole))
		return whole ? "int" : "float64";
	return "string";
}
