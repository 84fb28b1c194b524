/*
 * writer_put.c - one request into rows: request, profiles, series, samples.
 *
 * Every request, profile and sample gets the next number of one line (`seq`): a request, then each
 * of its profiles followed by its samples. So a sample's profile is the nearest below it, order of
 * arrival and order within the request are one, and no row names another by more than that.
 */
#include <assert.h>
#include <stdlib.h>

#include "store/schema/codec.h"
#include "store/schema/lifted.h"
#include "store/write/writer_internal.h"

struct putting {
	struct store_writer *w;
	const struct profiles *p;
	struct sample_row *rows;
	uint32_t row_count;
	struct buf layout;
	uint32_t tenant_id;
	struct hash128 tenant;

	/* Of the resource, scope and profile that are open. */
	const struct resource_profiles *resource;
	uint32_t resource_id, scope_id;
	struct hash128 resource_hash, scope_hash;
	uint32_t series;             /* of samples from which nothing is lifted */
	uint32_t profile;            /* index in the message */
	const struct profile *first; /* its time and duration are the usual ones */
	uint32_t scope;              /* index of the open one */
	struct lifted lifted;
};

/* ---- series ---- */

static uint32_t service_id(struct putting *x, const struct attribute_index *at, uint32_t count)
{
	struct buf text;
	uint32_t id;

	buf_init(&text, 0);
	id = writer_text(x->w, lifted_service(x->p, x->resource, at, count, &text));
	buf_release(&text);
	return id;
}

static uint32_t add_series(struct putting *x, struct hash128 hash,
			   const struct attribute_index *lifted, uint32_t lifted_count)
{
	const struct profile *f = &x->p->profiles[x->profile];
	struct store_writer *w = x->w;
	uint32_t ids[6] = {
		writer_string(w, f->sample_type.type.v), writer_string(w, f->sample_type.unit.v),
		writer_string(w, f->period_type.type.v), writer_string(w, f->period_type.unit.v),
		writer_refs(w, lifted, lifted_count),    service_id(x, lifted, lifted_count),
	};
	bool labelled =
		writer_labels(w, x->resource, &x->p->scopes[x->scope], lifted, lifted_count);
	uint32_t id = w->failed ? 0 : writer_next_row(w, KIND_SERIES, hash);
	struct feed_value *v;

	if (!id)
		return 0;
	v = writer_row(w, FED_SERIES);
	v[0] = feed_number(id);
	v[1] = feed_id(x->tenant_id);
	v[2] = feed_id(x->resource_id);
	v[3] = feed_id(x->scope_id);
	for (int i = 0; i < 4; i++)
		v[4 + i] = feed_id(ids[i]);
	v[8] = feed_id((uint64_t)f->period);
	v[9] = feed_id(ids[4]);
	v[10] = feed_id(ids[5]);
	v[11] = feed_number(lifted_process(x->p, x->resource, lifted, lifted_count));
	if (labelled)
		v[12] = feed_bytes(writer_keep(w, buf_view(&w->bytes)));
	writer_put_odd_service(w, x->resource, &x->p->scopes[x->scope], lifted, lifted_count);
	return id;
}

static uint32_t series_of(struct putting *x, const struct attribute_index *lifted,
			  uint32_t lifted_count)
{
	struct series_key key = { x->tenant,     x->resource_hash,
				  x->scope_hash, &x->p->profiles[x->profile],
				  lifted,        lifted_count };
	struct hash128 hash = series_hash(&x->w->n, &key);
	uint32_t id = writer_find(x->w, KIND_SERIES, hash);

	return id || x->w->failed ? id : add_series(x, hash, lifted, lifted_count);
}

/* The series of a sample: up to v1.9 it carries what is its resource's since. */
static uint32_t sample_series(struct putting *x, const struct sample *s)
{
	uint32_t count = lifted_of(&x->lifted, x->resource, s, &x->w->arena);

	return count ? series_of(x, x->lifted.at, count) : x->series;
}

/* ---- buckets ---- */

static void load_bucket(struct store_writer *w, struct bucket_state *b, uint64_t bucket)
{
	sqlite3_stmt *s = statement(w, GET_BUCKET);
	bool row;

	*b = (struct bucket_state){ .bucket = bucket, .first_seq = UINT64_MAX };
	db_bind_u64(s, 1, bucket);
	if (!db_step(w->db, s, &row, w->err, "reading a bucket")) {
		writer_fail(w, NULL);
		return;
	}
	if (!row)
		return;
	b->longest = db_u64(s, 0);
	b->first_seq = db_u64(s, 1);
	b->last_seq = db_u64(s, 2);
	b->n = db_u64(s, 3);
	sqlite3_reset(s);
}

static struct bucket_state *bucket_state(struct store_writer *w, uint64_t bucket)
{
	for (uint32_t i = w->bucket_count; i-- > 0;)
		if (w->buckets[i].bucket == bucket)
			return &w->buckets[i];
	if (w->bucket_count == BUCKETS_MOST) {
		writer_flush_buckets(w);
		w->bucket_count = 0;
	}
	load_bucket(w, &w->buckets[w->bucket_count], bucket);
	return &w->buckets[w->bucket_count++];
}

void writer_flush_buckets(struct store_writer *w)
{
	sqlite3_stmt *s = statement(w, PUT_BUCKET);

	for (uint32_t i = 0; i < w->bucket_count && !w->failed; i++) {
		struct bucket_state *b = &w->buckets[i];

		if (!b->dirty)
			continue;
		db_bind_u64(s, 1, b->bucket);
		db_bind_u64(s, 2, b->longest);
		db_bind_u64(s, 3, b->first_seq);
		db_bind_u64(s, 4, b->last_seq);
		db_bind_u64(s, 5, b->n);
		writer_run(w, PUT_BUCKET, "noting a bucket");
		b->dirty = false;
	}
}

static void note_bucket(struct store_writer *w, const struct sample_row *r)
{
	struct bucket_state *b = bucket_state(w, r->bucket);

	b->dirty = true;
	b->n++;
	if (r->span > b->longest)
		b->longest = r->span;
	if (r->seq < b->first_seq)
		b->first_seq = r->seq;
	if (r->seq > b->last_seq)
		b->last_seq = r->seq;
}

/* ---- samples ---- */

static int by_bucket(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;

	if (x->bucket != y->bucket)
		return x->bucket < y->bucket ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* As they nearly always come: the times of a request lie close together. */
static bool are_sorted(const struct sample_row *rows, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (by_bucket(&rows[i - 1], &rows[i]) > 0)
			return false;
	return true;
}

static void add_samples(struct putting *x)
{
	if (!are_sorted(x->rows, x->row_count))
		qsort(x->rows, x->row_count, sizeof(*x->rows), by_bucket);
	for (uint32_t i = 0; i < x->row_count && !x->w->failed; i++)
		note_bucket(x->w, &x->rows[i]);
	writer_put_chunks(x->w, x->rows, x->row_count);
}

static void put_note(struct store_writer *w, uint64_t seq, enum message_kind a, uint32_t a_index,
		     enum message_kind b)
{
	sqlite3_stmt *s = statement(w, ADD_NOTE);

	if (!w->n.noted[a] && !w->n.noted[b])
		return;
	buf_reset(&w->notes);
	notes_put(&w->notes, w->p, a, a_index, 0);
	if (b != a)
		notes_put(&w->notes, w->p, b, 0, 0);
	if (!w->notes.len)
		return;
	db_bind_u64(s, 1, seq);
	db_bind_blob(s, 2, buf_view(&w->notes));
	writer_run(w, ADD_NOTE, "adding a note");
}

/* Fills in the rows of the open profile's samples; [*first, *last] are the times t0 that they have.
 */
static void collect_samples(struct putting *x, uint64_t profile_seq, uint64_t *first,
			    uint64_t *last)
{
	const struct profile *f = &x->p->profiles[x->profile];

	*first = f->samples.count ? UINT64_MAX : f->time_unix_nano;
	*last = f->samples.count ? 0 : f->time_unix_nano;
	for (uint32_t i = 0; i < f->samples.count && !x->w->failed; i++) {
		uint32_t index = f->samples.first + i;
		const struct sample *s = &x->p->samples[index];
		struct sample_row *r = &x->rows[x->row_count++];
		uint64_t t0, t1;

		sample_times(x->p, f, s, &t0, &t1);
		*r = (struct sample_row){
			.bucket = t0 / STORE_BUCKET_NS,
			.dt = t0 % STORE_BUCKET_NS,
			.series = sample_series(x, s),
			.seq = profile_seq + 1 + i,
			.sample = index,
			.profile = x->profile,
			.stack = writer_stack(x->w, s->stack.v),
			.attrset = writer_list(x->w, s->attributes),
			.link = s->link.v ? writer_link(x->w, s->link.v) : 0,
			.span = t1 - t0,
		};
		put_note(x->w, r->seq, MESSAGE_SAMPLE, index, MESSAGE_SAMPLE);
		*first = t0 < *first ? t0 : *first;
		*last = t0 > *last ? t0 : *last;
	}
}

/* ---- coverage ---- */

/* What an agent of ours says of its own watching: a profile's attributes flametap.NAME
 * (agent/report/message.h) become rows too. */
static void put_coverage(struct store_writer *w, const struct resource_profiles *r,
			 const struct profile *f, uint64_t seq)
{
	sqlite3_stmt *s = statement(w, ADD_COVERAGE);

	for (uint32_t i = 0; i < f->attributes.count && !w->failed; i++) {
		uint32_t attribute = w->p->attribute_refs[f->attributes.first + i].v;
		uint32_t host, reason;
		struct str name;
		int64_t n;

		if (!report_of(w->p, &w->p->dict.attributes[attribute], &name, &n))
			continue;
		host = writer_text(w, report_host(r));
		reason = writer_text(w, name);
		sqlite3_bind_int64(s, 1, host);
		db_bind_u64(s, 2, f->time_unix_nano);
		db_bind_u64(s, 3, f->time_unix_nano + f->duration_nano);
		sqlite3_bind_int64(s, 4, reason);
		sqlite3_bind_int64(s, 5, n);
		db_bind_u64(s, 6, seq);
		writer_run(w, ADD_COVERAGE, "adding coverage");
	}
}

/* ---- profiles ---- */

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* One series is a number; several are their varints. */
static struct feed_value series_value(struct putting *x, const struct sample_row *rows,
				      uint32_t count)
{
	struct store_writer *w = x->w;
	uint32_t *ids, kept = 0;

	if (!count)
		return feed_number(x->series);
	ids = arena_alloc_array(&w->arena, count, sizeof(*ids));
	for (uint32_t i = 0; i < count; i++)
		if (!kept || ids[kept - 1] != rows[i].series)
			ids[kept++] = rows[i].series;
	qsort(ids, kept, sizeof(*ids), by_number);
	if (ids[0] == ids[kept - 1])
		return feed_number(ids[0]);
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < kept; i++)
		if (!i || ids[i] != ids[i - 1])
			codec_put(&w->bytes, ids[i]);
	return feed_bytes(writer_keep(w, buf_view(&w->bytes)));
}

static struct feed_value unless(uint64_t v, uint64_t usual)
{
	return v == usual ? feed_id(0) : feed_number(v);
}

static int64_t floor_us(int64_t ns)
{
	return ns / 1000 - (ns % 1000 < 0);
}

static void put_profile(struct putting *x, uint32_t index)
{
	const struct profile *f = &x->p->profiles[index];
	struct store_writer *w = x->w;
	struct feed_value *v;
	uint64_t seq = w->now.next_seq, first, last;
	const struct sample_row *rows = x->rows + x->row_count;
	uint32_t attributes;
	int64_t first_us;

	x->profile = index;
	if (!x->first)
		x->first = f;
	w->now.next_seq += 1 + (uint64_t)f->samples.count;
	x->series = series_of(x, NULL, 0);
	collect_samples(x, seq, &first, &last);
	attributes = writer_list(w, f->attributes);
	if (w->failed)
		return;
	first_us = floor_us((int64_t)(first - f->time_unix_nano));
	v = writer_row(w, FED_PROFILE);
	v[0] = feed_number(seq);
	v[1] = series_value(x, rows, f->samples.count);
	v[2] = feed_number(f->samples.count);
	v[3] = unless(f->time_unix_nano, x->first->time_unix_nano);
	v[4] = unless(f->duration_nano, x->first->duration_nano);
	if (!id_is_zero(f->profile_id, sizeof(f->profile_id)))
		v[5] = feed_bytes(str_from(f->profile_id, sizeof(f->profile_id)));
	v[6] = feed_id(attributes);
	v[7] = feed_id(f->dropped_attributes_count);
	/* In whole microseconds, outwards: where to look for the samples. */
	v[8] = feed_number((uint64_t)first_us);
	v[9] = feed_number((uint64_t)(floor_us((int64_t)(last - f->time_unix_nano)) - first_us));
	if (f->original_payload_format.len)
		v[10] = feed_text(f->original_payload_format);
	v[11] = feed_blob(f->original_payload);
	put_note(w, seq, MESSAGE_PROFILE, index, MESSAGE_PROFILE);
	put_coverage(w, x->resource, f, seq);
	w->now.facts.profiles++;
}

/* ---- the request ---- */

static uint32_t kept_profiles(const struct profiles *p, struct range profiles)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < profiles.count; i++)
		kept += !p->profiles[profiles.first + i].refused;
	return kept;
}

static void put_scope(struct putting *x, uint32_t index)
{
	struct range profiles = x->p->scopes[index].profiles;

	x->scope = index;
	x->scope_id = writer_scope(x->w, index, &x->scope_hash);
	codec_put(&x->layout, x->scope_id);
	codec_put(&x->layout, kept_profiles(x->p, profiles));
	for (uint32_t i = 0; i < profiles.count && !x->w->failed; i++)
		if (!x->p->profiles[profiles.first + i].refused)
			put_profile(x, profiles.first + i);
}

static void put_resource(struct putting *x, uint32_t index)
{
	struct range scopes = x->p->resources[index].scopes;

	x->resource = &x->p->resources[index];
	x->resource_id = writer_resource(x->w, index, &x->resource_hash);
	codec_put(&x->layout, x->resource_id);
	codec_put(&x->layout, scopes.count);
	for (uint32_t i = 0; i < scopes.count && !x->w->failed; i++)
		put_scope(x, scopes.first + i);
}

/* varint resources; each: varint row, varint scopes; each: varint row, varint profiles */
static void add_request(struct putting *x, const struct store_request *r, uint64_t seq,
			uint64_t profiles)
{
	struct store_writer *w = x->w;
	sqlite3_stmt *s = statement(w, ADD_REQUEST);

	if (w->failed)
		return;
	db_bind_u64(s, 1, seq);
	db_bind_u64(s, 2, r->arrived_unix_ns);
	sqlite3_bind_blob(s, 3, &r->hash, sizeof(r->hash), SQLITE_STATIC);
	sqlite3_bind_int(s, 4, x->p->source_version);
	db_bind_id(s, 5, x->p->unknown_field_count);
	db_bind_id(s, 6, x->p->moved_entries);
	db_bind_u64(s, 7, profiles);
	db_bind_u64(s, 8, x->first ? x->first->time_unix_nano : 0);
	db_bind_u64(s, 9, x->first ? x->first->duration_nano : 0);
	db_bind_blob(s, 10, buf_view(&x->layout));
	writer_run(w, ADD_REQUEST, "adding a request");
	put_note(w, seq, MESSAGE_REQUEST, 0, MESSAGE_DICTIONARY);
}

void writer_put_request(struct store_writer *w, const struct store_request *r)
{
	const struct profiles *p = r->profiles;
	struct putting x = { .w = w, .p = p };
	uint64_t seq = w->now.next_seq++, profiles = w->now.facts.profiles;
	struct str tenant = str_cstr(r->tenant ? r->tenant : w->options.tenant);

	arena_reset(&w->arena);
	ident_begin(&w->n, p, &w->arena);
	w->p = p;
	ident_code(&w->n);
	x.rows = arena_alloc_array(&w->arena, p->sample_count, sizeof(*x.rows));
	assert(x.rows);
	lifted_begin(&x.lifted, p, &w->arena);
	buf_init(&x.layout, 0);
	x.tenant = ident_text(tenant);
	x.tenant_id = writer_text(w, tenant);
	codec_put(&x.layout, p->resource_count);
	for (uint32_t i = 0; i < p->resource_count && !w->failed; i++)
		put_resource(&x, i);
	add_request(&x, r, seq, w->now.facts.profiles - profiles);
	add_samples(&x);
	writer_put_sample_keys(w, &x.lifted);
	writer_flush(w);
	w->now.facts.samples += x.row_count;
	buf_release(&x.layout);
	w->p = NULL;
}
