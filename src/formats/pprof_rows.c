#include "formats/pprof_rows.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"

/* Of rows that say the same so many are looked at for a place: the sums are right either way. */
enum { SAME_MOST = 32 };

void pprof_rows_init(struct pprof_rows *r, uint32_t columns, size_t limit_bytes)
{
	*r = (struct pprof_rows){ .columns = columns };
	intern_init(&r->table);
	buf_init(&r->bytes, limit_bytes);
}

void pprof_rows_release(struct pprof_rows *r)
{
	intern_release(&r->table);
	buf_release(&r->bytes);
	free(r->ptr);
	free(r->values);
}

static bool row_same(const void *ctx, uint32_t index, const void *key)
{
	const struct pprof_rows *r = ctx;
	uint32_t other = *(const uint32_t *)key;

	return r->ptr[index].stack_len == r->ptr[other].stack_len &&
	       str_equal(pprof_rows_text(r, index), pprof_rows_text(r, other));
}

static bool has_room_for(const struct pprof_rows *r, uint32_t row, const int64_t *values)
{
	for (uint32_t i = 0; i < r->columns; i++)
		if (values[i] && r->values[(size_t)row * r->columns + i])
			return false;
	return true;
}

static void put_values(struct pprof_rows *r, uint32_t row, const int64_t *values)
{
	for (uint32_t i = 0; i < r->columns; i++)
		r->values[(size_t)row * r->columns + i] += values[i];
}

/* A row at the end that `count` does not count yet. */
static bool append_row(struct pprof_rows *r, struct str stack, struct str labels)
{
	struct pprof_row row = { .first = r->bytes.len,
				 .stack_len = (uint32_t)stack.len,
				 .len = (uint32_t)(stack.len + labels.len) };

	buf_str(&r->bytes, stack);
	buf_str(&r->bytes, labels);
	r->failed |= r->bytes.failed;
	if (r->failed)
		return false;
	VEC_ROOM(r->ptr, r->count, r->cap);
	r->ptr[r->count] = row;
	return true;
}

void pprof_rows_add(struct pprof_rows *r, struct str stack, struct str labels,
		    const int64_t *values)
{
	uint32_t at, found;

	if (r->failed || !append_row(r, stack, labels))
		return;
	at = r->count;
	found = intern_find_or_add(&r->table, hash64(pprof_rows_text(r, at)), row_same, r, &at, at);
	for (int i = 0; found != UINT32_MAX && i < SAME_MOST; i++) {
		if (has_room_for(r, found, values)) {
			r->bytes.len = r->ptr[at].first;
			put_values(r, found, values);
			return;
		}
		if (!r->ptr[found].next)
			r->ptr[found].next = at + 1;
		found = r->ptr[found].next == at + 1 ? UINT32_MAX : r->ptr[found].next - 1;
	}
	VEC_RESERVE(r->values, (r->count + 1) * r->columns, r->value_cap);
	memset(r->values + (size_t)at * r->columns, 0, r->columns * sizeof(*r->values));
	r->count++;
	put_values(r, at, values);
}
