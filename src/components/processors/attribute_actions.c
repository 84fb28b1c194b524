#include "components/processors/attribute_actions.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "components/hash_text.h"

static const char *const verbs[] = { "insert", "update",  "upsert",  "delete",
				     "hash",   "extract", "convert", NULL };

#define OFF(member) .offset = offsetof(struct attribute_action, member)

/* clang-format off */
static const struct config_field action_fields[] = {
	{ .name = "key", .kind = CONFIG_STRING, OFF(key_text), .help = "the attribute" },
	{ .name = "action", .kind = CONFIG_ENUM, OFF(verb), .choices = verbs, .required = true, .help = "what to do" },
	{ .name = "value", .kind = CONFIG_ANY, OFF(value_node), .help = "what to set" },
	{ .name = "from_attribute", .kind = CONFIG_STRING, OFF(from_attribute), .help = "set what this one has" },
	{ .name = "from_context", .kind = CONFIG_STRING, OFF(from_context), .help = "client.address: the sender's" },
	{ .name = "default_value", .kind = CONFIG_ANY, OFF(default_node), .help = "where from_... has nothing" },
	{ .name = "pattern", .kind = CONFIG_STRING, OFF(pattern), .help = "regex: of keys (delete, hash), of the value (extract)" },
	{ .name = "converted_type", .kind = CONFIG_STRING, OFF(converted_type), .help = "int, double or string (convert)" },
	{ 0 },
};
/* clang-format on */

/* ---- values of the configuration ---- */

static struct any_value scalar_value(const struct config_node *n)
{
	struct any_value v = { .kind = ANY_STRING, .string = n->text };
	char text[64], *end;
	int64_t whole;
	double real;

	if (n->quoted)
		return v;
	if (str_is(n->text, "true") || str_is(n->text, "false"))
		return (struct any_value){ .kind = ANY_BOOL, .boolean = str_is(n->text, "true") };
	if (str_to_i64(n->text, &whole))
		return (struct any_value){ .kind = ANY_INT, .integer = whole };
	if (n->text.len == 0 || n->text.len >= sizeof(text) ||
	    !strchr("0123456789+-.", n->text.ptr[0]))
		return v;
	memcpy(text, n->text.ptr, n->text.len);
	text[n->text.len] = 0;
	real = strtod(text, &end);
	if (*end || !isfinite(real))
		return v;
	return (struct any_value){ .kind = ANY_DOUBLE, .real = real };
}

struct any_value any_value_of_node(struct arena *arena, const struct config_node *n)
{
	struct any_value v = { .kind = ANY_EMPTY };
	struct any_value *values;
	struct key_value *pairs;

	if (!n || n->kind == NODE_NULL)
		return v;
	if (n->kind == NODE_SCALAR)
		return scalar_value(n);
	if (n->kind == NODE_LIST) {
		values = arena_alloc_array(arena, n->count, sizeof(*values));
		assert(values);
		for (uint32_t i = 0; i < n->count; i++)
			values[i] = any_value_of_node(arena, n->items[i]);
		return (struct any_value){ .kind = ANY_ARRAY, .array = { values, n->count } };
	}
	pairs = arena_alloc_array(arena, n->count, sizeof(*pairs));
	assert(pairs);
	for (uint32_t i = 0; i < n->count; i++)
		pairs[i] = (struct key_value){ .key = n->entries[i].key,
					       .value = any_value_of_node(arena,
									  n->entries[i].value) };
	return (struct any_value){ .kind = ANY_KVLIST, .kvlist = { pairs, n->count } };
}

/* ---- the configuration ---- */

static bool sets(const struct attribute_action *a)
{
	return a->verb <= ATTRIBUTE_UPSERT;
}

/* What is wrong with the words of an action, or NULL. */
static const char *fault_of(const struct attribute_action *a)
{
	int sources =
		(a->value_node != NULL) + (a->from_attribute != NULL) + (a->from_context != NULL);
	bool by_pattern = a->verb == ATTRIBUTE_DELETE || a->verb == ATTRIBUTE_HASH;

	if (!a->key_text && !(by_pattern && a->pattern))
		return "\"key\" is missing";
	if (sets(a) && sources != 1)
		return "one of \"value\", \"from_attribute\" and \"from_context\" is needed";
	if (!sets(a) && sources)
		return "\"value\", \"from_attribute\" and \"from_context\" are for insert, update "
		       "and upsert";
	if (a->from_context && strcmp(a->from_context, "client.address") != 0)
		return "from_context can be \"client.address\" alone: requests carry no other "
		       "context here";
	if (a->pattern && !by_pattern && a->verb != ATTRIBUTE_EXTRACT)
		return "\"pattern\" is for delete, hash and extract";
	if (a->verb == ATTRIBUTE_EXTRACT && !a->pattern)
		return "extract needs a \"pattern\"";
	if ((a->verb == ATTRIBUTE_CONVERT) != (a->converted_type != NULL))
		return "convert, and nothing else, needs a \"converted_type\"";
	if (a->converted_type && strcmp(a->converted_type, "int") != 0 &&
	    strcmp(a->converted_type, "double") != 0 && strcmp(a->converted_type, "string") != 0)
		return "converted_type must be int, double or string";
	return NULL;
}

static bool all_groups_named(const struct regex *r)
{
	for (uint32_t i = 1; i <= regex_group_count(r); i++)
		if (!regex_group_name(r, i))
			return false;
	return regex_group_count(r) > 0;
}

static void read_pattern(struct attribute_action *a, const struct config_node *n, const char *path,
			 struct problems *problems)
{
	const struct config_node *pattern = node_get(n, "pattern");
	const struct config_pos *pos = pattern ? &pattern->pos : &n->pos;
	struct err err;

	a->regex = regex_new(str_cstr(a->pattern),
			     a->verb == ATTRIBUTE_EXTRACT ? REGEX_GROUPS : REGEX_WITHIN, &err);
	if (!a->regex)
		problem_error(problems, pos, "%s: %s", path, err.msg);
	else if (a->verb == ATTRIBUTE_EXTRACT && !all_groups_named(a->regex))
		problem_error(
			problems, pos,
			"%s: every group of extract's pattern needs a name, and there must be "
			"one: (?P<name>...)",
			path);
}

static void read_action(struct attribute_actions *actions, struct attribute_action *a,
			const struct config_node *n, const char *path, struct problems *problems)
{
	uint32_t errors = problems->error_count;
	const char *fault;

	if (n->kind != NODE_MAP) {
		problem_error(problems, &n->pos, "%s must be a map, not '%s'", path,
			      node_kind_name(n));
		return;
	}
	options_fill(action_fields, a, n, path, actions->arena, problems);
	if (problems->error_count != errors)
		return;
	fault = fault_of(a);
	if (fault) {
		problem_error(problems, &n->pos, "%s: %s", path, fault);
		return;
	}
	if (a->key_text)
		a->key = str_cstr(a->key_text);
	a->value = any_value_of_node(actions->arena, a->value_node);
	a->fallback = any_value_of_node(actions->arena, a->default_node);
	actions->adds |= a->verb == ATTRIBUTE_INSERT || a->verb == ATTRIBUTE_UPSERT;
	if (a->pattern)
		read_pattern(a, n, path, problems);
}

void attribute_actions_read(struct attribute_actions *actions, const struct config_node *list,
			    const char *path, struct arena *arena, struct problems *problems)
{
	char at[256];

	actions->arena = arena;
	pthread_mutex_init(&actions->lock, NULL);
	if (!list || list->kind == NODE_NULL)
		return;
	if (list->kind != NODE_LIST) {
		problem_error(problems, &list->pos, "%s must be a list, not '%s'", path,
			      node_kind_name(list));
		return;
	}
	actions->items = arena_zalloc(arena, list->count * sizeof(*actions->items));
	assert(actions->items);
	actions->count = list->count;
	for (uint32_t i = 0; i < list->count; i++) {
		snprintf(at, sizeof(at), "%s[%u]", path, i);
		read_action(actions, &actions->items[i], list->items[i], at, problems);
	}
}

void attribute_actions_release(struct attribute_actions *actions)
{
	for (uint32_t i = 0; i < actions->count; i++)
		regex_free(actions->items[i].regex);
	if (actions->arena)
		pthread_mutex_destroy(&actions->lock);
	*actions = (struct attribute_actions){ 0 };
}

/* ---- one list ---- */

struct apply {
	struct attribute_actions *actions;
	const struct attribute_action *a;
	struct edit_list *l;
	struct arena *scratch;
	const char *peer;
	bool changed;
	struct err *err;
};

static bool matches(struct attribute_actions *actions, const struct attribute_action *a,
		    struct str key, bool *out, struct err *err)
{
	bool ok;

	pthread_mutex_lock(&actions->lock);
	ok = regex_match(a->regex, key, out, err);
	pthread_mutex_unlock(&actions->lock);
	return ok;
}

/* By key, or by pattern where there is one. */
static bool concerns(struct attribute_actions *actions, const struct attribute_action *a,
		     struct str key, bool *out, struct err *err)
{
	*out = a->key.len && str_equal(a->key, key);
	if (*out || !a->regex || a->verb == ATTRIBUTE_EXTRACT)
		return true;
	return matches(actions, a, key, out, err);
}

bool attribute_actions_touch(struct attribute_actions *actions, struct str key)
{
	struct err ignored;
	bool yes;

	for (uint32_t i = 0; i < actions->count; i++)
		if (!concerns(actions, &actions->items[i], key, &yes, &ignored) || yes)
			return true;
	return false;
}

static struct str peer_host(struct apply *x)
{
	struct str peer = str_cstr(x->peer);
	size_t n = peer.len;

	while (n && peer.ptr[n - 1] != ':')
		n--;
	if (n)
		peer.len = n - 1;
	if (peer.len > 2 && peer.ptr[0] == '[')
		peer = str_from(peer.ptr + 1, peer.len - 2);
	return peer;
}

static struct any_value source_value(struct apply *x)
{
	const struct edit_attribute *from;
	struct str host;

	if (x->a->from_attribute) {
		from = edit_find(x->l, str_cstr(x->a->from_attribute));
		return from ? from->value : x->a->fallback;
	}
	if (x->a->from_context) {
		host = peer_host(x);
		return host.len ? (struct any_value){ .kind = ANY_STRING, .string = host }
				: x->a->fallback;
	}
	return x->a->value;
}

static void put(struct apply *x, struct str key, const struct any_value *v)
{
	const struct edit_attribute *old = edit_find(x->l, key);
	struct any_value copy = *v;

	copy.unknown = NULL; /* what a newer sender wrote beside another attribute stays there */
	if (old && any_value_equal(&old->value, &copy))
		return;
	edit_set(x->l, key, &copy);
	x->changed = true;
}

static bool apply_set(struct apply *x)
{
	bool there = edit_find(x->l, x->a->key) != NULL;
	struct any_value v;

	if (there ? x->a->verb == ATTRIBUTE_INSERT : x->a->verb == ATTRIBUTE_UPDATE)
		return true;
	v = source_value(x);
	if (v.kind != ANY_EMPTY)
		put(x, x->a->key, &v);
	return true;
}

static bool apply_delete(struct apply *x)
{
	bool yes;

	for (uint32_t i = 0; i < x->l->count;) {
		if (!concerns(x->actions, x->a, x->l->items[i].key, &yes, x->err))
			return false;
		if (yes)
			edit_remove(x->l, i);
		else
			i++;
		x->changed |= yes;
	}
	return true;
}

static struct str dup_view(struct apply *x, const struct buf *b)
{
	struct str s = str_dup(x->scratch, buf_view(b));

	assert(s.ptr); /* the scratch has no limit */
	return s;
}

/* Bytes of the value as the Collector hashes them. */
static void append_bytes(struct buf *b, const struct any_value *v)
{
	uint64_t bits = v->kind == ANY_INT ? (uint64_t)v->integer : 0;

	if (v->kind == ANY_DOUBLE)
		memcpy(&bits, &v->real, sizeof(bits));
	if (v->kind == ANY_STRING || v->kind == ANY_BYTES)
		buf_str(b, v->string);
	else if (v->kind == ANY_BOOL)
		buf_char(b, v->boolean);
	else if (v->kind == ANY_INT || v->kind == ANY_DOUBLE)
		for (int i = 0; i < 8; i++)
			buf_char(b, (char)(bits >> 8 * i));
	else
		any_value_append_text(b, v);
}

static void hash_value(struct apply *x, struct edit_attribute *a)
{
	struct buf bytes, hex;

	buf_init(&bytes, 0);
	buf_init(&hex, 0);
	append_bytes(&bytes, &a->value);
	if (bytes.len)
		hash_text_sha256(&hex, buf_view(&bytes));
	a->value = (struct any_value){ .kind = ANY_STRING, .string = dup_view(x, &hex) };
	a->entry = EDIT_NEW;
	x->changed = true;
	buf_release(&bytes);
	buf_release(&hex);
}

static bool apply_hash(struct apply *x)
{
	bool yes;

	for (uint32_t i = 0; i < x->l->count; i++) {
		if (!concerns(x->actions, x->a, x->l->items[i].key, &yes, x->err))
			return false;
		if (yes)
			hash_value(x, &x->l->items[i]);
	}
	return true;
}

static bool apply_extract(struct apply *x)
{
	const struct edit_attribute *from = edit_find(x->l, x->a->key);
	struct str groups[REGEX_GROUPS_MOST + 1];
	bool found, ok;

	if (!from || from->value.kind != ANY_STRING)
		return true;
	pthread_mutex_lock(&x->actions->lock);
	ok = regex_groups(x->a->regex, from->value.string, groups, &found, x->err);
	for (uint32_t i = 1; ok && found && i <= regex_group_count(x->a->regex); i++)
		groups[i] = str_dup(x->scratch, groups[i]);
	pthread_mutex_unlock(&x->actions->lock);
	for (uint32_t i = 1; ok && found && i <= regex_group_count(x->a->regex); i++) {
		struct any_value v = { .kind = ANY_STRING, .string = groups[i] };

		put(x, str_cstr(regex_group_name(x->a->regex, i)), &v);
	}
	return ok;
}

/* False where the value has no such form: it stays. */
static bool converted(struct apply *x, const struct any_value *v, struct any_value *out)
{
	char type = x->a->converted_type[0];
	char number[64], *end;
	struct buf b;

	if (type == 's') {
		buf_init(&b, 0);
		any_value_append_text(&b, v);
		*out = (struct any_value){ .kind = ANY_STRING, .string = dup_view(x, &b) };
		buf_release(&b);
		return true;
	}
	*out = (struct any_value){ .kind = type == 'i' ? ANY_INT : ANY_DOUBLE };
	if (v->kind == ANY_INT || v->kind == ANY_BOOL) {
		int64_t whole = v->kind == ANY_INT ? v->integer : v->boolean;

		if (type == 'i')
			out->integer = whole;
		else
			out->real = (double)whole;
		return true;
	}
	if (v->kind == ANY_DOUBLE) {
		out->real = v->real;
		if (type == 'i' &&
		    !(v->real >= -9223372036854775808.0 && v->real < 9223372036854775808.0))
			return false;
		if (type == 'i')
			out->integer = (int64_t)v->real;
		return true;
	}
	if (v->kind != ANY_STRING || v->string.len == 0 || v->string.len >= sizeof(number))
		return false;
	if (type == 'i')
		return str_to_i64(v->string, &out->integer);
	memcpy(number, v->string.ptr, v->string.len);
	number[v->string.len] = 0;
	out->real = strtod(number, &end);
	return !*end;
}

static bool apply_convert(struct apply *x)
{
	const struct edit_attribute *from = edit_find(x->l, x->a->key);
	struct any_value v;

	if (from && converted(x, &from->value, &v))
		put(x, x->a->key, &v);
	return true;
}

bool attribute_actions_apply(struct attribute_actions *actions, struct edit_list *l,
			     struct arena *scratch, const char *peer, bool *changed,
			     struct err *err)
{
	struct apply x = {
		.actions = actions, .l = l, .scratch = scratch, .peer = peer, .err = err
	};
	bool ok = true;

	for (uint32_t i = 0; i < actions->count && ok; i++) {
		x.a = &actions->items[i];
		if (sets(x.a))
			ok = apply_set(&x);
		else if (x.a->verb == ATTRIBUTE_DELETE)
			ok = apply_delete(&x);
		else if (x.a->verb == ATTRIBUTE_HASH)
			ok = apply_hash(&x);
		else if (x.a->verb == ATTRIBUTE_EXTRACT)
			ok = apply_extract(&x);
		else
			ok = apply_convert(&x);
	}
	*changed = x.changed;
	return ok;
}
