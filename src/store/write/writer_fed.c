/*
 * writer_fed.c - rows on their way into the tables that get many of them with each request: put
 * table by table at its end, each by one statement (feed.h).
 */
#include <assert.h>
#include <string.h>

#include "store/write/writer_internal.h"

/* OR FAIL: what a statement put before it failed need not be undone, the transaction is. */
#define INTO(table, columns) "INSERT OR FAIL INTO " table " SELECT " columns " FROM feed"
/* What is there already stays. */
#define NEW_INTO(table, columns) "INSERT OR IGNORE INTO " table " SELECT " columns " FROM feed"
#define C2                       "c0, c1"
#define C3                       C2 ", c2"
#define C4                       C3 ", c3"
#define C5                       C4 ", c4"
#define C6                       C5 ", c5"
#define C7                       C6 ", c6"
#define C8                       C7 ", c7"
#define C9                       C8 ", c8"
#define C12                      C9 ", c9, c10, c11"
#define C13                      C12 ", c12"

static const struct {
	const char *sql, *what;
	uint32_t columns;
} tables[FED_COUNT] = {
	[FED_STRING] = { INTO("string", C2), "adding texts", 2 },
	[FED_ATTRIBUTE] = { INTO("attribute", C6), "adding attributes", 6 },
	[FED_ATTRSET] = { INTO("attrset", C2), "adding attribute sets", 2 },
	[FED_FUNCTION] = { INTO("function", C7), "adding functions", 7 },
	[FED_MAPPING] = { INTO("mapping", C9), "adding mappings", 9 },
	[FED_LOCATION] = { INTO("location", C8), "adding locations", 8 },
	[FED_STACK] = { INTO("stack", C5), "adding stacks", 5 },
	[FED_LINK] = { INTO("link", C4), "adding links", 4 },
	[FED_RESOURCE] = { INTO("resource", C5), "adding resources", 5 },
	[FED_SCOPE] = { INTO("scope", C7), "adding scopes", 7 },
	[FED_SERIES] = { INTO("series", C13), "adding series", 13 },
	[FED_PROFILE] = { INTO("profile", C12), "adding profiles", 12 },
	[FED_CHUNK_LINK] = { NEW_INTO("chunk_link", C2), "noting links", 2 },
	[FED_LOOKUP] = { NEW_INTO("lookup", C3), "adding content hashes", 3 },
};

bool writer_prepare_fed(struct store_writer *w, struct err *err)
{
	if (!feed_attach(&w->feed, w->db, err))
		return false;
	for (int t = 0; t < FED_COUNT; t++)
		if (!db_prepare(w->db, tables[t].sql, &w->fed_inserts[t], err))
			return false;
	return true;
}

void writer_finalize_fed(struct store_writer *w)
{
	for (int t = 0; t < FED_COUNT; t++) {
		sqlite3_finalize(w->fed_inserts[t]);
		w->fed_inserts[t] = NULL;
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

void writer_flush_table(struct store_writer *w, enum fed_table t)
{
	size_t row = tables[t].columns * sizeof(struct feed_value);

	if (!w->fed[t].len)
		return;
	w->feed = (struct feed){ .values = (const void *)w->fed[t].ptr,
				 .rows = (uint32_t)(w->fed[t].len / row),
				 .columns = tables[t].columns };
	writer_step(w, w->fed_inserts[t], tables[t].what);
	w->feed = (struct feed){ 0 };
	buf_reset(&w->fed[t]);
}

void writer_flush(struct store_writer *w)
{
	for (int t = 0; t < FED_COUNT; t++)
		writer_flush_table(w, (enum fed_table)t);
}
