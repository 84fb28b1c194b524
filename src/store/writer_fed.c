/*
 * writer_fed.c - rows on their way into the tables that get many of them with each request: put
 * table by table at its end, each by one statement (feed.h).
 */
#include <assert.h>
#include <string.h>

#include "store/writer_internal.h"

/* OR FAIL: what a statement put before it failed need not be undone, the transaction is. */
#define FEED_INTO(table, columns) "INSERT OR FAIL INTO " table " SELECT " columns " FROM feed"
/* Without the id, which is then the next one: SQLite looks at the table's end, not for the row. */
#define FEED_AFTER(table, names, columns) \
	"INSERT OR FAIL INTO " table "(" names ") SELECT " columns " FROM feed"
#define N1  "c1"
#define N3  "c1, c2, c3"
#define N4  N3 ", c4"
#define N5  N4 ", c5"
#define N6  N5 ", c6"
#define N7  N6 ", c7"
#define N8  N7 ", c8"
#define N12 N8 ", c9, c10, c11, c12"
#define C2  "c0, c1"
#define C3  C2 ", c2"
#define C4  C3 ", c3"
#define C5  C4 ", c4"
#define C6  C5 ", c5"
#define C7  C6 ", c6"
#define C8  C7 ", c7"
#define C9  C8 ", c8"
#define C12 C9 ", c9, c10, c11"
#define C13 C12 ", c12"

static const struct {
	const char *sql, *what;
	uint32_t columns;
	const char *after; /* of tables whose ids are one after the other */
} tables[FED_COUNT] = {
	[FED_STRING] = { FEED_INTO("string(id, v)", C2), "adding texts", 2,
			 FEED_AFTER("string", "v", N1) },
	[FED_ATTRIBUTE] = { FEED_INTO("attribute", C6), "adding attributes", 6,
			    FEED_AFTER("attribute", "key_id, kind, v, unit_id, notes", N5) },
	[FED_ATTRSET] = { FEED_INTO("attrset", C2), "adding attribute sets", 2,
			  FEED_AFTER("attrset", "attributes", N1) },
	[FED_FUNCTION] = { FEED_INTO("function", C7), "adding functions", 7,
			   FEED_AFTER(
				   "function",
				   "hash, name_id, system_name_id, filename_id, start_line, notes",
				   N6) },
	[FED_MAPPING] = { FEED_INTO("mapping", C9), "adding mappings", 9,
			  FEED_AFTER("mapping",
				     "hash, memory_start, memory_limit, file_offset, filename_id, "
				     "attrset_id, build_id, notes",
				     N8) },
	[FED_LOCATION] = { FEED_INTO("location", C8), "adding locations", 8,
			   FEED_AFTER("location",
				      "hash, mapping_id, address, attrset_id, frame_type_id, "
				      "lines, notes",
				      N7) },
	[FED_STACK] = { FEED_INTO("stack", C5), "adding stacks", 5,
			FEED_AFTER("stack", "hash, depth, locations, notes", N4) },
	[FED_LINK] = { FEED_INTO("link", C4), "adding links", 4,
		       FEED_AFTER("link", "trace_id, span_id, notes", N3) },
	[FED_RESOURCE] = { FEED_INTO("resource", C5), "adding resources", 5,
			   FEED_AFTER("resource", "attrset_id, schema_url_id, dropped, notes",
				      N4) },
	[FED_SCOPE] = { FEED_INTO("scope", C7), "adding scopes", 7,
			FEED_AFTER("scope",
				   "name_id, version_id, attrset_id, schema_url_id, dropped, notes",
				   N6) },
	[FED_SERIES] = { FEED_INTO("series", C13), "adding series", 13,
			 FEED_AFTER("series",
				    "tenant_id, resource_id, scope_id, sample_type_id, "
				    "sample_unit_id, period_type_id, period_unit_id, period, "
				    "lifted_id, service_id, process, labels",
				    N12) },
	[FED_PROFILE] = { FEED_INTO("profile", C12), "adding profiles", 12, NULL },
	[FED_CHUNK_LINK] = { "INSERT OR IGNORE INTO chunk_link SELECT " C2 " FROM feed",
			     "noting links", 2, NULL },
	[FED_LOOKUP] = { "INSERT OR IGNORE INTO lookup SELECT " C3 " FROM feed",
			 "adding content hashes", 3, NULL },
};

bool writer_prepare_fed(struct store_writer *w, struct err *err)
{
	if (!feed_attach(&w->feed, w->db, err))
		return false;
	for (int t = 0; t < FED_COUNT; t++)
		if (!db_prepare(w->db, tables[t].sql, &w->fed_inserts[t], err) ||
		    (tables[t].after && !db_prepare(w->db, tables[t].after, &w->fed_after[t], err)))
			return false;
	return true;
}

void writer_finalize_fed(struct store_writer *w)
{
	for (int t = 0; t < FED_COUNT; t++) {
		sqlite3_finalize(w->fed_inserts[t]);
		sqlite3_finalize(w->fed_after[t]);
		w->fed_inserts[t] = w->fed_after[t] = NULL;
	}
}

struct feed_value *writer_row(struct store_writer *w, enum fed_table t)
{
	size_t bytes = tables[t].columns * sizeof(struct feed_value);
	char *row = buf_reserve(&w->fed[t], bytes);

	assert(row);
	w->fed[t].len += bytes;
	return memset(row, 0, bytes); /* FEED_NULL */
}

struct str writer_keep(struct store_writer *w, struct str bytes)
{
	struct str copy = str_dup(&w->arena, bytes);

	assert(copy.ptr);
	return copy;
}

void writer_forget_ends(struct store_writer *w)
{
	memset(w->fed_next, 0, sizeof(w->fed_next));
}

/* Rows whose ids are one after the other. Where the table ends with the one before them, they get
 * these ids from SQLite. */
static void put_numbered(struct store_writer *w, enum fed_table t)
{
	size_t at = (size_t)(w->feed.rows - 1) * w->feed.columns;
	int64_t first = w->feed.values[0].number, last = first + w->feed.rows - 1;

	assert(w->feed.values[at].number == last);
	writer_step(w, w->fed_next[t] == first ? w->fed_after[t] : w->fed_inserts[t],
		    tables[t].what);
	if (!w->failed && sqlite3_last_insert_rowid(w->db) != last) {
		err_set(w->err, ERR_INTERNAL, "%s: the last got the id %lld, not %lld",
			tables[t].what, (long long)sqlite3_last_insert_rowid(w->db),
			(long long)last);
		writer_fail(w, NULL);
	}
	w->fed_next[t] = w->failed ? 0 : last + 1;
}

void writer_flush_table(struct store_writer *w, enum fed_table t)
{
	size_t row = tables[t].columns * sizeof(struct feed_value);

	if (!w->fed[t].len)
		return;
	w->feed = (struct feed){ .values = (const void *)w->fed[t].ptr,
				 .rows = (uint32_t)(w->fed[t].len / row),
				 .columns = tables[t].columns };
	if (tables[t].after)
		put_numbered(w, t);
	else
		writer_step(w, w->fed_inserts[t], tables[t].what);
	w->feed = (struct feed){ 0 };
	buf_reset(&w->fed[t]);
}

void writer_flush(struct store_writer *w)
{
	for (int t = 0; t < FED_COUNT; t++)
		writer_flush_table(w, (enum fed_table)t);
}
