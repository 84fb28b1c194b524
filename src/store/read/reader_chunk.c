/* reader_chunk.c - samples out of the table `chunk` (chunk.h). */
#include <stdlib.h>

#include "store/schema/chunk.h"
#include "store/id_list.h"
#include "store/read/reader_walk.h"

/* ---- one chunk ---- */

/* Values and timestamps by their form; the lists of CHUNK_MORE are in `more`. */
static bool fill_values(struct sqlite_snapshot *snap, uint64_t form, struct str more,
			struct source_row *s)
{
	s->last = s->time;
	if (form == CHUNK_MORE) {
		if (!reader_more(snap, more, s))
			return false;
	} else {
		s->timestamp_count = form == CHUNK_TIME || form == CHUNK_TIME_VALUE;
		s->value_count = form == CHUNK_TIME_VALUE || form == CHUNK_NO_TIME_VALUE;
		snap->times[0] = s->time;
		snap->values[0] = s->total;
	}
	s->values = snap->values;
	s->timestamps = snap->times;
	return form <= CHUNK_MORE;
}

static bool give_run(struct sample_scan *x, struct chunk *c, uint32_t run)
{
	uint32_t end = chunk_run_end(c, run), i = (uint32_t)cells_get(&c->run_first, run);
	uint64_t begin = c->bucket * STORE_BUCKET_NS;
	struct source_row s = { .series = cells_id(&c->series, run) };
	bool wanted = x->all || id_list_has(x->what->series, x->what->series_count, s.series);
	uint64_t seq = c->seq + cells_get(&c->run_seq, run);

	for (; i < end && !x->ended && (wanted || c->more.at < c->more.end); i++, seq++) {
		uint64_t form = cells_number(&c->form, i);
		struct str more = { 0 };

		if (form == CHUNK_MORE)
			more = codec_get_str(&c->more);
		if (!wanted)
			continue;
		s = (struct source_row){
			.series = s.series,
			.sample = seq,
			.time = begin + cells_number(&c->dt, i),
			.stack = cells_id(&c->stack, i),
			.attributes = cells_id(&c->attrset, i),
			.link = cells_id(&c->link, i),
			.total = (int64_t)cells_number(&c->value, i),
		};
		if (c->more.failed || !fill_values(x->snap, form, more, &s)) {
			x->failed = true;
			return err_set(x->err, ERR_INVALID, "the sample %llu is damaged",
				       (unsigned long long)seq);
		}
		x->ended = scan_wants(x->what, &s) && !x->fn(x->arg, &s, x->err);
	}
	return true;
}

static uint64_t last_number(const struct chunk *c)
{
	return c->seq + cells_get(&c->run_seq, c->runs - 1) + c->n - 1 -
	       cells_get(&c->run_first, c->runs - 1);
}

static bool give_chunk(struct sample_scan *x, sqlite3_stmt *row)
{
	const struct source_scan *w = x->what;
	struct chunk c;
	uint64_t begin;

	if (!chunk_read(row, &c, x->err))
		return false;
	begin = c.bucket * STORE_BUCKET_NS;
	if ((begin + c.dt.base >= w->range.to && w->range.to != UINT64_MAX && c.dt.width < 8) ||
	    begin + c.last < w->range.from || last_number(&c) <= w->after)
		return true;
	if (x->events)
		return reader_give_events(x, &c);
	reader_room(x->snap);
	for (uint32_t run = 0; run < c.runs && !x->ended; run++)
		if (!give_run(x, &c, run))
			return false;
	return true;
}

/* ---- chunks ---- */

static bool give_rows(struct sample_scan *x, sqlite3_stmt *s)
{
	bool row = true, ok = true;

	while (ok && !x->ended) {
		ok = db_step(x->snap->db, s, &row, x->err, "reading samples");
		if (!ok || !row)
			break;
		ok = give_chunk(x, s);
	}
	sqlite3_reset(s);
	return ok;
}

static sqlite3_stmt *bind_query(struct sample_scan *x, enum query q, uint64_t a, uint64_t b)
{
	sqlite3_stmt *s = reader_query(x->snap, q, x->err);

	if (s)
		db_bind_u64(s, 1, a);
	if (s && sqlite3_bind_parameter_count(s) > 1)
		sqlite3_bind_int64(s, 2, b > INT64_MAX ? INT64_MAX : (int64_t)b);
	return s;
}

bool reader_scan_chunks(struct sample_scan *x, uint64_t bucket)
{
	sqlite3_stmt *s;

	x->all = !x->what->series;
	s = bind_query(x, SCAN_CHUNKS + x->depth, bucket, x->what->asof);
	return s && give_rows(x, s);
}

bool reader_scan_line(struct sample_scan *x, uint64_t first, uint64_t last)
{
	sqlite3_stmt *s;

	x->all = !x->what->series;
	s = bind_query(x, EACH_CHUNK, first, last);
	return s && give_rows(x, s);
}

/* ---- links ---- */

static bool list_chunks(struct sample_scan *x, struct wanted_ids *chunks)
{
	for (uint32_t i = 0; i < x->what->link_count; i++) {
		sqlite3_stmt *s = bind_query(x, CHUNKS_OF_LINK, x->what->links[i], 0);
		bool row = s != NULL;

		while (row) {
			if (!db_step(x->snap->db, s, &row, x->err, "reading links"))
				return false;
			if (row)
				wanted_ids_add(chunks, db_u64(s, 0));
		}
		if (!s)
			return false;
	}
	wanted_ids_sort(chunks);
	return true;
}

/* The caller of a scan of links, who gets only the samples that have one of them. */
struct linked_scan {
	const struct source_scan *what;
	source_row_fn *fn;
	void *arg;
};

static bool give_linked(void *ctx, const struct source_row *s, struct err *err)
{
	const struct linked_scan *l = ctx;

	return !s->link || !id_list_has(l->what->links, l->what->link_count, s->link) ||
	       l->fn(l->arg, s, err);
}

bool reader_scan_linked_chunks(struct sample_scan *x)
{
	struct linked_scan linked = { x->what, x->fn, x->arg };
	struct sample_scan inner = *x;
	struct wanted_ids chunks = { 0 };
	bool ok = list_chunks(x, &chunks);

	inner.fn = give_linked;
	inner.arg = &linked;
	inner.all = !x->what->series;
	for (size_t i = 0; ok && !inner.ended && i < chunks.count; i++) {
		sqlite3_stmt *s = bind_query(x, GET_CHUNK, chunks.ids[i], 0);

		ok = s && give_rows(&inner, s);
	}
	x->ended = inner.ended;
	free(chunks.ids);
	return ok;
}

/* ---- the time that has samples ---- */

bool reader_chunk_ends(struct sqlite_snapshot *snap, uint64_t bucket, uint64_t *first,
		       uint64_t *last, struct err *err)
{
	sqlite3_stmt *s = reader_query(snap, CHUNK_ENDS, err);
	bool row = true;

	if (!s)
		return false;
	db_bind_u64(s, 1, bucket);
	for (;;) {
		uint64_t begin = bucket * STORE_BUCKET_NS, low, high;

		if (!db_step(snap->db, s, &row, err, "reading samples"))
			return false;
		if (!row)
			return true;
		low = begin + db_u64(s, 0);
		high = begin + db_u64(s, 1);
		*first = low < *first ? low : *first;
		*last = high > *last ? high : *last;
	}
}
