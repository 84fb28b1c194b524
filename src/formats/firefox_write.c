/*
 * firefox_write.c - the Firefox Profiler's processed profile, format version 48, which every later
 * Firefox Profiler brings up to date by itself.
 *
 * A thread each (profile type, thread), with tables of its own: strings, functions, frames, and
 * stacks as nodes of a tree, parents first. Times are milliseconds since meta.startTime, exact to
 * the nanosecond. Counts are `samples`, times `tracing-ms`, sizes `bytes`. Samples that count
 * meta.interval are `samples`, too, as far as all of their type do: else a reader would have two
 * types of what is one. Source: the project's description of its format (docs-developer,
 * src/types/profile).
 */
#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "formats/readers_writers.h"
#include "formats/tracks.h"

enum { LIBRARY = 1, NO_STACK = 0 };

static const uint64_t MS = 1000000;

/* ---- what all threads share: frames, functions, texts, numbered once ---- */

struct fx_function {
	uint32_t name, file; /* texts; file 0: none */
	uint32_t mapping;    /* 0: none */
	int64_t start_line;
	bool script; /* code of a JavaScript engine */
};

struct fx_frame {
	uint32_t function, category, depth; /* depth: 0 is what the others are inlined into */
	int64_t line, column;
	uint64_t address;
	bool native;
};

struct fx_node {                /* of a thread's tree of stacks */
	uint32_t parent, frame; /* parent: node + 1; 0: none */
};

/* From shared numbers to those of the thread at hand, in the order they were met. */
struct fx_numbers {
	uint32_t *place; /* + 1; 0: not met */
	uint32_t *met;
	uint32_t count;
};

struct fx_writer {
	const struct profiles *p;
	struct buf *out;
	struct arena arena;
	struct tracks tracks;
	struct str *texts;
	struct fx_function *functions;
	struct fx_frame *frames;
	uint32_t text_count, text_cap, function_count, function_cap, frame_count;
	uint32_t *first_frame; /* of each location; 0 is the frame of samples without a stack */
	struct str *categories;
	uint32_t category_count, category_cap;
	struct intern_table text_table, function_table, node_table;
	struct fx_numbers strings, funcs, resources, used_frames;
	struct fx_node *nodes;
	uint32_t node_count, node_cap;
	uint64_t start_ms;
	int64_t period;      /* of the whole: meta.interval */
	struct str counting; /* the type of time that is counted in it */
	bool mixed;          /* not all of that type is */
	bool many_types;     /* threads say theirs */
};

static bool same_text(const void *ctx, uint32_t index, const void *key)
{
	return str_equal(((const struct fx_writer *)ctx)->texts[index], *(const struct str *)key);
}

static uint32_t text_of(struct fx_writer *w, struct str s)
{
	uint32_t found =
		intern_find_or_add(&w->text_table, hash64(s), same_text, w, &s, w->text_count);

	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(w->texts, w->text_count, w->text_cap);
	w->texts[w->text_count] = str_dup(&w->arena, s);
	return w->text_count++;
}

static bool same_function(const void *ctx, uint32_t index, const void *key)
{
	const struct fx_function *a = &((const struct fx_writer *)ctx)->functions[index], *b = key;

	return a->name == b->name && a->file == b->file && a->mapping == b->mapping &&
	       a->start_line == b->start_line && a->script == b->script;
}

static uint32_t function_of(struct fx_writer *w, const struct fx_function *f)
{
	uint64_t parts[] = { f->name, f->file, f->mapping, (uint64_t)f->start_line };
	uint32_t found =
		intern_find_or_add(&w->function_table, hash64(str_from(parts, sizeof(parts))),
				   same_function, w, f, w->function_count);

	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(w->functions, w->function_count, w->function_cap);
	w->functions[w->function_count] = *f;
	return w->function_count++;
}

/* Frame types are categories. */
static uint32_t category_of(struct fx_writer *w, struct str type)
{
	for (uint32_t i = 0; i < w->category_count; i++)
		if (str_equal(w->categories[i], type))
			return i;
	VEC_ROOM(w->categories, w->category_count, w->category_cap);
	w->categories[w->category_count] = type;
	return w->category_count++;
}

/* Code without a name is called by its address, as the Firefox Profiler does. */
static uint32_t name_of(struct fx_writer *w, const struct location *l, const struct function *f)
{
	struct str name = profiles_string(w->p, f->name);
	char address[32];

	if (!name.len)
		name = profiles_string(w->p, f->system_name);
	if (name.len)
		return text_of(w, name);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)l->address);
	return text_of(w, str_cstr(address));
}

static void add_frame(struct fx_writer *w, const struct location *l, const struct line *line,
		      uint32_t depth)
{
	const struct dictionary *d = &w->p->dict;
	const struct function *f = &d->functions[line ? line->function.v : 0];
	struct str type = location_frame_type(w->p, l), file = profiles_string(w->p, f->filename);
	struct fx_function function = { .name = name_of(w, l, f),
					.file = file.len ? text_of(w, file) : 0,
					.mapping = l->mapping.v,
					.start_line = f->start_line,
					.script = str_is(type, "v8js") };

	w->frames[w->frame_count++] = (struct fx_frame){
		.function = function_of(w, &function),
		.category = type.len ? category_of(w, type) : 0,
		.depth = depth,
		.line = line ? line->line : 0,
		.column = line ? line->column : 0,
		.address = l->address,
		.native = l->address || l->mapping.v,
	};
}

static void add_frames(struct fx_writer *w)
{
	const struct dictionary *d = &w->p->dict;
	struct fx_function none;

	text_of(w, STR("")); /* number 0 */
	category_of(w, STR("Other"));
	none = (struct fx_function){ .name = text_of(w, STR("(no stack)")) };
	w->first_frame = calloc(d->location_count + 1u, sizeof(uint32_t));
	w->frames = calloc((size_t)d->location_count + d->line_count + 1u, sizeof(*w->frames));
	assert(w->first_frame && w->frames);
	w->frames[w->frame_count++] = (struct fx_frame){ .function = function_of(w, &none) };
	for (uint32_t i = 0; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];

		w->first_frame[i] = w->frame_count;
		for (uint32_t k = 0; k < l->lines.count; k++)
			add_frame(w, l, &d->lines[l->lines.first + k], l->lines.count - 1 - k);
		if (!l->lines.count)
			add_frame(w, l, NULL, 0);
	}
	w->first_frame[d->location_count] = w->frame_count;
}

/* ---- numbers of a thread ---- */

static void numbers_init(struct fx_numbers *n, uint32_t count)
{
	n->place = calloc(count + 1u, sizeof(uint32_t));
	n->met = calloc(count + 1u, sizeof(uint32_t));
	assert(n->place && n->met);
}

static void numbers_forget(struct fx_numbers *n)
{
	while (n->count)
		n->place[n->met[--n->count]] = 0;
}

static void numbers_release(struct fx_numbers *n)
{
	free(n->place);
	free(n->met);
}

static uint32_t number_of(struct fx_numbers *n, uint32_t shared)
{
	if (!n->place[shared]) {
		n->met[n->count++] = shared;
		n->place[shared] = n->count;
	}
	return n->place[shared] - 1;
}

static bool same_node(const void *ctx, uint32_t index, const void *key)
{
	const struct fx_node *a = &((const struct fx_writer *)ctx)->nodes[index], *b = key;

	return a->parent == b->parent && a->frame == b->frame;
}

static uint32_t node_of(struct fx_writer *w, uint32_t parent, uint32_t frame)
{
	struct fx_node node = { parent, frame };
	uint32_t found = intern_find_or_add(&w->node_table, hash64(str_from(&node, sizeof(node))),
					    same_node, w, &node, w->node_count);

	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(w->nodes, w->node_count, w->node_cap);
	w->nodes[w->node_count] = node;
	return w->node_count++;
}

/* The node of a sample's leaf. */
static uint32_t stack_of(struct fx_writer *w, uint32_t sample)
{
	const struct dictionary *d = &w->p->dict;
	struct range r = d->stacks[w->p->samples[sample].stack.v].locations;
	uint32_t node = 0;

	for (uint32_t i = r.count; i > 0; i--) {
		uint32_t l = d->stack_locations[r.first + i - 1].v;

		for (uint32_t k = w->first_frame[l + 1]; k > w->first_frame[l]; k--)
			node = node_of(w, node, number_of(&w->used_frames, k - 1)) + 1;
	}
	return node ? node - 1 : node_of(w, 0, number_of(&w->used_frames, NO_STACK));
}

/* ---- columns ---- */

static void comma(struct fx_writer *w, uint32_t i)
{
	if (i)
		buf_char(w->out, ',');
}

static void put_null_or(struct fx_writer *w, bool some, int64_t v)
{
	if (some)
		buf_i64(w->out, v);
	else
		buf_lit(w->out, "null");
}

static void put_same(struct fx_writer *w, const char *column, const char *value, uint32_t count)
{
	buf_printf(w->out, ",\"%s\":[", column);
	for (uint32_t i = 0; i < count; i++) {
		comma(w, i);
		buf_str(w->out, str_cstr(value));
	}
	buf_char(w->out, ']');
}

static const struct fx_frame *frame_at(const struct fx_writer *w, uint32_t i)
{
	return &w->frames[w->used_frames.met[i]];
}

static const struct fx_function *func_at(const struct fx_writer *w, uint32_t i)
{
	return &w->functions[w->funcs.met[i]];
}

/* A column of the frames or functions: `value` says one. */
#define COLUMN(w, name, n, value)                     \
	do {                                          \
		buf_lit((w)->out, ",\"" name "\":["); \
		for (uint32_t i = 0; i < (n); i++) {  \
			comma(w, i);                  \
			value;                        \
		}                                     \
		buf_char((w)->out, ']');              \
	} while (0)

static void put_stacks(struct fx_writer *w)
{
	uint32_t n = w->node_count;

	buf_printf(w->out, ",\"stackTable\":{\"length\":%u", n);
	COLUMN(w, "prefix", n,
	       put_null_or(w, w->nodes[i].parent > 0, (int64_t)w->nodes[i].parent - 1));
	COLUMN(w, "frame", n, buf_u64(w->out, w->nodes[i].frame));
	COLUMN(w, "category", n, buf_u64(w->out, frame_at(w, w->nodes[i].frame)->category));
	put_same(w, "subcategory", "0", n);
	buf_char(w->out, '}');
}

static void put_address(struct fx_writer *w, const struct fx_frame *f)
{
	if (f->native)
		buf_u64(w->out, f->address);
	else
		buf_lit(w->out, "-1");
}

static void put_frames(struct fx_writer *w)
{
	uint32_t n = w->used_frames.count;

	buf_printf(w->out, ",\"frameTable\":{\"length\":%u", n);
	COLUMN(w, "address", n, put_address(w, frame_at(w, i)));
	COLUMN(w, "inlineDepth", n, buf_u64(w->out, frame_at(w, i)->depth));
	COLUMN(w, "category", n, buf_u64(w->out, frame_at(w, i)->category));
	put_same(w, "subcategory", "0", n);
	COLUMN(w, "func", n, buf_u64(w->out, number_of(&w->funcs, frame_at(w, i)->function)));
	put_same(w, "nativeSymbol", "null", n);
	put_same(w, "innerWindowID", "0", n);
	put_same(w, "implementation", "null", n);
	COLUMN(w, "line", n, put_null_or(w, frame_at(w, i)->line > 0, frame_at(w, i)->line));
	COLUMN(w, "column", n, put_null_or(w, frame_at(w, i)->column > 0, frame_at(w, i)->column));
	buf_char(w->out, '}');
}

static void put_resource(struct fx_writer *w, uint32_t mapping)
{
	if (mapping)
		buf_u64(w->out, number_of(&w->resources, mapping));
	else
		buf_lit(w->out, "-1");
}

static void put_functions(struct fx_writer *w)
{
	uint32_t n = w->funcs.count;

	buf_printf(w->out, ",\"funcTable\":{\"length\":%u", n);
	COLUMN(w, "name", n, buf_u64(w->out, number_of(&w->strings, func_at(w, i)->name)));
	COLUMN(w, "isJS", n, buf_str(w->out, func_at(w, i)->script ? STR("true") : STR("false")));
	put_same(w, "relevantForJS", "false", n);
	COLUMN(w, "resource", n, put_resource(w, func_at(w, i)->mapping));
	COLUMN(w, "fileName", n,
	       put_null_or(w, func_at(w, i)->file > 0,
			   func_at(w, i)->file ? number_of(&w->strings, func_at(w, i)->file) : 0));
	COLUMN(w, "lineNumber", n,
	       put_null_or(w, func_at(w, i)->start_line > 0, func_at(w, i)->start_line));
	put_same(w, "columnNumber", "null", n);
	buf_char(w->out, '}');
}

/* Libraries have the place of their mapping, which begins with none. */
static void put_resources(struct fx_writer *w)
{
	const struct dictionary *d = &w->p->dict;
	uint32_t n = w->resources.count;

	buf_printf(w->out, ",\"resourceTable\":{\"length\":%u", n);
	COLUMN(w, "lib", n, buf_u64(w->out, w->resources.met[i] - 1));
	COLUMN(w, "name", n,
	       buf_u64(w->out,
		       number_of(&w->strings,
				 text_of(w, profiles_string(w->p, d->mappings[w->resources.met[i]]
									  .filename)))));
	put_same(w, "host", "null", n);
	COLUMN(w, "type", n, buf_u64(w->out, LIBRARY));
	buf_lit(w->out, "},\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],"
			"\"name\":[],\"functionSize\":[]}");
}

static void put_strings(struct fx_writer *w)
{
	buf_lit(w->out, ",\"stringArray\":[");
	for (uint32_t i = 0; i < w->strings.count; i++) {
		comma(w, i);
		buf_json_string(w->out, w->texts[w->strings.met[i]]);
	}
	buf_char(w->out, ']');
}

/* ---- samples ---- */

static uint64_t unit_nanoseconds(struct str unit)
{
	return str_is(unit, "nanoseconds")    ? 1
	       : str_is(unit, "microseconds") ? 1000
	       : str_is(unit, "milliseconds") ? MS
	       : str_is(unit, "seconds")      ? 1000 * MS
					      : 0;
}

/* What the track's time is called; empty: it is no time. */
static struct str time_type(const struct fx_writer *w, const struct profile *p)
{
	struct value_type of = tracks_counts_time(w->p, p) ? p->period_type : p->sample_type;

	return unit_nanoseconds(profiles_string(w->p, of.unit)) ? profiles_string(w->p, of.type)
								: (struct str){ 0 };
}

/* Does it count what meta.interval says? */
static bool counts_interval(const struct fx_writer *w, const struct profile *p)
{
	return tracks_counts_time(w->p, p) && p->period == w->period &&
	       str_equal(profiles_string(w->p, p->period_type.type), w->counting);
}

/* Nanoseconds in a value of the track; 0: it is no time, or is counted in intervals. */
static uint64_t nanoseconds_of(const struct fx_writer *w, const struct track *t)
{
	const struct profile *profile = &w->p->profiles[t->profile];

	if (!tracks_counts_time(w->p, profile))
		return unit_nanoseconds(profiles_string(w->p, profile->sample_type.unit));
	return w->mixed || !counts_interval(w, profile) ? (uint64_t)profile->period : 0;
}

static void put_ms(struct fx_writer *w, uint64_t ns)
{
	buf_printf(w->out, "%llu.%06llu", (unsigned long long)(ns / MS),
		   (unsigned long long)(ns % MS));
}

static void put_weight(struct fx_writer *w, int64_t value, uint64_t scale)
{
	uint64_t size = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;

	if (!scale) {
		buf_i64(w->out, value);
		return;
	}
	if (__builtin_mul_overflow(size, scale, &size))
		size = UINT64_MAX;
	if (value < 0)
		buf_char(w->out, '-');
	put_ms(w, size);
}

static void put_samples(struct fx_writer *w, const struct track *t, uint32_t first, uint32_t n)
{
	const struct event *events = w->tracks.events + first;
	const struct profile *profile = &w->p->profiles[t->profile];
	uint64_t scale = nanoseconds_of(w, t);
	bool bytes = str_is(profiles_string(w->p, profile->sample_type.unit), "bytes");

	buf_printf(w->out, ",\"samples\":{\"length\":%u,\"weightType\":\"%s\"", n,
		   scale   ? "tracing-ms"
		   : bytes ? "bytes"
			   : "samples");
	COLUMN(w, "weight", n, put_weight(w, events[i].value, scale));
	COLUMN(w, "stack", n, buf_u64(w->out, stack_of(w, events[i].sample)));
	COLUMN(w, "time", n,
	       put_ms(w,
		      events[i].time > w->start_ms * MS ? events[i].time - w->start_ms * MS : 0));
	buf_lit(w->out, "},\"markers\":{\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],"
			"\"endTime\":[],\"phase\":[],\"category\":[]}");
}

static void put_name(struct fx_writer *w, const struct track *t)
{
	const struct profile *profile = &w->p->profiles[t->profile];
	struct buf name;

	buf_init(&name, 0);
	buf_str(&name, t->thread.len ? t->thread : t->process);
	if (w->many_types)
		buf_printf(&name, " (%.*s)",
			   STR_ARG(profiles_string(w->p, profile->sample_type.type)));
	buf_json_string(w->out, buf_view(&name));
	buf_release(&name);
}

static void put_thread(struct fx_writer *w, uint32_t first, uint32_t end)
{
	const struct track *t = &w->tracks.ptr[w->tracks.events[first].track];

	buf_lit(w->out, "{\"processType\":\"default\",\"processName\":");
	buf_json_string(w->out, t->process);
	buf_lit(w->out, ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
			"\"unregisterTime\":null,\"pausedRanges\":[],\"name\":");
	put_name(w, t);
	buf_printf(w->out, ",\"isMainThread\":%s,\"pid\":\"%lld\",\"tid\":%lld",
		   t->pid == t->tid ? "true" : "false", (long long)t->pid, (long long)t->tid);
	w->node_count = 0;
	intern_release(&w->node_table);
	intern_init(&w->node_table);
	put_samples(w, t, first, end - first);
	put_stacks(w);
	put_frames(w);
	put_functions(w);
	put_resources(w);
	put_strings(w);
	buf_char(w->out, '}');
	numbers_forget(&w->strings);
	numbers_forget(&w->funcs);
	numbers_forget(&w->resources);
	numbers_forget(&w->used_frames);
}

static void put_threads(struct fx_writer *w)
{
	uint32_t first = 0;

	buf_lit(w->out, ",\"threads\":[");
	while (first < w->tracks.event_count && !w->out->failed) {
		uint32_t end = first;

		while (end < w->tracks.event_count &&
		       w->tracks.events[end].track == w->tracks.events[first].track)
			end++;
		comma(w, first);
		put_thread(w, first, end);
		first = end;
	}
	buf_char(w->out, ']');
}

/* ---- what stands before the threads ---- */

static void look_around(struct fx_writer *w)
{
	uint64_t first = UINT64_MAX;
	struct str type = { 0 };

	for (uint32_t i = 0; i < w->tracks.event_count; i++)
		if (w->tracks.events[i].time < first)
			first = w->tracks.events[i].time;
	w->start_ms = w->tracks.event_count ? first / MS : 0;
	for (uint32_t i = 0; i < w->tracks.count; i++) {
		const struct profile *p = &w->p->profiles[w->tracks.ptr[i].profile];
		struct str own = profiles_string(w->p, p->sample_type.type);

		w->many_types |= i && !str_equal(own, type);
		type = own;
		if (!w->period && tracks_counts_time(w->p, p)) {
			w->period = p->period;
			w->counting = profiles_string(w->p, p->period_type.type);
		}
	}
	for (uint32_t i = 0; i < w->tracks.count && w->period; i++) {
		const struct profile *p = &w->p->profiles[w->tracks.ptr[i].profile];

		w->mixed |= !counts_interval(w, p) && str_equal(time_type(w, p), w->counting);
	}
}

static void put_categories(struct fx_writer *w)
{
	static const char *const colors[] = { "grey",   "blue",    "orange", "green", "purple",
					      "yellow", "magenta", "brown",  "red" };

	buf_lit(w->out, ",\"categories\":[");
	for (uint32_t i = 0; i < w->category_count; i++) {
		comma(w, i);
		buf_lit(w->out, "{\"name\":");
		buf_json_string(w->out, w->categories[i]);
		buf_printf(w->out, ",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			   colors[i ? 1 + (i - 1) % (ARRAY_LEN(colors) - 1) : 0]);
	}
	buf_char(w->out, ']');
}

static void put_meta(struct fx_writer *w, struct str title)
{
	buf_printf(w->out, "{\"meta\":{\"preprocessedProfileVersion\":48,\"version\":29,"
			   "\"interval\":");
	put_ms(w, w->period > 0 ? (uint64_t)w->period : MS);
	buf_printf(w->out,
		   ",\"startTime\":%llu,\"processType\":0,\"stackwalk\":1,\"debug\":false,"
		   "\"symbolicated\":true,\"markerSchema\":[],\"importedFrom\":\"flametap\","
		   "\"product\":",
		   (unsigned long long)w->start_ms);
	buf_json_string(w->out, title);
	put_categories(w);
	buf_char(w->out, '}');
}

/* A build id as Breakpad has it: its first 16 bytes as a GUID of Windows, then an age of 0. */
static void put_breakpad_id(struct buf *out, struct str id)
{
	static const uint8_t order[] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };

	for (size_t i = 0; id.len >= 32 && i < sizeof(order); i++)
		for (size_t k = 0; k < 2; k++) {
			char c = id.ptr[order[i] * 2 + k];

			buf_char(out, c >= 'a' && c <= 'f' ? (char)(c - 'a' + 'A') : c);
		}
	buf_lit(out, "0");
}

static void put_library(struct fx_writer *w, const struct mapping *m)
{
	const struct any_value *id =
		profiles_attribute(w->p, m->attributes, STR("process.executable.build_id.gnu"));
	struct str path = profiles_string(w->p, m->filename), name = path;

	while (str_find(name, '/') >= 0)
		name = str_skip(name, (size_t)str_find(name, '/') + 1);
	buf_lit(w->out, "{\"arch\":\"\",\"name\":");
	buf_json_string(w->out, name);
	buf_lit(w->out, ",\"debugName\":");
	buf_json_string(w->out, name);
	buf_lit(w->out, ",\"path\":");
	buf_json_string(w->out, path);
	buf_lit(w->out, ",\"debugPath\":");
	buf_json_string(w->out, path);
	if (id && id->kind == ANY_STRING && id->string.len) {
		buf_lit(w->out, ",\"codeId\":");
		buf_json_string(w->out, id->string);
		buf_lit(w->out, ",\"breakpadId\":\"");
		put_breakpad_id(w->out, id->string);
		buf_lit(w->out, "\"}");
	} else {
		buf_lit(w->out, ",\"codeId\":null,\"breakpadId\":\"\"}");
	}
}

static void put_libraries(struct fx_writer *w)
{
	buf_lit(w->out, ",\"libs\":[");
	for (uint32_t i = 1; i < w->p->dict.mapping_count; i++) {
		comma(w, i - 1);
		put_library(w, &w->p->dict.mappings[i]);
	}
	buf_char(w->out, ']');
}

static void fx_writer_release(struct fx_writer *w)
{
	tracks_release(&w->tracks);
	intern_release(&w->text_table);
	intern_release(&w->function_table);
	intern_release(&w->node_table);
	numbers_release(&w->strings);
	numbers_release(&w->funcs);
	numbers_release(&w->resources);
	numbers_release(&w->used_frames);
	free(w->texts);
	free(w->functions);
	free(w->frames);
	free(w->first_frame);
	free(w->categories);
	free(w->nodes);
	arena_release(&w->arena);
}

bool firefox_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		   struct err *err)
{
	struct fx_writer w = { .p = p, .out = out };

	arena_init(&w.arena, 16 << 10, 0);
	intern_init(&w.text_table);
	intern_init(&w.function_table);
	intern_init(&w.node_table);
	tracks_gather(&w.tracks, p);
	look_around(&w);
	add_frames(&w);
	for (uint32_t i = 1; i < p->dict.mapping_count; i++)
		text_of(&w, profiles_string(p, p->dict.mappings[i].filename));
	numbers_init(&w.strings, w.text_count);
	numbers_init(&w.funcs, w.function_count);
	numbers_init(&w.resources, p->dict.mapping_count);
	numbers_init(&w.used_frames, w.frame_count);
	put_meta(&w, o && o->title.len ? o->title : STR("profile"));
	put_libraries(&w);
	put_threads(&w);
	buf_lit(out, "}\n");
	fx_writer_release(&w);
	if (out->failed)
		return err_set(err, ERR_LIMIT, "firefox: more than %zu bytes", out->limit_bytes);
	return true;
}
