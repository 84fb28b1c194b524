/*
 * legacy_bad.c - references of v1.3 to v1.7 that are out of range: their records, with the place in
 * the message as it was sent.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "wire/legacy.h"

/* v1.3's name of what v1.4 renamed. */
static const char *name_of(const struct legacy *l, const char *name)
{
	static const char *const renamed[][2] = {
		{ "filename_strindex", "filename" },
		{ "name_strindex", "name" },
		{ "system_name_strindex", "system_name" },
		{ "type_strindex", "type" },
		{ "unit_strindex", "unit" },
		{ "attribute_key_strindex", "attribute_key" },
		{ "default_sample_type_strindex", "default_sample_type" },
		{ "comment_strindices", "comment" },
		{ "attribute_indices", "attributes" },
		{ "link_index", "link" },
		{ "mapping_table", "mapping" },
		{ "location_table", "location" },
		{ "function_table", "function" },
	};

	if (l->d->version == WIRE_V1_3)
		for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
			if (str_is(str_cstr(name), renamed[i][0]))
				return renamed[i][1];
	return name;
}

static uint32_t entry_of(const struct span *s, uint32_t index)
{
	return index - s->first + s->zero_first;
}

/* The location whose lines hold `line`: the last of those at hand that begin at or before it. */
static uint32_t location_of(const struct legacy *l, uint32_t line)
{
	const struct dictionary *dict = &l->d->p->dict;
	uint32_t low = l->tables.locations.first, high = dict->location_count;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (dict->locations[mid].lines.first <= line)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* The entry of a table, or the sample, that the owner is. */
static void origin_entry(const struct legacy *l, struct owner owner, struct bad_origin *o)
{
	const struct legacy_tables *t = &l->tables;
	uint32_t location;

	switch (owner.message) {
	case MESSAGE_SAMPLE:
		o->entry_in = "sample";
		o->entry = owner.index - l->first_sample;
		break;
	case MESSAGE_MAPPING:
		o->entry_in = name_of(l, "mapping_table");
		o->entry = entry_of(&t->mappings, owner.index);
		break;
	case MESSAGE_FUNCTION:
		o->entry_in = name_of(l, "function_table");
		o->entry = entry_of(&t->functions, owner.index);
		break;
	case MESSAGE_LOCATION:
		o->entry_in = name_of(l, "location_table");
		o->entry = entry_of(&t->locations, owner.index);
		break;
	case MESSAGE_LINE:
		location = location_of(l, owner.index);
		o->entry_in = name_of(l, "location_table");
		o->entry = entry_of(&t->locations, location);
		o->part_in = "line";
		o->part = owner.index - l->d->p->dict.locations[location].lines.first;
		break;
	default:
		break;
	}
}

struct bad_index legacy_bad(const struct legacy *l, const struct ref_place *place, int64_t value,
			    uint32_t table_count)
{
	bool of_profile = place->owner.message == MESSAGE_PROFILE ||
			  place->owner.message == MESSAGE_SAMPLE || l->d->version <= WIRE_V1_5;
	struct bad_index bad = {
		.message = place->owner.message,
		.index = place->owner.index,
		.element = place->element,
		.field = place->slot ? place->slot : place->field,
		.table = name_of(l, place->table),
		.value = value,
		.table_count = table_count,
		.apart = place->apart,
	};
	struct bad_origin *o = &bad.origin;

	*o = (struct bad_origin){
		.root = ".",
		.field = name_of(l, place->field),
		.part_in = place->part_in,
		.part = place->part,
		.element = place->element,
		.profile = of_profile ? l->profile : UINT32_MAX,
		.list = str_has_suffix(str_cstr(place->field), STR("indices")) ||
			str_is(str_cstr(place->field), "location_index"),
	};
	if (l->d->version == WIRE_V1_3)
		o->root = ".profile.";
	else if (!of_profile)
		o->root = l->d->version == WIRE_V1_6 ? "" : "dictionary.";
	origin_entry(l, place->owner, o);
	return bad;
}

uint32_t legacy_location(struct legacy *l, struct pb_reader *r, uint32_t local,
			 const struct ref_place *place)
{
	struct bad_location_list *list = &l->bad_locations;

	if (local < l->tables.locations.count)
		return span_translate(l, r, &l->tables.locations, local, place);
	VEC_ROOM(list->v, list->count, list->cap);
	list->v[list->count] = (struct bad_location){
		.bad = legacy_bad(l, place, (int32_t)local, l->tables.locations.count),
	};
	return BAD_LOCATION | list->count++;
}

void legacy_locations_unused(struct legacy *l, struct pb_reader *r, uint32_t first)
{
	for (uint32_t i = first; i < l->bad_locations.count && !r->fault; i++)
		if (!l->bad_locations.v[i].shown)
			decoder_bad_index(l->d, r, &l->bad_locations.v[i].bad);
}

static void stack_end(struct legacy *l, struct pb_reader *r, uint32_t stack)
{
	struct dictionary *dict = &l->d->p->dict;
	struct range list = dict->stacks[stack].locations;

	for (uint32_t k = 0; k < list.count; k++) {
		struct location_index *location = &dict->stack_locations[list.first + k];
		struct bad_index bad;

		if (!(location->v & BAD_LOCATION))
			continue;
		bad = l->bad_locations.v[location->v & ~BAD_LOCATION].bad;
		bad.message = MESSAGE_STACK;
		bad.index = stack;
		bad.element = k;
		bad.field = "location_indices";
		location->v = 0;
		if (!r->fault)
			decoder_bad_index(l->d, r, &bad);
	}
}

void legacy_locations_end(struct legacy *l, struct pb_reader *r)
{
	if (l->bad_locations.count == 0)
		return;
	for (uint32_t i = 0; i < l->d->p->dict.stack_count; i++)
		stack_end(l, r, i);
}
