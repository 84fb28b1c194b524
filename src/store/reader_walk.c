#include "store/reader_walk.h"

#include <stdlib.h>

enum { DENSE = 6 /* steps cost less than that many seeks */ };

bool row_walk_begin(struct row_walk *w, enum query each, const store_id *ids, size_t count,
		    struct err *err)
{
	if (count < 16 || (ids[count - 1] - ids[0]) / DENSE > count)
		return true;
	w->rows = reader_query(w->snap, each, err);
	if (w->rows)
		db_bind_u64(w->rows, 1, ids[0]);
	return w->rows != NULL;
}

bool row_walk_to(struct row_walk *w, uint64_t id, sqlite3_stmt **out, struct err *err)
{
	bool row = true;

	if (!w->rows)
		return reader_row(w->snap, w->get, id, out, err);
	do {
		if (!db_step(w->snap->db, w->rows, &row, err, "reading the store"))
			return false;
	} while (row && db_u64(w->rows, w->id_column) < id);
	if (!row || db_u64(w->rows, w->id_column) != id)
		return err_set(err, ERR_NOT_FOUND, "the store has no row %llu for: %s",
			       (unsigned long long)id, sqlite3_sql(w->rows));
	*out = w->rows;
	return true;
}

void row_walk_end(struct row_walk *w)
{
	if (w->rows)
		sqlite3_reset(w->rows);
}

void wanted_ids_add(struct wanted_ids *l, uint64_t id)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->ids = realloc(l->ids, l->cap * sizeof(*l->ids));
		assert(l->ids);
	}
	l->ids[l->count++] = id;
}

static int id_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void wanted_ids_sort(struct wanted_ids *l)
{
	size_t kept = 0;

	if (l->count)
		qsort(l->ids, l->count, sizeof(*l->ids), id_order);
	for (size_t i = 0; i < l->count; i++)
		if (!kept || l->ids[kept - 1] != l->ids[i])
			l->ids[kept++] = l->ids[i];
	l->count = kept;
}
