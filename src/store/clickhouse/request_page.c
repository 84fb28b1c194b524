#include "store/clickhouse/request_page.h"

#include <stdlib.h>
#include <string.h>

#include "store/schema/schema.h"

enum {
	SAMPLES_MOST = 1 << 26, /* of a request: more is damage, no request is that large */
	AHEAD_MOST = 4096,
	REQUESTS_FIRST = 8,
	REQUESTS_MOST = 256,
	PLACES_MOST = 20000, /* of a page with more requests than one */
	SMALL = 1 << 19,     /* bytes of a page after which the next may have twice as many */
	LARGE = 2 << 20,     /* half as many */
};

/* A request that is to come. Two exporters may have given the same number, if rarely. */
struct ahead {
	uint64_t seq, request, places;
};

struct ch_request_page {
	uint64_t asof, forgotten;

	struct ahead ahead[AHEAD_MOST], behind; /* which the first of them comes after */
	uint32_t ahead_count, ahead_at;

	struct arena arena; /* of what follows */
	struct ch_kept_request *rows;
	uint32_t count, next;
	const struct ch_kept_request *last; /* that was given */
	uint32_t most; /* how many the next page may have, by the bytes of this one */
	size_t bytes;
};

void ch_request_page_free(struct ch_request_page *page)
{
	if (!page)
		return;
	arena_release(&page->arena);
	free(page);
}

static struct ch_request_page *page_of(struct ch_snapshot *snap)
{
	if (!snap->page) {
		snap->page = calloc(1, sizeof(*snap->page));
		assert(snap->page);
		arena_init(&snap->page->arena, 64 << 10, 0);
		snap->page->most = REQUESTS_FIRST;
	}
	return snap->page;
}

/* ---- which come ---- */

static bool ask_ahead(struct ch_snapshot *snap, struct err *err)
{
	struct ch_request_page *page = snap->page;
	struct buf *sql = &snap->sql;
	struct codec c;

	page->ahead_count = page->ahead_at = 0;
	buf_reset(sql);
	buf_printf(sql,
		   "SELECT seq, request, last_seq FROM flametap_requests WHERE seq >= %llu AND "
		   "(seq > %llu OR request > %llu) AND last_seq <= %llu ORDER BY seq, request "
		   "LIMIT %d FORMAT RowBinary",
		   (unsigned long long)page->behind.seq, (unsigned long long)page->behind.seq,
		   (unsigned long long)page->behind.request, (unsigned long long)page->asof,
		   AHEAD_MOST);
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c) && page->ahead_count < AHEAD_MOST) {
		struct ahead *a = &page->ahead[page->ahead_count];

		a->seq = row_get(&c, 8);
		a->request = row_get(&c, 8);
		a->places = row_get(&c, 8) - a->seq + 1;
		if (!page->ahead_count || a[-1].seq != a->seq || a[-1].request != a->request)
			page->ahead_count++;
	}
	if (page->ahead_count)
		page->behind = page->ahead[page->ahead_count - 1];
	return ch_answer_ended(&c, "requests", err);
}

/* How many of those ahead make the next page. */
static uint32_t choose(const struct ch_request_page *page)
{
	uint32_t n = 0, left = page->ahead_count - page->ahead_at;
	uint64_t places = 0;

	while (n < left && n < page->most) {
		places += page->ahead[page->ahead_at + n].places;
		if (n && places > PLACES_MOST)
			break;
		n++;
	}
	return n;
}

/* ---- their rows ---- */

static const void *read_array(struct arena *arena, struct codec *c, size_t size, uint32_t *count)
{
	uint32_t n = row_get_count(c, size);
	struct str bytes = row_get_fixed(c, (size_t)n * size);
	void *copy = arena_alloc_array(arena, (size_t)n + 1, size);

	if (bytes.len)
		memcpy(copy, bytes.ptr, bytes.len);
	*count = n;
	return copy;
}

static const struct str *read_texts(struct arena *arena, struct codec *c, uint32_t *count)
{
	uint32_t n = row_get_count(c, 1);
	struct str *texts = arena_alloc_array(arena, (size_t)n + 1, sizeof(*texts));

	for (uint32_t i = 0; i < n; i++)
		texts[i] = str_dup(arena, row_get_str(c));
	*count = n;
	return texts;
}

static const uint64_t *read_series(struct arena *arena, struct codec *c, uint32_t *count)
{
	uint32_t n = row_get_count(c, 1);
	uint64_t *first = arena_zalloc(arena, ((size_t)n + 1) * sizeof(*first));

	for (uint32_t i = 0; i < n && !c->failed; i++) {
		uint32_t each = row_get_count(c, 8);
		struct codec ids = codec_of(row_get_fixed(c, (size_t)each * 8));

		first[i] = each ? row_get(&ids, 8) : 0;
	}
	*count = n;
	return first;
}

#define REQUEST_COLUMNS                                                                      \
	"seq, last_seq, toUInt16(date), request, t_first, t_last, version, unknown_fields, " \
	"moved, layout, notes, note_seq, note, arrayMap(x -> seq + x, `profile.place`), "    \
	"`profile.samples`, `profile.time`, "                                                \
	"`profile.duration`, `profile.series`, `profile.attributes`, `profile.dropped`, "    \
	"`profile.uid`, `profile.payload_format`, `profile.payload`"

static void read_row(struct arena *arena, struct codec *c, struct ch_kept_request *r)
{
	struct ch_profile_columns *p = &r->profiles;
	uint32_t n[10];

	r->seq = row_get(c, 8);
	r->last_seq = row_get(c, 8);
	r->date = row_get(c, 2);
	r->request = row_get(c, 8);
	r->t_first = row_get(c, 8);
	r->t_last = row_get(c, 8);
	r->version = (uint8_t)row_get(c, 1);
	r->unknown_fields = (uint32_t)row_get(c, 4);
	r->moved = (uint8_t)row_get(c, 1);
	r->layout = read_array(arena, c, 8, &r->layout_count);
	r->notes = str_dup(arena, row_get_str(c));
	r->note_seq = read_array(arena, c, 8, &r->note_count);
	r->note = read_texts(arena, c, &n[0]);
	p->seq = read_array(arena, c, 8, &p->count);
	p->samples = read_array(arena, c, 4, &n[1]);
	p->time = read_array(arena, c, 8, &n[2]);
	p->duration = read_array(arena, c, 8, &n[3]);
	p->series = read_series(arena, c, &n[4]);
	p->attributes = read_array(arena, c, 8, &n[5]);
	p->dropped = read_array(arena, c, 4, &n[6]);
	p->uid = read_array(arena, c, 16, &n[7]);
	p->payload_format = read_texts(arena, c, &n[8]);
	p->payload = read_texts(arena, c, &n[9]);
	r->damaged = n[0] != r->note_count || r->last_seq < r->seq ||
		     r->last_seq - r->seq > SAMPLES_MOST;
	for (unsigned i = 1; i < ARRAY_LEN(n); i++)
		r->damaged |= n[i] != p->count;
}

static bool comes_before(const struct ahead *a, const struct ch_kept_request *r)
{
	return a->seq < r->seq || (a->seq == r->seq && a->request < r->request);
}

/* Is it one of those chosen? One that retention took is passed over, and so is what came late. */
static bool is_chosen(const struct ch_request_page *page, uint32_t *at, uint32_t end,
		      const struct ch_kept_request *r)
{
	while (*at < end && comes_before(&page->ahead[*at], r))
		++*at;
	if (*at == end || page->ahead[*at].seq != r->seq || page->ahead[*at].request != r->request)
		return false;
	++*at;
	return true;
}

static bool ask_rows(struct ch_snapshot *snap, uint32_t chosen, struct err *err)
{
	struct ch_request_page *page = snap->page;
	uint32_t at = page->ahead_at, end = at + chosen;
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT " REQUEST_COLUMNS " FROM flametap_requests WHERE seq >= %llu AND "
		   "seq <= %llu AND last_seq <= %llu ORDER BY seq, request FORMAT RowBinary",
		   (unsigned long long)page->ahead[at].seq,
		   (unsigned long long)page->ahead[end - 1].seq, (unsigned long long)page->asof);
	if (!ch_ask(snap, &c, err))
		return false;
	page->bytes += snap->answer.len;
	page->rows = arena_zalloc(&page->arena, chosen * sizeof(*page->rows));
	while (codec_more(&c) && page->count < chosen) {
		struct ch_kept_request *r = &page->rows[page->count];

		read_row(&page->arena, &c, r);
		page->count += is_chosen(page, &at, end, r);
	}
	page->ahead_at = end;
	return ch_answer_ended(&c, "requests", err);
}

/* ---- their samples ---- */

static void keep_sample(struct arena *arena, struct ch_kept_request *r, const struct source_row *x)
{
	int64_t *values = arena_alloc_array(arena, x->value_count, sizeof(*values));
	uint64_t *times = arena_alloc_array(arena, x->timestamp_count, sizeof(*times));

	if (x->value_count)
		memcpy(values, x->values, x->value_count * sizeof(*values));
	if (x->timestamp_count)
		memcpy(times, x->timestamps, x->timestamp_count * sizeof(*times));
	r->samples[x->sample - r->seq] =
		(struct rebuild_sample){ true,   x->stack, x->attributes,  x->link,
					 values, times,    x->value_count, x->timestamp_count };
}

/* Rows come by number, and those of one exporter do not overlap. */
static struct ch_kept_request *row_of(struct ch_request_page *page, uint64_t request, uint64_t seq)
{
	uint32_t low = 0, high = page->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (page->rows[middle].seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	while (low--) {
		struct ch_kept_request *r = &page->rows[low];

		if (r->request == request && seq <= r->last_seq)
			return r->damaged ? NULL : r;
	}
	return NULL;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
static uint64_t greatest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What all samples of the page's rows have in common. */
static void put_samples_of(struct ch_snapshot *snap, struct buf *sql)
{
	const struct ch_request_page *page = snap->page;
	const char *comma = "";
	uint64_t t_first = UINT64_MAX, t_last = 0, day_first = UINT64_MAX, day_last = 0;

	for (uint32_t i = 0; i < page->count; i++) {
		const struct ch_kept_request *r = &page->rows[i];

		t_first = least(t_first, r->t_first);
		t_last = greatest(t_last, r->t_last);
		day_first = least(day_first, r->date);
		day_last = greatest(day_last, r->date);
	}
	buf_printf(sql,
		   "date >= toDate(%llu) AND date <= toDate(%llu) AND bucket >= %llu AND bucket <= "
		   "%llu "
		   "AND base >= %llu AND base <= %llu AND request IN (",
		   (unsigned long long)day_first, (unsigned long long)day_last,
		   (unsigned long long)(t_first / STORE_BUCKET_NS),
		   (unsigned long long)(t_last / STORE_BUCKET_NS),
		   (unsigned long long)page->rows[0].seq,
		   (unsigned long long)page->rows[page->count - 1].seq);
	for (uint32_t i = 0; i < page->count; i++) {
		buf_str(sql, str_cstr(comma));
		buf_u64(sql, page->rows[i].request);
		comma = ",";
	}
	buf_char(sql, ')');
}

static bool read_samples(struct ch_snapshot *snap, uint64_t from, uint64_t to, struct err *err)
{
	struct ch_request_page *page = snap->page;
	struct buf *sql = &snap->sql;
	struct source_row x;
	struct codec c;

	buf_reset(sql);
	buf_printf(sql, "SELECT request, %s FROM flametap_samples WHERE ", ch_sample_columns);
	put_samples_of(snap, sql);
	buf_printf(sql, " AND place >= %llu AND place < %llu FORMAT RowBinary",
		   (unsigned long long)from, (unsigned long long)to);
	if (!ch_ask(snap, &c, err))
		return false;
	page->bytes += snap->answer.len;
	while (codec_more(&c)) {
		uint64_t request = row_get(&c, 8);
		struct ch_kept_request *r;

		if (!ch_read_sample(snap, &c, &x))
			break;
		r = row_of(page, request, x.sample);
		if (r)
			keep_sample(&page->arena, r, &x);
	}
	return ch_answer_ended(&c, "samples", err);
}

static bool ask_samples(struct ch_snapshot *snap, struct err *err)
{
	struct ch_request_page *page = snap->page;
	uint64_t most = 0;

	for (uint32_t i = 0; i < page->count; i++) {
		struct ch_kept_request *r = &page->rows[i];
		uint64_t places = r->damaged ? 0 : r->last_seq - r->seq + 1;

		r->samples = arena_zalloc(&page->arena, places * sizeof(*r->samples));
		most = greatest(most, places);
	}
	for (uint64_t from = 0; from < most; from += CH_PAGE_ROWS)
		if (!read_samples(snap, from, from + CH_PAGE_ROWS, err))
			return false;
	return true;
}

/* ---- what they refer to ---- */

/* Kind by kind from the samples down. Whoever needs a missing entry reports it. */
struct wanted {
	struct id_list stacks, links, series, layout, locations, functions, mappings, sets;
};

static void wanted_release(struct wanted *w)
{
	free(w->stacks.ids);
	free(w->links.ids);
	free(w->series.ids);
	free(w->layout.ids);
	free(w->locations.ids);
	free(w->functions.ids);
	free(w->mappings.ids);
	free(w->sets.ids);
}

static struct ch_wanted wanted_of(unsigned kind, const struct id_list *ids)
{
	return (struct ch_wanted){ kind, ids->ids, ids->count };
}

static const struct ch_entry *if_there(const struct ch_snapshot *snap, unsigned kind, uint64_t id)
{
	const struct idmap_slot *slot = id ? idmap_find(&snap->entries[ch_slot(kind)], id) : NULL;

	return slot ? slot->ptr : NULL;
}

static void want_row(const struct ch_kept_request *r, struct wanted *w)
{
	uint64_t places = r->last_seq - r->seq + 1;

	for (uint64_t i = 0; i < places; i++) {
		const struct rebuild_sample *k = &r->samples[i];

		if (!k->there)
			continue;
		id_list_add(&w->stacks, k->stack);
		id_list_add(&w->links, k->link);
		id_list_add(&w->sets, k->attributes);
	}
	for (uint32_t i = 0; i < r->profiles.count; i++) {
		id_list_add(&w->series, r->profiles.series[i]);
		id_list_add(&w->sets, r->profiles.attributes[i]);
	}
	/* Resources and scopes stand there, between numbers of what they have. */
	for (uint32_t i = 0; i < r->layout_count; i++)
		id_list_add(&w->layout, r->layout[i]);
}

static void keep_those_there(const struct ch_snapshot *snap, unsigned kind, struct id_list *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++)
		if (if_there(snap, kind, l->ids[i]))
			l->ids[kept++] = l->ids[i];
	l->count = kept;
}

static void want_locations(const struct ch_snapshot *snap, struct wanted *w)
{
	for (size_t i = 0; i < w->stacks.count; i++) {
		const struct ch_entry *e = if_there(snap, KIND_STACK, w->stacks.ids[i]);
		int64_t leaf = (int64_t)e->ref_count - ch_number(e, 1);

		leaf = leaf < 0 ? 0 : leaf;
		for (int64_t k = 0; k < leaf && k < e->ref_count; k++)
			id_list_add(&w->locations, e->refs[k]);
		for (int64_t k = leaf; k < e->ref_count; k++) {
			const struct ch_entry *stem = if_there(snap, CH_KIND_STEM, e->refs[k]);

			for (uint32_t j = 0; stem && j < stem->ref_count; j++)
				id_list_add(&w->locations, stem->refs[j]);
		}
	}
}

static void want_code(const struct ch_snapshot *snap, struct wanted *w)
{
	for (size_t i = 0; i < w->locations.count; i++) {
		const struct ch_entry *e = if_there(snap, KIND_LOCATION, w->locations.ids[i]);

		id_list_add(&w->mappings, ch_ref(e, 0));
		id_list_add(&w->sets, ch_ref(e, 1));
		for (uint32_t k = 2; e && k < e->ref_count; k++)
			id_list_add(&w->functions, e->refs[k]);
	}
}

static void want_sets(const struct ch_snapshot *snap, struct wanted *w)
{
	for (size_t i = 0; i < w->mappings.count; i++)
		id_list_add(&w->sets, ch_ref(if_there(snap, KIND_MAPPING, w->mappings.ids[i]), 0));
	for (size_t i = 0; i < w->layout.count; i++) {
		uint64_t id = w->layout.ids[i];

		id_list_add(&w->sets, ch_ref(if_there(snap, KIND_RESOURCE, id), 0));
		id_list_add(&w->sets, ch_ref(if_there(snap, KIND_SCOPE, id), 0));
	}
}

static bool fetch_wanted(struct ch_snapshot *snap, struct wanted *w, struct err *err)
{
	struct ch_wanted first[] = { wanted_of(KIND_STACK, &w->stacks),
				     wanted_of(KIND_LINK, &w->links),
				     wanted_of(KIND_SERIES, &w->series) };
	struct ch_wanted second[] = { { 0 },
				      wanted_of(KIND_RESOURCE, &w->layout),
				      wanted_of(KIND_SCOPE, &w->layout) };
	struct ch_wanted third[2];

	if (!ch_fetch_kinds(snap, first, ARRAY_LEN(first), err))
		return false;
	keep_those_there(snap, KIND_STACK, &w->stacks);
	if (!ch_fetch_stems(snap, w->stacks.ids, w->stacks.count, err))
		return false;
	want_locations(snap, w);
	second[0] = wanted_of(KIND_LOCATION, &w->locations);
	if (!ch_fetch_kinds(snap, second, ARRAY_LEN(second), err))
		return false;
	want_code(snap, w);
	third[0] = wanted_of(KIND_FUNCTION, &w->functions);
	third[1] = wanted_of(KIND_MAPPING, &w->mappings);
	if (!ch_fetch_kinds(snap, third, ARRAY_LEN(third), err))
		return false;
	want_sets(snap, w);
	return ch_fetch(snap, KIND_ATTRSET, w->sets.ids, w->sets.count, err);
}

static bool fetch_entries(struct ch_snapshot *snap, struct err *err)
{
	struct ch_request_page *page = snap->page;
	struct wanted w = { 0 };
	bool ok;

	ch_trim(snap);
	for (uint32_t i = page->next; i < page->count; i++)
		if (!page->rows[i].damaged)
			want_row(&page->rows[i], &w);
	ok = fetch_wanted(snap, &w, err);
	wanted_release(&w);
	page->forgotten = snap->forgotten;
	return ok;
}

/* ---- page by page ---- */

static void set_most(struct ch_request_page *page)
{
	if (page->bytes > LARGE)
		page->most = page->most > 1 ? page->most / 2 : 1;
	else if (page->bytes < SMALL && page->most < REQUESTS_MOST)
		page->most *= 2;
}

static bool load(struct ch_snapshot *snap, struct err *err)
{
	struct ch_request_page *page = snap->page;

	arena_reset(&page->arena);
	page->count = page->next = 0;
	page->bytes = 0;
	if (!ask_rows(snap, choose(page), err))
		return false;
	if (page->count && !(ask_samples(snap, err) && fetch_entries(snap, err)))
		return false;
	set_most(page);
	return true;
}

static void start_behind(struct ch_request_page *page, uint64_t after, uint64_t asof)
{
	page->count = page->next = page->ahead_count = page->ahead_at = 0;
	page->behind = (struct ahead){ .seq = after, .request = UINT64_MAX };
	page->asof = asof;
}

/* Until there is a row to give; none: that was all. */
static bool turn(struct ch_snapshot *snap, struct err *err)
{
	struct ch_request_page *page = snap->page;

	while (page->next == page->count) {
		if (page->ahead_at == page->ahead_count && !ask_ahead(snap, err))
			return false;
		if (!page->ahead_count)
			return true;
		if (!load(snap, err))
			return false;
	}
	return page->forgotten == snap->forgotten || fetch_entries(snap, err);
}

bool ch_request_after(struct ch_snapshot *snap, uint64_t after, const struct ch_kept_request **out,
		      struct err *err)
{
	struct ch_request_page *page = page_of(snap);

	*out = NULL;
	ch_want_whole(snap);
	if (!page->last || page->last->seq != after || page->asof != snap->asof)
		start_behind(page, after, snap->asof);
	if (!turn(snap, err)) {
		page->last = NULL;
		return false;
	}
	page->last = page->next < page->count ? &page->rows[page->next++] : NULL;
	*out = page->last;
	return true;
}
