#include "web/proto_json.h"

#include <math.h>
#include <stdio.h>
#include "base/base64.h"
#include "wire/json_reader.h"
#include "wire/pb_reader.h"

const struct proto_field *proto_field_find(const struct proto_message *m, uint32_t number)
{
	for (uint32_t i = 0; i < m->field_count; i++)
		if (m->fields[i].number == number)
			return &m->fields[i];
	return NULL;
}

static uint32_t wire_type(enum proto_type t)
{
	switch (t) {
	case PROTO_DOUBLE:
		return PB_I64;
	case PROTO_STRING:
	case PROTO_BYTES:
	case PROTO_MESSAGE:
		return PB_LEN;
	case PROTO_INT64:
	case PROTO_INT32:
	case PROTO_BOOL:
	case PROTO_ENUM:
		break;
	}
	return PB_VARINT;
}

/* ---- JSON -> protobuf, forwards: what nests is made aside first ---- */

static void put_len(struct buf *b, uint32_t number, struct str bytes)
{
	buf_varint(b, PB_TAG(number, PB_LEN));
	buf_varint(b, bytes.len);
	buf_str(b, bytes);
}

/* By name, else by number, as protojson reads it. */
static uint64_t take_enum(struct json_reader *j, const struct proto_field *f)
{
	struct str name;

	if (json_peek(j) == JSON_NUMBER)
		return (uint64_t)json_int_within(j, INT32_MIN, INT32_MAX);
	name = json_string(j);
	for (uint32_t i = 0; !j->failed && f->enum_names[i]; i++)
		if (str_is(name, f->enum_names[i]))
			return i;
	if (!j->failed)
		json_fail(j, ERR_INVALID, "%s has no value \"%.*s\"", f->name,
			  STR_ARG(str_head(name, 40)));
	return 0;
}

static void put_message(struct json_reader *j, const struct proto_message *m, struct buf *out,
			unsigned depth);

static void put_bytes_field(struct json_reader *j, const struct proto_field *f, struct buf *out)
{
	struct buf bytes = { 0 };

	if (!base64_decode(json_string(j), &bytes) && !j->failed)
		json_fail(j, ERR_INVALID, "%s is not base64", f->name);
	put_len(out, f->number, buf_view(&bytes));
	buf_release(&bytes);
}

static void put_value(struct json_reader *j, const struct proto_field *f, struct buf *out,
		      unsigned depth)
{
	struct buf nested = { 0 };
	double real;

	if (f->type == PROTO_STRING) {
		put_len(out, f->number, json_string(j));
		return;
	}
	if (f->type == PROTO_BYTES) {
		put_bytes_field(j, f, out);
		return;
	}
	if (f->type == PROTO_MESSAGE) {
		put_message(j, f->message, &nested, depth + 1);
		put_len(out, f->number, buf_view(&nested));
		buf_release(&nested);
		return;
	}
	buf_varint(out, PB_TAG(f->number, wire_type(f->type)));
	switch (f->type) {
	case PROTO_DOUBLE:
		real = json_double(j);
		buf_append(out, &real, sizeof(real));
		break;
	case PROTO_BOOL:
		buf_varint(out, json_bool(j));
		break;
	case PROTO_ENUM:
		buf_varint(out, take_enum(j, f));
		break;
	case PROTO_INT32:
		buf_varint(out, (uint64_t)json_int_within(j, INT32_MIN, INT32_MAX));
		break;
	default:
		buf_varint(out, (uint64_t)json_int64(j));
	}
}

static const struct proto_field *field_of_key(const struct proto_message *m, struct str key)
{
	for (uint32_t i = 0; i < m->field_count; i++)
		if (json_key_is(key, m->fields[i].name) ||
		    (m->fields[i].json_name && str_is(key, m->fields[i].json_name)))
			return &m->fields[i];
	return NULL;
}

static void put_message(struct json_reader *j, const struct proto_message *m, struct buf *out,
			unsigned depth)
{
	struct str key;

	if (depth > PROTO_DEPTH_MOST) {
		json_fail(j, ERR_INVALID, "nested deeper than %d", PROTO_DEPTH_MOST);
		return;
	}
	if (!json_begin_object(j))
		return;
	while (json_next_key(j, &key)) {
		const struct proto_field *f = field_of_key(m, key);

		if (!f || json_peek(j) == JSON_NULL)
			json_skip(j);
		else if (!f->repeated)
			put_value(j, f, out, depth);
		else if (json_begin_array(j))
			while (json_next_element(j))
				put_value(j, f, out, depth);
	}
}

bool proto_from_json(const struct proto_message *m, struct str json, struct buf *out,
		     struct err *err)
{
	struct json_reader j;
	bool ok;

	json_reader_init(&j, json, 4 * PROTO_DEPTH_MOST);
	put_message(&j, m, out, 0);
	ok = json_finish(&j, err);
	json_reader_release(&j);
	return ok;
}

/* ---- protobuf -> JSON ---- */

static void put_key(struct buf *b, const struct proto_field *f)
{
	bool up = false;

	buf_char(b, '"');
	if (f->json_name)
		buf_str(b, str_cstr(f->json_name));
	for (const char *p = f->json_name ? "" : f->name; *p; p++) {
		if (*p == '_') {
			up = true;
			continue;
		}
		buf_char(b, up && *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
		up = false;
	}
	buf_lit(b, "\":");
}

static void json_real(struct buf *b, double v)
{
	if (isnan(v))
		buf_lit(b, "\"NaN\"");
	else if (isinf(v))
		buf_str(b, v > 0 ? STR("\"Infinity\"") : STR("\"-Infinity\""));
	else
		buf_printf(b, "%.17g", v);
}

static void json_number(struct buf *b, const struct proto_field *f, uint64_t v)
{
	uint32_t names = 0;

	switch (f->type) {
	case PROTO_BOOL:
		buf_str(b, v ? STR("true") : STR("false"));
		return;
	case PROTO_ENUM:
		while (f->enum_names[names])
			names++;
		if (v < names)
			buf_json_string(b, str_cstr(f->enum_names[v]));
		else
			buf_i64(b, (int32_t)v);
		return;
	case PROTO_INT32:
		buf_i64(b, (int32_t)v);
		return;
	default:
		buf_char(b, '"');
		buf_i64(b, (int64_t)v);
		buf_char(b, '"');
	}
}

static void json_message(struct buf *b, const struct proto_message *m, struct pb_reader *r,
			 unsigned depth);

/* One value, its tag read. */
static void json_value(struct buf *b, const struct proto_field *f, struct pb_reader *r,
		       unsigned depth)
{
	struct pb_reader nested;
	struct str bytes;

	switch (f->type) {
	case PROTO_DOUBLE:
		json_real(b, pb_double(r));
		return;
	case PROTO_STRING:
		buf_json_string(b, pb_bytes(r));
		return;
	case PROTO_BYTES:
		bytes = pb_bytes(r);
		buf_char(b, '"');
		buf_base64(b, bytes.ptr, bytes.len);
		buf_char(b, '"');
		return;
	case PROTO_MESSAGE:
		nested = pb_message(r);
		json_message(b, f->message, &nested, depth + 1);
		pb_join(r, &nested);
		return;
	default:
		json_number(b, f, pb_varint(r));
	}
}

static void json_elements(struct buf *b, const struct proto_field *f, struct pb_reader *r,
			  uint32_t tag, bool *first, unsigned depth)
{
	struct pb_reader packed;

	if ((tag & 7) == wire_type(f->type)) {
		if (!*first)
			buf_char(b, ',');
		*first = false;
		json_value(b, f, r, depth);
		return;
	}
	packed = pb_message(r);
	while (pb_more(&packed)) {
		if (!*first)
			buf_char(b, ',');
		*first = false;
		json_value(b, f, &packed, depth);
	}
	pb_join(r, &packed);
}

static bool fits(const struct proto_field *f, uint32_t tag)
{
	return tag >> 3 == f->number &&
	       ((tag & 7) == wire_type(f->type) || (f->repeated && (tag & 7) == PB_LEN));
}

/* All values of a field, wherever in the message they stand (of a single one, the last). */
static void json_field(struct buf *b, const struct proto_field *f, struct pb_reader r,
		       struct pb_reader *outer, bool *any, unsigned depth)
{
	struct buf value = { 0 };
	bool found = false, first = true;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (!fits(f, tag)) {
			pb_skip(&r, tag);
			continue;
		}
		found = true;
		if (f->repeated) {
			json_elements(&value, f, &r, tag, &first, depth);
			continue;
		}
		buf_reset(&value);
		json_value(&value, f, &r, depth);
	}
	pb_join(outer, &r);
	if (found) {
		if (*any)
			buf_char(b, ',');
		*any = true;
		put_key(b, f);
		if (f->repeated)
			buf_char(b, '[');
		buf_str(b, buf_view(&value));
		if (f->repeated)
			buf_char(b, ']');
	}
	buf_release(&value);
}

static void json_message(struct buf *b, const struct proto_message *m, struct pb_reader *r,
			 unsigned depth)
{
	struct pb_reader whole = *r;
	bool any = false;

	if (depth > PROTO_DEPTH_MOST) {
		pb_fail(r, PB_DEEP, r->p);
		return;
	}
	buf_char(b, '{');
	for (uint32_t i = 0; i < m->field_count; i++)
		json_field(b, &m->fields[i], whole, r, &any, depth);
	buf_char(b, '}');
}

bool proto_to_json(const struct proto_message *m, struct str protobuf, struct buf *out,
		   struct err *err)
{
	struct pb_reader r = pb_reader_of(protobuf);

	json_message(out, m, &r, 0);
	return !r.fault || pb_report(&r, protobuf.ptr, err);
}
