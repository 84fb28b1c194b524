#include "store/read/reader_walk.h"

#include <stdlib.h>

#include "base/vec.h"
#include "store/id_list.h"

enum { AT_ONCE = 4096 };

/* SQLite gives each row to the aggregate row(), which costs half of what a step for each does. */
struct row_walk {
	struct sqlite_snapshot *snap;
	const uint64_t *ids;
	size_t count, at; /* at: the next one's place */
	row_fn *fn;
	void *ctx;
	bool failed; /* err tells */
	struct err *err;
};

static bool missing_row(struct row_walk *w, sqlite3_stmt *s)
{
	w->failed = true;
	return err_set(w->err, ERR_NOT_FOUND, "the store has no row %llu for: %s",
		       (unsigned long long)w->ids[w->at], s ? sqlite3_sql(s) : "a list of rows");
}

/* row(id, ...) */
static void row_step(sqlite3_context *context, int count, sqlite3_value **args)
{
	struct sqlite_snapshot *snap = sqlite3_user_data(context);
	struct row_walk *w = snap->walk;
	uint64_t id = (uint64_t)sqlite3_value_int64(args[0]);
	bool ok = w && count > 1 && w->at < w->count;

	if (ok && id > w->ids[w->at])
		ok = missing_row(w, NULL);
	if (ok) {
		ok = w->fn(w->ctx, w->at++, args + 1, w->err);
		w->failed = !ok;
	}
	if (!ok)
		sqlite3_result_error_code(context, SQLITE_ABORT);
}

static void rows_end(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

bool reader_make_row(struct sqlite_snapshot *snap, struct err *err)
{
	int rc = sqlite3_create_function_v2(snap->db, "row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
					    snap, NULL, row_step, rows_end, NULL);

	return rc == SQLITE_OK || db_error(snap->db, err, "preparing to read rows");
}

/* Until all of ids[0, last) were there. */
static bool run_walk(struct row_walk *w, sqlite3_stmt *s, size_t last)
{
	struct row_walk *before = w->snap->walk;
	int rc;

	w->snap->walk = w;
	do
		rc = sqlite3_step(s);
	while (rc == SQLITE_ROW);
	w->snap->walk = before;
	if (rc != SQLITE_DONE && !w->failed) {
		w->failed = true;
		db_error(w->snap->db, w->err, "reading the store");
	}
	sqlite3_reset(s);
	return !w->failed && (w->at == last || missing_row(w, s));
}

static void row_bind_list(sqlite3_stmt *s, const uint64_t *ids, size_t count, struct buf *text)
{
	buf_reset(text);
	for (size_t i = 0; i < count; i++) {
		buf_char(text, i ? ',' : '[');
		buf_u64(text, ids[i]);
	}
	buf_char(text, ']');
	db_bind_text(s, 1, buf_view(text));
}

static bool walk_list(struct row_walk *w, enum query pick, size_t last, struct buf *list)
{
	sqlite3_stmt *s = reader_query(w->snap, pick, w->err);

	if (!s)
		return false;
	row_bind_list(s, w->ids + w->at, last - w->at, list);
	return run_walk(w, s, last);
}

bool row_each(struct sqlite_snapshot *snap, enum query query, const uint64_t *ids, size_t count,
	      row_fn *fn, void *ctx, struct err *err)
{
	struct row_walk w = {
		.snap = snap, .ids = ids, .count = count, .fn = fn, .ctx = ctx, .err = err
	};
	struct buf list;
	bool ok = true;

	if (!count)
		return true;
	buf_init(&list, 0);
	while (ok && w.at < count)
		ok = walk_list(&w, query, count - w.at < AT_ONCE ? count : w.at + AT_ONCE, &list);
	buf_release(&list);
	return ok;
}

void wanted_ids_add(struct wanted_ids *l, uint64_t id)
{
	VEC_ROOM(l->ids, l->count, l->cap);
	l->ids[l->count++] = id;
}

void wanted_ids_sort(struct wanted_ids *l)
{
	l->count = id_list_sort(l->ids, l->count);
}
