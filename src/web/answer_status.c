/* answer_status.c - what there is: profile types, the time that has data, the store. */
#include "pipeline/failing.h"
#include "web/internal.h"

static void put_type(struct buf *b, const struct query_type *t, struct source_range extent)
{
	buf_lit(b, "{\"id\":");
	buf_json_string(b, t->id);
	buf_lit(b, ",\"name\":");
	buf_json_string(b, t->name);
	buf_lit(b, ",\"unit\":");
	buf_json_string(b, t->unit);
	buf_printf(b, ",\"series\":%u,\"first\":\"%llu\",\"last\":\"%llu\",\"gauge\":%s}",
		   t->series_count, (unsigned long long)extent.from, (unsigned long long)extent.to,
		   t->gauge ? "true" : "false");
}

/* The type that a selection without one is answered for comes first. */
static void put_types(struct buf *b, const struct query_facts *f, struct source_range extent)
{
	bool any = f->type.id.len > 0;

	buf_lit(b, ",\"types\":[");
	if (any)
		put_type(b, &f->type, extent);
	for (uint32_t i = 0; i < f->type_count; i++) {
		if (str_equal(f->types[i].id, f->type.id))
			continue;
		if (any)
			buf_char(b, ',');
		put_type(b, &f->types[i], extent);
		any = true;
	}
	buf_char(b, ']');
}

bool web_store_failing(const struct web_options *o, struct store_failing *out)
{
	return o->sources.failing && o->sources.failing(o->sources.ctx, out);
}

void web_put_failing(struct buf *b, const struct store_failing *f)
{
	buf_printf(b, "{\"since_ns\":\"%llu\",\"error\":", (unsigned long long)f->since_unix_ns);
	buf_json_string(b, str_cstr(f->error));
	buf_printf(b, ",\"refused\":%llu}", (unsigned long long)f->refused);
}

/* Of all time; where that is more than one query may hold, of the time that is looked at first: a
 * page without a list of old types is better than none. */
static struct query *begin_types(struct query_request *all, struct source_range recent,
				 struct err *err)
{
	struct query *q = query_begin(all, err);

	if (q || err->kind != ERR_LIMIT)
		return q;
	all->range = recent;
	return query_begin(all, err);
}

bool web_answer_status(struct web_ask *a, struct err *err)
{
	struct query_request all = { .source = a->source,
				     .selector = params_get(&a->params, "query"),
				     .deadline_ns = a->deadline_ns,
				     .cancelled = a->cancelled,
				     .given_up = a->given_up,
				     .given_up_ctx = a->given_up_ctx };
	struct source_range extent = { 0, 0 };
	struct source_range recent;
	struct query_facts f;
	struct query *q;
	struct store_failing failing;
	struct err why = { 0 };

	if (!a->source->ops->extent(a->source, &extent, &why) && why.kind != ERR_NOT_FOUND) {
		*err = why;
		return false;
	}
	if (!web_recent(a, a->source, &recent, err))
		return false;
	q = begin_types(&all, recent, err);
	if (!q)
		return false;
	f = query_facts(q);
	buf_lit(&a->body, "{\"version\":\"" FLAMETAP_VERSION "\"");
	buf_printf(&a->body,
		   ",\"now_ns\":\"%llu\",\"from\":\"%llu\",\"to\":\"%llu\",\"asof\":\"%llu\"",
		   (unsigned long long)a->now_ns, (unsigned long long)recent.from,
		   (unsigned long long)(extent.to ? recent.to : 0), (unsigned long long)f.asof);
	put_types(&a->body, &f, extent);
	buf_lit(&a->body, ",\"store\":{\"kind\":");
	buf_json_string(&a->body, str_cstr(a->options->sources.kind));
	buf_lit(&a->body, ",\"path\":");
	buf_json_string(&a->body, str_cstr(a->options->sources.path));
	if (web_store_failing(a->options, &failing)) {
		buf_lit(&a->body, ",\"failing\":");
		web_put_failing(&a->body, &failing);
	}
	buf_lit(&a->body, "}}\n");
	query_end(q);
	return true;
}
