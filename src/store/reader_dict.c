/* reader_dict.c - texts, attribute sets, series, stacks, locations, links: from rows to what they
 * say. */
#include "store/codec.h"
#include "store/lifted.h"
#include "store/reader_internal.h"

static struct str keep(struct sqlite_snapshot *snap, struct str s)
{
	return s.len ? str_dup(&snap->kept, s) : (struct str){ 0 };
}

static struct idmap_slot *keep_text(struct sqlite_snapshot *snap, uint64_t id, struct str bytes)
{
	struct str *text = arena_alloc(&snap->kept, sizeof(*text));
	struct idmap_slot *slot = idmap_add(&snap->strings, id);

	*text = keep(snap, bytes);
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
		slot = keep_text(snap, id, db_bytes(s, 0));
		sqlite3_reset(s);
	}
	*out = *(const struct str *)slot->ptr;
	return true;
}

static struct str keep_in(struct arena *arena, struct str s)
{
	return s.len ? str_dup(arena, s) : (struct str){ 0 };
}

bool reader_any(sqlite3_stmt *s, int kind_column, int value_column, struct arena *arena,
		struct any_value *out, struct err *err)
{
	int kind = sqlite3_column_int(s, kind_column);
	struct any_value v = { .kind = (enum any_kind)(kind & 127) };
	struct codec c;

	switch (v.kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		v.string = keep_in(arena, db_bytes(s, value_column));
		codec_string_reference(&v, (kind & 128) != 0);
		break;
	case ANY_BYTES:
		v.string = keep_in(arena, db_bytes(s, value_column));
		break;
	case ANY_BOOL:
		v.boolean = sqlite3_column_int(s, value_column) != 0;
		break;
	case ANY_INT:
		v.integer = sqlite3_column_int64(s, value_column);
		break;
	case ANY_DOUBLE:
		if (sqlite3_column_type(s, value_column) == SQLITE_BLOB &&
		    db_bytes(s, value_column).len == sizeof(v.real))
			memcpy(&v.real, db_bytes(s, value_column).ptr, sizeof(v.real));
		else
			v.real = sqlite3_column_double(s, value_column);
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		c = codec_of(keep_in(arena, db_bytes(s, value_column)));
		v = codec_get_any(&c, arena);
		if (c.failed || codec_more(&c))
			return err_set(err, ERR_INVALID, "an attribute's value is damaged");
		break;
	default:
		return err_set(err, ERR_INVALID, "an attribute is of the unknown kind %d", kind);
	}
	*out = v;
	return true;
}

static bool fetch_attribute(struct sqlite_snapshot *snap, uint64_t id, struct store_attribute *out,
			    struct err *err)
{
	uint64_t key, unit;
	sqlite3_stmt *s;
	bool ok;

	if (!reader_row(snap, GET_ATTRIBUTE, id, &s, err))
		return false;
	key = db_u64(s, 0);
	unit = db_u64(s, 3);
	ok = reader_any(s, 1, 2, &snap->kept, &out->value, err);
	sqlite3_reset(s);
	return ok && reader_text(snap, key, &out->key, err) &&
	       reader_text(snap, unit, &out->unit, err);
}

static bool read_attribute(struct sqlite_snapshot *snap, uint64_t id, struct store_attribute *out,
			   struct err *err)
{
	struct idmap_slot *slot;
	struct store_attribute *a;

	*out = (struct store_attribute){ 0 };
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
	*out = *(const struct store_attribute *)slot->ptr;
	return true;
}

static bool read_attrset(struct sqlite_snapshot *snap, uint64_t id, struct store_attributes *out,
			 struct err *err)
{
	struct store_attribute *list;
	uint32_t count = 0;
	sqlite3_stmt *s;
	struct codec c;

	if (!reader_row(snap, GET_ATTRSET, id, &s, err))
		return false;
	c = codec_of(keep(snap, db_bytes(s, 0)));
	sqlite3_reset(s);
	list = arena_alloc_array(&snap->kept, (size_t)(c.end - c.at), sizeof(*list));
	while (codec_more(&c)) {
		uint64_t attribute = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "the attribute set %llu is damaged",
				       (unsigned long long)id);
		if (!read_attribute(snap, attribute, &list[count++], err))
			return false;
	}
	*out = (struct store_attributes){ list, count };
	return true;
}

bool reader_attributes(struct sqlite_snapshot *snap, uint64_t id, struct store_attributes *out,
		       struct err *err)
{
	struct idmap_slot *slot;
	struct store_attributes *set;

	*out = (struct store_attributes){ 0 };
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
	*out = *(const struct store_attributes *)slot->ptr;
	return true;
}

/* ---- rows of ascending ids: where they are dense, one walk over the table ---- */

enum { DENSE = 6 /* steps cost less than that many seeks */ };

struct row_walk {
	struct sqlite_snapshot *snap;
	enum query get;
	sqlite3_stmt *rows; /* the walk; NULL: each by itself */
	int id_column;
};

static bool walk_begin(struct row_walk *w, enum query each, const store_id *ids, size_t count,
		       struct err *err)
{
	if (count < 16 || (ids[count - 1] - ids[0]) / DENSE > count)
		return true;
	w->rows = reader_query(w->snap, each, err);
	if (w->rows)
		db_bind_u64(w->rows, 1, ids[0]);
	return w->rows != NULL;
}

/* The row of the next id, until the next call. */
static bool walk_to(struct row_walk *w, uint64_t id, sqlite3_stmt **out, struct err *err)
{
	bool row = true;

	if (!w->rows)
		return reader_row(w->snap, w->get, id, out, err);
	do {
		if (!db_step(w->snap->db, w->rows, &row, err, "reading the store"))
			return false;
	} while (row && db_u64(w->rows, w->id_column) < id);
	if (!row || db_u64(w->rows, w->id_column) != id)
		return err_set(err, ERR_NOT_FOUND, "the store has no row %llu for: %s",
			       (unsigned long long)id, sqlite3_sql(w->rows));
	*out = w->rows;
	return true;
}

static void walk_end(struct row_walk *w)
{
	if (w->rows)
		sqlite3_reset(w->rows);
}

/* ---- stacks ---- */

/* A walk over stacks: SQLite gives each row to the aggregate stack(), which costs half of what a
 * step for each does. */
struct stack_walk {
	const store_id *ids;
	size_t count, at; /* at: the next one's place */
	bool (*fn)(void *arg, store_id id, struct hash128 hash, const store_id *locations,
		   uint32_t location_count);
	void *arg;
	store_id *locations;
	size_t cap;
	bool ended, failed; /* failed: err tells */
	struct err *err;
};

static bool missing_stack(struct stack_walk *w)
{
	w->failed = true;
	return err_set(w->err, ERR_NOT_FOUND, "the store has no stack %llu",
		       (unsigned long long)w->ids[w->at]);
}

static struct str value_bytes(sqlite3_value *v)
{
	const void *bytes = sqlite3_value_blob(v);

	return str_from(bytes, (size_t)sqlite3_value_bytes(v));
}

static bool give_stack(struct stack_walk *w, struct str locations, struct str hash_bytes)
{
	struct codec c = codec_of(locations);
	struct hash128 hash = { 0, 0 };
	uint32_t n = 0;

	if (hash_bytes.len == sizeof(hash))
		memcpy(&hash, hash_bytes.ptr, sizeof(hash));
	if (locations.len > w->cap) {
		w->cap = locations.len * 2;
		free(w->locations);
		w->locations = malloc(w->cap * sizeof(*w->locations));
		assert(w->locations);
	}
	while (codec_more(&c))
		w->locations[n++] = codec_get(&c);
	if (c.failed) {
		w->failed = true;
		return err_set(w->err, ERR_INVALID, "the stack %llu is damaged",
			       (unsigned long long)w->ids[w->at]);
	}
	w->ended = !w->fn(w->arg, w->ids[w->at++], hash, w->locations, n);
	return !w->ended;
}

/* stack(id, locations, hash) */
static void stack_step(sqlite3_context *context, int count, sqlite3_value **args)
{
	struct sqlite_snapshot *snap = sqlite3_user_data(context);
	struct stack_walk *w = snap->stacks;
	uint64_t id = (uint64_t)sqlite3_value_int64(args[0]);
	bool ok = w != NULL;

	(void)count;
	if (ok && (w->at == w->count || id < w->ids[w->at]))
		return; /* a neighbour of those that are asked for */
	if (ok && id > w->ids[w->at])
		ok = missing_stack(w);
	ok = ok && give_stack(w, value_bytes(args[1]), value_bytes(args[2]));
	if (!ok)
		sqlite3_result_error_code(context, SQLITE_ABORT);
}

static void stack_end(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

bool reader_make_stack(struct sqlite_snapshot *snap, struct err *err)
{
	int rc = sqlite3_create_function_v2(snap->db, "stack", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY,
					    snap, NULL, stack_step, stack_end, NULL);

	return rc == SQLITE_OK || db_error(snap->db, err, "preparing to read stacks");
}

static bool run_walk(struct sqlite_snapshot *snap, sqlite3_stmt *s, struct stack_walk *w)
{
	struct stack_walk *before = snap->stacks;
	int rc;

	snap->stacks = w;
	do
		rc = sqlite3_step(s);
	while (rc == SQLITE_ROW);
	snap->stacks = before;
	if (rc != SQLITE_DONE && !w->ended && !w->failed) {
		w->failed = true;
		db_error(snap->db, w->err, "reading stacks");
	}
	sqlite3_reset(s);
	return !w->failed;
}

/* ids [first, last), one by one. */
static bool pick_stacks(struct sqlite_snapshot *snap, struct stack_walk *w, size_t first,
			size_t last, struct buf *list)
{
	sqlite3_stmt *s = reader_query(snap, PICK_STACKS, w->err);

	if (!s)
		return false;
	buf_reset(list);
	for (size_t i = first; i < last; i++) {
		buf_char(list, i == first ? '[' : ',');
		buf_u64(list, w->ids[i]);
	}
	buf_char(list, ']');
	db_bind_text(s, 1, buf_view(list));
	return run_walk(snap, s, w) && (w->ended || w->at == last || missing_stack(w));
}

static bool walk_stacks(struct sqlite_snapshot *snap, struct stack_walk *w)
{
	sqlite3_stmt *s = reader_query(snap, EACH_STACK, w->err);

	if (!s)
		return false;
	db_bind_u64(s, 1, w->ids[0]);
	db_bind_u64(s, 2, w->ids[w->count - 1]);
	return run_walk(snap, s, w) && (w->ended || w->at == w->count || missing_stack(w));
}

bool sqlite_each_stack(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		       bool (*fn)(void *arg, store_id id, struct hash128 hash,
				  const store_id *locations, uint32_t location_count),
		       void *arg, struct err *err)
{
	enum { DENSE_STACKS = 4, AT_ONCE = 4096 };
	struct stack_walk w = { .ids = ids, .count = count, .fn = fn, .arg = arg, .err = err };
	struct buf list;
	bool ok = true;

	buf_init(&list, 0);
	if (count && (ids[count - 1] - ids[0]) / DENSE_STACKS < count)
		ok = walk_stacks(snap, &w);
	else
		for (size_t i = 0; ok && !w.ended && i < count; i += AT_ONCE)
			ok = pick_stacks(snap, &w, i, count - i < AT_ONCE ? count : i + AT_ONCE,
					 &list);
	buf_release(&list);
	free(w.locations);
	return ok;
}

/* ---- texts and functions, many at a time ---- */

struct id_list {
	uint64_t *ids;
	size_t count, cap;
};

static void list_id(struct id_list *l, uint64_t id)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->ids = realloc(l->ids, l->cap * sizeof(*l->ids));
		assert(l->ids);
	}
	l->ids[l->count++] = id;
}

static int id_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort_list(struct id_list *l)
{
	size_t kept = 0;

	if (l->count)
		qsort(l->ids, l->count, sizeof(*l->ids), id_order);
	for (size_t i = 0; i < l->count; i++)
		if (!kept || l->ids[kept - 1] != l->ids[i])
			l->ids[kept++] = l->ids[i];
	l->count = kept;
}

static bool keep_texts(struct sqlite_snapshot *snap, struct id_list *texts, struct err *err)
{
	struct row_walk w = { .snap = snap, .get = GET_STRING, .id_column = 1 };
	bool ok;

	sort_list(texts);
	ok = walk_begin(&w, EACH_STRING, texts->ids, texts->count, err);
	for (size_t i = 0; ok && i < texts->count; i++) {
		sqlite3_stmt *s;

		ok = walk_to(&w, texts->ids[i], &s, err);
		if (ok)
			keep_text(snap, texts->ids[i], db_bytes(s, 0));
		if (ok && !w.rows)
			sqlite3_reset(s);
	}
	walk_end(&w);
	return ok;
}

struct function_row {
	uint64_t id, name, system_name, filename;
	int64_t start_line;
};

static void want_text(struct sqlite_snapshot *snap, struct id_list *texts, uint64_t id)
{
	if (id && !idmap_find(&snap->strings, id))
		list_id(texts, id);
}

static bool list_functions(struct sqlite_snapshot *snap, const struct id_list *functions,
			   struct function_row *out, struct id_list *texts, struct err *err)
{
	struct row_walk w = { .snap = snap, .get = GET_FUNCTION, .id_column = 5 };
	bool ok = walk_begin(&w, EACH_FUNCTION, functions->ids, functions->count, err);

	for (size_t i = 0; ok && i < functions->count; i++) {
		sqlite3_stmt *s;

		ok = walk_to(&w, functions->ids[i], &s, err);
		if (!ok)
			break;
		out[i] = (struct function_row){ functions->ids[i], db_u64(s, 0), db_u64(s, 1),
						db_u64(s, 2), sqlite3_column_int64(s, 3) };
		if (!w.rows)
			sqlite3_reset(s);
		want_text(snap, texts, out[i].name);
		want_text(snap, texts, out[i].system_name);
		want_text(snap, texts, out[i].filename);
	}
	walk_end(&w);
	return ok;
}

static bool keep_function(struct sqlite_snapshot *snap, const struct function_row *r,
			  struct err *err)
{
	struct store_line *line = arena_zalloc(&snap->kept, sizeof(*line));

	if (!reader_text(snap, r->name, &line->function, err) ||
	    !reader_text(snap, r->system_name, &line->system_name, err) ||
	    !reader_text(snap, r->filename, &line->filename, err))
		return false;
	line->start_line = r->start_line;
	idmap_add(&snap->functions, r->id)->ptr = line;
	return true;
}

static bool keep_functions(struct sqlite_snapshot *snap, struct id_list *functions, struct err *err)
{
	struct id_list texts = { 0 };
	struct function_row *rows;
	bool ok;

	sort_list(functions);
	rows = calloc(functions->count + 1, sizeof(*rows));
	assert(rows);
	ok = list_functions(snap, functions, rows, &texts, err) && keep_texts(snap, &texts, err);
	for (size_t i = 0; ok && i < functions->count; i++)
		ok = keep_function(snap, &rows[i], err);
	free(texts.ids);
	free(rows);
	return ok;
}

/* ---- locations ---- */

struct location_row {
	uint64_t mapping, address, attributes, frame_type;
	size_t lines, lines_len; /* of location_reader.bytes */
};

enum { LOCATIONS_AT_ONCE = 4096 };

struct location_reader {
	struct sqlite_snapshot *snap;
	struct location_row *rows; /* of some ids at once */
	struct buf bytes;
	struct id_list functions; /* of theirs, those that are not known yet */
	struct store_line *lines;
	uint32_t cap;
	struct err *err;
};

static struct store_line *line_at(struct location_reader *r, uint32_t index)
{
	if (index >= r->cap) {
		r->cap = r->cap ? r->cap * 2 : 16;
		r->lines = realloc(r->lines, r->cap * sizeof(*r->lines));
		assert(r->lines);
	}
	r->lines[index] = (struct store_line){ 0 };
	return &r->lines[index];
}

static bool read_lines(struct location_reader *r, struct str bytes, uint32_t *count)
{
	struct codec c = codec_of(bytes);

	*count = 0;
	while (codec_more(&c)) {
		struct store_line *line = line_at(r, *count);
		uint64_t function = codec_get(&c);
		int64_t number = codec_get_signed(&c), column = codec_get_signed(&c);

		if (c.failed)
			return err_set(r->err, ERR_INVALID, "the lines of a location are damaged");
		if (function) /* keep_functions() has seen to it */
			*line = *(const struct store_line *)idmap_find(&r->snap->functions,
								       function)
					 ->ptr;
		line->line = number;
		line->column = column;
		++*count;
	}
	return true;
}

/* A mapping's part of a location. */
static bool fetch_mapping(struct location_reader *r, uint64_t id, struct store_location *l)
{
	uint64_t filename;
	sqlite3_stmt *s;

	if (!reader_row(r->snap, GET_MAPPING, id, &s, r->err))
		return false;
	l->memory_start = db_u64(s, 0);
	l->memory_limit = db_u64(s, 1);
	l->file_offset = db_u64(s, 2);
	filename = db_u64(s, 3);
	l->build_id = keep(r->snap, db_bytes(s, 5));
	sqlite3_reset(s);
	return reader_text(r->snap, filename, &l->mapping_filename, r->err);
}

static bool read_mapping(struct location_reader *r, struct store_location *l)
{
	const struct store_location *m;
	struct store_location *kept;
	struct idmap_slot *slot;

	if (!l->mapping)
		return true;
	slot = idmap_find(&r->snap->mappings, l->mapping);
	if (!slot) {
		kept = arena_zalloc(&r->snap->kept, sizeof(*kept));
		if (!fetch_mapping(r, l->mapping, kept))
			return false;
		slot = idmap_add(&r->snap->mappings, l->mapping);
		slot->ptr = kept;
	}
	m = slot->ptr;
	l->memory_start = m->memory_start;
	l->memory_limit = m->memory_limit;
	l->file_offset = m->file_offset;
	l->build_id = m->build_id;
	l->mapping_filename = m->mapping_filename;
	return true;
}

/* symbol.lines: [[function, system name, file, line, column, start line], ...], innermost first */
static bool read_overlay(struct location_reader *r, struct store_location *l)
{
	sqlite3_stmt *s;
	bool row = true;

	if (!r->snap->overlay || l->line_count || !l->build_id.len)
		return true;
	s = reader_query(r->snap, GET_SYMBOL, r->err);
	if (!s)
		return false;
	db_bind_text(s, 1, l->build_id);
	db_bind_u64(s, 2, l->address);
	while (row) {
		struct store_line *line;

		if (!db_step(r->snap->db, s, &row, r->err, "reading later names"))
			return false;
		if (!row)
			break;
		line = line_at(r, l->line_count++);
		line->function = keep(r->snap, db_bytes(s, 0));
		line->system_name = keep(r->snap, db_bytes(s, 1));
		line->filename = keep(r->snap, db_bytes(s, 2));
		line->line = sqlite3_column_int64(s, 3);
		line->column = sqlite3_column_int64(s, 4);
		line->start_line = sqlite3_column_int64(s, 5);
		l->overlay = true;
	}
	return true;
}

static void note_functions(struct location_reader *r, struct str lines)
{
	struct codec c = codec_of(lines);

	while (codec_more(&c)) {
		uint64_t function = codec_get(&c);

		codec_get(&c);
		codec_get(&c);
		if (function && !idmap_find(&r->snap->functions, function))
			list_id(&r->functions, function);
	}
}

static bool read_rows(struct location_reader *r, const store_id *ids, size_t count)
{
	struct row_walk w = { .snap = r->snap, .get = GET_LOCATION, .id_column = 6 };
	bool ok = walk_begin(&w, EACH_LOCATION, ids, count, r->err);

	r->functions.count = 0;
	buf_reset(&r->bytes);
	for (size_t i = 0; ok && i < count; i++) {
		struct location_row *row = &r->rows[i];
		sqlite3_stmt *s;
		struct str lines;

		ok = walk_to(&w, ids[i], &s, r->err);
		if (!ok)
			break;
		lines = db_bytes(s, 4);
		*row = (struct location_row){ .mapping = db_u64(s, 0),
					      .address = db_u64(s, 1),
					      .attributes = db_u64(s, 2),
					      .frame_type = db_u64(s, 3),
					      .lines = r->bytes.len,
					      .lines_len = lines.len };
		buf_str(&r->bytes, lines);
		note_functions(r, lines);
		if (!w.rows)
			sqlite3_reset(s);
	}
	walk_end(&w);
	return ok && keep_functions(r->snap, &r->functions, r->err);
}

static bool make_location(struct location_reader *r, const struct location_row *row,
			  struct store_location *l)
{
	*l = (struct store_location){ .mapping = row->mapping,
				      .address = row->address,
				      .attributes = row->attributes };
	if (!read_lines(r, str_from(r->bytes.ptr + row->lines, row->lines_len), &l->line_count) ||
	    !reader_text(r->snap, row->frame_type, &l->frame_type, r->err) || !read_mapping(r, l) ||
	    !read_overlay(r, l))
		return false;
	l->lines = r->lines;
	return true;
}

/* Some at a time: their rows, then the functions' rows, then the texts', each in the order of the
 * file. */
bool sqlite_each_location(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
			  bool (*fn)(void *arg, store_id id, const struct store_location *l),
			  void *arg, struct err *err)
{
	struct location_reader r = { .snap = snap, .err = err };
	size_t room = count < LOCATIONS_AT_ONCE ? count : LOCATIONS_AT_ONCE;
	bool ok = true, more = true;

	r.rows = calloc(room + 1, sizeof(*r.rows));
	assert(r.rows);
	buf_init(&r.bytes, 0);
	for (size_t from = 0, n; ok && more && from < count; from += n) {
		n = count - from < room ? count - from : room;
		reader_trim(snap);
		ok = read_rows(&r, ids + from, n);
		for (size_t i = 0; ok && more && i < n; i++) {
			struct store_location l;

			ok = make_location(&r, &r.rows[i], &l);
			more = ok && fn(arg, ids[from + i], &l);
		}
	}
	free(r.rows);
	free(r.functions.ids);
	free(r.lines);
	buf_release(&r.bytes);
	return ok;
}

/* ---- attribute sets and links ---- */

bool sqlite_each_attributes(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
			    bool (*fn)(void *arg, store_id id, struct store_attributes a),
			    void *arg, struct err *err)
{
	bool more = true;

	for (size_t i = 0; more && i < count; i++) {
		struct store_attributes a;

		reader_trim(snap);
		if (!reader_attributes(snap, ids[i], &a, err))
			return false;
		more = fn(arg, ids[i], a);
	}
	return true;
}

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	memset(out, 0, size);
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

bool sqlite_each_link(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		      bool (*fn)(void *arg, store_id id, const struct store_link *l), void *arg,
		      struct err *err)
{
	bool more = true;

	for (size_t i = 0; more && i < count; i++) {
		struct store_link l;
		sqlite3_stmt *s;

		if (!reader_row(snap, GET_LINK, ids[i], &s, err))
			return false;
		copy_id(l.trace_id, sizeof(l.trace_id), db_bytes(s, 0));
		copy_id(l.span_id, sizeof(l.span_id), db_bytes(s, 1));
		sqlite3_reset(s);
		more = fn(arg, ids[i], &l);
	}
	return true;
}

bool sqlite_find_links(struct sqlite_snapshot *snap, const uint8_t *trace_id,
		       const uint8_t *span_id, store_id *out, size_t cap, size_t *count,
		       struct err *err)
{
	const char *sql =
		span_id && trace_id
			? "SELECT id FROM link WHERE span_id=?2 AND +trace_id=?1 ORDER BY id"
		: span_id  ? "SELECT id FROM link WHERE span_id=?2 ORDER BY id"
		: trace_id ? "SELECT id FROM link WHERE trace_id=?1 ORDER BY id"
			   : "SELECT id FROM link ORDER BY id";
	sqlite3_stmt *s = NULL;
	bool ok, row = true;

	*count = 0;
	ok = db_prepare(snap->db, sql, &s, err);
	if (ok && trace_id)
		sqlite3_bind_blob(s, 1, trace_id, 16, SQLITE_STATIC);
	if (ok && span_id)
		sqlite3_bind_blob(s, 2, span_id, 8, SQLITE_STATIC);
	while (ok && row) {
		ok = db_step(snap->db, s, &row, err, "looking for links");
		if (!ok || !row)
			break;
		if (*count < cap)
			out[*count] = db_u64(s, 0);
		++*count;
	}
	sqlite3_finalize(s);
	return ok;
}
