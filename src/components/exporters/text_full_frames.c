/*
 * text_full_frames.c - stacks and mappings of layout full. The grammar is in text_full.c.
 */
#include "components/exporters/text_full.h"

#include <inttypes.h>

#include "base/cleanup.h"

enum {
	NUMBER_COLUMNS = 14,
	TYPE_COLUMNS = 8,
	NAME_COLUMNS = 40,
	DETAIL_INDENT = NUMBER_COLUMNS + 2
};

static void append_type(struct text_renderer *t, struct buf *b, const struct location *l)
{
	struct str type = location_frame_type(t->names.profiles, l);
	size_t start;

	buf_str(b, text_style_frame_type(&t->style, type));
	start = b->len;
	if (type.len)
		text_full_word(b, type);
	else
		buf_char(b, '-');
	text_full_pad(b, start, TYPE_COLUMNS);
	buf_str(b, t->style.off);
}

static bool field_is_set(struct text_renderer *t, struct strindex s, enum message_kind message,
			 uint32_t index, const char *field)
{
	return s.v || names_bad(&t->names, message, index, field, 0);
}

static const struct bad_index *bad_function(struct text_renderer *t, const struct line *line)
{
	const struct dictionary *d = &t->names.profiles->dict;

	return line->function.v ? NULL
				: names_bad(&t->names, MESSAGE_LINE, NAMES_INDEX(d->lines, line),
					    "function_index", 0);
}

/* A line's function; "-" stands for a location without lines, "" for a function without a name. */
static void append_function(struct text_renderer *t, struct buf *b, const struct line *line)
{
	const struct bad_index *bad = line ? bad_function(t, line) : NULL;
	size_t start;

	buf_str(b, t->style.bold);
	start = b->len;
	if (bad) {
		names_append_bad(b, bad);
	} else if (!line) {
		buf_char(b, '-');
	} else {
		const struct function *f = &t->names.profiles->dict.functions[line->function.v];

		if (field_is_set(t, f->name, MESSAGE_FUNCTION, line->function.v, "name_strindex"))
			text_full_name(t, b, f->name, MESSAGE_FUNCTION, line->function.v,
				       "name_strindex");
		else
			buf_lit(b, "\"\"");
	}
	text_full_pad(b, start, NAME_COLUMNS); /* addresses and files stand in one column */
	buf_str(b, t->style.off);
}

static void append_source(struct text_renderer *t, struct buf *b, const struct line *line)
{
	uint32_t index = line->function.v;
	const struct function *f = &t->names.profiles->dict.functions[index];
	bool file = field_is_set(t, f->filename, MESSAGE_FUNCTION, index, "filename_strindex");

	if (file || line->line || line->column) {
		buf_lit(b, "  at ");
		text_full_name(t, b, f->filename, MESSAGE_FUNCTION, index, "filename_strindex");
		buf_char(b, ':');
		buf_i64(b, line->line);
		buf_char(b, ':');
		buf_i64(b, line->column);
	}
	if (field_is_set(t, f->system_name, MESSAGE_FUNCTION, index, "system_name_strindex")) {
		buf_lit(b, "  system ");
		text_full_name(t, b, f->system_name, MESSAGE_FUNCTION, index,
			       "system_name_strindex");
	}
	if (f->start_line) {
		buf_lit(b, "  start ");
		buf_i64(b, f->start_line);
	}
}

static void append_mapping(struct text_renderer *t, struct buf *b, const struct location *l)
{
	const struct mapping *m = &t->names.profiles->dict.mappings[l->mapping.v];
	struct str build_id;

	buf_lit(b, "  in ");
	if (l->mapping.v == 0) {
		names_append_mapping(&t->names, b, l); /* a bad index */
		return;
	}
	text_full_name(t, b, m->filename, MESSAGE_MAPPING, l->mapping.v, "filename_strindex");
	buf_char(b, '#');
	buf_u64(b, l->mapping.v);
	build_id = names_build_id(&t->names, m);
	if (build_id.len) {
		buf_lit(b, "  build ");
		text_full_word(b, build_id);
	}
}

static bool drop_suffix(struct buf *b, struct str s)
{
	if (!s.len || !str_has_suffix(buf_view(b), s))
		return false;
	b->len -= s.len;
	return true;
}

/* Columns that nothing came behind are not padded. */
static void end_row(struct text_renderer *t, struct buf *b)
{
	while (drop_suffix(b, STR(" ")) || drop_suffix(b, t->style.off) ||
	       drop_suffix(b, t->style.dim))
		;
	buf_str(b, t->style.off);
	buf_char(b, '\n');
}

/* Everything behind the frame's number, with further lines of an inlined chain below it. */
static void append_row(struct text_renderer *t, struct buf *b, const struct location *l, uint32_t k)
{
	const struct dictionary *d = &t->names.profiles->dict;
	const struct line *line = l->lines.count ? &d->lines[l->lines.first + k] : NULL;

	if (k)
		text_full_indent(b, NUMBER_COLUMNS);
	buf_lit(b, "  ");
	append_type(t, b, l);
	buf_lit(b, "  ");
	append_function(t, b, line);
	if (l->lines.count - k > 1) {
		buf_lit(b, "  inline ");
		buf_u64(b, l->lines.count - k - 1);
	}
	if (line)
		append_source(t, b, line);
	if (k == 0) {
		buf_str(b, t->style.dim);
		if (l->address || !line) {
			buf_lit(b, "  addr ");
			names_append_hex(b, l->address, 1);
		}
		if (names_has_mapping(&t->names, l))
			append_mapping(t, b, l);
	}
	end_row(t, b);
	if (line) {
		text_full_extras(t, b, DETAIL_INDENT, MESSAGE_LINE, l->lines.first + k);
		text_full_extras(t, b, DETAIL_INDENT, MESSAGE_FUNCTION, line->function.v);
	}
}

/* Attributes of a location beside its type, and what older versions said of it. */
static bool append_details(struct text_renderer *t, struct render_out *out, uint32_t index,
			   struct err *err)
{
	const struct profiles *p = t->names.profiles;
	const struct location *l = &p->dict.locations[index];
	const struct any_value *type =
		profiles_attribute(p, l->attributes, STR("profile.frame.type"));

	if (type && (type->kind != ANY_STRING || type->string.len == 0 || type->unknown ||
		     CONTAINER_OF(type, const struct attribute, value)->unit.v))
		type = NULL; /* the column does not show it, or not all of it */
	if (!text_full_attributes(t, out, DETAIL_INDENT, l->attributes, MESSAGE_LOCATION, index,
				  type, err))
		return false;
	text_full_extras(t, out->buf, DETAIL_INDENT, MESSAGE_LOCATION, index);
	return true;
}

static bool append_rows(struct text_renderer *t, struct render_out *out, uint32_t index,
			struct err *err)
{
	const struct location *l = &t->names.profiles->dict.locations[index];
	uint32_t rows = l->lines.count ? l->lines.count : 1;

	for (uint32_t k = 0; k < rows; k++) {
		append_row(t, out->buf, l, k);
		if (!render_out_check(out, err))
			return false;
	}
	return append_details(t, out, index, err);
}

static bool append_location(struct text_renderer *t, struct render_out *out, uint32_t index,
			    struct err *err)
{
	struct render_out cached = { 0 };
	struct str rows;
	size_t start;

	if (!line_cache_get(&t->frames, index, &rows)) {
		cached.buf = line_cache_make(&t->frames, &start);
		if (!append_rows(t, &cached, index, err) ||
		    !line_cache_made(&t->frames, index, start, &rows))
			return append_rows(t, out, index, err);
	}
	buf_str(out->buf, rows);
	return true;
}

/* The frame's number, right-aligned. */
static void append_number(struct buf *b, uint32_t number)
{
	unsigned digits = 1;

	for (uint32_t n = number; n >= 10; n /= 10)
		digits++;
	text_full_indent(b, digits < NUMBER_COLUMNS ? NUMBER_COLUMNS - digits : 0);
	buf_u64(b, number);
}

static bool append_frame(struct text_renderer *t, struct render_out *out, uint32_t stack,
			 uint32_t k, struct err *err)
{
	const struct dictionary *d = &t->names.profiles->dict;
	uint32_t index = d->stack_locations[d->stacks[stack].locations.first + k].v;
	const struct bad_index *bad =
		index ? NULL : names_bad(&t->names, MESSAGE_STACK, stack, "location_indices", k);

	append_number(out->buf, k);
	if (bad) {
		buf_lit(out->buf, "  -         ");
		names_append_bad(out->buf, bad);
		buf_char(out->buf, '\n');
		return render_out_check(out, err);
	}
	return append_location(t, out, index, err) && render_out_check(out, err);
}

bool text_full_stack(struct text_renderer *t, struct render_out *out, uint32_t stack,
		     struct err *err)
{
	uint32_t count = t->names.profiles->dict.stacks[stack].locations.count;

	text_full_extras(t, out->buf, DETAIL_INDENT, MESSAGE_STACK, stack);
	for (uint32_t k = 0; k < count; k++) {
		if (!append_frame(t, out, stack, k, err))
			return false;
	}
	return true;
}

bool text_full_location(struct text_renderer *t, struct render_out *out, uint32_t index,
			struct err *err)
{
	append_number(out->buf, 0);
	return append_location(t, out, index, err) && render_out_check(out, err);
}

bool text_full_frames(struct text_renderer *t, struct render_out *out, uint32_t sample,
		      struct err *err)
{
	const struct profiles *p = t->names.profiles;
	uint32_t stack = p->samples[sample].stack.v;
	uint32_t count = p->dict.stacks[stack].locations.count;
	const struct bad_index *bad =
		stack ? NULL : names_bad(&t->names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	buf_str(out->buf, t->style.dim);
	buf_lit(out->buf, "        frames            ");
	if (bad)
		names_append_bad(out->buf, bad);
	else
		buf_u64(out->buf, count);
	buf_str(out->buf, t->style.off);
	buf_char(out->buf, '\n');
	return text_full_stack(t, out, stack, err);
}

static bool append_mapping_row(struct text_renderer *t, struct render_out *out, uint32_t index,
			       struct err *err)
{
	const struct mapping *m = &t->names.profiles->dict.mappings[index];
	struct buf *b = out->buf;

	buf_printf(b, "  #%u  ", index);
	text_full_name(t, b, m->filename, MESSAGE_MAPPING, index, "filename_strindex");
	buf_printf(b, "  memory 0x%" PRIx64 "-0x%" PRIx64 "  offset 0x%" PRIx64 "\n",
		   m->memory_start, m->memory_limit, m->file_offset);
	text_full_extras(t, b, 4, MESSAGE_MAPPING, index);
	return text_full_attributes(t, out, 4, m->attributes, MESSAGE_MAPPING, index, NULL, err) &&
	       render_out_check(out, err);
}

bool text_full_mappings(struct text_renderer *t, struct render_out *out, struct err *err)
{
	uint32_t count = t->names.profiles->dict.mapping_count;

	if (count <= 1)
		return true;
	buf_str(out->buf, t->style.dim);
	buf_printf(out->buf, "mappings  %u\n", count - 1);
	buf_str(out->buf, t->style.off);
	for (uint32_t i = 1; i < count; i++) {
		if (!append_mapping_row(t, out, i, err))
			return false;
	}
	return true;
}
