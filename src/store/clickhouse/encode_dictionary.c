#include "store/clickhouse/encode_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { /* of an attribute's kind, as in SQLite's table */
       BY_REFERENCE = 128,
       KEY_BY_REFERENCE = 256,
};

/* ---- dictionary entries ---- */

/* What is known, is known of a day: that it was written then. */
static enum store_kind of_day(unsigned kind, uint32_t day)
{
	return (enum store_kind)(kind | day << 8);
}

/* Entries that have no number, but an id that says what they are. */
static bool is_known(struct ch_encoder *e, unsigned kind, struct hash128 hash)
{
	if (known_cached(&e->known, of_day(kind, e->today), hash))
		return true;
	known_cache(&e->known, of_day(kind, e->today), hash, 1);
	return false;
}

/* Its number, when it was written today; else 0. */
static uint32_t number_known(struct ch_encoder *e, unsigned kind, struct hash128 hash)
{
	return known_cached(&e->known, of_day(kind, e->today), hash);
}

static uint32_t number_new(struct ch_encoder *e, unsigned kind, uint64_t group)
{
	struct ch_page *p = &e->pages[ch_slot(kind)][group % CH_GROUPS];

	if (!p->number || p->used > UINT16_MAX) {
		assert(e->pages_used < UINT16_MAX);
		*p = (struct ch_page){ .number = (uint16_t)++e->pages_used };
	}
	return (uint32_t)p->number << 16 | p->used++;
}

/* Of an entry that is about to be written: the number that it had yesterday, or a new one. Those of
 * a group lie side by side. */
static uint32_t number_take(struct ch_encoder *e, unsigned kind, struct hash128 hash,
			    uint64_t group)
{
	uint32_t number = e->today > e->first_day
				  ? known_cached(&e->known, of_day(kind, e->today - 1), hash)
				  : 0;

	if (!number)
		number = number_new(e, kind, group);
	known_cache(&e->known, of_day(kind, e->today), hash, number);
	return number;
}

static uint64_t id_of(const struct ch_encoder *e, uint32_t number)
{
	return number ? (uint64_t)e->writer << 32 | number : 0;
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
	uint64_t id;
	const uint64_t *refs;
	size_t ref_count;
	const int64_t *numbers;
	size_t number_count;
};

/* The row, of several that the id has: with the texts and notes that were put before. */
static void add_entry_apart(struct ch_encoder *e, const struct entry *x, uint64_t hash_hi)
{
	struct buf *b = &e->dictionary;

	row_u8(b, (uint8_t)x->kind);
	ch_put_id(b, x->id);
	row_u64(b, hash_hi);
	row_u16(b, (uint16_t)e->today);
	ch_put_refs(b, x->refs, x->ref_count);
	row_count(b, x->number_count);
	buf_append(b, x->numbers, x->number_count * sizeof(*x->numbers));
	row_count(b, e->text_count);
	buf_str(b, buf_view(&e->texts));
	row_str(b, buf_view(&e->notes));
	e->dictionary_rows++;
}

static void add_entry(struct ch_encoder *e, const struct entry *x)
{
	add_entry_apart(e, x, 0);
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

/* texts: enum ch_list_text; numbers: kinds */
static uint64_t put_refs(struct put *x, const struct attribute_index *at, uint32_t count)
{
	struct ch_encoder *e = x->e;
	struct hash128 hash;
	uint32_t number;
	int64_t *kinds;
	uint64_t id, keys = 0;

	if (!count)
		return 0;
	hash = ident_refs(x->n, at, count);
	number = number_known(e, KIND_ATTRSET, hash);
	if (number)
		return id_of(e, number);
	for (uint32_t i = 0; i < count; i++)
		keys = add_key(keys, x->p->dict.strings[x->p->dict.attributes[at[i].v].key.v]);
	id = id_of(e, number_take(e, KIND_ATTRSET, hash, keys >> 32));
	kinds = arena_alloc_array(&e->arena, count, sizeof(*kinds));
	assert(kinds);
	begin_texts(e);
	for (uint32_t i = 0; i < count; i++) {
		const struct attribute *a = &x->p->dict.attributes[at[i].v];

		kinds[i] = kind_of(&a->value);
		add_text(e, x->p->dict.strings[a->key.v]);
		add_text(e, x->p->dict.strings[a->unit.v]);
		ch_put_notes(x, MESSAGE_ATTRIBUTE, at[i].v);
		put_attribute_notes(e, &a->value);
	}
	for (uint32_t i = 0; i < count; i++)
		add_value(e, &x->p->dict.attributes[at[i].v].value);
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, id, NULL, 0, kinds, count });
	return id;
}

uint64_t ch_put_list(struct put *x, struct range refs)
{
	return put_refs(x, x->p->attribute_refs + refs.first, refs.count);
}

/* A resource's or scope's attributes: no units, no notes but the value's. */
static uint64_t put_key_values(struct put *x, struct key_values kv, struct hash128 *hash)
{
	struct ch_encoder *e = x->e;
	struct hash128 *hashes;
	uint32_t number;
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
	number = number_known(e, KIND_ATTRSET, *hash);
	if (number)
		return id_of(e, number);
	id = id_of(e, number_take(e, KIND_ATTRSET, *hash, keys >> 32));
	begin_texts(e);
	for (uint32_t i = 0; i < kv.count; i++) {
		kinds[i] = kind_of(&kv.ptr[i].value) |
			   (kv.ptr[i].key_strindex.v ? KEY_BY_REFERENCE : 0);
		add_text(e, kv.ptr[i].key);
		add_text(e, (struct str){ 0 });
		buf_reset(&e->notes);
		put_attribute_notes(e, &kv.ptr[i].value);
	}
	for (uint32_t i = 0; i < kv.count; i++)
		add_value(e, &kv.ptr[i].value);
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, id, NULL, 0, kinds, kv.count });
	return id;
}

/* ---- code ---- */

/* memo.id: the number, once it is written or known today */

/* The number in a memo, if it is known today. */
static bool find_number(struct put *x, unsigned kind, struct memo *m)
{
	if (!m->id)
		m->id = number_known(x->e, kind, m->hash);
	return m->id != 0;
}

static uint64_t put_function(struct put *x, uint32_t index, uint64_t group)
{
	const struct function *f = &x->p->dict.functions[index];
	struct hash128 hash = ident_function(x->n, index);
	struct memo *m = &x->n->functions[index];

	if (hash_is_none(hash) || find_number(x, KIND_FUNCTION, m))
		return id_of(x->e, m->id);
	m->id = number_take(x->e, KIND_FUNCTION, hash, group);
	begin_texts(x->e);
	add_text(x->e, x->p->dict.strings[f->name.v]);
	add_text(x->e, x->p->dict.strings[f->system_name.v]);
	add_text(x->e, x->p->dict.strings[f->filename.v]);
	ch_put_notes(x, MESSAGE_FUNCTION, index);
	add_entry(x->e,
		  &(struct entry){ KIND_FUNCTION, id_of(x->e, m->id), NULL, 0, &f->start_line, 1 });
	return id_of(x->e, m->id);
}

static uint64_t put_mapping(struct put *x, uint32_t index)
{
	const struct mapping *m = &x->p->dict.mappings[index];
	struct hash128 hash = ident_mapping(x->n, index);
	int64_t numbers[3] = { (int64_t)m->memory_start, (int64_t)m->memory_limit,
			       (int64_t)m->file_offset };
	struct memo *memo = &x->n->mappings[index];
	uint64_t list;

	if (hash_is_none(hash) || find_number(x, KIND_MAPPING, memo))
		return id_of(x->e, memo->id);
	memo->id = number_take(x->e, KIND_MAPPING, hash, 0);
	list = ch_put_list(x, m->attributes);
	begin_texts(x->e);
	add_text(x->e, x->p->dict.strings[m->filename.v]);
	add_text(x->e, mapping_build_id(x->p, m));
	ch_put_notes(x, MESSAGE_MAPPING, index);
	add_entry(x->e,
		  &(struct entry){ KIND_MAPPING, id_of(x->e, memo->id), &list, 1, numbers, 3 });
	return id_of(x->e, memo->id);
}

/* refs: mapping, attributes, functions...; numbers: address, (line, column)...; texts: frame type
 */
static void add_location(struct put *x, uint32_t index, uint64_t id)
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
		refs[2 + i] =
			put_function(x, lines[i].function.v, ident_mapping(x->n, l->mapping.v).lo);
		numbers[1 + 2 * i] = lines[i].line;
		numbers[2 + 2 * i] = lines[i].column;
	}
	begin_texts(x->e);
	add_text(x->e, location_frame_type(x->p, l));
	ch_put_notes(x, MESSAGE_LOCATION, index);
	for (uint32_t i = 0; x->n->noted[MESSAGE_LINE] && i < l->lines.count; i++)
		notes_put(&x->e->notes, x->p, MESSAGE_LINE, l->lines.first + i, i);
	add_entry(x->e, &(struct entry){ KIND_LOCATION, id, refs, 2 + (size_t)l->lines.count,
					 numbers, 1 + (size_t)l->lines.count * 2 });
}

static uint64_t put_location(struct put *x, uint32_t index)
{
	struct hash128 hash = ident_location(x->n, index);
	struct memo *m = &x->n->locations[index];

	if (hash_is_none(hash) || find_number(x, KIND_LOCATION, m))
		return id_of(x->e, m->id);
	m->id = number_take(x->e, KIND_LOCATION, hash,
			    ident_mapping(x->n, x->p->dict.locations[index].mapping.v).lo);
	add_location(x, index, id_of(x->e, m->id));
	return id_of(x->e, m->id);
}

/* What identifies a stack's program: the mapping of the third frame that the root called, as the
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
	return hash_is_none(mapping) ? ident_location(x->n, location).lo : mapping.lo;
}

/* Many stacks begin alike: the root's side is put as stems of CH_STEM locations, each of which is
 * an entry. */
static uint64_t put_stem(struct put *x, const uint64_t *locations, uint64_t program)
{
	struct hash128 hash = ident_bytes((enum store_kind)CH_KIND_STEM,
					  str_from(locations, CH_STEM * sizeof(*locations)));
	uint32_t number = number_known(x->e, CH_KIND_STEM, hash);

	if (number)
		return id_of(x->e, number);
	number = number_take(x->e, CH_KIND_STEM, hash, program);
	begin_texts(x->e);
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ CH_KIND_STEM, id_of(x->e, number), locations, CH_STEM,
					 NULL, 0 });
	return id_of(x->e, number);
}

/* refs: locations of the leaf's side, leaf first, then stems towards the root; numbers: depth,
 * stems */
static void add_stack(struct put *x, uint32_t index, uint64_t id, uint64_t program)
{
	struct range r = x->p->dict.stacks[index].locations;
	const struct location_index *at = x->p->dict.stack_locations + r.first;
	uint32_t stems = r.count > CH_STEM ? (r.count - 1) / CH_STEM : 0,
		 leaf = r.count - stems * CH_STEM;
	uint64_t *refs = arena_alloc_array(&x->e->arena, r.count + 1, sizeof(*refs));
	int64_t numbers[2] = { r.count, stems };

	assert(refs);
	for (uint32_t i = 0; i < r.count; i++)
		refs[i] = put_location(x, at[i].v);
	for (uint32_t i = 0; i < stems; i++)
		refs[leaf + i] = put_stem(x, refs + leaf + (size_t)i * CH_STEM, program);
	begin_texts(x->e);
	ch_put_notes(x, MESSAGE_STACK, index);
	add_entry(x->e, &(struct entry){ KIND_STACK, id, refs, leaf + stems, numbers, 2 });
}

uint64_t ch_put_stack(struct put *x, uint32_t index)
{
	struct hash128 hash = ident_stack(x->n, index);
	struct memo *m = &x->n->stacks[index];
	uint64_t program;

	if (hash_is_none(hash) || find_number(x, KIND_STACK, m))
		return id_of(x->e, m->id);
	program = program_of(x, index);
	m->id = number_take(x->e, KIND_STACK, hash, program);
	add_stack(x, index, id_of(x->e, m->id), program);
	return id_of(x->e, m->id);
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
	add_entry(x->e, &(struct entry){ KIND_LINK, ch_id(hash), NULL, 0, NULL, 0 });
	return ch_id(hash);
}

/* ---- resources, scopes, series ---- */

/* Its id; true: the entry has to be written. */
static bool begin_entry(struct put *x, unsigned kind, struct hash128 hash, uint64_t *id)
{
	uint32_t number = hash_is_none(hash) ? 0 : number_known(x->e, kind, hash);
	bool fresh = !number && !hash_is_none(hash);

	if (fresh)
		number = number_take(x->e, kind, hash, 0);
	*id = id_of(x->e, number);
	return fresh;
}

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
	if (!begin_entry(x, KIND_RESOURCE, x->resource_hash, &x->resource_id))
		return;
	begin_texts(x->e);
	add_text(x->e, r->schema_url);
	add_entry(x->e, &(struct entry){ KIND_RESOURCE, x->resource_id, &list, 1, &dropped, 1 });
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
	if (!begin_entry(x, KIND_SCOPE, x->scope_hash, &x->scope_id))
		return;
	begin_texts(x->e);
	add_text(x->e, s->name);
	add_text(x->e, s->version);
	add_text(x->e, s->schema_url);
	add_entry(x->e, &(struct entry){ KIND_SCOPE, x->scope_id, &list, 1, &dropped, 1 });
}

/* Where samples of a service are: their series lie on such a page of numbers. */
static void put_page(struct put *x, struct str service, uint64_t service_id, uint64_t page)
{
	struct ch_encoder *e = x->e;
	struct hash128 hash;

	buf_reset(&e->bytes);
	buf_append(&e->bytes, &page, sizeof(page));
	buf_append(&e->bytes, &service_id, sizeof(service_id));
	hash = ident_bytes((enum store_kind)CH_KIND_PAGE, buf_view(&e->bytes));
	if (is_known(e, CH_KIND_PAGE, hash))
		return;
	begin_texts(e);
	add_text(e, service);
	buf_reset(&e->notes);
	add_entry_apart(e, &(struct entry){ .kind = CH_KIND_PAGE, .id = service_id }, page);
}

uint64_t ch_put_series(struct put *x, const struct attribute_index *lifted, uint32_t lifted_count)
{
	const struct profile *f = &x->p->profiles[x->profile];
	const struct str *strings = x->p->dict.strings;
	struct series_key key = { x->tenant, x->resource_hash, x->scope_hash,
				  f,         lifted,           lifted_count };
	struct hash128 hash = series_hash(x->n, &key);
	uint32_t number = number_known(x->e, KIND_SERIES, hash);
	uint64_t refs[3], id, service_id;
	struct str service;
	int64_t numbers[2];

	if (number)
		return id_of(x->e, number);
	service = str_dup(&x->e->arena,
			  lifted_service(x->p, x->resource, lifted, lifted_count, &x->e->scratch));
	service_id = ch_service_id(service);
	id = id_of(x->e, number_take(x->e, KIND_SERIES, hash, service_id));
	refs[0] = x->resource_id;
	refs[1] = x->scope_id;
	refs[2] = put_refs(x, lifted, lifted_count);
	begin_texts(x->e);
	add_text(x->e, str_cstr(x->e->tenant));
	add_text(x->e, strings[f->sample_type.type.v]);
	add_text(x->e, strings[f->sample_type.unit.v]);
	add_text(x->e, strings[f->period_type.type.v]);
	add_text(x->e, strings[f->period_type.unit.v]);
	add_text(x->e, service);
	buf_reset(&x->e->notes);
	numbers[0] = f->period;
	numbers[1] = (int64_t)lifted_process(x->p, x->resource, lifted, lifted_count);
	add_entry(x->e, &(struct entry){ KIND_SERIES, id, refs, 3, numbers, 2 });
	put_page(x, service, service_id, ch_page_of(id));
	return id;
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
	add_entry(x->e, &(struct entry){ CH_KIND_REACH, ch_id(hash), NULL, 0, numbers, 2 });
}

/* ---- keys ---- */

enum { KEYS_MOST = 64 }; /* of one message; which are not told apart, are looked up */

static void put_key(struct put *x, struct str key)
{
	struct hash128 hash = ident_bytes((enum store_kind)CH_KIND_KEY, key);

	if (!key.len || is_known(x->e, CH_KIND_KEY, hash))
		return;
	begin_texts(x->e);
	add_text(x->e, key);
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ CH_KIND_KEY, ch_id(hash), NULL, 0, NULL, 0 });
}

/* What a sample says of itself wins over its resource: a question that matches on other keys is
 * decided series by series. */
void ch_put_keys(struct put *x)
{
	const struct profiles *p = x->p;
	uint32_t seen[KEYS_MOST], count = 0;

	for (uint32_t i = 0; i < p->dict.attribute_count; i++) {
		uint32_t key = p->dict.attributes[i].key.v, k = 0;

		if (!lifted_is_own(&x->lifted, i))
			continue;
		while (k < count && seen[k] != key)
			k++;
		if (k < count)
			continue;
		if (count < KEYS_MOST)
			seen[count++] = key;
		put_key(x, p->dict.strings[key]);
	}
	for (uint32_t i = 0; i < p->profile_count; i++) {
		struct range r = p->profiles[i].attributes;

		for (uint32_t n = 0; n < r.count; n++) {
			uint32_t at = p->attribute_refs[r.first + n].v;

			put_key(x, p->dict.strings[p->dict.attributes[at].key.v]);
		}
	}
}
