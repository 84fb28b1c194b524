#include "components/exporters/frame_counts.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/vec.h"
/* attribute_types and location_types: a type t is t + TYPE_FIRST. */
enum { NOT_LOOKED_AT, ANOTHER_KEY, TYPE_FIRST };

void frame_counts_init(struct frame_counts *c, const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	*c = (struct frame_counts){ .profiles = p };
	arena_init(&c->arena, 4096, 0);
	c->attribute_types = arena_zalloc(&c->arena, d->attribute_count);
	c->location_types = arena_zalloc(&c->arena, d->location_count);
	c->stack_runs = arena_zalloc(&c->arena, d->stack_count * sizeof(*c->stack_runs));
	c->types[c->type_count++] = STR("unknown");
}

void frame_counts_release(struct frame_counts *c)
{
	arena_release(&c->arena);
	free(c->runs);
}

static uint32_t type_named(struct frame_counts *c, struct str name)
{
	uint32_t i = 0;

	while (i < c->type_count && !str_equal(c->types[i], name))
		i++;
	if (i < c->type_count)
		return i;
	if (i == FRAME_TYPES_MOST)
		return i - 1;
	c->types[i] = i == FRAME_TYPES_MOST - 1 ? STR("other") : str_dup(&c->arena, name);
	c->type_count++;
	return i;
}

/* The text may be as long as the body: it is made once for an attribute, not for a location. */
static uint32_t type_of_value(struct frame_counts *c, const struct any_value *v)
{
	struct buf text;
	uint32_t type;

	buf_init(&text, 0);
	any_value_append_text(&text, v);
	type = type_named(c, text.len ? str_head(buf_view(&text), FRAME_TYPE_MOST_BYTES)
				      : STR("unknown"));
	buf_release(&text);
	return type;
}

static uint8_t attribute_type(struct frame_counts *c, uint32_t index)
{
	const struct attribute *a = &c->profiles->dict.attributes[index];

	if (c->attribute_types[index])
		return c->attribute_types[index];
	c->looked_at++;
	c->attribute_types[index] = ANOTHER_KEY;
	if (str_equal(profiles_string(c->profiles, a->key), STR("profile.frame.type")))
		c->attribute_types[index] = (uint8_t)(TYPE_FIRST + type_of_value(c, &a->value));
	return c->attribute_types[index];
}

static uint32_t location_type(struct frame_counts *c, uint32_t index)
{
	struct range list = c->profiles->dict.locations[index].attributes;
	uint8_t type = TYPE_FIRST; /* unknown */

	if (c->location_types[index])
		return c->location_types[index] - TYPE_FIRST;
	for (uint32_t i = 0; i < list.count; i++) {
		uint8_t t = attribute_type(c, c->profiles->attribute_refs[list.first + i].v);

		c->looked_at++;
		if (t == ANOTHER_KEY)
			continue;
		type = t;
		break;
	}
	c->location_types[index] = type;
	return type - TYPE_FIRST;
}

static void run_add(struct frame_counts *c, uint64_t frames, uint32_t type)
{
	VEC_ROOM(c->runs, c->run_count, c->run_cap);
	c->runs[c->run_count++] = (struct frame_run){ frames, type };
}

static void walk_stack(struct frame_counts *c, uint32_t stack)
{
	const struct dictionary *d = &c->profiles->dict;
	struct range list = d->stacks[stack].locations;
	uint64_t frames[FRAME_TYPES_MOST] = { 0 };
	uint32_t first = c->run_count;

	for (uint32_t i = 0; i < list.count; i++) {
		uint32_t index = d->stack_locations[list.first + i].v;
		uint32_t lines = d->locations[index].lines.count;

		c->looked_at++;
		frames[location_type(c, index)] += lines ? lines : 1;
	}
	for (uint32_t t = 0; t < c->type_count; t++)
		if (frames[t])
			run_add(c, frames[t], t);
	c->stack_runs[stack] = (struct range){ first, c->run_count - first };
}

void frame_counts_add(struct frame_counts *c, uint32_t stack, int64_t totals[FRAME_TYPES_MOST])
{
	const struct range *list = &c->stack_runs[stack];

	if (c->profiles->dict.stacks[stack].locations.count == 0)
		return;
	if (list->count == 0)
		walk_stack(c, stack);
	for (uint32_t i = list->first; i < list->first + list->count; i++) {
		c->looked_at++;
		totals[c->runs[i].type] += (int64_t)c->runs[i].frames;
	}
}
