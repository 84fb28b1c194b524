/*
 * scan.h - inside of the ClickHouse reader: a walk over samples, page by page, as rows
 * (reader_scan.c) or as columns of events (reader_events.c).
 */
#pragma once
#include "store/clickhouse/snapshot.h"

struct ch_scanning {
	struct ch_snapshot *snap;
	const struct source_scan *what;
	const uint64_t *links; /* NULL: all samples */
	size_t link_count;
	struct buf where;   /* which samples */
	uint64_t rows_most; /* in one answer */
	bool series_here;   /* series are looked at here: there are too many for SQL */
	bool ended;         /* who is called back has enough */
	/* Asks for those of `where` that are within bounds: "" or conditions that end in AND. */
	bool (*page)(struct ch_scanning *x, struct str bounds);
	struct err *err;
};

/* What else `what` and the links ask for, behind a condition on time that `where` has. */
void ch_put_asked(struct ch_scanning *x);
/* Whose first timestamp is before the window's end, and whose last one is not before it. */
void ch_put_within(struct ch_scanning *x);
/* What the window was found to have when its series were asked for; NULL: nobody asked. */
const struct ch_listed *ch_listed_of(const struct ch_scanning *x);
/* It is known to be no more than one answer may have. */
bool ch_is_one_page(const struct ch_scanning *x);
/* All of them, page after page. */
bool ch_scan_pages(struct ch_scanning *x) MUST_CHECK;
/* So many in snap->values and snap->times, at least. */
void ch_room_for_lists(struct ch_snapshot *snap, uint32_t values, uint32_t times);
