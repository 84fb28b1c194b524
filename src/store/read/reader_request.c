/*
 * reader_request.c - a whole request again, as a message: rows back into a dictionary and samples.
 *
 * Profiles and samples are here; what they name is in reader_rebuild.c.
 */
#include "store/schema/codec.h"
#include "store/read/reader_rebuild.h"

enum { SAMPLES_MOST = 1 << 26 /* of a profile: more is damage, no request is that large */ };

/* ---- profiles ---- */

struct profile_row {
	uint64_t seq, time, duration, attrset;
	uint32_t sample_count;
	struct str series; /* varints */
	struct str uid, payload_format, payload;
	uint32_t dropped;
};

/* A sample until all of its request are there: chunks come by ten minutes. */
struct kept_sample {
	bool there;
	uint64_t stack, attrset, link;
	int64_t *values;
	uint64_t *times;
	uint32_t value_count, time_count;
};

static void keep_sample(struct rebuild *r, struct kept_sample *k, const struct source_row *x)
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

/* ---- all samples of a request at once ---- */

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

static bool take_on_line(void *ctx, const struct source_row *x, struct err *err)
{
	struct rebuild *r = ctx;

	(void)err; /* is r->err */
	rebuild_fail_when(r,
			  x->sample <= r->line_first || !want_place(r, x->sample - r->line_first),
			  "sample", x->sample);
	if (r->failed)
		return false;
	keep_sample(r, &r->line[x->sample - r->line_first], x);
	return true;
}

/* Chunks are of one request each, so that they lie between its number and the next one's. */
static void gather_line(struct rebuild *r, uint64_t request)
{
	struct source_scan what = { .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST };
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
		notes = rebuild_copy(r, db_bytes(s, 1));
	sqlite3_reset(s);
	return notes;
}

static void put_samples(struct rebuild *r, const struct profile_row *p)
{
	struct kept_sample *samples;

	rebuild_fail_when(r, p->sample_count > SAMPLES_MOST, "the number of samples of profile",
			  p->seq);
	if (r->failed)
		return;
	rebuild_fail_when(r, !want_place(r, p->seq - r->line_first + p->sample_count), "profile",
			  p->seq);
	samples = r->line + (p->seq + 1 - r->line_first);
	for (uint32_t i = 0; i < p->sample_count && !r->failed; i++) {
		const struct kept_sample *k = &samples[i];
		struct rebuild_refs refs;
		struct stack_index stack;
		struct link_index link;
		uint32_t place;
		uint64_t seq;

		if (!k->there)
			continue; /* lost with its chunk */
		seq = p->seq + 1 + i;
		refs = rebuild_refs(r, k->attrset);
		stack = rebuild_stack(r, k->stack);
		link = rebuild_link(r, k->link);
		place = builder_sample(r->b, stack, link, refs.at, refs.count, k->values,
				       k->value_count, k->times, k->time_count);
		rebuild_notes(r, note_of(r, seq), MESSAGE_SAMPLE, place);
	}
}

static bool read_profile_row(struct rebuild *r, uint64_t seq, struct profile_row *p)
{
	sqlite3_stmt *s = rebuild_row(r, GET_PROFILE, seq);
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
		.uid = rebuild_copy(r, db_bytes(s, 5)),
		.payload_format = rebuild_copy(r, db_bytes(s, 8)),
		.payload = rebuild_copy(r, db_bytes(s, 9)),
	};
	if (sqlite3_column_type(s, 1) == SQLITE_INTEGER)
		codec_put(&number, db_u64(s, 1));
	else
		buf_str(&number, db_bytes(s, 1));
	p->series = rebuild_copy(r, buf_view(&number));
	buf_release(&number);
	sqlite3_reset(s);
	return true;
}

struct types {
	struct value_type sample, of_period;
	int64_t period;
};

static struct types types_of(struct rebuild *r, uint64_t series)
{
	sqlite3_stmt *s = rebuild_row(r, GET_SERIES, series);
	struct types t;
	uint64_t texts[4];

	if (!s)
		return (struct types){ 0 };
	for (int i = 0; i < 4; i++)
		texts[i] = db_u64(s, 3 + i);
	t.period = sqlite3_column_int64(s, 7);
	sqlite3_reset(s);
	t.sample = (struct value_type){ rebuild_string(r, texts[0]), rebuild_string(r, texts[1]) };
	t.of_period =
		(struct value_type){ rebuild_string(r, texts[2]), rebuild_string(r, texts[3]) };
	return t;
}

/* Types and period are the same in all series of a profile. */
static void put_types(struct rebuild *r, const struct profile_row *p, struct profile *to)
{
	struct codec c = codec_of(p->series);
	struct types t = types_of(r, codec_get(&c));

	to->period = t.period;
	to->sample_type = t.sample;
	to->period_type = t.of_period;
}

/* *next: where the next profile of the request is. */
static void put_profile(struct rebuild *r, uint64_t seq, uint64_t *next)
{
	struct profile_row p;
	struct profile *to;
	struct rebuild_refs refs;

	if (!read_profile_row(r, seq, &p))
		return;
	*next = seq + 1 + p.sample_count;
	to = builder_begin_profile(r->b);
	put_types(r, &p, to);
	to->time_unix_nano = p.time;
	to->duration_nano = p.duration;
	to->dropped_attributes_count = p.dropped;
	rebuild_copy_id(to->profile_id, sizeof(to->profile_id), p.uid);
	to->original_payload_format = rebuild_owned(r, p.payload_format);
	to->original_payload = rebuild_owned(r, p.payload);
	refs = rebuild_refs(r, p.attrset);
	builder_profile_attributes(r->b, refs.at, refs.count);
	rebuild_notes(r, note_of(r, seq), MESSAGE_PROFILE, builder_newest(r->b, MESSAGE_PROFILE));
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

		rebuild_resource(r, codec_get(&c));
		scopes = codec_get(&c);
		for (uint64_t k = 0; k < scopes && !r->failed && !c.failed; k++) {
			uint64_t profiles;

			rebuild_scope(r, codec_get(&c));
			profiles = codec_get(&c);
			for (uint64_t j = 0; j < profiles && !r->failed && !c.failed; j++)
				put_profile(r, next, &next);
		}
	}
	rebuild_fail_when(r, c.failed || codec_more(&c), "request", q->seq);
}

static struct profiles *rebuild_request(struct sqlite_snapshot *snap, const struct request_row *q,
					struct err *err)
{
	struct builder_options options = { .copy_strings = true };
	struct rebuild r = { .snap = snap, .err = err };
	struct profiles *p;
	struct str notes;

	r.b = builder_new(&options);
	arena_init(&r.scratch, 64 << 10, 0);
	gather_line(&r, q->seq);
	put_layout(&r, q);
	notes = note_of(&r, q->seq);
	rebuild_notes(&r, notes, MESSAGE_REQUEST, 0);
	rebuild_notes(&r, notes, MESSAGE_DICTIONARY, 0);
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
				  .unknown_fields = (uint32_t)db_u64(s, 4),
				  .moved = (uint8_t)db_u64(s, 5) };
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
