#include "pipeline/clone.h"

#include <assert.h>

struct cloner {
	struct arena *arena;
	struct str body; /* strings in here are shared with the original */
};

/* The arena of a copy has no limit: the original's size bounds it. */
static void *copy_array(struct cloner *c, const void *from, size_t count, size_t size)
{
	void *to = arena_alloc_array(c->arena, count, size);

	assert(to);
	if (count)
		memcpy(to, from, count * size);
	return to;
}

static void fix_string(struct cloner *c, struct str *s)
{
	uintptr_t at = (uintptr_t)s->ptr, body = (uintptr_t)c->body.ptr;

	if (s->len == 0 || (c->body.ptr && at >= body && at - body < c->body.len))
		return;
	*s = str_dup(c->arena, *s);
}

static void fix_pairs(struct cloner *c, const struct key_value **pairs, uint32_t count);

/* Nesting is bounded by the decoder's limit. */
static void fix_value(struct cloner *c, struct any_value *v)
{
	struct value_unknown *unknown;
	struct any_value *items;

	if (v->unknown) {
		unknown = copy_array(c, v->unknown, 1, sizeof(*unknown));
		fix_string(c, &unknown->value);
		fix_string(c, &unknown->list);
		fix_string(c, &unknown->pair);
		v->unknown = unknown;
	}
	switch (v->kind) {
	case ANY_STRING:
	case ANY_BYTES:
		fix_string(c, &v->string);
		break;
	case ANY_ARRAY:
		items = copy_array(c, v->array.values, v->array.count, sizeof(*items));
		for (uint32_t i = 0; i < v->array.count; i++)
			fix_value(c, &items[i]);
		v->array.values = items;
		break;
	case ANY_KVLIST:
		fix_pairs(c, &v->kvlist.pairs, v->kvlist.count);
		break;
	case ANY_EMPTY:
	case ANY_BOOL:
	case ANY_INT:
	case ANY_DOUBLE:
		break;
	}
}

static void fix_pairs(struct cloner *c, const struct key_value **pairs, uint32_t count)
{
	struct key_value *copy = copy_array(c, *pairs, count, sizeof(*copy));

	for (uint32_t i = 0; i < count; i++) {
		fix_string(c, &copy[i].key);
		fix_value(c, &copy[i].value);
	}
	*pairs = copy;
}

#define COPY_ARRAY(c, to, from, field, count_field) \
	((to)->field = copy_array(c, (from)->field, (from)->count_field, sizeof(*(from)->field)))

static void clone_dictionary(struct cloner *c, struct dictionary *to, const struct dictionary *from)
{
	COPY_ARRAY(c, to, from, strings, string_count);
	COPY_ARRAY(c, to, from, mappings, mapping_count);
	COPY_ARRAY(c, to, from, locations, location_count);
	COPY_ARRAY(c, to, from, functions, function_count);
	COPY_ARRAY(c, to, from, links, link_count);
	COPY_ARRAY(c, to, from, attributes, attribute_count);
	COPY_ARRAY(c, to, from, stacks, stack_count);
	COPY_ARRAY(c, to, from, lines, line_count);
	COPY_ARRAY(c, to, from, stack_locations, stack_location_count);
	for (uint32_t i = 0; i < to->string_count; i++)
		fix_string(c, &to->strings[i]);
	for (uint32_t i = 0; i < to->attribute_count; i++)
		fix_value(c, &to->attributes[i].value);
}

static void clone_tree(struct cloner *c, struct profiles *to, const struct profiles *from)
{
	COPY_ARRAY(c, to, from, resources, resource_count);
	COPY_ARRAY(c, to, from, scopes, scope_count);
	COPY_ARRAY(c, to, from, profiles, profile_count);
	COPY_ARRAY(c, to, from, samples, sample_count);
	COPY_ARRAY(c, to, from, attribute_refs, attribute_ref_count);
	COPY_ARRAY(c, to, from, values, value_count);
	COPY_ARRAY(c, to, from, timestamps, timestamp_count);
	for (uint32_t i = 0; i < to->resource_count; i++) {
		fix_pairs(c, &to->resources[i].attributes.ptr, to->resources[i].attributes.count);
		fix_string(c, &to->resources[i].schema_url);
	}
	for (uint32_t i = 0; i < to->scope_count; i++) {
		struct scope_profiles *s = &to->scopes[i];

		fix_string(c, &s->name);
		fix_string(c, &s->version);
		fix_string(c, &s->schema_url);
		fix_pairs(c, &s->attributes.ptr, s->attributes.count);
	}
	for (uint32_t i = 0; i < to->profile_count; i++) {
		fix_string(c, &to->profiles[i].original_payload_format);
		fix_string(c, &to->profiles[i].original_payload);
	}
}

static void clone_records(struct cloner *c, struct profiles *to, const struct profiles *from)
{
	COPY_ARRAY(c, to, from, extras, extra_count);
	COPY_ARRAY(c, to, from, bad_indices, bad_index_count);
	for (uint32_t i = 0; i < to->extra_count; i++)
		fix_value(c, &to->extras[i].value);
}

struct profiles *profiles_clone(const struct profiles *p)
{
	struct profiles *copy = profiles_new(p->arena.reserved_bytes, 0);
	struct arena arena = copy->arena;
	struct cloner c = { .arena = &copy->arena };

	/* The counts and flags come with the struct; the empty tables of profiles_new() are left
	 * behind. */
	*copy = *p;
	copy->arena = arena;
	copy->body = p->body ? blob_ref(p->body) : NULL;
	if (p->body)
		c.body = blob_view(p->body);
	clone_dictionary(&c, &copy->dict, &p->dict);
	clone_tree(&c, copy, p);
	clone_records(&c, copy, p);
	return copy;
}
