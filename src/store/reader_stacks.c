/* reader_stacks.c - stacks: their locations, many at a time. */
#include <stdlib.h>

#include "store/codec.h"
#include "store/reader_internal.h"

/* A walk over stacks: SQLite gives each row to the aggregate stack(), which costs half of what a
 * step for each does. */
struct stack_walk {
	const store_id *ids;
	size_t count, at; /* at: the next one's place */
	bool (*fn)(void *arg, store_id id, struct hash128 hash, const store_id *locations,
		   uint32_t location_count);
	void *arg;
	store_id *locations;
	size_t cap;
	bool ended, failed; /* failed: err tells */
	struct err *err;
};

static bool missing_stack(struct stack_walk *w)
{
	w->failed = true;
	return err_set(w->err, ERR_NOT_FOUND, "the store has no stack %llu",
		       (unsigned long long)w->ids[w->at]);
}

static struct str value_bytes(sqlite3_value *v)
{
	const void *bytes = sqlite3_value_blob(v);

	return str_from(bytes, (size_t)sqlite3_value_bytes(v));
}

static bool give_stack(struct stack_walk *w, struct str locations, struct str hash_bytes)
{
	struct codec c = codec_of(locations);
	struct hash128 hash = { 0, 0 };
	uint32_t n = 0;

	if (hash_bytes.len == sizeof(hash))
		memcpy(&hash, hash_bytes.ptr, sizeof(hash));
	if (locations.len > w->cap) {
		w->cap = locations.len * 2;
		free(w->locations);
		w->locations = malloc(w->cap * sizeof(*w->locations));
		assert(w->locations);
	}
	while (codec_more(&c))
		w->locations[n++] = codec_get(&c);
	if (c.failed) {
		w->failed = true;
		return err_set(w->err, ERR_INVALID, "the stack %llu is damaged",
			       (unsigned long long)w->ids[w->at]);
	}
	w->ended = !w->fn(w->arg, w->ids[w->at++], hash, w->locations, n);
	return !w->ended;
}

/* stack(id, locations, hash) */
static void stack_step(sqlite3_context *context, int count, sqlite3_value **args)
{
	struct sqlite_snapshot *snap = sqlite3_user_data(context);
	struct stack_walk *w = snap->stacks;
	uint64_t id = (uint64_t)sqlite3_value_int64(args[0]);
	bool ok = w != NULL;

	(void)count;
	if (ok && (w->at == w->count || id < w->ids[w->at]))
		return; /* a neighbour of those that are asked for */
	if (ok && id > w->ids[w->at])
		ok = missing_stack(w);
	ok = ok && give_stack(w, value_bytes(args[1]), value_bytes(args[2]));
	if (!ok)
		sqlite3_result_error_code(context, SQLITE_ABORT);
}

static void stack_end(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

bool reader_make_stack(struct sqlite_snapshot *snap, struct err *err)
{
	int rc = sqlite3_create_function_v2(snap->db, "stack", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY,
					    snap, NULL, stack_step, stack_end, NULL);

	return rc == SQLITE_OK || db_error(snap->db, err, "preparing to read stacks");
}

static bool run_walk(struct sqlite_snapshot *snap, sqlite3_stmt *s, struct stack_walk *w)
{
	struct stack_walk *before = snap->stacks;
	int rc;

	snap->stacks = w;
	do
		rc = sqlite3_step(s);
	while (rc == SQLITE_ROW);
	snap->stacks = before;
	if (rc != SQLITE_DONE && !w->ended && !w->failed) {
		w->failed = true;
		db_error(snap->db, w->err, "reading stacks");
	}
	sqlite3_reset(s);
	return !w->failed;
}

/* ids [first, last), one by one. */
static bool pick_stacks(struct sqlite_snapshot *snap, struct stack_walk *w, size_t first,
			size_t last, struct buf *list)
{
	sqlite3_stmt *s = reader_query(snap, PICK_STACKS, w->err);

	if (!s)
		return false;
	buf_reset(list);
	for (size_t i = first; i < last; i++) {
		buf_char(list, i == first ? '[' : ',');
		buf_u64(list, w->ids[i]);
	}
	buf_char(list, ']');
	db_bind_text(s, 1, buf_view(list));
	return run_walk(snap, s, w) && (w->ended || w->at == last || missing_stack(w));
}

static bool walk_stacks(struct sqlite_snapshot *snap, struct stack_walk *w)
{
	sqlite3_stmt *s = reader_query(snap, EACH_STACK, w->err);

	if (!s)
		return false;
	db_bind_u64(s, 1, w->ids[0]);
	db_bind_u64(s, 2, w->ids[w->count - 1]);
	return run_walk(snap, s, w) && (w->ended || w->at == w->count || missing_stack(w));
}

bool sqlite_each_stack(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		       bool (*fn)(void *arg, store_id id, struct hash128 hash,
				  const store_id *locations, uint32_t location_count),
		       void *arg, struct err *err)
{
	enum { DENSE_STACKS = 4, AT_ONCE = 4096 };
	struct stack_walk w = { .ids = ids, .count = count, .fn = fn, .arg = arg, .err = err };
	struct buf list;
	bool ok = true;

	buf_init(&list, 0);
	if (count && (ids[count - 1] - ids[0]) / DENSE_STACKS < count)
		ok = walk_stacks(snap, &w);
	else
		for (size_t i = 0; ok && !w.ended && i < count; i += AT_ONCE)
			ok = pick_stacks(snap, &w, i, count - i < AT_ONCE ? count : i + AT_ONCE,
					 &list);
	buf_release(&list);
	free(w.locations);
	return ok;
}
