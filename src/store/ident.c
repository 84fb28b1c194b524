#include "store/ident.h"

#include <assert.h>

#include "store/codec.h"

static struct memo *memos(struct arena *arena, uint32_t count)
{
	struct memo *m = arena_zalloc(arena, (size_t)count * sizeof(*m));

	assert(m);
	return m;
}

void ident_begin(struct ident *n, const struct profiles *p, struct arena *arena)
{
	struct buf bytes = n->bytes;

	*n = (struct ident){ .p = p, .bytes = bytes };
	n->strings = memos(arena, p->dict.string_count);
	n->attributes = memos(arena, p->dict.attribute_count);
	n->functions = memos(arena, p->dict.function_count);
	n->mappings = memos(arena, p->dict.mapping_count);
	n->locations = memos(arena, p->dict.location_count);
	n->stacks = memos(arena, p->dict.stack_count);
	n->links = memos(arena, p->dict.link_count);
	for (uint32_t i = 0; i < p->extra_count; i++)
		n->noted[p->extras[i].message] = true;
	for (uint32_t i = 0; i < p->bad_index_count; i++)
		n->noted[p->bad_indices[i].message] = true;
}

void ident_release(struct ident *n)
{
	buf_release(&n->bytes);
}

static struct hash128 never_none(struct hash128 h)
{
	h.lo |= hash_is_none(h);
	return h;
}

struct hash128 ident_text(struct str s)
{
	return s.len ? never_none(hash128(s)) : HASH_NONE;
}

/* ---- bytes of an entry ---- */

static void begin(struct ident *n, enum store_kind kind)
{
	buf_reset(&n->bytes);
	buf_char(&n->bytes, (char)kind);
}

static void put_hash(struct ident *n, struct hash128 h)
{
	buf_append(&n->bytes, &h, sizeof(h));
}

static void put_number(struct ident *n, uint64_t v)
{
	buf_append(&n->bytes, &v, sizeof(v));
}

static void put_notes(struct ident *n, enum message_kind message, uint32_t index, uint32_t ordinal)
{
	if (n->noted[message])
		notes_put(&n->bytes, n->p, message, index, ordinal);
}

static struct hash128 end(struct ident *n)
{
	return never_none(hash128(buf_view(&n->bytes)));
}

struct hash128 ident_bytes(enum store_kind kind, struct str bytes)
{
	struct hash128 h = hash128(bytes);

	h.hi ^= (uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15);
	return never_none(h);
}

/* Sets the memo to the hash of what was put, or to none when only the zero entry would be said. */
static struct hash128 remember(struct ident *n, struct memo *m, bool nothing)
{
	m->hash = nothing ? HASH_NONE : end(n);
	m->hashed = true;
	return m->hash;
}

static bool has_notes(struct ident *n, enum message_kind message, uint32_t index)
{
	size_t len = n->bytes.len;
	bool has;

	if (!n->noted[message])
		return false;
	notes_put(&n->bytes, n->p, message, index, 0);
	has = n->bytes.len > len;
	n->bytes.len = len;
	return has;
}

/* ---- kinds ---- */

struct hash128 ident_string(struct ident *n, uint32_t index)
{
	struct memo *m = &n->strings[index];

	if (!m->hashed) {
		m->hash = ident_text(n->p->dict.strings[index]);
		m->hashed = true;
	}
	return m->hash;
}

struct hash128 ident_attribute(struct ident *n, uint32_t index)
{
	const struct attribute *a = &n->p->dict.attributes[index];
	struct memo *m = &n->attributes[index];
	struct hash128 key, unit;
	bool nothing;

	if (m->hashed)
		return m->hash;
	key = ident_string(n, a->key.v);
	unit = ident_string(n, a->unit.v);
	begin(n, KIND_ATTRIBUTE);
	nothing = index == 0 && hash_is_none(key) && hash_is_none(unit) &&
		  a->value.kind == ANY_EMPTY && !has_notes(n, MESSAGE_ATTRIBUTE, index);
	put_hash(n, key);
	put_hash(n, unit);
	codec_put_any(&n->bytes, &a->value);
	put_notes(n, MESSAGE_ATTRIBUTE, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_refs(struct ident *n, const struct attribute_index *at, uint32_t count)
{
	if (!count)
		return HASH_NONE;
	for (uint32_t i = 0; i < count; i++)
		if (!n->attributes[at[i].v].hashed)
			ident_attribute(n, at[i].v);
	begin(n, KIND_ATTRSET);
	for (uint32_t i = 0; i < count; i++)
		put_hash(n, n->attributes[at[i].v].hash);
	return end(n);
}

struct hash128 ident_list(struct ident *n, struct range refs)
{
	return ident_refs(n, n->p->attribute_refs + refs.first, refs.count);
}

struct hash128 ident_key_value(struct ident *n, const struct key_value *kv)
{
	begin(n, KIND_ATTRIBUTE);
	put_hash(n, ident_text(kv->key));
	put_hash(n, HASH_NONE);
	codec_put_any(&n->bytes, &kv->value);
	if (kv->key_strindex.v)
		buf_char(&n->bytes, 'r');
	return end(n);
}

struct hash128 ident_function(struct ident *n, uint32_t index)
{
	const struct function *f = &n->p->dict.functions[index];
	struct memo *m = &n->functions[index];
	struct hash128 name, system_name, filename;
	bool nothing;

	if (m->hashed)
		return m->hash;
	name = ident_string(n, f->name.v);
	system_name = ident_string(n, f->system_name.v);
	filename = ident_string(n, f->filename.v);
	begin(n, KIND_FUNCTION);
	nothing = hash_is_none(name) && hash_is_none(system_name) && hash_is_none(filename) &&
		  !f->start_line && !has_notes(n, MESSAGE_FUNCTION, index);
	put_hash(n, name);
	put_hash(n, system_name);
	put_hash(n, filename);
	put_number(n, (uint64_t)f->start_line);
	put_notes(n, MESSAGE_FUNCTION, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_mapping(struct ident *n, uint32_t index)
{
	const struct mapping *x = &n->p->dict.mappings[index];
	struct memo *m = &n->mappings[index];
	struct hash128 filename, list;
	bool nothing;

	if (m->hashed)
		return m->hash;
	filename = ident_string(n, x->filename.v);
	list = ident_list(n, x->attributes);
	begin(n, KIND_MAPPING);
	nothing = hash_is_none(filename) && hash_is_none(list) && !x->memory_start &&
		  !x->memory_limit && !x->file_offset && !has_notes(n, MESSAGE_MAPPING, index);
	put_number(n, x->memory_start);
	put_number(n, x->memory_limit);
	put_number(n, x->file_offset);
	put_hash(n, filename);
	put_hash(n, list);
	put_notes(n, MESSAGE_MAPPING, index, 0);
	return remember(n, m, nothing);
}

static bool location_says_nothing(struct ident *n, uint32_t index, struct hash128 mapping,
				  struct hash128 list)
{
	const struct location *l = &n->p->dict.locations[index];

	return hash_is_none(mapping) && hash_is_none(list) && !l->address && !l->lines.count &&
	       !has_notes(n, MESSAGE_LOCATION, index);
}

struct hash128 ident_location(struct ident *n, uint32_t index)
{
	const struct location *l = &n->p->dict.locations[index];
	const struct line *lines = n->p->dict.lines + l->lines.first;
	struct memo *m = &n->locations[index];
	struct hash128 mapping, list;
	bool nothing;

	if (m->hashed)
		return m->hash;
	mapping = ident_mapping(n, l->mapping.v);
	list = ident_list(n, l->attributes);
	for (uint32_t i = 0; i < l->lines.count; i++)
		ident_function(n, lines[i].function.v);
	begin(n, KIND_LOCATION);
	nothing = location_says_nothing(n, index, mapping, list);
	put_hash(n, mapping);
	put_number(n, l->address);
	put_hash(n, list);
	put_number(n, l->lines.count);
	for (uint32_t i = 0; i < l->lines.count; i++) {
		put_hash(n, n->functions[lines[i].function.v].hash);
		put_number(n, (uint64_t)lines[i].line);
		put_number(n, (uint64_t)lines[i].column);
		put_notes(n, MESSAGE_LINE, l->lines.first + i, i);
	}
	put_notes(n, MESSAGE_LOCATION, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_stack(struct ident *n, uint32_t index)
{
	struct range r = n->p->dict.stacks[index].locations;
	const struct location_index *at = n->p->dict.stack_locations + r.first;
	struct memo *m = &n->stacks[index];
	bool nothing;

	if (m->hashed)
		return m->hash;
	for (uint32_t i = 0; i < r.count; i++)
		if (!n->locations[at[i].v].hashed)
			ident_location(n, at[i].v);
	begin(n, KIND_STACK);
	nothing = !r.count && !has_notes(n, MESSAGE_STACK, index);
	for (uint32_t i = 0; i < r.count; i++)
		put_hash(n, n->locations[at[i].v].hash);
	put_notes(n, MESSAGE_STACK, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_link(struct ident *n, uint32_t index)
{
	const struct link *l = &n->p->dict.links[index];
	struct memo *m = &n->links[index];
	bool nothing;

	if (m->hashed)
		return m->hash;
	begin(n, KIND_LINK);
	nothing = id_is_zero(l->trace_id, sizeof(l->trace_id)) &&
		  id_is_zero(l->span_id, sizeof(l->span_id)) && !has_notes(n, MESSAGE_LINK, index);
	buf_append(&n->bytes, l->trace_id, sizeof(l->trace_id));
	buf_append(&n->bytes, l->span_id, sizeof(l->span_id));
	put_notes(n, MESSAGE_LINK, index, 0);
	return remember(n, m, nothing);
}
