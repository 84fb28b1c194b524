#include "store/salvage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "store/db.h"
#include "store/symbols.h"

enum { BUSY_MS = 60000 };

struct store_salvage {
	sqlite3 *db;
	sqlite3_stmt *origin, *tenant;
	struct buf text; /* of the newest request's tenant */
};

/* ---- the damaged store ---- */

/* A request's series are all one tenant's. */
static const char TENANT[] =
	"SELECT x.tenant_id, t.v FROM profile p JOIN series x ON x.id=p.series LEFT JOIN string t "
	"ON t.id=x.tenant_id WHERE p.seq>?1 AND p.seq<coalesce((SELECT min(seq) FROM request WHERE "
	"seq>?1), 1<<62) ORDER BY p.seq LIMIT 1";

/* As the reader of the requests does it (reader.c): a file without its end is opened, too. */
static bool open_damaged(const char *path, struct store_salvage *s, struct err *err)
{
	if (!db_open_to_read(path, db_is_immutable(path), &s->db, err))
		return false;
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	return db_exec(s->db,
		       "PRAGMA writable_schema=ON; PRAGMA query_only=1; PRAGMA mmap_size=0; "
		       "PRAGMA trusted_schema=0",
		       err) &&
	       db_prepare(s->db, "SELECT arrived, hash FROM request WHERE seq=?1", &s->origin,
			  err) &&
	       db_prepare(s->db, TENANT, &s->tenant, err);
}

bool store_salvage_open(const char *path, struct store_salvage **out, struct err *err)
{
	struct store_salvage *s = calloc(1, sizeof(*s));

	assert(s);
	if (!open_damaged(path, s, err)) {
		err_prefix(err, "%s", path);
		store_salvage_close(s);
		return false;
	}
	*out = s;
	return true;
}

void store_salvage_close(struct store_salvage *s)
{
	if (!s)
		return;
	sqlite3_finalize(s->origin);
	sqlite3_finalize(s->tenant);
	buf_release(&s->text);
	sqlite3_close(s->db);
	free(s);
}

uint64_t store_salvage_requests(struct store_salvage *s)
{
	int64_t count;
	struct err ignored;

	return db_number(s->db, "SELECT count(*) FROM request", 0, &count, &ignored)
		       ? (uint64_t)count
		       : 0;
}

bool store_salvage_origin(struct store_salvage *s, uint64_t seq, struct store_request *r)
{
	uint64_t arrived, now = clock_realtime_ns();
	bool row, whole;
	struct err ignored;

	db_bind_u64(s->origin, 1, seq);
	if (!db_step(s->db, s->origin, &row, &ignored, "reading a request") || !row)
		return false;
	arrived = db_u64(s->origin, 0);
	whole = sqlite3_column_type(s->origin, 0) == SQLITE_INTEGER && arrived &&
		db_bytes(s->origin, 1).len == sizeof(r->hash);
	if (whole) {
		memcpy(&r->hash, db_bytes(s->origin, 1).ptr, sizeof(r->hash));
		/* Retention goes by the oldest that is young: one of the future would hold all. */
		r->arrived_unix_ns = arrived < now ? arrived : now;
	}
	sqlite3_reset(s->origin);
	return whole;
}

bool store_salvage_tenant(struct store_salvage *s, uint64_t seq, struct store_request *r)
{
	struct err ignored;
	bool row, whole;

	db_bind_u64(s->tenant, 1, seq);
	if (!db_step(s->db, s->tenant, &row, &ignored, "reading whose a request is"))
		return false;
	if (!row) /* nothing of it is there, or it had no profile */
		return true;
	whole = sqlite3_column_type(s->tenant, 0) == SQLITE_NULL ||
		sqlite3_column_type(s->tenant, 1) == SQLITE_TEXT;
	buf_reset(&s->text);
	buf_str(&s->text, db_bytes(s->tenant, 1));
	buf_char(&s->text, '\0');
	sqlite3_reset(s->tenant);
	if (whole)
		r->tenant = s->text.ptr;
	return whole;
}

/* ---- names found later ---- */

struct names {
	sqlite3 *from, *to;
	sqlite3_stmt *insert;
	struct store_salvaged_names *out;
	struct err *err;
};

/* The last column: can readers use what the row says? They take a list of lists apart. */
#define NAMES                                                                                  \
	"SELECT build_id, address, lines, CASE WHEN typeof(build_id)='text' AND "              \
	"typeof(address)='integer' AND typeof(lines)='text' THEN CASE WHEN json_valid(lines) " \
	"THEN NOT EXISTS (SELECT 1 FROM json_each(lines) j WHERE j.type<>'array') ELSE 0 END " \
	"ELSE 0 END FROM symbol "

static bool keep_names(struct names *n, sqlite3_stmt *row)
{
	if (!sqlite3_column_int(row, 3)) {
		n->out->lost++;
		return true;
	}
	db_bind_text(n->insert, 1, db_bytes(row, 0));
	db_bind_u64(n->insert, 2, db_u64(row, 1));
	db_bind_text(n->insert, 3, db_bytes(row, 2));
	if (!db_run(n->to, n->insert, n->err, "keeping names"))
		return false;
	n->out->addresses += (uint64_t)sqlite3_changes64(n->to);
	return true;
}

/* From one end of the table to the other, or to where it cannot be read: *whole says which. */
static bool keep_from_end(struct names *n, const char *sql, bool *whole)
{
	sqlite3_stmt *s = NULL;
	struct err ignored;
	bool ok = true;
	int rc = SQLITE_ERROR;

	*whole = false;
	if (!db_prepare(n->from, sql, &s, &ignored))
		return true;
	for (uint32_t i = 0; ok && i < SYMBOL_ADDRESSES_MOST; i++) {
		rc = sqlite3_step(s);
		if (rc != SQLITE_ROW)
			break;
		ok = keep_names(n, s);
	}
	*whole = rc == SQLITE_DONE;
	sqlite3_finalize(s);
	return ok;
}

/* Between two places that cannot be read: one by one what locations ask for that were saved. */
static bool keep_asked(struct names *n, sqlite3_stmt *asked, sqlite3_stmt *find)
{
	struct err ignored;
	bool row, found;

	for (;;) {
		if (!db_step(n->to, asked, &row, n->err, "looking for addresses without names"))
			return false;
		if (!row)
			return true;
		db_bind_text(find, 1, db_bytes(asked, 0));
		db_bind_u64(find, 2, db_u64(asked, 1));
		if (!db_step(n->from, find, &found, &ignored, "finding names"))
			n->out->lost++;
		else if (found && !keep_names(n, find))
			return false;
		sqlite3_reset(find);
	}
}

static bool keep_between(struct names *n)
{
	static const char ASKED[] =
		"SELECT DISTINCT m.build_id, coalesce(l.address, 0) AS address FROM location l "
		"JOIN mapping m ON m.id=l.mapping_id WHERE coalesce(length(l.lines), 0)=0 AND "
		"length(m.build_id)>0 AND NOT EXISTS (SELECT 1 FROM symbol s WHERE "
		"s.build_id=m.build_id AND s.address=coalesce(l.address, 0)) ORDER BY 1, 2";
	sqlite3_stmt *asked = NULL, *find = NULL;
	struct err ignored;
	bool ok = true;

	if (db_prepare(n->from, NAMES "WHERE build_id=?1 AND address=?2", &find, &ignored))
		ok = db_prepare(n->to, ASKED, &asked, n->err) && keep_asked(n, asked, find);
	sqlite3_finalize(asked);
	sqlite3_finalize(find);
	return ok;
}

/* A page in the middle is passed by from both ends. */
static bool keep_all(struct names *n)
{
	bool whole;

	if (!keep_from_end(n, NAMES "ORDER BY build_id, address", &whole))
		return false;
	if (whole)
		return true;
	n->out->cut = true;
	return keep_from_end(n, NAMES "ORDER BY build_id DESC, address DESC", &whole) &&
	       keep_between(n);
}

static bool open_new(const char *path, struct names *n)
{
	if (sqlite3_open_v2(path, &n->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return db_error(n->to, n->err, path);
	sqlite3_busy_timeout(n->to, BUSY_MS);
	return db_exec(n->to, "BEGIN IMMEDIATE", n->err) &&
	       db_prepare(n->to, "INSERT OR IGNORE INTO symbol VALUES(?1, ?2, ?3)", &n->insert,
			  n->err);
}

bool store_salvage_names(struct store_salvage *s, const char *to, struct store_salvaged_names *out,
			 struct err *err)
{
	struct store_salvaged_names names = { 0 };
	struct names n = { .from = s->db, .out = &names, .err = err };
	bool ok = open_new(to, &n) && keep_all(&n);

	sqlite3_finalize(n.insert);
	ok = ok && db_exec(n.to, "COMMIT", err);
	sqlite3_close(n.to); /* takes back what was not committed */
	if (ok)
		*out = names;
	return ok;
}
