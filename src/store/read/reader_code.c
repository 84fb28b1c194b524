/* reader_code.c - stacks, and locations with what their functions and mappings say, many at a
 * time. */
#include <stdlib.h>

#include "store/schema/codec.h"
#include "store/read/reader_walk.h"

/* ---- texts and functions, many at a time ---- */

struct text_reader {
	struct sqlite_snapshot *snap;
	const uint64_t *ids;
};

static bool take_text(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	const struct text_reader *r = ctx;

	(void)err;
	reader_keep_text(r->snap, r->ids[at], row_bytes(columns[0]));
	return true;
}

static bool keep_texts(struct sqlite_snapshot *snap, struct wanted_ids *texts, struct err *err)
{
	struct text_reader r = { snap, NULL };

	wanted_ids_sort(texts);
	r.ids = texts->ids;
	return row_each(snap, PICK_STRINGS, texts->ids, texts->count, take_text, &r, err);
}

struct function_row {
	uint64_t id, name, system_name, filename;
	int64_t start_line;
};

static void want_text(struct sqlite_snapshot *snap, struct wanted_ids *texts, uint64_t id)
{
	if (id && !idmap_find(&snap->strings, id))
		wanted_ids_add(texts, id);
}

struct function_reader {
	struct sqlite_snapshot *snap;
	const uint64_t *ids;
	struct function_row *rows;
	struct wanted_ids texts;
};

static bool take_function(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct function_reader *r = ctx;
	struct function_row *row = &r->rows[at];

	(void)err;
	*row = (struct function_row){ r->ids[at], row_u64(columns[0]), row_u64(columns[1]),
				      row_u64(columns[2]), sqlite3_value_int64(columns[3]) };
	want_text(r->snap, &r->texts, row->name);
	want_text(r->snap, &r->texts, row->system_name);
	want_text(r->snap, &r->texts, row->filename);
	return true;
}

static bool keep_function(struct sqlite_snapshot *snap, const struct function_row *r,
			  struct err *err)
{
	struct source_line *line = arena_zalloc(&snap->kept, sizeof(*line));

	if (!reader_text(snap, r->name, &line->function, err) ||
	    !reader_text(snap, r->system_name, &line->system_name, err) ||
	    !reader_text(snap, r->filename, &line->file, err))
		return false;
	line->start_line = r->start_line;
	idmap_add(&snap->functions, r->id)->ptr = line;
	return true;
}

static bool keep_functions(struct sqlite_snapshot *snap, struct wanted_ids *functions,
			   struct err *err)
{
	struct function_reader r = { .snap = snap };
	bool ok;

	wanted_ids_sort(functions);
	r.ids = functions->ids;
	r.rows = calloc(functions->count + 1, sizeof(*r.rows));
	assert(r.rows);
	ok = row_each(snap, PICK_FUNCTIONS, r.ids, functions->count, take_function, &r, err) &&
	     keep_texts(snap, &r.texts, err);
	for (size_t i = 0; ok && i < functions->count; i++)
		ok = keep_function(snap, &r.rows[i], err);
	free(r.texts.ids);
	free(r.rows);
	return ok;
}

/* ---- locations ---- */

struct location_row {
	uint64_t mapping, address, frame_type;
	size_t lines, lines_len; /* of location_reader.bytes */
};

enum { LOCATIONS_AT_ONCE = 4096 };

struct location_reader {
	struct sqlite_snapshot *snap;
	const uint64_t *ids;
	source_location_fn *fn;
	void *arg;
	struct location_row *rows; /* of some ids at once */
	struct buf bytes;
	struct wanted_ids functions; /* of theirs, those that are not known yet */
	struct source_line *lines;
	uint32_t cap;
	struct err *err;
};

static struct source_line *line_at(struct location_reader *r, uint32_t index)
{
	if (index >= r->cap) {
		r->cap = r->cap ? r->cap * 2 : 16;
		r->lines = realloc(r->lines, r->cap * sizeof(*r->lines));
		assert(r->lines);
	}
	r->lines[index] = (struct source_line){ 0 };
	return &r->lines[index];
}

static bool read_lines(struct location_reader *r, struct str bytes, uint32_t *count)
{
	struct codec c = codec_of(bytes);

	*count = 0;
	while (codec_more(&c)) {
		struct source_line *line = line_at(r, *count);
		uint64_t function = codec_get(&c);
		int64_t number = codec_get_signed(&c), column = codec_get_signed(&c);

		if (c.failed)
			return err_set(r->err, ERR_INVALID, "the lines of a location are damaged");
		if (function) /* keep_functions() has seen to it */
			*line = *(const struct source_line *)idmap_find(&r->snap->functions,
									function)
					 ->ptr;
		line->line = number;
		line->column = column;
		++*count;
	}
	return true;
}

/* A mapping's part of a location. */
static bool fetch_mapping(struct location_reader *r, uint64_t id, struct source_location *l)
{
	uint64_t filename;
	sqlite3_stmt *s;

	if (!reader_row(r->snap, GET_MAPPING, id, &s, r->err))
		return false;
	l->mapping_start = db_u64(s, 0);
	l->mapping_limit = db_u64(s, 1);
	l->mapping_offset = db_u64(s, 2);
	filename = db_u64(s, 3);
	l->build_id = reader_keep(r->snap, db_bytes(s, 5));
	sqlite3_reset(s);
	return reader_text(r->snap, filename, &l->mapping, r->err);
}

static bool read_mapping(struct location_reader *r, uint64_t id, struct source_location *l)
{
	const struct source_location *m;
	struct source_location *kept;
	struct idmap_slot *slot;

	if (!id)
		return true;
	slot = idmap_find(&r->snap->mappings, id);
	if (!slot) {
		kept = arena_zalloc(&r->snap->kept, sizeof(*kept));
		if (!fetch_mapping(r, id, kept))
			return false;
		slot = idmap_add(&r->snap->mappings, id);
		slot->ptr = kept;
	}
	m = slot->ptr;
	l->mapping_start = m->mapping_start;
	l->mapping_limit = m->mapping_limit;
	l->mapping_offset = m->mapping_offset;
	l->build_id = m->build_id;
	l->mapping = m->mapping;
	return true;
}

/* symbol.lines: [[function, system name, file, line, column, start line], ...], innermost first */
static bool read_overlay(struct location_reader *r, struct source_location *l)
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
		struct source_line *line;

		if (!db_step(r->snap->db, s, &row, r->err, "reading later names"))
			return false;
		if (!row)
			break;
		line = line_at(r, l->line_count++);
		line->function = reader_keep(r->snap, db_bytes(s, 0));
		line->system_name = reader_keep(r->snap, db_bytes(s, 1));
		line->file = reader_keep(r->snap, db_bytes(s, 2));
		line->line = sqlite3_column_int64(s, 3);
		line->column = sqlite3_column_int64(s, 4);
		line->start_line = sqlite3_column_int64(s, 5);
		l->found_later = true;
	}
	if (l->found_later)
		l->lines = r->lines;
	return true;
}

/* What its mapping says, and later names. */
static bool place_location(struct location_reader *r, uint64_t mapping, struct source_location *l)
{
	return read_mapping(r, mapping, l) && read_overlay(r, l);
}

static void note_functions(struct location_reader *r, struct str lines)
{
	struct codec c = codec_of(lines);

	while (codec_more(&c)) {
		uint64_t function = codec_get(&c);

		codec_get(&c);
		codec_get(&c);
		if (function && !idmap_find(&r->snap->functions, function))
			wanted_ids_add(&r->functions, function);
	}
}

static bool take_row(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct location_reader *r = ctx;
	struct str lines = row_bytes(columns[4]);

	(void)err;
	r->rows[at] = (struct location_row){ .mapping = row_u64(columns[0]),
					     .address = row_u64(columns[1]),
					     .frame_type = row_u64(columns[3]),
					     .lines = r->bytes.len,
					     .lines_len = lines.len };
	buf_str(&r->bytes, lines);
	note_functions(r, lines);
	return true;
}

static bool read_rows(struct location_reader *r, const uint64_t *ids, size_t count)
{
	r->functions.count = 0;
	buf_reset(&r->bytes);
	return row_each(r->snap, PICK_LOCATIONS, ids, count, take_row, r, r->err) &&
	       keep_functions(r->snap, &r->functions, r->err);
}

static bool make_location(struct location_reader *r, uint64_t id, const struct location_row *row,
			  struct source_location *l)
{
	*l = (struct source_location){ .id = id, .address = row->address };
	if (!read_lines(r, str_from(r->bytes.ptr + row->lines, row->lines_len), &l->line_count) ||
	    !reader_text(r->snap, row->frame_type, &l->frame_type, r->err))
		return false;
	l->lines = r->lines;
	return place_location(r, row->mapping, l);
}

/* Some at a time: their rows, then the functions' rows, then the texts', each in the order of the
 * file. */
static bool give_locations(struct location_reader *r, size_t count)
{
	bool ok = true;

	for (size_t at = 0, n; ok && at < count; at += n) {
		const uint64_t *ids = r->ids + at;

		n = count - at < LOCATIONS_AT_ONCE ? count - at : LOCATIONS_AT_ONCE;

		reader_trim(r->snap);
		r->rows = realloc(r->rows, n * sizeof(*r->rows));
		assert(r->rows);
		ok = read_rows(r, ids, n);
		for (size_t i = 0; ok && i < n; i++) {
			struct source_location l;

			ok = make_location(r, ids[i], &r->rows[i], &l) && r->fn(r->arg, &l, r->err);
		}
	}
	return ok;
}

bool sqlite_locations(struct source *source, const uint64_t *ids, uint32_t count,
		      source_location_fn *fn, void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct location_reader r = { .snap = snap, .ids = ids, .fn = fn, .arg = arg, .err = err };
	bool ok;

	buf_init(&r.bytes, 0);
	ok = give_locations(&r, count);
	free(r.rows);
	free(r.functions.ids);
	free(r.lines);
	buf_release(&r.bytes);
	return ok;
}

/* ---- stacks ---- */

struct stack_reader {
	const uint64_t *ids;
	source_stack_fn *fn;
	void *arg;
	uint64_t *locations;
	size_t cap;
};

static bool take_stack(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct stack_reader *r = ctx;
	struct str locations = row_bytes(columns[0]);
	size_t count;

	if (locations.len > r->cap) {
		r->cap = locations.len * 2;
		free(r->locations);
		r->locations = malloc(r->cap * sizeof(*r->locations));
		assert(r->locations);
	}
	count = codec_get_list(locations, r->locations);
	if (count > UINT32_MAX)
		return err_set(err, ERR_INVALID, "the stack %llu is damaged",
			       (unsigned long long)r->ids[at]);
	return r->fn(r->arg, r->ids[at], r->locations, (uint32_t)count, err);
}

bool sqlite_stacks(struct source *source, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		   void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct stack_reader r = { .ids = ids, .fn = fn, .arg = arg };
	bool ok = row_each(snap, PICK_STACKS, ids, count, take_stack, &r, err);

	free(r.locations);
	return ok;
}
