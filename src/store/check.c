#include "store/check.h"

#include <stdio.h>

#include "store/db.h"
#include "store/schema.h"

/* Columns that name a row: each value must be there. */
static const struct {
	const char *table, *column, *of;
} references[] = {
	{ "sample", "stack_id", "stack" },
	{ "sample", "attrset_id", "attrset" },
	{ "sample", "link_id", "link" },
	{ "sample", "series_id", "series" },
	{ "series", "resource_id", "resource" },
	{ "series", "scope_id", "scope" },
	{ "series", "lifted_id", "attrset" },
	{ "series", "service_id", "string" },
	{ "resource", "attrset_id", "attrset" },
	{ "scope", "attrset_id", "attrset" },
	{ "profile", "attrset_id", "attrset" },
	{ "location", "mapping_id", "mapping" },
	{ "location", "attrset_id", "attrset" },
	{ "mapping", "filename_id", "string" },
	{ "mapping", "attrset_id", "attrset" },
	{ "function", "name_id", "string" },
	{ "function", "filename_id", "string" },
	{ "attribute", "key_id", "string" },
	{ "function", "system_name_id", "string" },
};

struct checking {
	sqlite3 *db;
	void (*found)(void *arg, const char *finding);
	void *arg;
};

static void check_pages(struct checking *c)
{
	sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(c->db, "PRAGMA integrity_check(50)", -1, &s, NULL) != SQLITE_OK) {
		c->found(c->arg, sqlite3_errmsg(c->db));
		return;
	}
	while (sqlite3_step(s) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(s, 0);

		if (text && strcmp(text, "ok") != 0)
			c->found(c->arg, text);
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

bool store_check(const char *path, void (*found)(void *arg, const char *finding), void *arg,
		 struct err *err)
{
	struct checking c = { .found = found, .arg = arg };
	int64_t version;
	bool ok = true;

	if (sqlite3_open_v2(path, &c.db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		ok = db_error(c.db, err, path);
	ok = ok && (schema_check(c.db, &version, err) || err_prefix(err, "%s", path));
	if (ok) {
		check_pages(&c);
		check_references(&c);
	}
	sqlite3_close(c.db);
	return ok;
}
