/*
 * writer_rows.c - the rows of dictionary entries: found by their content hash, else added with what
 * they refer to, children first.
 */
#include <math.h>

#include "store/codec.h"
#include "store/lifted.h"
#include "store/writer_internal.h"

enum { BY_REFERENCE = 128, KEY_BY_REFERENCE = 256 }; /* of attribute.kind */

static void bind_hash(sqlite3_stmt *s, int i, const struct hash128 *h)
{
	sqlite3_bind_blob(s, i, h, sizeof(*h), SQLITE_STATIC);
}

/* The notes of one message as a column; in w->notes until the row is in. */
static void bind_notes(struct store_writer *w, sqlite3_stmt *s, int i, enum message_kind message,
		       uint32_t index)
{
	buf_reset(&w->notes);
	if (w->n.noted[message])
		notes_put(&w->notes, w->p, message, index, 0);
	db_bind_blob(s, i, buf_view(&w->notes));
}

/* ---- texts and attributes ---- */

static uint32_t add_text(struct store_writer *w, struct str text, struct hash128 hash)
{
	sqlite3_stmt *s = statement(w, ADD_STRING);
	uint32_t id = writer_next_row(w, KIND_STRING, hash);

	if (!id)
		return 0;
	sqlite3_bind_int64(s, 1, id);
	db_bind_text(s, 2, text);
	writer_run(w, ADD_STRING, "adding a text");
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
static void bind_double(sqlite3_stmt *s, int i, const double *v)
{
	if (isnan(*v) || (*v == 0 && signbit(*v)))
		sqlite3_bind_blob(s, i, v, sizeof(*v), SQLITE_STATIC);
	else
		sqlite3_bind_double(s, i, *v);
}

static void bind_any(struct store_writer *w, sqlite3_stmt *s, int i, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		sqlite3_bind_null(s, i);
		break;
	case ANY_STRING:
		db_bind_text(s, i, v->string);
		break;
	case ANY_BYTES:
		sqlite3_bind_blob64(s, i, v->string.len ? v->string.ptr : "", v->string.len,
				    SQLITE_STATIC);
		break;
	case ANY_BOOL:
		sqlite3_bind_int(s, i, v->boolean);
		break;
	case ANY_INT:
		sqlite3_bind_int64(s, i, v->integer);
		break;
	case ANY_DOUBLE:
		bind_double(s, i, &v->real);
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		buf_reset(&w->bytes);
		codec_put_any(&w->bytes, v);
		db_bind_blob(s, i, buf_view(&w->bytes));
		break;
	}
}

struct attribute_row {
	struct hash128 hash;
	uint32_t key_id, unit_id, kind;
	const struct any_value *value;
	uint32_t index; /* in the attribute table; 0 = in none */
};

static uint32_t add_attribute(struct store_writer *w, const struct attribute_row *r)
{
	sqlite3_stmt *s = statement(w, ADD_ATTRIBUTE);
	uint32_t id = w->failed ? 0 : writer_next_row(w, KIND_ATTRIBUTE, r->hash);

	if (!id)
		return 0;
	sqlite3_bind_int64(s, 1, id);
	db_bind_id(s, 2, r->key_id);
	sqlite3_bind_int64(s, 3, r->kind);
	bind_any(w, s, 4, r->value);
	db_bind_id(s, 5, r->unit_id);
	buf_reset(&w->notes);
	notes_put_unknown(&w->notes, r->value);
	if (w->n.noted[MESSAGE_ATTRIBUTE] && r->index)
		notes_put(&w->notes, w->p, MESSAGE_ATTRIBUTE, r->index, 0);
	db_bind_blob(s, 6, buf_view(&w->notes));
	writer_run(w, ADD_ATTRIBUTE, "adding an attribute");
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
	sqlite3_stmt *s = statement(w, ADD_ATTRSET);
	uint32_t id = w->failed ? 0 : writer_next_row(w, KIND_ATTRSET, hash);

	if (!id)
		return 0;
	sqlite3_bind_int64(s, 1, id);
	db_bind_blob(s, 2, buf_view(&w->bytes));
	writer_run(w, ADD_ATTRSET, "adding an attribute set");
	return id;
}

static uint32_t refs_of_hash(struct store_writer *w, const struct attribute_index *at,
			     uint32_t count, struct hash128 hash)
{
	uint32_t id;

	if (!count)
		return 0;
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

uint32_t writer_refs(struct store_writer *w, const struct attribute_index *at, uint32_t count)
{
	return count ? refs_of_hash(w, at, count, ident_refs(&w->n, at, count)) : 0;
}

uint32_t writer_list(struct store_writer *w, struct range refs)
{
	return writer_refs(w, w->p->attribute_refs + refs.first, refs.count);
}

struct hash128 writer_expect_list(struct store_writer *w, struct range refs)
{
	struct hash128 hash = refs.count ? ident_list(&w->n, refs) : HASH_NONE;

	if (refs.count)
		known_expect(&w->known, KIND_ATTRSET, hash);
	return hash;
}

uint32_t writer_expected_list(struct store_writer *w, struct range refs, struct hash128 hash)
{
	return refs_of_hash(w, w->p->attribute_refs + refs.first, refs.count, hash);
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
	sqlite3_stmt *s = statement(w, ADD_FUNCTION);
	struct memo *m = &w->n.functions[index];
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
	sqlite3_bind_int64(s, 1, m->id);
	bind_hash(s, 2, &m->hash);
	db_bind_id(s, 3, name);
	db_bind_id(s, 4, system_name);
	db_bind_id(s, 5, filename);
	db_bind_id(s, 6, (uint64_t)f->start_line);
	bind_notes(w, s, 7, MESSAGE_FUNCTION, index);
	writer_run(w, ADD_FUNCTION, "adding a function");
	return m->id;
}

static uint32_t writer_mapping(struct store_writer *w, uint32_t index)
{
	const struct mapping *x = &w->p->dict.mappings[index];
	sqlite3_stmt *s = statement(w, ADD_MAPPING);
	struct memo *m = &w->n.mappings[index];
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
	sqlite3_bind_int64(s, 1, m->id);
	bind_hash(s, 2, &m->hash);
	db_bind_u64(s, 3, x->memory_start);
	db_bind_u64(s, 4, x->memory_limit);
	db_bind_u64(s, 5, x->file_offset);
	db_bind_id(s, 6, filename);
	db_bind_id(s, 7, list);
	id = mapping_build_id(w->p, x);
	if (id.len)
		db_bind_text(s, 8, id);
	else
		sqlite3_bind_null(s, 8);
	bind_notes(w, s, 9, MESSAGE_MAPPING, index);
	writer_run(w, ADD_MAPPING, "adding a mapping");
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
	sqlite3_stmt *s = statement(w, ADD_LOCATION);
	struct memo *m = &w->n.locations[index];
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
	sqlite3_bind_int64(s, 1, m->id);
	bind_hash(s, 2, &m->hash);
	db_bind_id(s, 3, mapping);
	db_bind_id(s, 4, l->address);
	db_bind_id(s, 5, list);
	db_bind_id(s, 6, frame_type);
	db_bind_blob(s, 7, buf_view(&w->bytes));
	db_bind_blob(s, 8, buf_view(&w->notes));
	writer_run(w, ADD_LOCATION, "adding a location");
	return m->id;
}

/* Those that this request has not asked for yet; ident_stack() has hashed them. */
static void expect_locations(const struct store_writer *w, const struct location_index *at,
			     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct memo *m = &w->n.locations[at[i].v];

		if (!m->id)
			known_expect(&w->known, KIND_LOCATION, m->hash);
	}
}

void writer_expect_stack(struct store_writer *w, uint32_t index)
{
	struct hash128 hash = ident_stack(&w->n, index);

	if (!w->n.stacks[index].id && !hash_is_none(hash))
		known_expect(&w->known, KIND_STACK, hash);
}

uint32_t writer_stack(struct store_writer *w, uint32_t index)
{
	struct range r = w->p->dict.stacks[index].locations;
	const struct location_index *at = w->p->dict.stack_locations + r.first;
	sqlite3_stmt *s = statement(w, ADD_STACK);
	struct memo *m = &w->n.stacks[index];

	if (m->id || hash_is_none(ident_stack(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_STACK, m->hash);
	if (m->id || w->failed)
		return m->id;
	expect_locations(w, at, r.count);
	for (uint32_t i = 0; i < r.count; i++)
		writer_location(w, at[i].v);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < r.count; i++)
		codec_put(&w->bytes, w->n.locations[at[i].v].id);
	m->id = w->failed ? 0 : writer_next_row(w, KIND_STACK, m->hash);
	if (!m->id)
		return 0;
	sqlite3_bind_int64(s, 1, m->id);
	bind_hash(s, 2, &m->hash);
	sqlite3_bind_int64(s, 3, r.count);
	db_bind_blob(s, 4, buf_view(&w->bytes));
	bind_notes(w, s, 5, MESSAGE_STACK, index);
	writer_run(w, ADD_STACK, "adding a stack");
	return m->id;
}

uint32_t writer_link(struct store_writer *w, uint32_t index)
{
	const struct link *l = &w->p->dict.links[index];
	sqlite3_stmt *s = statement(w, ADD_LINK);
	struct memo *m = &w->n.links[index];

	if (m->id || hash_is_none(ident_link(&w->n, index)))
		return m->id;
	m->id = writer_find(w, KIND_LINK, m->hash);
	if (m->id || w->failed)
		return m->id;
	m->id = writer_next_row(w, KIND_LINK, m->hash);
	if (!m->id)
		return 0;
	sqlite3_bind_int64(s, 1, m->id);
	sqlite3_bind_blob(s, 2, l->trace_id, sizeof(l->trace_id), SQLITE_STATIC);
	sqlite3_bind_blob(s, 3, l->span_id, sizeof(l->span_id), SQLITE_STATIC);
	bind_notes(w, s, 4, MESSAGE_LINK, index);
	writer_run(w, ADD_LINK, "adding a link");
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
	sqlite3_stmt *s = statement(w, ADD_RESOURCE);
	struct hash128 parts[2] = { HASH_NONE, ident_text(r->schema_url) };
	uint32_t attrset = writer_key_values(w, r->attributes, &parts[0]);
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
	sqlite3_bind_int64(s, 1, id);
	db_bind_id(s, 2, attrset);
	db_bind_id(s, 3, schema_url);
	db_bind_id(s, 4, r->dropped_attributes_count);
	db_bind_blob(s, 5, buf_view(&w->notes));
	writer_run(w, ADD_RESOURCE, "adding a resource");
	return id;
}

uint32_t writer_scope(struct store_writer *w, uint32_t index, struct hash128 *hash)
{
	const struct scope_profiles *c = &w->p->scopes[index];
	sqlite3_stmt *s = statement(w, ADD_SCOPE);
	struct hash128 parts[4] = { ident_text(c->name), ident_text(c->version), HASH_NONE,
				    ident_text(c->schema_url) };
	uint32_t attrset = writer_key_values(w, c->attributes, &parts[2]);
	uint32_t name, version, schema_url, id;

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
	sqlite3_bind_int64(s, 1, id);
	db_bind_id(s, 2, name);
	db_bind_id(s, 3, version);
	db_bind_id(s, 4, attrset);
	db_bind_id(s, 5, schema_url);
	db_bind_id(s, 6, c->dropped_attributes_count);
	db_bind_blob(s, 7, buf_view(&w->notes));
	writer_run(w, ADD_SCOPE, "adding a scope");
	return id;
}
