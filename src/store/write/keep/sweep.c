#include "store/write/keep/sweep.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/known.h"
#include "store/schema/references.h"

enum { SLICE_ROWS = 256, ROWS_A_LOOK = 64 };
/* What one transaction deletes, and how many keys it looks at: it is to leave a small log. */
enum { STEP_ROWS = 4096, SLICE_KEYS = 4096, STEP_KEYS = 32768 };

enum phase { PHASE_MARK, PHASE_FOLLOW, PHASE_SWEEP, PHASE_KEYS, PHASE_DONE };

struct key {
	sqlite3_value *of;
	uint32_t kind, id;
};

struct sweep {
	sqlite3 *snapshot;
	sqlite3_stmt *statement; /* of the source that is read */
	int source;
	enum phase phase;
	uint32_t last_id[KIND_COUNT];
	uint8_t *marked[KIND_COUNT], *touched[KIND_COUNT];
	int kind;    /* that is swept */
	uint32_t at; /* of its ids, those up to here are done */
	int keys;    /* the table of keys that is swept, up to: */
	struct key key;
};

static bool get_bit(const uint8_t *bits, uint32_t id)
{
	return bits[id >> 3] >> (id & 7) & 1;
}

static void set_bit(uint8_t *bits, uint32_t id)
{
	bits[id >> 3] |= (uint8_t)(1u << (id & 7));
}

struct sweep *sweep_new(const char *path, const uint32_t last_id[KIND_COUNT], struct err *err)
{
	struct sweep *s = calloc(1, sizeof(*s));

	assert(s);
	for (int i = 1; i < KIND_COUNT; i++) {
		s->last_id[i] = last_id[i];
		s->marked[i] = calloc((size_t)last_id[i] / 8 + 1, 1);
		s->touched[i] = calloc((size_t)last_id[i] / 8 + 1, 1);
		assert(s->marked[i] && s->touched[i]);
	}
	s->kind = 1;
	if (sqlite3_open_v2(path, &s->snapshot, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
		    SQLITE_OK ||
	    sqlite3_exec(s->snapshot,
			 "PRAGMA cache_size=-1024; BEGIN; SELECT 1 FROM lookup_state LIMIT 1", NULL,
			 NULL, NULL) != SQLITE_OK) {
		db_error(s->snapshot, err, "reading the store to sweep it");
		sweep_free(s);
		return NULL;
	}
	return s;
}

bool sweep_reads(const struct sweep *s)
{
	return s->snapshot != NULL;
}

static void close_snapshot(struct sweep *s)
{
	sqlite3_finalize(s->statement);
	s->statement = NULL;
	sqlite3_close(s->snapshot);
	s->snapshot = NULL;
}

void sweep_free(struct sweep *s)
{
	if (!s)
		return;
	close_snapshot(s);
	sqlite3_value_free(s->key.of);
	for (int i = 1; i < KIND_COUNT; i++) {
		free(s->marked[i]);
		free(s->touched[i]);
	}
	free(s);
}

bool sweep_may_use(struct sweep *s, enum store_kind kind, uint32_t id)
{
	if (id > s->last_id[kind])
		return true;
	if (s->phase >= PHASE_SWEEP)
		return get_bit(s->marked[kind], id);
	set_bit(s->touched[kind], id);
	return true;
}

/* ---- marking ---- */

/* While following, a row that was dead is to be followed in its turn: kinds come top down. */
static void mark(void *ctx, enum store_kind kind, uint64_t id)
{
	struct sweep *s = ctx;

	if (id > s->last_id[kind])
		return;
	if (s->phase == PHASE_FOLLOW)
		set_bit(s->touched[kind], (uint32_t)id);
	else
		set_bit(s->marked[kind], (uint32_t)id);
}

static bool is_alive(const struct sweep *s, enum store_kind kind, uint64_t id)
{
	return id > s->last_id[kind] || get_bit(s->marked[kind], (uint32_t)id);
}

/* Reads on in the open source; *more when the time is over before its end. */
static bool mark_source(struct sweep *s, uint64_t deadline_ns, bool *more, struct err *err)
{
	const struct reference_source *x = &reference_sources[s->source];
	bool row = true;

	*more = false;
	if (!s->statement && !db_prepare(s->snapshot, x->select, &s->statement, err))
		return false;
	for (uint32_t n = 1;; n++) {
		if (!db_step(s->snapshot, s->statement, &row, err, "reading the store to sweep it"))
			return false;
		if (!row)
			break;
		if ((!x->kind || is_alive(s, x->kind, db_u64(s->statement, 0))) &&
		    !references_of(x, s->statement, mark, s, err))
			return false;
		if (n % ROWS_A_LOOK == 0 && clock_monotonic_ns() >= deadline_ns) {
			*more = true;
			return true;
		}
	}
	sqlite3_finalize(s->statement);
	s->statement = NULL;
	return true;
}

static bool mark_slice(struct sweep *s, uint64_t deadline_ns, struct err *err)
{
	bool more = false;

	while (reference_sources[s->source].table) {
		if (!mark_source(s, deadline_ns, &more, err))
			return false;
		if (more)
			return true;
		s->source++;
	}
	close_snapshot(s);
	s->phase = PHASE_FOLLOW;
	return true;
}

/* What the writer handed out meanwhile though nothing in the snapshot refers to it: top down again.
 */
static bool follow_source(struct sweep *s, const struct reference_source *x, sqlite3 *db,
			  struct err *err)
{
	sqlite3_stmt *one = NULL;
	char sql[400];
	bool ok = true, row;

	snprintf(sql, sizeof(sql), "%s WHERE id=?1", x->select);
	for (uint32_t id = 1; ok && id <= s->last_id[x->kind]; id++) {
		if (!get_bit(s->touched[x->kind], id) || get_bit(s->marked[x->kind], id))
			continue;
		set_bit(s->marked[x->kind], id);
		ok = (one || db_prepare(db, sql, &one, err));
		if (!ok)
			break;
		sqlite3_bind_int64(one, 1, id);
		ok = db_step(db, one, &row, err, "following a row");
		if (!ok || !row)
			continue;
		ok = references_of(x, one, mark, s, err);
		sqlite3_reset(one);
	}
	sqlite3_finalize(one);
	return ok;
}

static bool is_swept(void *arg, enum store_kind kind, uint32_t id)
{
	const struct sweep *s = arg;

	return kind < KIND_COUNT && !is_alive(s, kind, id);
}

static bool follow(struct sweep *s, sqlite3 *db, struct known *known, struct err *err)
{
	for (const struct reference_source *x = reference_sources; x->table; x++)
		if (x->kind && !follow_source(s, x, db, err))
			return false;
	s->phase = PHASE_SWEEP;
	known_purge(known, is_swept, s);
	return true;
}

/* ---- sweeping ---- */

/* Rows of one kind from s->at on, at most SLICE_ROWS looked at. */
static bool sweep_some(struct sweep *s, sqlite3 *db, uint64_t *rows, bool *end, struct err *err)
{
	sqlite3_stmt *list = NULL, *row_gone = NULL;
	sqlite3_int64 dead[SLICE_ROWS];
	int dead_count = 0, seen = 0;
	char sql[200];
	bool ok, row = true;

	snprintf(sql, sizeof(sql), "SELECT id FROM %s WHERE id>?1 AND id<=?2 ORDER BY id LIMIT %d",
		 store_table((enum store_kind)s->kind), SLICE_ROWS);
	ok = db_prepare(db, sql, &list, err);
	snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id=?1",
		 store_table((enum store_kind)s->kind));
	ok = ok && db_prepare(db, sql, &row_gone, err);
	if (ok) {
		sqlite3_bind_int64(list, 1, s->at);
		sqlite3_bind_int64(list, 2, s->last_id[s->kind]);
	}
	while (ok && row) {
		ok = db_step(db, list, &row, err, "sweeping");
		if (!ok || !row)
			break;
		seen++;
		s->at = (uint32_t)sqlite3_column_int64(list, 0);
		if (!get_bit(s->marked[s->kind], s->at))
			dead[dead_count++] = s->at;
	}
	for (int i = 0; ok && i < dead_count; i++) {
		sqlite3_bind_int64(row_gone, 1, dead[i]);
		ok = db_run(db, row_gone, err, "sweeping");
		*rows += ok;
	}
	sqlite3_finalize(list);
	sqlite3_finalize(row_gone);
	*end = seen < SLICE_ROWS;
	return ok;
}

static bool sweep_slice(struct sweep *s, sqlite3 *db, uint64_t deadline_ns, uint64_t *rows,
			struct err *err)
{
	uint64_t before = *rows;

	do {
		bool end;

		if (!sweep_some(s, db, rows, &end, err))
			return false;
		if (end) {
			s->kind++;
			s->at = 0;
		}
	} while (s->kind < KIND_COUNT && *rows - before < STEP_ROWS &&
		 clock_monotonic_ns() < deadline_ns);
	if (s->kind == KIND_COUNT)
		s->phase = PHASE_KEYS;
	return true;
}

/* ---- keys of what was swept ---- */

/* Tables in the order of keys that lie anywhere: of a row that goes, each key would be a page of
 * its own. So all of a table is looked at, in its order. */
static const struct {
	const char *from, *next, *gone;
} key_tables[] = {
	{ "SELECT -1 - 9223372036854775807, 0, 0",
	  "SELECT hash, kind, id FROM lookup WHERE (hash, kind, id)>(?1, ?2, ?3) ORDER BY hash, "
	  "kind, id LIMIT ?4",
	  "DELETE FROM lookup WHERE hash=?1 AND kind=?2 AND id=?3" },
	{ "SELECT x'', 0, 0",
	  "SELECT key, 8, link_id FROM link_key WHERE (key, link_id)>(?1, ?3) ORDER BY key, "
	  "link_id LIMIT ?4",
	  "DELETE FROM link_key WHERE key=?1 AND link_id=?3 AND ?2=8" },
};
enum { KEY_TABLES = sizeof(key_tables) / sizeof(key_tables[0]) };
static_assert(KIND_LINK == 8, "as the statements have it");

static void take_key(struct key *k, sqlite3_stmt *row)
{
	sqlite3_value_free(k->of);
	k->of = sqlite3_value_dup(sqlite3_column_value(row, 0));
	assert(k->of);
	k->kind = (uint32_t)sqlite3_column_int64(row, 1);
	k->id = (uint32_t)sqlite3_column_int64(row, 2);
}

static void bind_key(sqlite3_stmt *s, const struct key *k)
{
	sqlite3_bind_value(s, 1, k->of);
	sqlite3_bind_int64(s, 2, k->kind);
	sqlite3_bind_int64(s, 3, k->id);
}

static bool delete_keys(sqlite3 *db, const char *sql, const struct key *keys, int count,
			struct err *err)
{
	sqlite3_stmt *gone = NULL;
	bool ok = db_prepare(db, sql, &gone, err);

	for (int i = 0; ok && i < count; i++) {
		bind_key(gone, &keys[i]);
		ok = db_run(db, gone, err, "sweeping keys");
	}
	sqlite3_finalize(gone);
	return ok;
}

/* The next SLICE_KEYS of a table; those of rows that are gone go. */
static bool sweep_keys_some(struct sweep *s, sqlite3 *db, bool *end, struct err *err)
{
	struct key *dead = calloc(SLICE_KEYS, sizeof(*dead));
	sqlite3_stmt *list = NULL;
	int count = 0, seen = 0;
	bool ok, row = true;

	assert(dead);
	ok = db_prepare(db, s->key.of ? key_tables[s->keys].next : key_tables[s->keys].from, &list,
			err);
	if (ok && s->key.of) {
		bind_key(list, &s->key);
		sqlite3_bind_int(list, 4, SLICE_KEYS);
	}
	*end = s->key.of != NULL;
	while (ok && row) {
		ok = db_step(db, list, &row, err, "sweeping keys");
		if (!ok || !row)
			break;
		take_key(&s->key, list);
		if (s->key.id && is_swept(s, (enum store_kind)s->key.kind, s->key.id))
			take_key(&dead[count++], list);
		*end &= ++seen < SLICE_KEYS;
	}
	sqlite3_finalize(list);
	ok = ok && delete_keys(db, key_tables[s->keys].gone, dead, count, err);
	for (int i = 0; i < count; i++)
		sqlite3_value_free(dead[i].of);
	free(dead);
	return ok;
}

static bool sweep_keys(struct sweep *s, sqlite3 *db, uint64_t deadline_ns, struct err *err)
{
	int looked_at = 0;

	do {
		bool end;

		if (!sweep_keys_some(s, db, &end, err))
			return false;
		if (end) {
			sqlite3_value_free(s->key.of);
			s->key.of = NULL;
			s->keys++;
		}
		looked_at += SLICE_KEYS;
	} while (s->keys < KEY_TABLES && looked_at < STEP_KEYS &&
		 clock_monotonic_ns() < deadline_ns);
	if (s->keys == KEY_TABLES)
		s->phase = PHASE_DONE;
	return true;
}

bool sweep_step(struct sweep *s, sqlite3 *db, struct known *known, uint64_t deadline_ns, bool *done,
		uint64_t *rows, struct err *err)
{
	bool ok = true;

	if (s->phase == PHASE_MARK)
		ok = mark_slice(s, deadline_ns, err);
	else if (s->phase == PHASE_FOLLOW)
		ok = follow(s, db, known, err);
	else if (s->phase == PHASE_SWEEP)
		ok = sweep_slice(s, db, deadline_ns, rows, err);
	else if (s->phase == PHASE_KEYS)
		ok = sweep_keys(s, db, deadline_ns, err);
	*done = ok && s->phase == PHASE_DONE;
	return ok;
}
