/* reader_dict.c - texts, attribute sets, links: from rows to what they say. */
#include <stdlib.h>

#include "store/schema/codec.h"
#include "store/schema/lifted.h"
#include "store/read/reader_walk.h"
#include "store/schema/schema.h"

struct str reader_keep(struct sqlite_snapshot *snap, struct str s)
{
	return s.len ? str_dup(&snap->kept, s) : (struct str){ 0 };
}

struct idmap_slot *reader_keep_text(struct sqlite_snapshot *snap, uint64_t id, struct str bytes)
{
	struct str *text = arena_alloc(&snap->kept, sizeof(*text));
	struct idmap_slot *slot = idmap_add(&snap->strings, id);

	*text = reader_keep(snap, bytes);
	slot->ptr = text;
	return slot;
}

bool reader_text(struct sqlite_snapshot *snap, uint64_t id, struct str *out, struct err *err)
{
	struct idmap_slot *slot;
	sqlite3_stmt *s;

	*out = (struct str){ 0 };
	if (!id)
		return true;
	slot = idmap_find(&snap->strings, id);
	if (!slot) {
		if (!reader_row(snap, GET_STRING, id, &s, err))
			return false;
		slot = reader_keep_text(snap, id, db_bytes(s, 0));
		sqlite3_reset(s);
	}
	*out = *(const struct str *)slot->ptr;
	return true;
}

static struct str keep_in(struct arena *arena, struct str s)
{
	return s.len ? str_dup(arena, s) : (struct str){ 0 };
}

struct any_cell reader_any_cell(sqlite3_stmt *s, int kind_column, int value_column)
{
	struct any_cell c = { .kind = sqlite3_column_int(s, kind_column) };

	switch (sqlite3_column_type(s, value_column)) {
	case SQLITE_INTEGER:
	case SQLITE_FLOAT:
		c.integer = sqlite3_column_int64(s, value_column);
		c.real = sqlite3_column_double(s, value_column);
		break;
	default:
		c.bytes = db_bytes(s, value_column);
	}
	return c;
}

struct any_cell row_any_cell(sqlite3_value *kind, sqlite3_value *v)
{
	struct any_cell c = { .kind = sqlite3_value_int(kind) };

	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
	case SQLITE_FLOAT:
		c.integer = sqlite3_value_int64(v);
		c.real = sqlite3_value_double(v);
		break;
	default:
		c.bytes = row_bytes(v);
	}
	return c;
}

bool reader_any(const struct any_cell *cell, struct arena *arena, struct any_value *out,
		struct err *err)
{
	struct any_value v = { .kind = (enum any_kind)(cell->kind & 127) };
	struct codec c;

	switch (v.kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		v.string = keep_in(arena, cell->bytes);
		codec_string_reference(&v, (cell->kind & 128) != 0);
		break;
	case ANY_BYTES:
		v.string = keep_in(arena, cell->bytes);
		break;
	case ANY_BOOL:
		v.boolean = cell->integer != 0;
		break;
	case ANY_INT:
		v.integer = cell->integer;
		break;
	case ANY_DOUBLE:
		if (cell->bytes.len == sizeof(v.real))
			memcpy(&v.real, cell->bytes.ptr, sizeof(v.real));
		else
			v.real = cell->real;
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		c = codec_of(keep_in(arena, cell->bytes));
		v = codec_get_any(&c, arena);
		if (c.failed || codec_more(&c))
			return err_set(err, ERR_INVALID, "an attribute's value is damaged");
		break;
	default:
		return err_set(err, ERR_INVALID, "an attribute is of the unknown kind %d",
			       cell->kind);
	}
	*out = v;
	return true;
}

static bool make_attribute(struct sqlite_snapshot *snap, const struct any_cell *cell, uint64_t key,
			   uint64_t unit, struct source_attribute *out, struct err *err)
{
	return reader_any(cell, &snap->kept, &out->value, err) &&
	       reader_text(snap, key, &out->key, err) && reader_text(snap, unit, &out->unit, err);
}

static bool fetch_attribute(struct sqlite_snapshot *snap, uint64_t id, struct source_attribute *out,
			    struct err *err)
{
	struct any_cell cell;
	uint64_t key, unit;
	sqlite3_stmt *s;
	bool ok;

	if (!reader_row(snap, GET_ATTRIBUTE, id, &s, err))
		return false;
	cell = reader_any_cell(s, 1, 2);
	key = db_u64(s, 0);
	unit = db_u64(s, 3);
	ok = make_attribute(snap, &cell, key, unit, out, err);
	sqlite3_reset(s);
	return ok;
}

bool reader_attribute(struct sqlite_snapshot *snap, uint64_t id, struct source_attribute *out,
		      struct err *err)
{
	struct idmap_slot *slot;
	struct source_attribute *a;

	*out = (struct source_attribute){ 0 };
	if (!id)
		return true;
	slot = idmap_find(&snap->attributes, id);
	if (!slot) {
		a = arena_zalloc(&snap->kept, sizeof(*a));
		if (!fetch_attribute(snap, id, a, err))
			return false;
		slot = idmap_add(&snap->attributes, id);
		slot->ptr = a;
	}
	*out = *(const struct source_attribute *)slot->ptr;
	return true;
}

static bool read_attrset(struct sqlite_snapshot *snap, uint64_t id, struct source_attributes *out,
			 struct err *err)
{
	struct source_attribute *list;
	uint32_t count = 0;
	sqlite3_stmt *s;
	struct codec c;

	if (!reader_row(snap, GET_ATTRSET, id, &s, err))
		return false;
	c = codec_of(reader_keep(snap, db_bytes(s, 0)));
	sqlite3_reset(s);
	list = arena_alloc_array(&snap->kept, (size_t)(c.end - c.at), sizeof(*list));
	while (codec_more(&c)) {
		uint64_t attribute = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "the attribute set %llu is damaged",
				       (unsigned long long)id);
		if (!reader_attribute(snap, attribute, &list[count++], err))
			return false;
	}
	*out = (struct source_attributes){ list, count };
	return true;
}

bool reader_attributes(struct sqlite_snapshot *snap, uint64_t id, struct source_attributes *out,
		       struct err *err)
{
	struct idmap_slot *slot;
	struct source_attributes *set;

	*out = (struct source_attributes){ 0 };
	if (!id)
		return true;
	slot = idmap_find(&snap->attrsets, id);
	if (!slot) {
		set = arena_alloc(&snap->kept, sizeof(*set));
		if (!read_attrset(snap, id, set, err))
			return false;
		slot = idmap_add(&snap->attrsets, id);
		slot->ptr = set;
	}
	*out = *(const struct source_attributes *)slot->ptr;
	return true;
}

/* ---- attribute sets and links ---- */

struct set_row {
	size_t at, len; /* its attributes' ids, in set_reader.bytes */
};

struct set_reader {
	struct sqlite_snapshot *snap;
	struct set_row *rows; /* of some ids at once */
	struct buf bytes;
	struct wanted_ids attributes; /* of theirs, those that are not known yet */
};

static bool take_set(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct set_reader *r = ctx;
	struct str ids = row_bytes(columns[0]);
	struct codec c = codec_of(ids);

	(void)err;
	r->rows[at] = (struct set_row){ r->bytes.len, ids.len };
	buf_str(&r->bytes, ids);
	while (codec_more(&c)) {
		uint64_t id = codec_get(&c);

		if (id && !idmap_find(&r->snap->attributes, id))
			wanted_ids_add(&r->attributes, id);
	}
	return true;
}

/* key_id, kind, v, unit_id */
static bool take_attribute(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct set_reader *r = ctx;
	struct source_attribute *a = arena_zalloc(&r->snap->kept, sizeof(*a));
	struct any_cell cell = row_any_cell(columns[1], columns[2]);

	if (!make_attribute(r->snap, &cell, row_u64(columns[0]), row_u64(columns[3]), a, err))
		return false;
	idmap_add(&r->snap->attributes, r->attributes.ids[at])->ptr = a;
	return true;
}

static bool read_sets(struct set_reader *r, const uint64_t *ids, size_t count, struct err *err)
{
	r->attributes.count = 0;
	buf_reset(&r->bytes);
	if (!row_each(r->snap, PICK_ATTRSETS, ids, count, take_set, r, err))
		return false;
	wanted_ids_sort(&r->attributes);
	return row_each(r->snap, PICK_ATTRIBUTES, r->attributes.ids, r->attributes.count,
			take_attribute, r, err);
}

/* A set that was read, as reader_attributes() gives it. */
static bool keep_set(struct set_reader *r, uint64_t id, const struct set_row *row, struct err *err)
{
	struct codec c = codec_of(str_from(r->bytes.ptr + row->at, row->len));
	struct source_attribute *list = arena_alloc_array(&r->snap->kept, row->len, sizeof(*list));
	struct source_attributes *set = arena_alloc(&r->snap->kept, sizeof(*set));

	*set = (struct source_attributes){ list, 0 };
	while (codec_more(&c)) {
		uint64_t attribute = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "the attribute set %llu is damaged",
				       (unsigned long long)id);
		if (!reader_attribute(r->snap, attribute, &list[set->count++], err))
			return false;
	}
	idmap_add(&r->snap->attrsets, id)->ptr = set;
	return true;
}

bool reader_keep_sets(struct sqlite_snapshot *snap, struct wanted_ids *sets, struct err *err)
{
	struct set_reader r = { .snap = snap };
	size_t kept = 0;
	bool ok;

	wanted_ids_sort(sets);
	for (size_t i = 0; i < sets->count; i++)
		if (!idmap_find(&snap->attrsets, sets->ids[i]))
			sets->ids[kept++] = sets->ids[i];
	sets->count = kept;
	r.rows = calloc(kept + 1, sizeof(*r.rows));
	assert(r.rows);
	buf_init(&r.bytes, 0);
	ok = read_sets(&r, sets->ids, kept, err);
	for (size_t i = 0; ok && i < kept; i++)
		ok = keep_set(&r, sets->ids[i], &r.rows[i], err);
	free(r.rows);
	free(r.attributes.ids);
	buf_release(&r.bytes);
	return ok;
}

static bool give_set(struct set_reader *r, uint64_t id, const struct set_row *row,
		     struct source_attribute **list, size_t *cap, struct source_attributes *out,
		     struct err *err)
{
	struct codec c = codec_of(str_from(r->bytes.ptr + row->at, row->len));
	uint32_t count = 0;

	if (row->len > *cap) {
		*cap = row->len * 2;
		free(*list);
		*list = calloc(*cap, sizeof(**list));
		assert(*list);
	}
	while (codec_more(&c)) {
		uint64_t attribute = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "the attribute set %llu is damaged",
				       (unsigned long long)id);
		if (!reader_attribute(r->snap, attribute, &(*list)[count++], err))
			return false;
	}
	*out = (struct source_attributes){ *list, count };
	return true;
}

/* Some at a time: their rows, then those of the attributes, each in the order of the file. */
bool sqlite_attributes(struct source *source, const uint64_t *ids, uint32_t count,
		       source_attributes_fn *fn, void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	enum { SETS_AT_ONCE = 4096 };
	struct set_reader r = { .snap = snap };
	size_t room = count < SETS_AT_ONCE ? count : SETS_AT_ONCE, cap = 0;
	struct source_attribute *list = NULL;
	bool ok = true;

	if (count == 1) { /* whoever asks one by one may ask for it again */
		struct source_attributes a;

		reader_trim(snap);
		return reader_attributes(snap, ids[0], &a, err) && fn(arg, ids[0], a, err);
	}
	r.rows = calloc(room + 1, sizeof(*r.rows));
	assert(r.rows);
	buf_init(&r.bytes, 0);
	for (size_t from = 0, n; ok && from < count; from += n) {
		n = count - from < room ? count - from : room;
		reader_trim(snap);
		ok = read_sets(&r, ids + from, n, err);
		for (size_t i = 0; ok && i < n; i++) {
			struct source_attributes a;

			ok = give_set(&r, ids[from + i], &r.rows[i], &list, &cap, &a, err) &&
			     fn(arg, ids[from + i], a, err);
		}
	}
	free(r.rows);
	free(r.attributes.ids);
	free(list);
	buf_release(&r.bytes);
	return ok;
}

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	memset(out, 0, size);
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

bool sqlite_links(struct source *source, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		  void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);

	for (size_t i = 0; i < count; i++) {
		struct source_link l = { .id = ids[i] };
		sqlite3_stmt *s;

		if (!reader_row(snap, GET_LINK, ids[i], &s, err))
			return false;
		copy_id(l.trace_id, sizeof(l.trace_id), db_bytes(s, 0));
		copy_id(l.span_id, sizeof(l.span_id), db_bytes(s, 1));
		sqlite3_reset(s);
		if (!fn(arg, &l, err))
			return false;
	}
	return true;
}

/* By the rarer of what is said: from link_key, and the rows that are not in it yet. */
static const char *links_sql(bool any)
{
#define MATCH "(?1 IS NULL OR +trace_id=?1) AND (?2 IS NULL OR +span_id=?2) "
	return any ? "SELECT id FROM link ORDER BY id"
		   : "SELECT id FROM link_key JOIN link ON id=link_id WHERE key=coalesce(?2, ?1) "
		     "AND " MATCH "UNION SELECT id FROM link WHERE id>coalesce((SELECT id FROM "
		     "lookup_state WHERE kind=?3), 0) AND " MATCH "ORDER BY id";
#undef MATCH
}

bool sqlite_find_links(struct source *source, const uint8_t *trace_id, const uint8_t *span_id,
		       source_link_fn *fn, void *ctx, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct wanted_ids ids = { 0 };
	sqlite3_stmt *s = NULL;
	bool ok, row = true;

	ok = db_prepare(snap->db, links_sql(!trace_id && !span_id), &s, err);
	if (ok && trace_id)
		sqlite3_bind_blob(s, 1, trace_id, 16, SQLITE_STATIC);
	if (ok && span_id)
		sqlite3_bind_blob(s, 2, span_id, 8, SQLITE_STATIC);
	if (ok)
		sqlite3_bind_int(s, 3, STORE_STATE_LINKS);
	while (ok && row) {
		ok = db_step(snap->db, s, &row, err, "looking for links");
		if (!ok || !row)
			break;
		wanted_ids_add(&ids, db_u64(s, 0));
	}
	sqlite3_finalize(s);
	if (ok && ids.count > UINT32_MAX / 2)
		ok = err_set(err, ERR_LIMIT, "%zu links of one trace", ids.count);
	ok = ok && sqlite_links(source, ids.ids, (uint32_t)ids.count, fn, ctx, err);
	free(ids.ids);
	return ok;
}
