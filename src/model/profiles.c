#include "model/profiles.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

/* The tables' zero entries lie beside the message, so that an empty one costs a single allocation.
 */
struct empty_profiles {
	struct profiles message;
	struct str string;
	struct mapping mapping;
	struct location location;
	struct function function;
	struct link link;
	struct attribute attribute;
	struct stack stack;
	uint64_t nothing; /* where arrays without entries point: readers may add an offset of 0 */
};

struct profiles *profiles_new(size_t first_block_bytes, size_t arena_limit_bytes)
{
	struct empty_profiles *e = calloc(1, sizeof(*e));

	assert(e);
	e->message.dict = (struct dictionary){
		.strings = &e->string,
		.mappings = &e->mapping,
		.locations = &e->location,
		.functions = &e->function,
		.links = &e->link,
		.attributes = &e->attribute,
		.stacks = &e->stack,
		.string_count = 1,
		.mapping_count = 1,
		.location_count = 1,
		.function_count = 1,
		.link_count = 1,
		.attribute_count = 1,
		.stack_count = 1,
	};
	e->message.dict.lines = (struct line *)&e->nothing;
	e->message.dict.stack_locations = (struct location_index *)&e->nothing;
	e->message.resources = (struct resource_profiles *)&e->nothing;
	e->message.scopes = (struct scope_profiles *)&e->nothing;
	e->message.profiles = (struct profile *)&e->nothing;
	e->message.samples = (struct sample *)&e->nothing;
	e->message.attribute_refs = (struct attribute_index *)&e->nothing;
	e->message.values = (int64_t *)&e->nothing;
	e->message.timestamps = &e->nothing;
	arena_init(&e->message.arena, first_block_bytes, arena_limit_bytes);
	return &e->message;
}

void profiles_free(struct profiles *p)
{
	if (!p)
		return;
	arena_release(&p->arena);
	blob_unref(p->body);
	free(p);
}

static int64_t saturating_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b < 0 ? INT64_MIN : INT64_MAX;
}

/*
 * Senders of wire versions up to 1.7 put the value 1 beside several timestamps of samples/count:
 * the timestamps count there. The versions have no gaps: WIRE_V1_8 is 6 in enum wire_version, which
 * the model cannot include.
 */
enum { SOURCE_VERSION_1_8 = 6 };

static bool value_stands_for_each_timestamp(const struct profiles *p, const struct profile *profile,
					    const struct sample *s)
{
	return p->source_version != 0 && p->source_version < SOURCE_VERSION_1_8 &&
	       s->values.count == 1 && s->timestamps.count > 1 && p->values[s->values.first] == 1 &&
	       str_equal(profiles_string(p, profile->sample_type.unit), STR("count"));
}

struct sample_total sample_total(const struct profiles *p, const struct profile *profile,
				 const struct sample *s)
{
	struct sample_total t = { .events = s->timestamps.count ? s->timestamps.count : 1 };
	const int64_t *v = p->values + s->values.first;

	if (s->values.count == 0 || value_stands_for_each_timestamp(p, profile, s)) {
		t.value = s->timestamps.count;
		return t;
	}
	for (uint32_t i = 0; i < s->values.count; i++)
		t.value = saturating_add(t.value, v[i]);
	return t;
}

static uint64_t message_order(enum message_kind message, uint32_t index)
{
	return (uint64_t)message << 32 | index;
}

/* First extra whose (message, index) is not below `order`. */
static uint32_t extras_lower_bound(const struct profiles *p, uint64_t order)
{
	uint32_t low = 0, high = p->extra_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct extra *e = &p->extras[mid];

		if (message_order(e->message, e->index) < order)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct range profiles_extras(const struct profiles *p, enum message_kind message, uint32_t index)
{
	uint64_t order = message_order(message, index);
	uint32_t first, end;

	if (p->extra_count == 0)
		return (struct range){ 0 };
	first = extras_lower_bound(p, order);
	end = extras_lower_bound(p, order + 1);
	return (struct range){ first, end - first };
}

const struct extra *profiles_extra(const struct profiles *p, enum message_kind message,
				   uint32_t index, enum extra_key key)
{
	struct range r = profiles_extras(p, message, index);

	for (uint32_t i = 0; i < r.count; i++)
		if (p->extras[r.first + i].key == key)
			return &p->extras[r.first + i];
	return NULL;
}

/* The first record that does not stand before this place. There may be a record for every few bytes
 * of a body, and each 0 that is shown asks for its own. */
static uint32_t bad_indices_from(const struct profiles *p, uint64_t order, uint32_t element)
{
	uint32_t low = 0, high = p->bad_index_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct bad_index *b = &p->bad_indices[mid];
		uint64_t at = message_order(b->message, b->index);

		if (at != order ? at < order : b->element < element)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct range profiles_bad_indices(const struct profiles *p, enum message_kind message,
				  uint32_t index)
{
	uint64_t order = message_order(message, index);
	uint32_t first = bad_indices_from(p, order, 0);

	return (struct range){ first, bad_indices_from(p, order + 1, 0) - first };
}

const struct bad_index *profiles_bad_index(const struct profiles *p, enum message_kind message,
					   uint32_t index, const char *field, uint32_t element)
{
	uint64_t order = message_order(message, index);

	for (uint32_t i = bad_indices_from(p, order, element); i < p->bad_index_count; i++) {
		const struct bad_index *b = &p->bad_indices[i];

		if (message_order(b->message, b->index) != order || b->element != element)
			return NULL;
		if (strcmp(b->field, field) == 0)
			return b;
	}
	return NULL;
}

const struct any_value *key_values_find(struct key_values list, struct str key)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (str_equal(list.ptr[i].key, key))
			return &list.ptr[i].value;
	return NULL;
}

const struct any_value *profiles_attribute(const struct profiles *p, struct range attributes,
					   struct str key)
{
	for (uint32_t i = 0; i < attributes.count; i++) {
		struct attribute_index ref = p->attribute_refs[attributes.first + i];
		const struct attribute *a = &p->dict.attributes[ref.v];

		if (ref.v && str_equal(profiles_string(p, a->key), key))
			return &a->value;
	}
	return NULL;
}

struct str location_frame_type(const struct profiles *p, const struct location *l)
{
	const struct any_value *v = profiles_attribute(p, l->attributes, STR("profile.frame.type"));

	return v && v->kind == ANY_STRING ? v->string : STR("");
}

bool id_is_zero(const uint8_t *id, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= id[i];
	return any == 0;
}
