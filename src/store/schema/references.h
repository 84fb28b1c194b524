/*
 * references.h - which rows of the store name which dictionary rows: walked by the sweep, the check
 * and the salvage.
 */
#pragma once
#include "store/db.h"
#include "store/schema/ident.h"

enum { REFERENCES_MOST = 11 };

/* What a column says: a row of a kind, or bytes that name many. */
enum reference_form {
	REFERENCE_NONE,
	REFERENCE_ID,
	REFERENCE_IDS,
	REFERENCE_NUMBER_OR_IDS,
	REFERENCE_LINES,
	REFERENCE_LAYOUT,
	REFERENCE_CHUNK, /* the whole row is one (chunk.h) */
};

struct reference {
	enum reference_form form;
	enum store_kind kind;
};

/*
 * A table that names dictionary rows. Of kind 0: requests, profiles, samples, coverage. Of another
 * kind: the table of that kind; its first column is the id, and "WHERE id=?1" may be appended.
 */
struct reference_source {
	enum store_kind kind;
	const char *table, *select;
	struct reference columns[REFERENCES_MOST];
};

/* Whoever names comes before what it names. Ends with a table of NULL. */
extern const struct reference_source reference_sources[];

typedef void reference_fn(void *ctx, enum store_kind kind, uint64_t id);
/* Each row that the row names, 0 left out. False: its bytes are damaged. */
bool references_of(const struct reference_source *source, sqlite3_stmt *row, reference_fn *fn,
		   void *ctx, struct err *err) MUST_CHECK;

/* The table of a dictionary kind. */
const char *store_table(enum store_kind kind);
