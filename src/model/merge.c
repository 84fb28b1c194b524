#include <stdlib.h>

#include "model/builder.h"
#include "model/copy.h"
#include "model/subset.h"
#include "model/usage.h"

/*
 * Each part's needed entries are interned into one builder; usage numbers become the new indices,
 * so that samples move by table look-up. Strings are copied: the result may outlive every body.
 */
struct merge {
	struct builder *b;
	const struct profiles *p; /* the part that is being added */
	struct usage u; /* its numbers: after add_dictionary() the indices of the result */
	struct arena scratch;
	struct attribute_index *refs;
	uint32_t ref_cap;
	int64_t *shares; /* values that must be computed */
	uint32_t share_cap;
	bool mixed; /* parts of several wire versions */
};

static const struct attribute_index *new_refs(struct merge *m, struct range refs)
{
	if (refs.count > m->ref_cap) {
		m->ref_cap = refs.count * 2;
		m->refs = arena_alloc_array(&m->scratch, m->ref_cap, sizeof(*m->refs));
	}
	for (uint32_t i = 0; i < refs.count; i++)
		m->refs[i].v = m->u.attributes[m->p->attribute_refs[refs.first + i].v];
	return m->refs;
}

/* ---- extras and bad indices ---- */

static bool has_notes(const struct merge *m, enum message_kind message, uint32_t index)
{
	return profiles_extras(m->p, message, index).count ||
	       profiles_bad_indices(m->p, message, index).count;
}

static void add_notes(struct merge *m, enum message_kind message, uint32_t from, uint32_t to)
{
	struct copier c = { .arena = &m->scratch,
			    .shared_body = m->p->body,
			    .string_numbers = m->u.strings };
	struct range extras = profiles_extras(m->p, message, from);
	struct range bad = profiles_bad_indices(m->p, message, from);

	for (uint32_t i = 0; i < extras.count; i++) {
		const struct extra *x = &m->p->extras[extras.first + i];
		struct any_value v = copy_any(&c, &x->value);

		builder_extra(m->b, message, to, x->key, &v);
	}
	for (uint32_t i = 0; i < bad.count; i++) {
		struct bad_index moved = m->p->bad_indices[bad.first + i];

		moved.index = to;
		moved.origin = (struct bad_origin){ 0 }; /* another message: of the newest shape */
		builder_bad_index(m->b, &moved);
	}
}

/* An entry with extras is one of its own: a link of odd ids, say, is zero but for them. */
static void keep_apart(struct merge *m, enum message_kind message, uint32_t index)
{
	if (has_notes(m, message, index))
		builder_append_next(m->b);
}

/* ---- dictionary ---- */

static void add_strings_and_attributes(struct merge *m)
{
	const struct dictionary *d = &m->p->dict;
	struct copier c = { .arena = &m->scratch,
			    .shared_body = m->p->body,
			    .string_numbers = m->u.strings };

	for (uint32_t i = 1; i < d->string_count; i++)
		if (m->u.strings[i])
			m->u.strings[i] = builder_string(m->b, d->strings[i]).v;
	for (uint32_t i = 1; i < d->attribute_count; i++) {
		struct attribute a = d->attributes[i];

		if (!m->u.attributes[i])
			continue;
		a.key.v = m->u.strings[a.key.v];
		a.unit.v = m->u.strings[a.unit.v];
		a.value = copy_any(&c, &a.value);
		keep_apart(m, MESSAGE_ATTRIBUTE, i);
		m->u.attributes[i] = builder_attribute(m->b, &a).v;
		add_notes(m, MESSAGE_ATTRIBUTE, i, m->u.attributes[i]);
	}
}

static void add_mappings_and_functions(struct merge *m)
{
	const struct dictionary *d = &m->p->dict;

	for (uint32_t i = 1; i < d->mapping_count; i++) {
		struct mapping entry = d->mappings[i];

		if (!m->u.mappings[i])
			continue;
		entry.filename.v = m->u.strings[entry.filename.v];
		keep_apart(m, MESSAGE_MAPPING, i);
		m->u.mappings[i] = builder_mapping(m->b, &entry, new_refs(m, entry.attributes),
						   entry.attributes.count)
					   .v;
		add_notes(m, MESSAGE_MAPPING, i, m->u.mappings[i]);
	}
	for (uint32_t i = 1; i < d->function_count; i++) {
		struct function f = d->functions[i];

		if (!m->u.functions[i])
			continue;
		f.name.v = m->u.strings[f.name.v];
		f.system_name.v = m->u.strings[f.system_name.v];
		f.filename.v = m->u.strings[f.filename.v];
		keep_apart(m, MESSAGE_FUNCTION, i);
		m->u.functions[i] = builder_function(m->b, &f).v;
		add_notes(m, MESSAGE_FUNCTION, i, m->u.functions[i]);
	}
}

static bool location_has_notes(const struct merge *m, uint32_t index)
{
	struct range lines = m->p->dict.locations[index].lines;

	for (uint32_t i = 0; i < lines.count; i++)
		if (has_notes(m, MESSAGE_LINE, lines.first + i))
			return true;
	return has_notes(m, MESSAGE_LOCATION, index);
}

static void add_location(struct merge *m, uint32_t index)
{
	const struct dictionary *d = &m->p->dict;
	struct location l = d->locations[index];
	struct line *lines = arena_alloc_array(&m->scratch, l.lines.count, sizeof(*lines));

	for (uint32_t i = 0; i < l.lines.count; i++) {
		lines[i] = d->lines[l.lines.first + i];
		lines[i].function.v = m->u.functions[lines[i].function.v];
	}
	l.mapping.v = m->u.mappings[l.mapping.v];
	if (location_has_notes(m, index))
		builder_append_next(m->b);
	m->u.locations[index] = builder_location(m->b, &l, lines, l.lines.count,
						 new_refs(m, l.attributes), l.attributes.count)
					.v;
	add_notes(m, MESSAGE_LOCATION, index, m->u.locations[index]);
	for (uint32_t i = 0; i < l.lines.count; i++)
		add_notes(m, MESSAGE_LINE, l.lines.first + i,
			  builder_lines(m->b, (struct location_index){ m->u.locations[index] })
					  .first +
				  i);
}

static void add_stack(struct merge *m, uint32_t index)
{
	struct range at = m->p->dict.stacks[index].locations;
	struct location_index *locations =
		arena_alloc_array(&m->scratch, at.count, sizeof(*locations));

	for (uint32_t i = 0; i < at.count; i++)
		locations[i].v = m->u.locations[m->p->dict.stack_locations[at.first + i].v];
	keep_apart(m, MESSAGE_STACK, index);
	m->u.stacks[index] = builder_stack(m->b, locations, at.count).v;
	add_notes(m, MESSAGE_STACK, index, m->u.stacks[index]);
}

static void add_dictionary(struct merge *m)
{
	const struct dictionary *d = &m->p->dict;

	add_strings_and_attributes(m);
	add_mappings_and_functions(m);
	for (uint32_t i = 1; i < d->location_count; i++)
		if (m->u.locations[i])
			add_location(m, i);
	for (uint32_t i = 1; i < d->link_count; i++)
		if (m->u.links[i]) {
			keep_apart(m, MESSAGE_LINK, i);
			m->u.links[i] = builder_link(m->b, &d->links[i]).v;
			add_notes(m, MESSAGE_LINK, i, m->u.links[i]);
		}
	for (uint32_t i = 1; i < d->stack_count; i++)
		if (m->u.stacks[i])
			add_stack(m, i);
}

/* ---- messages ---- */

static struct str add_text(struct merge *m, struct str s)
{
	struct copier c = { .arena = builder_arena(m->b) };

	return copy_string(&c, s);
}

static struct key_values add_attributes(struct merge *m, struct key_values kv)
{
	struct copier c = { .arena = builder_arena(m->b), .string_numbers = m->u.strings };

	return copy_key_values(&c, kv);
}

static const int64_t *values_of(struct merge *m, const struct sample_values *v)
{
	if (v->given || !v->count)
		return v->given;
	if (v->count > m->share_cap) {
		m->share_cap = v->count;
		m->shares = arena_alloc_array(&m->scratch, m->share_cap, sizeof(*m->shares));
	}
	for (uint32_t i = 0; i < v->count; i++)
		m->shares[i] = sample_value_to_write(v, i);
	return m->shares;
}

static void add_sample(struct merge *m, const struct profile *profile, uint32_t index)
{
	const struct sample *s = &m->p->samples[index];
	/* In a message of several versions the newest one's rules hold for all. */
	struct sample_values values =
		m->mixed ? sample_values_to_write(m->p, profile, s)
			 : (struct sample_values){ .given = m->p->values + s->values.first,
						   .count = s->values.count };
	uint32_t place = builder_sample(
		m->b, (struct stack_index){ m->u.stacks[s->stack.v] },
		(struct link_index){ m->u.links[s->link.v] }, new_refs(m, s->attributes),
		s->attributes.count, values.count ? values_of(m, &values) : NULL, values.count,
		s->timestamps.count ? m->p->timestamps + s->timestamps.first : NULL,
		s->timestamps.count);

	add_notes(m, MESSAGE_SAMPLE, index, place);
}

static void add_profile(struct merge *m, uint32_t index)
{
	const struct profile *from = &m->p->profiles[index];
	struct profile *to = builder_begin_profile(m->b);
	struct range samples = to->samples;
	const uint32_t *strings = m->u.strings;

	*to = *from;
	to->samples = samples;
	to->attributes = (struct range){ 0 };
	to->sample_type.type.v = strings[from->sample_type.type.v];
	to->sample_type.unit.v = strings[from->sample_type.unit.v];
	to->period_type.type.v = strings[from->period_type.type.v];
	to->period_type.unit.v = strings[from->period_type.unit.v];
	to->original_payload = add_text(m, from->original_payload);
	to->original_payload_format = add_text(m, from->original_payload_format);
	builder_profile_attributes(m->b, new_refs(m, from->attributes), from->attributes.count);
	add_notes(m, MESSAGE_PROFILE, index, builder_newest(m->b, MESSAGE_PROFILE));
	for (uint32_t i = 0; i < from->samples.count; i++)
		add_sample(m, from, from->samples.first + i);
}

static void add_scope(struct merge *m, uint32_t index)
{
	const struct scope_profiles *from = &m->p->scopes[index];
	struct scope_profiles *to = builder_begin_scope(m->b);
	uint32_t place = builder_newest(m->b, MESSAGE_SCOPE);

	to->name = add_text(m, from->name);
	to->version = add_text(m, from->version);
	to->schema_url = add_text(m, from->schema_url);
	to->attributes = add_attributes(m, from->attributes);
	to->dropped_attributes_count = from->dropped_attributes_count;
	add_notes(m, MESSAGE_SCOPE_PROFILES, index, place);
	add_notes(m, MESSAGE_SCOPE, index, place);
	for (uint32_t i = 0; i < from->profiles.count; i++)
		add_profile(m, from->profiles.first + i);
}

static void add_resource(struct merge *m, uint32_t index)
{
	const struct resource_profiles *from = &m->p->resources[index];
	struct resource_profiles *to = builder_begin_resource(m->b);
	uint32_t place = builder_newest(m->b, MESSAGE_RESOURCE);

	to->schema_url = add_text(m, from->schema_url);
	to->attributes = add_attributes(m, from->attributes);
	to->dropped_attributes_count = from->dropped_attributes_count;
	add_notes(m, MESSAGE_RESOURCE_PROFILES, index, place);
	add_notes(m, MESSAGE_RESOURCE, index, place);
	for (uint32_t i = 0; i < from->scopes.count; i++)
		add_scope(m, from->scopes.first + i);
}

static void add_part(struct merge *m, const struct profiles *p)
{
	m->p = p;
	m->refs = NULL;
	m->ref_cap = 0;
	arena_init(&m->scratch, 16384, 0);
	usage_mark(&m->u, p, (struct range){ 0, p->sample_count });
	add_dictionary(m);
	for (uint32_t i = 0; i < p->resource_count; i++)
		add_resource(m, i);
	add_notes(m, MESSAGE_REQUEST, 0, 0);
	add_notes(m, MESSAGE_DICTIONARY, 0, 0);
	usage_release(&m->u);
	arena_release(&m->scratch);
}

struct profiles *profiles_merge(const struct profiles *const *parts, uint32_t count,
				struct err *err)
{
	struct builder_options options = { .copy_strings = true };
	struct merge m = { .b = builder_new(&options) };
	struct profiles *out;
	uint32_t unknown = 0, refused = 0;

	for (uint32_t i = 1; i < count; i++)
		m.mixed |= parts[i]->source_version != parts[0]->source_version;
	for (uint32_t i = 0; i < count; i++) {
		add_part(&m, parts[i]);
		unknown += parts[i]->unknown_field_count;
		refused += parts[i]->refused_profile_count;
	}
	out = builder_finish(m.b, err);
	if (!out)
		return NULL;
	out->source_version = count && !m.mixed ? parts[0]->source_version : 0;
	out->unknown_field_count = unknown;
	out->refused_profile_count = refused;
	return out;
}
