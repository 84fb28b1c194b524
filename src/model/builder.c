#include "model/builder.h"
#include <assert.h>
#include <stdlib.h>
#include "base/buf.h"
#include "base/hash.h"
#include "model/intern.h"
#include "model/seal.h"

/*
 * Flat arrays grow on the heap while the message is built (growing in the arena would leave each
 * smaller copy behind) and are copied into it once, at their exact size, when it is finished.
 */
#define VEC(type)                    \
	struct {                     \
		type *at;            \
		uint32_t count, cap; \
	}

struct builder {
	struct builder_options options;
	struct profiles *p; /* arena, body; the arrays are put in by builder_finish() */
	size_t heap_bytes;
	bool failed;
	bool append_next;
	bool too_many; /* 2^32 entries rather than limit_bytes */

	VEC(struct str) strings;
	VEC(struct mapping) mappings;
	VEC(struct location) locations;
	VEC(struct function) functions;
	VEC(struct link) links;
	VEC(struct attribute) attributes;
	VEC(struct stack) stacks;
	VEC(struct line) lines;
	VEC(struct location_index) stack_locations;
	struct intern_table string_ids, mapping_ids, location_ids, function_ids, link_ids,
		attribute_ids, stack_ids;

	VEC(struct resource_profiles) resources;
	VEC(struct scope_profiles) scopes;
	VEC(struct profile) profiles;
	VEC(struct sample) samples;
	VEC(struct attribute_index) attribute_refs;
	VEC(int64_t) values;
	VEC(uint64_t) timestamps;
	VEC(struct extra) extras;
	VEC(struct bad_index) bad_indices;

	struct buf key; /* scratch: canonical bytes of the entry that is looked up */
	/* What a begin gives once the builder has failed, so that callers need not check. */
	struct resource_profiles lost_resource;
	struct scope_profiles lost_scope;
	struct profile lost_profile;
};

static bool builder_fail(struct builder *b, bool too_many)
{
	b->failed = true;
	b->too_many |= too_many;
	return false;
}

static bool builder_has_room(struct builder *b, size_t more_bytes)
{
	size_t limit = b->options.limit_bytes;
	size_t used = b->heap_bytes + b->p->arena.reserved_bytes;

	return !limit || (used <= limit && more_bytes <= limit - used) || builder_fail(b, false);
}

/* Room for `more` entries of `size` bytes in the vector whose parts are given. */
static bool vec_reserve(struct builder *b, void **at, uint32_t count, uint32_t *cap, uint32_t more,
			size_t size)
{
	uint64_t need = (uint64_t)count + more;
	uint64_t new_cap = *cap ? *cap : 16;
	void *grown;

	if (b->failed)
		return false;
	if (need <= *cap)
		return true;
	while (new_cap < need)
		new_cap *= 2;
	if (new_cap >= UINT32_MAX)
		return builder_fail(b, true);
	if (!builder_has_room(b, (size_t)(new_cap - *cap) * size))
		return false;
	grown = realloc(*at, (size_t)new_cap * size);
	assert(grown);
	b->heap_bytes += (size_t)(new_cap - *cap) * size;
	*at = grown;
	*cap = (uint32_t)new_cap;
	return true;
}

#define RESERVE(b, vec, more)                                                      \
	vec_reserve(b, (void **)&(b)->vec.at, (b)->vec.count, &(b)->vec.cap, more, \
		    sizeof(*(b)->vec.at))

/* Appends `n` entries and gives their range; an empty one when the builder has failed. */
#define APPEND(b, vec, from, n)                                        \
	({                                                             \
		struct range range_ = { 0 };                           \
		uint32_t n_ = (n);                                     \
		if (n_ && RESERVE(b, vec, n_)) {                       \
			memcpy((b)->vec.at + (b)->vec.count, from,     \
			       (size_t)n_ * sizeof(*(b)->vec.at));     \
			range_ = (struct range){ (b)->vec.count, n_ }; \
			(b)->vec.count += n_;                          \
		}                                                      \
		range_;                                                \
	})

#define PUSH(b, vec, entry) \
	(RESERVE(b, vec, 1) ? ((b)->vec.at[(b)->vec.count++] = (entry), true) : false)

/* ---- copying values ---- */

static struct str keep_string(struct builder *b, struct str s)
{
	struct str copy;

	if (!b->options.copy_strings || !s.len)
		return s;
	copy = str_dup(&b->p->arena, s);
	if (!copy.ptr)
		builder_fail(b, false);
	return copy;
}

static const struct value_unknown *keep_unknown(struct builder *b, const struct value_unknown *u)
{
	struct value_unknown *copy;

	if (!u)
		return NULL;
	copy = arena_alloc(&b->p->arena, sizeof(*copy));
	if (!copy) {
		builder_fail(b, false);
		return NULL;
	}
	*copy = (struct value_unknown){ .value = keep_string(b, u->value),
					.list = keep_string(b, u->list),
					.pair = keep_string(b, u->pair) };
	return copy;
}

struct any_value builder_any(struct builder *b, const struct any_value *v)
{
	struct any_value copy = *v;
	struct any_value *values;

	switch (v->kind) {
	case ANY_STRING:
	case ANY_BYTES:
		copy.string = keep_string(b, v->string);
		break;
	case ANY_ARRAY:
		values = arena_alloc_array(&b->p->arena, v->array.count, sizeof(*values));
		if (!values) {
			builder_fail(b, false);
			return (struct any_value){ 0 };
		}
		for (uint32_t i = 0; i < v->array.count; i++)
			values[i] = builder_any(b, &v->array.values[i]);
		copy.array.values = values;
		break;
	case ANY_KVLIST:
		copy.kvlist.pairs = builder_key_values(b, v->kvlist.pairs, v->kvlist.count).ptr;
		if (!copy.kvlist.pairs)
			copy.kvlist.count = 0;
		break;
	case ANY_EMPTY:
	case ANY_BOOL:
	case ANY_INT:
	case ANY_DOUBLE:
		break;
	}
	copy.unknown = keep_unknown(b, v->unknown);
	return copy;
}

struct key_values builder_key_values(struct builder *b, const struct key_value *kv, uint32_t count)
{
	struct key_value *copy;

	if (!count)
		return (struct key_values){ 0 };
	copy = arena_alloc_array(&b->p->arena, count, sizeof(*copy));
	if (!copy) {
		builder_fail(b, false);
		return (struct key_values){ 0 };
	}
	for (uint32_t i = 0; i < count; i++)
		copy[i] = (struct key_value){ .key = keep_string(b, kv[i].key),
					      .key_strindex = kv[i].key_strindex,
					      .value = builder_any(b, &kv[i].value) };
	return (struct key_values){ copy, count };
}

/* ---- canonical bytes ---- */

static void key_number(struct buf *key, uint64_t v)
{
	buf_append(key, &v, sizeof(v));
}

static void key_string(struct buf *key, struct str s)
{
	key_number(key, s.len);
	buf_str(key, s);
}

static void key_any(struct buf *key, const struct any_value *v)
{
	key_number(key, v->kind);
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
	case ANY_BYTES:
		key_string(key, v->string);
		break;
	case ANY_BOOL:
		key_number(key, v->boolean);
		break;
	case ANY_INT:
		key_number(key, (uint64_t)v->integer);
		break;
	case ANY_DOUBLE: /* by its bits: NaN equals itself, -0 is not 0 */
		buf_append(key, &v->real, sizeof(v->real));
		break;
	case ANY_ARRAY:
		key_number(key, v->array.count);
		for (uint32_t i = 0; i < v->array.count; i++)
			key_any(key, &v->array.values[i]);
		break;
	case ANY_KVLIST:
		key_number(key, v->kvlist.count);
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			key_string(key, v->kvlist.pairs[i].key);
			key_any(key, &v->kvlist.pairs[i].value);
		}
		break;
	}
}

static uint64_t key_hash(const struct builder *b)
{
	return hash64(buf_view(&b->key));
}

/* ---- equality with an entry of a table ---- */

static bool string_same(const void *ctx, uint32_t index, const void *key)
{
	const struct builder *b = ctx;

	return str_equal(b->strings.at[index], *(const struct str *)key);
}

static bool refs_same(const struct builder *b, struct range have,
		      const struct attribute_index *want, uint32_t count)
{
	return have.count == count && (!count || memcmp(b->attribute_refs.at + have.first, want,
							count * sizeof(*want)) == 0);
}

struct mapping_key {
	const struct mapping *m;
	const struct attribute_index *attributes;
	uint32_t count;
};

static bool mapping_same(const void *ctx, uint32_t index, const void *key)
{
	const struct builder *b = ctx;
	const struct mapping_key *k = key;
	const struct mapping *m = &b->mappings.at[index];

	return m->memory_start == k->m->memory_start && m->memory_limit == k->m->memory_limit &&
	       m->file_offset == k->m->file_offset && m->filename.v == k->m->filename.v &&
	       refs_same(b, m->attributes, k->attributes, k->count);
}

static bool function_same(const void *ctx, uint32_t index, const void *key)
{
	const struct function *have = &((const struct builder *)ctx)->functions.at[index];
	const struct function *want = key;

	return have->name.v == want->name.v && have->system_name.v == want->system_name.v &&
	       have->filename.v == want->filename.v && have->start_line == want->start_line;
}

struct location_key {
	const struct location *l;
	const struct line *lines;
	const struct attribute_index *attributes;
	uint32_t line_count, attribute_count;
};

static bool location_same(const void *ctx, uint32_t index, const void *key)
{
	const struct builder *b = ctx;
	const struct location_key *k = key;
	const struct location *l = &b->locations.at[index];

	if (l->address != k->l->address || l->mapping.v != k->l->mapping.v ||
	    l->lines.count != k->line_count ||
	    !refs_same(b, l->attributes, k->attributes, k->attribute_count))
		return false;
	for (uint32_t i = 0; i < k->line_count; i++) {
		const struct line *have = &b->lines.at[l->lines.first + i];

		if (have->line != k->lines[i].line || have->column != k->lines[i].column ||
		    have->function.v != k->lines[i].function.v)
			return false;
	}
	return true;
}

static bool link_same(const void *ctx, uint32_t index, const void *key)
{
	const struct link *have = &((const struct builder *)ctx)->links.at[index];
	const struct link *want = key;

	return memcmp(have->trace_id, want->trace_id, sizeof(have->trace_id)) == 0 &&
	       memcmp(have->span_id, want->span_id, sizeof(have->span_id)) == 0;
}

static bool attribute_same(const void *ctx, uint32_t index, const void *key)
{
	const struct attribute *have = &((const struct builder *)ctx)->attributes.at[index];
	const struct attribute *want = key;

	return have->key.v == want->key.v && have->unit.v == want->unit.v &&
	       any_value_equal(&have->value, &want->value);
}

struct stack_key {
	const struct location_index *locations;
	uint32_t count;
};

static bool stack_same(const void *ctx, uint32_t index, const void *key)
{
	const struct builder *b = ctx;
	const struct stack_key *k = key;
	struct range have = b->stacks.at[index].locations;

	return have.count == k->count &&
	       (!k->count || memcmp(b->stack_locations.at + have.first, k->locations,
				    k->count * sizeof(*k->locations)) == 0);
}

/* ---- life ---- */

/* Entry 0 of every table is the zero value, and findable as such. */
static void add_zero_entries(struct builder *b)
{
	assert(builder_string(b, (struct str){ 0 }).v == 0);
	assert(builder_mapping(b, &(struct mapping){ 0 }, NULL, 0).v == 0);
	assert(builder_location(b, &(struct location){ 0 }, NULL, 0, NULL, 0).v == 0);
	assert(builder_function(b, &(struct function){ 0 }).v == 0);
	assert(builder_link(b, &(struct link){ 0 }).v == 0);
	assert(builder_attribute(b, &(struct attribute){ 0 }).v == 0);
	assert(builder_stack(b, NULL, 0).v == 0);
}

struct builder *builder_new(const struct builder_options *options)
{
	struct builder *b = calloc(1, sizeof(*b));

	assert(b);
	b->options = *options;
	b->p = profiles_new(4096, 0);
	if (options->body)
		b->p->body = blob_ref(options->body);
	intern_init(&b->string_ids);
	intern_init(&b->mapping_ids);
	intern_init(&b->location_ids);
	intern_init(&b->function_ids);
	intern_init(&b->link_ids);
	intern_init(&b->attribute_ids);
	intern_init(&b->stack_ids);
	buf_init(&b->key, 0);
	add_zero_entries(b);
	return b;
}

static void builder_release_tables(struct builder *b)
{
	void *arrays[] = { b->strings.at,    b->mappings.at,       b->locations.at,
			   b->functions.at,  b->links.at,          b->attributes.at,
			   b->stacks.at,     b->lines.at,          b->stack_locations.at,
			   b->resources.at,  b->scopes.at,         b->profiles.at,
			   b->samples.at,    b->attribute_refs.at, b->values.at,
			   b->timestamps.at, b->extras.at,         b->bad_indices.at };

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		free(arrays[i]);
	intern_release(&b->string_ids);
	intern_release(&b->mapping_ids);
	intern_release(&b->location_ids);
	intern_release(&b->function_ids);
	intern_release(&b->link_ids);
	intern_release(&b->attribute_ids);
	intern_release(&b->stack_ids);
	buf_release(&b->key);
}

void builder_free(struct builder *b)
{
	if (!b)
		return;
	builder_release_tables(b);
	profiles_free(b->p);
	free(b);
}

struct arena *builder_arena(struct builder *b)
{
	return &b->p->arena;
}

/* ---- dictionary ---- */

struct strindex builder_string(struct builder *b, struct str s)
{
	uint32_t found;

	if (!RESERVE(b, strings, 1) || !builder_has_room(b, b->options.copy_strings ? s.len : 0))
		return (struct strindex){ 0 };
	found = intern_find_or_add(&b->string_ids, hash64(s), string_same, b, &s, b->strings.count);
	if (found != UINT32_MAX)
		return (struct strindex){ found };
	b->strings.at[b->strings.count] = keep_string(b, s);
	return (struct strindex){ b->strings.count++ };
}

void builder_append_next(struct builder *b)
{
	b->append_next = true;
}

static uint32_t find_entry(struct builder *b, struct intern_table *t, uint64_t hash,
			   intern_same_fn *same, const void *ctx, const void *key, uint32_t next)
{
	if (b->append_next) {
		b->append_next = false;
		return UINT32_MAX;
	}
	return intern_find_or_add(t, hash, same, ctx, key, next);
}

static void assert_refs(const struct builder *b, const struct attribute_index *attributes,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert(attributes[i].v < b->attributes.count);
}

struct mapping_index builder_mapping(struct builder *b, const struct mapping *m,
				     const struct attribute_index *attributes, uint32_t count)
{
	struct mapping_key key = { m, attributes, count };
	struct mapping entry = *m;
	uint32_t found;

	if (!RESERVE(b, mappings, 1) || !RESERVE(b, attribute_refs, count))
		return (struct mapping_index){ 0 };
	assert(m->filename.v < b->strings.count);
	assert_refs(b, attributes, count);
	buf_reset(&b->key);
	key_number(&b->key, m->memory_start);
	key_number(&b->key, m->memory_limit);
	key_number(&b->key, m->file_offset);
	key_number(&b->key, m->filename.v);
	buf_append(&b->key, attributes, count * sizeof(*attributes));
	found = find_entry(b, &b->mapping_ids, key_hash(b), mapping_same, b, &key,
			   b->mappings.count);
	if (found != UINT32_MAX)
		return (struct mapping_index){ found };
	entry.attributes = APPEND(b, attribute_refs, attributes, count);
	b->mappings.at[b->mappings.count] = entry;
	return (struct mapping_index){ b->mappings.count++ };
}

struct function_index builder_function(struct builder *b, const struct function *f)
{
	uint32_t found;

	if (!RESERVE(b, functions, 1))
		return (struct function_index){ 0 };
	assert(f->name.v < b->strings.count && f->system_name.v < b->strings.count &&
	       f->filename.v < b->strings.count);
	buf_reset(&b->key);
	key_number(&b->key, (uint64_t)f->name.v << 32 | f->system_name.v);
	key_number(&b->key, f->filename.v);
	key_number(&b->key, (uint64_t)f->start_line);
	found = find_entry(b, &b->function_ids, key_hash(b), function_same, b, f,
			   b->functions.count);
	if (found != UINT32_MAX)
		return (struct function_index){ found };
	b->functions.at[b->functions.count] = *f;
	return (struct function_index){ b->functions.count++ };
}

struct location_index builder_location(struct builder *b, const struct location *l,
				       const struct line *lines, uint32_t line_count,
				       const struct attribute_index *attributes,
				       uint32_t attribute_count)
{
	struct location_key key = { l, lines, attributes, line_count, attribute_count };
	struct location entry = *l;
	uint32_t found;

	if (!RESERVE(b, locations, 1) || !RESERVE(b, lines, line_count) ||
	    !RESERVE(b, attribute_refs, attribute_count))
		return (struct location_index){ 0 };
	assert(l->mapping.v < b->mappings.count);
	assert_refs(b, attributes, attribute_count);
	buf_reset(&b->key);
	key_number(&b->key, l->address);
	key_number(&b->key, (uint64_t)l->mapping.v << 32 | line_count);
	for (uint32_t i = 0; i < line_count; i++) {
		assert(lines[i].function.v < b->functions.count);
		key_number(&b->key, (uint64_t)lines[i].line);
		key_number(&b->key, (uint64_t)lines[i].column);
		key_number(&b->key, lines[i].function.v);
	}
	buf_append(&b->key, attributes, attribute_count * sizeof(*attributes));
	found = find_entry(b, &b->location_ids, key_hash(b), location_same, b, &key,
			   b->locations.count);
	if (found != UINT32_MAX)
		return (struct location_index){ found };
	entry.lines = APPEND(b, lines, lines, line_count);
	entry.attributes = APPEND(b, attribute_refs, attributes, attribute_count);
	b->locations.at[b->locations.count] = entry;
	return (struct location_index){ b->locations.count++ };
}

struct range builder_lines(const struct builder *b, struct location_index location)
{
	return b->locations.at[location.v].lines;
}

struct stack_index builder_stack(struct builder *b, const struct location_index *locations,
				 uint32_t count)
{
	struct stack_key key = { locations, count };
	uint64_t hash = hash64(str_from(locations, count * sizeof(*locations)));
	uint32_t found;

	if (!RESERVE(b, stacks, 1) || !RESERVE(b, stack_locations, count))
		return (struct stack_index){ 0 };
	for (uint32_t i = 0; i < count; i++)
		assert(locations[i].v < b->locations.count);
	found = find_entry(b, &b->stack_ids, hash, stack_same, b, &key, b->stacks.count);
	if (found != UINT32_MAX)
		return (struct stack_index){ found };
	b->stacks.at[b->stacks.count].locations = APPEND(b, stack_locations, locations, count);
	return (struct stack_index){ b->stacks.count++ };
}

struct link_index builder_link(struct builder *b, const struct link *l)
{
	uint32_t found;

	if (!RESERVE(b, links, 1))
		return (struct link_index){ 0 };
	found = find_entry(b, &b->link_ids, hash64(str_from(l, sizeof(*l))), link_same, b, l,
			   b->links.count);
	if (found != UINT32_MAX)
		return (struct link_index){ found };
	b->links.at[b->links.count] = *l;
	return (struct link_index){ b->links.count++ };
}

struct attribute_index builder_attribute(struct builder *b, const struct attribute *a)
{
	struct attribute entry = *a;
	uint32_t found;

	if (!RESERVE(b, attributes, 1))
		return (struct attribute_index){ 0 };
	assert(a->key.v < b->strings.count && a->unit.v < b->strings.count);
	buf_reset(&b->key);
	key_number(&b->key, (uint64_t)a->key.v << 32 | a->unit.v);
	key_any(&b->key, &a->value);
	if (!builder_has_room(b, b->key.len))
		return (struct attribute_index){ 0 };
	found = find_entry(b, &b->attribute_ids, key_hash(b), attribute_same, b, a,
			   b->attributes.count);
	if (found != UINT32_MAX)
		return (struct attribute_index){ found };
	entry.value = builder_any(b, &a->value);
	b->attributes.at[b->attributes.count] = entry;
	return (struct attribute_index){ b->attributes.count++ };
}

/* ---- resources, scopes, profiles, samples ---- */

struct resource_profiles *builder_begin_resource(struct builder *b)
{
	struct resource_profiles entry = { .scopes.first = b->scopes.count };

	if (!PUSH(b, resources, entry))
		return &b->lost_resource;
	return &b->resources.at[b->resources.count - 1];
}

struct scope_profiles *builder_begin_scope(struct builder *b)
{
	struct scope_profiles entry = { .profiles.first = b->profiles.count };

	if (!PUSH(b, scopes, entry))
		return &b->lost_scope;
	assert(b->resources.count);
	b->resources.at[b->resources.count - 1].scopes.count++;
	return &b->scopes.at[b->scopes.count - 1];
}

struct profile *builder_begin_profile(struct builder *b)
{
	struct profile entry = { .samples.first = b->samples.count };

	if (!PUSH(b, profiles, entry))
		return &b->lost_profile;
	assert(b->scopes.count && b->resources.at[b->resources.count - 1].scopes.count);
	b->scopes.at[b->scopes.count - 1].profiles.count++;
	return &b->profiles.at[b->profiles.count - 1];
}

void builder_profile_attributes(struct builder *b, const struct attribute_index *attributes,
				uint32_t count)
{
	struct range refs = APPEND(b, attribute_refs, attributes, count);

	if (b->failed)
		return;
	assert(b->profiles.count);
	assert_refs(b, attributes, count);
	b->profiles.at[b->profiles.count - 1].attributes = refs;
}

uint32_t builder_sample(struct builder *b, struct stack_index stack, struct link_index link,
			const struct attribute_index *attributes, uint32_t attribute_count,
			const int64_t *values, uint32_t value_count, const uint64_t *timestamps,
			uint32_t timestamp_count)
{
	struct sample entry = { .stack = stack, .link = link };

	if (b->failed)
		return 0;
	assert(b->profiles.count && b->scopes.at[b->scopes.count - 1].profiles.count);
	assert(stack.v < b->stacks.count && link.v < b->links.count);
	assert_refs(b, attributes, attribute_count);
	entry.attributes = APPEND(b, attribute_refs, attributes, attribute_count);
	entry.values = APPEND(b, values, values, value_count);
	entry.timestamps = APPEND(b, timestamps, timestamps, timestamp_count);
	if (!PUSH(b, samples, entry))
		return 0;
	b->profiles.at[b->profiles.count - 1].samples.count++;
	return b->samples.count - 1;
}

uint32_t builder_newest(const struct builder *b, enum message_kind message)
{
	uint32_t count = 1;

	if (message == MESSAGE_RESOURCE_PROFILES || message == MESSAGE_RESOURCE)
		count = b->resources.count;
	else if (message == MESSAGE_SCOPE_PROFILES || message == MESSAGE_SCOPE)
		count = b->scopes.count;
	else if (message == MESSAGE_PROFILE)
		count = b->profiles.count;
	else if (message == MESSAGE_SAMPLE)
		count = b->samples.count;
	assert(count || b->failed);
	return count ? count - 1 : 0;
}

void builder_extra(struct builder *b, enum message_kind message, uint32_t index, enum extra_key key,
		   const struct any_value *v)
{
	struct extra entry = { .message = message, .key = key, .index = index };

	if (!RESERVE(b, extras, 1))
		return;
	entry.value = builder_any(b, v);
	b->extras.at[b->extras.count++] = entry;
}

void builder_bad_index(struct builder *b, const struct bad_index *bad)
{
	PUSH(b, bad_indices, *bad);
}

/* ---- finish ---- */

static void *copy_array(struct builder *b, const void *from, uint32_t count, size_t size)
{
	void *to = arena_alloc_array(&b->p->arena, count, size);

	assert(to); /* the arena has no limit of its own: builder_has_room() kept it */
	if (count)
		memcpy(to, from, count * size);
	return to;
}

#define TAKE(b, vec) copy_array(b, (b)->vec.at, (b)->vec.count, sizeof(*(b)->vec.at))

static void take_dictionary(struct builder *b)
{
	b->p->dict = (struct dictionary){
		.strings = TAKE(b, strings),
		.mappings = TAKE(b, mappings),
		.locations = TAKE(b, locations),
		.functions = TAKE(b, functions),
		.links = TAKE(b, links),
		.attributes = TAKE(b, attributes),
		.stacks = TAKE(b, stacks),
		.lines = TAKE(b, lines),
		.stack_locations = TAKE(b, stack_locations),
		.string_count = b->strings.count,
		.mapping_count = b->mappings.count,
		.location_count = b->locations.count,
		.function_count = b->functions.count,
		.link_count = b->links.count,
		.attribute_count = b->attributes.count,
		.stack_count = b->stacks.count,
		.line_count = b->lines.count,
		.stack_location_count = b->stack_locations.count,
	};
}

static void take_arrays(struct builder *b)
{
	struct profiles *p = b->p;

	take_dictionary(b);
	p->resources = TAKE(b, resources);
	p->scopes = TAKE(b, scopes);
	p->profiles = TAKE(b, profiles);
	p->samples = TAKE(b, samples);
	p->attribute_refs = TAKE(b, attribute_refs);
	p->values = TAKE(b, values);
	p->timestamps = TAKE(b, timestamps);
	p->extras = TAKE(b, extras);
	p->bad_indices = TAKE(b, bad_indices);
	p->resource_count = b->resources.count;
	p->scope_count = b->scopes.count;
	p->profile_count = b->profiles.count;
	p->sample_count = b->samples.count;
	p->attribute_ref_count = b->attribute_refs.count;
	p->value_count = b->values.count;
	p->timestamp_count = b->timestamps.count;
	p->extra_count = b->extras.count;
	p->bad_index_count = b->bad_indices.count;
}

struct profiles *builder_finish(struct builder *b, struct err *err)
{
	struct profiles *p = b->p;

	if (b->failed || !builder_has_room(b, 0)) {
		if (b->too_many)
			err_set(err, ERR_LIMIT, "a table of the message passes 2^32 entries");
		else
			err_set(err, ERR_LIMIT, "the message passes %zu bytes",
				b->options.limit_bytes);
		builder_free(b);
		return NULL;
	}
	take_arrays(b);
	builder_release_tables(b);
	free(b);
	if (!profiles_seal(p, false, err)) {
		profiles_free(p);
		return NULL;
	}
	return p;
}
