#include "model/seal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* One index field of one array: `count` references, `stride` bytes apart, 4 bytes each, into a
 * table. */
struct column {
	void *first;
	size_t stride;
	uint32_t count, table_count;
	enum message_kind message;
	const char *field, *table;
};

/* Who owns the runs of a flat array of references. */
struct owners {
	const void *first; /* struct range */
	size_t stride;
	uint32_t count;
	enum message_kind message;
};

struct seal {
	struct profiles *p;
	uint32_t bad_cap;
	bool out_of_memory;
};

typedef uint32_t u32x4 __attribute__((vector_size(16)));

/*
 * For v < 2^31 and count <= 2^31, (count - 1 - v) has its top bit set exactly when v >= count;
 * larger v have it set themselves. Both are collected with OR: cheap operations, four references at
 * a time, with plain SSE2.
 */
static bool any_past_packed(const uint32_t *v, uint32_t n, uint32_t table_count)
{
	uint32_t most = table_count - 1, bits, i = 0;
	u32x4 most4 = { most, most, most, most }, bits4 = { 0 }, a, b;

	for (; n - i >= 8; i += 8) {
		memcpy(&a, v + i, sizeof(a));
		memcpy(&b, v + i + 4, sizeof(b));
		bits4 |= (most4 - a) | a | (most4 - b) | b;
	}
	bits = bits4[0] | bits4[1] | bits4[2] | bits4[3];
	for (; i < n; i++)
		bits |= (most - v[i]) | v[i];
	return bits >> 31;
}

static bool any_past(const struct column *c)
{
	uint32_t most = c->table_count - 1, bits = 0;
	const char *at = c->first;

	assert(c->table_count > 0 && c->table_count <= UINT32_C(1) << 31);
	if (c->stride == sizeof(uint32_t))
		return any_past_packed(c->first, c->count, c->table_count);
#pragma GCC unroll 4
	for (uint32_t i = 0; i < c->count; i++, at += c->stride) {
		uint32_t v = *(const uint32_t *)at;

		bits |= (most - v) | v;
	}
	return bits >> 31;
}

static void note_bad(struct seal *s, const struct column *c, uint32_t index, uint32_t element,
		     uint32_t *ref)
{
	struct profiles *p = s->p;

	if (p->bad_index_count == s->bad_cap) {
		uint32_t cap = s->bad_cap ? 2 * s->bad_cap : 16;
		struct bad_index *bigger =
			arena_grow(&p->arena, p->bad_indices, s->bad_cap * sizeof(*bigger),
				   cap * sizeof(*bigger));

		if (!bigger) {
			s->out_of_memory = true;
			*ref = 0;
			return;
		}
		p->bad_indices = bigger;
		s->bad_cap = cap;
	}
	p->bad_indices[p->bad_index_count++] = (struct bad_index){
		.message = c->message,
		.index = index,
		.element = element,
		.field = c->field,
		.table = c->table,
		.value = (int32_t)*ref, /* references are int32 on the wire */
		.table_count = c->table_count,
	};
	*ref = 0;
}

static void check_column(struct seal *s, const struct column *c)
{
	char *at = c->first;

	if (!any_past(c))
		return;
	for (uint32_t i = 0; i < c->count; i++, at += c->stride)
		if (*(uint32_t *)at >= c->table_count)
			note_bad(s, c, i, 0, (uint32_t *)at);
}

/* A flat array whose runs belong to several kinds of messages. */
static void check_runs(struct seal *s, struct column c, const struct owners *owners, size_t kinds)
{
	uint32_t *refs = c.first;

	if (!any_past(&c))
		return;
	for (size_t k = 0; k < kinds; k++) {
		const char *at = owners[k].first;

		c.message = owners[k].message;
		for (uint32_t i = 0; i < owners[k].count; i++, at += owners[k].stride) {
			struct range r = *(const struct range *)at;

			for (uint32_t e = 0; e < r.count; e++)
				if (refs[r.first + e] >= c.table_count)
					note_bad(s, &c, i, e, &refs[r.first + e]);
		}
	}
	/* What no message owns (a half-read one left it behind) must be harmless too. */
	for (uint32_t i = 0; i < c.count; i++)
		if (refs[i] >= c.table_count)
			refs[i] = 0;
}

#define COLUMN(array, n, member, table_n, message_, field_, table_)                          \
	{                                                                                    \
		(n) ? (void *)&(array)[0].member : NULL, sizeof((array)[0]), (n), (table_n), \
			(message_), (field_), (table_)                                       \
	}
#define OWNERS(array, n, member, message_)                                                         \
	{                                                                                          \
		(n) ? (const void *)&(array)[0].member : NULL, sizeof((array)[0]), (n), (message_) \
	}

static void check_dictionary(struct seal *s)
{
	struct profiles *p = s->p;
	struct dictionary *d = &p->dict;
	const struct column columns[] = {
		COLUMN(d->mappings, d->mapping_count, filename.v, d->string_count, MESSAGE_MAPPING,
		       "filename_strindex", "string_table"),
		COLUMN(d->locations, d->location_count, mapping.v, d->mapping_count,
		       MESSAGE_LOCATION, "mapping_index", "mapping_table"),
		COLUMN(d->lines, d->line_count, function.v, d->function_count, MESSAGE_LINE,
		       "function_index", "function_table"),
		COLUMN(d->functions, d->function_count, name.v, d->string_count, MESSAGE_FUNCTION,
		       "name_strindex", "string_table"),
		COLUMN(d->functions, d->function_count, system_name.v, d->string_count,
		       MESSAGE_FUNCTION, "system_name_strindex", "string_table"),
		COLUMN(d->functions, d->function_count, filename.v, d->string_count,
		       MESSAGE_FUNCTION, "filename_strindex", "string_table"),
		COLUMN(d->attributes, d->attribute_count, key.v, d->string_count, MESSAGE_ATTRIBUTE,
		       "key_strindex", "string_table"),
		COLUMN(d->attributes, d->attribute_count, unit.v, d->string_count,
		       MESSAGE_ATTRIBUTE, "unit_strindex", "string_table"),
	};
	const struct column stack_refs =
		COLUMN(d->stack_locations, d->stack_location_count, v, d->location_count,
		       MESSAGE_STACK, "location_indices", "location_table");
	const struct owners stacks = OWNERS(d->stacks, d->stack_count, locations, MESSAGE_STACK);

	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		check_column(s, &columns[i]);
	check_runs(s, stack_refs, &stacks, 1);
}

static void check_messages(struct seal *s)
{
	struct profiles *p = s->p;
	struct dictionary *d = &p->dict;
	const struct column columns[] = {
		COLUMN(p->profiles, p->profile_count, sample_type.type.v, d->string_count,
		       MESSAGE_PROFILE, "sample_type.type_strindex", "string_table"),
		COLUMN(p->profiles, p->profile_count, sample_type.unit.v, d->string_count,
		       MESSAGE_PROFILE, "sample_type.unit_strindex", "string_table"),
		COLUMN(p->profiles, p->profile_count, period_type.type.v, d->string_count,
		       MESSAGE_PROFILE, "period_type.type_strindex", "string_table"),
		COLUMN(p->profiles, p->profile_count, period_type.unit.v, d->string_count,
		       MESSAGE_PROFILE, "period_type.unit_strindex", "string_table"),
		COLUMN(p->samples, p->sample_count, stack.v, d->stack_count, MESSAGE_SAMPLE,
		       "stack_index", "stack_table"),
		COLUMN(p->samples, p->sample_count, link.v, d->link_count, MESSAGE_SAMPLE,
		       "link_index", "link_table"),
	};

	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		check_column(s, &columns[i]);
}

static void check_attribute_refs(struct seal *s)
{
	struct profiles *p = s->p;
	struct dictionary *d = &p->dict;
	const struct column refs =
		COLUMN(p->attribute_refs, p->attribute_ref_count, v, d->attribute_count,
		       MESSAGE_SAMPLE, "attribute_indices", "attribute_table");
	const struct owners owners[] = {
		OWNERS(p->profiles, p->profile_count, attributes, MESSAGE_PROFILE),
		OWNERS(p->samples, p->sample_count, attributes, MESSAGE_SAMPLE),
		OWNERS(d->mappings, d->mapping_count, attributes, MESSAGE_MAPPING),
		OWNERS(d->locations, d->location_count, attributes, MESSAGE_LOCATION),
	};

	check_runs(s, refs, owners, ARRAY_LEN(owners));
}

/*
 * Strict mode. One flag per entry of each table: reaches a bad reference. The dictionary is no tree
 * to walk but a chain of tables, so each is marked once from those before it.
 */
struct tainted {
	bool *functions, *mappings, *attributes, *locations, *stacks, *lines, *samples, *profiles;
};

static bool *flags_new(uint32_t count)
{
	bool *flags = calloc(count ? count : 1, sizeof(*flags));

	assert(flags);
	return flags;
}

static void tainted_release(struct tainted *t)
{
	free(t->functions);
	free(t->mappings);
	free(t->attributes);
	free(t->locations);
	free(t->stacks);
	free(t->lines);
	free(t->samples);
	free(t->profiles);
}

static void taint_profiles_of_scope(struct tainted *t, const struct profiles *p, uint32_t scope)
{
	struct range r = p->scopes[scope].profiles;

	for (uint32_t i = 0; i < r.count; i++)
		t->profiles[r.first + i] = true;
}

static void taint_profiles_of_resource(struct tainted *t, const struct profiles *p,
				       uint32_t resource)
{
	struct range r = p->resources[resource].scopes;

	for (uint32_t i = 0; i < r.count; i++)
		taint_profiles_of_scope(t, p, r.first + i);
}

static void taint_message(struct tainted *t, const struct profiles *p, enum message_kind message,
			  uint32_t i)
{
	switch (message) {
	case MESSAGE_RESOURCE_PROFILES:
	case MESSAGE_RESOURCE:
		taint_profiles_of_resource(t, p, i);
		return;
	case MESSAGE_SCOPE_PROFILES:
	case MESSAGE_SCOPE:
		taint_profiles_of_scope(t, p, i);
		return;
	case MESSAGE_PROFILE:
		t->profiles[i] = true;
		return;
	case MESSAGE_SAMPLE:
		t->samples[i] = true;
		return;
	case MESSAGE_MAPPING:
		t->mappings[i] = true;
		return;
	case MESSAGE_LOCATION:
		t->locations[i] = true;
		return;
	case MESSAGE_LINE:
		t->lines[i] = true;
		return;
	case MESSAGE_FUNCTION:
		t->functions[i] = true;
		return;
	case MESSAGE_ATTRIBUTE:
		t->attributes[i] = true;
		return;
	case MESSAGE_STACK:
		t->stacks[i] = true;
		return;
	case MESSAGE_REQUEST:
	case MESSAGE_DICTIONARY:
	case MESSAGE_LINK:
		return; /* hold no references */
	}
}

static bool any_attribute_tainted(const struct tainted *t, const struct profiles *p, struct range r)
{
	for (uint32_t i = 0; i < r.count; i++)
		if (t->attributes[p->attribute_refs[r.first + i].v])
			return true;
	return false;
}

static bool location_tainted(const struct tainted *t, const struct profiles *p,
			     const struct location *l)
{
	if (t->mappings[l->mapping.v] || any_attribute_tainted(t, p, l->attributes))
		return true;
	for (uint32_t i = 0; i < l->lines.count; i++) {
		uint32_t line = l->lines.first + i;

		if (t->lines[line] || t->functions[p->dict.lines[line].function.v])
			return true;
	}
	return false;
}

static void taint_dictionary(struct tainted *t, const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	for (uint32_t i = 0; i < d->mapping_count; i++)
		t->mappings[i] |= any_attribute_tainted(t, p, d->mappings[i].attributes);
	for (uint32_t i = 0; i < d->location_count; i++)
		t->locations[i] |= location_tainted(t, p, &d->locations[i]);
	for (uint32_t i = 0; i < d->stack_count; i++) {
		struct range r = d->stacks[i].locations;

		for (uint32_t k = 0; k < r.count && !t->stacks[i]; k++)
			t->stacks[i] = t->locations[d->stack_locations[r.first + k].v];
	}
}

static void taint_profiles(struct tainted *t, const struct profiles *p)
{
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		t->profiles[i] |= any_attribute_tainted(t, p, profile->attributes);
		for (uint32_t k = 0; k < profile->samples.count && !t->profiles[i]; k++) {
			uint32_t at = profile->samples.first + k;
			const struct sample *s = &p->samples[at];

			t->profiles[i] = t->samples[at] || t->stacks[s->stack.v] ||
					 any_attribute_tainted(t, p, s->attributes);
		}
	}
}

static void refuse_profiles(struct profiles *p)
{
	const struct dictionary *d = &p->dict;
	struct tainted t = {
		.functions = flags_new(d->function_count),
		.mappings = flags_new(d->mapping_count),
		.attributes = flags_new(d->attribute_count),
		.locations = flags_new(d->location_count),
		.stacks = flags_new(d->stack_count),
		.lines = flags_new(d->line_count),
		.samples = flags_new(p->sample_count),
		.profiles = flags_new(p->profile_count),
	};

	for (uint32_t i = 0; i < p->bad_index_count; i++)
		taint_message(&t, p, p->bad_indices[i].message, p->bad_indices[i].index);
	taint_dictionary(&t, p);
	taint_profiles(&t, p);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		if (!t.profiles[i])
			continue;
		p->profiles[i].refused = true;
		p->refused_profile_count++;
	}
	tainted_release(&t);
}

/* What a record belongs to, and where it stood: sorting by it is stable. */
struct place {
	uint64_t message_index;
	uint32_t element; /* of bad indices */
	uint32_t ordinal;
};

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->message_index != y->message_index)
		return x->message_index < y->message_index ? -1 : 1;
	if (x->element != y->element)
		return x->element < y->element ? -1 : 1;
	return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* Sorts `count` records of `size` bytes by their places, which the caller has filled in; frees the
 * places. */
static void records_sort(void *records, uint32_t count, size_t size, struct place *places)
{
	char *copy = malloc(count * size);

	assert(copy);
	memcpy(copy, records, count * size);
	qsort(places, count, sizeof(*places), place_compare);
	for (uint32_t i = 0; i < count; i++)
		memcpy((char *)records + i * size, copy + places[i].ordinal * size, size);
	free(copy);
	free(places);
}

static struct place *places_new(uint32_t count)
{
	struct place *places = malloc(count * sizeof(*places));

	assert(places);
	return places;
}

static uint64_t place_of(enum message_kind message, uint32_t index)
{
	return (uint64_t)message << 32 | index;
}

static void sort_extras(struct profiles *p)
{
	bool sorted = true;
	struct place *places;

	for (uint32_t i = 1; i < p->extra_count && sorted; i++)
		sorted = place_of(p->extras[i - 1].message, p->extras[i - 1].index) <=
			 place_of(p->extras[i].message, p->extras[i].index);
	if (sorted)
		return;
	places = places_new(p->extra_count);
	for (uint32_t i = 0; i < p->extra_count; i++)
		places[i] =
			(struct place){ place_of(p->extras[i].message, p->extras[i].index), 0, i };
	records_sort(p->extras, p->extra_count, sizeof(*p->extras), places);
}

static bool stands_after(const struct bad_index *a, const struct bad_index *b)
{
	uint64_t x = place_of(a->message, a->index), y = place_of(b->message, b->index);

	return x != y ? x > y : a->element > b->element;
}

static void sort_bad_indices(struct profiles *p)
{
	bool sorted = true;
	struct place *places;

	for (uint32_t i = 1; i < p->bad_index_count && sorted; i++)
		sorted = !stands_after(&p->bad_indices[i - 1], &p->bad_indices[i]);
	if (sorted)
		return;
	places = places_new(p->bad_index_count);
	for (uint32_t i = 0; i < p->bad_index_count; i++) {
		const struct bad_index *b = &p->bad_indices[i];

		places[i] = (struct place){ place_of(b->message, b->index), b->element, i };
	}
	records_sort(p->bad_indices, p->bad_index_count, sizeof(*p->bad_indices), places);
}

static bool same_message(const struct extra *a, const struct extra *b)
{
	return a->message == b->message && a->index == b->index;
}

/* Joins the raw fields of one key that extras[from] begins; the others of that message are emptied.
 */
static bool join_run(struct profiles *p, uint32_t from, uint32_t end)
{
	struct extra *first = &p->extras[from];
	size_t len = first->value.string.len, at = len;
	bool several = false;
	char *joined;

	for (uint32_t i = from + 1; i < end; i++) {
		if (p->extras[i].key != first->key)
			continue;
		len += p->extras[i].value.string.len;
		several = true;
	}
	if (!several)
		return true;
	joined = arena_alloc(&p->arena, len);
	if (!joined)
		return false;
	memcpy(joined, first->value.string.ptr, at);
	for (uint32_t i = from + 1; i < end; i++) {
		struct any_value *v = &p->extras[i].value;

		if (p->extras[i].key != first->key)
			continue;
		memcpy(joined + at, v->string.ptr, v->string.len);
		at += v->string.len;
		v->kind = ANY_EMPTY; /* goes away below */
	}
	first->value.string = str_from(joined, len);
	return true;
}

/* Decoders note each run of unknown fields as they meet it; a message has one extra for all of them
 * in the end. */
static bool join_raw_fields(struct profiles *p)
{
	uint32_t kept = 0;

	for (uint32_t i = 0, end; i < p->extra_count; i = end) {
		for (end = i + 1;
		     end < p->extra_count && same_message(&p->extras[i], &p->extras[end]); end++)
			;
		for (uint32_t k = i; k < end; k++)
			if (extra_is_raw(p->extras[k].key) &&
			    p->extras[k].value.kind == ANY_BYTES && !join_run(p, k, end))
				return false;
	}
	for (uint32_t i = 0; i < p->extra_count; i++)
		if (!extra_is_raw(p->extras[i].key) || p->extras[i].value.kind == ANY_BYTES)
			p->extras[kept++] = p->extras[i];
	p->extra_count = kept;
	return true;
}

bool profiles_seal(struct profiles *p, bool strict, struct err *err)
{
	struct seal s = { .p = p, .bad_cap = p->bad_index_count };
	bool joined;

	check_messages(&s);
	check_dictionary(&s);
	check_attribute_refs(&s);
	if (strict && (p->bad_index_count || s.out_of_memory))
		refuse_profiles(p);
	sort_bad_indices(p);
	sort_extras(p);
	joined = join_raw_fields(p);
	p->sealed = true;
	if (s.out_of_memory || !joined)
		return err_set(err, ERR_LIMIT,
			       "the records of what is wrong with the message pass its memory "
			       "limit of %zu bytes",
			       p->arena.limit_bytes);
	return true;
}
