#include "components/ottl/expr.h"

#include "base/hex.h"

#define BASICS(context)                                                                      \
	{ context, "attributes", PATH_ATTRIBUTES, TYPE_MAP, true },                          \
	{                                                                                    \
		context, "dropped_attributes_count", PATH_DROPPED_ATTRIBUTES, TYPE_INT, true \
	}
#define STACK_END(end, id)                                                       \
	{ OTTL_SAMPLE, end ".function", id##_FUNCTION, TYPE_STRING, false },     \
		{ OTTL_SAMPLE, end ".file", id##_FILE, TYPE_STRING, false },     \
		{ OTTL_SAMPLE, end ".binary", id##_BINARY, TYPE_STRING, false }, \
	{                                                                        \
		OTTL_SAMPLE, end ".kind", id##_KIND, TYPE_STRING, false          \
	}

const struct ottl_path ottl_paths[] = {
	BASICS(OTTL_RESOURCE),
	{ OTTL_RESOURCE, "schema_url", PATH_SCHEMA_URL, TYPE_STRING, true },
	BASICS(OTTL_SCOPE),
	{ OTTL_SCOPE, "schema_url", PATH_SCHEMA_URL, TYPE_STRING, true },
	{ OTTL_SCOPE, "name", PATH_SCOPE_NAME, TYPE_STRING, true },
	{ OTTL_SCOPE, "version", PATH_SCOPE_VERSION, TYPE_STRING, true },
	BASICS(OTTL_PROFILE),
	{ OTTL_PROFILE, "profile_id", PATH_PROFILE_ID, TYPE_BYTES, true },
	{ OTTL_PROFILE, "profile_id.string", PATH_PROFILE_ID_TEXT, TYPE_STRING, true },
	{ OTTL_PROFILE, "time_unix_nano", PATH_TIME, TYPE_INT, true },
	{ OTTL_PROFILE, "time", PATH_TIME, TYPE_INT, true },
	{ OTTL_PROFILE, "duration_unix_nano", PATH_DURATION, TYPE_INT, true },
	{ OTTL_PROFILE, "duration", PATH_DURATION, TYPE_INT, true },
	{ OTTL_PROFILE, "period", PATH_PERIOD, TYPE_INT, true },
	{ OTTL_PROFILE, "period_type.type", PATH_PERIOD_TYPE, TYPE_STRING, true },
	{ OTTL_PROFILE, "period_type.unit", PATH_PERIOD_UNIT, TYPE_STRING, true },
	{ OTTL_PROFILE, "sample_type", PATH_SAMPLE_TYPE, TYPE_STRING, true },
	{ OTTL_PROFILE, "sample_type.type", PATH_SAMPLE_TYPE, TYPE_STRING, true },
	{ OTTL_PROFILE, "sample_type.unit", PATH_SAMPLE_UNIT, TYPE_STRING, true },
	{ OTTL_PROFILE, "original_payload_format", PATH_PAYLOAD_FORMAT, TYPE_STRING, true },
	{ OTTL_PROFILE, "original_payload", PATH_PAYLOAD, TYPE_BYTES, true },
	{ OTTL_SAMPLE, "attributes", PATH_ATTRIBUTES, TYPE_MAP, true },
	{ OTTL_SAMPLE, "value", PATH_VALUE, TYPE_INT, false },
	{ OTTL_SAMPLE, "events", PATH_EVENTS, TYPE_INT, false },
	{ OTTL_SAMPLE, "trace_id", PATH_TRACE_ID, TYPE_BYTES, false },
	{ OTTL_SAMPLE, "trace_id.string", PATH_TRACE_ID_TEXT, TYPE_STRING, false },
	{ OTTL_SAMPLE, "span_id", PATH_SPAN_ID, TYPE_BYTES, false },
	{ OTTL_SAMPLE, "span_id.string", PATH_SPAN_ID_TEXT, TYPE_STRING, false },
	{ OTTL_SAMPLE, "depth", PATH_DEPTH, TYPE_INT, false },
	STACK_END("leaf", PATH_LEAF),
	STACK_END("root", PATH_ROOT),
	{ 0 },
};

/* ---- values ---- */

static struct ottl_value text_value(struct str s)
{
	return (struct ottl_value){ { .kind = ANY_STRING, .string = s }, MEMO_NONE };
}

static struct ottl_value int_value(int64_t v)
{
	return (struct ottl_value){ { .kind = ANY_INT, .integer = v }, MEMO_NONE };
}

static struct ottl_value bytes_value(const void *ptr, size_t len)
{
	return (struct ottl_value){ { .kind = ANY_BYTES, .string = str_from(ptr, len) },
				    MEMO_NONE };
}

static struct ottl_value entry_value(const struct ottl_run *r, struct strindex i)
{
	struct ottl_value v = text_value(profiles_string(r->p, i));

	v.memo = i.v < r->string_count ? i.v : MEMO_NONE;
	return v;
}

static bool hex_text(struct ottl_run *r, const uint8_t *id, size_t len, struct ottl_value *out,
		     struct err *err)
{
	buf_reset(&r->text);
	buf_hex(&r->text, id, len);
	out->any.string = str_dup(&r->scratch, buf_view(&r->text));
	out->any.kind = ANY_STRING;
	return out->any.string.ptr || err_set(err, ERR_LIMIT, "a value is too long");
}

/* ---- attributes ---- */

static enum message_kind owner_of(enum ottl_context c)
{
	static const enum message_kind owners[] = { MESSAGE_RESOURCE, MESSAGE_SCOPE,
						    MESSAGE_PROFILE, MESSAGE_SAMPLE };

	return owners[c];
}

static uint32_t index_of(const struct ottl_at *at, enum ottl_context c)
{
	const uint32_t indices[] = { at->resource, at->scope, at->profile, at->sample };

	return indices[c];
}

void ottl_load_attributes(struct ottl_run *r, const struct ottl_expr *path)
{
	enum ottl_context c = path->path->context;

	edit_load(r->p, owner_of(c), index_of(&r->at, c), &r->list);
}

static struct range refs_of(const struct ottl_run *r, enum ottl_context c)
{
	return c == OTTL_PROFILE ? r->p->profiles[r->at.profile].attributes
				 : r->p->samples[r->at.sample].attributes;
}

/* Is this attribute of the dictionary the key's? Asked once for each. */
static bool has_key(struct ottl_run *r, uint32_t attribute, uint32_t key)
{
	struct str name = profiles_string(r->p, r->p->dict.attributes[attribute].key);
	uint8_t *memo;

	if (attribute >= r->attribute_count)
		return str_equal(name, r->o->keys[key]);
	memo = ottl_memo(&r->key_memo[key], r->attribute_count) + attribute;
	if (*memo == MEMO_UNKNOWN)
		*memo = str_equal(name, r->o->keys[key]) ? MEMO_YES : MEMO_NO;
	return *memo == MEMO_YES;
}

static struct ottl_value find_ref(struct ottl_run *r, struct range refs, uint32_t key)
{
	for (uint32_t i = 0; i < refs.count; i++) {
		uint32_t at = r->p->attribute_refs[refs.first + i].v;

		if (has_key(r, at, key))
			return (struct ottl_value){ r->p->dict.attributes[at].value,
						    at < r->attribute_count ? r->string_count + at
									    : MEMO_NONE };
	}
	return (struct ottl_value){ .memo = MEMO_NONE };
}

static struct ottl_value find_attribute(struct ottl_run *r, const struct ottl_expr *e)
{
	enum ottl_context c = e->path->context;
	const struct any_value *v;

	if (c >= OTTL_PROFILE)
		return find_ref(r, refs_of(r, c), e->key);
	v = key_values_find(c == OTTL_RESOURCE ? r->p->resources[r->at.resource].attributes
					       : r->p->scopes[r->at.scope].attributes,
			    r->o->keys[e->key]);
	return v ? (struct ottl_value){ *v, MEMO_NONE } : (struct ottl_value){ .memo = MEMO_NONE };
}

/* All of them, as a map in the scratch. */
static bool attributes_map(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
			   struct err *err)
{
	struct key_value *pairs;

	ottl_load_attributes(r, e);
	pairs = arena_alloc_array(&r->scratch, r->list.count, sizeof(*pairs));
	if (!pairs)
		return err_set(err, ERR_LIMIT, "too many attributes");
	for (uint32_t i = 0; i < r->list.count; i++)
		pairs[i] = (struct key_value){ .key = r->list.items[i].key,
					       .value = r->list.items[i].value };
	out->any = (struct any_value){ .kind = ANY_KVLIST, .kvlist = { pairs, r->list.count } };
	return true;
}

/* ---- frames ---- */

/* The location at one end of the sample's stack; the zero entry for an empty one. */
static const struct location *end_location(const struct ottl_run *r, bool leaf)
{
	const struct dictionary *d = &r->p->dict;
	struct range at = d->stacks[r->p->samples[r->at.sample].stack.v].locations;
	uint32_t i = leaf ? 0 : at.count - 1;

	return &d->locations[at.count ? d->stack_locations[at.first + i].v : 0];
}

/* The innermost function at the leaf, the outermost at the root. */
static const struct function *end_function(const struct ottl_run *r, bool leaf)
{
	const struct dictionary *d = &r->p->dict;
	struct range lines = end_location(r, leaf)->lines;

	if (!lines.count)
		return &d->functions[0];
	return &d->functions[d->lines[lines.first + (leaf ? 0 : lines.count - 1)].function.v];
}

static struct ottl_value frame_value(const struct ottl_run *r, enum path_id id)
{
	bool leaf = id < PATH_ROOT_FUNCTION;

	switch (id) {
	case PATH_LEAF_FUNCTION:
	case PATH_ROOT_FUNCTION:
		return entry_value(r, end_function(r, leaf)->name);
	case PATH_LEAF_FILE:
	case PATH_ROOT_FILE:
		return entry_value(r, end_function(r, leaf)->filename);
	case PATH_LEAF_BINARY:
	case PATH_ROOT_BINARY:
		return entry_value(r,
				   r->p->dict.mappings[end_location(r, leaf)->mapping.v].filename);
	default:
		return text_value(location_frame_type(r->p, end_location(r, leaf)));
	}
}

/* ---- the contexts ---- */

static struct ottl_value outer_value(const struct ottl_run *r, const struct ottl_path *path)
{
	const struct resource_profiles *resource = &r->p->resources[r->at.resource];
	const struct scope_profiles *scope =
		path->context == OTTL_SCOPE ? &r->p->scopes[r->at.scope] : NULL;

	switch (path->id) {
	case PATH_SCHEMA_URL:
		return text_value(scope ? scope->schema_url : resource->schema_url);
	case PATH_SCOPE_NAME:
		return text_value(scope->name);
	case PATH_SCOPE_VERSION:
		return text_value(scope->version);
	default:
		return int_value(scope ? scope->dropped_attributes_count
				       : resource->dropped_attributes_count);
	}
}

static bool profile_value(struct ottl_run *r, enum path_id id, struct ottl_value *out,
			  struct err *err)
{
	const struct profile *f = &r->p->profiles[r->at.profile];

	switch (id) {
	case PATH_PROFILE_ID:
		*out = bytes_value(f->profile_id, sizeof(f->profile_id));
		return true;
	case PATH_PROFILE_ID_TEXT:
		return hex_text(r, f->profile_id, sizeof(f->profile_id), out, err);
	case PATH_TIME:
		*out = int_value((int64_t)f->time_unix_nano);
		return true;
	case PATH_DURATION:
		*out = int_value((int64_t)f->duration_nano);
		return true;
	case PATH_PERIOD:
		*out = int_value(f->period);
		return true;
	case PATH_PERIOD_TYPE:
		*out = entry_value(r, f->period_type.type);
		return true;
	case PATH_PERIOD_UNIT:
		*out = entry_value(r, f->period_type.unit);
		return true;
	case PATH_SAMPLE_TYPE:
		*out = entry_value(r, f->sample_type.type);
		return true;
	case PATH_SAMPLE_UNIT:
		*out = entry_value(r, f->sample_type.unit);
		return true;
	case PATH_PAYLOAD_FORMAT:
		*out = text_value(f->original_payload_format);
		return true;
	case PATH_PAYLOAD:
		*out = bytes_value(f->original_payload.ptr, f->original_payload.len);
		return true;
	default:
		*out = int_value(f->dropped_attributes_count);
		return true;
	}
}

static bool sample_value(struct ottl_run *r, enum path_id id, struct ottl_value *out,
			 struct err *err)
{
	const struct sample *s = &r->p->samples[r->at.sample];
	const struct link *l = &r->p->dict.links[s->link.v];

	switch (id) {
	case PATH_VALUE:
		*out = int_value(sample_total(r->p, &r->p->profiles[r->at.profile], s).value);
		return true;
	case PATH_EVENTS:
		*out = int_value(
			(int64_t)sample_total(r->p, &r->p->profiles[r->at.profile], s).events);
		return true;
	case PATH_TRACE_ID:
		*out = bytes_value(l->trace_id, sizeof(l->trace_id));
		return true;
	case PATH_SPAN_ID:
		*out = bytes_value(l->span_id, sizeof(l->span_id));
		return true;
	case PATH_TRACE_ID_TEXT:
		return hex_text(r, l->trace_id, sizeof(l->trace_id), out, err);
	case PATH_SPAN_ID_TEXT:
		return hex_text(r, l->span_id, sizeof(l->span_id), out, err);
	case PATH_DEPTH:
		*out = int_value(r->p->dict.stacks[s->stack.v].locations.count);
		return true;
	default:
		*out = frame_value(r, id);
		return true;
	}
}

bool ottl_eval_path(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
		    struct err *err)
{
	*out = (struct ottl_value){ .memo = MEMO_NONE };
	if (e->keyed) {
		*out = find_attribute(r, e);
		return true;
	}
	if (e->path->id == PATH_ATTRIBUTES)
		return attributes_map(r, e, out, err);
	if (e->path->context == OTTL_PROFILE)
		return profile_value(r, e->path->id, out, err);
	if (e->path->context == OTTL_SAMPLE)
		return sample_value(r, e->path->id, out, err);
	*out = outer_value(r, e->path);
	return true;
}

/* ---- setting ---- */

static bool set_attribute(struct ottl_run *r, const struct ottl_expr *e, const struct any_value *v,
			  struct err *err)
{
	struct edit_attribute *a;
	struct str key = r->o->keys[e->key];

	ottl_load_attributes(r, e);
	a = edit_find(&r->list, key);
	if (a && any_value_equal(&a->value, v))
		return true;
	edit_set(&r->list, key, v);
	return edit_store(r->edit, &r->list, err);
}

static bool replace_attributes(struct ottl_run *r, const struct ottl_expr *e,
			       const struct any_value *v, struct err *err)
{
	ottl_load_attributes(r, e);
	r->list.count = 0;
	for (uint32_t i = 0; i < v->kvlist.count; i++)
		edit_set(&r->list, v->kvlist.pairs[i].key, &v->kvlist.pairs[i].value);
	return edit_store(r->edit, &r->list, err);
}

static bool set_count(uint32_t *to, int64_t v, struct err *err)
{
	if (v < 0 || v > UINT32_MAX)
		return err_set(err, ERR_INVALID, "%lld is not a count", (long long)v);
	*to = (uint32_t)v;
	return true;
}

static bool set_outer(struct ottl_run *r, const struct ottl_path *path, const struct any_value *v,
		      struct err *err)
{
	struct resource_profiles *resource = &r->p->resources[r->at.resource];
	struct scope_profiles *scope =
		path->context == OTTL_SCOPE ? &r->p->scopes[r->at.scope] : NULL;

	switch (path->id) {
	case PATH_SCHEMA_URL:
		return edit_text(r->edit, v->string,
				 scope ? &scope->schema_url : &resource->schema_url, err);
	case PATH_SCOPE_NAME:
		return edit_text(r->edit, v->string, &scope->name, err);
	case PATH_SCOPE_VERSION:
		return edit_text(r->edit, v->string, &scope->version, err);
	default:
		return set_count(scope ? &scope->dropped_attributes_count
				       : &resource->dropped_attributes_count,
				 v->integer, err);
	}
}

static bool set_id(uint8_t id[16], struct str bytes, struct err *err)
{
	if (bytes.len != 16)
		return err_set(err, ERR_INVALID, "a profile_id has 16 bytes, not %zu", bytes.len);
	memcpy(id, bytes.ptr, 16);
	return true;
}

static bool set_id_text(uint8_t id[16], struct str text, struct err *err)
{
	uint8_t bytes[16];

	if (text.len != 2 * sizeof(bytes))
		return err_set(err, ERR_INVALID, "a profile_id has 32 hex digits");
	for (size_t i = 0; i < sizeof(bytes); i++) {
		int high = hex_value(text.ptr[2 * i]), low = hex_value(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return err_set(err, ERR_INVALID, "a profile_id has 32 hex digits");
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(id, bytes, sizeof(bytes));
	return true;
}

static bool set_profile(struct ottl_run *r, enum path_id id, const struct any_value *v,
			struct err *err)
{
	struct profile *f = &r->p->profiles[r->at.profile];

	switch (id) {
	case PATH_PROFILE_ID:
		return set_id(f->profile_id, v->string, err);
	case PATH_PROFILE_ID_TEXT:
		return set_id_text(f->profile_id, v->string, err);
	case PATH_TIME:
		f->time_unix_nano = (uint64_t)v->integer;
		return true;
	case PATH_DURATION:
		f->duration_nano = (uint64_t)v->integer;
		return true;
	case PATH_PERIOD:
		f->period = v->integer;
		return true;
	case PATH_PERIOD_TYPE:
		return edit_string(r->edit, v->string, &f->period_type.type, err);
	case PATH_PERIOD_UNIT:
		return edit_string(r->edit, v->string, &f->period_type.unit, err);
	case PATH_SAMPLE_TYPE:
		return edit_string(r->edit, v->string, &f->sample_type.type, err);
	case PATH_SAMPLE_UNIT:
		return edit_string(r->edit, v->string, &f->sample_type.unit, err);
	case PATH_PAYLOAD_FORMAT:
		return edit_text(r->edit, v->string, &f->original_payload_format, err);
	case PATH_PAYLOAD:
		return edit_text(r->edit, v->string, &f->original_payload, err);
	default:
		return set_count(&f->dropped_attributes_count, v->integer, err);
	}
}

bool ottl_set_path(struct ottl_run *r, const struct ottl_expr *e, const struct any_value *v,
		   struct err *err)
{
	if (v->kind == ANY_EMPTY)
		return true; /* as in the Collector: nil changes nothing */
	if (e->keyed)
		return set_attribute(r, e, v, err);
	if (!(e->path->types & 1u << v->kind))
		return err_set(err, ERR_INVALID, "%s cannot be set to a value of type %s",
			       e->path->name, any_kind_word(v->kind));
	if (e->path->id == PATH_ATTRIBUTES)
		return replace_attributes(r, e, v, err);
	if (e->path->context == OTTL_PROFILE)
		return set_profile(r, e->path->id, v, err);
	return set_outer(r, e->path, v, err);
}
