#include "store/check.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/chunk.h"
#include "store/db.h"
#include "store/schema.h"

/* Columns that name a row: each value must be there. */
static const struct {
	const char *table, *column, *of;
} references[] = {
	{ "series", "resource_id", "resource" },    { "series", "scope_id", "scope" },
	{ "series", "lifted_id", "attrset" },       { "series", "service_id", "string" },
	{ "resource", "attrset_id", "attrset" },    { "scope", "attrset_id", "attrset" },
	{ "profile", "attrset_id", "attrset" },     { "location", "mapping_id", "mapping" },
	{ "location", "attrset_id", "attrset" },    { "mapping", "filename_id", "string" },
	{ "mapping", "attrset_id", "attrset" },     { "function", "name_id", "string" },
	{ "function", "filename_id", "string" },    { "attribute", "key_id", "string" },
	{ "function", "system_name_id", "string" },
};

enum { FINDINGS_MOST = 50 };

struct checking {
	sqlite3 *db;
	void (*found)(void *arg, const char *finding);
	void *arg;
};

/* SQLite 3.40 (Debian 12) reports a NOT NULL column behind the key of a table WITHOUT ROWID as NULL
 * in each row, although it is not. These are ours; what is said of them counts only where it is so.
 */
static const struct {
	const char *table, *column;
} said_null[] = {
	{ "coverage", "t1" },
	{ "symbol", "lines" },
};

static bool is_false_alarm(struct checking *c, const char *finding)
{
	for (size_t i = 0; i < sizeof(said_null) / sizeof(said_null[0]); i++) {
		const char *table = said_null[i].table, *column = said_null[i].column;
		char text[100], sql[160];
		int64_t null = 0;
		struct err err;

		snprintf(text, sizeof(text), "NULL value in %s.%s", table, column);
		if (strcmp(finding, text) != 0)
			continue;
		/* `IS NULL` would be decided by the declaration, not by the row. */
		snprintf(sql, sizeof(sql),
			 "SELECT EXISTS(SELECT 1 FROM %s WHERE typeof(%s)='null')", table, column);
		return db_number(c->db, sql, 1, &null, &err) && !null;
	}
	return false;
}

/* How many false alarms there may be, at most. */
static int64_t rows_said_null(struct checking *c)
{
	int64_t sum = 0;

	for (size_t i = 0; i < sizeof(said_null) / sizeof(said_null[0]); i++) {
		char sql[100];
		int64_t rows = 0;
		struct err err;

		snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", said_null[i].table);
		if (db_number(c->db, sql, 0, &rows, &err))
			sum += rows;
	}
	return sum < INT_MAX / 2 ? sum : INT_MAX / 2;
}

static void check_pages(struct checking *c)
{
	int64_t most = rows_said_null(c) + FINDINGS_MOST;
	char sql[64], last[100] = "";
	int left = FINDINGS_MOST;
	sqlite3_stmt *s = NULL;

	snprintf(sql, sizeof(sql), "PRAGMA integrity_check(%lld)", (long long)most);
	if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK) {
		c->found(c->arg, sqlite3_errmsg(c->db));
		return;
	}
	while (left > 0 && sqlite3_step(s) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(s, 0);

		if (!text || strcmp(text, "ok") == 0 || strcmp(text, last) == 0)
			continue;
		if (is_false_alarm(c, text)) { /* and so are the same words of other rows */
			snprintf(last, sizeof(last), "%s", text);
			continue;
		}
		c->found(c->arg, text);
		left--;
	}
	sqlite3_finalize(s);
}

static void check_references(struct checking *c)
{
	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		char sql[256], finding[200];
		int64_t missing = 0;
		struct err err;

		snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM %s x WHERE x.%s IS NOT NULL AND NOT EXISTS (SELECT "
			 "1 FROM "
			 "%s y WHERE y.id=x.%s)",
			 references[i].table, references[i].column, references[i].of,
			 references[i].column);
		if (!db_number(c->db, sql, 0, &missing, &err))
			c->found(c->arg, err.msg);
		if (missing <= 0)
			continue;
		snprintf(finding, sizeof(finding), "%s.%s: %lld rows name a %s that is not there",
			 references[i].table, references[i].column, (long long)missing,
			 references[i].of);
		c->found(c->arg, finding);
	}
}

/* Keys of links that are gone may be left (sweep.c), links without keys not. */
static void check_link_keys(struct checking *c)
{
	static const char sql[] =
		"SELECT count(*) FROM link l WHERE id<=(SELECT id FROM lookup_state WHERE kind=69) "
		"AND ((SELECT count(*) FROM link_key WHERE key=l.trace_id AND link_id=l.id)=0 OR "
		"(SELECT count(*) FROM link_key WHERE key=l.span_id AND link_id=l.id)=0)";
	char finding[100];
	int64_t n = 0;
	struct err err;

	static_assert(STORE_STATE_LINKS == 69, "as the statement has it");
	if (!db_number(c->db, sql, 0, &n, &err))
		c->found(c->arg, err.msg);
	if (n <= 0)
		return;
	snprintf(finding, sizeof(finding), "link: %lld rows are not found by trace or span",
		 (long long)n);
	c->found(c->arg, finding);
}

/* ---- what chunks name ---- */

enum { NAMED = 4 };
static const char *const named[NAMED] = { "stack", "attrset", "link", "series" };

struct id_set {
	uint8_t *bits;
	uint64_t cap;
};

static bool id_set_read(struct checking *c, const char *table, struct id_set *out, struct err *err)
{
	sqlite3_stmt *s = NULL;
	char sql[64];
	int64_t most;
	bool row = true;

	snprintf(sql, sizeof(sql), "SELECT max(id) FROM %s", table);
	if (!db_number(c->db, sql, 0, &most, err))
		return false;
	if (most < 0 || most > UINT32_MAX)
		return err_set(err, ERR_INVALID, "%s has the id %lld", table, (long long)most);
	out->cap = (uint64_t)most + 1;
	out->bits = calloc(out->cap / 8 + 1, 1);
	assert(out->bits);
	snprintf(sql, sizeof(sql), "SELECT id FROM %s WHERE id>0", table);
	if (!db_prepare(c->db, sql, &s, err))
		return false;
	while (row) {
		uint64_t id;

		if (!db_step(c->db, s, &row, err, "reading the store") || !row)
			break;
		id = db_u64(s, 0);
		if (id >= out->cap) { /* on a page that max() does not see */
			err_set(err, ERR_INVALID, "the rows of %s are not in order", table);
			break;
		}
		out->bits[id / 8] |= (uint8_t)(1u << id % 8);
	}
	sqlite3_finalize(s);
	return !row;
}

static bool is_missing(const struct id_set *s, uint64_t id)
{
	return id && (id >= s->cap || !(s->bits[id / 8] >> id % 8 & 1));
}

static void count_missing(const struct chunk *c, const struct id_set *sets, uint64_t *missing)
{
	for (uint32_t i = 0; i < c->n; i++) {
		missing[0] += is_missing(&sets[0], cells_id(&c->stack, i));
		missing[1] += is_missing(&sets[1], cells_id(&c->attrset, i));
		missing[2] += is_missing(&sets[2], cells_id(&c->link, i));
	}
	for (uint32_t i = 0; i < c->runs; i++)
		missing[3] += is_missing(&sets[3], cells_id(&c->series, i)) *
			      (chunk_run_end(c, i) - cells_get(&c->run_first, i));
}

static bool each_chunk(struct checking *c, const struct id_set *sets, uint64_t *missing,
		       struct err *err)
{
	sqlite3_stmt *s = NULL;
	bool row = true, ok;

	ok = db_prepare(c->db,
			"SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK CHUNK_COLUMNS_ATTRIBUTES
				CHUNK_COLUMNS_LINK " FROM chunk",
			&s, err);
	while (ok) {
		struct chunk x;
		struct err broken;

		ok = db_step(c->db, s, &row, err, "reading the store");
		if (!ok || !row)
			break;
		if (chunk_read(s, &x, &broken))
			count_missing(&x, sets, missing);
		else
			c->found(c->arg, broken.msg);
	}
	sqlite3_finalize(s);
	return ok;
}

static void check_chunks(struct checking *c)
{
	struct id_set sets[NAMED] = { { 0 } };
	uint64_t missing[NAMED] = { 0 };
	struct err err;
	bool ok = true;

	for (int i = 0; ok && i < NAMED; i++)
		ok = id_set_read(c, named[i], &sets[i], &err);
	if (!ok || !each_chunk(c, sets, missing, &err))
		c->found(c->arg, err.msg);
	for (int i = 0; i < NAMED; i++) {
		char finding[200];

		snprintf(finding, sizeof(finding),
			 "chunk.%s: %llu samples name a %s that is not there", named[i],
			 (unsigned long long)missing[i], named[i]);
		if (missing[i])
			c->found(c->arg, finding);
		free(sets[i].bits);
	}
}

bool store_check(const char *path, void (*found)(void *arg, const char *finding), void *arg,
		 struct err *err)
{
	struct checking c = { .found = found, .arg = arg };
	struct err cut;
	bool ok = true;

	if (!db_open_to_read(path, db_is_immutable(path), &c.db, err))
		ok = err_prefix(err, "%s", path);
	/* What is there of a file that is cut is looked at, too. */
	if (ok && !db_is_whole(path, &cut)) {
		found(arg, cut.msg);
		ok = db_exec(c.db, "PRAGMA writable_schema=ON; PRAGMA query_only=1", err);
	}
	ok = ok && (schema_check(c.db, err) || err_prefix(err, "%s", path));
	if (ok) {
		check_pages(&c);
		check_references(&c);
		check_chunks(&c);
		check_link_keys(&c);
	}
	sqlite3_close(c.db);
	return ok;
}
