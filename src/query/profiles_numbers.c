#include "query/profiles_numbers.h"

#include <stdlib.h>

#include "base/hash.h"
#include "model/intern.h"
#include "store/schema/codec.h"
#include "store/schema/lifted.h"

static void put_attributes(struct buf *b, struct key_values list)
{
	codec_put(b, list.count);
	for (uint32_t i = 0; i < list.count; i++) {
		codec_put_str(b, list.ptr[i].key);
		codec_put_any(b, &list.ptr[i].value);
	}
}

static void number_owners(struct profiles_source *m)
{
	struct buf b;

	m->resource_of_scope = must(calloc(m->p->scope_count + 1, sizeof(uint32_t)));
	m->owner_of_scope = must(calloc(m->p->scope_count + 1, sizeof(uint64_t)));
	buf_init(&b, 0);
	for (uint32_t r = 0; r < m->p->resource_count; r++) {
		const struct resource_profiles *resource = &m->p->resources[r];

		for (uint32_t k = 0; k < resource->scopes.count; k++) {
			uint32_t at = resource->scopes.first + k;
			const struct scope_profiles *scope = &m->p->scopes[at];

			buf_reset(&b);
			put_attributes(&b, resource->attributes);
			codec_put_str(&b, scope->name);
			codec_put_str(&b, scope->version);
			put_attributes(&b, scope->attributes);
			m->resource_of_scope[at] = r;
			m->owner_of_scope[at] = hash64(buf_view(&b));
		}
	}
	buf_release(&b);
}

/* What is lifted from samples tells series apart as in stores (lifted.h): processes above all. */
struct own_series {
	uint32_t scope;
	const struct profile *profile;
	const struct attribute_index *lifted;
	uint32_t lifted_count;
};

struct numbering {
	struct profiles_source *m;
	struct intern_table table;
	struct arena arena;
	struct lifted lifted;
	uint32_t *met_in; /* by series: the profile that it was met in last, + 1 */
	uint32_t met_cap;
};

static bool same_type(const struct profiles *p, struct value_type a, struct value_type b)
{
	return str_equal(profiles_string(p, a.type), profiles_string(p, b.type)) &&
	       str_equal(profiles_string(p, a.unit), profiles_string(p, b.unit));
}

static bool series_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles_source *m = ctx;
	const struct own_series *k = key;
	const struct memory_series *s = &m->series[index];
	const struct profile *first = &m->p->profiles[s->profile];

	return s->scope == k->scope && first->period == k->profile->period &&
	       s->lifted.count == k->lifted_count &&
	       (!k->lifted_count || memcmp(m->lifted + s->lifted.first, k->lifted,
					   k->lifted_count * sizeof(*k->lifted)) == 0) &&
	       same_type(m->p, first->sample_type, k->profile->sample_type) &&
	       same_type(m->p, first->period_type, k->profile->period_type);
}

static struct range keep_lifted(struct profiles_source *m, const struct own_series *k)
{
	struct range r = { m->lifted_count, k->lifted_count };

	if (k->lifted_count > m->lifted_cap - m->lifted_count) {
		m->lifted_cap = (m->lifted_cap + k->lifted_count) * 2;
		m->lifted = must(realloc(m->lifted, m->lifted_cap * sizeof(*m->lifted)));
	}
	if (k->lifted_count)
		memcpy(m->lifted + r.first, k->lifted, k->lifted_count * sizeof(*k->lifted));
	m->lifted_count += k->lifted_count;
	return r;
}

static void add_series(struct numbering *n, const struct own_series *k, uint32_t profile)
{
	struct profiles_source *m = n->m;

	if (m->series_count == n->met_cap) {
		n->met_cap = n->met_cap ? n->met_cap * 2 : 64;
		m->series = must(realloc(m->series, n->met_cap * sizeof(*m->series)));
		n->met_in = must(realloc(n->met_in, n->met_cap * sizeof(*n->met_in)));
	}
	n->met_in[m->series_count] = 0;
	m->series[m->series_count++] = (struct memory_series){
		.scope = k->scope,
		.profile = profile,
		.lifted = keep_lifted(m, k),
		.process = lifted_process(m->p, &m->p->resources[m->resource_of_scope[k->scope]],
					  k->lifted, k->lifted_count),
	};
}

/* Notes that the profile is of the series, too. */
static void meet_series(struct numbering *n, uint32_t series, uint32_t profile)
{
	struct profiles_source *m = n->m;

	if (n->met_in[series] == profile + 1)
		return;
	n->met_in[series] = profile + 1;
	if (m->profile_series_count == m->profile_series_cap) {
		m->profile_series_cap = m->profile_series_cap ? m->profile_series_cap * 2 : 64;
		m->profile_series = must(realloc(
			m->profile_series, m->profile_series_cap * sizeof(*m->profile_series)));
	}
	m->profile_series[m->profile_series_count++] = series + 1;
	m->series_of_profile[profile].count++;
}

/* The series of a profile's sample; of the profile itself where it has none. */
static uint32_t number_of_series(struct numbering *n, uint32_t scope, uint32_t profile,
				 const struct sample *sample)
{
	struct profiles_source *m = n->m;
	const struct resource_profiles *resource = &m->p->resources[m->resource_of_scope[scope]];
	struct own_series key = { .scope = scope, .profile = &m->p->profiles[profile] };
	struct str type = profiles_string(m->p, key.profile->sample_type.type);
	uint64_t parts[3] = { hash64(type), scope };
	uint32_t found;

	if (sample)
		key.lifted_count = lifted_of(&n->lifted, resource, sample, &n->arena);
	key.lifted = n->lifted.at;
	parts[2] = hash64(str_from(key.lifted, key.lifted_count * sizeof(*key.lifted)));
	found = intern_find_or_add(&n->table, hash64(str_from(parts, sizeof(parts))), series_same,
				   m, &key, m->series_count);
	if (found == UINT32_MAX) {
		found = m->series_count;
		add_series(n, &key, profile);
	}
	meet_series(n, found, profile);
	return found + 1;
}

static void number_profile(struct numbering *n, uint32_t scope, uint32_t index)
{
	struct profiles_source *m = n->m;
	const struct profile *profile = &m->p->profiles[index];
	struct range samples = profile->samples;

	m->series_of_profile[index].first = m->profile_series_count;
	if (profile->refused)
		return;
	for (uint32_t i = samples.first; i < samples.first + samples.count; i++)
		m->series_of_sample[i] = number_of_series(n, scope, index, &m->p->samples[i]);
	if (!samples.count)
		number_of_series(n, scope, index, NULL);
}

static void number_series(struct profiles_source *m)
{
	struct numbering n = { .m = m };

	intern_init(&n.table);
	arena_init(&n.arena, 4096, 0);
	lifted_begin(&n.lifted, m->p, &n.arena);
	m->series_of_sample = must(calloc(m->p->sample_count + 1, sizeof(uint32_t)));
	m->series_of_profile = must(calloc(m->p->profile_count + 1, sizeof(struct range)));
	for (uint32_t s = 0; s < m->p->scope_count; s++) {
		struct range r = m->p->scopes[s].profiles;

		for (uint32_t i = r.first; i < r.first + r.count; i++)
			number_profile(&n, s, i);
	}
	intern_release(&n.table);
	arena_release(&n.arena);
	free(n.met_in);
}

static bool set_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles_source *m = ctx;
	const struct range *a = &m->sets[index], *b = key;

	return a->count == b->count &&
	       memcmp(m->p->attribute_refs + a->first, m->p->attribute_refs + b->first,
		      a->count * sizeof(struct attribute_index)) == 0;
}

static uint32_t number_of_set(struct profiles_source *m, struct intern_table *table, struct range r)
{
	uint32_t found;

	if (r.count == 0)
		return 0;
	found = intern_find_or_add(table,
				   hash64(str_from(m->p->attribute_refs + r.first,
						   r.count * sizeof(struct attribute_index))),
				   set_same, m, &r, m->set_count);
	if (found == UINT32_MAX) {
		found = m->set_count++;
		m->sets[found] = r;
	}
	if (r.count > m->scratch_count)
		m->scratch_count = r.count;
	return found + 1;
}

static void number_sets(struct profiles_source *m)
{
	const struct profiles *p = m->p;
	struct intern_table table;

	intern_init(&table);
	m->sets = must(calloc((size_t)p->sample_count + 1, sizeof(*m->sets)));
	m->set_of_sample = must(calloc(p->sample_count + 1, sizeof(uint32_t)));
	for (uint32_t i = 0; i < p->sample_count; i++)
		m->set_of_sample[i] = number_of_set(m, &table, p->samples[i].attributes);
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (p->profiles[i].attributes.count > m->scratch_count)
			m->scratch_count = p->profiles[i].attributes.count;
	intern_release(&table);
}

static void widen(struct source_range *extent, uint64_t from, uint64_t to)
{
	if (from < extent->from)
		extent->from = from;
	if (to > extent->to)
		extent->to = to;
}

static void measure_extent(struct profiles_source *m)
{
	const struct profiles *p = m->p;

	m->extent = (struct source_range){ UINT64_MAX, 0 };
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		for (uint32_t k = 0; k < profile->samples.count && !profile->refused; k++) {
			struct range t = p->samples[profile->samples.first + k].timestamps;

			if (!t.count)
				widen(&m->extent, profile->time_unix_nano, profile->time_unix_nano);
			for (uint32_t j = t.first; j < t.first + t.count; j++)
				widen(&m->extent, p->timestamps[j], p->timestamps[j]);
		}
	}
}

void profiles_number(struct profiles_source *m)
{
	number_owners(m);
	number_series(m);
	number_sets(m);
	m->scratch = must(calloc(m->scratch_count + 1, sizeof(*m->scratch)));
	measure_extent(m);
}
