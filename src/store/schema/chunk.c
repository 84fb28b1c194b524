#include "store/schema/chunk.h"

#include <assert.h>

#include "base/hash.h"

/* ---- written ---- */

static unsigned width_of(uint64_t most)
{
	return (64 - (unsigned)(most ? __builtin_clzll(most) : 64) + 7) / 8;
}

static struct str pack(struct arena *arena, const uint64_t *v, uint32_t n, uint64_t base,
		       unsigned width, bool ids)
{
	uint8_t *out = arena_alloc(arena, (size_t)n * width + 1), *p = out;

	assert(out);
	for (uint32_t i = 0; i < n && width; i++) {
		uint64_t cell = ids && !v[i] ? 0 : v[i] - base;

		for (unsigned k = width; k-- > 0;)
			*p++ = (uint8_t)(cell >> (8 * k));
	}
	return str_from(out, (size_t)(p - out));
}

/* Of signed numbers the smallest is the base, unless that leaves no smaller cells. */
struct packed_cells cells_pack_numbers(struct arena *arena, const uint64_t *v, uint32_t n)
{
	int64_t least = INT64_MAX, most = INT64_MIN;
	uint64_t base;
	unsigned width;

	for (uint32_t i = 0; i < n; i++) {
		least = (int64_t)v[i] < least ? (int64_t)v[i] : least;
		most = (int64_t)v[i] > most ? (int64_t)v[i] : most;
	}
	base = (uint64_t)least;
	width = width_of((uint64_t)most - base);
	if (width == 8)
		base = 0;
	return (struct packed_cells){ base, pack(arena, v, n, base, width, false) };
}

struct packed_cells cells_pack_ids(struct arena *arena, const uint64_t *ids, uint32_t n)
{
	uint64_t least = UINT64_MAX, most = 0, base;

	for (uint32_t i = 0; i < n; i++) {
		least = ids[i] && ids[i] < least ? ids[i] : least;
		most = ids[i] > most ? ids[i] : most;
	}
	if (!most)
		return (struct packed_cells){ 0 };
	base = least - 1;
	return (struct packed_cells){ base,
				      pack(arena, ids, n, base, width_of(most - base), true) };
}

uint64_t chunk_part(struct str blob)
{
	return blob.len ? hash64(blob) : 0;
}

uint64_t chunk_checksum(const struct chunk_sum *sum)
{
	return hash64(str_from(sum->parts, sizeof(sum->parts)));
}

/* ---- read ---- */

static bool is_as_written(sqlite3_stmt *row)
{
	struct chunk_sum sum;

	if (sqlite3_column_count(row) < CHUNK_COLUMNS)
		return true;
	for (int i = 0; i < CHUNK_CHECKSUM; i++)
		sum.parts[i] = sqlite3_column_type(row, i) == SQLITE_INTEGER
				       ? db_u64(row, i)
				       : chunk_part(db_bytes(row, i));
	return chunk_checksum(&sum) == db_u64(row, CHUNK_CHECKSUM);
}

static bool get_bytes(sqlite3_stmt *row, int column, uint32_t n, struct cells *out)
{
	struct str bytes = db_bytes(row, column);

	out->bytes = (const uint8_t *)bytes.ptr;
	out->end = out->bytes ? out->bytes + bytes.len : NULL;
	out->width = (unsigned)(bytes.len / n);
	return bytes.len % n == 0 && bytes.len / n <= 8;
}

static bool get_cells(sqlite3_stmt *row, int column, uint32_t n, struct cells *out)
{
	*out = (struct cells){ 0 };
	if (column >= sqlite3_column_count(row))
		return true;
	out->base = db_u64(row, column);
	return get_bytes(row, column + 1, n, out);
}

static bool runs_ascend(const struct chunk *c)
{
	uint64_t before = 0;

	if (cells_get(&c->run_first, 0) != 0)
		return false;
	for (uint32_t i = 1; i < c->runs; i++) {
		uint64_t first = cells_get(&c->run_first, i);

		if (first <= before || first >= c->n)
			return false;
		before = first;
	}
	return true;
}

bool chunk_read(sqlite3_stmt *row, struct chunk *out, struct err *err)
{
	uint64_t n = db_u64(row, CHUNK_N), runs = db_u64(row, CHUNK_RUNS);
	struct chunk c = {
		.seq = db_u64(row, CHUNK_SEQ),
		.bucket = db_u64(row, CHUNK_BUCKET),
		.last = db_u64(row, CHUNK_LAST),
		.n = (uint32_t)n,
		.runs = (uint32_t)runs,
	};

	if (!n || n > CHUNK_SAMPLES_MOST || !runs || runs > n ||
	    !get_bytes(row, CHUNK_RUN_SEQ, c.runs, &c.run_seq) ||
	    !get_bytes(row, CHUNK_RUN_FIRST, c.runs, &c.run_first) ||
	    !get_cells(row, CHUNK_SERIES, c.runs, &c.series) ||
	    !get_cells(row, CHUNK_DT, c.n, &c.dt) || !get_cells(row, CHUNK_FORM, c.n, &c.form) ||
	    !get_cells(row, CHUNK_VALUE, c.n, &c.value) ||
	    !get_cells(row, CHUNK_STACK, c.n, &c.stack) ||
	    !get_cells(row, CHUNK_ATTRSET, c.n, &c.attrset) ||
	    !get_cells(row, CHUNK_LINK, c.n, &c.link) || !runs_ascend(&c) || !is_as_written(row))
		return err_set(err, ERR_INVALID, "the samples from %llu on are damaged",
			       (unsigned long long)c.seq);
	c.more = codec_of(db_bytes(row, CHUNK_BYTES));
	*out = c;
	return true;
}
