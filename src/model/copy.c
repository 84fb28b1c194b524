#include "model/copy.h"

#include <assert.h>

struct str copy_string(struct copier *c, struct str s)
{
	const struct blob *b = c->shared_body;
	struct str copy;

	if (!s.len || (b && s.ptr >= b->ptr && s.ptr < b->ptr + b->len))
		return s.len ? s : (struct str){ 0 };
	copy = str_dup(c->arena, s);
	c->failed |= !copy.ptr;
	return copy.ptr ? copy : (struct str){ 0 };
}

static struct strindex copy_strindex(const struct copier *c, struct strindex i)
{
	return c->string_numbers ? (struct strindex){ c->string_numbers[i.v] } : i;
}

static const struct value_unknown *copy_unknown(struct copier *c, const struct value_unknown *u)
{
	struct value_unknown *copy;

	if (!u)
		return NULL;
	copy = arena_alloc(c->arena, sizeof(*copy));
	c->failed |= !copy;
	if (copy)
		*copy = (struct value_unknown){ .value = copy_string(c, u->value),
						.list = copy_string(c, u->list),
						.pair = copy_string(c, u->pair) };
	return copy;
}

static struct any_value copy_array(struct copier *c, const struct any_value *v)
{
	struct any_value *values = arena_alloc_array(c->arena, v->array.count, sizeof(*values));
	struct any_value copy = { .kind = ANY_ARRAY, .unknown = copy_unknown(c, v->unknown) };

	if (!values) {
		c->failed = true;
		return copy;
	}
	for (uint32_t i = 0; i < v->array.count; i++)
		values[i] = copy_any(c, &v->array.values[i]);
	copy.array.values = values;
	copy.array.count = v->array.count;
	return copy;
}

struct any_value copy_any(struct copier *c, const struct any_value *v)
{
	struct any_value copy = *v;
	struct key_values pairs;

	switch (v->kind) {
	case ANY_STRING:
		copy.strindex = copy_strindex(c, v->strindex);
		copy.string = copy_string(c, v->string);
		break;
	case ANY_BYTES:
		copy.string = copy_string(c, v->string);
		break;
	case ANY_ARRAY:
		return copy_array(c, v);
	case ANY_KVLIST:
		pairs = copy_key_values(c, (struct key_values){ v->kvlist.pairs, v->kvlist.count });
		copy.kvlist.pairs = pairs.ptr;
		copy.kvlist.count = pairs.count;
		break;
	case ANY_EMPTY:
	case ANY_BOOL:
	case ANY_INT:
	case ANY_DOUBLE:
		break;
	}
	copy.unknown = copy_unknown(c, v->unknown);
	return copy;
}

struct key_values copy_key_values(struct copier *c, struct key_values kv)
{
	struct key_value *copy;

	if (!kv.count)
		return (struct key_values){ 0 };
	copy = arena_alloc_array(c->arena, kv.count, sizeof(*copy));
	if (!copy) {
		c->failed = true;
		return (struct key_values){ 0 };
	}
	for (uint32_t i = 0; i < kv.count; i++)
		copy[i] = (struct key_value){ .key = copy_string(c, kv.ptr[i].key),
					      .key_strindex =
						      copy_strindex(c, kv.ptr[i].key_strindex),
					      .value = copy_any(c, &kv.ptr[i].value) };
	return (struct key_values){ copy, kv.count };
}

static void *copy_rows(struct copier *c, const void *from, size_t count, size_t size)
{
	void *to = arena_alloc_array(c->arena, count, size);

	c->failed |= !to;
	if (to && count)
		memcpy(to, from, count * size);
	return to;
}

#define COPY_ROWS(c, of, field, count) \
	((of)->field = copy_rows(c, (of)->field, (of)->count, sizeof(*(of)->field)))

static void copy_dictionary(struct copier *c, struct dictionary *d)
{
	COPY_ROWS(c, d, strings, string_count);
	COPY_ROWS(c, d, mappings, mapping_count);
	COPY_ROWS(c, d, locations, location_count);
	COPY_ROWS(c, d, functions, function_count);
	COPY_ROWS(c, d, links, link_count);
	COPY_ROWS(c, d, attributes, attribute_count);
	COPY_ROWS(c, d, stacks, stack_count);
	COPY_ROWS(c, d, lines, line_count);
	COPY_ROWS(c, d, stack_locations, stack_location_count);
	for (uint32_t i = 0; i < d->string_count; i++)
		d->strings[i] = copy_string(c, d->strings[i]);
	for (uint32_t i = 0; i < d->attribute_count; i++)
		d->attributes[i].value = copy_any(c, &d->attributes[i].value);
}

static void copy_resource(struct copier *c, struct resource_profiles *r)
{
	r->attributes = copy_key_values(c, r->attributes);
	r->schema_url = copy_string(c, r->schema_url);
}

static void copy_scope(struct copier *c, struct scope_profiles *s)
{
	s->name = copy_string(c, s->name);
	s->version = copy_string(c, s->version);
	s->schema_url = copy_string(c, s->schema_url);
	s->attributes = copy_key_values(c, s->attributes);
}

static void copy_payload(struct copier *c, struct profile *p)
{
	p->original_payload_format = copy_string(c, p->original_payload_format);
	p->original_payload = copy_string(c, p->original_payload);
}

static void copy_tree(struct copier *c, struct profiles *p)
{
	COPY_ROWS(c, p, resources, resource_count);
	COPY_ROWS(c, p, scopes, scope_count);
	COPY_ROWS(c, p, profiles, profile_count);
	COPY_ROWS(c, p, samples, sample_count);
	COPY_ROWS(c, p, attribute_refs, attribute_ref_count);
	COPY_ROWS(c, p, values, value_count);
	COPY_ROWS(c, p, timestamps, timestamp_count);
	COPY_ROWS(c, p, extras, extra_count);
	COPY_ROWS(c, p, bad_indices, bad_index_count);
	for (uint32_t i = 0; i < p->resource_count; i++)
		copy_resource(c, &p->resources[i]);
	for (uint32_t i = 0; i < p->scope_count; i++)
		copy_scope(c, &p->scopes[i]);
	for (uint32_t i = 0; i < p->profile_count; i++)
		copy_payload(c, &p->profiles[i]);
	for (uint32_t i = 0; i < p->extra_count; i++)
		p->extras[i].value = copy_any(c, &p->extras[i].value);
}

struct profiles *profiles_copy(const struct profiles *p)
{
	struct profiles *copy = profiles_new(p->arena.reserved_bytes, 0);
	struct copier c = { .arena = &copy->arena, .shared_body = p->body };
	struct arena arena = copy->arena;

	/* The counts, the flags and the original's pointers; the pointers are replaced below. */
	*copy = *p;
	copy->arena = arena;
	copy->body = p->body ? blob_ref(p->body) : NULL;
	copy_dictionary(&c, &copy->dict);
	copy_tree(&c, copy);
	assert(!c.failed); /* the arena has no limit: the original's size bounds the copy */
	return copy;
}
