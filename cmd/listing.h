/*
 * listing.h - what top and diff share: the flags of a list of functions, words of its headings, and
 * its way to standard output. Texts of the profiles are made fit for a terminal.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "flags.h"
#include "query/query.h"

struct listing_flags {
	const char *rows, *sort;
	bool json;
};

#define LISTING_FLAGS_DEFAULT       \
	{                           \
		"30", "self", false \
	}

/* Rows for a command's flag table. */
extern const char *const listing_sorts[];
#define LISTING_FLAGS(f, sort_help)                                                           \
	FLAG("Output", "n", FLAG_UINT, &(f).rows, "ROWS", "30", "how many; 0: all"),          \
		FLAG("Output", "sort", FLAG_CHOICE, &(f).sort, "COLUMN", "self", (sort_help), \
		     .choices = listing_sorts),                                               \
		FLAG("Output", "json", FLAG_BOOL, &(f).json, NULL, NULL, "for programs")

/* How many rows; 0: all. */
bool listing_rows(const struct listing_flags *f, uint32_t *rows, struct err *err) MUST_CHECK;
bool listing_sorts_by_total(const struct listing_flags *f);

/* "1.5 s cpu", of the type that was asked for. */
void listing_put_cost(struct buf *b, const struct query_facts *f, int64_t total);
/* " in 10 events" */
/* filtered: events are counted before filters of stacks, the cost after them. */
void listing_put_events(struct buf *b, const struct query_facts *f, bool filtered);
/* " in 2.000 s"; nothing for 0 */
void listing_put_covered(struct buf *b, uint64_t covered_ns);
/* "f (inlined)"; not yet fit for a terminal, as table_cell() makes it so */
void listing_put_name(struct buf *b, const struct query_frame *f, enum query_by by);

/* Writes all; that the reader has gone (`| head`) is no failure. */
bool listing_write(const struct buf *text, struct err *err) MUST_CHECK;
