#include "wire/decode.h"

static void string_reference(struct decoder *d, struct pb_reader *r, struct owner owner,
			     const char *field, struct strindex *index, struct str *out)
{
	const struct dictionary *dict = &d->p->dict;

	if (index->v < dict->string_count) {
		*out = dict->strings[index->v];
		return;
	}
	decoder_bad_index(d, r,
			  &(struct bad_index){ .message = owner.message,
					       .index = owner.index,
					       .field = field,
					       .table = "string_table",
					       .value = (int32_t)index->v,
					       .table_count = dict->string_count });
	index->v = 0;
}

static void value_reference(struct decoder *d, struct pb_reader *r, struct owner owner,
			    struct any_value *v)
{
	*v = (struct any_value){ .kind = ANY_STRING,
				 .strindex = { (uint32_t)pb_varint(r) },
				 .unknown = v->unknown };
	v->zero_reference = v->strindex.v == 0;
	if (d->dictionary_complete)
		string_reference(d, r, owner, "string_value_strindex", &v->strindex, &v->string);
	else
		d->unresolved_references = true;
}

/* What struct any_value points to while it is decoded: how much of each part is a copy. */
struct unknown_parts {
	struct value_unknown seen;
	size_t caps[PART_PAIR + 1];
};

static struct str *part_of(struct unknown_parts *parts, enum value_part part)
{
	return part == PART_VALUE  ? &parts->seen.value
	       : part == PART_LIST ? &parts->seen.list
				   : &parts->seen.pair;
}

void decoder_unknown_of_value(struct decoder *d, struct pb_reader *r, uint32_t tag,
			      const uint8_t *at, struct any_value *v, enum value_part part)
{
	struct unknown_parts *parts = (struct unknown_parts *)v->unknown;
	struct raw_fields fields;

	if (!parts)
		parts = arena_zalloc(&d->p->arena, sizeof(*parts));
	if (!parts) {
		pb_fail(r, PB_LIMIT, at);
		return;
	}
	v->unknown = &parts->seen;
	fields = (struct raw_fields){ *part_of(parts, part), parts->caps[part] };
	decoder_unknown_add(d, r, tag, at, &fields);
	*part_of(parts, part) = fields.bytes;
	parts->caps[part] = fields.cap;
}

/* The value becomes a list of another kind: what the former one had goes with it. */
static void list_begins_anew(struct any_value *v, enum any_kind kind)
{
	struct unknown_parts *parts = (struct unknown_parts *)v->unknown;

	if (v->kind == kind || !parts)
		return;
	parts->seen.list = (struct str){ 0 };
	parts->caps[PART_LIST] = 0;
}

/* How many LEN fields of number 1 (ArrayValue.values, KeyValueList.values) there are: sizes the
 * array exactly. */
static uint32_t count_values(struct pb_reader r)
{
	uint32_t n = 0;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		n += tag == PB_TAG(1, PB_LEN);
		pb_skip(&r, tag);
	}
	return n;
}

/* Room for `more` elements behind the `count` that an earlier part of the same list left. */
static void *list_extend(struct decoder *d, struct pb_reader *r, const void *list, uint32_t count,
			 uint32_t more, size_t size)
{
	void *longer =
		arena_grow(&d->p->arena, (void *)list, count * size, ((size_t)count + more) * size);

	if (!longer)
		pb_fail(r, PB_LIMIT, r->p);
	return longer;
}

static void array_decode(struct decoder *d, struct pb_reader *r, struct owner owner, uint32_t depth,
			 struct any_value *v)
{
	uint32_t n = v->kind == ANY_ARRAY ? v->array.count : 0;
	struct any_value *values =
		list_extend(d, r, n ? v->array.values : NULL, n, count_values(*r), sizeof(*values));

	if (!values)
		return;
	list_begins_anew(v, ANY_ARRAY);
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);
		struct pb_reader nested;

		if (tag != PB_TAG(1, PB_LEN)) {
			decoder_unknown_of_value(d, r, tag, at, v, PART_LIST);
			continue;
		}
		nested = pb_message(r);
		values[n] = (struct any_value){ 0 };
		any_value_decode(d, &nested, owner, depth, &values[n++]);
		decoder_join(d, r, &nested, "ArrayValue");
	}
	*v = (struct any_value){ .kind = ANY_ARRAY, .array = { values, n }, .unknown = v->unknown };
}

static void kvlist_decode(struct decoder *d, struct pb_reader *r, struct owner owner,
			  uint32_t depth, struct any_value *v)
{
	uint32_t n = v->kind == ANY_KVLIST ? v->kvlist.count : 0;
	struct key_value *pairs =
		list_extend(d, r, n ? v->kvlist.pairs : NULL, n, count_values(*r), sizeof(*pairs));

	if (!pairs)
		return;
	list_begins_anew(v, ANY_KVLIST);
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);
		struct pb_reader nested;

		if (tag != PB_TAG(1, PB_LEN)) {
			decoder_unknown_of_value(d, r, tag, at, v, PART_LIST);
			continue;
		}
		nested = pb_message(r);
		key_value_decode(d, &nested, owner, depth, &pairs[n++]);
		decoder_join(d, r, &nested, "KeyValueList");
	}
	*v = (struct any_value){ .kind = ANY_KVLIST,
				 .kvlist = { pairs, n },
				 .unknown = v->unknown };
}

/* A oneof: of several the last one counts, but parts of the same list are one list. */
void any_value_decode(struct decoder *d, struct pb_reader *r, struct owner owner, uint32_t depth,
		      struct any_value *v)
{
	struct pb_reader nested;

	if (depth >= d->nesting_limit) {
		pb_fail(r, PB_DEEP, r->p);
		return;
	}
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			*v = (struct any_value){ .kind = ANY_STRING,
						 .string = pb_bytes(r),
						 .unknown = v->unknown };
			break;
		case PB_TAG(2, PB_VARINT):
			*v = (struct any_value){ .kind = ANY_BOOL,
						 .boolean = pb_varint(r) != 0,
						 .unknown = v->unknown };
			break;
		case PB_TAG(3, PB_VARINT):
			*v = (struct any_value){ .kind = ANY_INT,
						 .integer = (int64_t)pb_varint(r),
						 .unknown = v->unknown };
			break;
		case PB_TAG(4, PB_I64):
			*v = (struct any_value){ .kind = ANY_DOUBLE,
						 .real = pb_double(r),
						 .unknown = v->unknown };
			break;
		case PB_TAG(5, PB_LEN):
			nested = pb_message(r);
			array_decode(d, &nested, owner, depth + 1, v);
			decoder_join(d, r, &nested, "ArrayValue");
			break;
		case PB_TAG(6, PB_LEN):
			nested = pb_message(r);
			kvlist_decode(d, &nested, owner, depth + 1, v);
			decoder_join(d, r, &nested, "KeyValueList");
			break;
		case PB_TAG(7, PB_LEN):
			*v = (struct any_value){ .kind = ANY_BYTES,
						 .string = pb_bytes(r),
						 .unknown = v->unknown };
			break;
		case PB_TAG(8, PB_VARINT):
			if (d->version >= WIRE_V1_10) {
				value_reference(d, r, owner, v);
				break;
			}
			/* fall through */
		default:
			decoder_unknown_of_value(d, r, tag, at, v, PART_VALUE);
		}
	}
}

/*
 * Only one of key and key_strindex is allowed; a Collector that passes on what it read from JSON
 * sends both. The text counts; a reference to another text is kept as a field that has no place.
 */
static void settle_key(struct decoder *d, struct pb_reader *r, struct owner owner, struct str field,
		       struct key_value *out)
{
	struct pb_reader again = pb_reader_of(field);
	struct str reference = { 0 };

	string_reference(d, r, owner, "key_strindex", &out->key_strindex, &reference);
	if (out->key.len == 0) {
		out->key = reference;
		return;
	}
	if (out->key_strindex.v && !str_equal(out->key, reference))
		decoder_unknown_nested(d, &again, pb_tag(&again), (const uint8_t *)field.ptr,
				       owner);
	out->key_strindex.v = 0;
}

void key_value_decode(struct decoder *d, struct pb_reader *r, struct owner owner, uint32_t depth,
		      struct key_value *out)
{
	struct pb_reader nested;
	struct str reference = { 0 };

	*out = (struct key_value){ 0 };
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			out->key = pb_bytes(r);
			break;
		case PB_TAG(2, PB_LEN):
			nested = pb_message(r);
			any_value_decode(d, &nested, owner, depth, &out->value);
			decoder_join(d, r, &nested, "AnyValue");
			break;
		case PB_TAG(3, PB_VARINT):
			if (d->version >= WIRE_V1_10) {
				out->key_strindex.v = (uint32_t)pb_varint(r);
				reference = str_from(at, (size_t)(r->p - at));
				break;
			}
			/* fall through */
		default:
			decoder_unknown_of_value(d, r, tag, at, &out->value, PART_PAIR);
		}
	}
	if (out->key_strindex.v == 0)
		return;
	if (!d->dictionary_complete) {
		d->unresolved_references = true;
		return;
	}
	settle_key(d, r, owner, reference, out);
}

static void resolve_tree(struct decoder *d, struct pb_reader *r, struct owner owner,
			 struct any_value *v)
{
	if (v->kind == ANY_STRING && (v->strindex.v || v->zero_reference)) {
		string_reference(d, r, owner, "string_value_strindex", &v->strindex, &v->string);
	} else if (v->kind == ANY_ARRAY) {
		for (uint32_t i = 0; i < v->array.count; i++)
			resolve_tree(d, r, owner, (struct any_value *)&v->array.values[i]);
	} else if (v->kind == ANY_KVLIST) {
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			struct key_value *kv = (struct key_value *)&v->kvlist.pairs[i];

			struct str reference = { 0 };

			if (kv->key_strindex.v)
				string_reference(d, r, owner, "key_strindex", &kv->key_strindex,
						 &reference);
			if (kv->key.len == 0)
				kv->key = reference;
			else /* the text counts, as in settle_key() */
				kv->key_strindex.v = 0;
			resolve_tree(d, r, owner, &kv->value);
		}
	}
}

void references_resolve(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;

	for (uint32_t i = 0; i < dict->attribute_count; i++)
		resolve_tree(d, r, (struct owner){ MESSAGE_ATTRIBUTE, i },
			     &dict->attributes[i].value);
}

/* An id of the right length, or none (empty); another length is kept beside. */
static void id_set(struct decoder *d, struct pb_reader *r, struct owner owner, enum extra_key odd,
		   struct str id, uint8_t *out, size_t len)
{
	memset(out, 0, len);
	if (id.len == len)
		memcpy(out, id.ptr, len);
	else if (id.len > 0)
		decoder_extra(d, r, owner, odd,
			      &(struct any_value){ .kind = ANY_BYTES, .string = id });
}

void profile_id_set(struct decoder *d, struct pb_reader *r, struct owner owner, struct str id,
		    struct profile *out)
{
	id_set(d, r, owner, EXTRA_ODD_PROFILE_ID, id, out->profile_id, sizeof(out->profile_id));
}

void link_decode(struct decoder *d, struct pb_reader *r, struct owner owner, struct link *out)
{
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			id_set(d, r, owner, EXTRA_ODD_TRACE_ID, pb_bytes(r), out->trace_id,
			       sizeof(out->trace_id));
			break;
		case PB_TAG(2, PB_LEN):
			id_set(d, r, owner, EXTRA_ODD_SPAN_ID, pb_bytes(r), out->span_id,
			       sizeof(out->span_id));
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
}

void value_type_decode(struct decoder *d, struct pb_reader *r, struct owner owner,
		       enum extra_key temporality, struct value_type *out)
{
	int64_t t = 0;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			out->type.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_VARINT):
			out->unit.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(3, PB_VARINT):
			if (d->version <= WIRE_V1_8) {
				t = (int32_t)pb_varint(r);
				break;
			}
			/* fall through */
		default:
			decoder_unknown_as(d, r, tag, at, owner,
					   temporality == EXTRA_SAMPLE_TEMPORALITY
						   ? EXTRA_SAMPLE_TYPE_UNKNOWN
						   : EXTRA_PERIOD_TYPE_UNKNOWN);
		}
	}
	if (t)
		decoder_extra_int(d, r, owner, temporality, t);
}

void line_decode(struct decoder *d, struct pb_reader *r, struct owner owner, struct line *out)
{
	uint64_t index;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			/* uint64 in v1.3, int32 later: what is too large there must not become a
			 * small one. */
			index = pb_varint(r);
			out->function.v = index > UINT32_MAX && d->version == WIRE_V1_3
						  ? INT32_MAX
						  : (uint32_t)index;
			break;
		case PB_TAG(2, PB_VARINT):
			out->line = (int64_t)pb_varint(r);
			break;
		case PB_TAG(3, PB_VARINT):
			out->column = (int64_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
}
