/*
 * chunk.h - a row of the table `chunk`: samples of one request in one ten minutes, column by
 * column. It is kept in files: columns are appended, never renumbered.
 *
 *   cells    n big-endian numbers of equal width, 0 to 8 bytes each, in a BLOB; the width is
 *            length / n. Beside it stands a base. A number is base + cell. An id is base + cell, or
 *            none where the cell is 0. A BLOB of no bytes is NULL, a base of 0 too.
 *   runs     samples in the order of arrival, cut where the series changes or a number of the line
 *            is no sample of this chunk: run_first (cells: place of its first sample), run_seq
 *            (cells: number on the line of that one, minus the chunk's), series (cells)
 *   dt       t0 - bucket * 600 s        value   as sample_total()
 *   form     enum chunk_form
 *   more     of each sample with CHUNK_MORE, in order: varint length, then varint t1 - t0; varint
 *            number of values, each zigzag; and to the end the timestamps as zigzag differences,
 *            the first to t0
 *
 * checksum is hash64() over the columns before it, in the order below: of a number itself, of a
 * BLOB its hash64(), of NULL 0, 8 bytes each. What SQLite keeps outside of its tree's pages it does
 * not check itself. The chunk's own number is that of its first sample; last is the largest t1 -
 * bucket * 600 s. Memory: what is read is borrowed from the statement's row. Threads: none of its
 * own.
 */
#pragma once
#include <endian.h>
#include <string.h>
#include "store/schema/codec.h"
#include "store/db.h"

enum { CHUNK_SAMPLES_MOST = 2048 };

enum chunk_form {
	CHUNK_TIME,       /* one timestamp, t0; no value was sent */
	CHUNK_TIME_VALUE, /* and one value */
	CHUNK_NO_TIME,    /* t0 is the profile's time */
	CHUNK_NO_TIME_VALUE,
	CHUNK_MORE,
};

struct cells {
	const uint8_t *bytes, *end;
	uint64_t base;
	unsigned width;
};

static inline uint64_t cells_get(const struct cells *c, uint32_t i)
{
	const uint8_t *p = c->bytes + (size_t)i * c->width;
	uint64_t v = 0;

	if (!c->width)
		return 0;
	if (c->end - p >= 8) {
		memcpy(&v, p, 8);
		return be64toh(v) >> (64 - 8 * c->width);
	}
	for (unsigned k = 0; k < c->width; k++)
		v = v << 8 | p[k];
	return v;
}
static inline uint64_t cells_number(const struct cells *c, uint32_t i)
{
	return c->base + cells_get(c, i);
}
static inline uint64_t cells_id(const struct cells *c, uint32_t i)
{
	uint64_t v = cells_get(c, i);

	return v ? c->base + v : 0;
}

/* Cells as two columns: bytes in the arena. */
struct packed_cells {
	uint64_t base;
	struct str bytes;
};
struct packed_cells cells_pack_numbers(struct arena *arena, const uint64_t *v, uint32_t n);
struct packed_cells cells_pack_ids(struct arena *arena, const uint64_t *ids, uint32_t n);

/* The columns in the table's order; those that not everybody reads come last, deeper by deeper. */
#define CHUNK_COLUMNS_TIMES                                                                 \
	"seq, bucket, n, last, runs, run_seq, run_first, series0, series, dt0, dt, form0, " \
	"form, value0, value, more"
#define CHUNK_COLUMNS_STACK      ", stack0, stack"
#define CHUNK_COLUMNS_ATTRIBUTES ", attrset0, attrset"
#define CHUNK_COLUMNS_LINK       ", link0, link, checksum"
enum chunk_column {
	CHUNK_SEQ,
	CHUNK_BUCKET,
	CHUNK_N,
	CHUNK_LAST,
	CHUNK_RUNS,
	CHUNK_RUN_SEQ,
	CHUNK_RUN_FIRST,
	CHUNK_SERIES,
	CHUNK_DT = CHUNK_SERIES + 2,
	CHUNK_FORM = CHUNK_DT + 2,
	CHUNK_VALUE = CHUNK_FORM + 2,
	CHUNK_BYTES = CHUNK_VALUE + 2,
	CHUNK_STACK,
	CHUNK_ATTRSET = CHUNK_STACK + 2,
	CHUNK_LINK = CHUNK_ATTRSET + 2,
	CHUNK_CHECKSUM = CHUNK_LINK + 2,
	CHUNK_COLUMNS,
};

struct chunk {
	uint64_t seq, bucket, last;
	uint32_t n, runs;
	struct cells run_seq, run_first, series, dt, form, value, stack, attrset, link;
	struct codec more;
};
/* What the checksum is made of: filled in column by column. */
struct chunk_sum {
	uint64_t parts[CHUNK_CHECKSUM];
};
uint64_t chunk_checksum(const struct chunk_sum *sum);
uint64_t chunk_part(struct str blob);

/* From a row with the columns above, as many of them as the statement has. Checks that each BLOB is
 * as long as its cells, and the runs; with all columns the checksum. */
bool chunk_read(sqlite3_stmt *row, struct chunk *out, struct err *err) MUST_CHECK;
static inline uint32_t chunk_run_end(const struct chunk *c, uint32_t run)
{
	return run + 1 < c->runs ? (uint32_t)cells_get(&c->run_first, run + 1) : c->n;
}
