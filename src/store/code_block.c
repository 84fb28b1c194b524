#include "store/code_block.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/idmap.h"

uint64_t code_block_checksum(uint64_t first, uint64_t last, uint64_t n, struct str bytes)
{
	uint64_t parts[4] = { first, last, n, hash64(bytes) };

	return hash64(str_from(parts, sizeof(parts)));
}

/* ---- made ---- */

enum { LIST_LOCATIONS, GET_FUNCTION, GET_TEXT, STATEMENTS };

static const char *const sql[STATEMENTS] = {
	[LIST_LOCATIONS] = "SELECT id, mapping_id, address, attrset_id, frame_type_id, lines FROM "
			   "location WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
	[GET_FUNCTION] = "SELECT name_id, system_name_id, filename_id, start_line FROM function "
			 "WHERE id=?1",
	[GET_TEXT] = "SELECT v FROM string WHERE id=?1",
};

struct making {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	struct idmap texts, functions; /* row -> place */
	struct buf text_bytes, function_bytes, location_bytes;
	struct err *err;
};

static bool get_row(struct making *m, int which, uint64_t id)
{
	sqlite3_stmt *s = m->statements[which];
	bool row;

	sqlite3_reset(s);
	db_bind_u64(s, 1, id);
	if (!db_step(m->db, s, &row, m->err, "reading the store"))
		return false;
	return row || err_set(m->err, ERR_INVALID, "the store has no row %llu for: %s",
			      (unsigned long long)id, sql[which]);
}

static bool text_place(struct making *m, uint64_t id, uint64_t *place)
{
	struct idmap_slot *slot = id ? idmap_find(&m->texts, id) : NULL;

	*place = slot ? slot->number : 0;
	if (slot || !id)
		return true;
	if (!get_row(m, GET_TEXT, id))
		return false;
	codec_put_str(&m->text_bytes, db_bytes(m->statements[GET_TEXT], 0));
	sqlite3_reset(m->statements[GET_TEXT]);
	slot = idmap_add(&m->texts, id);
	*place = slot->number = m->texts.used;
	return true;
}

static bool function_place(struct making *m, uint64_t id, uint64_t *place)
{
	struct idmap_slot *slot = id ? idmap_find(&m->functions, id) : NULL;
	sqlite3_stmt *s = m->statements[GET_FUNCTION];
	uint64_t rows[3], texts[3];
	int64_t start_line;

	*place = slot ? slot->number : 0;
	if (slot || !id)
		return true;
	if (!get_row(m, GET_FUNCTION, id))
		return false;
	for (int i = 0; i < 3; i++)
		rows[i] = db_u64(s, i);
	start_line = sqlite3_column_int64(s, 3);
	sqlite3_reset(s);
	for (int i = 0; i < 3; i++)
		if (!text_place(m, rows[i], &texts[i]))
			return false;
	for (int i = 0; i < 3; i++)
		codec_put(&m->function_bytes, texts[i]);
	codec_put_signed(&m->function_bytes, start_line);
	slot = idmap_add(&m->functions, id);
	*place = slot->number = m->functions.used;
	return true;
}

static bool put_lines(struct making *m, struct str lines, uint64_t id)
{
	struct codec c = codec_of(lines);
	uint64_t count = 0, place;

	while (codec_more(&c)) {
		for (int i = 0; i < 3; i++)
			codec_get(&c);
		count++;
	}
	if (c.failed)
		return err_set(m->err, ERR_INVALID, "the lines of the location %llu are damaged",
			       (unsigned long long)id);
	codec_put(&m->location_bytes, count);
	c = codec_of(lines);
	while (codec_more(&c)) {
		if (!function_place(m, codec_get(&c), &place))
			return false;
		codec_put(&m->location_bytes, place);
		codec_put(&m->location_bytes, codec_get(&c));
		codec_put(&m->location_bytes, codec_get(&c));
	}
	return true;
}

static bool put_location(struct making *m, sqlite3_stmt *s, uint64_t before)
{
	uint64_t id = db_u64(s, 0), frame_type;

	if (!text_place(m, db_u64(s, 4), &frame_type))
		return false;
	codec_put(&m->location_bytes, id - before);
	for (int i = 1; i <= 3; i++)
		codec_put(&m->location_bytes, db_u64(s, i));
	codec_put(&m->location_bytes, frame_type);
	return put_lines(m, db_bytes(s, 5), id);
}

static bool put_locations(struct making *m, struct code_block_row *out)
{
	sqlite3_stmt *s = m->statements[LIST_LOCATIONS];
	uint64_t before = out->first - 1;
	bool row;

	db_bind_u64(s, 1, out->first);
	db_bind_u64(s, 2, out->last);
	while (db_step(m->db, s, &row, m->err, "reading the store")) {
		if (!row)
			return true;
		if (out->n == CODE_BLOCK_MOST) {
			out->last = before;
			return true;
		}
		if (!put_location(m, s, before))
			return false;
		before = db_u64(s, 0);
		out->n++;
	}
	return false;
}

bool code_block_build(sqlite3 *db, uint64_t first, uint64_t last, struct code_block_row *out,
		      struct err *err)
{
	struct making m = { .db = db, .err = err };
	bool ok = true;

	out->first = first;
	out->last = last;
	out->n = 0;
	buf_init(&m.text_bytes, 0);
	buf_init(&m.function_bytes, 0);
	buf_init(&m.location_bytes, 0);
	for (int i = 0; ok && i < STATEMENTS; i++)
		ok = db_prepare(db, sql[i], &m.statements[i], err);
	ok = ok && put_locations(&m, out);
	if (ok) {
		codec_put(&out->bytes, m.texts.used);
		buf_str(&out->bytes, buf_view(&m.text_bytes));
		codec_put(&out->bytes, m.functions.used);
		buf_str(&out->bytes, buf_view(&m.function_bytes));
		buf_str(&out->bytes, buf_view(&m.location_bytes));
	}
	for (int i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(m.statements[i]);
	idmap_release(&m.texts);
	idmap_release(&m.functions);
	buf_release(&m.text_bytes);
	buf_release(&m.function_bytes);
	buf_release(&m.location_bytes);
	return ok;
}

/* ---- read ---- */

/* How many follow, of at least `bytes_least` each. */
static bool get_count(struct codec *c, size_t bytes_least, uint64_t *count)
{
	*count = codec_get(c);
	return !c->failed && *count <= (uint64_t)(c->end - c->at) / bytes_least;
}

static bool get_texts(struct code_block *b)
{
	if (!get_count(&b->rest, 1, &b->text_count))
		return false;
	b->texts = malloc((b->text_count + 1) * sizeof(*b->texts));
	assert(b->texts);
	b->texts[0] = (struct str){ 0 };
	for (uint64_t i = 1; i <= b->text_count; i++)
		b->texts[i] = codec_get_str(&b->rest);
	return !b->rest.failed;
}

static struct str get_text(struct code_block *b)
{
	uint64_t place = codec_get(&b->rest);

	b->rest.failed |= place > b->text_count;
	return b->rest.failed ? (struct str){ 0 } : b->texts[place];
}

static bool get_functions(struct code_block *b)
{
	if (!get_count(&b->rest, 4, &b->function_count))
		return false;
	b->functions = malloc((b->function_count + 1) * sizeof(*b->functions));
	assert(b->functions);
	b->functions[0] = (struct source_line){ 0 };
	for (uint64_t i = 1; i <= b->function_count; i++) {
		struct source_line *f = &b->functions[i];

		f->function = get_text(b);
		f->system_name = get_text(b);
		f->file = get_text(b);
		f->start_line = codec_get_signed(&b->rest);
		f->line = f->column = 0;
	}
	return !b->rest.failed;
}

bool code_block_open(struct code_block *b, uint64_t first, struct str bytes)
{
	*b = (struct code_block){ .rest = codec_of(bytes), .id = first - 1 };
	return get_texts(b) && get_functions(b);
}

void code_block_close(struct code_block *b)
{
	free(b->texts);
	free(b->functions);
	free(b->lines);
}

static bool get_lines(struct code_block *b, uint32_t *count)
{
	uint64_t n;

	if (!get_count(&b->rest, 3, &n) || n > UINT32_MAX)
		return false;
	if (n > b->line_cap) {
		b->line_cap = (uint32_t)n;
		free(b->lines);
		b->lines = malloc(n * sizeof(*b->lines));
		assert(b->lines);
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t place = codec_get(&b->rest);

		if (place > b->function_count)
			return false;
		b->lines[i] = b->functions[place];
		b->lines[i].line = codec_get_signed(&b->rest);
		b->lines[i].column = codec_get_signed(&b->rest);
	}
	*count = (uint32_t)n;
	return !b->rest.failed;
}

bool code_block_next(struct code_block *b, struct code_location *out, bool *ok)
{
	struct source_location *l = &out->said;

	*ok = !b->rest.failed;
	if (!codec_more(&b->rest))
		return false;
	*l = (struct source_location){ 0 };
	b->id += codec_get(&b->rest);
	l->id = b->id;
	out->mapping = codec_get(&b->rest);
	l->address = codec_get(&b->rest);
	out->attributes = codec_get(&b->rest);
	l->frame_type = get_text(b);
	*ok = get_lines(b, &l->line_count);
	l->lines = b->lines;
	return *ok;
}
