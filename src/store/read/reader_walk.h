/* reader_walk.h - rows of many ids at once. Inside of the SQLite reader. */
#pragma once
#include "store/read/reader_internal.h"

/* A row: the columns that the query gives behind the id. False with err ends the walk, as a
 * failure. It may ask for other rows one by one (reader_row()), and walk over others. */
typedef bool row_fn(void *ctx, size_t at, sqlite3_value **columns, struct err *err);

/* Rows of sorted, unique ids: ids[at] for every `at`. `query` is one whose rows of a list of ids go
 * to the function row(id, ...). A row that is not there is ERR_NOT_FOUND. */
bool row_each(struct sqlite_snapshot *snap, enum query query, const uint64_t *ids, size_t count,
	      row_fn *fn, void *ctx, struct err *err) MUST_CHECK;

static inline struct str row_bytes(sqlite3_value *v)
{
	const void *bytes = sqlite3_value_blob(v);

	return str_from(bytes, (size_t)sqlite3_value_bytes(v));
}
static inline uint64_t row_u64(sqlite3_value *v)
{
	return (uint64_t)sqlite3_value_int64(v);
}
struct any_cell row_any_cell(sqlite3_value *kind, sqlite3_value *v); /* reader_dict.c */

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
/* Sets of attributes, all at once, for reader_attributes(), until reader_trim(). Sorts the list. */
bool reader_keep_sets(struct sqlite_snapshot *snap, struct wanted_ids *sets,
		      struct err *err) MUST_CHECK;
