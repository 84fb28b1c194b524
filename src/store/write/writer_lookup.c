/*
 * writer_lookup.c - finding rows by content hash, and the table that does it.
 *
 * Hashes are random, so each row put into `lookup` would write a page of its own. They wait (in
 * known.h) until there are many, and are then put in sorted: pages are written once for many.
 * After a crash the waiting ones are read again from the rows themselves: those with ids past
 * lookup_state.
 *
 * Only code and texts are in it (is_indexed()): they come again for months. What a process brings,
 * its attributes, resource and series, is known while the cache knows it; when a process comes back
 * after that or after a restart, it gets rows once more, which costs less than an index of all that
 * ever lived, and changes no answer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/write/hash_filter.h"
#include "store/schema/references.h"
#include "store/write/writer_internal.h"

static bool is_indexed(enum store_kind kind)
{
	return kind == KIND_STRING || kind == KIND_FUNCTION || kind == KIND_MAPPING ||
	       kind == KIND_LOCATION || kind == KIND_STACK;
}

/* A string's hash is that of its text; the others keep theirs. */
static struct hash128 row_hash(enum store_kind kind, sqlite3_stmt *s, int column)
{
	struct str bytes = db_bytes(s, column);
	struct hash128 h = HASH_NONE;

	if (kind == KIND_STRING)
		return ident_text(bytes);
	if (bytes.len == sizeof(h))
		memcpy(&h, bytes.ptr, sizeof(h));
	return h;
}

static sqlite3_stmt *verify_statement(struct store_writer *w, enum store_kind kind)
{
	char sql[96];

	if (!w->verify[kind]) {
		snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id=?1",
			 kind == KIND_STRING ? "v" : "hash", store_table(kind));
		if (!db_prepare(w->db, sql, &w->verify[kind], w->err))
			writer_fail(w, NULL);
	}
	return w->verify[kind];
}

static bool row_is(struct store_writer *w, enum store_kind kind, uint32_t id, struct hash128 hash)
{
	sqlite3_stmt *s = verify_statement(w, kind);
	struct hash128 have;
	bool row;

	if (w->failed)
		return false;
	sqlite3_bind_int64(s, 1, id);
	if (!db_step(w->db, s, &row, w->err, "looking up a row")) {
		writer_fail(w, NULL);
		return false;
	}
	if (!row)
		return false;
	have = row_hash(kind, s, 0);
	sqlite3_reset(s);
	return have.lo == hash.lo && have.hi == hash.hi;
}

uint32_t writer_find(struct store_writer *w, enum store_kind kind, struct hash128 hash)
{
	sqlite3_stmt *s = statement(w, FIND_LOOKUP);
	bool indexed = is_indexed(kind), row = true;
	uint32_t id =
		indexed ? known_find(&w->known, kind, hash) : known_cached(&w->known, kind, hash);
	uint32_t found = 0;

	if (id && w->keep.sweep && !sweep_may_use(w->keep.sweep, kind, id)) {
		known_forget(&w->known, kind, hash);
		return 0;
	}
	if (id || !w->lookup_used || w->failed || !indexed ||
	    (w->filter && !hash_filter_may_have(w->filter, hash.hi)))
		return id;
	db_bind_u64(s, 1, hash.hi);
	sqlite3_bind_int(s, 2, kind);
	while (!found && row && !w->failed) {
		if (!db_step(w->db, s, &row, w->err, "looking up a content hash"))
			writer_fail(w, NULL);
		else if (row && row_is(w, kind, (uint32_t)sqlite3_column_int64(s, 0), hash))
			found = (uint32_t)sqlite3_column_int64(s, 0);
	}
	sqlite3_reset(s);
	if (found && w->keep.sweep && !sweep_may_use(w->keep.sweep, kind, found))
		return 0;
	if (found)
		known_cache(&w->known, kind, hash, found);
	return found;
}

void writer_fold(struct store_writer *w)
{
	writer_flush(w); /* whoever finds a row here reads it */
	known_sort_pending(&w->known);
	for (uint32_t i = 0; i < w->known.pending_count && !w->failed; i++) {
		const struct known_entry *e = &w->known.pending[i];
		struct feed_value *v = writer_row(w, FED_LOOKUP);

		v[0] = feed_number(e->hash.hi);
		v[1] = feed_number(e->kind);
		v[2] = feed_number(e->id);
		if (w->filter)
			hash_filter_add(w->filter, e->hash.hi);
	}
	writer_flush_table(w, FED_LOOKUP);
	for (int kind = 1; kind < KIND_COUNT && !w->failed; kind++) {
		sqlite3_bind_int(statement(w, PUT_LOOKUP_STATE), 1, kind);
		sqlite3_bind_int64(statement(w, PUT_LOOKUP_STATE), 2, w->now.last_id[kind]);
		writer_run(w, PUT_LOOKUP_STATE, "adding content hashes");
	}
	w->lookup_used = true;
	known_folded(&w->known);
}

uint32_t writer_next_row(struct store_writer *w, enum store_kind kind, struct hash128 hash)
{
	if (w->now.last_id[kind] == UINT32_MAX) {
		err_set(w->err, ERR_LIMIT, "the store's table %s has 2^32 rows", store_table(kind));
		writer_fail(w, NULL);
		return 0;
	}
	if (w->known.pending_count == KNOWN_PENDING_MOST)
		writer_fold(w);
	if (w->failed)
		return 0;
	w->now.last_id[kind]++;
	w->now.facts.rows_added++;
	if (is_indexed(kind))
		known_add(&w->known, kind, hash, w->now.last_id[kind]);
	else
		known_cache(&w->known, kind, hash, w->now.last_id[kind]);
	return w->now.last_id[kind];
}

/* ---- at the start and after a rollback ---- */

static bool load_last_id(struct store_writer *w, enum store_kind kind, int64_t *folded,
			 struct err *err)
{
	int64_t last;
	char sql[96];

	snprintf(sql, sizeof(sql), "SELECT id FROM lookup_state WHERE kind=%d", kind);
	if (!db_number(w->db, sql, 0, folded, err))
		return false;
	snprintf(sql, sizeof(sql), "SELECT max(id) FROM %s", store_table(kind));
	if (!db_number(w->db, sql, 0, &last, err))
		return false;
	w->now.last_id[kind] = (uint32_t)(last > *folded ? last : *folded);
	return true;
}

/* The rows that wait for the table lookup. All of them wait in a store that was salvaged. */
static bool load_waiting(struct store_writer *w, enum store_kind kind, int64_t folded,
			 struct err *err)
{
	char sql[160];
	sqlite3_stmt *s = NULL;
	bool row = true, ok;

	snprintf(sql, sizeof(sql), "SELECT id, %s FROM %s WHERE id>%lld ORDER BY id",
		 kind == KIND_STRING ? "v" : "hash", store_table(kind), (long long)folded);
	ok = db_prepare(w->db, sql, &s, err);
	while (ok && row) {
		ok = db_step(w->db, s, &row, err, "reading the newest rows");
		if (!ok || !row)
			break;
		if (w->known.pending_count == KNOWN_PENDING_MOST)
			writer_fold(w);
		ok = !w->failed;
		if (ok)
			known_add(&w->known, kind, row_hash(kind, s, 1),
				  (uint32_t)sqlite3_column_int64(s, 0));
	}
	sqlite3_finalize(s);
	return ok;
}

/* Without a filter all works, slower; what is damaged is found out by who needs it. */
void writer_make_filter(struct store_writer *w)
{
	enum { ROWS_MOST = 3000000 };
	uint64_t *filter = calloc(HASH_FILTER_WORDS, sizeof(*filter));
	struct err ignored;
	sqlite3_stmt *s = NULL;
	bool row = true, ok = filter && db_prepare(w->db, "SELECT hash FROM lookup", &s, &ignored);

	for (uint32_t rows = 0; ok && row; rows++) {
		ok = db_step(w->db, s, &row, &ignored, "listing hashes") && rows < ROWS_MOST;
		if (ok && row)
			hash_filter_add(filter, db_u64(s, 0));
	}
	sqlite3_finalize(s);
	if (ok)
		w->filter = filter;
	else
		free(filter);
}

bool writer_load_pending(struct store_writer *w, struct err *err)
{
	int64_t used, folded[KIND_COUNT];

	known_clear(&w->known);
	for (int kind = 1; kind < KIND_COUNT; kind++)
		if (!load_last_id(w, (enum store_kind)kind, &folded[kind], err))
			return false;
	for (int kind = 1; kind < KIND_COUNT; kind++)
		if (is_indexed((enum store_kind)kind) &&
		    !load_waiting(w, (enum store_kind)kind, folded[kind], err))
			return false;
	if (!db_number(w->db, "SELECT 1 FROM lookup LIMIT 1", 0, &used, err))
		return false;
	w->lookup_used = used;
	return true;
}

/* ---- link_key: which links have a trace or span id ---- */

/* These ids are random: indices on the columns would write two pages for each new link, half of all
 * that a request writes. So they too are put in sorted, thousands at a time; lookup_state says up
 * to which link, and a reader looks at the rows that came since. */
enum { LINKS_AT_ONCE = 4096 };

bool writer_load_links(struct store_writer *w, struct err *err)
{
	int64_t keyed;
	char sql[64];

	snprintf(sql, sizeof(sql), "SELECT id FROM lookup_state WHERE kind=%d", STORE_STATE_LINKS);
	if (!db_number(w->db, sql, 0, &keyed, err))
		return false;
	w->now.keyed_links = (uint32_t)keyed;
	return true;
}

void writer_key_links(struct store_writer *w)
{
	uint32_t from = w->now.keyed_links, to = w->now.last_id[KIND_LINK];

	if (w->failed || to < from + LINKS_AT_ONCE)
		return;
	if (!db_exec_f(w->db, w->err,
		       "INSERT OR IGNORE INTO link_key SELECT * FROM (SELECT trace_id, id FROM "
		       "link WHERE id>%u UNION ALL SELECT span_id, id FROM link WHERE id>%u) "
		       "ORDER BY 1, 2; INSERT OR REPLACE INTO lookup_state VALUES(%d, %u)",
		       from, from, STORE_STATE_LINKS, to))
		writer_fail(w, NULL);
	w->now.keyed_links = to;
}
