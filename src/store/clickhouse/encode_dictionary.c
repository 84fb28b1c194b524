#include "store/clickhouse/encode_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { /* of an attribute's kind, as in SQLite's table */
       BY_REFERENCE = 128,
       KEY_BY_REFERENCE = 256,
};

/* ---- dictionary entries ---- */

static bool is_known(struct ch_encoder *e, unsigned kind, struct hash128 hash)
{
	if (known_find(&e->known, (enum store_kind)kind, hash) == e->today)
		return true;
	known_cache(&e->known, (enum store_kind)kind, hash, e->today);
	return false;
}

static void expect(struct put *x, unsigned kind, struct hash128 hash)
{
	known_expect(&x->e->known, (enum store_kind)kind, hash);
}

static void add_text(struct ch_encoder *e, struct str s)
{
	row_str(&e->texts, s);
	e->text_count++;
}

static void begin_texts(struct ch_encoder *e)
{
	buf_reset(&e->texts);
	e->text_count = 0;
}

struct entry {
	unsigned kind;
	struct hash128 hash;
	uint64_t id; /* 0: that of the hash */
	const uint64_t *refs;
	size_t ref_count;
	const int64_t *numbers;
	size_t number_count;
};

/* The row: with the texts and notes that were put before. */
static void add_entry(struct ch_encoder *e, const struct entry *x)
{
	struct buf *b = &e->dictionary;

	row_u8(b, (uint8_t)x->kind);
	row_u64(b, x->id ? x->id : ch_id(x->hash));
	row_u64(b, x->kind == KIND_STACK && x->hash.lo ? x->hash.hi : 0);
	row_u16(b, (uint16_t)e->today);
	row_count(b, x->ref_count);
	buf_append(b, x->refs, x->ref_count * sizeof(*x->refs));
	row_count(b, x->number_count);
	buf_append(b, x->numbers, x->number_count * sizeof(*x->numbers));
	row_count(b, e->text_count);
	buf_str(b, buf_view(&e->texts));
	row_str(b, buf_view(&e->notes));
	e->dictionary_rows++;
}

void ch_put_notes(struct put *x, enum message_kind message, uint32_t index)
{
	buf_reset(&x->e->notes);
	if (x->n->noted[message])
		notes_put(&x->e->notes, x->p, message, index, 0);
}

/* ---- attributes ---- */

/* NaN has many forms; the bytes keep which it was. */
static void put_double(struct buf *b, double v)
{
	uint64_t bits;
	char text[40];

	memcpy(&bits, &v, sizeof(bits));
	if (isnan(v))
		snprintf(text, sizeof(text), "nan:%016llx", (unsigned long long)bits);
	else
		snprintf(text, sizeof(text), "%.17g", v);
	buf_str(b, str_cstr(text));
}

static void add_value(struct ch_encoder *e, const struct any_value *v)
{
	struct buf *b = &e->scratch;

	buf_reset(b);
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
	case ANY_BYTES:
		add_text(e, v->string);
		return;
	case ANY_BOOL:
		buf_str(b, v->boolean ? STR("true") : STR("false"));
		break;
	case ANY_INT:
		buf_i64(b, v->integer);
		break;
	case ANY_DOUBLE:
		put_double(b, v->real);
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		codec_put_any(b, v);
		break;
	}
	add_text(e, buf_view(b));
}

static int64_t kind_of(const struct any_value *v)
{
	return (int64_t)v->kind |
	       (v->kind == ANY_STRING && any_value_is_reference(v) ? BY_REFERENCE : 0);
}

/* The value's unknown fields come before the notes that e->notes has. */
static void put_attribute_notes(struct ch_encoder *e, const struct any_value *v)
{
	buf_reset(&e->scratch);
	notes_put_unknown(&e->scratch, v);
	buf_str(&e->scratch, buf_view(&e->notes));
	add_text(e, buf_view(&e->scratch));
}

/* Lists of the same keys lie side by side in the dictionary: little but their values differs. */
static uint64_t add_key(uint64_t keys, struct str key)
{
	for (size_t i = 0; i < key.len; i++)
		keys = (keys ^ (unsigned char)key.ptr[i]) * UINT64_C(0x100000001b3);
	return keys;
}

static uint64_t list_id(struct hash128 hash, uint64_t keys)
{
	return ch_id_beside(ch_id(hash), keys >> 32);
}

/* texts: key, value, unit, notes of each; numbers: kinds */
static uint64_t put_refs(struct put *x, const struct attribute_index *at, uint32_t count)
{
	struct ch_encoder *e = x->e;
	struct hash128 hash;
	int64_t *kinds;
	uint64_t id, keys = 0;

	if (!count)
		return 0;
	hash = ident_refs(x->n, at, count);
	for (uint32_t i = 0; i < count; i++)
		keys = add_key(keys, x->p->dict.strings[x->p->dict.attributes[at[i].v].key.v]);
	id = list_id(hash, keys);
	if (is_known(e, KIND_ATTRSET, hash))
		return id;
	kinds = arena_alloc_array(&e->arena, count, sizeof(*kinds));
	assert(kinds);
	begin_texts(e);
	for (uint32_t i = 0; i < count; i++) {
		const struct attribute *a = &x->p->dict.attributes[at[i].v];

		kinds[i] = kind_of(&a->value);
		add_text(e, x->p->dict.strings[a->key.v]);
		add_value(e, &a->value);
		add_text(e, x->p->dict.strings[a->unit.v]);
		ch_put_notes(x, MESSAGE_ATTRIBUTE, at[i].v);
		put_attribute_notes(e, &a->value);
	}
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, hash, id, NULL, 0, kinds, count });
	return id;
}

/* Where the list of such indices would be remembered; NULL: it is too long for that. */
static struct list_memo *list_memo(struct put *x, const struct attribute_index *at, uint32_t count)
{
	uint64_t h = count;

	if (count > LIST_MEMO_MOST)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		h = (h ^ at[i].v) * UINT64_C(0x9e3779b97f4a7c15);
	return &x->lists[h >> (64 - LIST_MEMO_BITS)];
}

uint64_t ch_put_list(struct put *x, struct range refs)
{
	const struct attribute_index *at = x->p->attribute_refs + refs.first;
	struct list_memo *m = list_memo(x, at, refs.count);

	if (!m)
		return put_refs(x, at, refs.count);
	if (m->count != refs.count || memcmp(m->at, at, refs.count * sizeof(*at)) != 0) {
		m->id = put_refs(x, at, refs.count);
		m->count = (uint8_t)refs.count;
		if (refs.count)
			memcpy(m->at, at, refs.count * sizeof(*at));
	}
	return m->id;
}

/* A resource's or scope's attributes: no units, no notes but the value's. */
static uint64_t put_key_values(struct put *x, struct key_values kv, struct hash128 *hash)
{
	struct ch_encoder *e = x->e;
	struct hash128 *hashes;
	int64_t *kinds;
	uint64_t id, keys = 0;

	*hash = HASH_NONE;
	if (!kv.count)
		return 0;
	hashes = arena_alloc_array(&e->arena, kv.count, sizeof(*hashes));
	kinds = arena_alloc_array(&e->arena, kv.count, sizeof(*kinds));
	assert(hashes && kinds);
	for (uint32_t i = 0; i < kv.count; i++) {
		hashes[i] = ident_key_value(x->n, &kv.ptr[i]);
		keys = add_key(keys, kv.ptr[i].key);
	}
	*hash = ident_bytes(KIND_ATTRSET, str_from(hashes, kv.count * sizeof(*hashes)));
	id = list_id(*hash, keys);
	if (is_known(e, KIND_ATTRSET, *hash))
		return id;
	begin_texts(e);
	for (uint32_t i = 0; i < kv.count; i++) {
		kinds[i] = kind_of(&kv.ptr[i].value) |
			   (kv.ptr[i].key_strindex.v ? KEY_BY_REFERENCE : 0);
		add_text(e, kv.ptr[i].key);
		add_value(e, &kv.ptr[i].value);
		add_text(e, (struct str){ 0 });
		buf_reset(&e->notes);
		put_attribute_notes(e, &kv.ptr[i].value);
	}
	buf_reset(&e->notes);
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, *hash, id, NULL, 0, kinds, kv.count });
	return id;
}

/* ---- code ---- */

/* memo.id: written or known today, as far as this request goes */

static uint64_t put_function(struct put *x, uint32_t index)
{
	const struct function *f = &x->p->dict.functions[index];
	struct hash128 hash = ident_function(x->n, index);
	struct memo *m = &x->n->functions[index];

	if (m->id || hash_is_none(hash))
		return ch_id(hash);
	m->id = 1;
	if (is_known(x->e, KIND_FUNCTION, hash))
		return ch_id(hash);
	begin_texts(x->e);
	add_text(x->e, x->p->dict.strings[f->name.v]);
	add_text(x->e, x->p->dict.strings[f->system_name.v]);
	add_text(x->e, x->p->dict.strings[f->filename.v]);
	ch_put_notes(x, MESSAGE_FUNCTION, index);
	add_entry(x->e, &(struct entry){ KIND_FUNCTION, hash, 0, NULL, 0, &f->start_line, 1 });
	return ch_id(hash);
}

static uint64_t put_mapping(struct put *x, uint32_t index)
{
	const struct mapping *m = &x->p->dict.mappings[index];
	struct hash128 hash = ident_mapping(x->n, index);
	int64_t numbers[3] = { (int64_t)m->memory_start, (int64_t)m->memory_limit,
			       (int64_t)m->file_offset };
	struct memo *memo = &x->n->mappings[index];
	uint64_t list;

	if (memo->id || hash_is_none(hash))
		return ch_id(hash);
	memo->id = 1;
	if (is_known(x->e, KIND_MAPPING, hash))
		return ch_id(hash);
	list = ch_put_list(x, m->attributes);
	begin_texts(x->e);
	add_text(x->e, x->p->dict.strings[m->filename.v]);
	add_text(x->e, mapping_build_id(x->p, m));
	ch_put_notes(x, MESSAGE_MAPPING, index);
	add_entry(x->e, &(struct entry){ KIND_MAPPING, hash, 0, &list, 1, numbers, 3 });
	return ch_id(hash);
}

/* refs: mapping, attributes, functions...; numbers: address, (line, column)...; texts: frame type
 */
static void add_location(struct put *x, uint32_t index, struct hash128 hash)
{
	const struct location *l = &x->p->dict.locations[index];
	const struct line *lines = x->p->dict.lines + l->lines.first;
	uint64_t *refs = arena_alloc_array(&x->e->arena, 2 + (size_t)l->lines.count, sizeof(*refs));
	int64_t *numbers =
		arena_alloc_array(&x->e->arena, 1 + (size_t)l->lines.count * 2, sizeof(*numbers));

	assert(refs && numbers);
	refs[0] = put_mapping(x, l->mapping.v);
	refs[1] = ch_put_list(x, l->attributes);
	numbers[0] = (int64_t)l->address;
	for (uint32_t i = 0; i < l->lines.count; i++) {
		refs[2 + i] = put_function(x, lines[i].function.v);
		numbers[1 + 2 * i] = lines[i].line;
		numbers[2 + 2 * i] = lines[i].column;
	}
	begin_texts(x->e);
	add_text(x->e, location_frame_type(x->p, l));
	ch_put_notes(x, MESSAGE_LOCATION, index);
	for (uint32_t i = 0; x->n->noted[MESSAGE_LINE] && i < l->lines.count; i++)
		notes_put(&x->e->notes, x->p, MESSAGE_LINE, l->lines.first + i, i);
	add_entry(x->e, &(struct entry){ KIND_LOCATION, hash, 0, refs, 2 + (size_t)l->lines.count,
					 numbers, 1 + (size_t)l->lines.count * 2 });
}

static uint64_t put_location(struct put *x, uint32_t index)
{
	struct hash128 hash = ident_location(x->n, index);
	struct memo *m = &x->n->locations[index];

	if (m->id || hash_is_none(hash))
		return ch_id(hash);
	m->id = 1;
	if (!is_known(x->e, KIND_LOCATION, hash))
		add_location(x, index, hash);
	return ch_id(hash);
}

/* What a stack's program is told by: the mapping of the third frame that the root called, as the
 * first ones are often libc's, or that frame itself. */
static uint64_t program_of(struct put *x, uint32_t index)
{
	struct range r = x->p->dict.stacks[index].locations;
	uint32_t from_root = r.count < 4 ? r.count : 4, location;
	struct hash128 mapping;

	if (!r.count)
		return 0;
	location = x->p->dict.stack_locations[r.first + r.count - from_root].v;
	mapping = ident_mapping(x->n, x->p->dict.locations[location].mapping.v);
	return ch_id(hash_is_none(mapping) ? ident_location(x->n, location) : mapping);
}

static uint64_t stack_id(struct put *x, uint32_t index, struct hash128 hash)
{
	return ch_id_beside(ch_id(hash), program_of(x, index));
}

/* Many stacks begin alike: the root's side is put as stems of CH_STEM locations, each of which is
 * an entry. */
static uint64_t put_stem(struct put *x, const uint64_t *locations, uint64_t beside)
{
	struct hash128 hash = ident_bytes((enum store_kind)CH_KIND_STEM,
					  str_from(locations, CH_STEM * sizeof(*locations)));

	if (is_known(x->e, CH_KIND_STEM, hash))
		return ch_id_beside(ch_id(hash), beside);
	begin_texts(x->e);
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ CH_KIND_STEM, hash, ch_id_beside(ch_id(hash), beside),
					 locations, CH_STEM, NULL, 0 });
	return ch_id_beside(ch_id(hash), beside);
}

/* refs: locations of the leaf's side, leaf first, then stems towards the root; numbers: depth,
 * stems */
static void add_stack(struct put *x, uint32_t index, struct hash128 hash)
{
	struct range r = x->p->dict.stacks[index].locations;
	const struct location_index *at = x->p->dict.stack_locations + r.first;
	uint32_t stems = r.count > CH_STEM ? (r.count - 1) / CH_STEM : 0,
		 leaf = r.count - stems * CH_STEM;
	uint64_t *refs = arena_alloc_array(&x->e->arena, r.count + 1, sizeof(*refs));
	int64_t numbers[2] = { r.count, stems };
	uint64_t program = program_of(x, index);

	assert(refs);
	for (uint32_t i = 0; i < r.count; i++)
		if (!x->n->locations[at[i].v].id)
			expect(x, KIND_LOCATION, ident_location(x->n, at[i].v));
	for (uint32_t i = 0; i < r.count; i++)
		refs[i] = put_location(x, at[i].v);
	for (uint32_t i = 0; i < stems; i++)
		refs[leaf + i] = put_stem(x, refs + leaf + (size_t)i * CH_STEM, program);
	begin_texts(x->e);
	ch_put_notes(x, MESSAGE_STACK, index);
	add_entry(x->e, &(struct entry){ KIND_STACK, hash, stack_id(x, index, hash), refs,
					 leaf + stems, numbers, 2 });
}

void ch_expect_stack(struct put *x, uint32_t index)
{
	if (!x->n->stacks[index].id)
		expect(x, KIND_STACK, ident_stack(x->n, index));
}

uint64_t ch_put_stack(struct put *x, uint32_t index)
{
	struct hash128 hash = ident_stack(x->n, index);
	struct memo *m = &x->n->stacks[index];

	if (hash_is_none(hash))
		return 0;
	if (m->id)
		return stack_id(x, index, hash);
	m->id = 1;
	if (!is_known(x->e, KIND_STACK, hash))
		add_stack(x, index, hash);
	return stack_id(x, index, hash);
}

uint64_t ch_put_link(struct put *x, uint32_t index)
{
	const struct link *l = &x->p->dict.links[index];
	struct hash128 hash = ident_link(x->n, index);
	struct memo *m = &x->n->links[index];

	if (m->id || hash_is_none(hash))
		return ch_id(hash);
	m->id = 1;
	if (is_known(x->e, KIND_LINK, hash))
		return ch_id(hash);
	begin_texts(x->e);
	add_text(x->e, str_from(l->trace_id, sizeof(l->trace_id)));
	add_text(x->e, str_from(l->span_id, sizeof(l->span_id)));
	ch_put_notes(x, MESSAGE_LINK, index);
	add_entry(x->e, &(struct entry){ KIND_LINK, hash, 0, NULL, 0, NULL, 0 });
	return ch_id(hash);
}

/* ---- resources, scopes, series ---- */

void ch_put_pair_notes(struct put *x, enum message_kind outer, enum message_kind inner,
		       uint32_t index)
{
	ch_put_notes(x, outer, index);
	if (x->n->noted[inner])
		notes_put(&x->e->notes, x->p, inner, index, 0);
}

/* As the SQLite writer's: fixed parts with the notes behind them; none when they say nothing. */
static struct hash128 hash_of_parts(struct put *x, enum store_kind kind,
				    const struct hash128 *parts, size_t count, uint64_t dropped)
{
	struct buf *b = &x->e->bytes;
	bool nothing = dropped == 0 && x->e->notes.len == 0;

	buf_reset(b);
	for (size_t i = 0; i < count; i++) {
		nothing &= hash_is_none(parts[i]);
		buf_append(b, &parts[i], sizeof(parts[i]));
	}
	buf_append(b, &dropped, sizeof(dropped));
	buf_str(b, buf_view(&x->e->notes));
	return nothing ? HASH_NONE : ident_bytes(kind, buf_view(b));
}

void ch_put_resource_entry(struct put *x, uint32_t index)
{
	const struct resource_profiles *r = &x->p->resources[index];
	struct hash128 parts[2] = { HASH_NONE, ident_text(r->schema_url) };
	int64_t dropped = r->dropped_attributes_count;
	uint64_t list = put_key_values(x, r->attributes, &parts[0]);

	ch_put_pair_notes(x, MESSAGE_RESOURCE_PROFILES, MESSAGE_RESOURCE, index);
	x->resource_hash = hash_of_parts(x, KIND_RESOURCE, parts, 2, r->dropped_attributes_count);
	if (hash_is_none(x->resource_hash) || is_known(x->e, KIND_RESOURCE, x->resource_hash))
		return;
	begin_texts(x->e);
	add_text(x->e, r->schema_url);
	add_entry(x->e,
		  &(struct entry){ KIND_RESOURCE, x->resource_hash, 0, &list, 1, &dropped, 1 });
}

void ch_put_scope_entry(struct put *x, uint32_t index)
{
	const struct scope_profiles *s = &x->p->scopes[index];
	struct hash128 parts[4] = { ident_text(s->name), ident_text(s->version), HASH_NONE,
				    ident_text(s->schema_url) };
	int64_t dropped = s->dropped_attributes_count;
	uint64_t list = put_key_values(x, s->attributes, &parts[2]);

	ch_put_pair_notes(x, MESSAGE_SCOPE_PROFILES, MESSAGE_SCOPE, index);
	x->scope_hash = hash_of_parts(x, KIND_SCOPE, parts, 4, s->dropped_attributes_count);
	if (hash_is_none(x->scope_hash) || is_known(x->e, KIND_SCOPE, x->scope_hash))
		return;
	begin_texts(x->e);
	add_text(x->e, s->name);
	add_text(x->e, s->version);
	add_text(x->e, s->schema_url);
	add_entry(x->e, &(struct entry){ KIND_SCOPE, x->scope_hash, 0, &list, 1, &dropped, 1 });
}

uint64_t ch_put_series(struct put *x, const struct attribute_index *lifted, uint32_t lifted_count)
{
	const struct profile *f = &x->p->profiles[x->profile];
	const struct str *strings = x->p->dict.strings;
	struct series_key key = { x->tenant, x->resource_hash, x->scope_hash,
				  f,         lifted,           lifted_count };
	struct hash128 hash = series_hash(x->n, &key);
	uint64_t refs[3];

	if (is_known(x->e, KIND_SERIES, hash))
		return ch_id(hash);
	refs[0] = ch_id(x->resource_hash);
	refs[1] = ch_id(x->scope_hash);
	refs[2] = put_refs(x, lifted, lifted_count);
	begin_texts(x->e);
	add_text(x->e, str_cstr(x->e->tenant));
	add_text(x->e, strings[f->sample_type.type.v]);
	add_text(x->e, strings[f->sample_type.unit.v]);
	add_text(x->e, strings[f->period_type.type.v]);
	add_text(x->e, strings[f->period_type.unit.v]);
	add_text(x->e, lifted_service(x->p, x->resource, lifted, lifted_count, &x->e->scratch));
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ KIND_SERIES, hash, 0, refs, 3, &f->period, 1 });
	return ch_id(hash);
}

/* ---- how far samples reach ---- */

/* Scans look back by it: powers of two, so that few entries say it. */
void ch_put_reach(struct put *x, uint64_t t0, uint64_t span)
{
	uint64_t bucket = t0 / STORE_BUCKET_NS, longest = 1;
	int64_t numbers[2];
	struct hash128 hash;

	if ((t0 + span) / STORE_BUCKET_NS == bucket)
		return;
	while (longest < span && longest < UINT64_C(1) << 62)
		longest *= 2;
	if (x->reach_bucket == bucket && x->reach_longest >= longest)
		return;
	x->reach_bucket = bucket;
	x->reach_longest = longest;
	numbers[0] = (int64_t)bucket;
	numbers[1] = (int64_t)longest;
	hash = ident_bytes((enum store_kind)CH_KIND_REACH, str_from(numbers, sizeof(numbers)));
	if (is_known(x->e, CH_KIND_REACH, hash))
		return;
	begin_texts(x->e);
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ CH_KIND_REACH, hash, 0, NULL, 0, numbers, 2 });
}
