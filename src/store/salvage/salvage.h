/*
 * salvage.h - a new store of what a damaged SQLite file still holds: for `flametap store salvage`.
 *
 * Rows are taken from every page that can be read, whatever became of the pages above it
 * (page_file.h). Then the new store is mended: a chunk whose checksum does not hold goes; a row
 * that others name and that is lost is there, empty; a request that lost its row, or the row of a
 * profile, goes, while its samples stay and answer questions; what is made from other rows is made
 * again. Times, hashes, tenants and names found later stay as they are.
 *
 * The damaged file is not written to: one with a log beside it is read from a copy. Memory: the
 * file is mapped, a page's rows at a time, a bit a row of the dictionary. Threads: none of its own.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "store/schema/ident.h"

struct store_salvaged {
	uint64_t requests, samples; /* saved */
	uint64_t lost_requests;     /* incomplete: their samples are saved without them */
	uint64_t lost_samples;      /* of requests that are saved */
	uint64_t lost_chunks;       /* damaged rows of samples */
	uint64_t empty[KIND_COUNT]; /* rows that others name and that are lost, or damaged */
	uint64_t lost_origins;      /* requests without the time of arrival, or the hash */
	uint64_t names, lost_names; /* addresses whose names were found later */
	struct buf lost_pages;      /* text: "3 pages of chunk, 1 page of note"; empty: none */
};

typedef void store_salvage_progress_fn(void *arg, uint32_t pages, uint32_t of);

/* `to` must not be there yet, and is not there after a failure. `progress` is called once a page.
 * `out` begins as zeros; its buf is the caller's. ERR_INVALID: no row of a store is in it. */
bool store_salvage(const char *path, const char *to, store_salvage_progress_fn *progress, void *arg,
		   struct store_salvaged *out, struct err *err) MUST_CHECK;
