#include "components/exporters/text_full.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "components/exporters/json_any.h"
#include "model/value_unknown.h"

enum { KEY_COLUMNS = 34, KIND_COLUMNS = 6 };

static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x20 || c == 0x7f)
			return true;
		if (c == 0xc2 && i + 1 < s.len && ((unsigned char)s.ptr[i + 1] & 0xe0) == 0x80)
			return true; /* C1: a terminal takes U+009B for ESC [ */
	}
	return false;
}

static bool is_bare(struct str s)
{
	if (s.len == 0 || s.ptr[0] == '"' || s.ptr[0] == '<' || s.ptr[0] == ' ' ||
	    s.ptr[s.len - 1] == ' ' || str_is(s, "-"))
		return false;
	return str_search(s, STR("  ")) < 0 && !has_control(s) && utf8_valid(s);
}

/* buf_json_string() leaves C1 control characters as they are, which JSON allows and terminals obey.
 */
static void append_quoted(struct buf *b, struct str s)
{
	struct buf plain;

	buf_init(&plain, 0);
	buf_json_string(&plain, s);
	text_append_printable(b, buf_view(&plain));
	buf_release(&plain);
}

void text_full_word(struct buf *b, struct str s)
{
	if (is_bare(s))
		buf_str(b, s);
	else
		append_quoted(b, s);
}

void text_full_name(struct text_renderer *t, struct buf *b, struct strindex s,
		    enum message_kind message, uint32_t index, const char *field)
{
	const struct bad_index *bad;

	if (s.v) {
		text_full_word(b, profiles_string(t->names.profiles, s));
		return;
	}
	bad = names_bad(&t->names, message, index, field, 0);
	if (bad)
		names_append_bad(b, bad);
	else
		buf_char(b, '-');
}

/* Columns are counted in code points: near enough for names. */
static size_t columns(struct str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
	return n;
}

void text_full_indent(struct buf *b, unsigned spaces)
{
	char *p = buf_reserve(b, spaces);

	if (p) {
		memset(p, ' ', spaces);
		buf_advance(b, spaces);
	}
}

void text_full_pad(struct buf *b, size_t start, size_t width)
{
	size_t n = b->failed || b->len < start ? width
					       : columns(str_from(b->ptr + start, b->len - start));

	if (n < width)
		text_full_indent(b, (unsigned)(width - n));
}

/* Its kind stands beside it, so that it needs no JSON where JSON has no word. */
static void append_double(struct buf *b, const struct any_value *v)
{
	if (isnan(v->real))
		buf_lit(b, "NaN");
	else if (isinf(v->real))
		buf_str(b, v->real > 0 ? STR("Infinity") : STR("-Infinity"));
	else
		json_any_append(b, v);
}

static void append_json(struct buf *b, const struct any_value *v)
{
	struct buf json;

	buf_init(&json, 0);
	json_any_append(&json, v);
	text_append_printable(b, buf_view(&json));
	buf_release(&json);
}

void text_full_value(struct buf *b, const struct any_value *v)
{
	static const char *const kinds[] = {
		[ANY_EMPTY] = "empty",   [ANY_STRING] = "str",    [ANY_BOOL] = "bool",
		[ANY_INT] = "int",       [ANY_DOUBLE] = "double", [ANY_ARRAY] = "array",
		[ANY_KVLIST] = "kvlist", [ANY_BYTES] = "bytes",
	};
	size_t start = b->len;

	buf_str(b, str_cstr(kinds[v->kind]));
	text_full_pad(b, start, KIND_COLUMNS);
	buf_lit(b, "  ");
	switch (v->kind) {
	case ANY_EMPTY:
		buf_char(b, '-');
		return;
	case ANY_STRING:
		text_full_word(b, v->string);
		return;
	case ANY_BYTES:
		if (v->string.len)
			buf_base64(b, v->string.ptr, v->string.len);
		else
			buf_lit(b, "\"\"");
		return;
	case ANY_DOUBLE:
		append_double(b, v);
		return;
	case ANY_ARRAY:
	case ANY_KVLIST:
		append_json(b, v);
		return;
	default:
		json_any_append(b, v);
	}
}

void text_full_key_cell(struct buf *b, struct str key)
{
	size_t start = b->len;

	text_full_word(b, key);
	text_full_pad(b, start, KEY_COLUMNS);
	buf_lit(b, "  ");
}

static void append_attribute(struct text_renderer *t, struct buf *b, uint32_t index)
{
	const struct attribute *a = &t->names.profiles->dict.attributes[index];
	size_t start = b->len;

	text_full_name(t, b, a->key, MESSAGE_ATTRIBUTE, index, "key_strindex");
	text_full_pad(b, start, KEY_COLUMNS);
	buf_lit(b, "  ");
	text_full_value(b, &a->value);
	if (a->unit.v || names_bad(&t->names, MESSAGE_ATTRIBUTE, index, "unit_strindex", 0)) {
		buf_lit(b, "  unit ");
		text_full_name(t, b, a->unit, MESSAGE_ATTRIBUTE, index, "unit_strindex");
	}
	buf_char(b, '\n');
}

static void append_attribute_cached(struct text_renderer *t, struct buf *b, uint32_t index)
{
	struct str row;
	size_t start;

	if (!line_cache_get(&t->attributes, index, &row)) {
		append_attribute(t, line_cache_make(&t->attributes, &start), index);
		if (!line_cache_made(&t->attributes, index, start, &row)) {
			append_attribute(t, b, index);
			return;
		}
	}
	buf_str(b, row);
}

struct unknown_rows {
	struct buf *out;
	unsigned indent;
};

static void append_unknown(void *arg, struct str place, struct str fields)
{
	struct unknown_rows *rows = arg;

	text_full_indent(rows->out, rows->indent);
	buf_printf(rows->out, "unknown  %.*s  ", STR_ARG(place.len ? place : STR(".")));
	buf_base64(rows->out, fields.ptr, fields.len);
	buf_char(rows->out, '\n');
}

void text_full_unknown(struct buf *b, unsigned indent, const struct any_value *v)
{
	struct unknown_rows rows = { b, indent };

	value_unknown_each(v, append_unknown, &rows);
}

bool text_full_attribute(struct text_renderer *t, struct render_out *out, unsigned indent,
			 uint32_t index, struct err *err)
{
	append_attribute_cached(t, out->buf, index);
	text_full_unknown(out->buf, indent, &t->names.profiles->dict.attributes[index].value);
	text_full_extras(t, out->buf, indent, MESSAGE_ATTRIBUTE, index);
	return render_out_check(out, err);
}

bool text_full_attributes(struct text_renderer *t, struct render_out *out, unsigned indent,
			  struct range list, enum message_kind message, uint32_t index,
			  const struct any_value *skip, struct err *err)
{
	for (uint32_t i = 0; i < list.count; i++) {
		uint32_t a = names_attribute_ref(t->names.profiles, list, i).v;
		const struct bad_index *bad =
			a ? NULL : names_bad(&t->names, message, index, "attribute_indices", i);

		if (skip && &t->names.profiles->dict.attributes[a].value == skip)
			continue;
		text_full_indent(out->buf, indent);
		if (bad) {
			names_append_bad(out->buf, bad);
			buf_char(out->buf, '\n');
		} else {
			if (!text_full_attribute(t, out, indent + 2, a, err))
				return false;
		}
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static void append_extras(const struct profiles *p, struct buf *b, unsigned indent, struct range r)
{
	for (uint32_t i = r.first; i < r.first + r.count; i++) {
		const struct extra *e = &p->extras[i];

		if (e->key == EXTRA_SAMPLE_TEMPORALITY || e->key == EXTRA_PERIOD_TEMPORALITY)
			continue;
		text_full_indent(b, indent);
		buf_printf(b, "extra  %s  ", extra_key_name(e->key));
		append_json(b, &e->value);
		buf_char(b, '\n');
	}
}

/* References inside attributes by value have no place of their own in the text. */
static void append_bad_references(struct text_renderer *t, struct buf *b, unsigned indent,
				  enum message_kind message, uint32_t index)
{
	static const char *const fields[] = { "key_strindex", "string_value_strindex" };
	bool by_value = message == MESSAGE_RESOURCE || message == MESSAGE_SCOPE;

	if (!by_value && message != MESSAGE_ATTRIBUTE)
		return;
	for (size_t i = by_value ? 0 : 1; i < ARRAY_LEN(fields); i++) {
		const struct bad_index *bad = names_bad(&t->names, message, index, fields[i], 0);

		if (!bad)
			continue;
		text_full_indent(b, indent);
		buf_printf(b, "bad  %s  ", fields[i]);
		names_append_bad(b, bad);
		buf_char(b, '\n');
	}
}

/* References that are kept as texts: comments, labels, units that no attribute has, ... */
static void append_bad_texts(struct text_renderer *t, struct buf *b, unsigned indent,
			     enum message_kind message, uint32_t index)
{
	struct range bad = profiles_bad_indices(t->names.profiles, message, index);

	for (uint32_t i = bad.first; i < bad.first + bad.count; i++) {
		const struct bad_index *one = &t->names.profiles->bad_indices[i];

		if (!one->apart)
			continue;
		text_full_indent(b, indent);
		buf_lit(b, "bad  ");
		bad_index_append_place(b, one);
		buf_lit(b, "  ");
		names_append_bad(b, one);
		buf_char(b, '\n');
	}
}

void text_full_extras(struct text_renderer *t, struct buf *b, unsigned indent,
		      enum message_kind message, uint32_t index)
{
	const struct profiles *p = t->names.profiles;

	if (p->extra_count)
		append_extras(p, b, indent, profiles_extras(p, message, index));
	append_bad_references(t, b, indent, message, index);
	if (p->bad_index_count)
		append_bad_texts(t, b, indent, message, index);
}
