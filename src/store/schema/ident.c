#include "store/schema/ident.h"

#include <assert.h>

#include "store/schema/codec.h"

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

/* Thousands of entries a message are put together here: there is room for what an entry has at
 * first, and then it is written without a look at the buffer's end. */
static char *begin_entry(struct ident *n, enum store_kind kind, size_t room)
{
	char *at;

	buf_reset(&n->bytes);
	at = buf_reserve(&n->bytes, room + 1);
	assert(at);
	*at = (char)kind;
	return at + 1;
}

static inline char *put_hash(char *at, struct hash128 h)
{
	memcpy(at, &h, sizeof(h));
	return at + sizeof(h);
}

static inline char *put_number(char *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

/* The entry has been written up to there: more goes through the buffer. */
static inline void put_up_to(struct ident *n, const char *at)
{
	n->bytes.len = (size_t)(at - n->bytes.ptr);
}

static void put_notes(struct ident *n, enum message_kind message, uint32_t index, uint32_t ordinal)
{
	if (n->noted[message])
		notes_put(&n->bytes, n->p, message, index, ordinal);
}

static struct hash128 end_entry(struct ident *n)
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
	m->hash = nothing ? HASH_NONE : end_entry(n);
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

static struct hash128 hash_string(struct ident *n, struct memo *m, uint32_t index)
{
	m->hash = ident_text(n->p->dict.strings[index]);
	m->hashed = true;
	return m->hash;
}

struct hash128 ident_string(struct ident *n, uint32_t index)
{
	struct memo *m = &n->strings[index];

	return m->hashed ? m->hash : hash_string(n, m, index);
}

static struct hash128 hash_attribute(struct ident *n, struct memo *m, uint32_t index)
{
	const struct attribute *a = &n->p->dict.attributes[index];
	struct hash128 key = ident_string(n, a->key.v), unit = ident_string(n, a->unit.v);
	bool nothing = index == 0 && hash_is_none(key) && hash_is_none(unit) &&
		       a->value.kind == ANY_EMPTY && !has_notes(n, MESSAGE_ATTRIBUTE, index);
	char *at = begin_entry(n, KIND_ATTRIBUTE, 2 * sizeof(key));

	at = put_hash(at, key);
	at = put_hash(at, unit);
	put_up_to(n, at);
	codec_put_any(&n->bytes, &a->value);
	put_notes(n, MESSAGE_ATTRIBUTE, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_attribute(struct ident *n, uint32_t index)
{
	struct memo *m = &n->attributes[index];

	return m->hashed ? m->hash : hash_attribute(n, m, index);
}

static struct hash128 hash_refs(struct ident *n, const struct attribute_index *at, uint32_t count)
{
	char *to;

	for (uint32_t i = 0; i < count; i++)
		if (!n->attributes[at[i].v].hashed)
			ident_attribute(n, at[i].v);
	to = begin_entry(n, KIND_ATTRSET, count * sizeof(struct hash128));
	for (uint32_t i = 0; i < count; i++)
		to = put_hash(to, n->attributes[at[i].v].hash);
	put_up_to(n, to);
	return end_entry(n);
}

struct hash128 ident_refs(struct ident *n, const struct attribute_index *at, uint32_t count)
{
	struct single *s;

	if (!count)
		return HASH_NONE;
	if (count > 1)
		return hash_refs(n, at, count);
	s = &n->singles[at->v % IDENT_SINGLES];
	if (!s->hashed || s->attribute != at->v)
		*s = (struct single){ hash_refs(n, at, 1), at->v, true };
	return s->hash;
}

struct hash128 ident_list(struct ident *n, struct range refs)
{
	return ident_refs(n, n->p->attribute_refs + refs.first, refs.count);
}

struct hash128 ident_key_value(struct ident *n, const struct key_value *kv)
{
	struct hash128 key = ident_text(kv->key);
	char *at = begin_entry(n, KIND_ATTRIBUTE, 2 * sizeof(key));

	at = put_hash(at, key);
	at = put_hash(at, HASH_NONE);
	put_up_to(n, at);
	codec_put_any(&n->bytes, &kv->value);
	if (kv->key_strindex.v)
		buf_char(&n->bytes, 'r');
	return end_entry(n);
}

static struct hash128 hash_function(struct ident *n, struct memo *m, uint32_t index)
{
	const struct function *f = &n->p->dict.functions[index];
	struct hash128 name = ident_string(n, f->name.v),
		       system_name = ident_string(n, f->system_name.v),
		       filename = ident_string(n, f->filename.v);
	bool nothing = hash_is_none(name) && hash_is_none(system_name) && hash_is_none(filename) &&
		       !f->start_line && !has_notes(n, MESSAGE_FUNCTION, index);
	char *at = begin_entry(n, KIND_FUNCTION, 3 * sizeof(name) + 8);

	at = put_hash(at, name);
	at = put_hash(at, system_name);
	at = put_hash(at, filename);
	at = put_number(at, (uint64_t)f->start_line);
	put_up_to(n, at);
	put_notes(n, MESSAGE_FUNCTION, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_function(struct ident *n, uint32_t index)
{
	struct memo *m = &n->functions[index];

	return m->hashed ? m->hash : hash_function(n, m, index);
}

static struct hash128 hash_mapping(struct ident *n, struct memo *m, uint32_t index)
{
	const struct mapping *x = &n->p->dict.mappings[index];
	struct hash128 filename = ident_string(n, x->filename.v),
		       list = ident_list(n, x->attributes);
	bool nothing = hash_is_none(filename) && hash_is_none(list) && !x->memory_start &&
		       !x->memory_limit && !x->file_offset && !has_notes(n, MESSAGE_MAPPING, index);
	char *at = begin_entry(n, KIND_MAPPING, 3 * 8 + 2 * sizeof(list));

	at = put_number(at, x->memory_start);
	at = put_number(at, x->memory_limit);
	at = put_number(at, x->file_offset);
	at = put_hash(at, filename);
	at = put_hash(at, list);
	put_up_to(n, at);
	put_notes(n, MESSAGE_MAPPING, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_mapping(struct ident *n, uint32_t index)
{
	struct memo *m = &n->mappings[index];

	return m->hashed ? m->hash : hash_mapping(n, m, index);
}

static bool location_says_nothing(struct ident *n, uint32_t index, struct hash128 mapping,
				  struct hash128 list)
{
	const struct location *l = &n->p->dict.locations[index];

	return hash_is_none(mapping) && hash_is_none(list) && !l->address && !l->lines.count &&
	       !has_notes(n, MESSAGE_LOCATION, index);
}

enum { LINE_BYTES = sizeof(struct hash128) + 16 };

/* The lines of a location, whose functions' hashes are known. */
static void put_lines(struct ident *n, struct range lines)
{
	const struct line *line = n->p->dict.lines + lines.first;

	for (uint32_t i = 0; i < lines.count; i++) {
		char *at = buf_reserve(&n->bytes, LINE_BYTES);

		assert(at);
		at = put_hash(at, n->functions[line[i].function.v].hash);
		at = put_number(at, (uint64_t)line[i].line);
		at = put_number(at, (uint64_t)line[i].column);
		put_up_to(n, at);
		put_notes(n, MESSAGE_LINE, lines.first + i, i);
	}
}

static struct hash128 hash_location(struct ident *n, struct memo *m, uint32_t index)
{
	const struct location *l = &n->p->dict.locations[index];
	struct hash128 mapping, list;
	bool nothing;
	char *at;

	mapping = ident_mapping(n, l->mapping.v);
	list = ident_list(n, l->attributes);
	for (uint32_t i = 0; i < l->lines.count; i++)
		ident_function(n, n->p->dict.lines[l->lines.first + i].function.v);
	nothing = location_says_nothing(n, index, mapping, list);
	at = begin_entry(n, KIND_LOCATION, 2 * sizeof(list) + 16);
	at = put_hash(at, mapping);
	at = put_number(at, l->address);
	at = put_hash(at, list);
	at = put_number(at, l->lines.count);
	put_up_to(n, at);
	put_lines(n, l->lines);
	put_notes(n, MESSAGE_LOCATION, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_location(struct ident *n, uint32_t index)
{
	struct memo *m = &n->locations[index];

	return m->hashed ? m->hash : hash_location(n, m, index);
}

static struct hash128 hash_stack(struct ident *n, struct memo *m, uint32_t index)
{
	struct range r = n->p->dict.stacks[index].locations;
	const struct location_index *at = n->p->dict.stack_locations + r.first;
	bool nothing = !r.count && !has_notes(n, MESSAGE_STACK, index);
	char *to;

	for (uint32_t i = 0; i < r.count; i++)
		if (!n->locations[at[i].v].hashed)
			hash_location(n, &n->locations[at[i].v], at[i].v);
	to = begin_entry(n, KIND_STACK, r.count * sizeof(struct hash128));
	for (uint32_t i = 0; i < r.count; i++)
		to = put_hash(to, n->locations[at[i].v].hash);
	put_up_to(n, to);
	put_notes(n, MESSAGE_STACK, index, 0);
	return remember(n, m, nothing);
}

struct hash128 ident_stack(struct ident *n, uint32_t index)
{
	struct memo *m = &n->stacks[index];

	return m->hashed ? m->hash : hash_stack(n, m, index);
}

void ident_code(struct ident *n)
{
	const struct dictionary *d = &n->p->dict;

	for (uint32_t i = 0; i < d->string_count; i++)
		ident_string(n, i);
	for (uint32_t i = 0; i < d->function_count; i++)
		ident_function(n, i);
	for (uint32_t i = 0; i < d->location_count; i++)
		ident_location(n, i);
}

struct hash128 ident_link(struct ident *n, uint32_t index)
{
	const struct link *l = &n->p->dict.links[index];
	struct memo *m = &n->links[index];
	bool nothing;
	char *at;

	if (m->hashed)
		return m->hash;
	nothing = id_is_zero(l->trace_id, sizeof(l->trace_id)) &&
		  id_is_zero(l->span_id, sizeof(l->span_id)) && !has_notes(n, MESSAGE_LINK, index);
	at = begin_entry(n, KIND_LINK, sizeof(l->trace_id) + sizeof(l->span_id));
	memcpy(at, l->trace_id, sizeof(l->trace_id));
	memcpy(at + sizeof(l->trace_id), l->span_id, sizeof(l->span_id));
	put_up_to(n, at + sizeof(l->trace_id) + sizeof(l->span_id));
	put_notes(n, MESSAGE_LINK, index, 0);
	return remember(n, m, nothing);
}
