/* answer_time.c - answers along time: timeline, heat map. */
#include "web/internal.h"
#include "web/json_write.h"

enum { WIDTH_MOST = 4000 };

static void put_group(struct buf *b, const struct query_timeline *t, const struct query_group *g,
		      struct str key)
{
	buf_lit(b, "{\"labels\":{");
	if (key.len) {
		buf_json_string(b, key);
		buf_char(b, ':');
		buf_json_string(b, g->other ? STR("other") : g->label);
	}
	buf_lit(b, "},\"values\":[");
	for (uint32_t i = 0; i < t->bucket_count; i++) {
		if (i)
			buf_char(b, ',');
		if (t->covered[i] || g->values[i])
			buf_i64(b, g->values[i]);
		else
			buf_lit(b, "null");
	}
	buf_lit(b, "]}");
}

bool web_answer_timeline(struct web_ask *a, struct err *err)
{
	struct query_timeline_options o = { .group_by = params_get(&a->params, "group") };
	struct query_timeline t;
	struct query_facts f;
	struct buf *b = &a->body;
	struct query *q;
	uint32_t width;

	a->group_by = o.group_by;
	a->filters_choose = true;
	if (!params_u32(&a->params, "width", 1, WIDTH_MOST, 300, &width, err) ||
	    !(q = web_begin(a, 0, err)))
		return false;
	f = query_facts(q);
	o.steps = width;
	o.spread = true;
	if (!query_timeline(q, &o, &t, err)) {
		query_end(q);
		return false;
	}
	buf_lit(b, "{\"unit\":");
	buf_json_string(b, f.type.unit);
	buf_printf(b, ",\"gauge\":%s,\"start_ns\":\"%llu\",\"step_ns\":%llu,\"series\":[",
		   t.gauge ? "true" : "false", (unsigned long long)t.from,
		   (unsigned long long)t.step_ns);
	for (uint32_t i = 0; i < t.group_count; i++) {
		if (i)
			buf_char(b, ',');
		put_group(b, &t, &t.groups[i], o.group_by);
	}
	buf_lit(b, "],\"covered\":[");
	for (uint32_t i = 0; i < t.bucket_count; i++)
		buf_printf(b, "%s%d", i ? "," : "", t.covered[i]);
	buf_lit(b, "]}\n");
	query_end(q);
	return true;
}

bool web_answer_heatmap(struct web_ask *a, struct err *err)
{
	struct query_heatmap_options o = { 0 };
	struct query_heatmap h;
	struct buf *b = &a->body;
	struct query *q;
	uint32_t width;

	a->filters_choose = true;
	if (!params_u32(&a->params, "width", 1, WIDTH_MOST, 600, &width, err) ||
	    !params_u32(&a->params, "rows", 1, 200, 50, &o.rows, err) ||
	    !(q = web_begin(a, 0, err)))
		return false;
	o.columns = width;
	if (!query_heatmap(q, &o, &h, err)) {
		query_end(q);
		return false;
	}
	buf_lit(b, "{\"unit\":");
	buf_json_string(b, query_facts(q).type.unit);
	buf_printf(b,
		   ",\"start_ns\":\"%llu\",\"column_ns\":%llu,\"row_ns\":%llu,\"columns\":%u,"
		   "\"rows\":%u,"
		   "\"max\":%lld,\"counts\":[",
		   (unsigned long long)h.from, (unsigned long long)h.column_ns,
		   (unsigned long long)(h.rows ? h.column_ns / h.rows : 0), h.columns, h.rows,
		   (long long)h.most);
	for (uint64_t i = 0; i < (uint64_t)h.columns * h.rows; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, h.values[i]);
	}
	buf_lit(b, "]}\n");
	query_end(q);
	return true;
}
