/*
 * scan.h - inside of the ClickHouse reader: a walk over samples, page by page, as rows
 * (reader_scan.c) or as columns of events (reader_events.c).
 */
#pragma once
#include "store/clickhouse/snapshot.h"

struct ch_scanning {
	struct ch_snapshot *snap;
	const struct source_scan *what;
	struct buf where;   /* which samples */
	uint64_t rows_most; /* in one answer */
	bool series_here;   /* series are looked at here: there are too many for SQL */
	bool ended;         /* a callback has failed: its err stands */
	/* Asks for those of `where` that are within bounds: "" or conditions that end in AND. */
	bool (*page)(struct ch_scanning *x, struct str bounds);
	struct err *err;
};

/* Adds the conditions of `what` and the links on numbers and series. */
void ch_put_asked(struct ch_scanning *x);
/* Adds: the first timestamp is before the window's end, the last one not before its beginning. */
void ch_put_within(struct ch_scanning *x);
/* What listing the window's series showed; NULL: they were not listed. */
const struct ch_listed *ch_listed_of(const struct ch_scanning *x);
/* The scan is known to fit into one answer. */
bool ch_is_one_page(const struct ch_scanning *x);
/* All of them, page after page. */
bool ch_scan_pages(struct ch_scanning *x) MUST_CHECK;
/* Room in snap->values and snap->times. */
void ch_room_for_lists(struct ch_snapshot *snap, uint32_t values, uint32_t times);
