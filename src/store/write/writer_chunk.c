/* writer_chunk.c - the samples of a request as rows of the table `chunk` (chunk.h). */
#include <assert.h>

#include "store/schema/chunk.h"
#include "store/write/writer_internal.h"

static void put_more(struct store_writer *w, const struct sample_row *r, const struct sample *x)
{
	const int64_t *values = w->p->values + x->values.first;
	const uint64_t *times = w->p->timestamps + x->timestamps.first;
	uint64_t before = r->bucket * STORE_BUCKET_NS + r->dt;

	buf_reset(&w->bytes);
	codec_put(&w->bytes, r->span);
	codec_put(&w->bytes, x->values.count);
	for (uint32_t i = 0; i < x->values.count; i++)
		codec_put_signed(&w->bytes, values[i]);
	for (uint32_t i = 0; i < x->timestamps.count; i++) {
		codec_put_signed(&w->bytes, (int64_t)(times[i] - before));
		before = times[i];
	}
	codec_put_str(&w->more, buf_view(&w->bytes));
}

/* How the sample's values and timestamps are told; what takes more goes to w->more. */
static enum chunk_form form_of(struct store_writer *w, const struct sample_row *r, int64_t *value)
{
	const struct sample *x = &w->p->samples[r->sample];
	int64_t total = sample_total(w->p, &w->p->profiles[r->profile], x).value;
	bool silent = x->values.count == 0 && total == 1;
	bool implied = silent || (x->values.count == 1 && w->p->values[x->values.first] == total);

	*value = total;
	if (implied && x->timestamps.count == 1)
		return silent ? CHUNK_TIME : CHUNK_TIME_VALUE;
	if (implied && x->timestamps.count == 0)
		return silent ? CHUNK_NO_TIME : CHUNK_NO_TIME_VALUE;
	put_more(w, r, x);
	return CHUNK_MORE;
}

/* ---- columns ---- */

/* A row on its way in. */
struct putting_chunk {
	sqlite3_stmt *s;
	struct chunk_sum sum;
};

static void bind_number(struct putting_chunk *c, int column, uint64_t v)
{
	db_bind_id(c->s, column + 1, v);
	c->sum.parts[column] = v;
}

static void bind_bytes(struct putting_chunk *c, int column, struct str bytes)
{
	db_bind_blob(c->s, column + 1, bytes);
	c->sum.parts[column] = chunk_part(bytes);
}

static void bind_cells(struct putting_chunk *c, int column, struct packed_cells cells)
{
	bind_number(c, column, cells.base);
	bind_bytes(c, column + 1, cells.bytes);
}

static void bind_runs(struct store_writer *w, struct putting_chunk *c,
		      const struct sample_row *rows, uint32_t n, uint64_t *scratch)
{
	uint64_t *first = scratch, *seq = scratch + n, *series = scratch + 2 * (size_t)n;
	struct packed_cells cells;
	uint32_t runs = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (i && rows[i].series == rows[i - 1].series && rows[i].seq == rows[i - 1].seq + 1)
			continue;
		first[runs] = i;
		seq[runs] = rows[i].seq - rows[0].seq;
		series[runs++] = rows[i].series;
	}
	bind_number(c, CHUNK_RUNS, runs);
	cells = cells_pack_numbers(&w->arena, seq, runs);
	bind_bytes(c, CHUNK_RUN_SEQ, cells.bytes); /* both begin with 0, so have no base */
	cells = cells_pack_numbers(&w->arena, first, runs);
	bind_bytes(c, CHUNK_RUN_FIRST, cells.bytes);
	bind_cells(c, CHUNK_SERIES, cells_pack_ids(&w->arena, series, runs));
}

/* Also gives the largest t1, counted from the bucket's beginning. */
static uint64_t bind_samples(struct store_writer *w, struct putting_chunk *c,
			     const struct sample_row *rows, uint32_t n, uint64_t *scratch)
{
	uint64_t *values = scratch + n, last = 0;

	buf_reset(&w->more);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t end = rows[i].dt + rows[i].span;
		int64_t value;

		last = end > last ? end : last;
		scratch[i] = form_of(w, &rows[i], &value);
		values[i] = (uint64_t)value;
	}
	bind_cells(c, CHUNK_FORM, cells_pack_numbers(&w->arena, scratch, n));
	bind_cells(c, CHUNK_VALUE, cells_pack_numbers(&w->arena, values, n));
	bind_bytes(c, CHUNK_BYTES, buf_view(&w->more));
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = rows[i].dt;
	bind_cells(c, CHUNK_DT, cells_pack_numbers(&w->arena, scratch, n));
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = rows[i].stack;
	bind_cells(c, CHUNK_STACK, cells_pack_ids(&w->arena, scratch, n));
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = rows[i].attrset;
	bind_cells(c, CHUNK_ATTRSET, cells_pack_ids(&w->arena, scratch, n));
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = rows[i].link;
	bind_cells(c, CHUNK_LINK, cells_pack_ids(&w->arena, scratch, n));
	return last;
}

static void put_links(struct store_writer *w, const struct sample_row *rows, uint32_t n)
{
	for (uint32_t i = 0; i < n && !w->failed; i++) {
		struct feed_value *v;

		if (!rows[i].link)
			continue;
		v = writer_row(w, FED_CHUNK_LINK);
		v[0] = feed_number(rows[i].link);
		v[1] = feed_number(rows[0].seq);
	}
}

static void put_chunk(struct store_writer *w, const struct sample_row *rows, uint32_t n,
		      uint64_t *scratch)
{
	struct putting_chunk c = { .s = statement(w, ADD_CHUNK) };

	bind_number(&c, CHUNK_SEQ, rows[0].seq);
	bind_number(&c, CHUNK_BUCKET, rows[0].bucket);
	sqlite3_bind_int64(c.s, CHUNK_BUCKET + 1, (int64_t)rows[0].bucket); /* not NULL */
	bind_number(&c, CHUNK_N, n);
	bind_runs(w, &c, rows, n, scratch);
	bind_number(&c, CHUNK_LAST, bind_samples(w, &c, rows, n, scratch));
	db_bind_u64(c.s, CHUNK_CHECKSUM + 1, chunk_checksum(&c.sum));
	writer_run(w, ADD_CHUNK, "adding samples");
	put_links(w, rows, n);
}

void writer_put_chunks(struct store_writer *w, const struct sample_row *rows, uint32_t count)
{
	uint32_t most = count < CHUNK_SAMPLES_MOST ? count : CHUNK_SAMPLES_MOST;
	uint64_t *scratch = arena_alloc_array(&w->arena, (size_t)most * 3, sizeof(*scratch));

	assert(scratch);
	for (uint32_t from = 0, to; from < count && !w->failed; from = to) {
		for (to = from + 1; to < count && rows[to].bucket == rows[from].bucket; to++)
			if (to - from == CHUNK_SAMPLES_MOST)
				break;
		put_chunk(w, rows + from, to - from, scratch);
	}
}
