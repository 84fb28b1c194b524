#include "components/exporters/any_strip.h"

#include <assert.h>

bool any_has_reference(const struct any_value *v)
{
	switch (v->kind) {
	case ANY_STRING:
		return v->strindex.v || v->zero_reference;
	case ANY_ARRAY:
		for (uint32_t i = 0; i < v->array.count; i++) {
			if (any_has_reference(&v->array.values[i]))
				return true;
		}
		return false;
	case ANY_KVLIST:
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			if (v->kvlist.pairs[i].key_strindex.v ||
			    any_has_reference(&v->kvlist.pairs[i].value))
				return true;
		}
		return false;
	default:
		return false;
	}
}

static struct any_value strip(struct arena *a, const struct any_value *v)
{
	struct any_value out = *v;

	if (v->kind == ANY_STRING && any_has_reference(v))
		return (struct any_value){ .kind = ANY_EMPTY };
	if (v->kind == ANY_ARRAY && v->array.count) {
		struct any_value *values = arena_alloc_array(a, v->array.count, sizeof(*values));

		assert(values); /* the arena has no limit */
		for (uint32_t i = 0; i < v->array.count; i++)
			values[i] = strip(a, &v->array.values[i]);
		out.array.values = values;
	}
	if (v->kind == ANY_KVLIST && v->kvlist.count) {
		struct key_value *pairs = arena_alloc_array(a, v->kvlist.count, sizeof(*pairs));

		assert(pairs);
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			pairs[i] = v->kvlist.pairs[i];
			if (pairs[i].key_strindex.v)
				pairs[i].key = STR("");
			pairs[i].value = strip(a, &v->kvlist.pairs[i].value);
		}
		out.kvlist.pairs = pairs;
	}
	return out;
}

const struct any_value *any_strip_references(struct any_strip *s, const struct any_value *v)
{
	struct any_value *top;

	arena_init(&s->arena, 1024, 0);
	top = arena_alloc(&s->arena, sizeof(*top));
	assert(top);
	*top = strip(&s->arena, v);
	return top;
}

void any_strip_release(struct any_strip *s)
{
	arena_release(&s->arena);
}
