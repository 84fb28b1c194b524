/*
 * reader_request.c - a whole request again, as a message: rows back into a dictionary and samples.
 *
 * Dictionary rows are turned into entries of a builder when the first sample needs them, and
 * remembered by row id, so that an entry is made once a request.
 */
#include <stdio.h>

#include "model/builder.h"
#include "store/codec.h"
#include "store/ident.h"
#include "store/reader_internal.h"

enum { SAMPLES_MOST = 1 << 26 /* of a profile: more is damage, no request is that large */ };

struct rebuild {
	struct sqlite_snapshot *snap;
	struct builder *b;
	struct arena scratch; /* of one request */
	struct idmap maps[KIND_COUNT];
	uint64_t asof;
	uint64_t note_from, note_next; /* no notes from the one up to below the other */
	struct kept_sample *line; /* the request's samples, by their place behind it; on the heap */
	uint64_t line_first, line_cap;
	bool on_line; /* they came from chunks; else each profile's rows are looked for */
	struct err *err;
	bool failed;
};

static void fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id)
{
	if (!wrong || r->failed)
		return;
	r->failed = true;
	err_set(r->err, ERR_INVALID, "%s %llu is damaged", what, (unsigned long long)id);
}

/* The row of an id; NULL after a failure. */
static sqlite3_stmt *row_of(struct rebuild *r, enum query q, uint64_t id)
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
	idmap_add(&r->maps[kind], id)->number = index;
	return index;
}

static struct str copy(struct rebuild *r, struct str s)
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

static struct strindex string_of(struct rebuild *r, uint64_t id)
{
	uint32_t index;

	if (known(r, KIND_STRING, id, &index))
		return (struct strindex){ index };
	return (struct strindex){ remember(r, KIND_STRING, id,
					   builder_string(r->b, text_of(r, id)).v) };
}

static void put_notes(struct rebuild *r, struct str notes, enum message_kind message,
		      uint32_t index)
{
	if (notes.len)
		fail_when(r, !notes_get(notes, message, r->b, index), "notes of message", index);
}

static void get_unknown(struct rebuild *r, struct str notes, struct any_value *v)
{
	if (notes.len)
		fail_when(r, !notes_get_unknown(notes, &r->scratch, v), "notes of attribute", 0);
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
	s = row_of(r, GET_ATTRIBUTE, id);
	if (!s)
		return (struct attribute_index){ 0 };
	key = db_u64(s, 0);
	unit = db_u64(s, 3);
	notes = copy(r, db_bytes(s, 4));
	cell = reader_any_cell(s, 1, 2);
	r->failed |= !reader_any(&cell, &r->scratch, &a.value, r->err);
	sqlite3_reset(s);
	get_unknown(r, notes, &a.value);
	a.key = string_of(r, key);
	a.unit = string_of(r, unit);
	any_relink(r->b, &a.value);
	keep_apart(r, notes);
	index = builder_attribute(r->b, &a).v;
	put_notes(r, notes, MESSAGE_ATTRIBUTE, index);
	return (struct attribute_index){ remember(r, KIND_ATTRIBUTE, id, index) };
}

struct refs {
	struct attribute_index *at;
	uint32_t count;
};

static struct codec attrset_bytes(struct rebuild *r, uint64_t id)
{
	sqlite3_stmt *s = id ? row_of(r, GET_ATTRSET, id) : NULL;
	struct str bytes;

	if (!s)
		return (struct codec){ 0 };
	bytes = copy(r, db_bytes(s, 0));
	sqlite3_reset(s);
	return codec_of(bytes);
}

static struct refs refs_of(struct rebuild *r, uint64_t id)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[KIND_ATTRSET], id) : NULL;
	struct refs *refs;
	struct codec c;

	if (slot)
		return *(const struct refs *)slot->ptr;
	c = attrset_bytes(r, id);
	refs = arena_zalloc(&r->scratch, sizeof(*refs));
	refs->at = arena_alloc_array(&r->scratch, (size_t)(c.end - c.at) + 1, sizeof(*refs->at));
	while (codec_more(&c))
		refs->at[refs->count++] = attribute_of(r, codec_get(&c));
	fail_when(r, c.failed, "attribute set", id);
	if (id)
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
	s = row_of(r, GET_FUNCTION, id);
	if (!s)
		return (struct function_index){ 0 };
	name = db_u64(s, 0);
	system_name = db_u64(s, 1);
	filename = db_u64(s, 2);
	f.start_line = sqlite3_column_int64(s, 3);
	notes = copy(r, db_bytes(s, 4));
	sqlite3_reset(s);
	f.name = string_of(r, name);
	f.system_name = string_of(r, system_name);
	f.filename = string_of(r, filename);
	keep_apart(r, notes);
	index = builder_function(r->b, &f).v;
	put_notes(r, notes, MESSAGE_FUNCTION, index);
	return (struct function_index){ remember(r, KIND_FUNCTION, id, index) };
}

static struct mapping_index mapping_of(struct rebuild *r, uint64_t id)
{
	struct mapping m = { 0 };
	uint64_t filename, attrset;
	struct str notes;
	struct refs refs;
	sqlite3_stmt *s;
	uint32_t index;

	if (known(r, KIND_MAPPING, id, &index))
		return (struct mapping_index){ index };
	s = row_of(r, GET_MAPPING, id);
	if (!s)
		return (struct mapping_index){ 0 };
	m.memory_start = db_u64(s, 0);
	m.memory_limit = db_u64(s, 1);
	m.file_offset = db_u64(s, 2);
	filename = db_u64(s, 3);
	attrset = db_u64(s, 4);
	notes = copy(r, db_bytes(s, 6));
	sqlite3_reset(s);
	m.filename = string_of(r, filename);
	refs = refs_of(r, attrset);
	keep_apart(r, notes);
	index = builder_mapping(r->b, &m, refs.at, refs.count).v;
	put_notes(r, notes, MESSAGE_MAPPING, index);
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
	fail_when(r, c.failed, "lines of location", 0);
	return lines;
}

static struct location_index location_of(struct rebuild *r, uint64_t id)
{
	struct location l = { 0 };
	uint64_t mapping, attrset;
	struct str notes, line_bytes;
	struct line *lines;
	struct refs refs;
	sqlite3_stmt *s;
	uint32_t index, line_count;

	if (known(r, KIND_LOCATION, id, &index))
		return (struct location_index){ index };
	s = row_of(r, GET_LOCATION, id);
	if (!s)
		return (struct location_index){ 0 };
	mapping = db_u64(s, 0);
	l.address = db_u64(s, 1);
	attrset = db_u64(s, 2);
	line_bytes = copy(r, db_bytes(s, 4));
	notes = copy(r, db_bytes(s, 5));
	sqlite3_reset(s);
	l.mapping = mapping_of(r, mapping);
	refs = refs_of(r, attrset);
	lines = lines_of(r, line_bytes, &line_count);
	keep_apart(r, notes);
	index = builder_location(r->b, &l, lines, line_count, refs.at, refs.count).v;
	put_notes(r, notes, MESSAGE_LOCATION, index);
	put_notes(r, notes, MESSAGE_LINE,
		  builder_lines(r->b, (struct location_index){ index }).first);
	return (struct location_index){ remember(r, KIND_LOCATION, id, index) };
}

static struct stack_index stack_of(struct rebuild *r, uint64_t id)
{
	struct location_index *locations;
	struct str bytes, notes;
	sqlite3_stmt *s;
	struct codec c;
	uint32_t index, count = 0;

	if (known(r, KIND_STACK, id, &index))
		return (struct stack_index){ index };
	s = row_of(r, GET_STACK, id);
	if (!s)
		return (struct stack_index){ 0 };
	bytes = copy(r, db_bytes(s, 0));
	notes = copy(r, db_bytes(s, 1));
	sqlite3_reset(s);
	c = codec_of(bytes);
	locations = arena_alloc_array(&r->scratch, bytes.len + 1, sizeof(*locations));
	while (codec_more(&c))
		locations[count++] = location_of(r, codec_get(&c));
	fail_when(r, c.failed, "stack", id);
	keep_apart(r, notes);
	index = builder_stack(r->b, locations, count).v;
	put_notes(r, notes, MESSAGE_STACK, index);
	return (struct stack_index){ remember(r, KIND_STACK, id, index) };
}

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

static struct link_index link_of(struct rebuild *r, uint64_t id)
{
	struct link l = { 0 };
	struct str notes;
	sqlite3_stmt *s;
	uint32_t index;

	if (known(r, KIND_LINK, id, &index))
		return (struct link_index){ index };
	s = row_of(r, GET_LINK, id);
	if (!s)
		return (struct link_index){ 0 };
	copy_id(l.trace_id, sizeof(l.trace_id), db_bytes(s, 0));
	copy_id(l.span_id, sizeof(l.span_id), db_bytes(s, 1));
	notes = copy(r, db_bytes(s, 2));
	sqlite3_reset(s);
	keep_apart(r, notes);
	index = builder_link(r->b, &l).v;
	put_notes(r, notes, MESSAGE_LINK, index);
	return (struct link_index){ remember(r, KIND_LINK, id, index) };
}

/* ---- resources and scopes ---- */

static struct key_value key_value_of(struct rebuild *r, uint64_t id)
{
	struct key_value kv = { 0 };
	sqlite3_stmt *s = id ? row_of(r, GET_ATTRIBUTE, id) : NULL;
	struct any_cell cell;
	bool by_reference;
	struct str notes;
	uint64_t key;

	if (!s)
		return kv;
	key = db_u64(s, 0);
	notes = copy(r, db_bytes(s, 4));
	by_reference = sqlite3_column_int(s, 1) & 256;
	cell = reader_any_cell(s, 1, 2);
	r->failed |= !reader_any(&cell, &r->scratch, &kv.value, r->err);
	sqlite3_reset(s);
	get_unknown(r, notes, &kv.value);
	kv.key = text_of(r, key);
	if (by_reference)
		kv.key_strindex = string_of(r, key);
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
	fail_when(r, c.failed, "attribute set", attrset);
	return builder_key_values(r->b, list, count);
}

static struct str owned(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(builder_arena(r->b), s) : (struct str){ 0 };
}

static void put_resource(struct rebuild *r, uint64_t id)
{
	struct resource_profiles *to = builder_begin_resource(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_RESOURCE);
	sqlite3_stmt *s = id ? row_of(r, GET_RESOURCE, id) : NULL;
	uint64_t attrset, schema_url;
	struct str notes;

	if (!s)
		return;
	attrset = db_u64(s, 0);
	schema_url = db_u64(s, 1);
	to->dropped_attributes_count = (uint32_t)db_u64(s, 2);
	notes = copy(r, db_bytes(s, 3));
	sqlite3_reset(s);
	to->attributes = key_values_of(r, attrset);
	to->schema_url = owned(r, text_of(r, schema_url));
	put_notes(r, notes, MESSAGE_RESOURCE_PROFILES, place);
	put_notes(r, notes, MESSAGE_RESOURCE, place);
}

static void put_scope(struct rebuild *r, uint64_t id)
{
	struct scope_profiles *to = builder_begin_scope(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_SCOPE);
	sqlite3_stmt *s = id ? row_of(r, GET_SCOPE, id) : NULL;
	uint64_t name, version, attrset, schema_url;
	struct str notes;

	if (!s)
		return;
	name = db_u64(s, 0);
	version = db_u64(s, 1);
	attrset = db_u64(s, 2);
	schema_url = db_u64(s, 3);
	to->dropped_attributes_count = (uint32_t)db_u64(s, 4);
	notes = copy(r, db_bytes(s, 5));
	sqlite3_reset(s);
	to->name = owned(r, text_of(r, name));
	to->version = owned(r, text_of(r, version));
	to->attributes = key_values_of(r, attrset);
	to->schema_url = owned(r, text_of(r, schema_url));
	put_notes(r, notes, MESSAGE_SCOPE_PROFILES, place);
	put_notes(r, notes, MESSAGE_SCOPE, place);
}

/* ---- profiles ---- */

struct profile_row {
	uint64_t seq, time, duration, attrset, first, last;
	uint32_t sample_count;
	struct str series; /* varints */
	struct str uid, payload_format, payload;
	uint32_t dropped;
};

/* A sample's row until all of its profile are there: rows come by series and time. */
struct kept_sample {
	bool there;
	uint64_t stack, attrset, link;
	int64_t *values;
	uint64_t *times;
	uint32_t value_count, time_count;
};

static void keep_sample(struct rebuild *r, struct kept_sample *k, const struct store_sample *x)
{
	k->there = true;
	k->stack = x->stack;
	k->attrset = x->attributes;
	k->link = x->link;
	k->value_count = x->value_count;
	k->time_count = x->timestamp_count;
	k->values = arena_alloc_array(&r->scratch, x->value_count, sizeof(*k->values));
	k->times = arena_alloc_array(&r->scratch, x->timestamp_count, sizeof(*k->times));
	if (x->value_count)
		memcpy(k->values, x->values, x->value_count * sizeof(*k->values));
	if (x->timestamp_count)
		memcpy(k->times, x->timestamps, x->timestamp_count * sizeof(*k->times));
}

static void lose(struct rebuild *r, uint64_t samples)
{
	if (r->snap->lost)
		*r->snap->lost += samples;
}

/* After a failure that may be left out: true, and the failure is forgotten. */
static bool go_on(struct rebuild *r, uint64_t lost_samples)
{
	if (!r->failed || !r->snap->lost)
		return false;
	r->failed = false;
	lose(r, lost_samples);
	return true;
}

/* ---- of chunks: all of a request at once ---- */

static bool want_place(struct rebuild *r, uint64_t place)
{
	uint64_t cap = r->line_cap;

	if (place < cap)
		return true;
	if (place > (uint64_t)SAMPLES_MOST * 2)
		return false;
	cap = place * 2 + 256;
	r->line = realloc(r->line, cap * sizeof(*r->line));
	assert(r->line);
	memset(r->line + r->line_cap, 0, (cap - r->line_cap) * sizeof(*r->line));
	r->line_cap = cap;
	return true;
}

static bool take_on_line(void *arg, const struct store_sample *x)
{
	struct rebuild *r = arg;

	fail_when(r, x->seq <= r->line_first || !want_place(r, x->seq - r->line_first), "sample",
		  x->seq);
	if (r->failed)
		return false;
	r->on_line = true;
	if (!r->asof || x->seq <= r->asof)
		keep_sample(r, &r->line[x->seq - r->line_first], x);
	return true;
}

/* Chunks are of one request each, so that they lie between its number and the next one's. */
static void gather_line(struct rebuild *r, uint64_t request)
{
	struct store_scan what = { .to = UINT64_MAX };
	struct sample_scan x = {
		.snap = r->snap, .what = &what, .fn = take_on_line, .arg = r, .err = r->err
	};
	sqlite3_stmt *s = reader_query(r->snap, NEXT_REQUEST, r->err);
	uint64_t next = UINT64_MAX;
	bool row;

	r->line_first = request;
	r->failed = !s;
	if (!s)
		return;
	db_bind_u64(s, 1, request);
	r->failed = !db_step(r->snap->db, s, &row, r->err, "reading requests");
	if (!r->failed && row)
		next = db_u64(s, 0) - 1;
	sqlite3_reset(s);
	if (!r->failed && !reader_scan_line(&x, request, next))
		r->failed = true;
	go_on(r, 0);
}

/* ---- of rows: profile by profile ---- */

struct gather {
	struct rebuild *r;
	const struct profile_row *p;
	struct kept_sample *samples;
};

static bool gather_sample(void *arg, const struct store_sample *x)
{
	struct gather *g = arg;

	if (x->seq > g->p->seq && x->seq <= g->p->seq + g->p->sample_count &&
	    (!g->r->asof || x->seq <= g->r->asof))
		keep_sample(g->r, &g->samples[x->seq - g->p->seq - 1], x);
	return true;
}

static void gather_samples(struct rebuild *r, const struct profile_row *p,
			   struct kept_sample *samples)
{
	struct gather g = { r, p, samples };
	struct codec c = codec_of(p->series);
	store_id *series = arena_alloc_array(&r->scratch, p->series.len + 1, sizeof(*series));
	struct store_scan what = {
		.from = p->first,
		.to = p->last == UINT64_MAX ? p->last : p->last + 1,
		.series = series,
		.after = p->seq,
		.asof = p->seq + p->sample_count,
	};

	while (codec_more(&c))
		series[what.series_count++] = codec_get(&c);
	fail_when(r, c.failed, "profile", p->seq);
	if (!r->failed && p->sample_count &&
	    !sqlite_scan(r->snap, &what, gather_sample, &g, r->err))
		r->failed = true;
}

/* The notes of a number on the line; the next one that has any is remembered. */
static struct str note_of(struct rebuild *r, uint64_t seq)
{
	struct str notes = { 0 };
	sqlite3_stmt *s;
	bool row;

	if (r->failed || (r->note_from <= seq && seq < r->note_next))
		return notes;
	s = reader_query(r->snap, GET_NOTE, r->err);
	r->failed = !s;
	if (!s)
		return notes;
	db_bind_u64(s, 1, seq);
	if (!db_step(r->snap->db, s, &row, r->err, "reading notes")) {
		r->failed = true;
		return notes;
	}
	r->note_from = seq;
	r->note_next = row ? db_u64(s, 0) : UINT64_MAX;
	if (row && r->note_next == seq)
		notes = copy(r, db_bytes(s, 1));
	sqlite3_reset(s);
	return notes;
}

static void put_samples(struct rebuild *r, const struct profile_row *p)
{
	struct kept_sample *samples;

	fail_when(r, p->sample_count > SAMPLES_MOST, "the number of samples of profile", p->seq);
	if (r->failed)
		return;
	if (!r->on_line && r->snap->has_rows) {
		samples = arena_zalloc(&r->scratch, (size_t)p->sample_count * sizeof(*samples));
		gather_samples(r, p, samples);
		go_on(r, 0);
	} else {
		fail_when(r, !want_place(r, p->seq - r->line_first + p->sample_count), "profile",
			  p->seq);
		samples = r->line + (p->seq + 1 - r->line_first);
	}
	for (uint32_t i = 0; i < p->sample_count && !r->failed; i++) {
		const struct kept_sample *k = &samples[i];
		struct stack_index stack;
		struct link_index link;
		struct refs refs;
		uint32_t place;
		uint64_t seq;

		if (!k->there) {
			lose(r, 1);
			continue;
		}
		seq = p->seq + 1 + i;
		refs = refs_of(r, k->attrset);
		stack = stack_of(r, k->stack);
		link = link_of(r, k->link);
		if (go_on(r, 1))
			continue;
		place = builder_sample(r->b, stack, link, refs.at, refs.count, k->values,
				       k->value_count, k->times, k->time_count);
		put_notes(r, note_of(r, seq), MESSAGE_SAMPLE, place);
	}
}

static bool read_profile_row(struct rebuild *r, uint64_t seq, struct profile_row *p)
{
	sqlite3_stmt *s = row_of(r, GET_PROFILE, seq);
	struct buf number;

	if (!s)
		return false;
	buf_init(&number, 0);
	*p = (struct profile_row){
		.seq = seq,
		.sample_count = (uint32_t)db_u64(s, 2),
		.time = db_u64(s, 3),
		.duration = db_u64(s, 4),
		.attrset = db_u64(s, 6),
		.dropped = (uint32_t)db_u64(s, 7),
		.uid = copy(r, db_bytes(s, 5)),
		.payload_format = copy(r, db_bytes(s, 10)),
		.payload = copy(r, db_bytes(s, 11)),
	};
	p->first = p->time + db_u64(s, 8) * 1000;
	p->last = p->first + db_u64(s, 9) * 1000 + 999;
	if (p->last < p->first)
		p->last = UINT64_MAX;
	if (sqlite3_column_type(s, 1) == SQLITE_INTEGER)
		codec_put(&number, db_u64(s, 1));
	else
		buf_str(&number, db_bytes(s, 1));
	p->series = copy(r, buf_view(&number));
	buf_release(&number);
	sqlite3_reset(s);
	return true;
}

/* Types and period are the same in all series of a profile. */
static void put_types(struct rebuild *r, const struct profile_row *p, struct profile *to)
{
	struct codec c = codec_of(p->series);
	sqlite3_stmt *s = row_of(r, GET_SERIES, codec_get(&c));
	uint64_t types[4];

	if (!s)
		return;
	for (int i = 0; i < 4; i++)
		types[i] = db_u64(s, 3 + i);
	to->period = sqlite3_column_int64(s, 7);
	sqlite3_reset(s);
	to->sample_type = (struct value_type){ string_of(r, types[0]), string_of(r, types[1]) };
	to->period_type = (struct value_type){ string_of(r, types[2]), string_of(r, types[3]) };
}

/* *next: where the next profile of the request is. */
static void put_profile(struct rebuild *r, uint64_t seq, uint64_t *next)
{
	struct profile_row p;
	struct profile *to;
	struct refs refs;

	if (!read_profile_row(r, seq, &p))
		return;
	*next = seq + 1 + p.sample_count;
	to = builder_begin_profile(r->b);
	put_types(r, &p, to);
	to->time_unix_nano = p.time;
	to->duration_nano = p.duration;
	to->dropped_attributes_count = p.dropped;
	copy_id(to->profile_id, sizeof(to->profile_id), p.uid);
	to->original_payload_format = owned(r, p.payload_format);
	to->original_payload = owned(r, p.payload);
	refs = refs_of(r, p.attrset);
	builder_profile_attributes(r->b, refs.at, refs.count);
	put_notes(r, note_of(r, seq), MESSAGE_PROFILE, builder_newest(r->b, MESSAGE_PROFILE));
	put_samples(r, &p);
}

/* ---- requests ---- */

struct request_row {
	uint64_t seq;
	uint32_t unknown_fields;
	uint8_t version, moved;
	struct str layout;
};

static void put_layout(struct rebuild *r, const struct request_row *q)
{
	struct codec c = codec_of(q->layout);
	uint64_t resources = codec_get(&c), next = q->seq + 1;

	for (uint64_t i = 0; i < resources && !r->failed && !c.failed; i++) {
		uint64_t scopes;

		put_resource(r, codec_get(&c));
		scopes = codec_get(&c);
		for (uint64_t k = 0; k < scopes && !r->failed && !c.failed; k++) {
			uint64_t profiles;

			put_scope(r, codec_get(&c));
			profiles = codec_get(&c);
			for (uint64_t j = 0; j < profiles && !r->failed && !c.failed; j++) {
				uint64_t here = next;

				put_profile(r, here, &next);
				if (next != here)
					go_on(r, 0); /* else nobody knows where the next one is */
			}
		}
	}
	fail_when(r, c.failed || codec_more(&c), "request", q->seq);
}

static struct profiles *rebuild_request(struct sqlite_snapshot *snap, const struct request_row *q,
					uint64_t asof, struct err *err)
{
	struct builder_options options = { .copy_strings = true };
	struct rebuild r = { .snap = snap, .asof = asof, .err = err };
	struct profiles *p;
	struct str notes;

	r.b = builder_new(&options);
	arena_init(&r.scratch, 64 << 10, 0);
	gather_line(&r, q->seq);
	put_layout(&r, q);
	notes = note_of(&r, q->seq);
	put_notes(&r, notes, MESSAGE_REQUEST, 0);
	put_notes(&r, notes, MESSAGE_DICTIONARY, 0);
	for (int i = 0; i < KIND_COUNT; i++)
		idmap_release(&r.maps[i]);
	arena_release(&r.scratch);
	free(r.line);
	if (r.failed) {
		builder_free(r.b);
		return NULL;
	}
	p = builder_finish(r.b, err);
	if (!p)
		return NULL;
	p->source_version = q->version;
	p->unknown_field_count = q->unknown_fields;
	return p;
}

bool sqlite_next_request(struct sqlite_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
			 struct profiles **out, struct err *err)
{
	sqlite3_stmt *s = reader_query(snap, GET_REQUEST, err);
	struct request_row q;
	char *layout;
	bool row;

	*out = NULL;
	if (!s)
		return false;
	reader_trim(snap);
	sqlite3_reset(s);
	db_bind_u64(s, 1, after);
	if (!db_step(snap->db, s, &row, err, "reading a request"))
		return false;
	if (!row || (asof && db_u64(s, 0) > asof)) {
		sqlite3_reset(s);
		return true;
	}
	q = (struct request_row){ .seq = db_u64(s, 0),
				  .version = (uint8_t)sqlite3_column_int(s, 3),
				  .unknown_fields = (uint32_t)db_u64(s, 4),
				  .moved = (uint8_t)db_u64(s, 5) };
	layout = malloc(db_bytes(s, 6).len + 1);
	assert(layout);
	memcpy(layout, db_bytes(s, 6).ptr, db_bytes(s, 6).len);
	q.layout = str_from(layout, db_bytes(s, 6).len);
	sqlite3_reset(s);
	*seq = q.seq;
	*out = rebuild_request(snap, &q, asof, err);
	free(layout);
	return *out || err_prefix(err, "request %llu", (unsigned long long)q.seq);
}
