#include "wire/fault_place.h"

#include "wire/schema.h"

enum { FIELDS_MOST = 32, DEPTH_MOST = 512 };

/* A packed list has its elements in one field. */
static void path_push(struct buf *path, const struct schema_field *f, uint32_t type,
		      uint32_t element)
{
	bool packed = type == PB_LEN && schema_wire_type(f->type) != PB_LEN;

	if (path->len)
		buf_char(path, '.');
	buf_str(path, str_cstr(f->name));
	if (f->repeated && !packed)
		buf_printf(path, "[%u]", element);
}

/* One message while the fault is looked for in it. */
struct level {
	const struct schema_message *m;
	struct pb_reader r;
	uint64_t announced; /* bytes */
	uint32_t seen[FIELDS_MOST];
};

static uint32_t *seen_of(struct level *l, const struct schema_field *f)
{
	return f - l->m->fields < FIELDS_MOST ? &l->seen[f - l->m->fields] : &l->seen[0];
}

/* Counts the fields of *l's earlier parts: a message that is not repeated adds up. */
static void count_parts(struct level *l, struct pb_reader outer, const uint8_t *end,
			uint32_t wanted)
{
	outer.end = end;
	while (pb_more(&outer)) {
		uint32_t tag = pb_tag(&outer);
		struct pb_reader part = outer;

		pb_skip(&outer, tag);
		if (tag != wanted || outer.fault)
			continue;
		part = pb_message(&part);
		while (pb_more(&part)) {
			uint32_t inner = pb_tag(&part);
			const struct schema_field *f = schema_field_by_number(l->m, inner >> 3);

			pb_skip(&part, inner);
			if (f)
				++*seen_of(l, f);
		}
	}
}

/*
 * Steps over the fields before the fault (NULL: the message's own first one). True when it lies in
 * a field that is a message: *l is that one then. A length that passes the end is as long as what
 * is there.
 */
static bool enter(struct level *l, const uint8_t **fault_at, struct buf *path)
{
	const struct pb_reader whole = l->r;

	while (pb_more(&l->r)) {
		const uint8_t *begin = l->r.p;
		uint32_t tag = pb_tag(&l->r), element = 0;
		const struct schema_field *f;
		struct pb_reader inner, before = l->r;
		uint64_t len;

		if (l->r.fault || (*fault_at && *fault_at <= begin))
			return false;
		f = schema_field_by_number(l->m, tag >> 3);
		if (f)
			element = (*seen_of(l, f))++;
		pb_skip(&l->r, tag);
		if (!l->r.fault && (!*fault_at || *fault_at >= l->r.p))
			continue;
		if (!f || f->type != SCHEMA_MESSAGE || (tag & 7) != PB_LEN) {
			if (f && f->type != SCHEMA_MESSAGE)
				path_push(path, f, tag & 7, element);
			return false;
		}
		inner = before;
		len = pb_varint(&inner);
		if (inner.fault)
			return false;
		if (len < pb_left(&inner))
			inner.end = inner.p + len;
		if (*fault_at && *fault_at < inner.p)
			*fault_at = NULL; /* its length passes the end: what is there tells more */
		path_push(path, f, PB_LEN, element);
		*l = (struct level){ f->message, inner, len, { 0 } };
		if (!f->repeated)
			count_parts(l, whole, begin, tag);
		return true;
	}
	return false;
}

struct fault_place fault_place_append(struct buf *path, struct str body, enum wire_version version,
				      const struct pb_reader *r)
{
	struct level l = { schema_request(version), pb_reader_of(body), body.len, { 0 } };
	const uint8_t *at = r->fault_at, *begin = l.r.p;
	uint32_t depth = 0;

	while (depth++ < DEPTH_MOST && enter(&l, &at, path))
		begin = l.r.p;
	if (at || r->fault == PB_DEEP || r->fault == PB_LIMIT)
		return (struct fault_place){ .at = r->fault_at, .fault = r->fault };
	if (l.r.fault)
		return (struct fault_place){ .at = l.r.fault_at, .fault = l.r.fault };
	return (struct fault_place){ begin, PB_CUT, true, l.announced,
				     (uint64_t)(l.r.end - begin) };
}
