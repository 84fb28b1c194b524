#include "store/recover_line.h"

#include <assert.h>
#include <stdlib.h>

#include "store/chunk.h"
#include "store/schema.h"

/* Numbers [first, end) of the line that are samples, by their chunk. */
struct run {
	uint64_t first, end, series, time;
};

/* A profile of the request that is looked at; `samples` follow it. */
struct place {
	uint64_t seq, samples, series;
};

struct store_line {
	sqlite3 *db;
	sqlite3_stmt *requests, *profiles, *chunks, *series, *put_request, *put_profile,
		*put_layout;
	struct store_recovered *out;
	struct err *err;

	struct run *runs; /* between two requests that are known, by number */
	size_t run_count, run_cap;
	uint64_t request;  /* whose profiles are gathered; 0: none yet */
	struct buf layout; /* that it has */
	bool is_new, changed;
	bool requests_lost; /* some, anywhere */
	struct place *places;
	size_t place_count, place_cap;
};

static void *with_room(void *p, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return p;
	*cap = *cap * 2 + 64;
	p = realloc(p, *cap * size);
	assert(p);
	return p;
}

/* ---- what chunks say is there ---- */

static int by_number(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static void note_runs(struct store_line *l, const struct chunk *c)
{
	for (uint32_t i = 0; i < c->runs; i++) {
		uint32_t from = (uint32_t)cells_get(&c->run_first, i);
		uint64_t first = c->seq + cells_get(&c->run_seq, i);

		l->runs = with_room(l->runs, l->run_count, &l->run_cap, sizeof(*l->runs));
		l->runs[l->run_count++] = (struct run){
			.first = first,
			.end = first + (chunk_run_end(c, i) - from),
			.series = cells_id(&c->series, i),
			.time = c->bucket * STORE_BUCKET_NS + cells_number(&c->dt, from),
		};
	}
}

static bool read_runs(struct store_line *l, uint64_t from, uint64_t to)
{
	struct err broken;
	bool row = true;

	l->run_count = 0;
	db_bind_u64(l->chunks, 1, from);
	db_bind_u64(l->chunks, 2, to);
	while (row) {
		struct chunk c;

		if (!db_step(l->db, l->chunks, &row, l->err, "reading chunks"))
			return false;
		if (row && chunk_read(l->chunks, &c, &broken))
			note_runs(l, &c);
	}
	if (l->run_count)
		qsort(l->runs, l->run_count, sizeof(*l->runs), by_number);
	return true;
}

/* ---- a request's end ---- */

struct owner {
	uint64_t resource, scope;
};

/* A series that is lost has neither. */
static bool owner_of(struct store_line *l, uint64_t series, struct owner *out)
{
	bool row;

	*out = (struct owner){ 0 };
	db_bind_u64(l->series, 1, series);
	if (!db_step(l->db, l->series, &row, l->err, "reading a series"))
		return false;
	if (row)
		*out = (struct owner){ db_u64(l->series, 0), db_u64(l->series, 1) };
	sqlite3_reset(l->series);
	return true;
}

/* As many profiles as the layout has? Then it is as it was written. */
static bool layout_has(const struct store_line *l, size_t profiles)
{
	struct codec c = codec_of(buf_view(&l->layout));
	uint64_t resources = codec_get(&c), sum = 0;

	for (uint64_t i = 0; i < resources && !c.failed; i++) {
		uint64_t scopes;

		codec_get(&c);
		scopes = codec_get(&c);
		for (uint64_t k = 0; k < scopes && !c.failed; k++) {
			codec_get(&c);
			sum += codec_get(&c);
		}
	}
	return !c.failed && !codec_more(&c) && sum == profiles;
}

/* Profiles that follow each other in one scope of one resource, each such row its own resource. */
static bool make_layout(struct store_line *l, struct buf *out)
{
	uint64_t groups = 0;
	struct buf body;
	bool ok = true;

	buf_init(&body, 0);
	for (size_t i = 0, n; i < l->place_count && ok; i += n, groups++) {
		struct owner first, next;

		ok = owner_of(l, l->places[i].series, &first);
		for (n = 1; ok && i + n < l->place_count; n++) {
			ok = owner_of(l, l->places[i + n].series, &next);
			if (next.resource != first.resource || next.scope != first.scope)
				break;
		}
		codec_put(&body, first.resource);
		codec_put(&body, 1);
		codec_put(&body, first.scope);
		codec_put(&body, n);
	}
	codec_put(out, groups);
	buf_str(out, buf_view(&body));
	buf_release(&body);
	return ok;
}

static bool end_request(struct store_line *l)
{
	struct buf layout;
	bool ok = true;

	if (!l->request || (!l->is_new && !l->changed && layout_has(l, l->place_count)))
		return true;
	buf_init(&layout, 0);
	if (l->is_new) {
		db_bind_u64(l->put_request, 1, l->request);
		ok = db_run(l->db, l->put_request, l->err, "making up a request");
		l->out->requests++;
	}
	ok = ok && make_layout(l, &layout);
	db_bind_u64(l->put_layout, 1, l->request);
	db_bind_blob(l->put_layout, 2, buf_view(&layout));
	db_bind_u64(l->put_layout, 3, l->place_count);
	ok = ok && db_run(l->db, l->put_layout, l->err, "making up a request's layout");
	buf_release(&layout);
	return ok;
}

static bool begin_request(struct store_line *l, uint64_t seq, bool is_new)
{
	if (!end_request(l))
		return false;
	l->request = seq;
	l->is_new = is_new;
	l->changed = false;
	l->place_count = 0;
	buf_reset(&l->layout);
	return true;
}

/* ---- profiles ---- */

static void add_place(struct store_line *l, uint64_t seq, uint64_t samples, uint64_t series)
{
	l->places = with_room(l->places, l->place_count, &l->place_cap, sizeof(*l->places));
	l->places[l->place_count++] = (struct place){ seq, samples, series };
}

static bool put_profile(struct store_line *l, struct place at, struct str series, uint64_t time)
{
	db_bind_u64(l->put_profile, 1, at.seq);
	db_bind_blob(l->put_profile, 2, series);
	db_bind_u64(l->put_profile, 3, at.samples);
	db_bind_u64(l->put_profile, 4, time);
	add_place(l, at.seq, at.samples, at.series);
	l->changed = true;
	l->out->profiles++;
	return db_run(l->db, l->put_profile, l->err, "making up a profile");
}

/* Of the runs [from, to), which follow each other without a gap. */
static bool make_profile(struct store_line *l, size_t from, size_t to)
{
	struct place at = { l->runs[from].first - 1, l->runs[to - 1].end - l->runs[from].first,
			    l->runs[from].series };
	uint64_t time = UINT64_MAX;
	struct buf series;
	bool ok;

	buf_init(&series, 0);
	for (size_t i = from; i < to; i++) {
		if (i == from || l->runs[i].series != l->runs[i - 1].series)
			codec_put(&series, l->runs[i].series);
		if (l->runs[i].time < time)
			time = l->runs[i].time;
	}
	ok = put_profile(l, at, buf_view(&series), time);
	buf_release(&series);
	return ok;
}

/* Numbers [from, to) of which nothing is left, between profiles of one request: whatever they were,
 * the line goes on behind them. */
static bool bridge(struct store_line *l, uint64_t from, uint64_t to, uint64_t series)
{
	struct place at = { from, to - from - 1, series };
	struct buf text;
	bool ok;

	if (from == to)
		return true;
	buf_init(&text, 0);
	codec_put(&text, series);
	ok = put_profile(l, at, buf_view(&text), 0);
	buf_release(&text);
	return ok;
}

/* A request in front of the profile of the run, behind `from`? */
static bool lacks_request(const struct store_line *l, const struct run *r, uint64_t from)
{
	return !l->request || (l->requests_lost && l->place_count && r->first - from >= 2);
}

/* Numbers [*from, to) that no profile claims: in front of those of samples there was one. *from:
 * behind the last of these. *run: the next one to look at. */
static bool fill_gap(struct store_line *l, uint64_t *from, uint64_t to, size_t *run)
{
	size_t i = *run;

	while (i < l->run_count && l->runs[i].end <= *from)
		i++;
	while (i < l->run_count && l->runs[i].first < to) {
		const struct run *first = &l->runs[i];
		size_t at = i;

		for (i++; i < l->run_count && l->runs[i].first <= l->runs[i - 1].end; i++)
			;
		/* There must be numbers for what is made up. */
		if (first->first <= *from || (!l->request && first->first < *from + 2))
			continue;
		if (lacks_request(l, first, *from)
			    ? !begin_request(l, first->first - 2, true)
			    : !bridge(l, *from, first->first - 1, first->series))
			return false;
		if (!make_profile(l, at, i))
			return false;
		*from = l->runs[i - 1].end;
	}
	*run = i;
	return true;
}

static uint64_t first_series(sqlite3_stmt *profile)
{
	struct codec c;

	if (sqlite3_column_type(profile, 1) == SQLITE_INTEGER)
		return db_u64(profile, 1);
	c = codec_of(db_bytes(profile, 1));
	return codec_get(&c);
}

/* One that does not follow what is before it: a profile is lost between them, or it is the first of
 * a request that is lost. A request that is known has its profiles right behind it. */
static bool take_profile(struct store_line *l, uint64_t *at, size_t *run)
{
	uint64_t seq = db_u64(l->profiles, 0), samples = db_u64(l->profiles, 2);

	if (seq != *at && !fill_gap(l, at, seq, run))
		return false;
	if (!l->request || (seq != *at && l->requests_lost && l->place_count)) {
		if (!begin_request(l, seq - 1, true))
			return false;
	} else if (!bridge(l, *at, seq, first_series(l->profiles))) {
		return false;
	}
	add_place(l, seq, samples, first_series(l->profiles));
	*at = seq + 1 + (samples < UINT32_MAX ? samples : 0);
	return true;
}

/* Between a request that is known (0: none) and the next. */
static bool take_part(struct store_line *l, uint64_t request, uint64_t next)
{
	uint64_t at = request + 1;
	size_t run = 0;
	bool row = true;

	if (!read_runs(l, request, next))
		return false;
	db_bind_u64(l->profiles, 1, request);
	db_bind_u64(l->profiles, 2, next);
	for (;;) {
		if (!db_step(l->db, l->profiles, &row, l->err, "reading profiles"))
			return false;
		if (!row)
			return fill_gap(l, &at, next, &run);
		if (!take_profile(l, &at, &run)) {
			sqlite3_reset(l->profiles);
			return false;
		}
	}
}

static bool prepare(struct store_line *l)
{
	return db_prepare(l->db,
			  "SELECT seq, layout FROM request WHERE seq>?1 ORDER BY seq LIMIT 1",
			  &l->requests, l->err) &&
	       db_prepare(l->db,
			  "SELECT seq, series, samples FROM profile WHERE seq>?1 AND seq<?2 "
			  "ORDER BY seq",
			  &l->profiles, l->err) &&
	       db_prepare(l->db,
			  "SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK CHUNK_COLUMNS_ATTRIBUTES
				  CHUNK_COLUMNS_LINK " FROM chunk WHERE seq>?1 AND seq<?2",
			  &l->chunks, l->err) &&
	       db_prepare(l->db, "SELECT resource_id, scope_id FROM series WHERE id=?1", &l->series,
			  l->err) &&
	       db_prepare(l->db,
			  "INSERT OR IGNORE INTO request(seq, arrived, hash, version) VALUES(?1, "
			  "0, x'', coalesce((SELECT version FROM request WHERE seq<?1 ORDER BY seq "
			  "DESC LIMIT 1), (SELECT version FROM request WHERE seq>?1 ORDER BY seq "
			  "LIMIT 1)))",
			  &l->put_request, l->err) &&
	       db_prepare(
		       l->db,
		       "INSERT OR IGNORE INTO profile(seq, series, samples, time) VALUES(?1, ?2, "
		       "?3, ?4)",
		       &l->put_profile, l->err) &&
	       db_prepare(l->db, "UPDATE request SET layout=?2, profiles=?3 WHERE seq=?1",
			  &l->put_layout, l->err);
}

static bool walk(struct store_line *l)
{
	uint64_t request = 0, next;
	bool row = true;

	while (row) {
		struct buf layout;
		bool ok;

		db_bind_u64(l->requests, 1, request);
		if (!db_step(l->db, l->requests, &row, l->err, "reading requests"))
			return false;
		buf_init(&layout, 0);
		next = row ? db_u64(l->requests, 0) : INT64_MAX;
		if (row)
			buf_str(&layout, db_bytes(l->requests, 1));
		sqlite3_reset(l->requests);
		ok = take_part(l, request, next) && (!row || begin_request(l, next, false));
		if (ok && row)
			buf_str(&l->layout, buf_view(&layout));
		buf_release(&layout);
		if (!ok)
			return false;
		request = next;
	}
	return end_request(l);
}

bool recover_line(sqlite3 *db, bool requests_lost, struct store_recovered *out, struct err *err)
{
	struct store_line l = { .db = db, .requests_lost = requests_lost, .out = out, .err = err };
	bool ok;

	buf_init(&l.layout, 0);
	ok = prepare(&l) && walk(&l);
	sqlite3_finalize(l.requests);
	sqlite3_finalize(l.profiles);
	sqlite3_finalize(l.chunks);
	sqlite3_finalize(l.series);
	sqlite3_finalize(l.put_request);
	sqlite3_finalize(l.put_profile);
	sqlite3_finalize(l.put_layout);
	buf_release(&l.layout);
	free(l.runs);
	free(l.places);
	return ok;
}
