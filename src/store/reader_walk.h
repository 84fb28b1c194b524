/* reader_walk.h - rows of many ids at once: where they are dense, one walk over the table. Inside
 * of the SQLite reader. */
#pragma once
#include "store/reader_internal.h"

struct row_walk {
	struct sqlite_snapshot *snap;
	enum query get;     /* a row by its id */
	sqlite3_stmt *rows; /* the walk; NULL: each by itself */
	int id_column;
};
/* `each`: the rows from an id on. Ascending ids; what it gives back is to be ended. */
bool row_walk_begin(struct row_walk *w, enum query each, const store_id *ids, size_t count,
		    struct err *err) MUST_CHECK;
/* The row of the next id, until the next call; row_walk_done() when it is read. */
bool row_walk_to(struct row_walk *w, uint64_t id, sqlite3_stmt **out, struct err *err) MUST_CHECK;
static inline void row_walk_done(const struct row_walk *w, sqlite3_stmt *row)
{
	if (!w->rows)
		sqlite3_reset(row);
}
void row_walk_end(struct row_walk *w);

/* Ids that are still to be read. */
struct wanted_ids {
	uint64_t *ids;
	size_t count, cap;
};
void wanted_ids_add(struct wanted_ids *l, uint64_t id);
void wanted_ids_sort(struct wanted_ids *l); /* without doubles */

/* reader_dict.c: a text that was read, for reader_text() */
struct idmap_slot *reader_keep_text(struct sqlite_snapshot *snap, uint64_t id, struct str bytes);
struct str reader_keep(struct sqlite_snapshot *snap, struct str s);
