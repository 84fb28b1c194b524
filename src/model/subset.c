#include "model/subset.h"

#include <stdlib.h>

#include "model/copy.h"
#include "model/seal.h"
#include "model/usage.h"

/* Entries move by renumbering alone: nothing is hashed or compared. */
struct subset {
	const struct profiles *p;
	struct profiles *out;
	struct usage u;
	struct copier copier;
	uint32_t *resource_numbers, *scope_numbers, *profile_numbers; /* new places, for extras */
	uint32_t *sample_numbers; /* of a selection; NULL: samples keep their order and gaps */
};

static void *array(struct subset *s, uint32_t count, size_t size)
{
	void *p = arena_alloc_array(&s->out->arena, count, size);

	s->copier.failed |= !p;
	return p;
}

#define ARRAY(s, pointer, count) ((pointer) = array(s, count, sizeof(*(pointer))))

/* ---- room ---- */

static bool allocate_dictionary(struct subset *s)
{
	struct dictionary *d = &s->out->dict;
	const struct usage *u = &s->u;

	ARRAY(s, d->strings, u->string_count);
	ARRAY(s, d->mappings, u->mapping_count);
	ARRAY(s, d->locations, u->location_count);
	ARRAY(s, d->functions, u->function_count);
	ARRAY(s, d->links, u->link_count);
	ARRAY(s, d->attributes, u->attribute_count);
	ARRAY(s, d->stacks, u->stack_count);
	ARRAY(s, d->lines, u->line_count);
	ARRAY(s, d->stack_locations, u->stack_location_count);
	d->string_count = u->string_count;
	d->mapping_count = u->mapping_count;
	d->location_count = u->location_count;
	d->function_count = u->function_count;
	d->link_count = u->link_count;
	d->attribute_count = u->attribute_count;
	d->stack_count = u->stack_count;
	return !s->copier.failed;
}

static uint32_t count_marked(const bool *marks, uint32_t count, uint32_t *numbers)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		numbers[i] = n;
		n += marks[i];
	}
	return n;
}

/* The flat arrays' sizes: what the chosen samples, profiles and entries refer to. */
static bool allocate_messages(struct subset *s)
{
	const struct profiles *p = s->p;
	const struct usage *u = &s->u;
	struct profiles *out = s->out;
	uint64_t refs = 0, values = 0, timestamps = 0;

	for (uint32_t i = u->samples.first; i < u->samples.first + u->samples.count; i++) {
		if (!usage_keeps(u, i))
			continue;
		refs += p->samples[i].attributes.count;
		values += p->samples[i].values.count;
		timestamps += p->samples[i].timestamps.count;
	}
	for (uint32_t i = 0; i < p->profile_count; i++)
		refs += u->profiles[i] ? p->profiles[i].attributes.count : 0;
	for (uint32_t i = 0; i < p->dict.mapping_count; i++)
		refs += u->mappings[i] || !i ? p->dict.mappings[i].attributes.count : 0;
	for (uint32_t i = 0; i < p->dict.location_count; i++)
		refs += u->locations[i] || !i ? p->dict.locations[i].attributes.count : 0;
	/* Ranges of a message may overlap in theory, so that the sums need not fit what fit there.
	 */
	if (refs > UINT32_MAX || values > UINT32_MAX || timestamps > UINT32_MAX) {
		s->copier.failed = true;
		return false;
	}
	ARRAY(s, s->resource_numbers, p->resource_count);
	ARRAY(s, s->scope_numbers, p->scope_count);
	ARRAY(s, s->profile_numbers, p->profile_count);
	if (u->kept)
		ARRAY(s, s->sample_numbers, p->sample_count);
	if (s->copier.failed)
		return false;
	ARRAY(s, out->resources,
	      count_marked(u->resources, p->resource_count, s->resource_numbers));
	ARRAY(s, out->scopes, count_marked(u->scopes, p->scope_count, s->scope_numbers));
	ARRAY(s, out->profiles, count_marked(u->profiles, p->profile_count, s->profile_numbers));
	if (u->kept)
		count_marked(u->kept->samples, p->sample_count, s->sample_numbers);
	ARRAY(s, out->samples, u->kept_count);
	ARRAY(s, out->attribute_refs, (uint32_t)refs);
	ARRAY(s, out->values, (uint32_t)values);
	ARRAY(s, out->timestamps, (uint32_t)timestamps);
	ARRAY(s, out->extras, p->extra_count);
	ARRAY(s, out->bad_indices, p->bad_index_count);
	return !s->copier.failed;
}

/* ---- dictionary ---- */

static struct range move_refs(struct subset *s, struct range refs)
{
	struct profiles *out = s->out;
	struct range moved = { out->attribute_ref_count, refs.count };

	for (uint32_t i = 0; i < refs.count; i++)
		out->attribute_refs[out->attribute_ref_count++].v =
			s->u.attributes[s->p->attribute_refs[refs.first + i].v];
	return moved;
}

static struct strindex move_string(const struct subset *s, struct strindex i)
{
	return (struct strindex){ s->u.strings[i.v] };
}

static struct range move_lines(struct subset *s, struct range lines)
{
	struct dictionary *to = &s->out->dict;
	struct range moved = { to->line_count, lines.count };

	for (uint32_t i = 0; i < lines.count; i++) {
		struct line l = s->p->dict.lines[lines.first + i];

		l.function.v = s->u.functions[l.function.v];
		to->lines[to->line_count++] = l;
	}
	return moved;
}

static struct range move_stack_locations(struct subset *s, struct range at)
{
	struct dictionary *to = &s->out->dict;
	struct range moved = { to->stack_location_count, at.count };

	for (uint32_t i = 0; i < at.count; i++)
		to->stack_locations[to->stack_location_count++].v =
			s->u.locations[s->p->dict.stack_locations[at.first + i].v];
	return moved;
}

/* Entries that are needed, entry 0 with them. */
#define EACH_USED(i, table_count, numbers)           \
	for (uint32_t i = 0; i < (table_count); i++) \
		if (!i || (numbers)[i])

static void move_dictionary(struct subset *s)
{
	const struct dictionary *from = &s->p->dict;
	struct dictionary *to = &s->out->dict;
	const struct usage *u = &s->u;

	EACH_USED(i, from->string_count, u->strings)
	to->strings[u->strings[i]] = copy_string(&s->copier, from->strings[i]);
	EACH_USED(i, from->mapping_count, u->mappings)
	{
		struct mapping m = from->mappings[i];

		m.filename = move_string(s, m.filename);
		m.attributes = move_refs(s, m.attributes);
		to->mappings[u->mappings[i]] = m;
	}
	EACH_USED(i, from->location_count, u->locations)
	{
		struct location l = from->locations[i];

		l.mapping.v = u->mappings[l.mapping.v];
		l.lines = move_lines(s, l.lines);
		l.attributes = move_refs(s, l.attributes);
		to->locations[u->locations[i]] = l;
	}
	EACH_USED(i, from->function_count, u->functions)
	{
		struct function f = from->functions[i];

		f.name = move_string(s, f.name);
		f.system_name = move_string(s, f.system_name);
		f.filename = move_string(s, f.filename);
		to->functions[u->functions[i]] = f;
	}
	EACH_USED(i, from->link_count, u->links)
	to->links[u->links[i]] = from->links[i];
	EACH_USED(i, from->attribute_count, u->attributes)
	{
		const struct attribute *a = &from->attributes[i];

		to->attributes[u->attributes[i]] =
			(struct attribute){ .key = move_string(s, a->key),
					    .unit = move_string(s, a->unit),
					    .value = copy_any(&s->copier, &a->value) };
	}
	EACH_USED(i, from->stack_count, u->stacks)
	to->stacks[u->stacks[i]].locations = move_stack_locations(s, from->stacks[i].locations);
}

/* ---- messages ---- */

static void move_sample(struct subset *s, const struct sample *from)
{
	struct profiles *out = s->out;
	struct sample *to = &out->samples[out->sample_count++];

	to->stack.v = s->u.stacks[from->stack.v];
	to->link.v = s->u.links[from->link.v];
	to->attributes = move_refs(s, from->attributes);
	to->values = (struct range){ out->value_count, from->values.count };
	to->timestamps = (struct range){ out->timestamp_count, from->timestamps.count };
	if (from->values.count)
		memcpy(out->values + out->value_count, s->p->values + from->values.first,
		       from->values.count * sizeof(*out->values));
	if (from->timestamps.count)
		memcpy(out->timestamps + out->timestamp_count,
		       s->p->timestamps + from->timestamps.first,
		       from->timestamps.count * sizeof(*out->timestamps));
	out->value_count += from->values.count;
	out->timestamp_count += from->timestamps.count;
}

static void move_profile(struct subset *s, uint32_t index)
{
	struct profile to = s->p->profiles[index];
	struct range samples = usage_samples(&s->u, &to);

	to.sample_type = (struct value_type){ move_string(s, to.sample_type.type),
					      move_string(s, to.sample_type.unit) };
	to.period_type = (struct value_type){ move_string(s, to.period_type.type),
					      move_string(s, to.period_type.unit) };
	to.attributes = move_refs(s, to.attributes);
	to.original_payload_format = copy_string(&s->copier, to.original_payload_format);
	to.original_payload = copy_string(&s->copier, to.original_payload);
	to.samples.first = s->out->sample_count;
	for (uint32_t i = samples.first; i < samples.first + samples.count; i++)
		if (usage_keeps(&s->u, i))
			move_sample(s, &s->p->samples[i]);
	to.samples.count = s->out->sample_count - to.samples.first;
	s->out->profiles[s->out->profile_count++] = to;
	s->out->refused_profile_count += to.refused;
}

static void move_scope(struct subset *s, uint32_t index)
{
	struct scope_profiles to = s->p->scopes[index];
	struct range profiles = to.profiles;
	uint32_t place = s->out->scope_count++;

	to.name = copy_string(&s->copier, to.name);
	to.version = copy_string(&s->copier, to.version);
	to.schema_url = copy_string(&s->copier, to.schema_url);
	to.attributes = copy_key_values(&s->copier, to.attributes);
	to.profiles = (struct range){ s->out->profile_count, 0 };
	for (uint32_t i = profiles.first; i < profiles.first + profiles.count; i++)
		if (s->u.profiles[i]) {
			to.profiles.count++;
			move_profile(s, i);
		}
	s->out->scopes[place] = to;
}

static void move_resource(struct subset *s, uint32_t index)
{
	struct resource_profiles to = s->p->resources[index];
	struct range scopes = to.scopes;
	uint32_t place = s->out->resource_count++;

	to.schema_url = copy_string(&s->copier, to.schema_url);
	to.attributes = copy_key_values(&s->copier, to.attributes);
	to.scopes = (struct range){ s->out->scope_count, 0 };
	for (uint32_t i = scopes.first; i < scopes.first + scopes.count; i++)
		if (s->u.scopes[i]) {
			to.scopes.count++;
			move_scope(s, i);
		}
	s->out->resources[place] = to;
}

/* ---- extras and bad indices ---- */

static bool numbered(const uint32_t *numbers, uint32_t index, uint32_t *moved)
{
	*moved = numbers[index];
	return index == 0 || numbers[index];
}

static bool placed(const bool *marks, const uint32_t *numbers, uint32_t index, uint32_t *moved)
{
	*moved = numbers[index];
	return marks[index];
}

/* The new index of a message, or false when this part has it not. What belongs to the whole goes
 * with the first part. */
static bool move_index(const struct subset *s, enum message_kind message, uint32_t index,
		       uint32_t *moved)
{
	const struct usage *u = &s->u;

	switch (message) {
	case MESSAGE_REQUEST:
	case MESSAGE_DICTIONARY:
		*moved = 0;
		return u->samples.first == 0;
	case MESSAGE_RESOURCE_PROFILES:
	case MESSAGE_RESOURCE:
		return placed(u->resources, s->resource_numbers, index, moved);
	case MESSAGE_SCOPE_PROFILES:
	case MESSAGE_SCOPE:
		return placed(u->scopes, s->scope_numbers, index, moved);
	case MESSAGE_PROFILE:
		return placed(u->profiles, s->profile_numbers, index, moved);
	case MESSAGE_SAMPLE:
		if (s->sample_numbers)
			return placed(u->kept->samples, s->sample_numbers, index, moved);
		*moved = index - u->samples.first;
		return index >= u->samples.first && *moved < u->samples.count;
	case MESSAGE_LINE:
		*moved = u->lines[index] - 1;
		return u->lines[index];
	case MESSAGE_MAPPING:
		return numbered(u->mappings, index, moved);
	case MESSAGE_LOCATION:
		return numbered(u->locations, index, moved);
	case MESSAGE_FUNCTION:
		return numbered(u->functions, index, moved);
	case MESSAGE_LINK:
		return numbered(u->links, index, moved);
	case MESSAGE_ATTRIBUTE:
		return numbered(u->attributes, index, moved);
	case MESSAGE_STACK:
		return numbered(u->stacks, index, moved);
	}
	return false;
}

static void move_notes(struct subset *s)
{
	const struct profiles *p = s->p;
	struct profiles *out = s->out;

	for (uint32_t i = 0; i < p->extra_count; i++) {
		struct extra x = p->extras[i];

		if (!move_index(s, x.message, x.index, &x.index))
			continue;
		x.value = copy_any(&s->copier, &x.value);
		out->extras[out->extra_count++] = x;
	}
	for (uint32_t i = 0; i < p->bad_index_count; i++) {
		struct bad_index bad = p->bad_indices[i];

		bad.origin = (struct bad_origin){ 0 }; /* another message: of the newest shape */
		if (move_index(s, bad.message, bad.index, &bad.index))
			out->bad_indices[out->bad_index_count++] = bad;
	}
	out->unknown_field_count = s->u.samples.first == 0 ? p->unknown_field_count : 0;
}

/* Once the usage is marked; `s->out` is the caller's no more. */
static struct profiles *subset_finish(struct subset *s, struct err *err)
{
	const struct profiles *p = s->p;
	struct profiles *out = s->out;
	bool ok = false;

	out->body = p->body ? blob_ref(p->body) : NULL;
	out->source_version = p->source_version;
	s->copier.string_numbers = s->u.strings;
	if (allocate_dictionary(s) && allocate_messages(s)) {
		move_dictionary(s);
		for (uint32_t i = 0; i < p->resource_count; i++)
			if (s->u.resources[i])
				move_resource(s, i);
		move_notes(s);
		ok = !s->copier.failed;
	}
	usage_release(&s->u);
	if (!ok)
		err_set(err, ERR_LIMIT, "a part of the message passes %zu bytes",
			p->arena.limit_bytes);
	if (!ok || !profiles_seal(out, false, err)) {
		profiles_free(out);
		return NULL;
	}
	return out;
}

static struct subset subset_begin(const struct profiles *p)
{
	struct profiles *out = profiles_new(16384, p->arena.limit_bytes);

	return (struct subset){ .p = p,
				.out = out,
				.copier = { .arena = &out->arena, .shared_body = p->body } };
}

struct profiles *profiles_subset(const struct profiles *p, uint32_t first_sample, uint32_t count,
				 struct err *err)
{
	struct subset s;

	if (first_sample > p->sample_count || count > p->sample_count - first_sample) {
		err_set(err, ERR_INVALID, "samples %u to %u of a message that has %u", first_sample,
			first_sample + count, p->sample_count);
		return NULL;
	}
	s = subset_begin(p);
	usage_mark(&s.u, p, (struct range){ first_sample, count });
	return subset_finish(&s, err);
}

struct profiles *profiles_select(const struct profiles *p, const struct selection *keep,
				 struct err *err)
{
	struct subset s = subset_begin(p);

	usage_mark_kept(&s.u, p, keep);
	return subset_finish(&s, err);
}
