#include <math.h>

#include "wire/encode.h"
#include "wire/otlp_json.h"
#include "wire/pb_reader.h"

/*
 * Keys in the order of the .proto files, defaults left out, but for the messages that the
 * collector's writer always has: resource, scope, sampleType, periodType, value, dictionary. What
 * JSON cannot hold of a message (fields that are unknown, what older versions had) is left out.
 */
struct json_writer {
	struct buf *out;
	const struct profiles *p;
};

/* A comma unless this is the first member: the character before tells. */
static void comma(struct json_writer *w)
{
	char last = w->out->len ? w->out->ptr[w->out->len - 1] : '{';

	if (last != '{' && last != '[')
		buf_char(w->out, ',');
}

static void put_key(struct json_writer *w, struct str quoted)
{
	comma(w);
	buf_str(w->out, quoted);
}

/* The key as it stands in the text: quoted, with its colon. */
#define KEY(w, name) put_key(w, STR("\"" name "\":"))

#define UINT(w, name, v)                        \
	do {                                    \
		if (v) {                        \
			KEY(w, name);           \
			buf_u64((w)->out, (v)); \
		}                               \
	} while (0)

static void quoted_u64(struct json_writer *w, uint64_t v)
{
	buf_char(w->out, '"');
	buf_u64(w->out, v);
	buf_char(w->out, '"');
}

static void quoted_i64(struct json_writer *w, int64_t v)
{
	buf_char(w->out, '"');
	buf_i64(w->out, v);
	buf_char(w->out, '"');
}

#define UINT64(w, name, v)                  \
	do {                                \
		if (v) {                    \
			KEY(w, name);       \
			quoted_u64(w, (v)); \
		}                           \
	} while (0)

#define INT64(w, name, v)                   \
	do {                                \
		if (v) {                    \
			KEY(w, name);       \
			quoted_i64(w, (v)); \
		}                           \
	} while (0)

#define STRING(w, name, s)                              \
	do {                                            \
		if ((s).len) {                          \
			KEY(w, name);                   \
			buf_json_string((w)->out, (s)); \
		}                                       \
	} while (0)

static void put_hex(struct json_writer *w, const void *bytes, size_t len)
{
	buf_char(w->out, '"');
	buf_hex(w->out, bytes, len);
	buf_char(w->out, '"');
}

/* The 16 or 8 bytes, or the odd ones that came; nothing when there are none. */
static void put_id(struct json_writer *w, struct str quoted_key, const uint8_t *id, size_t len,
		   enum message_kind message, uint32_t index, enum extra_key odd_key)
{
	const struct extra *odd = profiles_extra(w->p, message, index, odd_key);

	if (!odd && id_is_zero(id, len))
		return;
	put_key(w, quoted_key);
	if (odd)
		put_hex(w, odd->value.string.ptr, odd->value.string.len);
	else
		put_hex(w, id, len);
}

/* ---- values ---- */

static void put_any(struct json_writer *w, const struct any_value *v);

static void put_key_value(struct json_writer *w, const struct key_value *kv)
{
	comma(w);
	buf_char(w->out, '{');
	if (kv->key_strindex.v == 0)
		STRING(w, "key", kv->key);
	KEY(w, "value");
	put_any(w, &kv->value);
	UINT(w, "keyStrindex", kv->key_strindex.v);
	buf_char(w->out, '}');
}

static void put_key_values(struct json_writer *w, const struct key_value *pairs, uint32_t count)
{
	buf_char(w->out, '[');
	for (uint32_t i = 0; i < count; i++)
		put_key_value(w, &pairs[i]);
	buf_char(w->out, ']');
}

static void put_double(struct json_writer *w, const struct any_value *v)
{
	if (isfinite(v->real))
		any_value_append_text(w->out, v);
	else if (isnan(v->real))
		buf_lit(w->out, "\"NaN\"");
	else
		buf_str(w->out, v->real > 0 ? STR("\"Infinity\"") : STR("\"-Infinity\""));
}

static void put_any_array(struct json_writer *w, const struct any_value *v)
{
	buf_lit(w->out, "{\"values\":[");
	for (uint32_t i = 0; i < v->array.count; i++) {
		comma(w);
		put_any(w, &v->array.values[i]);
	}
	buf_lit(w->out, "]}");
}

static void put_any(struct json_writer *w, const struct any_value *v)
{
	buf_char(w->out, '{');
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		if (any_value_is_reference(v)) {
			KEY(w, "stringValueStrindex");
			buf_u64(w->out, v->strindex.v);
			break;
		}
		KEY(w, "stringValue");
		buf_json_string(w->out, v->string);
		break;
	case ANY_BOOL:
		KEY(w, "boolValue");
		buf_str(w->out, v->boolean ? STR("true") : STR("false"));
		break;
	case ANY_INT:
		KEY(w, "intValue");
		quoted_i64(w, v->integer);
		break;
	case ANY_DOUBLE:
		KEY(w, "doubleValue");
		put_double(w, v);
		break;
	case ANY_ARRAY:
		KEY(w, "arrayValue");
		put_any_array(w, v);
		break;
	case ANY_KVLIST:
		KEY(w, "kvlistValue");
		buf_lit(w->out, "{\"values\":");
		put_key_values(w, v->kvlist.pairs, v->kvlist.count);
		buf_char(w->out, '}');
		break;
	case ANY_BYTES:
		KEY(w, "bytesValue");
		buf_char(w->out, '"');
		buf_base64(w->out, v->string.ptr, v->string.len);
		buf_char(w->out, '"');
		break;
	}
	buf_char(w->out, '}');
}

static void put_attributes(struct json_writer *w, struct key_values kv)
{
	if (!kv.count)
		return;
	KEY(w, "attributes");
	put_key_values(w, kv.ptr, kv.count);
}

/* ---- lists of numbers ---- */

static void put_indices(struct json_writer *w, struct str quoted_key, const uint32_t *v,
			uint32_t count)
{
	if (!count)
		return;
	put_key(w, quoted_key);
	buf_char(w->out, '[');
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			buf_char(w->out, ',');
		buf_u64(w->out, v[i]);
	}
	buf_char(w->out, ']');
}

static void put_attribute_indices(struct json_writer *w, struct range refs)
{
	if (refs.count)
		put_indices(w, STR("\"attributeIndices\":"),
			    (const uint32_t *)(w->p->attribute_refs + refs.first), refs.count);
}

static void put_values(struct json_writer *w, struct sample_values v)
{
	if (!v.count)
		return;
	KEY(w, "values");
	buf_char(w->out, '[');
	for (uint32_t i = 0; i < v.count; i++) {
		comma(w);
		quoted_i64(w, sample_value_to_write(&v, i));
	}
	buf_char(w->out, ']');
}

static void put_timestamps(struct json_writer *w, struct range at)
{
	if (!at.count)
		return;
	KEY(w, "timestampsUnixNano");
	buf_char(w->out, '[');
	for (uint32_t i = 0; i < at.count; i++) {
		comma(w);
		quoted_u64(w, w->p->timestamps[at.first + i]);
	}
	buf_char(w->out, ']');
}

/* ---- profiles ---- */

static void put_sample(struct json_writer *w, const struct profile *profile, const struct sample *s)
{
	comma(w);
	buf_char(w->out, '{');
	UINT(w, "stackIndex", s->stack.v);
	put_attribute_indices(w, s->attributes);
	UINT(w, "linkIndex", s->link.v);
	put_values(w, sample_values_to_write(w->p, profile, s));
	put_timestamps(w, s->timestamps);
	buf_char(w->out, '}');
}

static void put_value_type(struct json_writer *w, struct value_type t)
{
	buf_char(w->out, '{');
	UINT(w, "typeStrindex", t.type.v);
	UINT(w, "unitStrindex", t.unit.v);
	buf_char(w->out, '}');
}

static void put_profile(struct json_writer *w, uint32_t index)
{
	const struct profile *p = &w->p->profiles[index];

	comma(w);
	buf_char(w->out, '{');
	KEY(w, "sampleType");
	put_value_type(w, p->sample_type);
	if (p->samples.count) {
		KEY(w, "samples");
		buf_char(w->out, '[');
		for (uint32_t i = 0; i < p->samples.count; i++)
			put_sample(w, p, &w->p->samples[p->samples.first + i]);
		buf_char(w->out, ']');
	}
	UINT64(w, "timeUnixNano", p->time_unix_nano);
	UINT64(w, "durationNano", p->duration_nano);
	KEY(w, "periodType");
	put_value_type(w, p->period_type);
	INT64(w, "period", p->period);
	put_id(w, STR("\"profileId\":"), p->profile_id, sizeof(p->profile_id), MESSAGE_PROFILE,
	       index, EXTRA_ODD_PROFILE_ID);
	UINT(w, "droppedAttributesCount", p->dropped_attributes_count);
	STRING(w, "originalPayloadFormat", p->original_payload_format);
	if (p->original_payload.len) {
		KEY(w, "originalPayload");
		buf_char(w->out, '"');
		buf_base64(w->out, p->original_payload.ptr, p->original_payload.len);
		buf_char(w->out, '"');
	}
	put_attribute_indices(w, p->attributes);
	buf_char(w->out, '}');
}

/* ---- resources and scopes ---- */

/* Resource.entity_refs were kept as they came: EntityRef { schema_url:1, type:2, id_keys:3 *,
 * description_keys:4 * }. */
static void put_entity_ref(struct json_writer *w, struct str bytes)
{
	static const struct {
		uint32_t tag;
		struct str key;
		bool repeated;
	} fields[] = {
		{ PB_TAG(1, PB_LEN), { "\"schemaUrl\":", 12 }, false },
		{ PB_TAG(2, PB_LEN), { "\"type\":", 7 }, false },
		{ PB_TAG(3, PB_LEN), { "\"idKeys\":", 9 }, true },
		{ PB_TAG(4, PB_LEN), { "\"descriptionKeys\":", 18 }, true },
	};

	comma(w);
	buf_char(w->out, '{');
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct pb_reader r = pb_reader_of(bytes);
		bool open = false;

		while (pb_more(&r)) {
			uint32_t tag = pb_tag(&r);

			if (tag != fields[i].tag) {
				pb_skip(&r, tag);
				continue;
			}
			if (!open || !fields[i].repeated) {
				put_key(w, fields[i].key);
				if (fields[i].repeated)
					buf_char(w->out, '[');
				open = true;
			} else {
				buf_char(w->out, ',');
			}
			buf_json_string(w->out, pb_bytes(&r));
		}
		if (open && fields[i].repeated)
			buf_char(w->out, ']');
	}
	buf_char(w->out, '}');
}

static void put_entity_refs(struct json_writer *w, uint32_t resource)
{
	const struct extra *x = profiles_extra(w->p, MESSAGE_RESOURCE, resource, EXTRA_ENTITY_REFS);
	struct pb_reader r;

	if (!x)
		return;
	KEY(w, "entityRefs");
	buf_char(w->out, '[');
	r = pb_reader_of(x->value.string);
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if ((tag & 7) == PB_LEN)
			put_entity_ref(w, pb_bytes(&r));
		else
			pb_skip(&r, tag);
	}
	buf_char(w->out, ']');
}

static void put_scope_profiles(struct json_writer *w, const struct scope_profiles *s)
{
	bool any = false;

	comma(w);
	buf_lit(w->out, "{\"scope\":{");
	STRING(w, "name", s->name);
	STRING(w, "version", s->version);
	put_attributes(w, s->attributes);
	UINT(w, "droppedAttributesCount", s->dropped_attributes_count);
	buf_char(w->out, '}');
	for (uint32_t i = s->profiles.first; i < s->profiles.first + s->profiles.count; i++) {
		if (w->p->profiles[i].refused)
			continue;
		if (!any) {
			KEY(w, "profiles");
			buf_char(w->out, '[');
		}
		any = true;
		put_profile(w, i);
	}
	if (any)
		buf_char(w->out, ']');
	STRING(w, "schemaUrl", s->schema_url);
	buf_char(w->out, '}');
}

static void put_resource_profiles(struct json_writer *w, uint32_t index)
{
	const struct resource_profiles *r = &w->p->resources[index];

	comma(w);
	buf_lit(w->out, "{\"resource\":{");
	put_attributes(w, r->attributes);
	UINT(w, "droppedAttributesCount", r->dropped_attributes_count);
	put_entity_refs(w, index);
	buf_char(w->out, '}');
	if (r->scopes.count) {
		KEY(w, "scopeProfiles");
		buf_char(w->out, '[');
		for (uint32_t i = 0; i < r->scopes.count; i++)
			if (!encode_leaves_out_scope(w->p, &w->p->scopes[r->scopes.first + i]))
				put_scope_profiles(w, &w->p->scopes[r->scopes.first + i]);
		buf_char(w->out, ']');
	}
	STRING(w, "schemaUrl", r->schema_url);
	buf_char(w->out, '}');
}

/* ---- dictionary ---- */

static void put_mapping(struct json_writer *w, const struct mapping *m)
{
	comma(w);
	buf_char(w->out, '{');
	UINT64(w, "memoryStart", m->memory_start);
	UINT64(w, "memoryLimit", m->memory_limit);
	UINT64(w, "fileOffset", m->file_offset);
	UINT(w, "filenameStrindex", m->filename.v);
	put_attribute_indices(w, m->attributes);
	buf_char(w->out, '}');
}

static void put_location(struct json_writer *w, const struct location *l)
{
	comma(w);
	buf_char(w->out, '{');
	UINT(w, "mappingIndex", l->mapping.v);
	UINT64(w, "address", l->address);
	if (l->lines.count) {
		KEY(w, "lines");
		buf_char(w->out, '[');
		for (uint32_t i = 0; i < l->lines.count; i++) {
			const struct line *line = &w->p->dict.lines[l->lines.first + i];

			comma(w);
			buf_char(w->out, '{');
			UINT(w, "functionIndex", line->function.v);
			INT64(w, "line", line->line);
			INT64(w, "column", line->column);
			buf_char(w->out, '}');
		}
		buf_char(w->out, ']');
	}
	put_attribute_indices(w, l->attributes);
	buf_char(w->out, '}');
}

static void put_function(struct json_writer *w, const struct function *f)
{
	comma(w);
	buf_char(w->out, '{');
	UINT(w, "nameStrindex", f->name.v);
	UINT(w, "systemNameStrindex", f->system_name.v);
	UINT(w, "filenameStrindex", f->filename.v);
	INT64(w, "startLine", f->start_line);
	buf_char(w->out, '}');
}

static void put_link(struct json_writer *w, uint32_t index)
{
	const struct link *l = &w->p->dict.links[index];

	comma(w);
	buf_char(w->out, '{');
	put_id(w, STR("\"traceId\":"), l->trace_id, sizeof(l->trace_id), MESSAGE_LINK, index,
	       EXTRA_ODD_TRACE_ID);
	put_id(w, STR("\"spanId\":"), l->span_id, sizeof(l->span_id), MESSAGE_LINK, index,
	       EXTRA_ODD_SPAN_ID);
	buf_char(w->out, '}');
}

static void put_attribute(struct json_writer *w, const struct attribute *a)
{
	comma(w);
	buf_char(w->out, '{');
	UINT(w, "keyStrindex", a->key.v);
	KEY(w, "value");
	put_any(w, &a->value);
	UINT(w, "unitStrindex", a->unit.v);
	buf_char(w->out, '}');
}

static void put_stack(struct json_writer *w, const struct stack *s)
{

	comma(w);
	buf_char(w->out, '{');
	if (s->locations.count)
		put_indices(w, STR("\"locationIndices\":"),
			    (const uint32_t *)(w->p->dict.stack_locations + s->locations.first),
			    s->locations.count);
	buf_char(w->out, '}');
}

#define TABLE(w, name, n, put)                     \
	do {                                       \
		KEY(w, name);                      \
		buf_char((w)->out, '[');           \
		for (uint32_t i = 0; i < (n); i++) \
			put;                       \
		buf_char((w)->out, ']');           \
	} while (0)

static void put_dictionary(struct json_writer *w)
{
	const struct dictionary *d = &w->p->dict;

	buf_char(w->out, '{');
	TABLE(w, "mappingTable", d->mapping_count, put_mapping(w, &d->mappings[i]));
	TABLE(w, "locationTable", d->location_count, put_location(w, &d->locations[i]));
	TABLE(w, "functionTable", d->function_count, put_function(w, &d->functions[i]));
	TABLE(w, "linkTable", d->link_count, put_link(w, i));
	KEY(w, "stringTable");
	buf_char(w->out, '[');
	for (uint32_t i = 0; i < d->string_count; i++) {
		if (i)
			buf_char(w->out, ',');
		buf_json_string(w->out, d->strings[i]);
	}
	buf_char(w->out, ']');
	TABLE(w, "attributeTable", d->attribute_count, put_attribute(w, &d->attributes[i]));
	TABLE(w, "stackTable", d->stack_count, put_stack(w, &d->stacks[i]));
	buf_char(w->out, '}');
}

bool otlp_json_encode(const struct profiles *p, struct buf *out, struct err *err)
{
	struct json_writer w = { .out = out, .p = p };

	buf_char(out, '{');
	if (p->resource_count) {
		KEY(&w, "resourceProfiles");
		buf_char(out, '[');
		for (uint32_t i = 0; i < p->resource_count; i++)
			if (!encode_leaves_out_resource(p, &p->resources[i]))
				put_resource_profiles(&w, i);
		buf_char(out, ']');
	}
	KEY(&w, "dictionary");
	put_dictionary(&w);
	buf_char(out, '}');
	if (out->failed)
		return err_set(err, ERR_LIMIT, "the JSON text passes %zu bytes", out->limit_bytes);
	return true;
}
