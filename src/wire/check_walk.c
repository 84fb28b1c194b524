#include "wire/check_walk.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/vec.h"
#include "wire/fault_place.h"

void u64_push(struct u64_list *l, uint64_t v)
{
	VEC_ROOM(l->at, l->count, l->cap);
	l->at[l->count++] = v;
}

/* ---- paths and findings ---- */

size_t check_path_push(struct check *c, const struct schema_field *f, uint32_t element)
{
	size_t mark = c->path.len;

	if (mark)
		buf_char(&c->path, '.');
	buf_str(&c->path, str_cstr(f->name));
	if (f->repeated) {
		buf_char(&c->path, '[');
		buf_u64(&c->path, element);
		buf_char(&c->path, ']');
	}
	return mark;
}

void check_path_pop(struct check *c, size_t mark)
{
	c->path.len = mark;
}

__attribute__((format(printf, 5, 0))) static void find(struct check *c,
						       enum check_severity severity,
						       const char *rule, const char *field,
						       const char *format, va_list ap)
{
	struct check_result *out = c->out;
	struct check_finding *finding;
	size_t mark = c->path.len;

	if (severity == CHECK_ERROR)
		out->errors++;
	else
		out->warnings++;
	if (out->count == c->findings_limit) {
		out->suppressed++;
		return;
	}
	if (out->count == c->findings_cap) {
		uint32_t cap = c->findings_cap ? c->findings_cap * 2 : 32;

		out->findings = arena_grow(&out->arena, out->findings,
					   c->findings_cap * sizeof(*out->findings),
					   cap * sizeof(*out->findings));
		c->findings_cap = cap;
	}
	buf_reset(&c->text);
	buf_vprintf(&c->text, format, ap);
	if (field) {
		if (mark)
			buf_char(&c->path, '.');
		buf_str(&c->path, str_cstr(field));
	}
	finding = &out->findings[out->count++];
	*finding = (struct check_finding){ .severity = severity,
					   .rule = rule,
					   .path = str_dup(&out->arena, buf_view(&c->path)),
					   .message = str_dup(&out->arena, buf_view(&c->text)) };
	c->path.len = mark;
}

void check_find(struct check *c, enum check_severity severity, const char *rule, const char *format,
		...)
{
	va_list ap;

	va_start(ap, format);
	find(c, severity, rule, NULL, format, ap);
	va_end(ap);
}

void check_find_at(struct check *c, enum check_severity severity, const char *rule,
		   const char *field, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	find(c, severity, rule, field, format, ap);
	va_end(ap);
}

/* ---- fields ---- */

struct check_walk check_walk_of(const struct schema_message *m, struct str bytes)
{
	assert(m->field_count <= CHECK_FIELDS_MOST);
	return (struct check_walk){ .r = pb_reader_of(bytes), .message = m };
}

static bool type_fits(const struct schema_field *f, uint32_t type)
{
	uint32_t want = schema_wire_type(f->type);

	return type == want || (f->repeated && type == PB_LEN);
}

/* The innermost message that is cut short is named. A merged message of v1.3 lies outside of the
 * body: there the path at hand is its place. */
static void report_fault(struct check *c, const struct check_walk *w)
{
	const uint8_t *body = (const uint8_t *)c->body.ptr, *at = w->r.fault_at;
	struct buf above = c->path;
	struct fault_place fault;

	/* Past the limit they are only counted: each look takes a walk over the body. */
	if (at < body || at > body + c->body.len || c->out->count == c->findings_limit) {
		check_find(c, CHECK_ERROR, "broken", "%s", pb_fault_text(w->r.fault));
		return;
	}
	buf_init(&c->path, 0);
	fault = fault_place_append(&c->path, c->body, c->version, &w->r);
	if (fault.cut)
		check_find(c, CHECK_ERROR, "broken",
			   "is cut short: %llu bytes from byte %td on, %llu are there",
			   (unsigned long long)fault.announced, fault.at - body,
			   (unsigned long long)fault.there);
	else
		check_find(c, CHECK_ERROR, "broken", "%s at byte %td", pb_fault_text(fault.fault),
			   fault.at - body);
	buf_release(&c->path);
	c->path = above;
}

bool check_is_whole(const struct schema_message *m, struct str bytes)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	while (check_next(NULL, &w, &step, false))
		;
	return !w.r.fault;
}

static void report_field(struct check *c, const struct check_walk *w, const struct schema_field *f,
			 uint32_t tag)
{
	static const char *const types[] = { "varint", "64-bit",    "length-delimited",
					     "group",  "group end", "32-bit" };

	if (f)
		check_find_at(c, CHECK_WARNING, "unknown-field", f->name,
			      "is %s here, which %s of v%s does not read", types[tag & 7],
			      w->message->name, wire_version_name(c->version));
	else
		check_find(c, CHECK_WARNING, "unknown-field", "field %u (%s) is not in %s of v%s",
			   tag >> 3, types[tag & 7], w->message->name,
			   wire_version_name(c->version));
}

bool check_next(struct check *c, struct check_walk *w, struct check_step *step, bool report_unknown)
{
	while (pb_more(&w->r)) {
		uint32_t tag;
		const struct schema_field *f;

		tag = pb_tag(&w->r);
		if (w->r.fault)
			break;
		f = schema_field_by_number(w->message, tag >> 3);
		if (!f || !type_fits(f, tag & 7)) {
			if (report_unknown)
				report_field(c, w, f, tag);
			pb_skip(&w->r, tag);
			continue;
		}
		*step = (struct check_step){ .field = f, .type = tag & 7 };
		if (step->type == PB_LEN)
			step->bytes = pb_bytes(&w->r);
		else
			step->value = step->type == PB_I64 ? pb_fixed64(&w->r) : pb_varint(&w->r);
		if (w->r.fault)
			break;
		step->element = w->seen[f - w->message->fields];
		/* A packed field's elements are counted by who reads them. */
		if (step->type != PB_LEN || schema_wire_type(f->type) == PB_LEN)
			w->seen[f - w->message->fields]++;
		return true;
	}
	if (w->r.fault && report_unknown)
		report_fault(c, w);
	return false;
}

/* The next element of a packed field. */
static bool next_packed(struct pb_reader *r, const struct schema_field *f, uint64_t *v)
{
	if (!pb_more(r))
		return false;
	*v = schema_wire_type(f->type) == PB_I64 ? pb_fixed64(r) : pb_varint(r);
	return !r->fault;
}

void check_list(struct check *c, const struct schema_message *m, struct str bytes,
		enum schema_role role, struct u64_list *out)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;
	struct pb_reader r;
	uint64_t v;

	out->count = 0;
	while (check_next(c, &w, &step, false)) {
		if (step.field->role != role)
			continue;
		if (step.type != PB_LEN) {
			u64_push(out, step.value);
			continue;
		}
		r = pb_reader_of(step.bytes);
		while (next_packed(&r, step.field, &v))
			u64_push(out, v);
	}
}

void check_collect(struct check *c, const struct schema_message *m, struct str bytes,
		   struct check_fields *out)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	memset(out, 0, sizeof(*out));
	while (check_next(c, &w, &step, false)) {
		out->count[step.field->role]++;
		out->value[step.field->role] = step.value;
		out->bytes[step.field->role] = step.bytes;
	}
}

static bool all_zero(struct str s)
{
	return id_is_zero((const uint8_t *)s.ptr, s.len);
}

/* Empty messages within and ids of zero bytes are zero, too. */
bool check_is_zero(const struct schema_message *m, struct str bytes)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	while (pb_more(&w.r)) {
		const struct pb_reader before = w.r;
		uint32_t tag = pb_tag(&w.r);
		const struct schema_field *f = schema_field_by_number(m, tag >> 3);

		if (w.r.fault || !f || !type_fits(f, tag & 7))
			return false;
		w.r = before;
		if (!check_next(NULL, &w, &step, false))
			return false;
		if (f->optional)
			return false; /* a member of a oneof is a value even when it is empty */
		if (step.type != PB_LEN) {
			if (step.value || f->repeated)
				return false;
		} else if (f->type == SCHEMA_MESSAGE) {
			if (f->repeated || !check_is_zero(f->message, step.bytes))
				return false;
		} else if (f->type == SCHEMA_ID16 || f->type == SCHEMA_ID8) {
			if (!all_zero(step.bytes))
				return false;
		} else if (step.bytes.len) {
			return false;
		}
	}
	return true;
}

int64_t check_signed(const struct schema_field *f, uint64_t v)
{
	return f->type == SCHEMA_INT32 ? (int64_t)(int32_t)v : (int64_t)v;
}
