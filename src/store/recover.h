/*
 * recover.h - the rows of a damaged store, of all pages that it still has, in a new file that
 * SQLite can read: for `flametap store salvage`, where a page is lost that others are found through
 * (of the schema, or above a table's leaves), or requests and profiles lost their own rows.
 *
 * Rows are taken as they are (page_file.h); what they say is judged by those who read them. Then
 * the line of requests, profiles and samples is made whole (recover_line.h). The damaged file is
 * not written to: one with a log beside it is read from a copy.
 *
 * Memory: the file is mapped, a page's rows at a time. Threads: none of its own.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct store_recovered {
	uint64_t requests, profiles; /* made up from what names them */
	struct buf lost;             /* text: "3 pages of chunk, 1 of note"; empty: none */
};

/* Is there a table of which not every page can be reached, or no table? */
bool store_needs_recovery(const char *path);
/* Into a new file at `to`, which is the caller's to delete, after a failure, too. `out` begins as
 * zeros; its buf is the caller's. ERR_INVALID: there are no rows of a store in it. */
bool store_recover(const char *path, const char *to, struct store_recovered *out,
		   struct err *err) MUST_CHECK;
