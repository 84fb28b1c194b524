#include "wire/encode.h"

#include "base/buf.h"
#include "base/cleanup.h"

struct str encode_clean(struct encoder *e, struct str s)
{
	AUTO(buf_release) struct buf clean = { 0 };

	utf8_append_clean(&clean, s);
	return str_dup(&e->scratch, buf_view(&clean));
}

/* ---- values ---- */

static void encode_key_value(struct encoder *e, uint32_t number, const struct key_value *kv)
{
	size_t mark = pw_mark(&e->w), value_mark;
	bool by_reference = e->version >= WIRE_V1_10 && kv->key_strindex.v;

	if (by_reference)
		pw_uint(&e->w, 3, kv->key_strindex.v);
	if (kv->value.kind != ANY_EMPTY) {
		value_mark = pw_mark(&e->w);
		encode_any_fields(e, &kv->value);
		pw_message(&e->w, 2, value_mark);
	}
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
	uint64_t bits;
	size_t mark;

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
		encode_key_values(e, 1, (struct key_values){ v->kvlist.pairs, v->kvlist.count });
		pw_message(&e->w, 6, mark);
		break;
	case ANY_BYTES:
		pw_bytes_present(&e->w, 7, v->string);
		break;
	}
}

/* ---- strings that only extras know ---- */

uint32_t encode_add_string(struct encoder *e, struct str s)
{
	for (uint32_t i = 0; i < e->p->dict.string_count; i++)
		if (str_equal(e->p->dict.strings[i], s))
			return i;
	for (uint32_t i = 0; i < e->added_string_count; i++)
		if (str_equal(e->added_strings[i], s))
			return e->p->dict.string_count + i;
	if (e->added_string_count == e->added_string_cap) {
		uint32_t cap = e->added_string_cap ? 2 * e->added_string_cap : 16;

		e->added_strings = arena_grow(&e->scratch, e->added_strings,
					      e->added_string_cap * sizeof(*e->added_strings),
					      cap * sizeof(*e->added_strings));
		e->added_string_cap = cap;
	}
	e->added_strings[e->added_string_count++] = s;
	return e->p->dict.string_count + e->added_string_count - 1;
}

/*
 * The dictionary is put before the profiles that need these strings, so they are collected first.
 * Comments are few (one or two a profile, if any), so that a linear search serves.
 */
static void collect_comment_strings(struct encoder *e)
{
	if (e->version >= WIRE_V1_9)
		return;
	for (uint32_t i = 0; i < e->p->extra_count; i++) {
		const struct extra *x = &e->p->extras[i];

		if (x->key != EXTRA_COMMENTS)
			continue;
		for (uint32_t c = 0; c < x->value.array.count; c++)
			encode_add_string(e, x->value.array.values[c].string);
	}
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
	collect_comment_strings(&e);
	if (version == WIRE_V1_7)
		encode_v1_7_prepare(&e);
	pw_begin(&e.w, out, guess_bytes(p));
	encode_request(&e);
	if (e.failed)
		pw_abandon(&e.w);
	else if (!pw_finish(&e.w))
		e.failed = !err_set(err, ERR_LIMIT, "the encoded message passes %zu bytes",
				    out->limit_bytes);
	arena_release(&e.scratch);
	return !e.failed;
}
