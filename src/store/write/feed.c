#include "store/write/feed.h"

#include <stdlib.h>

struct feed_table {
	sqlite3_vtab base; /* SQLite's part comes first */
	const struct feed *feed;
};

struct feed_cursor {
	sqlite3_vtab_cursor base;
	const struct feed *feed;
	uint32_t row;
};

static_assert(FEED_COLUMNS_MOST == 13, "as many as are declared");

static int feed_connect(sqlite3 *db, void *arg, int argc, const char *const *argv,
			sqlite3_vtab **out, char **message)
{
	struct feed_table *t = calloc(1, sizeof(*t));

	(void)argc;
	(void)argv;
	(void)message;
	assert(t);
	t->feed = arg;
	*out = &t->base;
	return sqlite3_declare_vtab(
		db, "CREATE TABLE feed(c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12)");
}

static int feed_disconnect(sqlite3_vtab *t)
{
	free(t);
	return SQLITE_OK;
}

/* There is one way to read it. */
static int feed_best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
	(void)t;
	info->estimatedCost = 1;
	return SQLITE_OK;
}

static int feed_open(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
	struct feed_cursor *c = calloc(1, sizeof(*c));

	assert(c);
	c->feed = ((struct feed_table *)t)->feed;
	*out = &c->base;
	return SQLITE_OK;
}

static int feed_close(sqlite3_vtab_cursor *c)
{
	free(c);
	return SQLITE_OK;
}

static int feed_filter(sqlite3_vtab_cursor *c, int number, const char *name, int argc,
		       sqlite3_value **argv)
{
	(void)number;
	(void)name;
	(void)argc;
	(void)argv;
	((struct feed_cursor *)c)->row = 0;
	return SQLITE_OK;
}

static int feed_next(sqlite3_vtab_cursor *c)
{
	((struct feed_cursor *)c)->row++;
	return SQLITE_OK;
}

static int feed_eof(sqlite3_vtab_cursor *base)
{
	const struct feed_cursor *c = (const struct feed_cursor *)base;

	return c->row >= c->feed->rows;
}

static int feed_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *out)
{
	*out = ((const struct feed_cursor *)c)->row;
	return SQLITE_OK;
}

static int feed_column(sqlite3_vtab_cursor *base, sqlite3_context *to, int column)
{
	const struct feed_cursor *c = (const struct feed_cursor *)base;
	const struct feed_value *v;

	if ((uint32_t)column >= c->feed->columns)
		return SQLITE_OK; /* NULL */
	v = &c->feed->values[(size_t)c->row * c->feed->columns + (uint32_t)column];
	switch (v->type) {
	case FEED_NULL:
		break;
	case FEED_INTEGER:
		sqlite3_result_int64(to, v->number);
		break;
	case FEED_REAL:
		sqlite3_result_double(to, v->real);
		break;
	case FEED_TEXT:
		sqlite3_result_text64(to, v->ptr, v->len, SQLITE_STATIC, SQLITE_UTF8);
		break;
	case FEED_BLOB:
		sqlite3_result_blob64(to, v->ptr, v->len, SQLITE_STATIC);
		break;
	}
	return SQLITE_OK;
}

/* Without xCreate it is there by its name, and stands in no schema. */
static const sqlite3_module feed_module = {
	.xConnect = feed_connect,
	.xBestIndex = feed_best_index,
	.xDisconnect = feed_disconnect,
	.xOpen = feed_open,
	.xClose = feed_close,
	.xFilter = feed_filter,
	.xNext = feed_next,
	.xEof = feed_eof,
	.xColumn = feed_column,
	.xRowid = feed_rowid,
};

bool feed_attach(struct feed *f, sqlite3 *db, struct err *err)
{
	return sqlite3_create_module_v2(db, "feed", &feed_module, f, NULL) == SQLITE_OK ||
	       db_error(db, err, "the table feed");
}
