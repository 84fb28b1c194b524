#include "store/read/reader_rebuild.h"

#include "store/schema/codec.h"

void rebuild_fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id)
{
	if (!wrong || r->failed)
		return;
	r->failed = true;
	err_set(r->err, ERR_INVALID, "%s %llu is damaged", what, (unsigned long long)id);
}

sqlite3_stmt *rebuild_row(struct rebuild *r, enum query q, uint64_t id)
{
	sqlite3_stmt *s = NULL;

	if (!r->failed && !reader_row(r->snap, q, id, &s, r->err))
		r->failed = true;
	return r->failed ? NULL : s;
}

static bool known(struct rebuild *r, enum store_kind kind, uint64_t id, uint32_t *index)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[kind], id) : NULL;

	*index = slot ? (uint32_t)slot->number : 0;
	return !id || slot || r->failed;
}

static uint32_t remember(struct rebuild *r, enum store_kind kind, uint64_t id, uint32_t index)
{
	if (!r->failed)
		idmap_add(&r->maps[kind], id)->number = index;
	return index;
}

struct str rebuild_copy(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(&r->scratch, s) : (struct str){ 0 };
}

/* ---- dictionary ---- */

static struct str text_of(struct rebuild *r, uint64_t id)
{
	struct str s = { 0 };

	if (!r->failed && !reader_text(r->snap, id, &s, r->err))
		r->failed = true;
	return s;
}

struct strindex rebuild_string(struct rebuild *r, uint64_t id)
{
	uint32_t index;

	if (known(r, KIND_STRING, id, &index))
		return (struct strindex){ index };
	return (struct strindex){ remember(r, KIND_STRING, id,
					   builder_string(r->b, text_of(r, id)).v) };
}

void rebuild_notes(struct rebuild *r, struct str notes, enum message_kind message, uint32_t index)
{
	if (notes.len)
		rebuild_fail_when(r, !notes_get(notes, message, r->b, index), "notes of message",
				  index);
}

static void get_unknown(struct rebuild *r, struct str notes, struct any_value *v)
{
	if (notes.len)
		rebuild_fail_when(r, !notes_get_unknown(notes, &r->scratch, v),
				  "notes of attribute", 0);
}

/* An entry with notes is one of its own. */
static void keep_apart(struct rebuild *r, struct str notes)
{
	if (notes.len)
		builder_append_next(r->b);
}

static struct attribute_index attribute_of(struct rebuild *r, uint64_t id)
{
	struct attribute a = { 0 };
	struct any_cell cell;
	struct str notes;
	sqlite3_stmt *s;
	uint32_t index;
	uint64_t key, unit;

	if (known(r, KIND_ATTRIBUTE, id, &index))
		return (struct attribute_index){ index };
	s = rebuild_row(r, GET_ATTRIBUTE, id);
	if (!s)
		return (struct attribute_index){ 0 };
	key = db_u64(s, 0);
	unit = db_u64(s, 3);
	notes = rebuild_copy(r, db_bytes(s, 4));
	cell = reader_any_cell(s, 1, 2);
	r->failed |= !reader_any(&cell, &r->scratch, &a.value, r->err);
	sqlite3_reset(s);
	get_unknown(r, notes, &a.value);
	a.key = rebuild_string(r, key);
	a.unit = rebuild_string(r, unit);
	any_relink(r->b, &a.value);
	keep_apart(r, notes);
	index = builder_attribute(r->b, &a).v;
	rebuild_notes(r, notes, MESSAGE_ATTRIBUTE, index);
	return (struct attribute_index){ remember(r, KIND_ATTRIBUTE, id, index) };
}

static struct codec attrset_bytes(struct rebuild *r, uint64_t id)
{
	sqlite3_stmt *s = id ? rebuild_row(r, GET_ATTRSET, id) : NULL;
	struct str bytes;

	if (!s)
		return (struct codec){ 0 };
	bytes = rebuild_copy(r, db_bytes(s, 0));
	sqlite3_reset(s);
	return codec_of(bytes);
}

struct rebuild_refs rebuild_refs(struct rebuild *r, uint64_t id)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[KIND_ATTRSET], id) : NULL;
	struct rebuild_refs *refs;
	struct codec c;

	if (slot)
		return *(const struct rebuild_refs *)slot->ptr;
	c = attrset_bytes(r, id);
	refs = arena_zalloc(&r->scratch, sizeof(*refs));
	refs->at = arena_alloc_array(&r->scratch, (size_t)(c.end - c.at) + 1, sizeof(*refs->at));
	while (codec_more(&c))
		refs->at[refs->count++] = attribute_of(r, codec_get(&c));
	rebuild_fail_when(r, c.failed, "attribute set", id);
	if (id && !r->failed)
		idmap_add(&r->maps[KIND_ATTRSET], id)->ptr = refs;
	return *refs;
}

static struct function_index function_of(struct rebuild *r, uint64_t id)
{
	struct function f = { 0 };
	uint64_t name, system_name, filename;
	struct str notes;
	sqlite3_stmt *s;
	uint32_t index;

	if (known(r, KIND_FUNCTION, id, &index))
		return (struct function_index){ index };
	s = rebuild_row(r, GET_FUNCTION, id);
	if (!s)
		return (struct function_index){ 0 };
	name = db_u64(s, 0);
	system_name = db_u64(s, 1);
	filename = db_u64(s, 2);
	f.start_line = sqlite3_column_int64(s, 3);
	notes = rebuild_copy(r, db_bytes(s, 4));
	sqlite3_reset(s);
	f.name = rebuild_string(r, name);
	f.system_name = rebuild_string(r, system_name);
	f.filename = rebuild_string(r, filename);
	keep_apart(r, notes);
	index = builder_function(r->b, &f).v;
	rebuild_notes(r, notes, MESSAGE_FUNCTION, index);
	return (struct function_index){ remember(r, KIND_FUNCTION, id, index) };
}

static struct mapping_index mapping_of(struct rebuild *r, uint64_t id)
{
	struct mapping m = { 0 };
	uint64_t filename, attrset;
	struct str notes;
	struct rebuild_refs refs;
	sqlite3_stmt *s;
	uint32_t index;

	if (known(r, KIND_MAPPING, id, &index))
		return (struct mapping_index){ index };
	s = rebuild_row(r, GET_MAPPING, id);
	if (!s)
		return (struct mapping_index){ 0 };
	m.memory_start = db_u64(s, 0);
	m.memory_limit = db_u64(s, 1);
	m.file_offset = db_u64(s, 2);
	filename = db_u64(s, 3);
	attrset = db_u64(s, 4);
	notes = rebuild_copy(r, db_bytes(s, 6));
	sqlite3_reset(s);
	m.filename = rebuild_string(r, filename);
	refs = rebuild_refs(r, attrset);
	keep_apart(r, notes);
	index = builder_mapping(r->b, &m, refs.at, refs.count).v;
	rebuild_notes(r, notes, MESSAGE_MAPPING, index);
	return (struct mapping_index){ remember(r, KIND_MAPPING, id, index) };
}

/* varint function row, zigzag line, zigzag column, for each line */
static struct line *lines_of(struct rebuild *r, struct str bytes, uint32_t *count)
{
	struct line *lines = arena_alloc_array(&r->scratch, bytes.len + 1, sizeof(*lines));
	struct codec c = codec_of(bytes);

	*count = 0;
	while (codec_more(&c)) {
		struct line *l = &lines[(*count)++];
		uint64_t function = codec_get(&c);

		l->line = codec_get_signed(&c);
		l->column = codec_get_signed(&c);
		l->function = function_of(r, c.failed ? 0 : function);
	}
	rebuild_fail_when(r, c.failed, "lines of location", 0);
	return lines;
}

static struct location_index location_from_row(struct rebuild *r, uint64_t id)
{
	struct location l = { 0 };
	uint64_t mapping, attrset;
	struct str notes, line_bytes;
	struct line *lines;
	struct rebuild_refs refs;
	sqlite3_stmt *s;
	uint32_t index, line_count;

	s = rebuild_row(r, GET_LOCATION, id);
	if (!s)
		return (struct location_index){ 0 };
	mapping = db_u64(s, 0);
	l.address = db_u64(s, 1);
	attrset = db_u64(s, 2);
	line_bytes = rebuild_copy(r, db_bytes(s, 4));
	notes = rebuild_copy(r, db_bytes(s, 5));
	sqlite3_reset(s);
	l.mapping = mapping_of(r, mapping);
	refs = rebuild_refs(r, attrset);
	lines = lines_of(r, line_bytes, &line_count);
	keep_apart(r, notes);
	index = builder_location(r->b, &l, lines, line_count, refs.at, refs.count).v;
	rebuild_notes(r, notes, MESSAGE_LOCATION, index);
	rebuild_notes(r, notes, MESSAGE_LINE,
		      builder_lines(r->b, (struct location_index){ index }).first);
	return (struct location_index){ index };
}

static struct location_index location_of(struct rebuild *r, uint64_t id)
{
	uint32_t index;

	if (known(r, KIND_LOCATION, id, &index) || r->failed)
		return (struct location_index){ index };
	index = location_from_row(r, id).v;
	return (struct location_index){ remember(r, KIND_LOCATION, id, index) };
}

struct stack_index rebuild_stack(struct rebuild *r, uint64_t id)
{
	struct location_index *locations;
	struct str bytes, notes;
	sqlite3_stmt *s;
	struct codec c;
	uint32_t index, count = 0;

	if (known(r, KIND_STACK, id, &index))
		return (struct stack_index){ index };
	s = rebuild_row(r, GET_STACK, id);
	if (!s)
		return (struct stack_index){ 0 };
	bytes = rebuild_copy(r, db_bytes(s, 0));
	notes = rebuild_copy(r, db_bytes(s, 1));
	sqlite3_reset(s);
	c = codec_of(bytes);
	locations = arena_alloc_array(&r->scratch, bytes.len + 1, sizeof(*locations));
	while (codec_more(&c))
		locations[count++] = location_of(r, codec_get(&c));
	rebuild_fail_when(r, c.failed, "stack", id);
	keep_apart(r, notes);
	index = builder_stack(r->b, locations, count).v;
	rebuild_notes(r, notes, MESSAGE_STACK, index);
	return (struct stack_index){ remember(r, KIND_STACK, id, index) };
}

void rebuild_copy_id(uint8_t *out, size_t size, struct str bytes)
{
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

struct link_index rebuild_link(struct rebuild *r, uint64_t id)
{
	struct link l = { 0 };
	struct str notes;
	sqlite3_stmt *s;
	uint32_t index;

	if (known(r, KIND_LINK, id, &index))
		return (struct link_index){ index };
	s = rebuild_row(r, GET_LINK, id);
	if (!s)
		return (struct link_index){ 0 };
	rebuild_copy_id(l.trace_id, sizeof(l.trace_id), db_bytes(s, 0));
	rebuild_copy_id(l.span_id, sizeof(l.span_id), db_bytes(s, 1));
	notes = rebuild_copy(r, db_bytes(s, 2));
	sqlite3_reset(s);
	keep_apart(r, notes);
	index = builder_link(r->b, &l).v;
	rebuild_notes(r, notes, MESSAGE_LINK, index);
	return (struct link_index){ remember(r, KIND_LINK, id, index) };
}

/* ---- resources and scopes ---- */

static struct key_value key_value_of(struct rebuild *r, uint64_t id)
{
	struct key_value kv = { 0 };
	sqlite3_stmt *s = id ? rebuild_row(r, GET_ATTRIBUTE, id) : NULL;
	struct any_cell cell;
	bool by_reference;
	struct str notes;
	uint64_t key;

	if (!s)
		return kv;
	key = db_u64(s, 0);
	notes = rebuild_copy(r, db_bytes(s, 4));
	by_reference = sqlite3_column_int(s, 1) & 256;
	cell = reader_any_cell(s, 1, 2);
	r->failed |= !reader_any(&cell, &r->scratch, &kv.value, r->err);
	sqlite3_reset(s);
	get_unknown(r, notes, &kv.value);
	kv.key = text_of(r, key);
	if (by_reference)
		kv.key_strindex = rebuild_string(r, key);
	any_relink(r->b, &kv.value);
	return kv;
}

static struct key_values key_values_of(struct rebuild *r, uint64_t attrset)
{
	struct codec c = attrset_bytes(r, attrset);
	struct key_value *list =
		arena_alloc_array(&r->scratch, (size_t)(c.end - c.at) + 1, sizeof(*list));
	uint32_t count = 0;

	while (codec_more(&c))
		list[count++] = key_value_of(r, codec_get(&c));
	rebuild_fail_when(r, c.failed, "attribute set", attrset);
	return builder_key_values(r->b, list, count);
}

struct str rebuild_owned(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(builder_arena(r->b), s) : (struct str){ 0 };
}

void rebuild_resource(struct rebuild *r, uint64_t id)
{
	struct resource_profiles *to = builder_begin_resource(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_RESOURCE);
	sqlite3_stmt *s = id ? rebuild_row(r, GET_RESOURCE, id) : NULL;
	uint64_t attrset, schema_url;
	struct str notes;

	if (!s)
		return;
	attrset = db_u64(s, 0);
	schema_url = db_u64(s, 1);
	to->dropped_attributes_count = (uint32_t)db_u64(s, 2);
	notes = rebuild_copy(r, db_bytes(s, 3));
	sqlite3_reset(s);
	to->attributes = key_values_of(r, attrset);
	to->schema_url = rebuild_owned(r, text_of(r, schema_url));
	rebuild_notes(r, notes, MESSAGE_RESOURCE_PROFILES, place);
	rebuild_notes(r, notes, MESSAGE_RESOURCE, place);
}

void rebuild_scope(struct rebuild *r, uint64_t id)
{
	struct scope_profiles *to = builder_begin_scope(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_SCOPE);
	sqlite3_stmt *s = id ? rebuild_row(r, GET_SCOPE, id) : NULL;
	uint64_t name, version, attrset, schema_url;
	struct str notes;

	if (!s)
		return;
	name = db_u64(s, 0);
	version = db_u64(s, 1);
	attrset = db_u64(s, 2);
	schema_url = db_u64(s, 3);
	to->dropped_attributes_count = (uint32_t)db_u64(s, 4);
	notes = rebuild_copy(r, db_bytes(s, 5));
	sqlite3_reset(s);
	to->name = rebuild_owned(r, text_of(r, name));
	to->version = rebuild_owned(r, text_of(r, version));
	to->attributes = key_values_of(r, attrset);
	to->schema_url = rebuild_owned(r, text_of(r, schema_url));
	rebuild_notes(r, notes, MESSAGE_SCOPE_PROFILES, place);
	rebuild_notes(r, notes, MESSAGE_SCOPE, place);
}
