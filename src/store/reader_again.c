/*
 * reader_again.c - what code blocks (code_block.h) say once more of locations whose rows cannot be
 * read: for requests of a damaged file.
 *
 * A block is read as a whole when the first of its locations is asked for, once a request.
 */
#include "store/code_block.h"
#include "store/reader_rebuild.h"

static void keep_location(struct rebuild *r, const struct code_location *l)
{
	struct code_location *kept = arena_zalloc(&r->scratch, sizeof(*kept));
	struct source_line *lines =
		arena_alloc_array(&r->scratch, l->said.line_count + 1, sizeof(*lines));

	*kept = *l;
	for (uint32_t i = 0; i < kept->said.line_count; i++)
		lines[i] = l->said.lines[i];
	kept->said.lines = lines;
	idmap_add(&r->again, l->said.id)->ptr = kept;
}

static void keep_block(struct rebuild *r, uint64_t first, struct str bytes)
{
	struct code_location l;
	struct code_block b;
	bool ok = code_block_open(&b, first, bytes);

	while (ok && code_block_next(&b, &l, &ok))
		keep_location(r, &l);
	code_block_close(&b);
}

/* The block that covers the location, if there is one; false: it cannot be read. */
static bool find_block(struct rebuild *r, uint64_t location, uint64_t *first, bool *found,
		       struct err *err)
{
	sqlite3_stmt *s = reader_query(r->snap, LIST_CODE_BLOCKS, err);

	if (!s)
		return false;
	sqlite3_reset(s);
	db_bind_u64(s, 1, location);
	db_bind_u64(s, 2, location);
	if (!db_step(r->snap->db, s, found, err, "looking for a block of code"))
		return false;
	*first = *found ? db_u64(s, 0) : 0;
	sqlite3_reset(s);
	return true;
}

const struct code_location *rebuild_again(struct rebuild *r, uint64_t location)
{
	struct idmap_slot *slot = idmap_find(&r->again, location);
	struct buf bytes;
	struct err ignored;
	bool found, whole;
	uint64_t first;

	if (!slot && find_block(r, location, &first, &found, &ignored) && found) {
		buf_init(&bytes, 0);
		if (reader_code_block(r->snap, first, &bytes, &whole, &ignored) && whole)
			keep_block(r, first, rebuild_copy(r, buf_view(&bytes)));
		buf_release(&bytes);
		slot = idmap_find(&r->again, location);
	}
	return slot ? slot->ptr : NULL;
}
