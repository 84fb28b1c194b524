#include "wire/encode.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"

struct str encode_clean(struct encoder *e, struct str s)
{
	AUTO(buf_release) struct buf clean = { 0 };

	utf8_append_clean(&clean, s);
	return str_dup(&e->scratch, buf_view(&clean));
}

/* ---- values ---- */

static const struct value_unknown *unknown_to_write(const struct encoder *e,
						    const struct any_value *v)
{
	return e->same_version ? v->unknown : NULL;
}

void encode_pair_unknown(struct encoder *e, const struct any_value *v)
{
	const struct value_unknown *unknown = unknown_to_write(e, v);

	if (unknown)
		pw_raw(&e->w, unknown->pair);
}

static void encode_list_unknown(struct encoder *e, const struct any_value *v)
{
	const struct value_unknown *unknown = unknown_to_write(e, v);

	if (unknown)
		pw_raw(&e->w, unknown->list);
}

void encode_any(struct encoder *e, uint32_t number, const struct any_value *v)
{
	size_t mark = pw_mark(&e->w);

	encode_any_fields(e, v);
	if (v->kind != ANY_EMPTY || pw_mark(&e->w) != mark)
		pw_message(&e->w, number, mark);
}

static void encode_key_value(struct encoder *e, uint32_t number, const struct key_value *kv)
{
	size_t mark = pw_mark(&e->w);
	bool by_reference = e->version >= WIRE_V1_10 && kv->key_strindex.v;

	encode_pair_unknown(e, &kv->value);
	if (by_reference)
		pw_uint(&e->w, 3, kv->key_strindex.v);
	encode_any(e, 2, &kv->value);
	if (!by_reference)
		encode_text(e, 1, kv->key);
	pw_message(&e->w, number, mark);
}

void encode_key_values(struct encoder *e, uint32_t number, struct key_values kv)
{
	for (uint32_t i = kv.count; i-- > 0;)
		encode_key_value(e, number, &kv.ptr[i]);
}

static void encode_array(struct encoder *e, const struct any_value *v)
{
	size_t mark = pw_mark(&e->w);

	encode_list_unknown(e, v);
	for (uint32_t i = v->array.count; i-- > 0;) {
		size_t element = pw_mark(&e->w);

		encode_any_fields(e, &v->array.values[i]);
		pw_message(&e->w, 1, element);
	}
	pw_message(&e->w, 5, mark);
}

/* A member of a oneof is put even when it is the default. */
void encode_any_fields(struct encoder *e, const struct any_value *v)
{
	const struct value_unknown *unknown = unknown_to_write(e, v);
	uint64_t bits;
	size_t mark;

	if (unknown)
		pw_raw(&e->w, unknown->value);
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		if (e->version >= WIRE_V1_10 && any_value_is_reference(v))
			pw_uint_present(&e->w, 8, v->strindex.v);
		else
			encode_text_present(e, 1, v->string);
		break;
	case ANY_BOOL:
		pw_uint_present(&e->w, 2, v->boolean);
		break;
	case ANY_INT:
		pw_uint_present(&e->w, 3, (uint64_t)v->integer);
		break;
	case ANY_DOUBLE:
		memcpy(&bits, &v->real, sizeof(bits));
		pw_fixed64_present(&e->w, 4, bits);
		break;
	case ANY_ARRAY:
		encode_array(e, v);
		break;
	case ANY_KVLIST:
		mark = pw_mark(&e->w);
		encode_list_unknown(e, v);
		encode_key_values(e, 1, (struct key_values){ v->kvlist.pairs, v->kvlist.count });
		pw_message(&e->w, 6, mark);
		break;
	case ANY_BYTES:
		pw_bytes_present(&e->w, 7, v->string);
		break;
	}
}

/* ---- strings that only extras know ---- */

static struct str string_at(const struct encoder *e, uint32_t index)
{
	uint32_t first = e->p->dict.string_count;

	return index < first ? e->p->dict.strings[index] : e->added_strings[index - first];
}

static bool string_same(const void *ctx, uint32_t index, const void *key)
{
	return str_equal(string_at(ctx, index), *(const struct str *)key);
}

static uint32_t string_find_or_add(struct encoder *e, struct str s, uint32_t next)
{
	return intern_find_or_add(&e->string_ids, hash64(s), string_same, e, &s, next);
}

uint32_t encode_add_string(struct encoder *e, struct str s)
{
	uint32_t next = e->p->dict.string_count + e->added_string_count, found;

	if (!e->string_ids.slots) {
		intern_init(&e->string_ids);
		for (uint32_t i = 0; i < e->p->dict.string_count; i++)
			string_find_or_add(e, e->p->dict.strings[i], i);
	}
	found = string_find_or_add(e, s, next);
	if (found != UINT32_MAX)
		return found;
	if (e->added_string_count == e->added_string_cap) {
		uint32_t cap = e->added_string_cap ? 2 * e->added_string_cap : 16;

		e->added_strings = arena_grow(&e->scratch, e->added_strings,
					      e->added_string_cap * sizeof(*e->added_strings),
					      cap * sizeof(*e->added_strings));
		e->added_string_cap = cap;
	}
	e->added_strings[e->added_string_count++] = s;
	return next;
}

/* Which extras of an array have strings that the version wants by index. */
static bool wants_strings(const struct encoder *e, enum extra_key key)
{
	if (key == EXTRA_COMMENTS)
		return e->version <= WIRE_V1_8;
	if (key == EXTRA_UNIT_UNKNOWN)
		return e->version == WIRE_V1_7 && e->same_version;
	return key == EXTRA_ATTRIBUTE_UNITS && e->version == WIRE_V1_7;
}

static void collect_strings(struct encoder *e, const struct any_value *v)
{
	if (v->kind == ANY_STRING)
		encode_add_string(e, v->string);
	else if (v->kind == ANY_ARRAY)
		for (uint32_t i = 0; i < v->array.count; i++)
			collect_strings(e, &v->array.values[i]);
	else if (v->kind == ANY_KVLIST)
		for (uint32_t i = 0; i < v->kvlist.count; i++)
			collect_strings(e, &v->kvlist.pairs[i].value);
}

/* The dictionary is put before the profiles that need these strings, so they are collected first.
 */
static void collect_extra_strings(struct encoder *e)
{
	for (uint32_t i = 0; i < e->p->extra_count; i++)
		if (wants_strings(e, e->p->extras[i].key))
			collect_strings(e, &e->p->extras[i].value);
}

/* ---- resources and scopes: never changed ---- */

bool encode_leaves_out_scope(const struct profiles *p, const struct scope_profiles *s)
{
	if (!p->refused_profile_count)
		return false;
	for (uint32_t i = 0; i < s->profiles.count; i++)
		if (!p->profiles[s->profiles.first + i].refused)
			return false;
	return s->profiles.count > 0;
}

bool encode_leaves_out_resource(const struct profiles *p, const struct resource_profiles *r)
{
	if (!p->refused_profile_count)
		return false;
	for (uint32_t i = 0; i < r->scopes.count; i++)
		if (!encode_leaves_out_scope(p, &p->scopes[r->scopes.first + i]))
			return false;
	return r->scopes.count > 0;
}

static void encode_scope_profiles(struct encoder *e, uint32_t index)
{
	const struct scope_profiles *s = &e->p->scopes[index];
	size_t mark = pw_mark(&e->w), scope_mark;

	encode_unknown(e, MESSAGE_SCOPE_PROFILES, index);
	encode_text(e, 3, s->schema_url);
	for (uint32_t i = s->profiles.first + s->profiles.count; i-- > s->profiles.first;) {
		if (e->p->profiles[i].refused)
			continue;
		if (e->version == WIRE_V1_7)
			i = encode_v1_7_profile(e, s->profiles.first, i);
		else
			encode_profile(e, i);
	}
	scope_mark = pw_mark(&e->w);
	encode_unknown(e, MESSAGE_SCOPE, index);
	pw_uint(&e->w, 4, s->dropped_attributes_count);
	encode_key_values(e, 3, s->attributes);
	encode_text(e, 2, s->version);
	encode_text(e, 1, s->name);
	pw_message(&e->w, 1, scope_mark);
	pw_message(&e->w, 2, mark);
}

static void encode_resource_profiles(struct encoder *e, uint32_t index)
{
	const struct resource_profiles *r = &e->p->resources[index];
	const struct extra *entity_refs =
		encode_extra(e, MESSAGE_RESOURCE, index, EXTRA_ENTITY_REFS);
	size_t mark = pw_mark(&e->w), resource_mark;

	encode_unknown(e, MESSAGE_RESOURCE_PROFILES, index);
	encode_text(e, 3, r->schema_url);
	for (uint32_t i = r->scopes.first + r->scopes.count; i-- > r->scopes.first;)
		if (!encode_leaves_out_scope(e->p, &e->p->scopes[i]))
			encode_scope_profiles(e, i);
	resource_mark = pw_mark(&e->w);
	encode_unknown(e, MESSAGE_RESOURCE, index);
	if (entity_refs)
		pw_raw(&e->w, entity_refs->value.string);
	pw_uint(&e->w, 2, r->dropped_attributes_count);
	encode_key_values(e, 1, r->attributes);
	pw_message(&e->w, 1, resource_mark);
	pw_message(&e->w, 1, mark);
}

static void encode_request(struct encoder *e)
{
	size_t mark;

	encode_unknown(e, MESSAGE_REQUEST, 0);
	mark = pw_mark(&e->w);
	if (e->version == WIRE_V1_7)
		encode_v1_7_dictionary(e);
	else
		encode_dictionary(e);
	pw_message(&e->w, 2, mark);
	for (uint32_t i = e->p->resource_count; i-- > 0;)
		if (!encode_leaves_out_resource(e->p, &e->p->resources[i]))
			encode_resource_profiles(e, i);
}

/* Near enough that growing is rare: index varints of two bytes, entries of a dozen, and strings not
 * looked at. */
static size_t guess_bytes(const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	return (size_t)d->stack_location_count * 2 + (size_t)d->stack_count * 4 +
	       (size_t)d->string_count * 32 +
	       (size_t)(d->location_count + d->line_count + d->function_count +
			d->attribute_count) *
		       16 +
	       (size_t)(d->mapping_count + d->link_count) * 40 + (size_t)p->sample_count * 10 +
	       (size_t)p->attribute_ref_count * 2 + (size_t)p->value_count * 5 +
	       (size_t)p->timestamp_count * 8 +
	       (size_t)(p->resource_count + p->scope_count + p->profile_count) * 200;
}

bool otlp_encode(const struct profiles *p, enum wire_version version, struct buf *out,
		 struct err *err)
{
	struct encoder e = {
		.p = p, .version = version, .same_version = p->source_version == version, .err = err
	};

	if (version != WIRE_V1_7 && version != WIRE_V1_8 && version != WIRE_V1_9 &&
	    version != WIRE_V1_10)
		return err_set(err, ERR_UNSUPPORTED,
			       "wire version %s is not written, only 1.7, 1.8, 1.9 and 1.10",
			       wire_version_name(version));
	arena_init(&e.scratch, 4096, 0);
	for (uint32_t i = 0; i < p->extra_count; i++)
		e.has_extras[p->extras[i].message] = true;
	collect_extra_strings(&e);
	if (version == WIRE_V1_7)
		encode_v1_7_prepare(&e);
	pw_begin(&e.w, out, guess_bytes(p));
	encode_request(&e);
	if (e.failed)
		pw_abandon(&e.w);
	else if (!pw_finish(&e.w))
		e.failed = !err_set(err, ERR_LIMIT, "the encoded message passes %zu bytes",
				    out->limit_bytes);
	intern_release(&e.string_ids);
	arena_release(&e.scratch);
	return !e.failed;
}
