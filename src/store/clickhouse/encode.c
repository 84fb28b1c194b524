#include "store/clickhouse/encode.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "store/clickhouse/rowbinary.h"
#include "store/clickhouse/schema.h"
#include "store/lifted.h"
#include "store/schema.h"

enum {
	KNOWN_BYTES = 8 << 20,
	BY_REFERENCE = 128, /* of an attribute's kind, as in SQLite's table */
	KEY_BY_REFERENCE = 256,
	/* Bases of several exporters are kept apart: each takes its own out of SLOTS slices of time
	   in turn. */
	SLOTS = 256,
	SLICE_BITS = 16, /* ns; a request of so many rows fits into one */
};

const char ch_insert_dictionary[] = "INSERT INTO flametap_dictionary (kind, id, hash_hi, seen, "
				    "refs, numbers, texts, notes) FORMAT RowBinary";
const char ch_insert_links[] = "INSERT INTO flametap_links (date, trace_id, span_id, link, "
			       "service, t0, t1) FORMAT RowBinary";
const char ch_insert_samples[] = "INSERT INTO flametap_samples (date, request, base, place, t0, "
				 "span, series, stack, attributes, link, value, "
				 "shape, `values`, times) FORMAT RowBinary";
const char ch_insert_requests[] = "INSERT INTO flametap_requests (date, seq, last_seq, request, "
				  "hash, arrived, t_first, t_last, samples, version, "
				  "unknown_fields, moved, layout, notes, note_seq, note, "
				  "`profile.seq`, `profile.samples`, `profile.time`, "
				  "`profile.duration`, `profile.first`, `profile.last`, "
				  "`profile.series`, `profile.attributes`, `profile.dropped`, "
				  "`profile.uid`, `profile.payload_format`, `profile.payload`, "
				  "`coverage.host`, `coverage.t0`, `coverage.t1`, "
				  "`coverage.reason`, `coverage.n`) FORMAT RowBinary";

/* An array that grows in the arena, in RowBinary: count and bytes apart. */
struct column {
	struct buf bytes;
	uint32_t count;
};

enum { /* arrays of a request's row, in its order */
       LAYOUT,
       NOTE_SEQ,
       NOTE,
       PROFILE_SEQ,
       PROFILE_SAMPLES,
       PROFILE_TIME,
       PROFILE_DURATION,
       PROFILE_FIRST,
       PROFILE_LAST,
       PROFILE_SERIES,
       PROFILE_ATTRIBUTES,
       PROFILE_DROPPED,
       PROFILE_UID,
       PROFILE_PAYLOAD_FORMAT,
       PROFILE_PAYLOAD,
       COVERAGE_HOST,
       COVERAGE_T0,
       COVERAGE_T1,
       COVERAGE_REASON,
       COVERAGE_N,
       COLUMNS,
};

struct put {
	struct ch_encoder *e;
	const struct ch_request *r;
	const struct profiles *p;
	struct ident *n;
	struct lifted lifted;
	struct hash128 tenant;
	uint16_t day;
	uint64_t request, base, next; /* next: place in the request */
	size_t have_at;
	uint64_t first, last, samples;
	struct column columns[COLUMNS];
	struct link_span *link_spans; /* by link of the message */

	const struct resource_profiles *resource;
	struct hash128 resource_hash, scope_hash;
	uint64_t series;
	uint32_t profile;
	uint64_t reach_bucket, reach_longest; /* the newest that was written */
};

struct link_span {
	uint64_t t0, t1;
	bool used;
	struct str service;
};

uint16_t ch_day(uint64_t unix_ns)
{
	uint64_t day = unix_ns / (86400 * SECOND_NS);

	return day > UINT16_MAX ? UINT16_MAX : (uint16_t)day;
}

/* ---- dictionary entries ---- */

static bool is_known(struct ch_encoder *e, unsigned kind, struct hash128 hash)
{
	if (known_find(&e->known, (enum store_kind)kind, hash) == e->today)
		return true;
	known_cache(&e->known, (enum store_kind)kind, hash, e->today);
	return false;
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
	row_u64(b, ch_id(x->hash));
	row_u64(b, x->hash.lo ? x->hash.hi : 0);
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

static void put_notes(struct put *x, enum message_kind message, uint32_t index)
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
	return (int64_t)v->kind | (v->kind == ANY_STRING && v->strindex.v ? BY_REFERENCE : 0);
}

/* texts: key, value, unit, notes of each; numbers: kinds */
static uint64_t put_refs(struct put *x, const struct attribute_index *at, uint32_t count)
{
	struct ch_encoder *e = x->e;
	struct hash128 hash;
	int64_t *kinds;

	if (!count)
		return 0;
	hash = ident_refs(x->n, at, count);
	if (is_known(e, KIND_ATTRSET, hash))
		return ch_id(hash);
	kinds = arena_alloc_array(&e->arena, count, sizeof(*kinds));
	assert(kinds);
	begin_texts(e);
	for (uint32_t i = 0; i < count; i++) {
		const struct attribute *a = &x->p->dict.attributes[at[i].v];

		kinds[i] = kind_of(&a->value);
		add_text(e, x->p->dict.strings[a->key.v]);
		add_value(e, &a->value);
		add_text(e, x->p->dict.strings[a->unit.v]);
		put_notes(x, MESSAGE_ATTRIBUTE, at[i].v);
		add_text(e, buf_view(&e->notes));
	}
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, hash, NULL, 0, kinds, count });
	return ch_id(hash);
}

static uint64_t put_list(struct put *x, struct range refs)
{
	return put_refs(x, x->p->attribute_refs + refs.first, refs.count);
}

/* A resource's or scope's attributes: no units, no notes. */
static uint64_t put_key_values(struct put *x, struct key_values kv, struct hash128 *hash)
{
	struct ch_encoder *e = x->e;
	struct hash128 *hashes;
	int64_t *kinds;

	*hash = HASH_NONE;
	if (!kv.count)
		return 0;
	hashes = arena_alloc_array(&e->arena, kv.count, sizeof(*hashes));
	kinds = arena_alloc_array(&e->arena, kv.count, sizeof(*kinds));
	assert(hashes && kinds);
	for (uint32_t i = 0; i < kv.count; i++)
		hashes[i] = ident_key_value(x->n, &kv.ptr[i]);
	*hash = ident_bytes(KIND_ATTRSET, str_from(hashes, kv.count * sizeof(*hashes)));
	if (is_known(e, KIND_ATTRSET, *hash))
		return ch_id(*hash);
	begin_texts(e);
	for (uint32_t i = 0; i < kv.count; i++) {
		kinds[i] = kind_of(&kv.ptr[i].value) |
			   (kv.ptr[i].key_strindex.v ? KEY_BY_REFERENCE : 0);
		add_text(e, kv.ptr[i].key);
		add_value(e, &kv.ptr[i].value);
		add_text(e, (struct str){ 0 });
		add_text(e, (struct str){ 0 });
	}
	buf_reset(&e->notes);
	add_entry(e, &(struct entry){ KIND_ATTRSET, *hash, NULL, 0, kinds, kv.count });
	return ch_id(*hash);
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
	put_notes(x, MESSAGE_FUNCTION, index);
	add_entry(x->e, &(struct entry){ KIND_FUNCTION, hash, NULL, 0, &f->start_line, 1 });
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
	list = put_list(x, m->attributes);
	begin_texts(x->e);
	add_text(x->e, x->p->dict.strings[m->filename.v]);
	add_text(x->e, mapping_build_id(x->p, m));
	put_notes(x, MESSAGE_MAPPING, index);
	add_entry(x->e, &(struct entry){ KIND_MAPPING, hash, &list, 1, numbers, 3 });
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
	refs[1] = put_list(x, l->attributes);
	numbers[0] = (int64_t)l->address;
	for (uint32_t i = 0; i < l->lines.count; i++) {
		refs[2 + i] = put_function(x, lines[i].function.v);
		numbers[1 + 2 * i] = lines[i].line;
		numbers[2 + 2 * i] = lines[i].column;
	}
	begin_texts(x->e);
	add_text(x->e, location_frame_type(x->p, l));
	put_notes(x, MESSAGE_LOCATION, index);
	for (uint32_t i = 0; x->n->noted[MESSAGE_LINE] && i < l->lines.count; i++)
		notes_put(&x->e->notes, x->p, MESSAGE_LINE, l->lines.first + i, i);
	add_entry(x->e, &(struct entry){ KIND_LOCATION, hash, refs, 2 + (size_t)l->lines.count,
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

/* Many stacks begin alike: the root's side is put as stems of CH_STEM locations, each of which is
 * an entry. */
static uint64_t put_stem(struct put *x, const uint64_t *locations)
{
	struct hash128 hash = ident_bytes((enum store_kind)CH_KIND_STEM,
					  str_from(locations, CH_STEM * sizeof(*locations)));

	if (is_known(x->e, CH_KIND_STEM, hash))
		return ch_id(hash);
	begin_texts(x->e);
	buf_reset(&x->e->notes);
	add_entry(x->e, &(struct entry){ CH_KIND_STEM, hash, locations, CH_STEM, NULL, 0 });
	return ch_id(hash);
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

	assert(refs);
	for (uint32_t i = 0; i < r.count; i++)
		refs[i] = put_location(x, at[i].v);
	for (uint32_t i = 0; i < stems; i++)
		refs[leaf + i] = put_stem(x, refs + leaf + (size_t)i * CH_STEM);
	begin_texts(x->e);
	put_notes(x, MESSAGE_STACK, index);
	add_entry(x->e, &(struct entry){ KIND_STACK, hash, refs, leaf + stems, numbers, 2 });
}

static uint64_t put_stack(struct put *x, uint32_t index)
{
	struct hash128 hash = ident_stack(x->n, index);
	struct memo *m = &x->n->stacks[index];

	if (m->id || hash_is_none(hash))
		return ch_id(hash);
	m->id = 1;
	if (!is_known(x->e, KIND_STACK, hash))
		add_stack(x, index, hash);
	return ch_id(hash);
}

static uint64_t put_link(struct put *x, uint32_t index)
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
	put_notes(x, MESSAGE_LINK, index);
	add_entry(x->e, &(struct entry){ KIND_LINK, hash, NULL, 0, NULL, 0 });
	return ch_id(hash);
}

/* ---- resources, scopes, series ---- */

static void put_pair_notes(struct put *x, enum message_kind outer, enum message_kind inner,
			   uint32_t index)
{
	put_notes(x, outer, index);
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

static void put_resource_entry(struct put *x, uint32_t index)
{
	const struct resource_profiles *r = &x->p->resources[index];
	struct hash128 parts[2] = { HASH_NONE, ident_text(r->schema_url) };
	int64_t dropped = r->dropped_attributes_count;
	uint64_t list = put_key_values(x, r->attributes, &parts[0]);

	put_pair_notes(x, MESSAGE_RESOURCE_PROFILES, MESSAGE_RESOURCE, index);
	x->resource_hash = hash_of_parts(x, KIND_RESOURCE, parts, 2, r->dropped_attributes_count);
	if (hash_is_none(x->resource_hash) || is_known(x->e, KIND_RESOURCE, x->resource_hash))
		return;
	begin_texts(x->e);
	add_text(x->e, r->schema_url);
	add_entry(x->e, &(struct entry){ KIND_RESOURCE, x->resource_hash, &list, 1, &dropped, 1 });
}

static void put_scope_entry(struct put *x, uint32_t index)
{
	const struct scope_profiles *s = &x->p->scopes[index];
	struct hash128 parts[4] = { ident_text(s->name), ident_text(s->version), HASH_NONE,
				    ident_text(s->schema_url) };
	int64_t dropped = s->dropped_attributes_count;
	uint64_t list = put_key_values(x, s->attributes, &parts[2]);

	put_pair_notes(x, MESSAGE_SCOPE_PROFILES, MESSAGE_SCOPE, index);
	x->scope_hash = hash_of_parts(x, KIND_SCOPE, parts, 4, s->dropped_attributes_count);
	if (hash_is_none(x->scope_hash) || is_known(x->e, KIND_SCOPE, x->scope_hash))
		return;
	begin_texts(x->e);
	add_text(x->e, s->name);
	add_text(x->e, s->version);
	add_text(x->e, s->schema_url);
	add_entry(x->e, &(struct entry){ KIND_SCOPE, x->scope_hash, &list, 1, &dropped, 1 });
}

static uint64_t put_series(struct put *x, const struct attribute_index *lifted,
			   uint32_t lifted_count)
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
	add_entry(x->e, &(struct entry){ KIND_SERIES, hash, refs, 3, &f->period, 1 });
	return ch_id(hash);
}

/* ---- samples ---- */

/* Scans look back by it: powers of two, so that few entries say it. */
static void put_reach(struct put *x, uint64_t t0, uint64_t span)
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
	add_entry(x->e, &(struct entry){ CH_KIND_REACH, hash, NULL, 0, numbers, 2 });
}

static enum ch_shape shape_of(const struct put *x, const struct sample *s, int64_t total)
{
	bool silent = s->values.count == 0 && total == 1;
	bool valued = s->values.count == 1 && x->p->values[s->values.first] == total;

	if ((!silent && !valued) || s->timestamps.count > 1)
		return CH_LISTS;
	if (s->timestamps.count)
		return silent ? CH_ONE_TIME : CH_ONE_TIME_VALUE;
	return silent ? CH_NO_TIME : CH_NO_TIME_VALUE;
}

static void note_link(struct put *x, const struct sample *s, uint64_t t0, uint64_t t1)
{
	struct link_span *l = &x->link_spans[s->link.v];

	if (!l->used || t0 < l->t0)
		l->t0 = t0;
	if (!l->used || t1 > l->t1)
		l->t1 = t1;
	if (!l->used)
		l->service = str_dup(&x->e->arena,
				     lifted_service(x->p, x->resource, NULL, 0, &x->e->scratch));
	l->used = true;
}

static bool is_there(struct put *x, uint64_t place)
{
	const struct ch_request *r = x->r;

	while (x->have_at < r->have_count && r->have[x->have_at] < place)
		x->have_at++;
	return x->have_at < r->have_count && r->have[x->have_at] == place;
}

static void note_cut(struct ch_encoder *e)
{
	if (!e->sample_rows || e->sample_rows % CH_PART_ROWS)
		return;
	if (e->cut_count == e->cut_cap) {
		e->cut_cap = e->cut_cap ? e->cut_cap * 2 : 16;
		e->cuts = realloc(e->cuts, e->cut_cap * sizeof(*e->cuts));
		assert(e->cuts);
	}
	e->cuts[e->cut_count++] = e->samples.len;
}

struct sample_ids {
	uint64_t t0, t1, series, stack, attributes, link;
};

static void add_sample(struct put *x, const struct sample *s, uint64_t place,
		       const struct sample_ids *i)
{
	int64_t total = sample_total(x->p, &x->p->profiles[x->profile], s).value;
	enum ch_shape shape = shape_of(x, s, total);
	struct buf *b = &x->e->samples;

	note_cut(x->e);
	row_u16(b, x->day);
	row_u64(b, x->request);
	row_u64(b, x->base);
	row_u32(b, (uint32_t)place);
	row_u64(b, i->t0);
	row_u64(b, i->t1 - i->t0);
	row_u64(b, i->series);
	row_u64(b, i->stack);
	row_u64(b, i->attributes);
	row_u64(b, i->link);
	row_u64(b, (uint64_t)total);
	row_u8(b, (uint8_t)shape);
	if (shape == CH_LISTS) {
		row_count(b, s->values.count);
		buf_append(b, x->p->values + s->values.first,
			   s->values.count * sizeof(*x->p->values));
		row_count(b, s->timestamps.count);
		buf_append(b, x->p->timestamps + s->timestamps.first,
			   s->timestamps.count * sizeof(*x->p->timestamps));
	} else {
		row_count(b, 0);
		row_count(b, 0);
	}
	x->e->sample_rows++;
}

static void column_u64(struct put *x, unsigned column, uint64_t v)
{
	row_u64(&x->columns[column].bytes, v);
	x->columns[column].count++;
}

static void column_u32(struct put *x, unsigned column, uint32_t v)
{
	row_u32(&x->columns[column].bytes, v);
	x->columns[column].count++;
}

static void column_str(struct put *x, unsigned column, struct str s)
{
	row_str(&x->columns[column].bytes, s);
	x->columns[column].count++;
}

static void note_of(struct put *x, enum message_kind message, uint32_t index, uint64_t place)
{
	put_notes(x, message, index);
	if (!x->e->notes.len)
		return;
	column_u64(x, NOTE_SEQ, x->base + place);
	column_str(x, NOTE, buf_view(&x->e->notes));
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void column_series(struct put *x, uint64_t *ids, uint32_t count)
{
	uint32_t kept = 0;

	qsort(ids, count, sizeof(*ids), by_number);
	for (uint32_t i = 0; i < count; i++)
		if (!i || ids[i] != ids[i - 1])
			ids[kept++] = ids[i];
	row_count(&x->columns[PROFILE_SERIES].bytes, kept);
	buf_append(&x->columns[PROFILE_SERIES].bytes, ids, kept * sizeof(*ids));
	x->columns[PROFILE_SERIES].count++;
}

static uint64_t put_sample(struct put *x, uint32_t index, uint64_t place, uint64_t *t0)
{
	const struct sample *s = &x->p->samples[index];
	uint32_t lifted = lifted_of(&x->lifted, x->resource, s, &x->e->arena);
	struct sample_ids i = { 0 };

	sample_times(x->p, &x->p->profiles[x->profile], s, &i.t0, &i.t1);
	i.series = lifted ? put_series(x, x->lifted.at, lifted) : x->series;
	i.stack = put_stack(x, s->stack.v);
	i.attributes = put_list(x, s->attributes);
	i.link = s->link.v ? put_link(x, s->link.v) : 0;
	if (i.link)
		note_link(x, s, i.t0, i.t1);
	put_reach(x, i.t0, i.t1 - i.t0);
	note_of(x, MESSAGE_SAMPLE, index, place);
	if (!is_there(x, place))
		add_sample(x, s, place, &i);
	x->first = i.t0 < x->first ? i.t0 : x->first;
	x->last = i.t1 > x->last ? i.t1 : x->last;
	x->samples++;
	*t0 = i.t0;
	return i.series;
}

/* ---- profiles ---- */

static void put_report(struct put *x, const struct profile *f)
{
	for (uint32_t i = 0; i < f->attributes.count; i++) {
		uint32_t attribute = x->p->attribute_refs[f->attributes.first + i].v;
		struct str reason;
		int64_t n;

		if (!report_of(x->p, &x->p->dict.attributes[attribute], &reason, &n))
			continue;
		column_str(x, COVERAGE_HOST, report_host(x->resource));
		column_u64(x, COVERAGE_T0, f->time_unix_nano);
		column_u64(x, COVERAGE_T1, f->time_unix_nano + f->duration_nano);
		column_str(x, COVERAGE_REASON, reason);
		column_u64(x, COVERAGE_N, (uint64_t)n);
	}
}

static void put_profile(struct put *x, uint32_t index)
{
	const struct profile *f = &x->p->profiles[index];
	uint64_t *series =
		arena_alloc_array(&x->e->arena, (size_t)f->samples.count + 1, sizeof(*series));
	uint64_t place = x->next, first = UINT64_MAX, last = 0;

	assert(series);
	x->profile = index;
	x->next += 1 + (uint64_t)f->samples.count;
	x->series = series[0] = put_series(x, NULL, 0);
	note_of(x, MESSAGE_PROFILE, index, place);
	for (uint32_t i = 0; i < f->samples.count; i++) {
		uint64_t t0;

		series[i] = put_sample(x, f->samples.first + i, place + 1 + i, &t0);
		first = t0 < first ? t0 : first;
		last = t0 > last ? t0 : last;
	}
	column_u64(x, PROFILE_SEQ, x->base + place);
	column_u32(x, PROFILE_SAMPLES, f->samples.count);
	column_u64(x, PROFILE_TIME, f->time_unix_nano);
	column_u64(x, PROFILE_DURATION, f->duration_nano);
	column_u64(x, PROFILE_FIRST, f->samples.count ? first : f->time_unix_nano);
	column_u64(x, PROFILE_LAST, f->samples.count ? last : f->time_unix_nano);
	column_series(x, series, f->samples.count ? f->samples.count : 1);
	column_u64(x, PROFILE_ATTRIBUTES, put_list(x, f->attributes));
	column_u32(x, PROFILE_DROPPED, f->dropped_attributes_count);
	buf_append(&x->columns[PROFILE_UID].bytes, f->profile_id, sizeof(f->profile_id));
	x->columns[PROFILE_UID].count++;
	column_str(x, PROFILE_PAYLOAD_FORMAT, f->original_payload_format);
	column_str(x, PROFILE_PAYLOAD, f->original_payload);
	put_report(x, f);
}

/* ---- the request ---- */

static uint32_t kept_profiles(const struct profiles *p, struct range profiles)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < profiles.count; i++)
		kept += !p->profiles[profiles.first + i].refused;
	return kept;
}

/* layout: resources; each: id, scopes; each: id, profiles */
static void put_scope(struct put *x, uint32_t index)
{
	struct range profiles = x->p->scopes[index].profiles;

	put_scope_entry(x, index);
	column_u64(x, LAYOUT, ch_id(x->scope_hash));
	column_u64(x, LAYOUT, kept_profiles(x->p, profiles));
	for (uint32_t i = 0; i < profiles.count; i++)
		if (!x->p->profiles[profiles.first + i].refused)
			put_profile(x, profiles.first + i);
}

static void put_resource(struct put *x, uint32_t index)
{
	struct range scopes = x->p->resources[index].scopes;

	x->resource = &x->p->resources[index];
	put_resource_entry(x, index);
	column_u64(x, LAYOUT, ch_id(x->resource_hash));
	column_u64(x, LAYOUT, scopes.count);
	for (uint32_t i = 0; i < scopes.count; i++)
		put_scope(x, scopes.first + i);
}

static void add_request(struct put *x)
{
	struct buf *b = &x->e->requests;

	row_u16(b, x->day);
	row_u64(b, x->base);
	row_u64(b, x->base + x->next - 1);
	row_u64(b, x->request);
	buf_append(b, &x->r->hash, sizeof(x->r->hash));
	row_u64(b, x->r->arrived_unix_ns);
	row_u64(b, x->samples ? x->first : 0);
	row_u64(b, x->samples ? x->last : 0);
	row_u64(b, x->samples);
	row_u8(b, x->p->source_version);
	row_u32(b, x->p->unknown_field_count);
	row_u8(b, x->p->moved_entries);
	row_count(b, x->columns[LAYOUT].count);
	buf_str(b, buf_view(&x->columns[LAYOUT].bytes));
	put_notes(x, MESSAGE_REQUEST, 0);
	if (x->n->noted[MESSAGE_DICTIONARY])
		notes_put(&x->e->notes, x->p, MESSAGE_DICTIONARY, 0, 0);
	row_str(b, buf_view(&x->e->notes));
	for (unsigned i = NOTE_SEQ; i < COLUMNS; i++) {
		row_count(b, x->columns[i].count);
		buf_str(b, buf_view(&x->columns[i].bytes));
	}
	x->e->request_rows++;
}

static void add_links(struct put *x)
{
	struct buf *b = &x->e->links;

	for (uint32_t i = 1; i < x->p->dict.link_count; i++) {
		const struct link *l = &x->p->dict.links[i];
		const struct link_span *s = &x->link_spans[i];

		if (!s->used)
			continue;
		row_u16(b, x->day);
		buf_append(b, l->trace_id, sizeof(l->trace_id));
		buf_append(b, l->span_id, sizeof(l->span_id));
		row_u64(b, ch_id(ident_link(x->n, i)));
		row_str(b, s->service);
		row_u64(b, s->t0);
		row_u64(b, s->t1);
		x->e->link_rows++;
	}
}

/* The numbers [base, base + count) are this exporter's alone, as long as no other one has the same
 * slot. Only a request of more rows than a slice has numbers runs into the next one's. */
static uint64_t take_base(struct ch_encoder *e, uint64_t now_unix_ns, uint64_t count)
{
	static const uint64_t slice = UINT64_C(1) << SLICE_BITS, turn = slice * SLOTS;
	uint64_t base = e->next_base, own = base / turn * turn + e->slot * slice;

	if (now_unix_ns / turn > base / turn)
		base = now_unix_ns / turn * turn + e->slot * slice;
	else if (base < own)
		base = own;
	else if (base > own && base + count > own + slice)
		base = own + turn;
	e->next_base = base + count;
	return base;
}

static uint64_t rows_of(const struct profiles *p)
{
	return 1 + (uint64_t)p->profile_count + p->sample_count;
}

void ch_encoder_put(struct ch_encoder *e, const struct ch_request *r, uint64_t now_unix_ns)
{
	const struct profiles *p = r->profiles;
	struct put x = { .e = e, .r = r, .p = p, .n = &e->n, .next = 1, .first = UINT64_MAX };

	e->today = ch_day(now_unix_ns);
	arena_reset(&e->arena);
	ident_begin(&e->n, p, &e->arena);
	lifted_begin(&x.lifted, p, &e->arena);
	x.link_spans = arena_zalloc(&e->arena, (size_t)p->dict.link_count * sizeof(*x.link_spans));
	assert(x.link_spans);
	x.tenant = ident_text(str_cstr(e->tenant));
	x.day = ch_day(r->arrived_unix_ns);
	x.request = ch_request_id(r->hash);
	x.base = r->base ? r->base : take_base(e, now_unix_ns, rows_of(p));
	x.reach_bucket = UINT64_MAX;
	for (unsigned i = 0; i < COLUMNS; i++)
		buf_init(&x.columns[i].bytes, 0);
	column_u64(&x, LAYOUT, p->resource_count);
	for (uint32_t i = 0; i < p->resource_count; i++)
		put_resource(&x, i);
	add_links(&x);
	add_request(&x);
	for (unsigned i = 0; i < COLUMNS; i++)
		buf_release(&x.columns[i].bytes);
}

/* ---- birth and death ---- */

void ch_encoder_init(struct ch_encoder *e, const char *tenant)
{
	uint8_t random = 0;

	*e = (struct ch_encoder){ .tenant = tenant ? tenant : "" };
	if (getrandom(&random, 1, 0) != 1)
		random = (uint8_t)clock_monotonic_ns();
	e->slot = random;
	known_init(&e->known, KNOWN_BYTES);
	arena_init(&e->arena, 64 << 10, 0);
	buf_init(&e->dictionary, 0);
	buf_init(&e->links, 0);
	buf_init(&e->samples, 0);
	buf_init(&e->requests, 0);
}

void ch_encoder_release(struct ch_encoder *e)
{
	known_release(&e->known);
	ident_release(&e->n);
	arena_release(&e->arena);
	buf_release(&e->dictionary);
	buf_release(&e->links);
	buf_release(&e->samples);
	buf_release(&e->requests);
	buf_release(&e->notes);
	buf_release(&e->bytes);
	buf_release(&e->texts);
	buf_release(&e->scratch);
	free(e->cuts);
}

void ch_encoder_reset(struct ch_encoder *e)
{
	static const size_t keep = (size_t)4 << 20;

	buf_reset(&e->dictionary);
	buf_reset(&e->links);
	buf_reset(&e->samples);
	buf_reset(&e->requests);
	buf_trim(&e->dictionary, keep);
	buf_trim(&e->links, keep);
	buf_trim(&e->samples, keep);
	buf_trim(&e->requests, keep);
	e->dictionary_rows = e->link_rows = e->sample_rows = e->request_rows = 0;
	e->cut_count = 0;
}

void ch_encoder_forget(struct ch_encoder *e)
{
	known_clear(&e->known);
}
