/* answer_chart.c - the flame chart: what each thread did when. */
#include "web/internal.h"
#include "web/json_write.h"

enum { WIDTH_MOST = 4000, LANES_MOST = 200 };

static void put_names(struct buf *b, const struct query_lane *l)
{
	const struct {
		const char *name;
		struct str text;
	} names[] = { { "host", l->host },     { "container", l->container },
		      { "pid", l->pid },       { "process", l->process },
		      { "thread_id", l->tid }, { "thread", l->thread } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		buf_printf(b, "%s\"%s\":", i ? "," : "", names[i].name);
		buf_json_string(b, names[i].text);
	}
}

static void put_lane(struct buf *b, const struct query_lane *l, uint64_t start)
{
	buf_char(b, '{');
	put_names(b, l);
	buf_printf(b, ",\"value\":%lld,\"events\":%llu,\"boxes\":[", (long long)l->value,
		   (unsigned long long)l->events);
	for (uint32_t i = 0; i < l->box_count; i++) {
		const struct query_box *x = &l->boxes[i];

		buf_printf(b, "%s[%u,%llu,%llu,%u,%llu]", i ? "," : "", x->depth,
			   (unsigned long long)(x->from - start),
			   (unsigned long long)(x->to - x->from), x->frame,
			   (unsigned long long)x->busy);
	}
	buf_lit(b, "]}");
}

static void put_chart(struct web_ask *a, const struct query_facts *f, const struct query_chart *c)
{
	struct buf *b = &a->body;

	buf_lit(b, "{\"unit\":");
	buf_json_string(b, f->type.unit);
	buf_printf(b, ",\"start_ns\":\"%llu\",\"length_ns\":%llu,\"bin_ns\":%llu,\"partial\":",
		   (unsigned long long)c->range.from,
		   (unsigned long long)(c->range.to - c->range.from),
		   (unsigned long long)c->bin_ns);
	buf_json_string(b, f->partial ? str_cstr(f->reason) : STR(""));
	buf_printf(b, ",\"lanes_total\":%u,\"lanes\":[", c->lanes_in_all);
	for (uint32_t i = 0; i < c->lane_count; i++) {
		if (i)
			buf_char(b, ',');
		put_lane(b, &c->lanes[i], c->range.from);
	}
	buf_lit(b, "],\"frames\":[");
	for (uint32_t i = 0; i < c->frames.count; i++) {
		buf_str(b, i ? STR(",[") : STR("["));
		json_frame(b, &c->frames.ptr[i], web_by(a));
		buf_char(b, ']');
	}
	buf_lit(b, "]}\n");
}

bool web_answer_chart(struct web_ask *a, struct err *err)
{
	struct query_chart_options o = { 0 };
	struct query_facts f;
	struct query_chart c;
	struct query *q;
	bool ok;

	a->filters_choose = true;
	if (!params_u32(&a->params, "width", 1, WIDTH_MOST, 1200, &o.width, err) ||
	    !params_u32(&a->params, "lanes", 1, LANES_MOST, 50, &o.lanes_most, err) ||
	    !params_u32(&a->params, "skip", 0, UINT32_MAX - LANES_MOST, 0, &o.lanes_skipped, err) ||
	    !(q = web_begin(a, 0, err)))
		return false;
	ok = query_chart(q, &o, &c, err);
	if (ok) {
		f = query_facts(q);
		put_chart(a, &f, &c);
	}
	query_end(q);
	return ok;
}
