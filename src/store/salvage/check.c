#include "store/salvage/check.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/schema/references.h"
#include "store/schema/schema.h"

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

/* ---- what rows name ---- */

struct id_set {
	uint8_t *bits;
	uint64_t cap;
};

static bool id_set_read(struct checking *c, enum store_kind kind, struct id_set *out,
			struct err *err)
{
	const char *table = store_table(kind);
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
	return (id >= s->cap || !(s->bits[id / 8] >> id % 8 & 1));
}

struct missing {
	const struct id_set *there;
	uint64_t count[KIND_COUNT];
};

static void count_missing(void *ctx, enum store_kind kind, uint64_t id)
{
	struct missing *m = ctx;

	m->count[kind] += is_missing(&m->there[kind], id);
}

static void check_source(struct checking *c, const struct reference_source *source,
			 const struct id_set *there)
{
	struct missing missing = { .there = there };
	sqlite3_stmt *s = NULL;
	struct err err, broken;
	bool row = true, ok = db_prepare(c->db, source->select, &s, &err);

	while (ok) {
		ok = db_step(c->db, s, &row, &err, "reading the store");
		if (!ok || !row)
			break;
		if (!references_of(source, s, count_missing, &missing, &broken))
			c->found(c->arg, broken.msg);
	}
	sqlite3_finalize(s);
	if (!ok)
		c->found(c->arg, err.msg);
	for (int kind = 1; kind < KIND_COUNT; kind++) {
		char finding[200];

		snprintf(finding, sizeof(finding), "%s: a %s that is not there is named %llu times",
			 source->table, store_table((enum store_kind)kind),
			 (unsigned long long)missing.count[kind]);
		if (missing.count[kind])
			c->found(c->arg, finding);
	}
}

static void check_references(struct checking *c)
{
	struct id_set there[KIND_COUNT] = { { 0 } };
	struct err err;
	bool ok = true;

	for (int kind = 1; ok && kind < KIND_COUNT; kind++)
		ok = id_set_read(c, (enum store_kind)kind, &there[kind], &err);
	if (!ok)
		c->found(c->arg, err.msg);
	for (const struct reference_source *x = reference_sources; ok && x->table; x++)
		check_source(c, x, there);
	for (int kind = 1; kind < KIND_COUNT; kind++)
		free(there[kind].bits);
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
		check_link_keys(&c);
	}
	sqlite3_close(c.db);
	return ok;
}
