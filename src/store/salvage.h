/*
 * salvage.h - what a damaged SQLite store has beside the content of its requests: when each came,
 * the hash that it is known by when its sender repeats it, whose it is, and names that were found
 * later (the table symbol).
 *
 * Reads by a connection of its own, beside the reader that gives the requests, and never writes to
 * the damaged file. What cannot be read is counted, and is no failure.
 *
 * Memory: own heap, SQLite's caches. Threads: one.
 */
#pragma once
#include "store/writer.h"

struct store_salvage;

/* ERR_NOT_FOUND, ERR_INVALID, ERR_PERMISSION: as store_open(), of files only. */
bool store_salvage_open(const char *path, struct store_salvage **out, struct err *err) MUST_CHECK;
void store_salvage_close(struct store_salvage *s); /* NULL is fine */

/* How many requests there are; 0: it cannot be told. */
uint64_t store_salvage_requests(struct store_salvage *s);

/* Fills in r->hash and r->arrived_unix_ns (of the future: now) of the request at that place of the
 * store's line. False: they cannot be read, r is unchanged. */
bool store_salvage_origin(struct store_salvage *s, uint64_t seq,
			  struct store_request *r) MUST_CHECK;

/* Fills in r->tenant of that request; it holds until the next call. False: it cannot be read, r is
 * unchanged. */
bool store_salvage_tenant(struct store_salvage *s, uint64_t seq,
			  struct store_request *r) MUST_CHECK;

struct store_salvaged_names {
	uint64_t addresses; /* whose names are kept */
	uint64_t lost;      /* in rows that are broken; of locations that were saved, as far as
			       a page of the table that cannot be read may have held their names */
	bool cut;           /* some of the table could not be read */
};
/* Names into the store at that path, which has the requests already and may have its writer still,
 * between transactions: all in one of its own. Those that it has stay. False: it cannot be written
 * to. */
bool store_salvage_names(struct store_salvage *s, const char *to, struct store_salvaged_names *out,
			 struct err *err) MUST_CHECK;
