#include "store/symbols.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "store/clickhouse/symbols.h"
#include "store/db.h"
#include "store/schema/schema.h"

enum { BUSY_MS = 60000 };

struct store_symbols {
	struct ch_symbols *clickhouse; /* NULL: it is in db */
	sqlite3 *db;
	struct arena arena;
	struct store_nameless *list;
	size_t count, cap;
};

static const char LIST[] =
	"SELECT m.build_id, f.v, t.v, l.address, m.memory_start, m.memory_limit, m.file_offset "
	"FROM location l JOIN mapping m ON m.id=l.mapping_id LEFT JOIN string f ON "
	"f.id=m.filename_id LEFT JOIN string t ON t.id=l.frame_type_id WHERE "
	"coalesce(length(l.lines), 0)=0 AND length(m.build_id)>0 AND (?1 OR NOT EXISTS (SELECT 1 "
	"FROM symbol s WHERE s.build_id=m.build_id AND s.address=coalesce(l.address, 0))) "
	"ORDER BY 1, 4";

static bool open_clickhouse(const char *url, struct store_symbols **out, struct err *err)
{
	struct store_symbols *s = calloc(1, sizeof(*s));

	assert(s);
	arena_init(&s->arena, 64, 0);
	if (!ch_symbols_open(url, &s->clickhouse, err)) {
		store_symbols_close(s);
		return false;
	}
	*out = s;
	return true;
}

bool store_symbols_open(const char *path, struct store_symbols **out, struct err *err)
{
	struct store_symbols *s;
	bool ok;

	if (strstr(path, "://"))
		return open_clickhouse(path, out, err);
	s = calloc(1, sizeof(*s));
	assert(s);
	arena_init(&s->arena, 64 << 10, 0);
	ok = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
	     SQLITE_OK;
	if (!ok) {
		db_error(s->db, err, "cannot open the store");
	} else {
		sqlite3_extended_result_codes(s->db, 1);
		sqlite3_busy_timeout(s->db, BUSY_MS);
		ok = db_exec(s->db, "PRAGMA trusted_schema=0", err) && schema_check(s->db, err);
	}
	if (!ok) {
		err_prefix(err, "%s", path);
		store_symbols_close(s);
		return false;
	}
	*out = s;
	return true;
}

void store_symbols_close(struct store_symbols *s)
{
	if (!s)
		return;
	ch_symbols_close(s->clickhouse);
	sqlite3_close(s->db);
	arena_release(&s->arena);
	free(s->list);
	free(s);
}

static bool add_nameless(struct store_symbols *s, sqlite3_stmt *row, struct err *err)
{
	if (s->count == SYMBOL_ADDRESSES_MOST)
		return err_set(err, ERR_LIMIT, "more than %d addresses without a name",
			       SYMBOL_ADDRESSES_MOST);
	VEC_ROOM(s->list, s->count, s->cap);
	s->list[s->count++] = (struct store_nameless){
		.build_id = str_dup(&s->arena, db_bytes(row, 0)),
		.file = str_dup(&s->arena, db_bytes(row, 1)),
		.frame_type = str_dup(&s->arena, db_bytes(row, 2)),
		.address = db_u64(row, 3),
		.memory_start = db_u64(row, 4),
		.memory_limit = db_u64(row, 5),
		.file_offset = db_u64(row, 6),
	};
	return true;
}

bool store_symbols_list(struct store_symbols *s, bool again, const struct store_nameless **out,
			size_t *count, struct err *err)
{
	sqlite3_stmt *rows;
	bool row = true, ok;

	if (s->clickhouse)
		return ch_symbols_list(s->clickhouse, again, out, count, err);
	s->count = 0;
	if (!db_prepare(s->db, LIST, &rows, err))
		return false;
	sqlite3_bind_int(rows, 1, again);
	do
		ok = db_step(s->db, rows, &row, err, "reading locations") &&
		     (!row || add_nameless(s, rows, err));
	while (ok && row);
	sqlite3_finalize(rows);
	if (!ok)
		return false;
	*out = s->list;
	*count = s->count;
	return true;
}

/* [[function, system name, file, line, column, start line], ...] */
static void put_lines(struct buf *b, const struct store_symbol *symbol)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < symbol->line_count; i++) {
		const struct source_line *l = &symbol->lines[i];

		buf_str(b, i ? STR(",[") : STR("["));
		buf_json_string(b, l->function);
		buf_char(b, ',');
		buf_json_string(b, l->system_name);
		buf_char(b, ',');
		buf_json_string(b, l->file);
		buf_printf(b, ",%lld,%lld,%lld]", (long long)l->line, (long long)l->column,
			   (long long)l->start_line);
	}
	buf_char(b, ']');
}

static bool put_all(struct store_symbols *s, sqlite3_stmt *insert,
		    const struct store_symbol *symbols, size_t count, struct err *err)
{
	struct buf lines;
	bool ok = true;

	buf_init(&lines, 0);
	for (size_t i = 0; i < count && ok; i++) {
		buf_reset(&lines);
		put_lines(&lines, &symbols[i]);
		db_bind_text(insert, 1, symbols[i].build_id);
		db_bind_u64(insert, 2, symbols[i].address);
		db_bind_text(insert, 3, buf_view(&lines));
		ok = db_run(s->db, insert, err, "keeping names");
	}
	buf_release(&lines);
	return ok;
}

bool store_symbols_put(struct store_symbols *s, const struct store_symbol *symbols, size_t count,
		       struct err *err)
{
	sqlite3_stmt *insert;
	struct err ignored;
	bool ok;

	if (!count)
		return true;
	if (s->clickhouse)
		return ch_symbols_put(s->clickhouse, symbols, count, err);
	if (!db_exec(s->db, "BEGIN IMMEDIATE", err))
		return false;
	ok = db_prepare(s->db, "INSERT OR REPLACE INTO symbol VALUES(?1, ?2, ?3)", &insert, err);
	if (ok) {
		ok = put_all(s, insert, symbols, count, err);
		sqlite3_finalize(insert);
	}
	ok = ok &&
	     db_exec_f(s->db, err,
		       "INSERT INTO lookup_state VALUES(%d, 1) ON CONFLICT(kind) DO UPDATE SET "
		       "id = id + 1; COMMIT",
		       STORE_STATE_NAMES);
	if (!ok && !db_exec(s->db, "ROLLBACK", &ignored))
		return false;
	return ok;
}
