#include <limits.h>
#include "wire/encode.h"

/*
 * v1.7 differs from v1.8 in how it says "not set" (absence of an optional field; index 0 is an
 * ordinary reference), in its attribute table (KeyValue, the units in a list of their own), in its
 * stacks (runs of the profile's location_indices) and in its profiles (several sample_types, one
 * value for each in every sample).
 */

/* The member `key` of an element of EXTRA_ATTRIBUTE_UNITS or EXTRA_UNIT_UNKNOWN. */
static struct str member(const struct any_value *element, const char *key)
{
	struct key_values pairs = { element->kvlist.pairs, element->kvlist.count };
	const struct any_value *v =
		element->kind == ANY_KVLIST ? key_values_find(pairs, str_cstr(key)) : NULL;

	return v && (v->kind == ANY_STRING || v->kind == ANY_BYTES) ? v->string : (struct str){ 0 };
}

/* The dictionary's array of one key, or an empty one. */
static struct any_value dictionary_array(const struct encoder *e, enum extra_key key)
{
	const struct extra *x = encode_extra(e, MESSAGE_DICTIONARY, 0, key);

	return x && x->value.kind == ANY_ARRAY ? x->value : (struct any_value){ .kind = ANY_ARRAY };
}

static void unit_fields_prepare(struct encoder *e)
{
	struct any_value list = dictionary_array(e, EXTRA_UNIT_UNKNOWN);

	if (!list.array.count || !e->same_version)
		return;
	e->unit_fields_of =
		arena_zalloc(&e->scratch, (e->p->dict.string_count + e->added_string_count) *
						  sizeof(*e->unit_fields_of));
	e->unit_fields_put = arena_zalloc(&e->scratch, list.array.count);
	for (uint32_t i = list.array.count; i-- > 0;)
		e->unit_fields_of[encode_add_string(e, member(&list.array.values[i], "key"))] =
			i + 1;
}

void encode_v1_7_prepare(struct encoder *e)
{
	uint32_t stacks = e->p->dict.stack_count;

	e->stack_places = arena_zalloc(&e->scratch, stacks * sizeof(*e->stack_places));
	e->stack_order = arena_alloc_array(&e->scratch, stacks, sizeof(*e->stack_order));
	unit_fields_prepare(e);
}

/* ---- dictionary ---- */

static void encode_mappings(struct encoder *e)
{
	for (uint32_t i = e->p->dict.mapping_count; i-- > 0;) {
		const struct mapping *m = &e->p->dict.mappings[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_MAPPING, i);
		encode_bool_extra(e, 9, MESSAGE_MAPPING, i, EXTRA_HAS_INLINE_FRAMES);
		encode_bool_extra(e, 8, MESSAGE_MAPPING, i, EXTRA_HAS_LINE_NUMBERS);
		encode_bool_extra(e, 7, MESSAGE_MAPPING, i, EXTRA_HAS_FILENAMES);
		encode_bool_extra(e, 6, MESSAGE_MAPPING, i, EXTRA_HAS_FUNCTIONS);
		encode_refs(e, 5, m->attributes);
		pw_uint(&e->w, 4, m->filename.v);
		pw_uint(&e->w, 3, m->file_offset);
		pw_uint(&e->w, 2, m->memory_limit);
		pw_uint(&e->w, 1, m->memory_start);
		pw_message(&e->w, 1, mark);
	}
}

static void encode_locations(struct encoder *e)
{
	for (uint32_t i = e->p->dict.location_count; i-- > 0;) {
		const struct location *l = &e->p->dict.locations[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_LOCATION, i);
		encode_refs(e, 5, l->attributes);
		encode_bool_extra(e, 4, MESSAGE_LOCATION, i, EXTRA_IS_FOLDED);
		encode_lines(e, l->lines);
		pw_uint(&e->w, 2, l->address);
		pw_uint(&e->w, 1, l->mapping.v); /* optional: absent when not set */
		pw_message(&e->w, 2, mark);
	}
}

/* A KeyValue each; key and value are written out. */
static void encode_attributes(struct encoder *e)
{
	for (uint32_t i = e->p->dict.attribute_count; i-- > 0;) {
		const struct attribute *a = &e->p->dict.attributes[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_ATTRIBUTE, i);
		encode_pair_unknown(e, &a->value);
		encode_any(e, 2, &a->value);
		encode_text(e, 1, profiles_string(e->p, a->key));
		pw_message(&e->w, 6, mark);
	}
}

static void encode_attribute_unit(struct encoder *e, uint32_t key, uint32_t unit)
{
	size_t mark = pw_mark(&e->w);
	uint32_t fields = e->unit_fields_of ? e->unit_fields_of[key] : 0;

	if (fields && !e->unit_fields_put[fields - 1]) {
		struct any_value list = dictionary_array(e, EXTRA_UNIT_UNKNOWN);

		pw_raw(&e->w, member(&list.array.values[fields - 1], "fields"));
		e->unit_fields_put[fields - 1] = true;
	}
	pw_uint(&e->w, 2, unit);
	pw_uint(&e->w, 1, key);
	pw_message(&e->w, 7, mark);
}

/* Units of keys that no attribute has, and unknown fields of any that found no other place. */
static void encode_spare_units(struct encoder *e)
{
	struct any_value units = dictionary_array(e, EXTRA_ATTRIBUTE_UNITS);
	struct any_value fields = dictionary_array(e, EXTRA_UNIT_UNKNOWN);

	for (uint32_t i = units.array.count; i-- > 0;) {
		const struct any_value *v = &units.array.values[i];

		encode_attribute_unit(e, encode_add_string(e, member(v, "key")),
				      encode_add_string(e, member(v, "unit")));
	}
	for (uint32_t i = e->unit_fields_put ? fields.array.count : 0; i-- > 0;) {
		const struct any_value *v = &fields.array.values[i];
		size_t mark = pw_mark(&e->w);

		if (e->unit_fields_put[i])
			continue;
		pw_raw(&e->w, member(v, "fields"));
		pw_uint(&e->w, 1, encode_add_string(e, member(v, "key")));
		pw_message(&e->w, 7, mark);
	}
}

/* One AttributeUnit per key: the last one of the table that has a unit. */
static void encode_attribute_units(struct encoder *e)
{
	uint8_t *done = arena_zalloc(&e->scratch, e->p->dict.string_count / 8 + 1);

	for (uint32_t i = e->p->dict.attribute_count; i-- > 0;) {
		const struct attribute *a = &e->p->dict.attributes[i];
		uint8_t bit = (uint8_t)(1u << (a->key.v & 7));

		if (!a->unit.v || done[a->key.v / 8] & bit)
			continue;
		done[a->key.v / 8] |= bit;
		encode_attribute_unit(e, a->key.v, a->unit.v);
	}
}

void encode_v1_7_dictionary(struct encoder *e)
{
	encode_unknown(e, MESSAGE_DICTIONARY, 0);
	encode_attribute_units(e);
	encode_spare_units(e);
	encode_attributes(e);
	encode_strings(e, 5);
	encode_links(e, 4);
	encode_functions(e, 3);
	encode_locations(e);
	encode_mappings(e);
}

/* ---- profiles that were one ---- */

static int64_t ordinal_of(const struct encoder *e, uint32_t profile)
{
	const struct extra *x =
		encode_extra(e, MESSAGE_PROFILE, profile, EXTRA_SAMPLE_TYPE_ORDINAL);

	return x ? x->value.integer : -1;
}

static bool ranges_equal(const void *flat, size_t size, struct range a, struct range b)
{
	const char *bytes = flat;

	return a.count == b.count &&
	       (!a.count ||
		memcmp(bytes + a.first * size, bytes + b.first * size, a.count * size) == 0);
}

/* Two profiles that differ in nothing but the sample_type and the values. */
static bool same_but_values(const struct profiles *p, uint32_t a, uint32_t b)
{
	const struct profile *x = &p->profiles[a], *y = &p->profiles[b];

	if (x->samples.count != y->samples.count || x->time_unix_nano != y->time_unix_nano ||
	    x->duration_nano != y->duration_nano || x->refused != y->refused)
		return false;
	for (uint32_t i = 0; i < x->samples.count; i++) {
		const struct sample *s = &p->samples[x->samples.first + i],
				    *t = &p->samples[y->samples.first + i];

		if (s->stack.v != t->stack.v || s->link.v != t->link.v ||
		    !ranges_equal(p->attribute_refs, sizeof(*p->attribute_refs), s->attributes,
				  t->attributes) ||
		    !ranges_equal(p->timestamps, sizeof(*p->timestamps), s->timestamps,
				  t->timestamps))
			return false;
	}
	return true;
}

/* Decoding made a profile of every sample_type, numbered from 0; they are neighbours unless
 * somebody filtered. */
static uint32_t first_of_group(const struct encoder *e, uint32_t first, uint32_t last)
{
	int64_t ordinal = ordinal_of(e, last);
	uint32_t begin;

	if (ordinal <= 0 || ordinal > last - first)
		return last;
	begin = last - (uint32_t)ordinal;
	for (uint32_t i = begin; i < last; i++)
		if (ordinal_of(e, i) != (int64_t)(i - begin) || !same_but_values(e->p, i, last))
			return last;
	return begin;
}

/* ---- samples ---- */

/* A sample in one of several profiles of a group has one value; alone it may have none or more, as
 * it came. */
static void put_values(struct encoder *e, uint32_t first, uint32_t last, uint32_t ordinal)
{
	size_t mark = pw_mark(&e->w);

	for (uint32_t i = last + 1; i-- > first;) {
		const struct profile *p = &e->p->profiles[i];
		const struct sample *s = &e->p->samples[p->samples.first + ordinal];
		int64_t total;

		if (first == last && encode_source_is_old(e)) {
			encode_values(e, 3, s->values);
			return;
		}
		total = encode_source_is_old(e) && s->values.count == 1
				? e->p->values[s->values.first]
				: sample_total(e->p, p, s).value;
		if (!pw_room(&e->w, PW_VARINT_MOST))
			return;
		pw_put_varint(&e->w, (uint64_t)total);
	}
	pw_message(&e->w, 3, mark);
}

static void encode_sample(struct encoder *e, uint32_t first, uint32_t last, uint32_t ordinal)
{
	uint32_t index = e->p->profiles[first].samples.first + ordinal;
	const struct sample *s = &e->p->samples[index];
	uint32_t length = e->p->dict.stacks[s->stack.v].locations.count;
	size_t mark = pw_mark(&e->w);

	encode_unknown(e, MESSAGE_SAMPLE, index);
	if (s->timestamps.count)
		pw_packed_u64(&e->w, 6, e->p->timestamps + s->timestamps.first,
			      s->timestamps.count);
	pw_uint(&e->w, 5, s->link.v); /* optional: absent when not set */
	encode_refs(e, 4, s->attributes);
	put_values(e, first, last, ordinal);
	pw_uint(&e->w, 2, length);
	if (length)
		pw_uint(&e->w, 1, e->stack_places[s->stack.v].start);
	pw_message(&e->w, 2, mark);
}

/* Gives every stack of the profile its run of location_indices, in the order of first use, and puts
 * that field. */
static void encode_location_indices(struct encoder *e, struct range samples)
{
	const struct dictionary *d = &e->p->dict;
	size_t mark = pw_mark(&e->w);
	uint64_t next = 0;
	uint32_t count = 0;

	e->profile_stamp++;
	for (uint32_t i = samples.first; i < samples.first + samples.count; i++) {
		struct stack_index stack = e->p->samples[i].stack;
		struct stack_place *place = &e->stack_places[stack.v];

		if (place->stamp == e->profile_stamp || !d->stacks[stack.v].locations.count)
			continue;
		*place = (struct stack_place){ e->profile_stamp, (uint32_t)next };
		next += d->stacks[stack.v].locations.count;
		e->stack_order[count++] = stack;
		if (next > INT32_MAX && !e->failed)
			e->failed =
				!err_set(e->err, ERR_LIMIT,
					 "a profile's stacks pass 2^31 location_indices of v1.7");
	}
	if (!count || e->failed)
		return;
	while (count-- > 0) {
		struct range at = d->stacks[e->stack_order[count].v].locations;

		pw_put_u32s(&e->w, (const uint32_t *)(d->stack_locations + at.first), at.count);
	}
	pw_message(&e->w, 3, mark);
}

/* Values stand by the place of their type: one that says nothing has its place, too. */
static void encode_sample_type(struct encoder *e, uint32_t profile, bool even_empty)
{
	size_t mark = pw_mark(&e->w);

	encode_value_type(e, 1, e->p->profiles[profile].sample_type, profile,
			  EXTRA_SAMPLE_TEMPORALITY);
	if (even_empty && pw_mark(&e->w) == mark)
		pw_message(&e->w, 1, mark);
}

uint32_t encode_v1_7_profile(struct encoder *e, uint32_t scope_first, uint32_t index)
{
	uint32_t first = first_of_group(e, scope_first, index);
	const struct profile *p = &e->p->profiles[first];
	const struct extra *default_type =
		encode_extra(e, MESSAGE_PROFILE, first, EXTRA_DEFAULT_SAMPLE_TYPE);
	size_t mark = pw_mark(&e->w);

	encode_unknown(e, MESSAGE_PROFILE, first);
	encode_refs(e, 14, p->attributes);
	pw_bytes(&e->w, 13, p->original_payload);
	encode_text(e, 12, p->original_payload_format);
	pw_uint(&e->w, 11, p->dropped_attributes_count);
	encode_profile_id(e, 10, first);
	if (default_type && default_type->value.kind == ANY_INT)
		pw_int(&e->w, 9, default_type->value.integer);
	encode_comments(e, 8, first);
	pw_int(&e->w, 7, p->period);
	encode_value_type(e, 6, p->period_type, first, EXTRA_PERIOD_TEMPORALITY);
	pw_uint(&e->w, 5, p->duration_nano);
	pw_uint(&e->w, 4, p->time_unix_nano);
	encode_location_indices(e, p->samples);
	for (uint32_t i = p->samples.count; i-- > 0;)
		encode_sample(e, first, index, i);
	for (uint32_t i = index + 1; i-- > first;)
		encode_sample_type(e, i, index > first || p->samples.count);
	pw_message(&e->w, 2, mark);
	return first;
}
