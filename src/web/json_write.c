#include "web/json_write.h"

#include <math.h>

#include "model/profiles.h"

enum { NESTING_MOST = 64 };

static void any_at(struct buf *b, const struct any_value *v, int depth);

static void array(struct buf *b, const struct any_value *v, int depth)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < v->array.count; i++) {
		if (i)
			buf_char(b, ',');
		any_at(b, &v->array.values[i], depth + 1);
	}
	buf_char(b, ']');
}

static void kvlist(struct buf *b, const struct any_value *v, int depth)
{
	buf_char(b, '{');
	for (uint32_t i = 0; i < v->kvlist.count; i++) {
		if (i)
			buf_char(b, ',');
		buf_json_string(b, v->kvlist.pairs[i].key);
		buf_char(b, ':');
		any_at(b, &v->kvlist.pairs[i].value, depth + 1);
	}
	buf_char(b, '}');
}

/* 64-bit integers beyond 2^53 as strings: a page reads numbers as doubles. */
static void integer(struct buf *b, int64_t v)
{
	bool exact = v > -(1ll << 53) && v < (1ll << 53);

	if (!exact)
		buf_char(b, '"');
	buf_i64(b, v);
	if (!exact)
		buf_char(b, '"');
}

static void real(struct buf *b, double v)
{
	if (isfinite(v))
		buf_printf(b, "%.17g", v);
	else
		buf_printf(b, "\"%s\"", isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
}

static void any_at(struct buf *b, const struct any_value *v, int depth)
{
	if (depth > NESTING_MOST) {
		buf_lit(b, "null");
		return;
	}
	switch (v->kind) {
	case ANY_STRING:
		buf_json_string(b, v->string);
		break;
	case ANY_BOOL:
		buf_str(b, v->boolean ? STR("true") : STR("false"));
		break;
	case ANY_INT:
		integer(b, v->integer);
		break;
	case ANY_DOUBLE:
		real(b, v->real);
		break;
	case ANY_ARRAY:
		array(b, v, depth);
		break;
	case ANY_KVLIST:
		kvlist(b, v, depth);
		break;
	case ANY_BYTES:
		buf_char(b, '"');
		buf_hex(b, v->string.ptr, v->string.len);
		buf_char(b, '"');
		break;
	default:
		buf_lit(b, "null");
	}
}

void json_any(struct buf *b, const struct any_value *v)
{
	any_at(b, v, 0);
}

static uint32_t seen_before(struct source_attributes a, uint32_t at)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < at; i++)
		n += str_equal(a.ptr[i].key, a.ptr[at].key);
	return n;
}

static void put_key(struct buf *b, struct source_attributes a, uint32_t at)
{
	uint32_t before = a.count <= 256 ? seen_before(a, at) : 0;
	struct buf name = { 0 };

	if (before == 0) {
		buf_json_string(b, a.ptr[at].key);
		return;
	}
	buf_str(&name, a.ptr[at].key);
	buf_printf(&name, "#%u", before + 1);
	buf_json_string(b, buf_view(&name));
	buf_release(&name);
}

void json_attributes(struct buf *b, struct source_attributes attributes)
{
	buf_char(b, '{');
	for (uint32_t i = 0; i < attributes.count; i++) {
		if (i)
			buf_char(b, ',');
		put_key(b, attributes, i);
		buf_char(b, ':');
		json_any(b, &attributes.ptr[i].value);
	}
	buf_char(b, '}');
}

void json_frame(struct buf *b, const struct query_frame *f, enum query_by by)
{
	struct buf name = { 0 };

	query_frame_append_name(&name, f, by);
	buf_json_string(b, buf_view(&name));
	buf_release(&name);
	buf_char(b, ',');
	buf_json_string(b, f->file);
	buf_printf(b, ",%lld,", (long long)f->line);
	buf_json_string(b, f->binary);
	buf_char(b, ',');
	buf_json_string(b, f->type);
}
