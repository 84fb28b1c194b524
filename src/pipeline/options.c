/* Text and nodes -> values of a state, by the table. */
#include "pipeline/options.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "pipeline/node.h"

struct filler {
	struct arena *arena;
	struct problems *problems;
};

/* One option on its way into the state. */
struct slot {
	const struct config_field *field;
	const char *path;               /* of the map that it is in */
	const struct config_node *map;  /* that map; NULL: all defaults */
	const struct config_node *node; /* NULL: from default_text */
	void *at;
	void *enabled_at; /* OPTIONAL */
};

static void fill_fields(struct filler *f, const struct config_field *fields, char *base,
			const struct config_node *node, const char *path);

static bool name_matches(const struct config_field *field, struct str key, bool *deprecated)
{
	*deprecated = false;
	if (str_equal_nocase(key, str_cstr(field->name)))
		return true;
	for (size_t i = 0; i < 4 && field->aliases[i]; i++) {
		bool old = field->aliases[i][0] == '!';

		if (str_equal_nocase(key, str_cstr(field->aliases[i] + old))) {
			*deprecated = old;
			return true;
		}
	}
	return false;
}

static const struct config_field *field_of(const struct config_field *fields, struct str key,
					   bool *deprecated)
{
	for (; fields->name; fields++)
		if (name_matches(fields, key, deprecated))
			return fields;
	return NULL;
}

static const struct config_entry *entry_of(const struct config_field *field,
					   const struct config_node *map)
{
	bool deprecated;

	for (uint32_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
		if (name_matches(field, map->entries[i].key, &deprecated))
			return &map->entries[i];
	return NULL;
}

const struct config_node *options_node(const struct config_field *field,
				       const struct config_node *map)
{
	const struct config_entry *e = entry_of(field, map);

	return e ? e->value : NULL;
}

static void report_unknown(struct filler *f, const struct config_field *fields,
			   const struct config_entry *e, const char *path)
{
	const char *names[256], *near;
	size_t count = 0;

	for (; fields->name && count < sizeof(names) / sizeof(names[0]); fields++)
		names[count++] = fields->name;
	near = text_suggest(e->key, names, count);
	problem_error(f->problems, &e->pos,
		      "%s: unknown key \"%.*s\"%s%s%s; '%s' has invalid keys: %.*s", path,
		      STR_ARG(e->key), near ? " (did you mean \"" : "", near ? near : "",
		      near ? "\"?)" : "", path, STR_ARG(e->key));
}

static void check_keys(struct filler *f, const struct config_field *fields,
		       const struct config_node *map, const char *path)
{
	for (uint32_t i = 0; i < map->count; i++) {
		const struct config_entry *e = &map->entries[i];
		const struct config_entry *first;
		const struct config_field *field;
		bool deprecated;

		field = field_of(fields, e->key, &deprecated);
		if (!field) {
			report_unknown(f, fields, e, path);
			continue;
		}
		first = entry_of(field, map);
		if (first != e)
			problem_error(f->problems, &e->pos,
				      "%s: \"%.*s\" is \"%.*s\" of line %u again", path,
				      STR_ARG(e->key), STR_ARG(first->key), first->pos.line);
		else if (deprecated)
			problem_warn(f->problems, &e->pos,
				     "%s: \"%.*s\" is deprecated; use \"%s\" instead", path,
				     STR_ARG(e->key), field->name);
	}
}

static const char *type_name(enum config_kind kind)
{
	switch (kind) {
	case CONFIG_BOOL:
		return "bool";
	case CONFIG_UINT32:
	case CONFIG_UINT64:
	case CONFIG_SIZE_MIB:
		return "int";
	case CONFIG_DOUBLE:
		return "float64";
	case CONFIG_DURATION:
		return "time.Duration";
	case CONFIG_SIZE:
		return "size";
	case CONFIG_STRING:
	case CONFIG_SECRET:
	case CONFIG_ENUM:
		return "string";
	case CONFIG_STRINGS:
		return "[]string";
	case CONFIG_MAP:
	case CONFIG_SECTION:
	case CONFIG_OPTIONAL:
	case CONFIG_ANY:
		break;
	}
	return "map";
}

static const struct config_pos *slot_pos(const struct slot *s)
{
	return s->node ? &s->node->pos : s->map ? &s->map->pos : NULL;
}

/* The value is quoted unless it came of a reference: that may be a secret put in the wrong place.
 */
static void report_type(struct filler *f, const struct slot *s, const char *want)
{
	const struct config_node *n = s->node;
	bool show = n && n->kind == NODE_SCALAR && !n->reference.len;
	const char *kind = n ? node_kind_name(n) : "string";
	struct str got = show ? n->text : str_cstr(kind);

	problem_error(f->problems, slot_pos(s),
		      "%s: \"%s\" must be %s, got %s%.*s%s; '%s' expected type '%s', got "
		      "unconvertible type '%s'",
		      s->path, s->field->name, want, show ? "\"" : "", STR_ARG(got),
		      show ? "\"" : "", s->field->name, type_name(s->field->kind), kind);
}

static bool range_ok(struct filler *f, const struct slot *s, double v)
{
	const struct config_field *field = s->field;

	if (field->max <= field->min || (v >= field->min && v <= field->max))
		return true;
	if (field->kind == CONFIG_DURATION)
		problem_error(f->problems, slot_pos(s),
			      "%s: \"%s\" is %gs, must be between %gs and %gs", s->path,
			      field->name, v / 1e9, field->min / 1e9, field->max / 1e9);
	else
		problem_error(f->problems, slot_pos(s),
			      "%s: \"%s\" is %.15g, must be between %.15g and %.15g", s->path,
			      field->name, v, field->min, field->max);
	return false;
}

static void set_bool(struct filler *f, const struct slot *s, struct str text)
{
	bool yes = str_is(text, "true") || str_is(text, "True") || str_is(text, "TRUE");
	bool no = str_is(text, "false") || str_is(text, "False") || str_is(text, "FALSE");

	if (!yes && !no)
		report_type(f, s, "true or false");
	else
		*(bool *)s->at = yes;
}

static void set_uint(struct filler *f, const struct slot *s, struct str text)
{
	uint64_t v, scale = s->field->kind == CONFIG_SIZE_MIB ? 1 << 20 : 1;
	uint64_t most = s->field->kind == CONFIG_UINT32 ? UINT32_MAX : UINT64_MAX / scale;

	if (!str_to_u64(text, &v)) {
		report_type(f, s, "a whole number");
		return;
	}
	if (v > most) {
		problem_error(f->problems, slot_pos(s), "%s: \"%s\" is %.*s, must be at most %llu",
			      s->path, s->field->name, STR_ARG(text), (unsigned long long)most);
		return;
	}
	if (!range_ok(f, s, (double)v))
		return;
	if (s->field->kind == CONFIG_UINT32)
		*(uint32_t *)s->at = (uint32_t)v;
	else
		*(uint64_t *)s->at = v * scale;
}

static void set_double(struct filler *f, const struct slot *s, struct str text)
{
	char number[64], *end;
	double v;

	if (text.len == 0 || text.len >= sizeof(number)) {
		report_type(f, s, "a number");
		return;
	}
	memcpy(number, text.ptr, text.len);
	number[text.len] = 0;
	v = strtod(number, &end);
	if (*end || end == number || !isfinite(v))
		report_type(f, s, "a number");
	else if (range_ok(f, s, v))
		*(double *)s->at = v;
}

static void set_duration(struct filler *f, const struct slot *s, struct str text)
{
	struct err err;
	uint64_t ns;

	if (str_to_u64(text, &ns)) {
		if (ns)
			problem_warn(f->problems, slot_pos(s),
				     "%s: \"%s: %.*s\" has no unit and counts nanoseconds; write "
				     "for example \"%.*ss\"",
				     s->path, s->field->name, STR_ARG(text), STR_ARG(text));
	} else if (!duration_parse(text, &ns, &err)) {
		report_type(f, s, "a duration such as 10s or 1m30s");
		return;
	}
	if (range_ok(f, s, (double)ns))
		*(uint64_t *)s->at = ns;
}

static void set_size(struct filler *f, const struct slot *s, struct str text)
{
	struct err err;
	uint64_t bytes;

	if (!text_parse_size(text, &bytes, &err))
		report_type(f, s, "a size such as 64MiB");
	else if (range_ok(f, s, (double)bytes))
		*(uint64_t *)s->at = bytes;
}

static void set_enum(struct filler *f, const struct slot *s, struct str text)
{
	const char *const *choices = s->field->choices;
	const char *near;
	struct buf list;
	size_t count = 0;

	buf_init(&list, 4096);
	for (; choices[count]; count++) {
		if (str_equal_nocase(text, str_cstr(choices[count]))) {
			*(int *)s->at = (int)count;
			buf_release(&list);
			return;
		}
		buf_printf(&list, "%s%s", count ? ", " : "", choices[count]);
	}
	near = text_suggest(text, choices, count);
	problem_error(f->problems, slot_pos(s), "%s: \"%s\" is \"%.*s\"%s%s%s; valid values: %.*s",
		      s->path, s->field->name, STR_ARG(text), near ? " (did you mean \"" : "",
		      near ? near : "", near ? "\"?)" : "", STR_ARG(buf_view(&list)));
	buf_release(&list);
}

static void strings_add(struct filler *f, struct config_strings *list, struct str item)
{
	list->items = arena_grow(f->arena, list->items, list->count * sizeof(char *),
				 (list->count + 1) * sizeof(char *));
	assert(list->items);
	list->items[list->count++] = str_dup_cstr(f->arena, item);
}

static void strings_split(struct filler *f, struct config_strings *list, struct str text)
{
	struct str item;

	while (str_split(&text, ',', &item)) {
		item = str_trim(item);
		if (item.len)
			strings_add(f, list, item);
	}
}

static void set_strings(struct filler *f, const struct slot *s)
{
	struct config_strings list = { .given = true };
	const struct config_node *n = s->node;

	if (n->kind == NODE_SCALAR)
		strings_split(f, &list, n->text);
	for (uint32_t i = 0; n->kind == NODE_LIST && i < n->count; i++) {
		const struct config_node *item = n->items[i];

		if (item->kind == NODE_SCALAR || item->reference.len)
			strings_add(f, &list, item->text);
		else
			problem_error(f->problems, &item->pos,
				      "%s: \"%s\" must hold text, item %u is a %s", s->path,
				      s->field->name, i, node_kind_name(item));
	}
	if (n->kind == NODE_MAP)
		report_type(f, s, "a list");
	else
		*(struct config_strings *)s->at = list;
}

static void set_map(struct filler *f, const struct slot *s)
{
	struct config_pairs *pairs = s->at;
	const struct config_node *n = s->node;

	if (n->kind != NODE_MAP) {
		report_type(f, s, "a map of text");
		return;
	}
	pairs->items = arena_alloc_array(f->arena, n->count, sizeof(*pairs->items));
	assert(pairs->items);
	for (uint32_t i = 0; i < n->count; i++) {
		const struct config_entry *e = &n->entries[i];

		if (e->value->kind != NODE_SCALAR && e->value->kind != NODE_NULL &&
		    !e->value->reference.len) {
			problem_error(f->problems, &e->value->pos,
				      "%s: \"%s\" must hold text, \"%.*s\" is a %s", s->path,
				      s->field->name, STR_ARG(e->key), node_kind_name(e->value));
			continue;
		}
		pairs->items[pairs->count++] =
			(struct config_pair){ str_dup_cstr(f->arena, e->key),
					      str_dup_cstr(f->arena, e->value->text) };
	}
}

static const char *path_below(struct filler *f, const struct slot *s)
{
	return str_printf(f->arena, "%s::%s", s->path, s->field->name).ptr;
}

static void set_section(struct filler *f, const struct slot *s)
{
	if (s->field->kind == CONFIG_OPTIONAL)
		*(bool *)s->enabled_at = s->node != NULL;
	fill_fields(f, s->field->fields, s->at, s->node, path_below(f, s));
}

static void set_text(struct filler *f, const struct slot *s, struct str text)
{
	switch (s->field->kind) {
	case CONFIG_BOOL:
		set_bool(f, s, text);
		break;
	case CONFIG_UINT32:
	case CONFIG_UINT64:
	case CONFIG_SIZE_MIB:
		set_uint(f, s, text);
		break;
	case CONFIG_DOUBLE:
		set_double(f, s, text);
		break;
	case CONFIG_DURATION:
		set_duration(f, s, text);
		break;
	case CONFIG_SIZE:
		set_size(f, s, text);
		break;
	case CONFIG_STRING:
	case CONFIG_SECRET:
		*(const char **)s->at = str_dup_cstr(f->arena, text);
		break;
	case CONFIG_ENUM:
		set_enum(f, s, text);
		break;
	case CONFIG_STRINGS:
		strings_split(f, s->at, text);
		break;
	case CONFIG_MAP:
	case CONFIG_SECTION:
	case CONFIG_OPTIONAL:
	case CONFIG_ANY:
		assert(!"a default text for a map");
	}
}

static void set_node(struct filler *f, const struct slot *s)
{
	bool text_wanted = s->field->kind == CONFIG_STRING || s->field->kind == CONFIG_SECRET;

	switch (s->field->kind) {
	case CONFIG_STRINGS:
		set_strings(f, s);
		return;
	case CONFIG_MAP:
		set_map(f, s);
		return;
	case CONFIG_ANY:
		*(const struct config_node **)s->at = s->node;
		return;
	default:
		break;
	}
	if (s->node->kind == NODE_SCALAR || (text_wanted && s->node->reference.len))
		set_text(f, s, s->node->text);
	else
		report_type(f, s, text_wanted ? "text" : "a single value");
}

static void fill_field(struct filler *f, const struct slot *s)
{
	bool null = !s->node || (s->node->kind == NODE_NULL && s->node->text.len == 0);

	if (s->field->kind == CONFIG_SECTION || s->field->kind == CONFIG_OPTIONAL) {
		set_section(f, s);
		return;
	}
	/* The default goes in first, so that a state is whole even where the input is refused. */
	if (s->field->default_text) {
		struct slot preset = *s;

		preset.node = NULL;
		set_text(f, &preset, str_cstr(s->field->default_text));
	}
	if (!null)
		set_node(f, s);
	else if (s->field->required)
		problem_error(f->problems, slot_pos(s), "%s: requires a non-empty \"%s\"", s->path,
			      s->field->name);
}

static void fill_fields(struct filler *f, const struct config_field *fields, char *base,
			const struct config_node *node, const char *path)
{
	static const struct config_field none;

	if (!fields)
		fields = &none;
	if (node && node->kind != NODE_NULL && node->kind != NODE_MAP) {
		problem_error(f->problems, &node->pos,
			      "%s: must be a map, got %s; expected a map, got '%s'", path,
			      node_kind_name(node), node_kind_name(node));
		node = NULL;
	}
	if (node && node->kind == NODE_MAP)
		check_keys(f, fields, node, path);
	for (; fields->name; fields++) {
		struct slot s = { .field = fields,
				  .path = path,
				  .map = node,
				  .node = options_node(fields, node),
				  .at = base + fields->offset,
				  .enabled_at = base + fields->offset_enabled };

		fill_field(f, &s);
	}
}

void options_fill(const struct config_field *fields, void *state, const struct config_node *node,
		  const char *path, struct arena *arena, struct problems *problems)
{
	struct filler f = { .arena = arena, .problems = problems };

	fill_fields(&f, fields, state, node, path);
}
