#include "components/exporters/json_any.h"

#include <math.h>

static void append_double(struct buf *b, const struct any_value *v)
{
	size_t start = b->len;

	if (!isfinite(v->real)) {
		buf_printf(b, "{\"$double\":\"%s\"}",
			   isnan(v->real) ? "NaN"
			   : v->real > 0  ? "Infinity"
					  : "-Infinity");
		return;
	}
	any_value_append_text(b, v);
	for (size_t i = start; i < b->len; i++) {
		if (b->ptr[i] == '.' || b->ptr[i] == 'e')
			return;
	}
	buf_lit(b, ".0");
}

static void append_array(struct buf *b, const struct any_value *v)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < v->array.count; i++) {
		if (i)
			buf_char(b, ',');
		json_any_append(b, &v->array.values[i]);
	}
	buf_char(b, ']');
}

static void append_kvlist(struct buf *b, const struct any_value *v)
{
	buf_char(b, '{');
	for (uint32_t i = 0; i < v->kvlist.count; i++) {
		if (i)
			buf_char(b, ',');
		buf_json_string(b, v->kvlist.pairs[i].key);
		buf_char(b, ':');
		json_any_append(b, &v->kvlist.pairs[i].value);
	}
	buf_char(b, '}');
}

void json_any_append(struct buf *b, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		buf_lit(b, "null");
		return;
	case ANY_STRING:
		buf_json_string(b, v->string);
		return;
	case ANY_BYTES:
		buf_lit(b, "{\"$bytes\":\"");
		buf_base64(b, v->string.ptr, v->string.len);
		buf_lit(b, "\"}");
		return;
	case ANY_BOOL:
		buf_str(b, v->boolean ? STR("true") : STR("false"));
		return;
	case ANY_INT:
		buf_i64(b, v->integer);
		return;
	case ANY_DOUBLE:
		append_double(b, v);
		return;
	case ANY_ARRAY:
		append_array(b, v);
		return;
	case ANY_KVLIST:
		append_kvlist(b, v);
		return;
	}
}
