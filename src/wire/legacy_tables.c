#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "wire/legacy.h"

void legacy_tables_begin(struct legacy *l)
{
	const struct dictionary *dict = &l->d->p->dict;

	l->tables = (struct legacy_tables){
		.strings.first = dict->string_count,
		.mappings.first = dict->mapping_count,
		.locations.first = dict->location_count,
		.functions.first = dict->function_count,
		.links.first = dict->link_count,
		.attributes.first = dict->attribute_count,
		.lines_first = dict->line_count,
	};
	l->units.count = l->unit_fields.count = l->build_ids.count = l->types.count = 0;
}

static void pending_add(struct pending_list *list, struct pending item)
{
	VEC_ROOM(list->v, list->count, list->cap);
	list->v[list->count++] = item;
}

bool index_list_add(struct legacy *l, struct pb_reader *r, struct index_list *list, uint32_t v)
{
	size_t limit = l->d->p->arena.limit_bytes;

	/* These lists are outside the arena, but share its limit. */
	if (limit && list->count == list->cap && (size_t)list->cap * 2 * sizeof(*list->v) > limit) {
		pb_fail(r, PB_LIMIT, r->p);
		return false;
	}
	VEC_ROOM(list->v, list->count, list->cap);
	list->v[list->count++] = v;
	return true;
}

/* An entry was read to `*count`: counts it, unless it is the table's first and a zero value: then
 * it is the model's. */
static void span_add(struct span *s, uint32_t *count, bool zero)
{
	if (s->count++ == 0 && zero)
		s->zero_first = true;
	else
		++*count;
}

uint32_t span_translate(struct legacy *l, struct pb_reader *r, const struct span *s, uint32_t local,
			const struct ref_place *place)
{
	struct bad_index bad;

	if (local < s->count) {
		if (!s->zero_first)
			return s->first + local;
		return local ? s->first + local - 1 : 0;
	}
	bad = legacy_bad(l, place, (int32_t)local, s->count);
	decoder_bad_index(l->d, r, &bad);
	return 0;
}

uint32_t span_translate_plain(struct legacy *l, struct pb_reader *r, const struct span *s,
			      uint32_t local, const struct ref_place *place)
{
	return local == 0 && s->count == 0 ? 0 : span_translate(l, r, s, local, place);
}

struct str legacy_string(struct legacy *l, struct pb_reader *r, uint32_t local,
			 const struct ref_place *place)
{
	uint32_t i = span_translate_plain(l, r, &l->tables.strings, local, place);

	return i ? l->d->p->dict.strings[i] : (struct str){ 0 };
}

void legacy_refs_add(struct legacy *l, struct pb_reader *r, struct pb_reader packed)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;

	while (pb_more(&packed)) {
		uint32_t v = local_of(l, pb_varint(&packed));

		if (packed.fault ||
		    !ROOM(d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs, 1))
			break;
		p->attribute_refs[p->attribute_ref_count++].v = v;
	}
	pb_join(r, &packed);
}

static void legacy_ref_add(struct legacy *l, struct pb_reader *r)
{
	struct profiles *p = l->d->p;
	uint32_t v = local_of(l, pb_varint(r));

	if (!r->fault &&
	    ROOM(l->d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs, 1))
		p->attribute_refs[p->attribute_ref_count++].v = v;
}

static void extra_flag(struct legacy *l, struct pb_reader *r, struct owner owner,
		       enum extra_key key)
{
	if (pb_varint(r) != 0)
		decoder_extra(l->d, r, owner, key,
			      &(struct any_value){ .kind = ANY_BOOL, .boolean = true });
}

enum mapping_field {
	MAPPING_START = 1,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILENAME,
	MAPPING_ATTRIBUTES,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
	MAPPING_ID,
	MAPPING_BUILD_ID,
	MAPPING_BUILD_ID_KIND,
};

static const uint8_t mapping_v1_3[] = {
	0,
	MAPPING_ID,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILENAME,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
	MAPPING_BUILD_ID_KIND,
	MAPPING_ATTRIBUTES,
};
static const uint8_t mapping_v1_4[] = {
	0,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILENAME,
	MAPPING_ATTRIBUTES,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
};

static void mapping_decode(struct legacy *l, struct pb_reader *r)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	bool v1_3 = d->version == WIRE_V1_3;
	const uint8_t *map = v1_3 ? mapping_v1_3 : mapping_v1_4;
	uint32_t fields = v1_3 ? ARRAY_LEN(mapping_v1_3) : ARRAY_LEN(mapping_v1_4);
	uint32_t extras = p->extra_count, build_id = 0, build_id_kind = 0;
	struct owner owner = { MESSAGE_MAPPING, dict->mapping_count };
	struct mapping m = { .attributes.first = p->attribute_ref_count };
	int64_t id = 0;
	bool zero;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, map, fields)) {
		case PB_TAG(MAPPING_START, PB_VARINT):
			m.memory_start = pb_varint(r);
			break;
		case PB_TAG(MAPPING_LIMIT, PB_VARINT):
			m.memory_limit = pb_varint(r);
			break;
		case PB_TAG(MAPPING_OFFSET, PB_VARINT):
			m.file_offset = pb_varint(r);
			break;
		case PB_TAG(MAPPING_FILENAME, PB_VARINT):
			m.filename.v = local_of(l, pb_varint(r));
			break;
		case PB_TAG(MAPPING_ATTRIBUTES, PB_LEN):
			legacy_refs_add(l, r, pb_message(r));
			break;
		case PB_TAG(MAPPING_ATTRIBUTES, PB_VARINT):
			legacy_ref_add(l, r);
			break;
		case PB_TAG(MAPPING_HAS_FUNCTIONS, PB_VARINT):
			extra_flag(l, r, owner, EXTRA_HAS_FUNCTIONS);
			break;
		case PB_TAG(MAPPING_HAS_FILENAMES, PB_VARINT):
			extra_flag(l, r, owner, EXTRA_HAS_FILENAMES);
			break;
		case PB_TAG(MAPPING_HAS_LINE_NUMBERS, PB_VARINT):
			extra_flag(l, r, owner, EXTRA_HAS_LINE_NUMBERS);
			break;
		case PB_TAG(MAPPING_HAS_INLINE_FRAMES, PB_VARINT):
			extra_flag(l, r, owner, EXTRA_HAS_INLINE_FRAMES);
			break;
		case PB_TAG(MAPPING_ID, PB_VARINT):
			id = (int64_t)pb_varint(r);
			break;
		case PB_TAG(MAPPING_BUILD_ID, PB_VARINT):
			build_id = local_of(l, pb_varint(r));
			break;
		case PB_TAG(MAPPING_BUILD_ID_KIND, PB_VARINT):
			build_id_kind = (uint32_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	m.attributes.count = p->attribute_ref_count - m.attributes.first;
	if (r->fault)
		return;
	if (id)
		decoder_extra_int(d, r, owner, EXTRA_ID, id);
	if (build_id_kind)
		decoder_extra_int(d, r, owner, EXTRA_BUILD_ID_KIND, (int32_t)build_id_kind);
	if (build_id)
		pending_add(&l->build_ids,
			    (struct pending){ owner.index, build_id, build_id_kind });
	zero = !(m.memory_start | m.memory_limit | m.file_offset | m.filename.v |
		 m.attributes.count | build_id) &&
	       p->extra_count == extras;
	dict->mappings[dict->mapping_count] = m;
	span_add(&l->tables.mappings, &dict->mapping_count, zero);
}

enum location_field {
	LOCATION_MAPPING = 1,
	LOCATION_ADDRESS,
	LOCATION_LINE,
	LOCATION_IS_FOLDED,
	LOCATION_ATTRIBUTES,
	LOCATION_ID,
	LOCATION_TYPE,
};

static const uint8_t location_v1_3[] = { 0,
					 LOCATION_ID,
					 LOCATION_MAPPING,
					 LOCATION_ADDRESS,
					 LOCATION_LINE,
					 LOCATION_IS_FOLDED,
					 LOCATION_TYPE,
					 LOCATION_ATTRIBUTES };
static const uint8_t location_v1_4[] = { 0,
					 LOCATION_MAPPING,
					 LOCATION_ADDRESS,
					 LOCATION_LINE,
					 LOCATION_IS_FOLDED,
					 LOCATION_ATTRIBUTES };

static void location_line(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct pb_reader nested = pb_message(r);
	struct line line = { 0 };

	if (r->fault || !ROOM(d, r, dict->lines, dict->line_count, lines, 1))
		return;
	line_decode(d, &nested, (struct owner){ MESSAGE_LINE, dict->line_count }, &line);
	decoder_join(d, r, &nested, "Line");
	if (!r->fault)
		dict->lines[dict->line_count++] = line;
}

static void location_decode(struct legacy *l, struct pb_reader *r)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	bool v1_3 = d->version == WIRE_V1_3;
	const uint8_t *map = v1_3 ? location_v1_3 : location_v1_4;
	uint32_t fields = v1_3 ? ARRAY_LEN(location_v1_3) : ARRAY_LEN(location_v1_4);
	uint32_t extras = p->extra_count, type = 0;
	struct owner owner = { MESSAGE_LOCATION, dict->location_count };
	struct location loc = {
		.mapping.v = v1_3 ? 0 : LOCAL_NONE, /* v1.3 has no presence: absence is entry 0 */
		.lines.first = dict->line_count,
		.attributes.first = p->attribute_ref_count,
	};
	int64_t id = 0;
	bool zero;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, map, fields)) {
		case PB_TAG(LOCATION_MAPPING, PB_VARINT):
			loc.mapping.v = local_of(l, pb_varint(r));
			break;
		case PB_TAG(LOCATION_ADDRESS, PB_VARINT):
			loc.address = pb_varint(r);
			break;
		case PB_TAG(LOCATION_LINE, PB_LEN):
			location_line(d, r);
			break;
		case PB_TAG(LOCATION_IS_FOLDED, PB_VARINT):
			extra_flag(l, r, owner, EXTRA_IS_FOLDED);
			break;
		case PB_TAG(LOCATION_ATTRIBUTES, PB_LEN):
			legacy_refs_add(l, r, pb_message(r));
			break;
		case PB_TAG(LOCATION_ATTRIBUTES, PB_VARINT):
			legacy_ref_add(l, r);
			break;
		case PB_TAG(LOCATION_ID, PB_VARINT):
			id = (int64_t)pb_varint(r);
			break;
		case PB_TAG(LOCATION_TYPE, PB_VARINT):
			type = local_of(l, pb_varint(r));
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	loc.lines.count = dict->line_count - loc.lines.first;
	loc.attributes.count = p->attribute_ref_count - loc.attributes.first;
	if (r->fault)
		return;
	if (id)
		decoder_extra_int(d, r, owner, EXTRA_ID, id);
	if (type)
		pending_add(&l->types, (struct pending){ owner.index, type, 0 });
	/* In v1.3 even an empty location means the mapping 0. */
	zero = !v1_3 && loc.mapping.v == LOCAL_NONE && !loc.address && !loc.lines.count &&
	       !loc.attributes.count && p->extra_count == extras;
	dict->locations[dict->location_count] = loc;
	span_add(&l->tables.locations, &dict->location_count, zero);
}

enum function_field {
	FUNCTION_NAME = 1,
	FUNCTION_SYSTEM_NAME,
	FUNCTION_FILENAME,
	FUNCTION_START_LINE,
	FUNCTION_ID
};

static const uint8_t function_v1_3[] = {
	0, FUNCTION_ID, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME, FUNCTION_START_LINE
};
static const uint8_t function_v1_4[] = { 0, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME,
					 FUNCTION_START_LINE };

static void function_decode(struct legacy *l, struct pb_reader *r)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	bool v1_3 = d->version == WIRE_V1_3;
	const uint8_t *map = v1_3 ? function_v1_3 : function_v1_4;
	uint32_t fields = v1_3 ? ARRAY_LEN(function_v1_3) : ARRAY_LEN(function_v1_4);
	uint32_t extras = p->extra_count;
	struct owner owner = { MESSAGE_FUNCTION, dict->function_count };
	struct function f = { 0 };
	int64_t id = 0;
	bool zero;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, map, fields)) {
		case PB_TAG(FUNCTION_NAME, PB_VARINT):
			f.name.v = local_of(l, pb_varint(r));
			break;
		case PB_TAG(FUNCTION_SYSTEM_NAME, PB_VARINT):
			f.system_name.v = local_of(l, pb_varint(r));
			break;
		case PB_TAG(FUNCTION_FILENAME, PB_VARINT):
			f.filename.v = local_of(l, pb_varint(r));
			break;
		case PB_TAG(FUNCTION_START_LINE, PB_VARINT):
			f.start_line = (int64_t)pb_varint(r);
			break;
		case PB_TAG(FUNCTION_ID, PB_VARINT):
			id = (int64_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	if (r->fault)
		return;
	if (id)
		decoder_extra_int(d, r, owner, EXTRA_ID, id);
	zero = !(f.name.v | f.system_name.v | f.filename.v) && !f.start_line &&
	       p->extra_count == extras;
	dict->functions[dict->function_count] = f;
	span_add(&l->tables.functions, &dict->function_count, zero);
}

static void link_entry(struct legacy *l, struct pb_reader *r)
{
	struct profiles *p = l->d->p;
	struct dictionary *dict = &p->dict;
	uint32_t extras = p->extra_count;
	struct link link = { 0 };

	link_decode(l->d, r, (struct owner){ MESSAGE_LINK, dict->link_count }, &link);
	if (r->fault)
		return;
	dict->links[dict->link_count] = link;
	span_add(&l->tables.links, &dict->link_count,
		 id_is_zero(link.trace_id, sizeof(link.trace_id)) &&
			 id_is_zero(link.span_id, sizeof(link.span_id)) &&
			 p->extra_count == extras);
}

static uint32_t hash32(const void *data, size_t len)
{
	return (uint32_t)hash64(str_from(data, len));
}

void slots_reserve(struct slots *s)
{
	struct slot *old = s->v;
	uint32_t old_cap = s->cap;

	if (s->count < s->cap / 2)
		return;
	s->cap = old_cap ? 2 * old_cap : 256;
	s->v = calloc(s->cap, sizeof(*s->v));
	assert(s->v);
	for (uint32_t i = 0; i < old_cap; i++) {
		uint32_t at = old[i].hash & (s->cap - 1);

		if (!old[i].index)
			continue;
		while (s->v[at].index)
			at = (at + 1) & (s->cap - 1);
		s->v[at] = old[i];
	}
	free(old);
}

struct strindex legacy_intern(struct legacy *l, struct pb_reader *r, struct str s)
{
	struct dictionary *dict = &l->d->p->dict;
	uint32_t hash = hash32(s.ptr, s.len), at;

	if (s.len == 0)
		return (struct strindex){ 0 };
	slots_reserve(&l->strings);
	for (at = hash & (l->strings.cap - 1); l->strings.v[at].index;
	     at = (at + 1) & (l->strings.cap - 1))
		if (l->strings.v[at].hash == hash &&
		    str_equal(dict->strings[l->strings.v[at].index], s))
			return (struct strindex){ l->strings.v[at].index };
	if (!ROOM(l->d, r, dict->strings, dict->string_count, strings, 1))
		return (struct strindex){ 0 };
	dict->strings[dict->string_count] = s;
	l->strings.v[at] = (struct slot){ hash, dict->string_count };
	l->strings.count++;
	return (struct strindex){ dict->string_count++ };
}

struct attribute_index legacy_attribute(struct legacy *l, struct pb_reader *r,
					const struct key_value *kv)
{
	struct dictionary *dict = &l->d->p->dict;
	struct attribute a = { .key = legacy_intern(l, r, kv->key), .value = kv->value };

	if (r->fault || !ROOM(l->d, r, dict->attributes, dict->attribute_count, attributes, 1))
		return (struct attribute_index){ 0 };
	dict->attributes[dict->attribute_count] = a;
	return (struct attribute_index){ dict->attribute_count++ };
}

/* attribute_table: KeyValue. The key becomes an index only once all strings are there: they must
 * stay in one run. */
static void attribute_entry(struct legacy *l, struct pb_reader *r)
{
	struct profiles *p = l->d->p;
	struct dictionary *dict = &p->dict;
	uint32_t extras = p->extra_count;
	struct key_value kv;
	bool zero;

	key_value_decode(l->d, r, (struct owner){ MESSAGE_ATTRIBUTE, dict->attribute_count }, 0,
			 &kv);
	if (r->fault)
		return;
	zero = kv.key.len == 0 && kv.value.kind == ANY_EMPTY && !kv.value.unknown &&
	       p->extra_count == extras;
	VEC_ROOM(l->keys.v, l->keys.count, l->keys.cap);
	if (l->tables.attributes.count || !zero)
		l->keys.v[l->keys.count++] = kv.key;
	dict->attributes[dict->attribute_count] = (struct attribute){ .value = kv.value };
	span_add(&l->tables.attributes, &dict->attribute_count, zero);
}

static void attribute_unit_entry(struct legacy *l, struct pb_reader *r)
{
	struct raw_fields unknown = { 0 };
	struct unit_fields_list *list = &l->unit_fields;
	struct pending item = { 0 };

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		if (tag == PB_TAG(1, PB_VARINT))
			item.entry = local_of(l, pb_varint(r));
		else if (tag == PB_TAG(2, PB_VARINT))
			item.value = local_of(l, pb_varint(r));
		else
			decoder_unknown_add(l->d, r, tag, at, &unknown);
	}
	if (r->fault)
		return;
	pending_add(&l->units, item);
	if (!unknown.bytes.len)
		return;
	VEC_ROOM(list->v, list->count, list->cap);
	list->v[list->count++] = (struct unit_fields){ l->units.count - 1, unknown.bytes };
}

void legacy_table_entry(struct legacy *l, struct pb_reader *r, enum legacy_table table)
{
	static const char *const names[] = { "",     "Mapping", "Location", "Function",
					     "Link", "string",  "KeyValue", "AttributeUnit" };
	struct decoder *d = l->d;
	struct dictionary *dict = &d->p->dict;
	struct pb_reader entry = pb_message(r);

	entry.fault = r->fault; /* an entry that is cut short is none */
	switch (table) {
	case LEGACY_MAPPING:
		if (ROOM(d, r, dict->mappings, dict->mapping_count, mappings, 1))
			mapping_decode(l, &entry);
		break;
	case LEGACY_LOCATION:
		if (ROOM(d, r, dict->locations, dict->location_count, locations, 1))
			location_decode(l, &entry);
		break;
	case LEGACY_FUNCTION:
		if (ROOM(d, r, dict->functions, dict->function_count, functions, 1))
			function_decode(l, &entry);
		break;
	case LEGACY_LINK:
		if (ROOM(d, r, dict->links, dict->link_count, links, 1))
			link_entry(l, &entry);
		break;
	case LEGACY_STRING:
		if (r->fault || !ROOM(d, r, dict->strings, dict->string_count, strings, 1))
			break;
		dict->strings[dict->string_count] = str_from(entry.p, pb_left(&entry));
		span_add(&l->tables.strings, &dict->string_count, pb_left(&entry) == 0);
		break;
	case LEGACY_ATTRIBUTE:
		if (ROOM(d, r, dict->attributes, dict->attribute_count, attributes, 1))
			attribute_entry(l, &entry);
		break;
	case LEGACY_ATTRIBUTE_UNIT:
		attribute_unit_entry(l, &entry);
		break;
	}
	decoder_join(d, r, &entry, names[table]);
}

static void translate_refs(struct legacy *l, struct pb_reader *r, struct range range,
			   struct owner owner)
{
	struct ref_place place = ref_at(owner, "attribute_indices", "attribute_table", 0);

	for (uint32_t i = 0; i < range.count; i++) {
		struct attribute_index *ref = &l->d->p->attribute_refs[range.first + i];

		place.element = i;
		ref->v = span_translate(l, r, &l->tables.attributes, ref->v, &place);
	}
}

static void translate_string(struct legacy *l, struct pb_reader *r, struct strindex *i,
			     struct owner owner, const char *field)
{
	i->v = span_translate_plain(
		l, r, &l->tables.strings, i->v,
		&(struct ref_place){ .owner = owner, .field = field, .table = "string_table" });
}

/* An attribute made of what the newest schema has no field for, behind a list that is already
 * there. */
static void list_append(struct legacy *l, struct pb_reader *r, struct range *list,
			struct attribute_index extra)
{
	struct profiles *p = l->d->p;
	struct attribute_index *refs;

	if (!ROOM(l->d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs,
		  (size_t)list->count + 1))
		return;
	refs = p->attribute_refs;
	/* Lists that others follow move to the array's end. */
	if (list->first + list->count != p->attribute_ref_count) {
		if (list->count)
			memcpy(&refs[p->attribute_ref_count], &refs[list->first],
			       list->count * sizeof(*refs));
		list->first = p->attribute_ref_count;
		p->attribute_ref_count += list->count;
	}
	refs[p->attribute_ref_count++] = extra;
	list->count++;
}

/* A string attribute, made once per value: neighbours nearly always share it. */
struct made_attribute {
	const char *key;
	uint32_t value; /* the model's string */
	struct attribute_index index;
};

static void made_attribute_append(struct legacy *l, struct pb_reader *r, struct range *list,
				  struct made_attribute *last, const char *key, uint32_t value)
{
	struct profiles *p = l->d->p;
	struct str text = p->dict.strings[value];
	struct key_value kv = { .key = str_cstr(key),
				.value = { .kind = ANY_STRING, .string = text } };

	/* The sender may have written both. */
	if (profiles_attribute(p, *list, kv.key))
		return;
	if (last->index.v == 0 || last->key != key || last->value != value)
		*last = (struct made_attribute){ key, value, legacy_attribute(l, r, &kv) };
	if (!r->fault)
		list_append(l, r, list, last->index);
}

/* build_id and type_index of v1.3: kept as they came, and as the attributes that later versions
 * have for them. */
static void translate_v1_3(struct legacy *l, struct pb_reader *r)
{
	struct dictionary *dict = &l->d->p->dict;
	struct made_attribute last = { 0 };

	for (uint32_t i = 0; i < l->build_ids.count && !r->fault; i++) {
		struct pending b = l->build_ids.v[i];
		struct owner owner = { MESSAGE_MAPPING, b.entry };
		uint32_t text = span_translate(l, r, &l->tables.strings, b.value,
					       &(struct ref_place){ .owner = owner,
								    .field = "build_id",
								    .table = "string_table",
								    .apart = true });

		if (!text)
			continue;
		decoder_extra(
			l->d, r, owner, EXTRA_BUILD_ID,
			&(struct any_value){ .kind = ANY_STRING, .string = dict->strings[text] });
		made_attribute_append(l, r, &dict->mappings[b.entry].attributes, &last,
				      b.kind == 1 ? "process.executable.build_id.htlhash"
						  : "process.executable.build_id.gnu",
				      text);
	}
	for (uint32_t i = 0; i < l->types.count && !r->fault; i++) {
		struct pending t = l->types.v[i];
		struct owner owner = { MESSAGE_LOCATION, t.entry };
		uint32_t text = span_translate(l, r, &l->tables.strings, t.value,
					       &(struct ref_place){ .owner = owner,
								    .field = "type_index",
								    .table = "string_table",
								    .apart = true });

		if (!text)
			continue;
		decoder_extra(
			l->d, r, owner, EXTRA_LOCATION_TYPE,
			&(struct any_value){ .kind = ANY_STRING, .string = dict->strings[text] });
		made_attribute_append(l, r, &dict->locations[t.entry].attributes, &last,
				      "profile.frame.type", text);
	}
}

static int pending_compare(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	return (x->entry > y->entry) - (x->entry < y->entry);
}

/* {key, unit} of those that no attribute has. */
static void keep_unused_units(struct legacy *l, struct pb_reader *r, struct owner owner,
			      uint32_t count)
{
	struct dictionary *dict = &l->d->p->dict;
	struct arena *arena = &l->d->p->arena;
	struct any_value *values = arena_alloc_array(arena, count, sizeof(*values));
	struct key_value *pairs = arena_alloc_array(arena, 2 * (size_t)count, sizeof(*pairs));
	uint32_t n = 0;

	if (!values || !pairs) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	for (uint32_t i = 0; i < l->units.count; i++) {
		const struct pending *u = &l->units.v[i];

		if (u->kind)
			continue;
		pairs[2 * n] = (struct key_value){
			.key = STR("key"),
			.value = { .kind = ANY_STRING, .string = dict->strings[u->entry] },
		};
		pairs[2 * n + 1] = (struct key_value){
			.key = STR("unit"),
			.value = { .kind = ANY_STRING, .string = dict->strings[u->value] },
		};
		values[n] =
			(struct any_value){ .kind = ANY_KVLIST, .kvlist = { &pairs[2 * n], 2 } };
		n++;
	}
	decoder_extra(l->d, r, owner, EXTRA_ATTRIBUTE_UNITS,
		      &(struct any_value){ .kind = ANY_ARRAY, .array = { values, n } });
}

/* {key, fields} of those that had unknown fields. */
static void keep_unit_fields(struct legacy *l, struct pb_reader *r, struct owner owner)
{
	struct dictionary *dict = &l->d->p->dict;
	struct arena *arena = &l->d->p->arena;
	const struct unit_fields_list *list = &l->unit_fields;
	struct any_value *values = arena_alloc_array(arena, list->count, sizeof(*values));
	struct key_value *pairs = arena_alloc_array(arena, 2 * (size_t)list->count, sizeof(*pairs));

	if (!values || !pairs) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	for (uint32_t i = 0; i < list->count; i++) {
		const struct unit_fields *u = &list->v[i];
		struct str key = dict->strings[l->units.v[u->unit].entry];

		pairs[2 * i] = (struct key_value){
			.key = STR("key"),
			.value = { .kind = ANY_STRING, .string = key },
		};
		pairs[2 * i + 1] = (struct key_value){
			.key = STR("fields"),
			.value = { .kind = ANY_BYTES, .string = u->raw },
		};
		values[i] =
			(struct any_value){ .kind = ANY_KVLIST, .kvlist = { &pairs[2 * i], 2 } };
	}
	decoder_extra(l->d, r, owner, EXTRA_UNIT_UNKNOWN,
		      &(struct any_value){ .kind = ANY_ARRAY, .array = { values, list->count } });
}

/* Units go to every attribute of their key; those whose key no attribute has are kept apart. */
static void translate_units(struct legacy *l, struct pb_reader *r, struct owner owner)
{
	struct dictionary *dict = &l->d->p->dict;
	uint32_t unused = 0;

	if (l->units.count == 0)
		return;
	for (uint32_t i = 0; i < l->units.count; i++) {
		struct pending *u = &l->units.v[i];
		const struct ref_place key = { .owner = owner,
					       .field = "attribute_key_strindex",
					       .table = "string_table",
					       .element = i,
					       .apart = true,
					       .part_in = "attribute_units",
					       .part = i };
		const struct ref_place unit = { .owner = owner,
						.field = "unit_strindex",
						.table = "string_table",
						.element = i,
						.apart = true,
						.part_in = "attribute_units",
						.part = i };

		u->entry = legacy_intern(l, r, legacy_string(l, r, u->entry, &key)).v;
		u->value = span_translate_plain(l, r, &l->tables.strings, u->value, &unit);
		u->kind = 0; /* becomes 1 when used */
	}
	if (l->unit_fields.count)
		keep_unit_fields(l, r, owner); /* before they are sorted */
	qsort(l->units.v, l->units.count, sizeof(*l->units.v), pending_compare);
	for (uint32_t i = l->tables.attributes.first; i < dict->attribute_count; i++) {
		struct attribute *a = &dict->attributes[i];
		struct pending wanted = { .entry = a->key.v };
		struct pending *u = bsearch(&wanted, l->units.v, l->units.count, sizeof(wanted),
					    pending_compare);

		if (!u)
			continue;
		a->unit.v = u->value;
		u->kind = 1;
	}
	for (uint32_t i = 0; i < l->units.count; i++)
		unused += !l->units.v[i].kind;
	if (unused && !r->fault)
		keep_unused_units(l, r, owner, unused);
}

static void translate_locations(struct legacy *l, struct pb_reader *r)
{
	struct dictionary *dict = &l->d->p->dict;

	for (uint32_t i = l->tables.locations.first; i < dict->location_count; i++) {
		struct owner owner = { MESSAGE_LOCATION, i };
		struct location *loc = &dict->locations[i];
		struct ref_place place = ref_at(owner, "mapping_index", "mapping_table", 0);

		loc->mapping.v = loc->mapping.v == LOCAL_NONE
					 ? 0
					 : span_translate_plain(l, r, &l->tables.mappings,
								loc->mapping.v, &place);
		translate_refs(l, r, loc->attributes, owner);
	}
	for (uint32_t i = l->tables.lines_first; i < dict->line_count; i++) {
		struct function_index *f = &dict->lines[i].function;
		struct ref_place place = ref_at((struct owner){ MESSAGE_LINE, i }, "function_index",
						"function_table", 0);

		f->v = span_translate_plain(l, r, &l->tables.functions, f->v, &place);
	}
}

void legacy_tables_end(struct legacy *l, struct pb_reader *r, struct owner owner)
{
	struct dictionary *dict = &l->d->p->dict;

	for (uint32_t i = 0; i < l->keys.count; i++)
		dict->attributes[l->tables.attributes.first + i].key =
			legacy_intern(l, r, l->keys.v[i]);
	l->keys.count = 0;
	for (uint32_t i = l->tables.mappings.first; i < dict->mapping_count; i++) {
		translate_string(l, r, &dict->mappings[i].filename,
				 (struct owner){ MESSAGE_MAPPING, i }, "filename_strindex");
		translate_refs(l, r, dict->mappings[i].attributes,
			       (struct owner){ MESSAGE_MAPPING, i });
	}
	for (uint32_t i = l->tables.functions.first; i < dict->function_count; i++) {
		struct owner f = { MESSAGE_FUNCTION, i };

		translate_string(l, r, &dict->functions[i].name, f, "name_strindex");
		translate_string(l, r, &dict->functions[i].system_name, f, "system_name_strindex");
		translate_string(l, r, &dict->functions[i].filename, f, "filename_strindex");
	}
	translate_locations(l, r);
	translate_units(l, r, owner);
	translate_v1_3(l, r);
}
