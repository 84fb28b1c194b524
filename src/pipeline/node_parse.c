/* libyaml's events -> a tree of nodes. Anchors are bounded by counting an alias as all that it
 * stands for. */
#include "pipeline/node.h"

#include <assert.h>
#include <yaml.h>

enum { ANCHORS_MOST = 100, KEYS_MOST = 4096 };

struct anchor {
	struct str name;
	struct config_node *node; /* NULL while it is being read: an alias to itself */
};

struct parse {
	yaml_parser_t yaml;
	struct arena *arena;
	const char *file;
	uint32_t *nodes_left;
	struct problems *problems;
	struct anchor anchors[ANCHORS_MOST];
	uint32_t anchor_count;
	bool failed; /* its problem is noted */
};

static struct config_pos pos_of(const struct parse *p, yaml_mark_t mark)
{
	return (struct config_pos){ p->file, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1 };
}

static struct str text_of(struct parse *p, const yaml_char_t *text, size_t len)
{
	return str_dup(p->arena, str_from(text, len));
}

static bool next_event(struct parse *p, yaml_event_t *event)
{
	const yaml_parser_t *y = &p->yaml;
	struct config_pos pos;

	if (yaml_parser_parse(&p->yaml, event))
		return true;
	pos = pos_of(p, y->problem_mark);
	if (y->error == YAML_READER_ERROR)
		problem_error(p->problems, &(struct config_pos){ .file = p->file },
			      "not YAML: %s at byte %zu", y->problem, y->problem_offset);
	else if (y->context)
		problem_error(p->problems, &pos, "not YAML: %s, %s", y->problem, y->context);
	else
		problem_error(p->problems, &pos, "not YAML: %s", y->problem);
	p->failed = true;
	return false;
}

static bool fail_at(struct parse *p, struct config_pos pos, const char *why)
{
	problem_error(p->problems, &pos, "%s", why);
	p->failed = true;
	return false;
}

static bool count_nodes(struct parse *p, struct config_pos pos, uint32_t nodes)
{
	if (*p->nodes_left >= nodes) {
		*p->nodes_left -= nodes;
		return true;
	}
	problem_error(p->problems, &pos,
		      "too large: a configuration may hold %d values, aliases counted in full",
		      NODES_MOST);
	p->failed = true;
	return false;
}

static uint32_t node_weight(const struct config_node *n, uint32_t most)
{
	uint32_t weight = 1;

	for (uint32_t i = 0; n->kind == NODE_MAP && i < n->count && weight <= most; i++)
		weight += node_weight(n->entries[i].value, most - weight);
	for (uint32_t i = 0; n->kind == NODE_LIST && i < n->count && weight <= most; i++)
		weight += node_weight(n->items[i], most - weight);
	return weight;
}

/* The anchor's slot, or -1 when the node has none. The same name again hides the earlier one. */
static int anchor_begin(struct parse *p, const yaml_char_t *name, struct config_pos pos)
{
	if (!name)
		return -1;
	if (p->anchor_count == ANCHORS_MOST) {
		problem_error(p->problems, &pos, "more than %d anchors", ANCHORS_MOST);
		p->failed = true;
		return -1;
	}
	p->anchors[p->anchor_count] =
		(struct anchor){ text_of(p, name, strlen((const char *)name)), NULL };
	return (int)p->anchor_count++;
}

static struct config_node *alias_node(struct parse *p, const yaml_char_t *name,
				      struct config_pos pos)
{
	for (uint32_t i = p->anchor_count; i-- > 0;) {
		const struct anchor *a = &p->anchors[i];

		if (!str_is(a->name, (const char *)name))
			continue;
		if (!a->node)
			break;
		if (!count_nodes(p, pos, node_weight(a->node, *p->nodes_left)))
			return NULL;
		return a->node;
	}
	problem_error(p->problems, &pos, "unknown anchor '%s' referenced", (const char *)name);
	p->failed = true;
	return NULL;
}

static char quote_of(yaml_scalar_style_t style)
{
	if (style == YAML_SINGLE_QUOTED_SCALAR_STYLE)
		return '\'';
	if (style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
		return '"';
	return style == YAML_PLAIN_SCALAR_STYLE ? 0 : '|';
}

static struct config_node *scalar_node(struct parse *p, const yaml_event_t *event)
{
	struct config_pos pos = pos_of(p, event->start_mark);
	bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	struct str text = text_of(p, event->data.scalar.value, event->data.scalar.length);
	struct config_node *n;

	if (plain && (text.len == 0 || str_is(text, "~") || str_is(text, "null") ||
		      str_is(text, "Null") || str_is(text, "NULL")))
		return node_new(p->arena, NODE_NULL, pos);
	n = node_new(p->arena, NODE_SCALAR, pos);
	n->text = text;
	n->quoted = !plain;
	n->quote = quote_of(event->data.scalar.style);
	return n;
}

static struct config_node *read_node(struct parse *p, yaml_event_t *event, uint32_t depth);

/* "<<": the entries of another map, or of several, unless this one has them. */
static bool merge_key(struct parse *p, struct config_node *map, const struct config_node *from)
{
	for (uint32_t i = 0; from->kind == NODE_LIST && i < from->count; i++)
		if (from->items[i]->kind != NODE_MAP || !merge_key(p, map, from->items[i]))
			return fail_at(p, from->pos, "map merge requires map or list of maps");
	if (from->kind == NODE_LIST)
		return true;
	if (from->kind != NODE_MAP)
		return fail_at(p, from->pos, "map merge requires map or list of maps");
	for (uint32_t i = 0; i < from->count; i++) {
		const struct config_entry *e = &from->entries[i];

		if (!node_entry(map, e->key))
			node_add(p->arena, map, e->key, e->pos, e->value);
	}
	return true;
}

static bool add_entry(struct parse *p, struct config_node *map, struct str key,
		      struct config_pos pos, struct config_node *value)
{
	const struct config_entry *old = node_entry(map, key);

	if (old) {
		problem_error(p->problems, &pos, "mapping key \"%.*s\" already defined at line %u",
			      STR_ARG(key), old->pos.line);
		p->failed = true;
		return false;
	}
	if (map->count >= KEYS_MOST)
		return fail_at(p, pos, "more than 4096 keys in one map");
	node_add(p->arena, map, key, pos, value);
	return true;
}

static bool read_map(struct parse *p, struct config_node *map, uint32_t depth)
{
	struct config_node *merges[8];
	uint32_t merge_count = 0;

	for (;;) {
		struct config_pos pos;
		struct config_node *value;
		struct str key;
		yaml_event_t event;
		bool merge;

		if (!next_event(p, &event))
			return false;
		if (event.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&event);
			break;
		}
		pos = pos_of(p, event.start_mark);
		if (event.type != YAML_SCALAR_EVENT) {
			yaml_event_delete(&event);
			return fail_at(p, pos, "a key must be plain text");
		}
		key = text_of(p, event.data.scalar.value, event.data.scalar.length);
		merge = str_is(key, "<<") && event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		yaml_event_delete(&event);
		if (!next_event(p, &event))
			return false;
		value = read_node(p, &event, depth);
		if (!value)
			return false;
		if (merge && merge_count == sizeof(merges) / sizeof(merges[0]))
			return fail_at(p, pos, "too many merge keys in one map");
		if (merge)
			merges[merge_count++] = value;
		else if (!add_entry(p, map, key, pos, value))
			return false;
	}
	for (uint32_t i = 0; i < merge_count; i++)
		if (!merge_key(p, map, merges[i]))
			return false;
	return true;
}

static bool read_list(struct parse *p, struct config_node *list, uint32_t depth)
{
	for (;;) {
		struct config_node *item;
		yaml_event_t event;

		if (!next_event(p, &event))
			return false;
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return true;
		}
		item = read_node(p, &event, depth);
		if (!item)
			return false;
		node_append(p->arena, list, item);
	}
}

static struct config_node *read_collection(struct parse *p, enum node_kind kind,
					   struct config_pos pos, uint32_t depth)
{
	struct config_node *n = node_new(p->arena, kind, pos);
	bool ok;

	if (depth >= NODE_DEPTH_MOST) {
		problem_error(p->problems, &pos, "nested more than %d deep", NODE_DEPTH_MOST);
		p->failed = true;
		return NULL;
	}
	ok = kind == NODE_MAP ? read_map(p, n, depth + 1) : read_list(p, n, depth + 1);
	return ok ? n : NULL;
}

/* Consumes the event and, for a collection, all up to its end. */
static struct config_node *read_node(struct parse *p, yaml_event_t *event, uint32_t depth)
{
	struct config_pos pos = pos_of(p, event->start_mark);
	struct config_node *n = NULL;
	int anchor = -1;

	if (!count_nodes(p, pos, 1)) {
		yaml_event_delete(event);
		return NULL;
	}
	switch (event->type) {
	case YAML_ALIAS_EVENT:
		n = alias_node(p, event->data.alias.anchor, pos);
		yaml_event_delete(event);
		break;
	case YAML_SCALAR_EVENT:
		anchor = anchor_begin(p, event->data.scalar.anchor, pos);
		n = scalar_node(p, event);
		yaml_event_delete(event);
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = anchor_begin(p, event->data.mapping_start.anchor, pos);
		yaml_event_delete(event);
		n = read_collection(p, NODE_MAP, pos, depth);
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = anchor_begin(p, event->data.sequence_start.anchor, pos);
		yaml_event_delete(event);
		n = read_collection(p, NODE_LIST, pos, depth);
		break;
	default:
		yaml_event_delete(event);
		fail_at(p, pos, "not YAML: unexpected end of the document");
		return NULL;
	}
	if (anchor >= 0)
		p->anchors[anchor].node = n;
	return p->failed ? NULL : n;
}

/* Skips stream and document starts; the first event of content, or the end of the stream. */
static bool document_begin(struct parse *p, yaml_event_t *event)
{
	while (next_event(p, event)) {
		if (event->type != YAML_STREAM_START_EVENT &&
		    event->type != YAML_DOCUMENT_START_EVENT)
			return true;
		yaml_event_delete(event);
	}
	return false;
}

static bool document_end(struct parse *p)
{
	yaml_event_t event;
	bool done = false;

	while (!done && next_event(p, &event)) {
		struct config_pos pos = pos_of(p, event.start_mark);
		yaml_event_type_t type = event.type;

		yaml_event_delete(&event);
		if (type == YAML_DOCUMENT_START_EVENT)
			return fail_at(p, pos, "a second YAML document: only one is read");
		done = type == YAML_STREAM_END_EVENT;
	}
	return done;
}

static struct config_node *parse_document(struct parse *p)
{
	struct config_node *root;
	yaml_event_t event;

	if (!document_begin(p, &event))
		return NULL;
	if (event.type == YAML_STREAM_END_EVENT) {
		yaml_event_delete(&event);
		return node_new(p->arena, NODE_NULL, (struct config_pos){ p->file, 1, 1 });
	}
	root = read_node(p, &event, 0);
	return root && document_end(p) ? root : NULL;
}

struct config_node *node_parse(struct arena *a, struct str yaml, const char *file,
			       uint32_t *nodes_left, struct problems *problems)
{
	struct parse p = {
		.arena = a, .file = file, .nodes_left = nodes_left, .problems = problems
	};
	struct config_node *root;
	int ok;

	if (yaml.len > NODE_SOURCE_BYTES_MOST) {
		problem_error(problems, &(struct config_pos){ .file = file },
			      "has %zu bytes, at most %d are read", yaml.len,
			      NODE_SOURCE_BYTES_MOST);
		return NULL;
	}
	ok = yaml_parser_initialize(&p.yaml);
	assert(ok);
	yaml_parser_set_input_string(&p.yaml, (const unsigned char *)(yaml.ptr ? yaml.ptr : ""),
				     yaml.len);
	root = parse_document(&p);
	yaml_parser_delete(&p.yaml);
	return root;
}
