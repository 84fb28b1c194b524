#include "store/sweep.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/chunk.h"
#include "store/codec.h"
#include "store/known.h"

enum { COLUMNS_MOST = 11, SLICE_ROWS = 256, ROWS_A_LOOK = 64 };
/* What one transaction deletes, and how many keys it looks at: it is to leave a small log. */
enum { STEP_ROWS = 4096, SLICE_KEYS = 4096, STEP_KEYS = 32768 };

/* What a column says: a row of a kind, or bytes that name many. */
enum form {
	FORM_END,
	FORM_ID,
	FORM_IDS,
	FORM_NUMBER_OR_IDS,
	FORM_LINES,
	FORM_LAYOUT,
	FORM_CHUNK, /* the whole row is one */
};

struct reference {
	enum form form;
	enum store_kind kind;
};

/*
 * In the order of marking: whoever refers comes before what it refers to. A source of kind 0 is
 * always alive; of another kind a row is followed only when it is marked, and its first column is
 * its id.
 */
static const struct source {
	enum store_kind kind;
	const char *select; /* "WHERE id=?1" can be appended when kind is not 0 */
	struct reference columns[COLUMNS_MOST];
} sources[] = {
	{ 0,
	  "SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK CHUNK_COLUMNS_ATTRIBUTES
		  CHUNK_COLUMNS_LINK " FROM chunk",
	  { { FORM_CHUNK, 0 } } },
	{ 0,
	  "SELECT series, attrset_id FROM profile",
	  { { FORM_NUMBER_OR_IDS, KIND_SERIES }, { FORM_ID, KIND_ATTRSET } } },
	{ 0, "SELECT layout FROM request", { { FORM_LAYOUT, 0 } } },
	{ 0,
	  "SELECT host_id, reason_id FROM coverage",
	  { { FORM_ID, KIND_STRING }, { FORM_ID, KIND_STRING } } },
	{ KIND_SERIES,
	  "SELECT id, tenant_id, resource_id, scope_id, sample_type_id, sample_unit_id, "
	  "period_type_id, period_unit_id, lifted_id, service_id, labels FROM series",
	  { { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_RESOURCE },
	    { FORM_ID, KIND_SCOPE },
	    { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_ATTRSET },
	    { FORM_ID, KIND_STRING },
	    { FORM_IDS, KIND_ATTRIBUTE } } },
	{ KIND_RESOURCE,
	  "SELECT id, attrset_id, schema_url_id FROM resource",
	  { { FORM_ID, KIND_ATTRSET }, { FORM_ID, KIND_STRING } } },
	{ KIND_SCOPE,
	  "SELECT id, name_id, version_id, attrset_id, schema_url_id FROM scope",
	  { { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_STRING },
	    { FORM_ID, KIND_ATTRSET },
	    { FORM_ID, KIND_STRING } } },
	{ KIND_LINK, "SELECT id FROM link", { { FORM_END, 0 } } },
	{ KIND_STACK, "SELECT id, locations FROM stack", { { FORM_IDS, KIND_LOCATION } } },
	{ KIND_LOCATION,
	  "SELECT id, mapping_id, attrset_id, frame_type_id, lines FROM location",
	  { { FORM_ID, KIND_MAPPING },
	    { FORM_ID, KIND_ATTRSET },
	    { FORM_ID, KIND_STRING },
	    { FORM_LINES, KIND_FUNCTION } } },
	{ KIND_MAPPING,
	  "SELECT id, filename_id, attrset_id FROM mapping",
	  { { FORM_ID, KIND_STRING }, { FORM_ID, KIND_ATTRSET } } },
	{ KIND_FUNCTION,
	  "SELECT id, name_id, system_name_id, filename_id FROM function",
	  { { FORM_ID, KIND_STRING }, { FORM_ID, KIND_STRING }, { FORM_ID, KIND_STRING } } },
	{ KIND_ATTRSET, "SELECT id, attributes FROM attrset", { { FORM_IDS, KIND_ATTRIBUTE } } },
	{ KIND_ATTRIBUTE,
	  "SELECT id, key_id, unit_id FROM attribute",
	  { { FORM_ID, KIND_STRING }, { FORM_ID, KIND_STRING } } },
	{ KIND_STRING, "SELECT id FROM string", { { FORM_END, 0 } } },
};
enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

static const char *const tables[KIND_COUNT] = {
	[KIND_STRING] = "string",     [KIND_ATTRIBUTE] = "attribute", [KIND_ATTRSET] = "attrset",
	[KIND_FUNCTION] = "function", [KIND_MAPPING] = "mapping",     [KIND_LOCATION] = "location",
	[KIND_STACK] = "stack",       [KIND_LINK] = "link",           [KIND_RESOURCE] = "resource",
	[KIND_SCOPE] = "scope",       [KIND_SERIES] = "series",
};

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
static void mark(struct sweep *s, enum store_kind kind, uint64_t id)
{
	if (!id || id > s->last_id[kind])
		return;
	if (s->phase == PHASE_FOLLOW)
		set_bit(s->touched[kind], (uint32_t)id);
	else
		set_bit(s->marked[kind], (uint32_t)id);
}

static void mark_ids(struct sweep *s, enum store_kind kind, struct str bytes)
{
	struct codec c = codec_of(bytes);

	while (codec_more(&c))
		mark(s, kind, codec_get(&c));
}

static void mark_lines(struct sweep *s, struct str bytes)
{
	struct codec c = codec_of(bytes);

	while (codec_more(&c)) {
		mark(s, KIND_FUNCTION, codec_get(&c));
		codec_get(&c);
		codec_get(&c);
	}
}

static void mark_layout(struct sweep *s, struct str bytes)
{
	struct codec c = codec_of(bytes);
	uint64_t resources = codec_get(&c);

	for (uint64_t i = 0; i < resources && codec_more(&c); i++) {
		uint64_t scopes;

		mark(s, KIND_RESOURCE, codec_get(&c));
		scopes = codec_get(&c);
		for (uint64_t k = 0; k < scopes && codec_more(&c); k++) {
			mark(s, KIND_SCOPE, codec_get(&c));
			codec_get(&c);
		}
	}
}

static bool mark_chunk(struct sweep *s, sqlite3_stmt *row, struct err *err)
{
	struct chunk c;

	if (!chunk_read(row, &c, err))
		return false;
	for (uint32_t i = 0; i < c.n; i++) {
		mark(s, KIND_STACK, cells_id(&c.stack, i));
		mark(s, KIND_ATTRSET, cells_id(&c.attrset, i));
		mark(s, KIND_LINK, cells_id(&c.link, i));
	}
	for (uint32_t i = 0; i < c.runs; i++)
		mark(s, KIND_SERIES, cells_id(&c.series, i));
	return true;
}

static void mark_row(struct sweep *s, const struct source *x, sqlite3_stmt *row)
{
	int first = x->kind ? 1 : 0;

	for (int i = 0; i < COLUMNS_MOST && x->columns[i].form != FORM_END; i++) {
		const struct reference *r = &x->columns[i];
		int column = first + i;

		if (r->form == FORM_ID || (r->form == FORM_NUMBER_OR_IDS &&
					   sqlite3_column_type(row, column) == SQLITE_INTEGER))
			mark(s, r->kind, db_u64(row, column));
		else if (r->form == FORM_LINES)
			mark_lines(s, db_bytes(row, column));
		else if (r->form == FORM_LAYOUT)
			mark_layout(s, db_bytes(row, column));
		else
			mark_ids(s, r->kind, db_bytes(row, column));
	}
}

static bool is_alive(const struct sweep *s, enum store_kind kind, uint64_t id)
{
	return id > s->last_id[kind] || get_bit(s->marked[kind], (uint32_t)id);
}

/* Reads on in the open source; *more when the time is over before its end. */
static bool mark_source(struct sweep *s, uint64_t deadline_ns, bool *more, struct err *err)
{
	const struct source *x = &sources[s->source];
	bool row = true;

	*more = false;
	if (!s->statement && !db_prepare(s->snapshot, x->select, &s->statement, err))
		return false;
	for (uint32_t n = 1;; n++) {
		if (!db_step(s->snapshot, s->statement, &row, err, "reading the store to sweep it"))
			return false;
		if (!row)
			break;
		if (x->columns[0].form == FORM_CHUNK) {
			if (!mark_chunk(s, s->statement, err))
				return false;
		} else if (!x->kind || is_alive(s, x->kind, db_u64(s->statement, 0))) {
			mark_row(s, x, s->statement);
		}
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

	while (s->source < SOURCES) {
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
static bool follow_source(struct sweep *s, const struct source *x, sqlite3 *db, struct err *err)
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
		mark_row(s, x, one);
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
	for (int i = 0; i < SOURCES; i++)
		if (sources[i].kind && !follow_source(s, &sources[i], db, err))
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
		 tables[s->kind], SLICE_ROWS);
	ok = db_prepare(db, sql, &list, err);
	snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id=?1", tables[s->kind]);
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
