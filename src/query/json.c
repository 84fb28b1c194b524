#include "query/json.h"

#include "base/cleanup.h"

static void member(struct buf *b, const char *name)
{
	buf_char(b, '"');
	buf_str(b, str_cstr(name));
	buf_lit(b, "\":");
}

static void text_member(struct buf *b, const char *name, struct str value)
{
	member(b, name);
	buf_json_string(b, value);
	buf_char(b, ',');
}

static void u64_member(struct buf *b, const char *name, uint64_t value)
{
	member(b, name);
	buf_printf(b, "\"%llu\",", (unsigned long long)value);
}

static void type_object(struct buf *b, const struct query_type *t)
{
	buf_char(b, '{');
	text_member(b, "id", t->id);
	text_member(b, "name", t->name);
	text_member(b, "type", t->type);
	text_member(b, "unit", t->unit);
	text_member(b, "periodType", t->period_type);
	text_member(b, "periodUnit", t->period_unit);
	buf_printf(b, "\"gauge\":%s}", t->gauge ? "true" : "false");
}

void query_json_facts(struct buf *b, const struct query *q)
{
	struct query_facts f = query_facts(q);

	member(b, "profileType");
	type_object(b, &f.type);
	buf_lit(b, ",\"profileTypes\":[");
	for (uint32_t i = 0; i < f.type_count; i++) {
		if (i)
			buf_char(b, ',');
		type_object(b, &f.types[i]);
	}
	buf_lit(b, "],");
	u64_member(b, "from", f.range.from);
	u64_member(b, "to", f.range.to);
	u64_member(b, "asof", f.asof);
	buf_printf(b, "\"series\":%u,\"events\":%llu,\"processes\":%u,\"period\":%lld,",
		   f.series_count, (unsigned long long)f.events, f.processes, (long long)f.period);
	buf_printf(b, "\"partial\":%s", f.partial ? "true" : "false");
	if (f.partial) {
		buf_lit(b, ",\"reason\":");
		buf_json_string(b, str_cstr(f.reason));
	}
}

void query_json_frames(struct buf *b, struct query_frames frames, enum query_by by)
{
	struct buf name;

	buf_init(&name, 0);
	buf_char(b, '[');
	for (uint32_t i = 0; i < frames.count; i++) {
		const struct query_frame *f = &frames.ptr[i];

		buf_reset(&name);
		query_frame_append_name(&name, f, by);
		buf_str(b, i ? STR(",{") : STR("{"));
		buf_printf(b, "\"key\":\"%016llx\",", (unsigned long long)f->key);
		text_member(b, "name", buf_view(&name));
		text_member(b, "type", f->type);
		text_member(b, "binary", f->binary);
		text_member(b, "file", f->file);
		buf_printf(b, "\"line\":%lld", (long long)f->line);
		if (by == QUERY_BY_ADDRESS)
			buf_printf(b, ",\"address\":\"0x%llx\"", (unsigned long long)f->address);
		if (f->inlined)
			buf_lit(b, ",\"inlined\":true");
		if (f->found)
			buf_lit(b, ",\"found\":true");
		buf_char(b, '}');
	}
	buf_char(b, ']');
	buf_release(&name);
}

static void sides_member(struct buf *b, const char *name, const int64_t *v, unsigned sides)
{
	member(b, name);
	buf_char(b, '[');
	for (unsigned i = 0; i < sides; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, v[i]);
	}
	buf_char(b, ']');
}

static int64_t node_value(const struct query_node *n, unsigned column)
{
	switch (column) {
	case 0:
		return n->frame == QUERY_FRAME_ROOT    ? -1
		       : n->frame == QUERY_FRAME_OTHER ? -2
						       : (int64_t)n->frame;
	case 1:
		return n->depth;
	case 2:
	case 3:
		return n->total[column - 2];
	default:
		return n->self[column - 4];
	}
}

static void node_column(struct buf *b, const struct query_tree *t, const char *name,
			unsigned column)
{
	buf_char(b, ',');
	member(b, name);
	buf_char(b, '[');
	for (uint32_t i = 0; i < t->node_count; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, node_value(&t->nodes[i], column));
	}
	buf_char(b, ']');
}

void query_json_tree(struct buf *b, const struct query_tree *t, enum query_by by, unsigned sides)
{
	buf_char(b, '{');
	sides_member(b, "total", t->total, sides);
	buf_char(b, ',');
	sides_member(b, "matched", t->matched, sides);
	buf_char(b, ',');
	sides_member(b, "unresolved", t->unresolved, sides);
	buf_printf(b,
		   ",\"stacks\":%llu,\"prunedNodes\":%u,\"frames\":", (unsigned long long)t->stacks,
		   t->pruned_nodes);
	query_json_frames(b, t->frames, by);
	node_column(b, t, "frame", 0); /* -1 root, -2 other */
	node_column(b, t, "depth", 1);
	node_column(b, t, "nodeTotal", 2);
	node_column(b, t, "nodeSelf", 4);
	if (sides == QUERY_SIDES) {
		node_column(b, t, "nodeTotalRight", 3);
		node_column(b, t, "nodeSelfRight", 5);
	}
	buf_char(b, '}');
}

void query_json_top(struct buf *b, const struct query_top *t, enum query_by by, unsigned sides,
		    uint32_t rows_most)
{
	uint32_t count = rows_most && rows_most < t->row_count ? rows_most : t->row_count;
	struct buf name;

	buf_init(&name, 0);
	buf_char(b, '{');
	sides_member(b, "total", t->total, sides);
	buf_char(b, ',');
	sides_member(b, "unresolved", t->unresolved, sides);
	buf_printf(b, ",\"stacks\":%llu,\"rowCount\":%u,\"rows\":[", (unsigned long long)t->stacks,
		   t->row_count);
	for (uint32_t i = 0; i < count; i++) {
		const struct query_top_row *r = &t->rows[i];
		const struct query_frame *f = &t->frames.ptr[r->frame];

		buf_reset(&name);
		query_frame_append_name(&name, f, by);
		buf_str(b, i ? STR(",{") : STR("{"));
		buf_printf(b, "\"key\":\"%016llx\",", (unsigned long long)f->key);
		text_member(b, "name", buf_view(&name));
		text_member(b, "type", f->type);
		text_member(b, "binary", f->binary);
		text_member(b, "file", f->file);
		buf_printf(b, "\"line\":%lld,\"inlined\":%s,", (long long)f->line,
			   f->inlined ? "true" : "false");
		sides_member(b, "self", r->self, sides);
		buf_char(b, ',');
		sides_member(b, "total", r->total, sides);
		buf_char(b, '}');
	}
	buf_lit(b, "]}");
	buf_release(&name);
}
