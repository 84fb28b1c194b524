#include "model/copy.h"

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
