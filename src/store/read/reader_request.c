/*
 * reader_request.c - a whole request again, as a message: its rows as rebuild.h wants them.
 */
#include "store/read/reader_internal.h"
#include "store/rebuild.h"
#include "store/schema/codec.h"

enum { SAMPLES_MOST = 1 << 26 /* of a request: more is damage, none is that large */ };

struct request_rebuild {
	struct rebuild base;
	struct sqlite_snapshot *snap;
	struct idmap attributes;       /* by row: struct rebuild_attribute */
	uint64_t note_from, note_next; /* no notes from the one up to below the other */
	struct rebuild_sample *line;   /* by their place behind the request; on the heap */
	uint64_t line_first, line_cap;
	uint64_t next_profile;
};

static struct request_rebuild *request_rebuild_of(struct rebuild *r)
{
	return CONTAINER_OF(r, struct request_rebuild, base);
}

/* ---- dictionary rows ---- */

/* Where a row has what an entry says (rebuild.h). */
struct entry_columns {
	enum query query;
	int texts[4], text_count; /* rows of `string`; of a link, the bytes themselves */
	int numbers[3], number_count;
	int refs[2], ref_count;
	int notes; /* 0: it has none */
};

static const struct entry_columns entry_columns[KIND_COUNT] = {
	[KIND_FUNCTION] = { GET_FUNCTION, { 0, 1, 2 }, 3, { 3 }, 1, { 0 }, 0, 4 },
	[KIND_MAPPING] = { GET_MAPPING, { 3 }, 1, { 0, 1, 2 }, 3, { 4 }, 1, 6 },
	[KIND_LOCATION] = { GET_LOCATION, { 0 }, 0, { 1 }, 1, { 0, 2 }, 2, 5 },
	[KIND_STACK] = { GET_STACK, { 0 }, 0, { 0 }, 0, { 0 }, 0, 1 },
	[KIND_LINK] = { GET_LINK, { 0, 1 }, 2, { 0 }, 0, { 0 }, 0, 2 },
	[KIND_RESOURCE] = { GET_RESOURCE, { 1 }, 1, { 2 }, 1, { 0 }, 1, 3 },
	[KIND_SCOPE] = { GET_SCOPE, { 0, 1, 3 }, 3, { 4 }, 1, { 2 }, 1, 5 },
	[KIND_SERIES] = { GET_SERIES, { 3, 4, 5, 6 }, 4, { 7 }, 1, { 0 }, 0, 0 },
};
enum { STACK_LOCATIONS = 0, LOCATION_LINES = 4 };

static bool is_cut(struct err *err, const char *what, uint64_t id)
{
	return err_set(err, ERR_INVALID, "%s %llu is damaged", what, (unsigned long long)id);
}

/* The lists behind the columns: a stack's locations; of each of a location's lines the function,
 * its line and column. */
static bool read_lists(enum store_kind kind, sqlite3_stmt *s, uint64_t *refs, int64_t *numbers,
		       struct rebuild_entry *out)
{
	struct codec c = codec_of((struct str){ 0 });

	if (kind == KIND_STACK)
		c = codec_of(db_bytes(s, STACK_LOCATIONS));
	else if (kind == KIND_LOCATION)
		c = codec_of(db_bytes(s, LOCATION_LINES));
	while (codec_more(&c)) {
		refs[out->ref_count++] = codec_get(&c);
		if (kind == KIND_STACK)
			continue;
		numbers[out->number_count++] = codec_get_signed(&c);
		numbers[out->number_count++] = codec_get_signed(&c);
	}
	return !c.failed;
}

static bool read_columns(struct request_rebuild *r, enum store_kind kind, sqlite3_stmt *s,
			 struct rebuild_entry *out, struct err *err)
{
	const struct entry_columns *c = &entry_columns[kind];
	size_t most = kind == KIND_STACK      ? db_bytes(s, STACK_LOCATIONS).len
		      : kind == KIND_LOCATION ? db_bytes(s, LOCATION_LINES).len
					      : 0;
	uint64_t *refs = arena_alloc_array(&r->base.scratch, most + 2, sizeof(*refs));
	int64_t *numbers = arena_alloc_array(&r->base.scratch, most + 3, sizeof(*numbers));

	for (int i = 0; i < c->text_count; i++) {
		if (kind == KIND_LINK)
			out->texts[i] = rebuild_copy(&r->base, db_bytes(s, c->texts[i]));
		else if (!reader_text(r->snap, db_u64(s, c->texts[i]), &out->texts[i], err))
			return false;
	}
	for (int i = 0; i < c->number_count; i++)
		numbers[out->number_count++] = sqlite3_column_int64(s, c->numbers[i]);
	for (int i = 0; i < c->ref_count; i++)
		refs[out->ref_count++] = db_u64(s, c->refs[i]);
	if (c->notes)
		out->notes = rebuild_copy(&r->base, db_bytes(s, c->notes));
	out->refs = refs;
	out->numbers = numbers;
	return read_lists(kind, s, refs, numbers, out);
}

/* ---- sets of attributes ---- */

/* attribute.kind has the bits that the writer gave it (writer_rows.c). */
enum { KEY_BY_REFERENCE = 256 };

static bool read_attribute(struct request_rebuild *r, uint64_t id, struct rebuild_attribute *out,
			   struct err *err)
{
	struct any_cell cell;
	sqlite3_stmt *s;
	bool ok;

	if (!reader_row(r->snap, GET_ATTRIBUTE, id, &s, err))
		return false;
	cell = reader_any_cell(s, 1, 2);
	out->key_by_reference = sqlite3_column_int(s, 1) & KEY_BY_REFERENCE;
	out->notes = rebuild_copy(&r->base, db_bytes(s, 4));
	ok = reader_any(&cell, &r->base.scratch, &out->value, err) &&
	     reader_text(r->snap, db_u64(s, 0), &out->key, err) &&
	     reader_text(r->snap, db_u64(s, 3), &out->unit, err);
	sqlite3_reset(s);
	return ok;
}

static bool find_attribute(struct request_rebuild *r, uint64_t id, struct rebuild_attribute *out,
			   struct err *err)
{
	struct idmap_slot *slot = id ? idmap_find(&r->attributes, id) : NULL;
	struct rebuild_attribute *a;

	*out = (struct rebuild_attribute){ 0 };
	if (!id)
		return true;
	if (!slot) {
		a = arena_zalloc(&r->base.scratch, sizeof(*a));
		if (!read_attribute(r, id, a, err))
			return false;
		slot = idmap_add(&r->attributes, id);
		slot->ptr = a;
	}
	*out = *(const struct rebuild_attribute *)slot->ptr;
	return true;
}

static bool read_set(struct request_rebuild *r, uint64_t id, struct rebuild_entry *out,
		     struct err *err)
{
	struct rebuild_attribute *list;
	sqlite3_stmt *s;
	struct codec c;

	if (!reader_row(r->snap, GET_ATTRSET, id, &s, err))
		return false;
	c = codec_of(rebuild_copy(&r->base, db_bytes(s, 0)));
	sqlite3_reset(s);
	list = arena_alloc_array(&r->base.scratch, (size_t)(c.end - c.at) + 1, sizeof(*list));
	while (codec_more(&c)) {
		uint64_t attribute = codec_get(&c);

		if (!find_attribute(r, c.failed ? 0 : attribute, &list[out->attribute_count++],
				    err))
			return false;
	}
	out->attributes = list;
	return !c.failed || is_cut(err, "attribute set", id);
}

static bool read_entry(struct rebuild *base, enum store_kind kind, uint64_t id,
		       struct rebuild_entry *out, struct err *err)
{
	struct request_rebuild *r = request_rebuild_of(base);
	sqlite3_stmt *s;
	struct err why = { .msg = "" };
	bool ok;

	if (kind == KIND_ATTRSET)
		return read_set(r, id, out, err);
	if (!reader_row(r->snap, entry_columns[kind].query, id, &s, err))
		return false;
	ok = read_columns(r, kind, s, out, &why);
	sqlite3_reset(s);
	if (!ok && why.msg[0])
		*err = why;
	else if (!ok)
		is_cut(err, kind == KIND_STACK ? "stack" : "lines of location", id);
	return ok;
}

/* ---- all samples of a request at once ---- */

static bool want_place(struct request_rebuild *r, uint64_t place)
{
	uint64_t cap = r->line_cap;

	if (place < cap)
		return true;
	if (place > SAMPLES_MOST)
		return false;
	cap = place * 2 + 256;
	r->line = realloc(r->line, cap * sizeof(*r->line));
	assert(r->line);
	memset(r->line + r->line_cap, 0, (cap - r->line_cap) * sizeof(*r->line));
	r->line_cap = cap;
	return true;
}

static const void *copy_array(struct rebuild *r, const void *array, size_t count)
{
	struct str bytes = str_from(array, count * sizeof(uint64_t));
	void *copy = count ? arena_alloc_array(&r->scratch, count, sizeof(uint64_t)) : NULL;

	if (count)
		memcpy(copy, bytes.ptr, bytes.len);
	return copy;
}

static bool take_on_line(void *ctx, const struct source_row *x, struct err *err)
{
	struct request_rebuild *r = ctx;
	bool there = x->sample > r->line_first && want_place(r, x->sample - r->line_first);

	if (!there)
		return is_cut(err, "sample", x->sample);
	r->line[x->sample - r->line_first] = (struct rebuild_sample){
		.there = true,
		.stack = x->stack,
		.attributes = x->attributes,
		.link = x->link,
		.values = copy_array(&r->base, x->values, x->value_count),
		.times = copy_array(&r->base, x->timestamps, x->timestamp_count),
		.value_count = x->value_count,
		.time_count = x->timestamp_count,
	};
	return true;
}

/* Chunks are of one request each, so that they lie between its number and the next one's. */
static bool gather_line(struct request_rebuild *r, uint64_t request, struct err *err)
{
	struct source_scan what = { .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST };
	struct sample_scan x = {
		.snap = r->snap, .what = &what, .fn = take_on_line, .arg = r, .err = err
	};
	sqlite3_stmt *s = reader_query(r->snap, NEXT_REQUEST, err);
	uint64_t next;
	bool row;

	r->line_first = request;
	if (!s)
		return false;
	db_bind_u64(s, 1, request);
	if (!db_step(r->snap->db, s, &row, err, "reading requests"))
		return false;
	next = row ? db_u64(s, 0) - 1 : UINT64_MAX;
	sqlite3_reset(s);
	return reader_scan_line(&x, request, next) && !x.ended;
}

/* The notes of a number on the line; the next one that has any is remembered. */
static struct str note_of(struct request_rebuild *r, uint64_t seq)
{
	struct str notes = { 0 };
	sqlite3_stmt *s;
	bool row;

	if (r->base.failed || (r->note_from <= seq && seq < r->note_next))
		return notes;
	s = reader_query(r->snap, GET_NOTE, r->base.err);
	r->base.failed = !s;
	if (!s)
		return notes;
	db_bind_u64(s, 1, seq);
	if (!db_step(r->snap->db, s, &row, r->base.err, "reading notes")) {
		r->base.failed = true;
		return notes;
	}
	r->note_from = seq;
	r->note_next = row ? db_u64(s, 0) : UINT64_MAX;
	if (row && r->note_next == seq)
		notes = rebuild_copy(&r->base, db_bytes(s, 1));
	sqlite3_reset(s);
	return notes;
}

/* ---- profiles ---- */

static void put_samples(struct request_rebuild *r, uint64_t profile, uint64_t count)
{
	uint64_t first = profile + 1 - r->line_first;

	rebuild_fail_when(&r->base, count > SAMPLES_MOST || !want_place(r, first + count),
			  "the number of samples of profile", profile);
	for (uint64_t i = 0; i < count && !r->base.failed; i++)
		if (r->line[first + i].there) /* else it is lost with its chunk */
			rebuild_sample(&r->base, &r->line[first + i], note_of(r, profile + 1 + i));
}

/* The first of the profile's series: a number, or several as varints. Types and period are the same
 * in all of them. */
static uint64_t first_series(sqlite3_stmt *profile)
{
	struct codec c;

	if (sqlite3_column_type(profile, 1) == SQLITE_INTEGER)
		return db_u64(profile, 1);
	c = codec_of(db_bytes(profile, 1));
	return codec_get(&c);
}

static void put_profile(struct rebuild *base)
{
	struct request_rebuild *r = request_rebuild_of(base);
	uint64_t seq = r->next_profile, count, series, attrset;
	struct profile *to;
	struct str id;
	sqlite3_stmt *s;

	base->failed = !reader_row(r->snap, GET_PROFILE, seq, &s, base->err);
	if (base->failed)
		return;
	to = builder_begin_profile(base->b);
	to->time_unix_nano = db_u64(s, 3);
	to->duration_nano = db_u64(s, 4);
	to->dropped_attributes_count = (uint32_t)db_u64(s, 7);
	id = db_bytes(s, 5);
	if (id.len == sizeof(to->profile_id))
		memcpy(to->profile_id, id.ptr, id.len);
	to->original_payload_format = rebuild_owned(base, db_bytes(s, 8));
	to->original_payload = rebuild_owned(base, db_bytes(s, 9));
	count = db_u64(s, 2);
	series = first_series(s);
	attrset = db_u64(s, 6);
	sqlite3_reset(s);
	rebuild_types(base, series, to);
	rebuild_profile_attributes(base, attrset);
	rebuild_notes(base, note_of(r, seq), MESSAGE_PROFILE,
		      builder_newest(base->b, MESSAGE_PROFILE));
	put_samples(r, seq, count);
	r->next_profile = seq + 1 + count;
}

/* ---- requests ---- */

struct request_row {
	uint64_t seq;
	uint32_t unknown_fields;
	uint8_t version;
	struct str layout;
};

static void put_request(struct request_rebuild *r, const struct request_row *q)
{
	uint64_t *layout = arena_alloc_array(&r->base.scratch, q->layout.len + 1, sizeof(*layout));
	size_t count = codec_get_list(q->layout, layout);
	struct str notes;

	rebuild_fail_when(&r->base, count == SIZE_MAX, "request", q->seq);
	if (r->base.failed || !gather_line(r, q->seq, r->base.err)) {
		r->base.failed = true;
		return;
	}
	r->next_profile = q->seq + 1;
	rebuild_layout(&r->base, layout, count, q->seq, put_profile);
	notes = note_of(r, q->seq);
	rebuild_notes(&r->base, notes, MESSAGE_REQUEST, 0);
	rebuild_notes(&r->base, notes, MESSAGE_DICTIONARY, 0);
}

static struct profiles *rebuild_request(struct sqlite_snapshot *snap, const struct request_row *q,
					struct err *err)
{
	struct request_rebuild r = { .snap = snap };
	struct profiles *p;

	rebuild_begin(&r.base, read_entry, err);
	put_request(&r, q);
	p = rebuild_end(&r.base);
	idmap_release(&r.attributes);
	free(r.line);
	if (!p)
		return NULL;
	p->source_version = q->version;
	p->unknown_field_count = q->unknown_fields;
	return p;
}

bool sqlite_next_request(struct source *source, uint64_t after, uint64_t *seq,
			 struct profiles **out, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	sqlite3_stmt *s = reader_query(snap, GET_REQUEST, err);
	struct request_row q;
	char *layout;
	bool row;

	*out = NULL;
	if (!s || !reader_cache_more(snap, err))
		return false;
	reader_trim(snap);
	sqlite3_reset(s);
	db_bind_u64(s, 1, after);
	if (!db_step(snap->db, s, &row, err, "reading a request"))
		return false;
	if (!row) {
		sqlite3_reset(s);
		return true;
	}
	q = (struct request_row){ .seq = db_u64(s, 0),
				  .version = (uint8_t)sqlite3_column_int(s, 3),
				  .unknown_fields = (uint32_t)db_u64(s, 4) };
	layout = malloc(db_bytes(s, 6).len + 1);
	assert(layout);
	memcpy(layout, db_bytes(s, 6).ptr, db_bytes(s, 6).len);
	q.layout = str_from(layout, db_bytes(s, 6).len);
	sqlite3_reset(s);
	*seq = q.seq;
	*out = rebuild_request(snap, &q, err);
	free(layout);
	return *out || err_prefix(err, "request %llu", (unsigned long long)q.seq);
}
