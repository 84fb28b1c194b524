/*
 * writer_rows.c - the rows of dictionary entries: found by their content hash, else added with what
 * they refer to, children first. A new row goes to its table at the request's end (writer_fed.c).
 */
#include <math.h>

#include "store/schema/codec.h"
#include "store/schema/lifted.h"
#include "store/write/writer_internal.h"

enum { BY_REFERENCE = 128, KEY_BY_REFERENCE = 256 }; /* of attribute.kind */

/* A memo's, which stays where it is. */
static struct feed_value hash_value(const struct hash128 *h)
{
	return feed_bytes(str_from(h, sizeof(*h)));
}

static struct feed_value kept_blob(struct store_writer *w, const struct buf *b)
{
	return feed_blob(writer_keep(w, buf_view(b)));
}

/* The notes of one message as a column. */
static struct feed_value notes_value(struct store_writer *w, enum message_kind message,
				     uint32_t index)
{
	if (!w->n.noted[message])
		return feed_id(0);
	buf_reset(&w->notes);
	notes_put(&w->notes, w->p, message, index, 0);
	return kept_blob(w, &w->notes);
}

/* ---- texts and attributes ---- */

static uint32_t add_text(struct store_writer *w, struct str text, struct hash128 hash)
{
	uint32_t id = writer_next_row(w, KIND_STRING, hash);
	struct feed_value *v;

	if (!id)
		return 0;
	v = writer_row(w, FED_STRING);
	v[0] = feed_number(id);
	v[1] = feed_text(writer_keep(w, text));
	return id;
}

uint32_t writer_text(struct store_writer *w, struct str text)
{
	struct hash128 hash = ident_text(text);
	uint32_t id;

	if (hash_is_none(hash))
		return 0;
	id = writer_find(w, KIND_STRING, hash);
	return id || w->failed ? id : add_text(w, text, hash);
}

uint32_t writer_string(struct store_writer *w, uint32_t index)
{
	struct memo *m = &w->n.strings[index];

	if (m->id || hash_is_none(ident_string(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_STRING, m->hash);
	if (!m->id && !w->failed)
		m->id = add_text(w, w->p->dict.strings[index], m->hash);
	return m->id;
}

/* What SQLite would not give back as it came goes as bytes: NaN becomes NULL, -0 may become 0. */
static struct feed_value double_value(const double *v)
{
	if (isnan(*v) || (*v == 0 && signbit(*v)))
		return feed_bytes(str_from(v, sizeof(*v)));
	return feed_real(*v);
}

static struct feed_value any_as_value(struct store_writer *w, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		return feed_text(v->string);
	case ANY_BYTES:
		return feed_bytes(v->string);
	case ANY_BOOL:
		return feed_number(v->boolean);
	case ANY_INT:
		return feed_number((uint64_t)v->integer);
	case ANY_DOUBLE:
		return double_value(&v->real);
	case ANY_ARRAY:
	case ANY_KVLIST:
		buf_reset(&w->bytes);
		codec_put_any(&w->bytes, v);
		return kept_blob(w, &w->bytes);
	}
	return feed_id(0);
}

struct attribute_row {
	struct hash128 hash;
	uint32_t key_id, unit_id, kind;
	const struct any_value *value;
	uint32_t index; /* in the attribute table; 0 = in none */
};

static uint32_t add_attribute(struct store_writer *w, const struct attribute_row *r)
{
	uint32_t id = w->failed ? 0 : writer_next_row(w, KIND_ATTRIBUTE, r->hash);
	struct feed_value *v;

	if (!id)
		return 0;
	buf_reset(&w->notes);
	notes_put_unknown(&w->notes, r->value);
	if (w->n.noted[MESSAGE_ATTRIBUTE] && r->index)
		notes_put(&w->notes, w->p, MESSAGE_ATTRIBUTE, r->index, 0);
	v = writer_row(w, FED_ATTRIBUTE);
	v[0] = feed_number(id);
	v[1] = feed_id(r->key_id);
	v[2] = feed_number(r->kind);
	v[3] = any_as_value(w, r->value);
	v[4] = feed_id(r->unit_id);
	v[5] = kept_blob(w, &w->notes);
	return id;
}

static uint32_t kind_of(const struct any_value *v)
{
	bool referenced = v->kind == ANY_STRING && any_value_is_reference(v);

	return (uint32_t)v->kind | (referenced ? BY_REFERENCE : 0);
}

uint32_t writer_attribute(struct store_writer *w, uint32_t index)
{
	const struct attribute *a = &w->p->dict.attributes[index];
	struct memo *m = &w->n.attributes[index];
	struct attribute_row r;

	if (m->id || hash_is_none(ident_attribute(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_ATTRIBUTE, m->hash);
	if (m->id || w->failed)
		return m->id;
	r = (struct attribute_row){ .hash = m->hash,
				    .key_id = writer_string(w, a->key.v),
				    .unit_id = writer_string(w, a->unit.v),
				    .kind = kind_of(&a->value),
				    .value = &a->value,
				    .index = index };
	m->id = add_attribute(w, &r);
	return m->id;
}

uint32_t writer_key_value(struct store_writer *w, const struct key_value *kv, struct hash128 hash)
{
	uint32_t id = writer_find(w, KIND_ATTRIBUTE, hash);
	struct attribute_row r;

	if (id || w->failed)
		return id;
	r = (struct attribute_row){ .hash = hash,
				    .key_id = writer_text(w, kv->key),
				    .kind = kind_of(&kv->value) |
					    (kv->key_strindex.v ? KEY_BY_REFERENCE : 0),
				    .value = &kv->value };
	return add_attribute(w, &r);
}

/* ids: the attributes' rows, already in w->bytes. */
static uint32_t add_attrset(struct store_writer *w, struct hash128 hash)
{
	uint32_t id = w->failed ? 0 : writer_next_row(w, KIND_ATTRSET, hash);
	struct feed_value *v;

	if (!id)
		return 0;
	v = writer_row(w, FED_ATTRSET);
	v[0] = feed_number(id);
	v[1] = kept_blob(w, &w->bytes);
	return id;
}

uint32_t writer_refs(struct store_writer *w, const struct attribute_index *at, uint32_t count)
{
	struct hash128 hash;
	uint32_t id;

	if (!count)
		return 0;
	hash = ident_refs(&w->n, at, count);
	id = writer_find(w, KIND_ATTRSET, hash);
	if (id || w->failed)
		return id;
	for (uint32_t i = 0; i < count; i++)
		writer_attribute(w, at[i].v);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < count; i++)
		codec_put(&w->bytes, w->n.attributes[at[i].v].id);
	return add_attrset(w, hash);
}

uint32_t writer_list(struct store_writer *w, struct range refs)
{
	return writer_refs(w, w->p->attribute_refs + refs.first, refs.count);
}

/* A resource's or scope's attributes. */
static uint32_t writer_key_values(struct store_writer *w, struct key_values kv,
				  struct hash128 *hash)
{
	struct hash128 *hashes;
	uint32_t *ids;
	uint32_t id;

	*hash = HASH_NONE;
	if (!kv.count)
		return 0;
	hashes = arena_alloc_array(&w->arena, kv.count, sizeof(*hashes));
	ids = arena_alloc_array(&w->arena, kv.count, sizeof(*ids));
	for (uint32_t i = 0; i < kv.count; i++)
		hashes[i] = ident_key_value(&w->n, &kv.ptr[i]);
	*hash = ident_bytes(KIND_ATTRSET, str_from(hashes, kv.count * sizeof(*hashes)));
	id = writer_find(w, KIND_ATTRSET, *hash);
	if (id || w->failed)
		return id;
	for (uint32_t i = 0; i < kv.count; i++)
		ids[i] = writer_key_value(w, &kv.ptr[i], hashes[i]);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < kv.count; i++)
		codec_put(&w->bytes, ids[i]);
	return add_attrset(w, *hash);
}

/* ---- code ---- */

static uint32_t writer_function(struct store_writer *w, uint32_t index)
{
	const struct function *f = &w->p->dict.functions[index];
	struct memo *m = &w->n.functions[index];
	struct feed_value *v;
	uint32_t name, system_name, filename;

	if (m->id || hash_is_none(ident_function(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_FUNCTION, m->hash);
	if (m->id || w->failed)
		return m->id;
	name = writer_string(w, f->name.v);
	system_name = writer_string(w, f->system_name.v);
	filename = writer_string(w, f->filename.v);
	m->id = w->failed ? 0 : writer_next_row(w, KIND_FUNCTION, m->hash);
	if (!m->id)
		return 0;
	v = writer_row(w, FED_FUNCTION);
	v[0] = feed_number(m->id);
	v[1] = hash_value(&m->hash);
	v[2] = feed_id(name);
	v[3] = feed_id(system_name);
	v[4] = feed_id(filename);
	v[5] = feed_id((uint64_t)f->start_line);
	v[6] = notes_value(w, MESSAGE_FUNCTION, index);
	return m->id;
}

static uint32_t writer_mapping(struct store_writer *w, uint32_t index)
{
	const struct mapping *x = &w->p->dict.mappings[index];
	struct memo *m = &w->n.mappings[index];
	struct feed_value *v;
	uint32_t filename, list;
	struct str id;

	if (m->id || hash_is_none(ident_mapping(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_MAPPING, m->hash);
	if (m->id || w->failed)
		return m->id;
	filename = writer_string(w, x->filename.v);
	list = writer_list(w, x->attributes);
	m->id = w->failed ? 0 : writer_next_row(w, KIND_MAPPING, m->hash);
	if (!m->id)
		return 0;
	v = writer_row(w, FED_MAPPING);
	v[0] = feed_number(m->id);
	v[1] = hash_value(&m->hash);
	v[2] = feed_number(x->memory_start);
	v[3] = feed_number(x->memory_limit);
	v[4] = feed_number(x->file_offset);
	v[5] = feed_id(filename);
	v[6] = feed_id(list);
	id = mapping_build_id(w->p, x);
	if (id.len)
		v[7] = feed_text(writer_keep(w, id));
	v[8] = notes_value(w, MESSAGE_MAPPING, index);
	return m->id;
}

/* varint function row, zigzag line, varint column, for each line */
static void put_lines(struct store_writer *w, struct range lines)
{
	for (uint32_t i = 0; i < lines.count; i++)
		writer_function(w, w->p->dict.lines[lines.first + i].function.v);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < lines.count; i++) {
		const struct line *l = &w->p->dict.lines[lines.first + i];

		codec_put(&w->bytes, w->n.functions[l->function.v].id);
		codec_put_signed(&w->bytes, l->line);
		codec_put_signed(&w->bytes, l->column);
	}
}

static void put_location_notes(struct store_writer *w, uint32_t index)
{
	struct range lines = w->p->dict.locations[index].lines;

	buf_reset(&w->notes);
	if (w->n.noted[MESSAGE_LOCATION])
		notes_put(&w->notes, w->p, MESSAGE_LOCATION, index, 0);
	for (uint32_t i = 0; w->n.noted[MESSAGE_LINE] && i < lines.count; i++)
		notes_put(&w->notes, w->p, MESSAGE_LINE, lines.first + i, i);
}

static uint32_t writer_location(struct store_writer *w, uint32_t index)
{
	const struct location *l = &w->p->dict.locations[index];
	struct memo *m = &w->n.locations[index];
	struct feed_value *v;
	uint32_t mapping, list, frame_type;

	if (m->id || hash_is_none(ident_location(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_LOCATION, m->hash);
	if (m->id || w->failed)
		return m->id;
	mapping = writer_mapping(w, l->mapping.v);
	list = writer_list(w, l->attributes);
	frame_type = writer_text(w, location_frame_type(w->p, l));
	put_lines(w, l->lines);
	put_location_notes(w, index);
	m->id = w->failed ? 0 : writer_next_row(w, KIND_LOCATION, m->hash);
	if (!m->id)
		return 0;
	v = writer_row(w, FED_LOCATION);
	v[0] = feed_number(m->id);
	v[1] = hash_value(&m->hash);
	v[2] = feed_id(mapping);
	v[3] = feed_id(l->address);
	v[4] = feed_id(list);
	v[5] = feed_id(frame_type);
	v[6] = kept_blob(w, &w->bytes);
	v[7] = kept_blob(w, &w->notes);
	return m->id;
}

uint32_t writer_stack(struct store_writer *w, uint32_t index)
{
	struct range r = w->p->dict.stacks[index].locations;
	const struct location_index *at = w->p->dict.stack_locations + r.first;
	struct memo *m = &w->n.stacks[index];
	struct feed_value *v;

	if (m->id || hash_is_none(ident_stack(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_STACK, m->hash);
	if (m->id || w->failed)
		return m->id;
	for (uint32_t i = 0; i < r.count; i++)
		writer_location(w, at[i].v);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < r.count; i++)
		codec_put(&w->bytes, w->n.locations[at[i].v].id);
	m->id = w->failed ? 0 : writer_next_row(w, KIND_STACK, m->hash);
	if (!m->id)
		return 0;
	v = writer_row(w, FED_STACK);
	v[0] = feed_number(m->id);
	v[1] = hash_value(&m->hash);
	v[2] = feed_number(r.count);
	v[3] = kept_blob(w, &w->bytes);
	v[4] = notes_value(w, MESSAGE_STACK, index);
	return m->id;
}

uint32_t writer_link(struct store_writer *w, uint32_t index)
{
	const struct link *l = &w->p->dict.links[index];
	struct memo *m = &w->n.links[index];
	struct feed_value *v;

	if (m->id || hash_is_none(ident_link(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_LINK, m->hash);
	if (m->id || w->failed)
		return m->id;
	m->id = writer_next_row(w, KIND_LINK, m->hash);
	if (!m->id)
		return 0;
	v = writer_row(w, FED_LINK);
	v[0] = feed_number(m->id);
	v[1] = feed_bytes(str_from(l->trace_id, sizeof(l->trace_id)));
	v[2] = feed_bytes(str_from(l->span_id, sizeof(l->span_id)));
	v[3] = notes_value(w, MESSAGE_LINK, index);
	return m->id;
}

/* ---- resources and scopes: each row with the notes of both its messages ---- */

static void put_pair_notes(struct store_writer *w, enum message_kind outer, enum message_kind inner,
			   uint32_t index)
{
	buf_reset(&w->notes);
	if (w->n.noted[outer])
		notes_put(&w->notes, w->p, outer, index, 0);
	if (w->n.noted[inner])
		notes_put(&w->notes, w->p, inner, index, 0);
}

/* The hash of fixed parts with the notes behind them; none when they say nothing. */
static struct hash128 hash_of_parts(struct store_writer *w, enum store_kind kind,
				    const struct hash128 *parts, size_t count, uint64_t dropped)
{
	bool nothing = dropped == 0 && w->notes.len == 0;

	buf_reset(&w->bytes);
	for (size_t i = 0; i < count; i++) {
		nothing &= hash_is_none(parts[i]);
		buf_append(&w->bytes, &parts[i], sizeof(parts[i]));
	}
	buf_append(&w->bytes, &dropped, sizeof(dropped));
	buf_str(&w->bytes, buf_view(&w->notes));
	return nothing ? HASH_NONE : ident_bytes(kind, buf_view(&w->bytes));
}

uint32_t writer_resource(struct store_writer *w, uint32_t index, struct hash128 *hash)
{
	const struct resource_profiles *r = &w->p->resources[index];
	struct hash128 parts[2] = { HASH_NONE, ident_text(r->schema_url) };
	uint32_t attrset = writer_key_values(w, r->attributes, &parts[0]);
	struct feed_value *v;
	uint32_t schema_url, id;

	put_pair_notes(w, MESSAGE_RESOURCE_PROFILES, MESSAGE_RESOURCE, index);
	*hash = hash_of_parts(w, KIND_RESOURCE, parts, 2, r->dropped_attributes_count);
	if (hash_is_none(*hash) || w->failed)
		return 0;
	id = writer_find(w, KIND_RESOURCE, *hash);
	if (id || w->failed)
		return id;
	schema_url = writer_text(w, r->schema_url);
	id = w->failed ? 0 : writer_next_row(w, KIND_RESOURCE, *hash);
	if (!id)
		return 0;
	v = writer_row(w, FED_RESOURCE);
	v[0] = feed_number(id);
	v[1] = feed_id(attrset);
	v[2] = feed_id(schema_url);
	v[3] = feed_id(r->dropped_attributes_count);
	v[4] = kept_blob(w, &w->notes);
	return id;
}

uint32_t writer_scope(struct store_writer *w, uint32_t index, struct hash128 *hash)
{
	const struct scope_profiles *c = &w->p->scopes[index];
	struct hash128 parts[4] = { ident_text(c->name), ident_text(c->version), HASH_NONE,
				    ident_text(c->schema_url) };
	uint32_t attrset = writer_key_values(w, c->attributes, &parts[2]);
	uint32_t name, version, schema_url, id;
	struct feed_value *v;

	put_pair_notes(w, MESSAGE_SCOPE_PROFILES, MESSAGE_SCOPE, index);
	*hash = hash_of_parts(w, KIND_SCOPE, parts, 4, c->dropped_attributes_count);
	if (hash_is_none(*hash) || w->failed)
		return 0;
	id = writer_find(w, KIND_SCOPE, *hash);
	if (id || w->failed)
		return id;
	name = writer_text(w, c->name);
	version = writer_text(w, c->version);
	schema_url = writer_text(w, c->schema_url);
	id = w->failed ? 0 : writer_next_row(w, KIND_SCOPE, *hash);
	if (!id)
		return 0;
	v = writer_row(w, FED_SCOPE);
	v[0] = feed_number(id);
	v[1] = feed_id(name);
	v[2] = feed_id(version);
	v[3] = feed_id(attrset);
	v[4] = feed_id(schema_url);
	v[5] = feed_id(c->dropped_attributes_count);
	v[6] = kept_blob(w, &w->notes);
	return id;
}
