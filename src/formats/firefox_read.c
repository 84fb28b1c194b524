/*
 * firefox_read.c - the Firefox Profiler's processed profile into the model.
 *
 * Tables of columns: a sample names a node of stackTable, a node its parent (`prefix`, or from
 * version 69 on `prefixOffset`) and a frame, a frame its function and line, a function its name,
 * file and resource, a resource its library. Up to version 54 each thread has tables and texts of
 * its own (stringArray, before that stringTable); later ones moved what is common into `shared`,
 * table by table, so each is looked for in the thread first. Frames whose inlineDepth is above 0
 * are inlined into the one below them. Times are milliseconds since meta.startTime. Source: the
 * project's description of its format (docs-developer, src/types/profile).
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "formats/import_build.h"
#include "formats/readers_writers.h"
#include "wire/json_reader.h"

enum { DEPTH_MOST = 64, LINES_MOST = 256 };
#define NOTHING INT64_MIN /* null, or no such column */

struct column {
	int64_t *ptr;
	uint32_t count, cap;
};

enum fx_column {
	STACK_PREFIX,
	STACK_OFFSET,
	STACK_FRAME,
	FRAME_FUNC,
	FRAME_ADDRESS,
	FRAME_DEPTH,
	FRAME_SYMBOL,
	FRAME_CATEGORY,
	FRAME_LINE,
	FRAME_COLUMN,
	FUNC_NAME,
	FUNC_FILE,
	FUNC_SOURCE,
	FUNC_RESOURCE,
	FUNC_LINE,
	FUNC_SCRIPT,
	RESOURCE_LIB,
	SYMBOL_LIB,
	SOURCE_FILE,
	FX_COLUMNS,
};

/* Where a column stands. */
static const struct {
	const char *table, *name;
} places[FX_COLUMNS] = {
	[STACK_PREFIX] = { "stackTable", "prefix" },
	[STACK_OFFSET] = { "stackTable", "prefixOffset" },
	[STACK_FRAME] = { "stackTable", "frame" },
	[FRAME_FUNC] = { "frameTable", "func" },
	[FRAME_ADDRESS] = { "frameTable", "address" },
	[FRAME_DEPTH] = { "frameTable", "inlineDepth" },
	[FRAME_SYMBOL] = { "frameTable", "nativeSymbol" },
	[FRAME_CATEGORY] = { "frameTable", "category" },
	[FRAME_LINE] = { "frameTable", "line" },
	[FRAME_COLUMN] = { "frameTable", "column" },
	[FUNC_NAME] = { "funcTable", "name" },
	[FUNC_FILE] = { "funcTable", "fileName" },
	[FUNC_SOURCE] = { "funcTable", "source" },
	[FUNC_RESOURCE] = { "funcTable", "resource" },
	[FUNC_LINE] = { "funcTable", "lineNumber" },
	[FUNC_SCRIPT] = { "funcTable", "isJS" },
	[RESOURCE_LIB] = { "resourceTable", "lib" },
	[SYMBOL_LIB] = { "nativeSymbols", "libIndex" },
	[SOURCE_FILE] = { "sources", "filename" },
};

struct texts {
	struct str *ptr;
	uint32_t count, cap;
};

struct tables {
	struct column columns[FX_COLUMNS];
	struct texts strings;
};

struct library {
	struct str path, build_id;
};

struct fx_reading {
	struct import im;
	struct json_reader j;
	struct err *err;
	bool processed;
	double start_ms, interval_ms, from_ms, to_ms;
	struct library *libraries;
	uint32_t library_count, library_cap;
	struct texts categories;
	struct tables shared, own;

	/* Of the thread at hand. */
	struct str name, process, pid, tid, weight_type;
	struct column stacks;
	double *times, *weights; /* weights: NAN = null */
	uint32_t time_count, time_cap, weight_count, weight_cap;
	bool deltas;
	struct stack_index *made; /* by node; made_known says which */
	bool *made_known;
	uint32_t made_cap;
};

/* ---- columns ---- */

static int64_t whole(struct json_reader *j)
{
	double v;

	if (json_peek(j) == JSON_NULL) {
		json_skip(j);
		return NOTHING;
	}
	if (json_peek(j) == JSON_BOOL)
		return json_bool(j);
	v = json_double(j);
	if (!(v > -9.2e18 && v < 1.85e19))
		return NOTHING;
	/* Addresses of the kernel are in the upper half. */
	return v < 9.2e18 ? llround(v) : (int64_t)(uint64_t)v;
}

/* Whole numbers beyond 2^53 are written out, and so they are read: -1 is none. */
static int64_t address(struct json_reader *j)
{
	if (json_peek(j) != JSON_NUMBER || (j->at < j->end && *j->at == '-'))
		return whole(j) < 0 ? NOTHING : 0;
	return (int64_t)json_uint64(j);
}

static void read_column(struct json_reader *j, struct column *c, bool addresses)
{
	c->count = 0;
	if (!json_begin_array(j))
		return;
	while (json_next_element(j)) {
		VEC_ROOM(c->ptr, c->count, c->cap);
		c->ptr[c->count++] = addresses ? address(j) : whole(j);
	}
}

static void read_numbers(struct json_reader *j, double **out, uint32_t *count, uint32_t *cap)
{
	*count = 0;
	if (!json_begin_array(j))
		return;
	while (json_next_element(j)) {
		bool none = json_peek(j) == JSON_NULL;
		double v = 0;

		if (none)
			json_skip(j);
		else
			v = json_double(j);
		VEC_ROOM(*out, *count, *cap);
		(*out)[(*count)++] = none ? NAN : v;
	}
}

static void add_text(struct fx_reading *r, struct texts *t, struct str s)
{
	VEC_ROOM(t->ptr, t->count, t->cap);
	t->ptr[t->count++] = str_dup(builder_arena(r->im.b), s);
}

static void read_texts(struct fx_reading *r, struct texts *t)
{
	t->count = 0;
	if (!json_begin_array(&r->j))
		return;
	while (json_next_element(&r->j))
		add_text(r, t, json_string(&r->j));
}

/* One of the tables; false: `key` names none. */
static bool read_table(struct fx_reading *r, struct tables *t, struct str key)
{
	bool known = false;
	char table[32];
	struct str column;

	for (size_t i = 0; i < FX_COLUMNS && !known; i++)
		known = str_is(key, places[i].table);
	if (!known)
		return false;
	snprintf(table, sizeof(table), "%.*s", STR_ARG(key));
	if (!json_begin_object(&r->j))
		return true;
	while (json_next_key(&r->j, &column)) {
		size_t i = 0;

		while (i < FX_COLUMNS &&
		       (strcmp(places[i].table, table) != 0 || !str_is(column, places[i].name)))
			i++;
		if (i < FX_COLUMNS)
			read_column(&r->j, &t->columns[i], i == FRAME_ADDRESS);
		else
			json_skip(&r->j);
	}
	return true;
}

static bool read_tables(struct fx_reading *r, struct tables *t, struct str key)
{
	if (str_is(key, "stringArray") || str_is(key, "stringTable")) {
		read_texts(r, &t->strings);
		return true;
	}
	return read_table(r, t, key);
}

static void tables_forget(struct tables *t)
{
	for (size_t i = 0; i < FX_COLUMNS; i++)
		t->columns[i].count = 0;
	t->strings.count = 0;
}

static void tables_release(struct tables *t)
{
	for (size_t i = 0; i < FX_COLUMNS; i++)
		free(t->columns[i].ptr);
	free(t->strings.ptr);
}

/* The thread's own column where it has its table, else the shared one. */
static const struct column *column_of(const struct fx_reading *r, enum fx_column c)
{
	return r->own.columns[c].count ? &r->own.columns[c] : &r->shared.columns[c];
}

static int64_t at(const struct fx_reading *r, enum fx_column c, int64_t i)
{
	const struct column *column = column_of(r, c);

	return i >= 0 && i < column->count ? column->ptr[i] : NOTHING;
}

static struct str text_at(const struct fx_reading *r, int64_t i)
{
	const struct texts *t = r->own.strings.count ? &r->own.strings : &r->shared.strings;

	return i >= 0 && i < t->count ? t->ptr[i] : (struct str){ 0 };
}

/* ---- meta, libs ---- */

static void read_categories(struct fx_reading *r)
{
	struct str key;

	if (!json_begin_array(&r->j))
		return;
	while (json_next_element(&r->j)) {
		add_text(r, &r->categories, (struct str){ 0 });
		if (!json_begin_object(&r->j))
			continue;
		while (json_next_key(&r->j, &key))
			if (str_is(key, "name"))
				r->categories.ptr[r->categories.count - 1] =
					str_dup(builder_arena(r->im.b), json_string(&r->j));
			else
				json_skip(&r->j);
	}
}

static void read_meta(struct fx_reading *r)
{
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "preprocessedProfileVersion")) {
			r->processed = true;
			json_skip(&r->j);
		} else if (str_is(key, "startTime")) {
			r->start_ms = json_double(&r->j);
		} else if (str_is(key, "interval")) {
			r->interval_ms = json_double(&r->j);
		} else if (str_is(key, "profilingStartTime")) {
			r->from_ms = json_double(&r->j);
		} else if (str_is(key, "profilingEndTime")) {
			r->to_ms = json_double(&r->j);
		} else if (str_is(key, "categories")) {
			read_categories(r);
		} else {
			json_skip(&r->j);
		}
	}
}

static bool is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!((s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f')))
			return false;
	return s.len >= 8 && s.len % 2 == 0;
}

static void read_library(struct fx_reading *r)
{
	struct arena *arena = builder_arena(r->im.b);
	struct library l = { 0 };
	struct str key, name = { 0 };

	if (json_begin_object(&r->j))
		while (json_next_key(&r->j, &key)) {
			if (str_is(key, "path"))
				l.path = str_dup(arena, json_string(&r->j));
			else if (str_is(key, "name"))
				name = str_dup(arena, json_string(&r->j));
			else if (str_is(key, "codeId") && json_peek(&r->j) == JSON_STRING)
				l.build_id = str_dup(arena, json_string(&r->j));
			else
				json_skip(&r->j);
		}
	if (!l.path.len)
		l.path = name;
	if (!is_hex(l.build_id))
		l.build_id = (struct str){ 0 };
	VEC_ROOM(r->libraries, r->library_count, r->library_cap);
	r->libraries[r->library_count++] = l;
}

/* ---- stacks ---- */

static struct str frame_type(const struct fx_reading *r, int64_t frame, int64_t func, bool native)
{
	static const char *const known[] = { "native", "kernel", "jvm",    "cpython", "php",
					     "ruby",   "perl",   "v8js",   "dotnet",  "beam",
					     "go",     "rust",   "luajit", "php_jit" };
	int64_t category = at(r, FRAME_CATEGORY, frame);
	struct str name = category >= 0 && category < r->categories.count
				  ? r->categories.ptr[category]
				  : (struct str){ 0 };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_is(name, known[i]))
			return name;
	if (str_is(name, "Kernel"))
		return STR("kernel");
	if (at(r, FUNC_SCRIPT, func) > 0)
		return STR("v8js");
	return native ? STR("native") : (struct str){ 0 };
}

static const struct library *library_of(const struct fx_reading *r, int64_t frame, int64_t func)
{
	int64_t lib = at(r, SYMBOL_LIB, at(r, FRAME_SYMBOL, frame));

	if (lib == NOTHING)
		lib = at(r, RESOURCE_LIB, at(r, FUNC_RESOURCE, func));
	return lib >= 0 && lib < r->library_count ? &r->libraries[lib] : NULL;
}

/* "0x1f" is how code without a name is called. */
static bool is_address(struct str name, int64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
	return address != NOTHING && str_is(name, text);
}

static int64_t or_zero(int64_t v)
{
	return v > 0 ? v : 0;
}

static struct line line_of(struct fx_reading *r, int64_t frame, struct str name)
{
	int64_t func = at(r, FRAME_FUNC, frame), source = at(r, FUNC_SOURCE, func);
	int64_t file = source == NOTHING ? at(r, FUNC_FILE, func) : at(r, SOURCE_FILE, source);
	struct function f = { .name = builder_string(r->im.b, name),
			      .filename = builder_string(r->im.b, text_at(r, file)),
			      .start_line = or_zero(at(r, FUNC_LINE, func)) };

	return (struct line){ .function = builder_function(r->im.b, &f),
			      .line = or_zero(at(r, FRAME_LINE, frame)),
			      .column = or_zero(at(r, FRAME_COLUMN, frame)) };
}

static struct mapping_index mapping_of(struct fx_reading *r, const struct library *l)
{
	struct mapping m = { .filename = builder_string(r->im.b, l->path) };
	struct attribute_index id;

	if (l->build_id.len)
		id = import_text(&r->im, "process.executable.build_id.gnu", l->build_id);
	return builder_mapping(r->im.b, &m, &id, l->build_id.len ? 1 : 0);
}

/* `count` frames, the innermost inlined one first. */
static struct location_index location_of(struct fx_reading *r, const int64_t *frames,
					 uint32_t count)
{
	int64_t outer = frames[count - 1], func = at(r, FRAME_FUNC, outer);
	int64_t place = at(r, FRAME_ADDRESS, outer);
	const struct library *lib = library_of(r, outer, func);
	struct str type = frame_type(r, outer, func, lib || place != NOTHING);
	struct location l = { .address = place == NOTHING ? 0 : (uint64_t)place };
	struct attribute_index of_type;
	struct line lines[LINES_MOST];
	uint32_t line_count = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct str name = text_at(r, at(r, FUNC_NAME, at(r, FRAME_FUNC, frames[i])));

		if (name.len && !is_address(name, place))
			lines[line_count++] = line_of(r, frames[i], name);
	}
	if (lib)
		l.mapping = mapping_of(r, lib);
	if (type.len)
		of_type = import_text(&r->im, "profile.frame.type", type);
	return builder_location(r->im.b, &l, lines, line_count, &of_type, type.len ? 1 : 0);
}

/* The parent of a node, NOTHING at the root. Parents stand before their children. */
static bool parent_of(struct fx_reading *r, int64_t node, int64_t *out)
{
	int64_t parent = at(r, STACK_PREFIX, node), offset = at(r, STACK_OFFSET, node);

	if (column_of(r, STACK_OFFSET)->count)
		parent = offset > 0 && offset <= node ? node - offset
			 : offset == 0                ? NOTHING
						      : node;
	if (parent == NOTHING || (parent >= 0 && parent < node)) {
		*out = parent;
		return true;
	}
	return err_set(r->err, ERR_INVALID, "stack %lld has the parent %lld: parents come first",
		       (long long)node, (long long)parent);
}

/* The frames from `node` on that are one place in the code; *node moves on to its caller. */
static bool take_place(struct fx_reading *r, int64_t *node, int64_t *frames, uint32_t *count)
{
	*count = 0;
	for (;;) {
		int64_t frame = at(r, STACK_FRAME, *node), depth = at(r, FRAME_DEPTH, frame);
		int64_t caller = NOTHING, above;

		if (frame < 0 || at(r, FRAME_FUNC, frame) == NOTHING)
			return err_set(r->err, ERR_INVALID,
				       "stack %lld has frame %lld, there are %u", (long long)*node,
				       (long long)frame, column_of(r, FRAME_FUNC)->count);
		frames[(*count)++] = frame;
		if (!parent_of(r, *node, &caller))
			return false;
		*node = caller;
		above = at(r, STACK_FRAME, caller);
		if (depth <= 0 || caller == NOTHING || *count == LINES_MOST ||
		    at(r, FRAME_DEPTH, above) != depth - 1 ||
		    at(r, FRAME_ADDRESS, above) != at(r, FRAME_ADDRESS, frame))
			return true;
	}
}

static bool make_stack(struct fx_reading *r, int64_t node, struct stack_index *out)
{
	int64_t frames[LINES_MOST];
	uint32_t count;

	import_stack_clear(&r->im);
	while (node != NOTHING)
		if (!take_place(r, &node, frames, &count) ||
		    !import_stack_push(&r->im, location_of(r, frames, count), r->err))
			return false;
	*out = import_stack(&r->im);
	return true;
}

/* What our writer has where a sample says no stack. */
static bool is_no_stack(const struct fx_reading *r, int64_t node)
{
	int64_t func = at(r, FRAME_FUNC, at(r, STACK_FRAME, node));

	return at(r, STACK_PREFIX, node) == NOTHING && at(r, FUNC_RESOURCE, func) < 0 &&
	       str_is(text_at(r, at(r, FUNC_NAME, func)), "(no stack)");
}

/* A node's stack, made once. */
static bool stack_of(struct fx_reading *r, int64_t node, struct stack_index *out)
{
	if (node < 0 || node >= r->made_cap)
		return err_set(r->err, ERR_INVALID, "a sample has stack %lld, there are %u",
			       (long long)node, r->made_cap);
	if (!r->made_known[node] && !is_no_stack(r, node) && !make_stack(r, node, &r->made[node]))
		return false;
	r->made_known[node] = true;
	*out = r->made[node];
	return true;
}

/* ---- samples ---- */

static void read_samples(struct fx_reading *r)
{
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "stack")) {
			read_column(&r->j, &r->stacks, false);
		} else if (str_is(key, "time") || str_is(key, "timeDeltas")) {
			r->deltas = str_is(key, "timeDeltas");
			read_numbers(&r->j, &r->times, &r->time_count, &r->time_cap);
		} else if (str_is(key, "weight")) {
			read_numbers(&r->j, &r->weights, &r->weight_count, &r->weight_cap);
		} else if (str_is(key, "weightType") && json_peek(&r->j) == JSON_STRING) {
			r->weight_type = str_dup(builder_arena(r->im.b), json_string(&r->j));
		} else {
			json_skip(&r->j);
		}
	}
}

static uint64_t nanoseconds(double ms)
{
	return ms > 0 && ms < 1.8e13 ? (uint64_t)llround(ms * 1e6) : 0;
}

/* Large and small apart: together they would lose what is behind the microsecond. */
static uint64_t moment(const struct fx_reading *r, double ms)
{
	double days = floor(r->start_ms);

	return days > 0 && days < 1.8e13
		       ? (uint64_t)days * 1000000 + nanoseconds(ms + (r->start_ms - days))
		       : nanoseconds(ms);
}

static int64_t value_of(double weight, double scale)
{
	double v = (isnan(weight) ? 1 : weight) * scale;

	return v > -9.2e18 && v < 9.2e18 ? llround(v) : v > 0 ? INT64_MAX : INT64_MIN;
}

static uint32_t add_attribute(struct fx_reading *r, struct attribute_index *to, uint32_t n,
			      const char *key, struct str value)
{
	int64_t number;

	if (!value.len)
		return n;
	to[n] = (strcmp(key, "process.pid") == 0 || strcmp(key, "thread.id") == 0) &&
				str_to_i64(value, &number)
			? import_int(&r->im, key, number)
			: import_text(&r->im, key, value);
	return n + 1;
}

static void begin_profile(struct fx_reading *r, double *scale)
{
	bool ms = str_is(r->weight_type, "tracing-ms"), bytes = str_is(r->weight_type, "bytes");
	bool counts = !ms && !bytes;
	double period = r->interval_ms * 1e6;
	struct profile *p =
		import_profile(&r->im,
			       ms      ? STR("cpu")
			       : bytes ? STR("space")
				       : STR("samples"),
			       ms      ? STR("nanoseconds")
			       : bytes ? STR("bytes")
				       : STR("count"),
			       counts ? STR("cpu") : STR(""), counts ? STR("nanoseconds") : STR(""),
			       counts && period > 0 && period < 9e18 ? llround(period) : 0);

	*scale = ms ? 1e6 : 1;
	p->time_unix_nano = moment(r, r->from_ms);
	if (r->to_ms > r->from_ms)
		p->duration_nano = nanoseconds(r->to_ms - r->from_ms);
}

static bool put_samples(struct fx_reading *r)
{
	struct attribute_index attributes[4];
	double scale, ms = 0;
	uint32_t n = 0;

	begin_profile(r, &scale);
	n = add_attribute(r, attributes, n, "process.executable.name", r->process);
	n = add_attribute(r, attributes, n, "process.pid", r->pid);
	n = add_attribute(r, attributes, n, "thread.name", r->name);
	n = add_attribute(r, attributes, n, "thread.id", r->tid);
	for (uint32_t i = 0; i < r->stacks.count; i++) {
		int64_t value = value_of(i < r->weight_count ? r->weights[i] : NAN, scale);
		double own = i < r->time_count && !isnan(r->times[i]) ? r->times[i] : 0;
		struct stack_index stack;
		uint64_t time;

		ms = r->deltas ? ms + own : own;
		time = moment(r, ms);
		if (r->stacks.ptr[i] == NOTHING) /* the thread did nothing */
			continue;
		if (!stack_of(r, r->stacks.ptr[i], &stack))
			return false;
		builder_sample(r->im.b, stack, (struct link_index){ 0 }, attributes, n, &value, 1,
			       &time, r->time_count ? 1 : 0);
	}
	return true;
}

/* ---- threads ---- */

static struct str text_or_number(struct fx_reading *r)
{
	struct arena *arena = builder_arena(r->im.b);

	switch (json_peek(&r->j)) {
	case JSON_STRING:
		return str_dup(arena, json_string(&r->j));
	case JSON_NUMBER: {
		char text[32];

		snprintf(text, sizeof(text), "%.0f", json_double(&r->j));
		return str_dup(arena, str_cstr(text));
	}
	default:
		json_skip(&r->j);
		return (struct str){ 0 };
	}
}

static void forget_thread(struct fx_reading *r)
{
	tables_forget(&r->own);
	r->name = r->process = r->pid = r->tid = r->weight_type = (struct str){ 0 };
	r->stacks.count = r->time_count = r->weight_count = 0;
	r->deltas = false;
	free(r->made);
	free(r->made_known);
	r->made = NULL;
	r->made_known = NULL;
}

static bool build_thread(struct fx_reading *r)
{
	r->made_cap = column_of(r, STACK_FRAME)->count;
	r->made = calloc(r->made_cap + 1u, sizeof(*r->made));
	r->made_known = calloc(r->made_cap + 1u, sizeof(*r->made_known));
	assert(r->made && r->made_known);
	return put_samples(r);
}

static void read_thread(struct fx_reading *r)
{
	struct str key;

	forget_thread(r);
	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "name"))
			r->name = str_dup(builder_arena(r->im.b), json_string(&r->j));
		else if (str_is(key, "processName") && json_peek(&r->j) == JSON_STRING)
			r->process = str_dup(builder_arena(r->im.b), json_string(&r->j));
		else if (str_is(key, "pid"))
			r->pid = text_or_number(r);
		else if (str_is(key, "tid"))
			r->tid = text_or_number(r);
		else if (str_is(key, "samples"))
			read_samples(r);
		else if (!read_tables(r, &r->own, key))
			json_skip(&r->j);
	}
	if (!r->j.failed && !build_thread(r))
		json_fail(&r->j, r->err->kind, "%s", r->err->msg);
}

static void read_shared(struct fx_reading *r)
{
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key))
		if (!read_tables(r, &r->shared, key))
			json_skip(&r->j);
}

/* What threads need may stand behind them: it is read first. */
static bool read_document(struct fx_reading *r, struct str text, bool threads)
{
	struct str key;
	bool ok;

	json_reader_init(&r->j, text, DEPTH_MOST);
	if (json_begin_object(&r->j))
		while (json_next_key(&r->j, &key)) {
			if (threads && str_is(key, "threads") && json_begin_array(&r->j))
				while (json_next_element(&r->j))
					read_thread(r);
			else if (!threads && str_is(key, "meta"))
				read_meta(r);
			else if (!threads && str_is(key, "libs") && json_begin_array(&r->j))
				while (json_next_element(&r->j))
					read_library(r);
			else if (!threads && str_is(key, "shared"))
				read_shared(r);
			else if ((!threads || !str_is(key, "threads")) &&
				 (threads || !str_is(key, "libs")))
				json_skip(&r->j);
		}
	ok = json_finish(&r->j, r->err) || err_prefix(r->err, "firefox profile");
	json_reader_release(&r->j);
	return ok;
}

bool firefox_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct fx_reading r = { .err = err };
	bool ok;

	import_begin(&r.im, bytes);
	ok = read_document(&r, blob_view(bytes), false);
	if (ok && !r.processed)
		ok = err_set(
			err, ERR_UNSUPPORTED,
			"firefox profile: meta.preprocessedProfileVersion is missing; a raw "
			"Gecko profile is to be opened and saved in the Firefox Profiler first");
	ok = ok && read_document(&r, blob_view(bytes), true);
	forget_thread(&r);
	tables_release(&r.own);
	tables_release(&r.shared);
	free(r.libraries);
	free(r.categories.ptr);
	free(r.stacks.ptr);
	free(r.times);
	free(r.weights);
	return import_end(&r.im, ok, out, err);
}
