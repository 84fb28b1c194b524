/* Functions that change the message: what a statement begins with. Names and parameters are the
 * Collector's. */
#include "components/ottl/expr.h"

#define FUNCTION(name)                                                                             \
	static bool name(struct ottl_run *r, const struct ottl_expr *call, struct ottl_value *out, \
			 struct err *err)

FUNCTION(set)
{
	struct ottl_value v;

	(void)out;
	return ottl_eval(r, call->args[1], &v, err) && ottl_set_path(r, call->args[0], &v.any, err);
}

/* ---- keys of a map ---- */

typedef bool keeps_fn(struct ottl_run *r, const struct ottl_expr *call, struct str key, bool *keeps,
		      struct err *err);

/* Leaves in the map what `keeps` keeps. */
static bool filter_keys(struct ottl_run *r, const struct ottl_expr *call, keeps_fn *keeps,
			struct err *err)
{
	bool keep = true, changed = false;

	ottl_load_attributes(r, call->args[0]);
	for (uint32_t i = 0; i < r->list.count; i += keep) {
		if (!keeps(r, call, r->list.items[i].key, &keep, err))
			return false;
		if (!keep)
			edit_remove(&r->list, i);
		changed |= !keep;
	}
	return !changed || edit_store(r->edit, &r->list, err);
}

static bool is_other_key(struct ottl_run *r, const struct ottl_expr *call, struct str key,
			 bool *keeps, struct err *err)
{
	(void)r;
	(void)err;
	*keeps = !str_equal(key, call->args[1]->literal.string);
	return true;
}

static bool matches_not(struct ottl_run *r, const struct ottl_expr *call, struct str key,
			bool *keeps, struct err *err)
{
	bool matches = false, ok;

	ok = ottl_regex_matches(r, call->regexes[1], key, MEMO_NONE, &matches, err);
	*keeps = !matches;
	return ok;
}

static bool matches(struct ottl_run *r, const struct ottl_expr *call, struct str key, bool *keeps,
		    struct err *err)
{
	return ottl_regex_matches(r, call->regexes[1], key, MEMO_NONE, keeps, err);
}

static bool in_list(const struct ottl_expr *list, struct str key)
{
	for (uint32_t i = 0; list && i < list->count; i++)
		if (list->items[i]->kind == EXPR_LITERAL &&
		    str_equal(list->items[i]->literal.string, key))
			return true;
	return false;
}

static bool is_listed(struct ottl_run *r, const struct ottl_expr *call, struct str key, bool *keeps,
		      struct err *err)
{
	(void)r;
	(void)err;
	*keeps = in_list(call->args[1], key);
	return true;
}

FUNCTION(delete_key)
{
	(void)out;
	return filter_keys(r, call, is_other_key, err);
}

FUNCTION(delete_matching_keys)
{
	(void)out;
	return filter_keys(r, call, matches_not, err);
}

FUNCTION(keep_keys)
{
	(void)out;
	return filter_keys(r, call, is_listed, err);
}

FUNCTION(keep_matching_keys)
{
	(void)out;
	return filter_keys(r, call, matches, err);
}

/* At most so many keys, those of the third parameter first. */
FUNCTION(limit)
{
	int64_t most = call->args[1]->literal.integer;
	uint32_t first = 0, kept = 0, total;

	(void)out;
	ottl_load_attributes(r, call->args[0]);
	total = r->list.count;
	for (uint32_t i = 0; i < total; i++)
		first += in_list(call->args[2], r->list.items[i].key);
	if (most < 0 || total <= (uint64_t)most)
		return true;
	for (uint32_t i = 0, others = 0; i < total; i++) {
		bool keep = in_list(call->args[2], r->list.items[i].key);

		if (!keep && others + first < (uint64_t)most) {
			others++;
			keep = true;
		}
		if (keep && kept < (uint64_t)most)
			r->list.items[kept++] = r->list.items[i];
	}
	r->list.count = kept;
	return edit_store(r->edit, &r->list, err);
}

/* ---- values of a map ---- */

/* No character of UTF-8 is cut in two. */
static struct str truncated(struct str s, size_t most)
{
	if (s.len <= most)
		return s;
	while (most && ((unsigned char)s.ptr[most] & 0xc0) == 0x80)
		most--;
	return str_head(s, most);
}

FUNCTION(truncate_all)
{
	int64_t most = call->args[1]->literal.integer;
	bool changed = false;

	(void)out;
	ottl_load_attributes(r, call->args[0]);
	for (uint32_t i = 0; i < r->list.count && most >= 0; i++) {
		struct edit_attribute *a = &r->list.items[i];

		if (a->value.kind != ANY_STRING || a->value.string.len <= (uint64_t)most)
			continue;
		a->value = (struct any_value){ .kind = ANY_STRING,
					       .string = truncated(a->value.string, (size_t)most) };
		a->entry = EDIT_NEW;
		changed = true;
	}
	return !changed || edit_store(r->edit, &r->list, err);
}

/* The text with all matches replaced, in the scratch; *changed is false where there are none. */
static bool replaced(struct ottl_run *r, struct ottl_regex *x, struct str s, struct str by,
		     struct str *out, bool *changed, struct err *err)
{
	struct buf b;
	bool ok;

	buf_init(&b, REGEX_REPLACED_MOST);
	pthread_mutex_lock(&x->lock);
	ok = regex_replace(x->regex, s, by, &b, changed, err);
	pthread_mutex_unlock(&x->lock);
	if (ok && *changed) {
		*out = str_dup(&r->scratch, buf_view(&b));
		ok = out->ptr || err_set(err, ERR_LIMIT, "a value is too long");
	}
	buf_release(&b);
	return ok;
}

/* The replacement: a string that may be made at run time. */
static bool replacement(struct ottl_run *r, const struct ottl_expr *e, struct str *out,
			struct err *err)
{
	struct ottl_value v;

	if (!ottl_eval(r, e, &v, err))
		return false;
	if (v.any.kind != ANY_STRING)
		return err_set(err, ERR_INVALID, "a replacement is %s, not a string",
			       any_kind_word(v.any.kind));
	*out = v.any.string;
	return true;
}

FUNCTION(replace_pattern)
{
	struct any_value v = { .kind = ANY_STRING };
	struct ottl_value old;
	bool changed = false;
	struct str by;

	(void)out;
	if (!ottl_eval(r, call->args[0], &old, err) || !replacement(r, call->args[2], &by, err))
		return false;
	if (old.any.kind != ANY_STRING)
		return true;
	if (!replaced(r, call->regexes[1], old.any.string, by, &v.string, &changed, err))
		return false;
	return !changed || ottl_set_path(r, call->args[0], &v, err);
}

static bool replace_in(struct ottl_run *r, const struct ottl_expr *call, struct edit_attribute *a,
		       struct str by, bool *changed, struct err *err)
{
	bool keys = str_is(call->args[1]->literal.string, "key");
	struct str text, old = keys ? a->key : a->value.string;

	if (!keys && a->value.kind != ANY_STRING)
		return true;
	if (!replaced(r, call->regexes[2], old, by, &text, changed, err) || !*changed)
		return err->kind == ERR_NONE;
	if (keys) {
		a->key = text;
		a->key_strindex.v = 0;
	} else {
		a->value = (struct any_value){ .kind = ANY_STRING, .string = text };
	}
	a->entry = EDIT_NEW;
	return true;
}

FUNCTION(replace_all_patterns)
{
	bool any = false, changed;
	struct str by;

	(void)out;
	if (!replacement(r, call->args[3], &by, err))
		return false;
	err->kind = ERR_NONE;
	ottl_load_attributes(r, call->args[0]);
	for (uint32_t i = 0; i < r->list.count; i++) {
		changed = false;
		if (!replace_in(r, call, &r->list.items[i], by, &changed, err))
			return false;
		any |= changed;
	}
	return !any || edit_store(r->edit, &r->list, err);
}

FUNCTION(merge_maps)
{
	struct str strategy = call->args[2]->literal.string;
	struct ottl_value source;
	bool there;

	(void)out;
	if (!ottl_eval(r, call->args[1], &source, err))
		return false;
	if (source.any.kind != ANY_KVLIST)
		return err_set(err, ERR_INVALID, "merge_maps() takes from a map, not %s",
			       any_kind_word(source.any.kind));
	ottl_load_attributes(r, call->args[0]);
	for (uint32_t i = 0; i < source.any.kvlist.count; i++) {
		const struct key_value *kv = &source.any.kvlist.pairs[i];

		there = edit_find(&r->list, kv->key) != NULL;
		if (str_is(strategy, "upsert") || there == str_is(strategy, "update"))
			edit_set(&r->list, kv->key, &kv->value);
	}
	return edit_store(r->edit, &r->list, err);
}

#define PARAMETER(n, k, t) .name = (n), .kind = PARAMETER_##k, .types = (t)
#define TARGET(t)                              \
	{                                      \
		PARAMETER("target", TARGET, t) \
	}
#define LITERAL(n, t)                    \
	{                                \
		PARAMETER(n, LITERAL, t) \
	}
#define VALUE(n, t)                    \
	{                              \
		PARAMETER(n, VALUE, t) \
	}
#define REGEX(n)                                 \
	{                                        \
		PARAMETER(n, REGEX, TYPE_STRING) \
	}
#define REGEX_GROUPS(n)                                 \
	{                                               \
		PARAMETER(n, REGEX_GROUPS, TYPE_STRING) \
	}

/* clang-format off */
const struct ottl_function ottl_editors[] = {
	{ .name = "set", .eval = set, .parameters = { TARGET(TYPE_ANY), VALUE("value", TYPE_ANY) } },
	{ .name = "delete_key", .eval = delete_key, .parameters = { TARGET(TYPE_MAP), LITERAL("key", TYPE_STRING) } },
	{ .name = "delete_matching_keys", .eval = delete_matching_keys, .parameters = { TARGET(TYPE_MAP), REGEX("pattern") } },
	{ .name = "keep_keys", .eval = keep_keys,
	  .parameters = { TARGET(TYPE_MAP), { PARAMETER("keys", STRINGS, TYPE_LIST) } } },
	{ .name = "keep_matching_keys", .eval = keep_matching_keys, .parameters = { TARGET(TYPE_MAP), REGEX("pattern") } },
	{ .name = "limit", .eval = limit,
	  .parameters = { TARGET(TYPE_MAP), LITERAL("limit", TYPE_INT),
			  { PARAMETER("priority_keys", STRINGS, TYPE_LIST), .optional = true } } },
	{ .name = "truncate_all", .eval = truncate_all, .parameters = { TARGET(TYPE_MAP), LITERAL("limit", TYPE_INT) } },
	{ .name = "replace_pattern", .eval = replace_pattern,
	  .parameters = { TARGET(TYPE_STRING), REGEX_GROUPS("regex"), VALUE("replacement", TYPE_STRING) } },
	{ .name = "replace_all_patterns", .eval = replace_all_patterns,
	  .parameters = { TARGET(TYPE_MAP), { PARAMETER("mode", LITERAL, TYPE_STRING), .choices = { "key", "value" } },
			  REGEX_GROUPS("regex"), VALUE("replacement", TYPE_STRING) } },
	{ .name = "merge_maps", .eval = merge_maps,
	  .parameters = { TARGET(TYPE_MAP), VALUE("source", TYPE_MAP),
			  { PARAMETER("strategy", LITERAL, TYPE_STRING), .choices = { "insert", "update", "upsert" } } } },
	{ 0 },
};
/* clang-format on */
