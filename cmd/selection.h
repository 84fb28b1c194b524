/*
 * selection.h - what top, diff and export look at: files of any format or a store, and the flags
 * that choose samples of it.
 */
#pragma once
#include "flags.h"
#include "query/query.h"

/* A command on a terminal has more room for one question than one of many behind a server. */
enum { SELECTION_LIMIT_BYTES = 256 << 20 };

/* The texts of the flags; the table below fills them. */
struct selection_flags {
	const char *db, *selector, *type, *from, *to, *by, *trace, *span;
	struct flag_steps filters;
	bool last;
};

/* Rows for a command's flag table. */
#define SELECTION_FLAGS(f)                                                                    \
	FLAG("Samples", "db", FLAG_STRING, &(f).db, "STORE", NULL,                            \
	     "a store: an SQLite file, or http://... of ClickHouse"),                         \
		FLAG("Samples", "select", FLAG_STRING, &(f).selector, "SELECTOR", "all",      \
		     "like '{service.name=\"api\", thread.name=~\"w.*\"}'"),                  \
		FLAG("Samples", "type", FLAG_STRING, &(f).type, "TYPE", "the most usual one", \
		     "profile type: cpu, off_cpu, inuse_space, ..."),                         \
		FLAG("Samples", "from", FLAG_STRING, &(f).from, "TIME", "the beginning",      \
		     "now-15m, 2026-11-21T03:17:28Z, a unix time"),                           \
		FLAG("Samples", "to", FLAG_STRING, &(f).to, "TIME", "the end", "as -from"),   \
		FLAG("Samples", "trace", FLAG_STRING, &(f).trace, "ID", NULL,                 \
		     "only samples of this trace (32 hex digits)"),                           \
		FLAG("Samples", "span", FLAG_STRING, &(f).span, "ID", NULL,                   \
		     "only samples of this span (16 hex digits)"),                            \
		FLAG("Samples", "last", FLAG_BOOL, &(f).last, NULL, NULL,                     \
		     "of gauges (inuse_space, ...) the last profile, no average",             \
		     .advanced = true),                                                       \
		FLAG("Stacks", "by", FLAG_STRING, &(f).by, "WHAT", "function",                \
		     "function, line, address, file, binary"),                                \
		FLAG("Stacks", "focus", FLAG_STEP, &(f).filters, "REGEX", NULL,               \
		     "only stacks with such a frame; also file:, binary:, type: REGEX"),      \
		FLAG("Stacks", "ignore", FLAG_STEP, &(f).filters, "REGEX", NULL,              \
		     "no stacks with such a frame"),                                          \
		FLAG("Stacks", "hide", FLAG_STEP, &(f).filters, "REGEX", NULL,                \
		     "leave such frames out of the stacks"),                                  \
		FLAG("Stacks", "show-from", FLAG_STEP, &(f).filters, "REGEX", NULL,           \
		     "stacks begin at their first such frame"),                               \
		FLAG("Stacks", "collapse", FLAG_STEP, &(f).filters, "REGEX", NULL,            \
		     "such frames that follow each other are the first of them"),             \
		FLAG("Stacks", "recursion", FLAG_STEP, &(f).filters, "REGEX", NULL,           \
		     "from such a frame to its innermost call is one; . of any frame")

/* Samples of files, all together, or of a store. */
struct samples {
	struct source *source;
	struct profiles *profiles; /* of files */
	struct store *store;
	struct file_types *file_types; /* of several files, what each one holds */
	unsigned file_count;
};
/* `db` or `file_count` files, not both; a single one may be a store, too. */
bool samples_open(struct samples *s, const char *db, char *const *files, unsigned file_count,
		  struct err *err) MUST_CHECK;
void samples_close(struct samples *s);

/* The request the flags make; `ids` is where trace and span ids go. */
struct selection_ids {
	uint8_t trace[16], span[8];
};
bool selection_request(const struct selection_flags *f, struct source *source,
		       struct selection_ids *ids, struct query_request *out,
		       struct err *err) MUST_CHECK;

/* query_begin(); a profile type that is not there is told those that are, and files that have
 * nothing of the one that is shown are named, on stderr. */
struct query *selection_begin(const struct samples *s, const struct query_request *request,
			      struct err *err) MUST_CHECK;
