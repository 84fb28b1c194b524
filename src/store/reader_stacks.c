/* reader_stacks.c - stacks: their locations, many at a time. */
#include <stdlib.h>

#include "store/codec.h"
#include "store/reader_walk.h"

struct stack_reader {
	const uint64_t *ids;
	size_t first; /* of ids: where those begin that are read now */
	source_stack_fn *fn;
	void *arg;
	uint64_t *locations;
	size_t cap;
};

static bool give_stack(struct stack_reader *r, size_t at, struct str locations, struct err *err)
{
	size_t count;

	if (locations.len > r->cap) {
		r->cap = locations.len * 2;
		free(r->locations);
		r->locations = malloc(r->cap * sizeof(*r->locations));
		assert(r->locations);
	}
	count = codec_get_list(locations, r->locations);
	if (count > UINT32_MAX)
		return err_set(err, ERR_INVALID, "the stack %llu is damaged",
			       (unsigned long long)r->ids[at]);
	return r->fn(r->arg, r->ids[at], r->locations, (uint32_t)count, err);
}

static bool take_stack(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct stack_reader *r = ctx;

	return give_stack(r, r->first + at, row_bytes(columns[0]), err);
}

/* ---- few among many ---- */

/* The handle goes to the row, and is opened where there is none yet. False: it is closed. */
static bool go_to(struct sqlite_snapshot *snap, uint64_t id, sqlite3_blob **handle)
{
	int rc = *handle ? sqlite3_blob_reopen(*handle, (sqlite3_int64)id)
			 : sqlite3_blob_open(snap->db, "main", "stack", "locations",
					     (sqlite3_int64)id, 0, handle);

	if (rc == SQLITE_OK)
		return true;
	sqlite3_blob_close(*handle);
	*handle = NULL;
	return false;
}

static bool read_handle(sqlite3_blob *handle, struct buf *out)
{
	int n = sqlite3_blob_bytes(handle);
	char *room;

	buf_reset(out);
	room = buf_reserve(out, (size_t)n);
	if (sqlite3_blob_read(handle, room, n, 0) != SQLITE_OK)
		return false;
	buf_advance(out, (size_t)n);
	return true;
}

/* A handle that goes from row to row is a third less work than a list that is joined. Where it does
 * not (the row has no bytes, or is not there) the row is read the usual way. */
static bool walk_handle(struct sqlite_snapshot *snap, size_t count, struct stack_reader *r,
			struct err *err)
{
	sqlite3_blob *handle = NULL;
	struct buf bytes;
	bool ok = true;

	buf_init(&bytes, 0);
	for (size_t at = 0; ok && at < count; at++) {
		r->first = at;
		if (go_to(snap, r->ids[at], &handle) && read_handle(handle, &bytes))
			ok = give_stack(r, at, buf_view(&bytes), err);
		else
			ok = row_each(snap, EACH_STACK, r->ids + at, 1, take_stack, r, err);
	}
	sqlite3_blob_close(handle);
	buf_release(&bytes);
	return ok;
}

bool sqlite_stacks(struct source *source, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		   void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct stack_reader r = { .ids = ids, .fn = fn, .arg = arg };
	bool ok = count && !row_are_dense(ids, count)
			  ? walk_handle(snap, count, &r, err)
			  : row_each(snap, EACH_STACK, ids, count, take_stack, &r, err);

	free(r.locations);
	return ok;
}
