#include "model/usage.h"

#include <assert.h>
#include <stdlib.h>

static void *zeroed(uint32_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	assert(p);
	return p;
}

static void usage_init(struct usage *u, const struct profiles *p, struct range samples)
{
	const struct dictionary *d = &p->dict;

	*u = (struct usage){
		.p = p,
		.samples = samples,
		.strings = zeroed(d->string_count, sizeof(uint32_t)),
		.mappings = zeroed(d->mapping_count, sizeof(uint32_t)),
		.locations = zeroed(d->location_count, sizeof(uint32_t)),
		.functions = zeroed(d->function_count, sizeof(uint32_t)),
		.links = zeroed(d->link_count, sizeof(uint32_t)),
		.attributes = zeroed(d->attribute_count, sizeof(uint32_t)),
		.stacks = zeroed(d->stack_count, sizeof(uint32_t)),
		.lines = zeroed(d->line_count, sizeof(uint32_t)),
		.resources = zeroed(p->resource_count, sizeof(bool)),
		.scopes = zeroed(p->scope_count, sizeof(bool)),
		.profiles = zeroed(p->profile_count, sizeof(bool)),
	};
}

void usage_release(struct usage *u)
{
	free(u->strings);
	free(u->mappings);
	free(u->locations);
	free(u->functions);
	free(u->links);
	free(u->attributes);
	free(u->stacks);
	free(u->lines);
	free(u->resources);
	free(u->scopes);
	free(u->profiles);
}

struct range usage_samples(const struct usage *u, const struct profile *p)
{
	uint32_t first = p->samples.first, end = first + p->samples.count;
	uint32_t run_end = u->samples.first + u->samples.count;

	if (first < u->samples.first)
		first = u->samples.first;
	if (end > run_end)
		end = run_end;
	return (struct range){ first, end > first ? end - first : 0 };
}

/* ---- what holds the samples ---- */

/* Does something empty that stands before sample `place` belong to the run? */
static bool place_in_run(const struct usage *u, uint32_t place)
{
	uint32_t end = u->samples.first + u->samples.count;

	return place >= u->samples.first &&
	       (place < end || (place == u->p->sample_count && end == place));
}

/* Of a selection: what holds something that stays. */
static void mark_kept_holders(struct usage *u)
{
	const struct profiles *p = u->p;

	memcpy(u->profiles, u->kept->profiles, p->profile_count * sizeof(bool));
	for (uint32_t r = 0; r < p->resource_count; r++) {
		struct range scopes = p->resources[r].scopes;

		for (uint32_t s = scopes.first; s < scopes.first + scopes.count; s++) {
			struct range profiles = p->scopes[s].profiles;

			for (uint32_t i = profiles.first; i < profiles.first + profiles.count; i++)
				u->scopes[s] |= u->profiles[i];
			u->resources[r] |= u->scopes[s];
		}
	}
}

static void mark_holders(struct usage *u)
{
	const struct profiles *p = u->p;
	uint32_t place = 0; /* samples before what is looked at */

	for (uint32_t r = 0; r < p->resource_count; r++) {
		struct range scopes = p->resources[r].scopes;

		u->resources[r] = !scopes.count && place_in_run(u, place);
		for (uint32_t s = scopes.first; s < scopes.first + scopes.count; s++) {
			struct range profiles = p->scopes[s].profiles;

			u->scopes[s] = !profiles.count && place_in_run(u, place);
			for (uint32_t i = profiles.first; i < profiles.first + profiles.count;
			     i++) {
				const struct profile *profile = &p->profiles[i];

				u->profiles[i] =
					usage_samples(u, profile).count ||
					(!profile->samples.count && place_in_run(u, place));
				u->scopes[s] |= u->profiles[i];
				place += profile->samples.count;
			}
			u->resources[r] |= u->scopes[s];
		}
	}
}

/* ---- what they need ---- */

static void mark_any(struct usage *u, const struct any_value *v);

static void mark_pairs(struct usage *u, const struct key_value *kv, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		u->strings[kv[i].key_strindex.v] = 1;
		mark_any(u, &kv[i].value);
	}
}

/* Values hold strings by reference only where the sender wrote them so. */
static void mark_any(struct usage *u, const struct any_value *v)
{
	if (v->kind == ANY_STRING)
		u->strings[v->strindex.v] = 1;
	else if (v->kind == ANY_ARRAY)
		for (uint32_t i = 0; i < v->array.count; i++)
			mark_any(u, &v->array.values[i]);
	else if (v->kind == ANY_KVLIST)
		mark_pairs(u, v->kvlist.pairs, v->kvlist.count);
}

static void mark_refs(struct usage *u, struct range refs)
{
	for (uint32_t i = 0; i < refs.count; i++)
		u->attributes[u->p->attribute_refs[refs.first + i].v] = 1;
}

static void mark_messages(struct usage *u)
{
	const struct profiles *p = u->p;

	for (uint32_t i = 0; i < p->resource_count; i++)
		if (u->resources[i])
			mark_pairs(u, p->resources[i].attributes.ptr,
				   p->resources[i].attributes.count);
	for (uint32_t i = 0; i < p->scope_count; i++)
		if (u->scopes[i])
			mark_pairs(u, p->scopes[i].attributes.ptr, p->scopes[i].attributes.count);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		if (!u->profiles[i])
			continue;
		mark_refs(u, profile->attributes);
		u->strings[profile->sample_type.type.v] = 1;
		u->strings[profile->sample_type.unit.v] = 1;
		u->strings[profile->period_type.type.v] = 1;
		u->strings[profile->period_type.unit.v] = 1;
	}
	for (uint32_t i = u->samples.first; i < u->samples.first + u->samples.count; i++) {
		if (!usage_keeps(u, i))
			continue;
		u->kept_count++;
		u->stacks[p->samples[i].stack.v] = 1;
		u->links[p->samples[i].link.v] = 1;
		mark_refs(u, p->samples[i].attributes);
	}
}

/* Tables refer one way only: stacks, locations, lines and mappings, functions and attributes,
 * strings. */
static void mark_tables(struct usage *u)
{
	const struct dictionary *d = &u->p->dict;

	for (uint32_t i = 0; i < d->stack_count; i++) {
		struct range at = d->stacks[i].locations;

		if (!u->stacks[i] && i)
			continue;
		u->stack_location_count += at.count;
		for (uint32_t k = 0; k < at.count; k++)
			u->locations[d->stack_locations[at.first + k].v] = 1;
	}
	for (uint32_t i = 0; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];

		if (!u->locations[i] && i)
			continue;
		u->mappings[l->mapping.v] = 1;
		mark_refs(u, l->attributes);
		for (uint32_t k = l->lines.first; k < l->lines.first + l->lines.count; k++) {
			u->lines[k] = ++u->line_count;
			u->functions[d->lines[k].function.v] = 1;
		}
	}
	for (uint32_t i = 0; i < d->mapping_count; i++) {
		if (!u->mappings[i] && i)
			continue;
		u->strings[d->mappings[i].filename.v] = 1;
		mark_refs(u, d->mappings[i].attributes);
	}
	for (uint32_t i = 0; i < d->function_count; i++) {
		const struct function *f = &d->functions[i];

		if (u->functions[i] || !i)
			u->strings[f->name.v] = u->strings[f->system_name.v] =
				u->strings[f->filename.v] = 1;
	}
	for (uint32_t i = 0; i < d->attribute_count; i++) {
		if (!u->attributes[i] && i)
			continue;
		u->strings[d->attributes[i].key.v] = u->strings[d->attributes[i].unit.v] = 1;
		mark_any(u, &d->attributes[i].value);
	}
}

/* Marks become numbers; gives how many entries there are with entry 0. */
static uint32_t number(uint32_t *marks, uint32_t count)
{
	uint32_t next = 1;

	marks[0] = 0;
	for (uint32_t i = 1; i < count; i++)
		if (marks[i])
			marks[i] = next++;
	return next;
}

static void mark(struct usage *u)
{
	const struct dictionary *d = &u->p->dict;

	mark_messages(u);
	mark_tables(u);
	u->string_count = number(u->strings, d->string_count);
	u->mapping_count = number(u->mappings, d->mapping_count);
	u->location_count = number(u->locations, d->location_count);
	u->function_count = number(u->functions, d->function_count);
	u->link_count = number(u->links, d->link_count);
	u->attribute_count = number(u->attributes, d->attribute_count);
	u->stack_count = number(u->stacks, d->stack_count);
}

void usage_mark(struct usage *u, const struct profiles *p, struct range samples)
{
	usage_init(u, p, samples);
	mark_holders(u);
	mark(u);
}

void usage_mark_kept(struct usage *u, const struct profiles *p, const struct selection *kept)
{
	usage_init(u, p, (struct range){ 0, p->sample_count });
	u->kept = kept;
	mark_kept_holders(u);
	mark(u);
}
