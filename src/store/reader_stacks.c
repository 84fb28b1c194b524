/* reader_stacks.c - stacks: their locations, many at a time. */
#include <stdlib.h>

#include "store/codec.h"
#include "store/reader_walk.h"

struct stack_reader {
	const store_id *ids;
	bool (*fn)(void *arg, store_id id, const store_id *locations, uint32_t location_count);
	void *arg;
	store_id *locations;
	size_t cap;
	bool ended; /* by fn, which is no failure */
};

static bool take_stack(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct stack_reader *r = ctx;
	struct str locations = row_bytes(columns[0]);
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
	r->ended = !r->fn(r->arg, r->ids[at], r->locations, (uint32_t)count);
	return !r->ended;
}

bool sqlite_each_stack(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		       bool (*fn)(void *arg, store_id id, const store_id *locations,
				  uint32_t location_count),
		       void *arg, struct err *err)
{
	struct stack_reader r = { .ids = ids, .fn = fn, .arg = arg };
	bool ok = row_each(snap, EACH_STACK, ids, count, take_stack, &r, err);

	free(r.locations);
	return ok || r.ended;
}
