/*
 * reader_series.c - series of a window: which there are, and what they say.
 *
 * A store has far more series than a question is about. So those of a window are marked in a bit
 * map; then one walk over the table reads what rows say by themselves, and only what passes the
 * question is read in full.
 */
#include "store/schema/chunk.h"
#include "store/schema/codec.h"
#include "store/schema/labels.h"
#include "store/schema/lifted.h"
#include "store/read/reader_walk.h"

/* The columns of GET_SERIES and EACH_SERIES. */
enum { COL_SERVICE = 9, COL_ID = 10, COL_PROCESS = 11, COL_LABELS = 12 };

/* ---- one row ---- */

struct series_row {
	uint64_t resource, scope, types[4], lifted, service;
	bool labelled;
};

static uint64_t owner_of(uint64_t resource, uint64_t scope)
{
	return resource * UINT64_C(0x9e3779b97f4a7c15) ^ scope;
}

static bool get_resource_set(struct sqlite_snapshot *snap, uint64_t id, uint64_t *attrset,
			     struct err *err)
{
	sqlite3_stmt *s;

	*attrset = 0;
	if (!id)
		return true;
	if (!reader_row(snap, GET_RESOURCE, id, &s, err))
		return false;
	*attrset = db_u64(s, 0);
	sqlite3_reset(s);
	return true;
}

/* known: the resource's attribute set, where it was read before. */
static bool fill_resource(struct sqlite_snapshot *snap, uint64_t id, const uint64_t *known,
			  struct source_series *x, struct err *err)
{
	uint64_t attrset;

	if (known)
		attrset = *known;
	else if (!get_resource_set(snap, id, &attrset, err))
		return false;
	return reader_attributes(snap, attrset, &x->resource, err);
}

static bool fill_scope(struct sqlite_snapshot *snap, uint64_t id, struct source_series *x,
		       struct err *err)
{
	uint64_t name, version, attrset;
	sqlite3_stmt *s;

	if (!id)
		return true;
	if (!reader_row(snap, GET_SCOPE, id, &s, err))
		return false;
	name = db_u64(s, 0);
	version = db_u64(s, 1);
	attrset = db_u64(s, 2);
	sqlite3_reset(s);
	return reader_text(snap, name, &x->scope_name, err) &&
	       reader_text(snap, version, &x->scope_version, err) &&
	       reader_attributes(snap, attrset, &x->scope, err);
}

/* From a row of the columns above; `full` says what the row itself does not. */
static bool read_row(struct sqlite_snapshot *snap, sqlite3_stmt *s, struct series_row *r,
		     struct source_series *x, struct err *err)
{
	*x = (struct source_series){ .id = db_u64(s, COL_ID) };
	r->resource = db_u64(s, 1);
	r->scope = db_u64(s, 2);
	x->owner = owner_of(r->resource, r->scope);
	for (int i = 0; i < 4; i++)
		r->types[i] = db_u64(s, 3 + i);
	x->period = sqlite3_column_int64(s, 7);
	r->lifted = db_u64(s, 8);
	r->service = db_u64(s, COL_SERVICE);
	x->process = db_u64(s, COL_PROCESS);
	r->labelled = sqlite3_column_type(s, COL_LABELS) != SQLITE_NULL;
	return reader_text(snap, r->types[0], &x->sample_type, err) &&
	       reader_text(snap, r->types[1], &x->sample_unit, err) &&
	       reader_text(snap, r->types[2], &x->period_type, err) &&
	       reader_text(snap, r->types[3], &x->period_unit, err);
}

static bool fill(struct sqlite_snapshot *snap, const struct series_row *r,
		 const uint64_t *resource_set, struct source_series *x, struct err *err)
{
	return reader_attributes(snap, r->lifted, &x->lifted, err) &&
	       fill_resource(snap, r->resource, resource_set, x, err) &&
	       fill_scope(snap, r->scope, x, err);
}

/* ---- labels ---- */

/* Of those asked for (bits of enum label_key) what a row says; `room` for LABEL_KEYS. */
static bool read_labels(struct sqlite_snapshot *snap, struct str bytes, uint32_t asked,
			struct source_attribute *room, struct source_series *x, struct err *err)
{
	struct codec c = codec_of(bytes);
	uint64_t ids[LABEL_KEYS] = { 0 };

	for (unsigned i = 0; i < LABEL_KEYS && asked >> i && codec_more(&c); i++) {
		uint64_t id = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "the labels of series %llu are damaged",
				       (unsigned long long)x->id);
		ids[i] = asked >> i & 1 ? id : 0;
		if (ids[i] && !reader_attribute(snap, id, &room[x->resource.count++], err))
			return false;
	}
	x->resource.ptr = room;
	x->labels = hash64(str_from(ids, sizeof(ids)));
	return true;
}

/* ---- which ---- */

struct id_bits {
	uint8_t *bits;
	uint64_t cap, last, count;
	uint64_t most; /* there is no series above */
};

struct id_span {
	uint64_t first, last, count; /* count: those that are marked */
};

static bool mark_id(struct id_bits *b, uint64_t id)
{
	if (id > b->most)
		return false;
	if (id / 8 >= b->cap) {
		uint64_t cap = id / 4 + 1024;

		b->bits = realloc(b->bits, cap);
		assert(b->bits);
		memset(b->bits + b->cap, 0, cap - b->cap);
		b->cap = cap;
	}
	b->count += !(b->bits[id / 8] >> (id % 8) & 1);
	b->bits[id / 8] |= (uint8_t)(1u << (id % 8));
	b->last = id > b->last ? id : b->last;
	return true;
}

/* The series of a chunk's runs, from the columns of MARK_CHUNKS. */
static bool mark_chunk(struct id_bits *b, sqlite3_stmt *row)
{
	uint64_t runs = db_u64(row, 0);
	struct str bytes = db_bytes(row, 2);
	struct cells series = { .bytes = (const uint8_t *)bytes.ptr, .base = db_u64(row, 1) };

	if (!runs || runs > CHUNK_SAMPLES_MOST || bytes.len % runs || bytes.len / runs > 8)
		return false;
	series.end = series.bytes ? series.bytes + bytes.len : NULL;
	series.width = (unsigned)(bytes.len / runs);
	for (uint32_t i = 0; i < runs; i++)
		if (!mark_id(b, cells_id(&series, i)))
			return false;
	return true;
}

/* Samples may end in the window though they began up to `longest` before it. */
static bool mark_window(struct sqlite_snapshot *snap, const struct source_series_ask *ask,
			struct id_bits *out, struct err *err)
{
	sqlite3_stmt *s = reader_query(snap, MARK_CHUNKS, err);
	bool row = true, ok;
	int64_t most;

	ok = s && db_number(snap->db, "SELECT max(id) FROM series", 0, &most, err);
	if (!ok)
		return false;
	out->most = most > UINT32_MAX ? UINT32_MAX : (uint64_t)most; /* the writer counts in 32 */
	db_bind_u64(s, 1, ask->range.from / STORE_BUCKET_NS);
	db_bind_u64(s, 2, (ask->range.to - 1) / STORE_BUCKET_NS);
	db_bind_u64(s, 3, ask->range.from > INT64_MAX ? INT64_MAX : ask->range.from);
	while (ok && row) {
		ok = db_step(snap->db, s, &row, err, "listing series");
		if (ok && row && !mark_chunk(out, s))
			ok = err_set(err, ERR_INVALID, "the store is damaged: a chunk's series");
	}
	sqlite3_reset(s);
	return ok;
}

/* ---- the walk ---- */

struct series_walk {
	struct sqlite_snapshot *snap;
	const struct source_series_ask *ask;
	source_series_fn *fn;
	void *arg;
	struct idmap services; /* service_id -> 1: asked for, 2: not */
	const struct id_bits *marked;
	uint64_t type_ids[4]; /* of the brief row before, whose texts are in type_texts */
	struct str type_texts[4];
	uint64_t scope_id; /* of the brief row before, which is this */
	struct str scope_name;
	struct source_attributes scope;
	bool brief, scopes; /* scopes: of brief ones, too */
	uint32_t labels;    /* that are asked for: bits of enum label_key */
	struct source_attribute room[LABEL_KEYS];
	uint64_t met; /* marked series whose rows were there, in one walk over the table */
	bool failed;  /* err tells */
	struct err *err;
};

/* What has no service may be of any. */
static bool is_asked_for(struct series_walk *w, uint64_t service, bool *yes, struct err *err)
{
	struct idmap_slot *slot;
	struct str text;

	*yes = true;
	if (!w->ask->service.len || !service)
		return true;
	slot = idmap_find(&w->services, service);
	if (!slot) {
		if (!reader_text(w->snap, service, &text, err))
			return false;
		slot = idmap_add(&w->services, service);
		slot->number = str_equal(text, w->ask->service) ? 1 : 2;
	}
	*yes = slot->number == 1;
	return true;
}

static bool is_full(const struct series_walk *w, const struct series_row *r)
{
	return !w->brief || (w->labels && !r->labelled) || (w->ask->service.len && !r->service);
}

static void trim(struct series_walk *w)
{
	reader_trim(w->snap);
	w->scope_id = 0;
}

/* Most series have the scope of the one before. */
static bool read_scope(struct series_walk *w, uint64_t id, struct source_series *x, struct err *err)
{
	if (!id)
		return true;
	if (w->scope_id != id) {
		if (!fill_scope(w->snap, id, x, err))
			return false;
		w->scope_id = id;
		w->scope_name = x->scope_name;
		w->scope = x->scope;
	}
	x->scope_name = w->scope_name;
	x->scope = w->scope;
	return true;
}

static bool fill_asked(struct series_walk *w, const struct series_row *r,
		       const uint64_t *resource_set, struct source_series *x, struct err *err)
{
	if (is_full(w, r))
		return fill(w->snap, r, resource_set, x, err);
	return !w->scopes || read_scope(w, r->scope, x, err);
}

static bool give_series(struct series_walk *w, const struct series_row *r, struct source_series *x)
{
	x->brief = !is_full(w, r);
	x->of_service = w->ask->service.len && r->service;
	return w->fn(w->arg, x, w->err);
}

static bool give_row(struct series_walk *w, sqlite3_stmt *s, struct err *err)
{
	struct series_row r = { 0 };
	struct source_series x;
	uint64_t service = db_u64(s, COL_SERVICE);
	bool yes, ok;

	ok = is_asked_for(w, service, &yes, err);
	if (ok && yes) {
		memset(w->type_ids, 0, sizeof(w->type_ids));
		memset(w->type_texts, 0, sizeof(w->type_texts));
		trim(w);
		ok = read_row(w->snap, s, &r, &x, err) &&
		     (!w->labels || is_full(w, &r) ||
		      read_labels(w->snap, db_bytes(s, COL_LABELS), w->labels, w->room, &x, err));
	}
	sqlite3_reset(s);
	if (!ok || !yes)
		return ok;
	return fill_asked(w, &r, NULL, &x, err) && give_series(w, &r, &x);
}

static bool give_one(struct series_walk *w, uint64_t id, struct err *err)
{
	sqlite3_stmt *s;

	return reader_row(w->snap, GET_SERIES, id, &s, err) && give_row(w, s, err);
}

static bool is_marked(const struct id_bits *b, uint64_t id)
{
	return id / 8 < b->cap && b->bits[id / 8] >> (id % 8) & 1;
}

/* What a row says by itself, where that does: brief(), by the order of its arguments. */
enum brief_argument {
	BRIEF_ID,
	BRIEF_RESOURCE,
	BRIEF_SCOPE,
	BRIEF_TYPES, /* four texts */
	BRIEF_PERIOD = BRIEF_TYPES + 4,
	BRIEF_PROCESS,
	BRIEF_SERVICE,
	BRIEF_LABELS,
	BRIEF_ARGUMENTS,
};

static uint64_t u64_of(sqlite3_value **args, int i)
{
	return (uint64_t)sqlite3_value_int64(args[i]);
}

/* Most rows have those of the row before. Texts are forgotten by reader_trim() alone, which this
 * walk calls only here. */
static bool read_types(struct series_walk *w, sqlite3_value **args)
{
	bool same = !reader_is_full(w->snap);

	for (int i = 0; i < 4; i++) {
		uint64_t id = u64_of(args, BRIEF_TYPES + i);

		same = same && id == w->type_ids[i];
		w->type_ids[i] = id;
	}
	if (same)
		return true;
	trim(w);
	for (int i = 0; i < 4; i++)
		if (!reader_text(w->snap, w->type_ids[i], &w->type_texts[i], w->err))
			return false;
	return true;
}

static bool give_brief(struct series_walk *w, sqlite3_value **args)
{
	uint64_t scope = u64_of(args, BRIEF_SCOPE);
	struct source_series x = { .id = u64_of(args, BRIEF_ID),
				   .owner = owner_of(u64_of(args, BRIEF_RESOURCE), scope),
				   .period = sqlite3_value_int64(args[BRIEF_PERIOD]),
				   .process = u64_of(args, BRIEF_PROCESS),
				   .brief = true,
				   .of_service = w->ask->service.len > 0 };
	struct str *texts[] = { &x.sample_type, &x.sample_unit, &x.period_type, &x.period_unit };

	if (!read_types(w, args) || (w->scopes && !read_scope(w, scope, &x, w->err)))
		return false;
	for (int i = 0; i < 4; i++)
		*texts[i] = w->type_texts[i];
	if (w->labels &&
	    !read_labels(w->snap, row_bytes(args[BRIEF_LABELS]), w->labels, w->room, &x, w->err))
		return false;
	return w->fn(w->arg, &x, w->err);
}

static bool lacks_labels(const struct series_walk *w, sqlite3_value *labels)
{
	return w->labels && sqlite3_value_type(labels) == SQLITE_NULL;
}

static void brief_end(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

static bool take_brief(struct series_walk *w, sqlite3_value **args)
{
	uint64_t id = u64_of(args, BRIEF_ID), service = u64_of(args, BRIEF_SERVICE);
	bool yes;

	if (!is_marked(w->marked, id))
		return true;
	w->met++;
	if (!is_asked_for(w, service, &yes, w->err))
		return false;
	if (!yes)
		return true;
	return lacks_labels(w, args[BRIEF_LABELS]) || (w->ask->service.len && !service)
		       ? give_one(w, id, w->err)
		       : give_brief(w, args);
}

static void brief_step(sqlite3_context *context, int count, sqlite3_value **args)
{
	struct sqlite_snapshot *snap = sqlite3_user_data(context);
	struct series_walk *w = snap->series_walk;

	if (!w || count != BRIEF_ARGUMENTS || w->failed || !take_brief(w, args)) {
		if (w)
			w->failed = true;
		sqlite3_result_error_code(context, SQLITE_ABORT);
	}
}

/* A walk over series, row by row through an aggregate. */
static bool run_series(struct series_walk *w, sqlite3_stmt *s, struct err *err)
{
	int rc;

	w->snap->series_walk = w;
	do
		rc = sqlite3_step(s);
	while (rc == SQLITE_ROW);
	w->snap->series_walk = NULL;
	if (rc != SQLITE_DONE && !w->failed) {
		w->failed = true;
		db_error(w->snap->db, err, "listing series");
	}
	sqlite3_reset(s);
	return !w->failed;
}

static bool met_all(const struct series_walk *w, const struct id_span *span, struct err *err)
{
	return w->met == span->count ||
	       err_set(err, ERR_NOT_FOUND, "the store lacks %llu series of its samples",
		       (unsigned long long)(span->count - w->met));
}

/* What rows say by themselves, where that is all that is asked for. */
static bool walk_brief(struct series_walk *w, const struct id_bits *b, const struct id_span *span,
		       struct err *err)
{
	sqlite3_stmt *s = reader_query(w->snap, EACH_BRIEF, err);

	if (!s)
		return false;
	w->marked = b;
	w->met = 0;
	db_bind_u64(s, 1, span->first);
	db_bind_u64(s, 2, span->last);
	return run_series(w, s, err) && met_all(w, span, err);
}

/* ---- many in full ---- */

enum { SERIES_AT_ONCE = 1024 };

/* Rows of series that are asked for; what they name is read for all of them at once. The walk over
 * the table stays open: what is read here has statements of its own. */
struct some_series {
	struct series_row rows[SERIES_AT_ONCE];
	struct source_series said[SERIES_AT_ONCE];
	uint32_t count;
	struct wanted_ids resources, sets;
	uint64_t found[SERIES_AT_ONCE]; /* attribute sets of resources */
};

static bool take_resource(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct some_series *some = ctx;

	(void)err;
	some->found[at] = row_u64(columns[0]);
	if (some->found[at])
		wanted_ids_add(&some->sets, some->found[at]);
	return true;
}

static bool read_what_they_name(struct series_walk *w, struct some_series *some, struct err *err)
{
	some->resources.count = some->sets.count = 0;
	for (uint32_t i = 0; i < some->count; i++) {
		if (!is_full(w, &some->rows[i]))
			continue;
		if (some->rows[i].resource)
			wanted_ids_add(&some->resources, some->rows[i].resource);
		if (some->rows[i].lifted)
			wanted_ids_add(&some->sets, some->rows[i].lifted);
	}
	wanted_ids_sort(&some->resources);
	return row_each(w->snap, PICK_RESOURCES, some->resources.ids, some->resources.count,
			take_resource, some, err) &&
	       reader_keep_sets(w->snap, &some->sets, err);
}

static const uint64_t *found_resource(const struct some_series *some, uint64_t id)
{
	size_t low = 0, high = some->resources.count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (some->resources.ids[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < some->resources.count && some->resources.ids[low] == id ? &some->found[low]
									     : NULL;
}

static bool give_some(struct series_walk *w, struct some_series *some, struct err *err)
{
	bool ok = read_what_they_name(w, some, err);

	for (uint32_t i = 0; ok && i < some->count; i++) {
		const struct series_row *r = &some->rows[i];
		struct source_series *x = &some->said[i];

		ok = fill_asked(w, r, found_resource(some, r->resource), x, err) &&
		     give_series(w, r, x);
	}
	some->count = 0;
	trim(w);
	return ok;
}

static bool take_row(struct series_walk *w, sqlite3_stmt *s, struct series_row *r,
		     struct source_series *x, struct err *err)
{
	if (!read_row(w->snap, s, r, x, err))
		return false;
	if (!w->labels || is_full(w, r))
		return true;
	return read_labels(
		w->snap, db_bytes(s, COL_LABELS), w->labels,
		arena_zalloc(&w->snap->kept, LABEL_KEYS * sizeof(struct source_attribute)), x, err);
}

static bool collect_row(struct series_walk *w, struct some_series *some, sqlite3_stmt *s,
			struct err *err)
{
	bool yes;

	if (!is_asked_for(w, db_u64(s, COL_SERVICE), &yes, err) ||
	    (yes && !take_row(w, s, &some->rows[some->count], &some->said[some->count], err)))
		return false;
	some->count += yes;
	return some->count < SERIES_AT_ONCE || give_some(w, some, err);
}

static bool walk_table(struct series_walk *w, const struct id_bits *b, const struct id_span *span,
		       struct err *err)
{
	sqlite3_stmt *s = reader_query(w->snap, EACH_SERIES, err);
	struct some_series *some = calloc(1, sizeof(*some));
	bool row = true, ok = s != NULL;

	assert(some);
	trim(w);
	w->met = 0;
	if (ok) {
		db_bind_u64(s, 1, span->first);
		db_bind_u64(s, 2, span->last);
	}
	while (ok) {
		ok = db_step(w->snap->db, s, &row, err, "listing series");
		if (!ok || !row)
			break;
		if (!is_marked(b, db_u64(s, COL_ID)))
			continue;
		w->met++;
		ok = collect_row(w, some, s, err);
	}
	ok = ok && met_all(w, span, err) && give_some(w, some, err);
	if (s)
		sqlite3_reset(s);
	free(some->resources.ids);
	free(some->sets.ids);
	free(some);
	return ok;
}

bool reader_make_brief(struct sqlite_snapshot *snap, struct err *err)
{
	int rc = sqlite3_create_function_v2(snap->db, "brief", BRIEF_ARGUMENTS,
					    SQLITE_UTF8 | SQLITE_DIRECTONLY, snap, NULL, brief_step,
					    brief_end, NULL);

	return rc == SQLITE_OK || db_error(snap->db, err, "preparing to list series");
}

enum {
	DENSE = 6, /* a row of a walk costs less than that many seeks */
	APART = 64,
	FEW = 16, /* for which no room is made for what many name */
};

/* Marked ids that lie close together, from `at` on: of an old series that goes on and new ones it
 * makes two. */
static bool next_span(const struct id_bits *b, uint64_t at, struct id_span *out)
{
	while (at <= b->last && !is_marked(b, at))
		at++;
	*out = (struct id_span){ .first = at, .last = at };
	for (; at <= b->last && at - out->last <= APART; at++) {
		if (!is_marked(b, at))
			continue;
		out->last = at;
		out->count++;
	}
	return out->count > 0;
}

static bool is_dense(const struct id_span *span)
{
	return span->count > (span->last - span->first + 1) / DENSE;
}

static bool walk_span(struct series_walk *w, const struct id_bits *b, const struct id_span *span,
		      struct err *err)
{
	bool ok = true;

	if (is_dense(span)) {
		if (w->brief)
			return walk_brief(w, b, span, err);
		if (span->count > FEW)
			return walk_table(w, b, span, err);
	}
	for (uint64_t id = span->first; ok && id <= span->last; id++)
		if (is_marked(b, id))
			ok = give_one(w, id, err);
	return ok;
}

static bool walk_marked(struct series_walk *w, struct err *err)
{
	struct id_bits b = { 0 };
	struct id_span span = { 0 };
	bool ok = mark_window(w->snap, w->ask, &b, err);

	for (uint64_t at = 0; ok && next_span(&b, at, &span); at = span.last + 1)
		ok = walk_span(w, &b, &span, err);
	free(b.bits);
	return ok;
}

bool sqlite_series(struct source *source, const struct source_series_ask *ask, source_series_fn *fn,
		   void *arg, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct series_walk w = { .snap = snap, .ask = ask, .fn = fn, .arg = arg, .err = err };
	bool ok = true;

	if (ask->range.to <= ask->range.from)
		return true;
	w.brief = ask->brief && label_keys_asked(ask->keys, ask->key_count, &w.labels);
	w.scopes = ask->scopes || ask->profiler;
	if (ask->profiler)
		w.labels |= 1u << LABEL_PROFILER;
	if (!w.brief)
		w.labels = 0;
	if (!ask->ids)
		ok = walk_marked(&w, err);
	for (size_t i = 0; ok && ask->ids && i < ask->id_count; i++)
		ok = give_one(&w, ask->ids[i], err);
	idmap_release(&w.services);
	return ok;
}

/* ---- keys of samples ---- */

bool sqlite_sample_keys(struct source *source, source_key_fn *fn, void *arg, bool *known,
			struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	sqlite3_stmt *s = NULL;
	bool row = true, ok;

	*known = true;
	ok = db_prepare(snap->db, "SELECT key FROM sample_key ORDER BY key", &s, err);
	while (ok) {
		ok = db_step(snap->db, s, &row, err, "reading the keys of samples");
		if (!ok || !row)
			break;
		ok = fn(arg, db_bytes(s, 0), err);
	}
	sqlite3_finalize(s);
	return ok;
}
