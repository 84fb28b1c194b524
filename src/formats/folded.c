#include "formats/folded.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/vec.h"
#include "formats/line_cache.h"
#include "formats/names.h"
#include "formats/readers_writers.h"
#include "model/intern.h"

enum { CACHE_TEXT_BYTES = 2 << 20, STACKS_MOST_BYTES = 512 << 20 };

/* A line: where its text is, and what its samples count for together. */
struct folded_line {
	size_t offset, len;
	int64_t value;
};

struct folded_renderer {
	struct folded_options options;
	struct names names;
	struct line_cache frames; /* by location: its names root first, joined by ';' */
	struct buf stacks;        /* the lines' texts, one after another */
	struct intern_table table;
	struct folded_line *lines;
	uint32_t line_count, line_cap;
};

struct folded_renderer *folded_renderer_new(const struct folded_options *options)
{
	struct folded_renderer *f = calloc(1, sizeof(*f));

	assert(f);
	f->options = *options;
	line_cache_init(&f->frames, CACHE_TEXT_BYTES);
	buf_init(&f->stacks, STACKS_MOST_BYTES);
	return f;
}

void folded_renderer_free(struct folded_renderer *f)
{
	if (!f)
		return;
	line_cache_release(&f->frames);
	buf_release(&f->stacks);
	free(f);
}

/* A name may hold neither ';' nor a line's end. */
static void put_name(struct buf *b, struct str s)
{
	size_t start = b->len;

	text_append_printable(b, s);
	for (size_t i = start; i < b->len; i++) {
		if (b->ptr[i] == ';')
			b->ptr[i] = ':';
	}
}

static bool is_made_at_run_time(struct str type)
{
	static const char *const types[] = { "jvm", "v8js", "dotnet", "luajit", "beam" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (str_is(type, types[i]))
			return true;
	}
	return false;
}

static void annotate(struct folded_renderer *f, struct buf *b, struct str type, bool inlined)
{
	if (!f->options.annotate)
		return;
	if (inlined)
		buf_lit(b, "_[i]");
	else if (str_is(type, "kernel"))
		buf_lit(b, "_[k]");
	else if (is_made_at_run_time(type))
		buf_lit(b, "_[j]");
}

static void append_address(struct folded_renderer *f, struct buf *b, const struct location *l,
			   struct str type)
{
	size_t start = b->len;

	if (names_has_mapping(&f->names, l))
		names_append_mapping(&f->names, b, l);
	if (b->len == start) {
		buf_char(b, '[');
		put_name(b, type.len ? type : STR("unknown"));
		buf_char(b, ']');
	}
	buf_char(b, '+');
	if (f->options.merged)
		buf_char(b, '?');
	else
		names_append_hex(b, l->address, 1);
}

static bool append_names(struct folded_renderer *f, struct render_out *out,
			 const struct location *l, struct err *err)
{
	const struct line *lines = &f->names.profiles->dict.lines[l->lines.first];
	struct str type = location_frame_type(f->names.profiles, l);
	struct buf *b = out->buf;

	if (l->lines.count == 0) {
		append_address(f, b, l, type);
		annotate(f, b, type, false);
	}
	for (uint32_t i = l->lines.count; i-- > 0;) {
		size_t start;

		if (i + 1 < l->lines.count)
			buf_char(b, ';');
		start = b->len;
		names_append_function(&f->names, b, &lines[i]);
		if (b->len == start)
			append_address(f, b, l, type);
		annotate(f, b, type, i + 1 < l->lines.count);
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_location(struct folded_renderer *f, struct render_out *out, uint32_t index,
			    struct err *err)
{
	const struct location *l = &f->names.profiles->dict.locations[index];
	struct render_out cached = { 0 };
	struct str text;
	size_t start;

	if (!line_cache_get(&f->frames, index, &text)) {
		cached.buf = line_cache_make(&f->frames, &start);
		if (!append_names(f, &cached, l, err) ||
		    !line_cache_made(&f->frames, index, start, &text))
			return append_names(f, out, l, err);
	}
	buf_str(out->buf, text);
	return true;
}

static bool append_stack(struct folded_renderer *f, struct render_out *out, uint32_t sample,
			 bool first, struct err *err)
{
	const struct dictionary *d = &f->names.profiles->dict;
	uint32_t stack = f->names.profiles->samples[sample].stack.v;
	struct range list = d->stacks[stack].locations;
	const struct bad_index *bad =
		stack ? NULL : names_bad(&f->names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	if (bad || list.count == 0) {
		if (!first)
			buf_char(out->buf, ';');
		if (bad)
			names_append_bad(out->buf, bad);
		else
			buf_lit(out->buf, "[no stack]");
	}
	for (uint32_t k = list.count; k-- > 0;) {
		uint32_t index = d->stack_locations[list.first + k].v;

		if (!first)
			buf_char(out->buf, ';');
		first = false;
		bad = index ? NULL
			    : names_bad(&f->names, MESSAGE_STACK, stack, "location_indices", k);
		if (bad)
			names_append_bad(out->buf, bad);
		else if (!append_location(f, out, index, err))
			return false;
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

/* The name in an attribute of the sample, else of its resource; false when neither has it. */
static bool append_attribute(struct folded_renderer *f, struct buf *b, const struct sample *s,
			     const struct resource_profiles *r, struct str key)
{
	const struct any_value *v = profiles_attribute(f->names.profiles, s->attributes, key);

	if (!v)
		v = key_values_find(r->attributes, key);
	if (!v || v->kind != ANY_STRING || v->string.len == 0)
		return false;
	put_name(b, v->string);
	return true;
}

static bool append_root(struct folded_renderer *f, struct buf *b, const struct sample *s,
			const struct resource_profiles *r)
{
	if (f->options.process && !append_attribute(f, b, s, r, STR("process.executable.name")))
		buf_lit(b, "[unknown]");
	if (f->options.process && f->options.thread)
		buf_char(b, ';');
	if (f->options.thread && !append_attribute(f, b, s, r, STR("thread.name")))
		buf_lit(b, "[unknown]");
	return f->options.process || f->options.thread;
}

static struct str line_text(const struct folded_renderer *f, const struct folded_line *l)
{
	return str_from(f->stacks.ptr + l->offset, l->len);
}

static bool line_same(const void *ctx, uint32_t index, const void *key)
{
	const struct folded_renderer *f = ctx;

	return str_equal(line_text(f, &f->lines[index]), *(const struct str *)key);
}

static struct folded_line *line_push(struct folded_renderer *f, size_t start)
{
	VEC_ROOM(f->lines, f->line_count, f->line_cap);
	f->lines[f->line_count] = (struct folded_line){ start, f->stacks.len - start, 0 };
	return &f->lines[f->line_count++];
}

/* Counts the line whose text ends the buffer; a text that was there before is taken off again. */
static void count_line(struct folded_renderer *f, size_t start, int64_t value)
{
	struct str text = str_from(f->stacks.ptr + start, f->stacks.len - start);
	uint32_t i =
		intern_find_or_add(&f->table, hash64(text), line_same, f, &text, f->line_count);
	struct folded_line *l;

	if (i == UINT32_MAX) {
		l = line_push(f, start);
	} else {
		l = &f->lines[i];
		f->stacks.len = start;
	}
	if (__builtin_add_overflow(l->value, value, &l->value))
		l->value = value < 0 ? INT64_MIN : INT64_MAX;
}

static bool append_sample(struct folded_renderer *f, const struct resource_profiles *r,
			  const struct profile *profile, uint32_t index, struct err *err)
{
	const struct sample *s = &f->names.profiles->samples[index];
	struct render_out stack = { .buf = &f->stacks };
	size_t start = f->stacks.len;
	bool rooted = append_root(f, &f->stacks, s, r);

	if (!append_stack(f, &stack, index, !rooted, err) || !render_out_check(&stack, err))
		return false;
	count_line(f, start, sample_total(f->names.profiles, profile, s).value);
	return true;
}

static bool append_scope(struct folded_renderer *f, const struct resource_profiles *r,
			 const struct scope_profiles *s, struct err *err)
{
	const struct profiles *p = f->names.profiles;

	for (uint32_t k = s->profiles.first; k < s->profiles.first + s->profiles.count; k++) {
		const struct profile *profile = &p->profiles[k];

		if (!names_profile_wanted(p, profile, &f->options.sample_types))
			continue;
		for (uint32_t i = 0; i < profile->samples.count; i++) {
			if (!append_sample(f, r, profile, profile->samples.first + i, err))
				return false;
		}
	}
	return true;
}

static bool append_resources(struct folded_renderer *f, const struct profiles *p, struct err *err)
{
	for (uint32_t i = 0; i < p->resource_count; i++) {
		const struct resource_profiles *r = &p->resources[i];

		for (uint32_t k = r->scopes.first; k < r->scopes.first + r->scopes.count; k++) {
			if (!append_scope(f, r, &p->scopes[k], err))
				return false;
		}
	}
	return true;
}

static bool write_lines(struct folded_renderer *f, struct render_out *out, struct err *err)
{
	for (uint32_t i = 0; i < f->line_count; i++) {
		buf_str(out->buf, line_text(f, &f->lines[i]));
		buf_char(out->buf, ' ');
		buf_i64(out->buf, f->lines[i].value);
		buf_char(out->buf, '\n');
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

bool folded_render(struct folded_renderer *f, const struct profiles *p, struct render_out *out,
		   struct err *err)
{
	bool ok;

	f->names = (struct names){ .profiles = p, .put = put_name };
	line_cache_begin(&f->frames, p->dict.location_count);
	intern_init(&f->table);
	ok = append_resources(f, p, err) && write_lines(f, out, err);
	intern_release(&f->table);
	free(f->lines);
	f->lines = NULL;
	f->line_count = f->line_cap = 0;
	buf_release(&f->stacks);
	return ok;
}

bool folded_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		  struct err *err)
{
	struct str type = o ? o->profile_type : (struct str){ 0 };
	struct folded_options options = { .process = o && o->process,
					  .thread = o && o->thread,
					  .merged = !(o && o->addresses),
					  .annotate = o && o->annotate };
	struct render_out render = { .buf = out };
	struct folded_renderer *f;
	struct arena arena;
	const char *name;
	bool ok;

	arena_init(&arena, 256, 0);
	if (type.len) {
		name = str_dup_cstr(&arena, type);
		options.sample_types = (struct config_strings){ &name, 1, true };
	}
	f = folded_renderer_new(&options);
	ok = folded_render(f, p, &render, err) && render_out_finish(&render, err);
	folded_renderer_free(f);
	arena_release(&arena);
	return ok;
}
