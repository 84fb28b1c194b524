#include "store/clickhouse/encode_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"

enum {
	KNOWN_BYTES = 8 << 20,
	/* Bases of several exporters are kept apart: each takes its own out of SLOTS slices of time
	   in turn. */
	SLOTS = 256,
	SLICE_BITS = 16, /* ns; a request of so many rows fits into one */
};

const char ch_insert_links[] = "INSERT INTO flametap_links (date, trace_id, span_id, link, "
			       "service, t0, t1) FORMAT RowBinary";

const char ch_insert_dictionary[] =
	"INSERT INTO flametap_dictionary (kind, id_high, id_low, hash_hi, seen, refs_high, "
	"refs_low, numbers, texts, notes) FORMAT RowBinary";

const char ch_insert_samples[] =
	"INSERT INTO flametap_samples (date, request, base, place, bucket, t0_high, t0_low, "
	"span_ms, series, stack_high, stack_low, attributes_high, attributes_low, link, "
	"value_high, value_low, shape, `values`, offsets, times) FORMAT RowBinary";

const char ch_insert_requests[] =
	"INSERT INTO flametap_requests (date, seq, last_seq, request, hash, arrived, t_first, "
	"t_last, samples, version, unknown_fields, moved, layout, notes, note_seq, note, "
	"`profile.place`, `profile.samples`, `profile.time`, `profile.duration`, "
	"`profile.first_ms`, `profile.last_ms`, `profile.series`, `profile.attributes`, "
	"`profile.dropped`, `profile.uid`, `profile.payload_format`, `profile.payload`, "
	"`coverage.host`, `coverage.t0`, `coverage.t1`, `coverage.reason`, `coverage.n`) FORMAT "
	"RowBinary";

uint16_t ch_day(uint64_t unix_ns)
{
	uint64_t day = unix_ns / (86400 * SECOND_NS);

	return day > UINT16_MAX ? UINT16_MAX : (uint16_t)day;
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

void ch_note_of(struct put *x, enum message_kind message, uint32_t index, uint64_t place)
{
	ch_put_notes(x, message, index);
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

/* Of equal ones side by side only the first stays. */
static uint32_t without_neighbours(uint64_t *ids, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!i || ids[i] != ids[kept - 1])
			ids[kept++] = ids[i];
	return kept;
}

static void column_series(struct put *x, uint64_t *ids, uint32_t count)
{
	uint32_t kept = without_neighbours(ids, count);

	qsort(ids, kept, sizeof(*ids), by_number); /* mostly it is one */
	kept = without_neighbours(ids, kept);
	row_count(&x->columns[PROFILE_SERIES].bytes, kept);
	buf_append(&x->columns[PROFILE_SERIES].bytes, ids, kept * sizeof(*ids));
	x->columns[PROFILE_SERIES].count++;
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

/* Whole milliseconds from one time to another, down or up; the last numbers say: that far or
 * farther. */
static int32_t ms_between(uint64_t from, uint64_t to, bool up)
{
	bool back = to < from;
	uint64_t ns = back ? from - to : to - from;
	uint64_t ms = ns / MILLI_NS + (ns % MILLI_NS && up != back);

	if (ms > INT32_MAX)
		return back ? INT32_MIN : INT32_MAX;
	return back ? -(int32_t)ms : (int32_t)ms;
}

static void column_extent(struct put *x, uint64_t place, uint64_t time, uint64_t first,
			  uint64_t last)
{
	column_u32(x, PROFILE_SEQ, (uint32_t)place);
	column_u32(x, PROFILE_FIRST, (uint32_t)ms_between(time, first, false));
	column_u32(x, PROFILE_LAST, (uint32_t)ms_between(time, last, true));
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
	x->series = series[0] = ch_put_series(x, NULL, 0);
	ch_note_of(x, MESSAGE_PROFILE, index, place);
	for (uint32_t i = 0; i < f->samples.count; i++) {
		uint64_t t0;

		series[i] = ch_put_sample(x, f->samples.first + i, place + 1 + i, &t0);
		first = t0 < first ? t0 : first;
		last = t0 > last ? t0 : last;
	}
	if (!f->samples.count)
		first = last = f->time_unix_nano;
	column_extent(x, place, f->time_unix_nano, first, last);
	column_u32(x, PROFILE_SAMPLES, f->samples.count);
	column_u64(x, PROFILE_TIME, f->time_unix_nano);
	column_u64(x, PROFILE_DURATION, f->duration_nano);
	column_series(x, series, f->samples.count ? f->samples.count : 1);
	column_u64(x, PROFILE_ATTRIBUTES, ch_put_list(x, f->attributes));
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

	ch_put_scope_entry(x, index);
	column_u64(x, LAYOUT, x->scope_id);
	column_u64(x, LAYOUT, kept_profiles(x->p, profiles));
	for (uint32_t i = 0; i < profiles.count; i++)
		if (!x->p->profiles[profiles.first + i].refused)
			put_profile(x, profiles.first + i);
}

static void put_resource(struct put *x, uint32_t index)
{
	struct range scopes = x->p->resources[index].scopes;

	x->resource = &x->p->resources[index];
	ch_put_resource_entry(x, index);
	column_u64(x, LAYOUT, x->resource_id);
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
	ch_put_notes(x, MESSAGE_REQUEST, 0);
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
	if (!e->first_day)
		e->first_day = e->today;
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
	ch_put_keys(&x);
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
	e->pages = calloc(CH_KIND_SLOTS, sizeof(*e->pages));
	assert(e->pages);
	known_init(&e->known, KNOWN_BYTES);
	arena_init(&e->arena, 64 << 10, 0);
	buf_init(&e->dictionary, 0);
	buf_init(&e->links, 0);
	buf_init(&e->samples, 0);
	buf_init(&e->requests, 0);
}

void ch_encoder_writer(struct ch_encoder *e, uint32_t writer)
{
	e->writer = writer;
	e->pages_used = e->first_day = 0;
	memset(e->pages, 0, CH_KIND_SLOTS * sizeof(*e->pages));
	known_clear(&e->known);
}

bool ch_encoder_is_spent(const struct ch_encoder *e)
{
	return e->pages_used > CH_PAGES_MOST;
}

void ch_encoder_release(struct ch_encoder *e)
{
	free(e->pages);
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
