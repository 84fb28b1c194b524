/* answer_samples.c - the samples themselves, and the labels they have. */
#include "web/internal.h"
#include "web/json_write.h"

static bool all_zero(const uint8_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (id[i])
			return false;
	return true;
}

static void put_link(struct buf *b, const struct query_sample *s)
{
	if (all_zero(s->trace_id, 16) && all_zero(s->span_id, 8)) {
		buf_lit(b, "null");
		return;
	}
	buf_lit(b, "{\"trace_id\":\"");
	buf_hex(b, s->trace_id, 16);
	buf_lit(b, "\",\"span_id\":\"");
	buf_hex(b, s->span_id, 8);
	buf_lit(b, "\"}");
}

static void put_stack(struct buf *b, const struct query_sample *s, struct query_frames frames,
		      enum query_by by)
{
	struct buf name = { 0 };

	for (uint32_t i = 0; i < s->frame_count; i++) {
		buf_reset(&name);
		query_frame_append_name(&name, &frames.ptr[s->frames[i]], by);
		if (i)
			buf_char(b, ',');
		buf_json_string(b, buf_view(&name));
	}
	buf_release(&name);
}

static void put_sample(struct buf *b, const struct query_sample *s, struct query_frames frames,
		       enum query_by by)
{
	buf_printf(b, "{\"time_ns\":\"%llu\",\"value\":%lld,\"values\":[",
		   (unsigned long long)s->time, (long long)s->value);
	for (uint32_t i = 0; i < s->value_count; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, s->values[i]);
	}
	buf_lit(b, "],\"timestamps\":[");
	for (uint32_t i = 0; i < s->timestamp_count; i++)
		buf_printf(b, "%s\"%llu\"", i ? "," : "", (unsigned long long)s->timestamps[i]);
	buf_lit(b, "],\"stack\":[");
	put_stack(b, s, frames, by);
	buf_lit(b, "],\"attributes\":");
	json_attributes(b, s->attributes);
	buf_lit(b, ",\"resource\":");
	json_attributes(b, s->resource);
	buf_lit(b, ",\"profile\":");
	json_attributes(b, s->profile_attributes);
	buf_lit(b, ",\"link\":");
	put_link(b, s);
	buf_char(b, '}');
}

/* "time.sample", of the last row of the page before. */
static bool after_param(const struct web_ask *a, struct query_samples_options *o, struct err *err)
{
	struct str text = params_get(&a->params, "after");
	ptrdiff_t dot = str_find(text, '.');

	if (text.len == 0)
		return true;
	if (dot < 0 || !str_to_u64(str_head(text, (size_t)dot), &o->after_time) ||
	    !str_to_u64(str_skip(text, (size_t)dot + 1), &o->after_sample))
		return err_set(err, ERR_INVALID, "after is \"%.*s\", expected the value of `next`",
			       (int)(text.len < 60 ? text.len : 60), text.ptr);
	return true;
}

static bool order_param(const struct web_ask *a, bool *newest_first, struct err *err)
{
	struct str order = params_get(&a->params, "order");

	*newest_first = str_is(order, "desc");
	if (order.len && !*newest_first && !str_is(order, "asc"))
		return err_set(err, ERR_INVALID,
			       "order is \"%.*s\"; expected asc (the oldest first) or desc",
			       STR_ARG(str_head(order, 40)));
	return true;
}

bool web_answer_raw(struct web_ask *a, struct err *err)
{
	struct query_samples_options o = { 0 };
	struct query_samples s;
	struct buf *b = &a->body;
	struct query *q;

	a->filters_choose = true;
	if (!params_u32(&a->params, "limit", 1, 10000, 200, &o.page, err) ||
	    !after_param(a, &o, err) || !order_param(a, &o.newest_first, err) ||
	    !(q = web_begin(a, 0, err)))
		return false;
	if (!query_samples(q, &o, &s, err)) {
		query_end(q);
		return false;
	}
	buf_lit(b, "{\"unit\":");
	buf_json_string(b, query_facts(q).type.unit);
	buf_lit(b, ",\"rows\":[");
	for (uint32_t i = 0; i < s.count; i++) {
		if (i)
			buf_char(b, ',');
		put_sample(b, &s.ptr[i], s.frames, web_by(a));
	}
	buf_printf(b, "],\"asof\":\"%llu\",\"next\":\"", (unsigned long long)query_facts(q).asof);
	if (s.more && s.count)
		buf_printf(b, "%llu.%llu", (unsigned long long)s.ptr[s.count - 1].time,
			   (unsigned long long)s.ptr[s.count - 1].sample);
	buf_lit(b, "\"}\n");
	query_end(q);
	return true;
}

static void put_names(struct buf *b, const struct query_labels *l)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < l->count; i++) {
		buf_str(b, i ? STR(",{\"name\":") : STR("{\"name\":"));
		buf_json_string(b, l->ptr[i].text);
		buf_char(b, '}');
	}
	buf_lit(b, "]\n");
}

static void put_values(struct buf *b, const struct query_labels *l)
{
	buf_lit(b, "{\"values\":[");
	for (uint32_t i = 0; i < l->count; i++) {
		buf_str(b, i ? STR(",{\"value\":") : STR("{\"value\":"));
		buf_json_string(b, l->ptr[i].text);
		buf_printf(b, ",\"samples\":%llu,\"sum\":%lld}",
			   (unsigned long long)l->ptr[i].events, (long long)l->ptr[i].value);
	}
	buf_printf(b, "],\"more\":%s}\n", l->cut ? "true" : "false");
}

bool web_answer_labels(struct web_ask *a, struct err *err)
{
	struct query_labels l;
	struct query *q;
	bool ok;

	a->filters_choose = true;
	q = web_begin(a, 0, err);
	ok = q && query_label_names(q, &l, err);

	if (ok)
		put_names(&a->body, &l);
	query_end(q);
	return ok;
}

bool web_answer_label_values(struct web_ask *a, struct err *err)
{
	struct query_values_options o = { .key = params_get(&a->params, "name"),
					  .match = params_get(&a->params, "match") };
	struct query_labels l;
	struct query *q;
	bool ok;

	if (o.key.len == 0)
		return err_set(err, ERR_INVALID, "name is missing: of which label?");
	if (!params_u32(&a->params, "limit", 1, 10000, 200, &o.most, err))
		return false;
	a->filters_choose = true;
	q = web_begin(a, 0, err);
	ok = q && query_label_values(q, &o, &l, err);
	if (ok)
		put_values(&a->body, &l);
	query_end(q);
	return ok;
}
