#include "store/salvage/salvage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/db.h"
#include "store/salvage/page_file.h"
#include "store/salvage/salvage_mend.h"
#include "store/schema/schema.h"

/*
 * The tables whose rows cannot be had from others, in the order in which they are made, so that of
 * two that look alike the first has the first page. Columns: k the row's number, i a number, b
 * bytes, t text, each or NULL; * anything.
 */
static const struct table {
	const char *name, *columns;
	bool index;        /* it is a tree of entries (WITHOUT ROWID) */
	const char *order; /* of its columns there; NULL: as they are declared */
} tables[] = {
	{ "string", "kt", false, NULL },
	{ "attribute", "kii*ib", false, NULL },
	{ "attrset", "kb", false, NULL },
	{ "function", "kbiiiib", false, NULL },
	{ "mapping", "kbiiiiitb", false, NULL },
	{ "location", "kbiiiibb", false, NULL },
	{ "stack", "kbibb", false, NULL },
	{ "link", "kbbb", false, NULL },
	{ "resource", "kiiib", false, NULL },
	{ "scope", "kiiiiib", false, NULL },
	{ "series", "kiiiiiiiiiiib", false, NULL },
	{ "request", "kibiiiiiib", false, NULL },
	{ "profile", "k*iiibiiiitb", false, NULL },
	{ "note", "kb", false, NULL },
	{ "chunk", "kiiiibbibibibibibibibbi", false, NULL },
	{ "sample_key", "t", true, NULL },
	{ "coverage", "iiiiii", true, "(t0, host_id, reason_id, seq, t1, n)" },
	{ "symbol", "tit", true, NULL },
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]), NO_TABLE = TABLES };

struct salvage {
	struct page_file file;
	sqlite3 *to;
	sqlite3_stmt *insert[TABLES];
	uint8_t *table_of; /* by the first page of a tree */
	uint32_t lost_pages[TABLES];
	uint64_t rows;
	bool found[TABLES]; /* a tree of it */
	struct arena arena; /* of a page's rows */
	struct page_row row;
	store_salvage_progress_fn *progress;
	void *arg;
	struct err *err;
};

/* ---- rows ---- */

static bool fits(char column, const struct page_value *v)
{
	switch (column) {
	case 'k':
		return v->type == PAGE_NULL;
	case 'i':
		return v->type == PAGE_NULL || v->type == PAGE_INTEGER;
	case 'b':
		return v->type == PAGE_NULL || v->type == PAGE_BLOB;
	case 't':
		return v->type == PAGE_NULL || v->type == PAGE_TEXT;
	default:
		return true;
	}
}

static bool is_row_of(const struct table *t, const struct page_row *row)
{
	size_t columns = strlen(t->columns);

	if (row->count != columns)
		return false;
	for (uint32_t i = 0; i < row->count; i++)
		if (!fits(t->columns[i], &row->values[i]))
			return false;
	return true;
}

static void bind(sqlite3_stmt *s, int at, const struct page_value *v)
{
	switch (v->type) {
	case PAGE_NULL:
		sqlite3_bind_null(s, at);
		break;
	case PAGE_INTEGER:
		sqlite3_bind_int64(s, at, v->integer);
		break;
	case PAGE_REAL:
		sqlite3_bind_double(s, at, v->real);
		break;
	case PAGE_BLOB: /* of no bytes is not NULL here: it is as it was */
		sqlite3_bind_blob64(s, at, v->bytes.len ? v->bytes.ptr : "", v->bytes.len,
				    SQLITE_STATIC);
		break;
	case PAGE_TEXT:
		db_bind_text(s, at, v->bytes);
		break;
	}
}

static bool keep_row(struct salvage *r, uint32_t table)
{
	sqlite3_stmt *s = r->insert[table];

	sqlite3_clear_bindings(s);
	for (uint32_t i = 0; i < r->row.count; i++)
		if (tables[table].columns[i] == 'k')
			sqlite3_bind_int64(s, (int)i + 1, r->row.rowid);
		else
			bind(s, (int)i + 1, &r->row.values[i]);
	r->rows++;
	return db_run(r->to, s, r->err, "keeping a row");
}

static bool keep_page(struct salvage *r, uint32_t page, uint32_t table)
{
	uint32_t cells = page_cells(&r->file, page);

	for (uint32_t i = 0; i < cells; i++)
		if (page_row(&r->file, page, i, &r->arena, &r->row) &&
		    is_row_of(&tables[table], &r->row) && !keep_row(r, table))
			return false;
	arena_reset(&r->arena);
	return true;
}

/* ---- which tree is which table ---- */

static bool has_rows(const struct page_file *f, uint32_t page, bool index)
{
	return f->kind[page] == (index ? PAGE_INDEX : PAGE_TABLE_LEAF);
}

/* What the schema's rows say, those that can be read: type, name, table, first page, SQL. */
static void take_schema(struct salvage *r)
{
	for (uint32_t page = 1; page <= r->file.page_count; page++) {
		if (r->file.owner[page] != 1 || !has_rows(&r->file, page, false))
			continue;
		for (uint32_t i = 0, cells = page_cells(&r->file, page); i < cells; i++) {
			const struct page_value *v = r->row.values;

			if (!page_row(&r->file, page, i, &r->arena, &r->row) || r->row.count != 5 ||
			    v[0].type != PAGE_TEXT || !str_is(v[0].bytes, "table") ||
			    v[3].type != PAGE_INTEGER || v[3].integer < 2 ||
			    v[3].integer > r->file.page_count)
				continue;
			for (uint32_t t = 0; t < TABLES; t++)
				if (str_is(v[1].bytes, tables[t].name))
					r->table_of[v[3].integer] = (uint8_t)t;
		}
		arena_reset(&r->arena);
	}
}

/* Do all the page's rows look like the table's? */
static bool looks_like(struct salvage *r, uint32_t page, const struct table *t)
{
	uint32_t cells = has_rows(&r->file, page, t->index) ? page_cells(&r->file, page) : 0;
	bool like = cells > 0;

	for (uint32_t i = 0; i < cells && like; i++)
		like = page_row(&r->file, page, i, &r->arena, &r->row) && is_row_of(t, &r->row);
	arena_reset(&r->arena);
	return like;
}

/* The schema's page with a table's row may be lost: trees that nobody names, in the order of their
 * first pages, are the first table that they look like and that no tree is yet. */
static void guess_tables(struct salvage *r)
{
	bool known[TABLES] = { 0 };

	for (uint32_t page = 1; page <= r->file.page_count; page++)
		if (r->table_of[page] != NO_TABLE)
			known[r->table_of[page]] = true;
	for (uint32_t root = 2; root <= r->file.page_count; root++) {
		uint32_t page = root;

		if (r->file.owner[root] != root || r->table_of[root] != NO_TABLE)
			continue;
		while (page <= r->file.page_count &&
		       (r->file.owner[page] != root || !page_cells(&r->file, page) ||
			r->file.kind[page] == PAGE_TABLE_INNER))
			page++;
		for (uint32_t t = 0; t < TABLES && page <= r->file.page_count; t++)
			if (!known[t] && looks_like(r, page, &tables[t])) {
				r->table_of[root] = (uint8_t)t;
				known[t] = true;
				break;
			}
	}
}

/* ---- all ---- */

/* Can it have had rows that are not there now? */
static bool may_lack_rows(const struct salvage *r, const char *name)
{
	uint32_t t = 0;

	while (strcmp(tables[t].name, name) != 0)
		t++;
	return r->lost_pages[t] || !r->found[t];
}

static bool keep_all(struct salvage *r)
{
	for (uint32_t page = 2; page <= r->file.page_count; page++) {
		uint32_t owner = r->file.owner[page];
		uint32_t table = owner ? r->table_of[owner] : NO_TABLE;

		r->progress(r->arg, page, r->file.page_count);
		if (table == NO_TABLE)
			continue;
		r->found[table] = true;
		/* Of an index, pages above others hold entries, too. */
		r->lost_pages[table] +=
			r->file.kind[page] == PAGE_UNREADABLE ||
			(tables[table].index && r->file.kind[page] == PAGE_TABLE_INNER);
		if (has_rows(&r->file, page, tables[table].index) && !keep_page(r, page, table))
			return false;
	}
	return r->rows || err_set(r->err, ERR_INVALID, "there are no rows of a store in it");
}

static void tell_lost(const struct salvage *r, struct buf *out)
{
	for (uint32_t t = 0; t < TABLES; t++)
		if (r->lost_pages[t])
			buf_printf(out, "%s%u page%s of %s", out->len ? ", " : "", r->lost_pages[t],
				   r->lost_pages[t] == 1 ? "" : "s", tables[t].name);
}

static bool open_new(const char *to, struct salvage *r)
{
	if (sqlite3_open_v2(to, &r->to,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return db_error(r->to, r->err, to);
	if (!schema_prepare(r->to, r->err) ||
	    !db_exec(r->to, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; BEGIN", r->err))
		return false;
	for (uint32_t t = 0; t < TABLES; t++) {
		char sql[160];
		size_t n = (size_t)snprintf(sql, sizeof(sql), "INSERT OR IGNORE INTO %s%s VALUES(?",
					    tables[t].name, tables[t].order ? tables[t].order : "");

		for (size_t i = 1; tables[t].columns[i]; i++)
			n += (size_t)snprintf(sql + n, sizeof(sql) - n, ", ?");
		snprintf(sql + n, sizeof(sql) - n, ")");
		if (!db_prepare(r->to, sql, &r->insert[t], r->err))
			return false;
	}
	return true;
}

static bool make_store(struct salvage *r, const char *to, struct store_salvaged *out)
{
	return open_new(to, r) && keep_all(r) &&
	       salvage_mend(r->to, may_lack_rows(r, "sample_key"), out, r->err) &&
	       db_exec(r->to, "COMMIT; PRAGMA journal_mode=WAL", r->err);
}

static bool salvage_file(struct salvage *r, const char *path, const char *to,
			 struct store_salvaged *out)
{
	bool ok = page_file_open(path, &r->file, r->err);

	arena_init(&r->arena, 64 << 10, 0);
	if (ok) {
		r->table_of = malloc((size_t)r->file.page_count + 1);
		assert(r->table_of);
		memset(r->table_of, NO_TABLE, (size_t)r->file.page_count + 1);
		take_schema(r);
		guess_tables(r);
		ok = make_store(r, to, out);
		tell_lost(r, &out->lost_pages);
	}
	for (uint32_t t = 0; t < TABLES; t++)
		sqlite3_finalize(r->insert[t]);
	sqlite3_close(r->to);
	free(r->table_of);
	arena_release(&r->arena);
	page_file_close(&r->file);
	return ok;
}

/* ---- the log ---- */

static bool copy_file(const char *from, const char *to, struct err *err)
{
	FILE *in = fopen(from, "rbe"), *out = in ? fopen(to, "wbe") : NULL;
	char block[65536];
	bool ok = out;
	size_t n;

	while (ok && (n = fread(block, 1, sizeof(block), in)) > 0)
		ok = fwrite(block, 1, n, out) == n;
	ok = ok && !ferror(in) && fflush(out) == 0;
	if (!ok)
		err_set_errno(err, "copying %s to %s", from, to);
	if (in)
		fclose(in);
	if (out)
		fclose(out);
	return ok;
}

static char *joined(const char *a, const char *b)
{
	char *out;
	int n = asprintf(&out, "%s%s", a, b);

	assert(n >= 0);
	return out;
}

/* SQLite puts the log's pages into a copy, whatever they hold. */
static bool fold_log(const char *path, const char *log, const char *copy, struct err *err)
{
	char *copied_log = joined(copy, "-wal");
	sqlite3 *db = NULL;
	bool ok = copy_file(path, copy, err) && copy_file(log, copied_log, err);

	if (ok && sqlite3_open_v2(copy, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
			  SQLITE_OK)
		ok = db_error(db, err, copy);
	if (ok) { /* the log is found when something is read, be it in vain */
		sqlite3_exec(db, "PRAGMA schema_version", NULL, NULL, NULL);
		sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	}
	sqlite3_close(db);
	unlink(copied_log);
	free(copied_log);
	return ok;
}

static void unlink_with(const char *path, const char *end)
{
	char *name = joined(path, end);

	unlink(name);
	free(name);
}

static void unlink_store(const char *path)
{
	unlink(path);
	unlink_with(path, "-wal");
	unlink_with(path, "-shm");
}

bool store_salvage(const char *path, const char *to, store_salvage_progress_fn *progress, void *arg,
		   struct store_salvaged *out, struct err *err)
{
	struct salvage r = { .progress = progress, .arg = arg, .err = err };
	char *log = joined(path, "-wal"), *copy = joined(to, "-copy");
	bool with_log = access(log, R_OK) == 0, ok = true;

	buf_init(&out->lost_pages, 0);
	if (with_log)
		ok = fold_log(path, log, copy, err);
	ok = ok && salvage_file(&r, with_log ? copy : path, to, out);
	if (!ok)
		unlink_store(to);
	if (with_log)
		unlink_store(copy);
	free(log);
	free(copy);
	return ok;
}
