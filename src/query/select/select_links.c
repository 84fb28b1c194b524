/* select_links.c - the links of the trace and span that are asked for, and where they are. */
#include <stdlib.h>

#include "base/hex.h"
#include "query/select/select.h"
#include "store/id_list.h"

static bool take_link(void *ctx, const struct source_link *link, struct err *err)
{
	struct query *q = ctx;

	if (!QUERY_ROOM(q, q->links.ids, q->links.cap, q->links.count + 1u, err))
		return false;
	q->links.ids[q->links.count++] = link->id;
	return true;
}

static bool hex_id(struct str text, uint8_t *out, size_t len, struct err *err)
{
	return hex_decode(text, out, len) ||
	       err_set(err, ERR_INVALID, "an id has %zu hex digits, not \"%.*s\"", len * 2,
		       STR_ARG(str_head(text, 64)));
}

bool selector_take_ids(struct query *q, struct err *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->selector->count; i++) {
		struct matcher *m = &q->selector->matchers[i];
		bool trace = str_is(m->key, "trace_id"), span = str_is(m->key, "span_id");
		uint8_t *id;

		if ((!trace && !span) || m->op != MATCH_EQUAL) {
			q->selector->matchers[kept++] = *m;
			continue;
		}
		id = query_alloc(q, 1, 16, err);
		if (!id || !hex_id(m->value, id, trace ? 16 : 8, err))
			return false;
		if (trace) {
			q->request.trace_id = id;
			q->request.trace_count = 1;
		} else {
			q->request.span_id = id;
			q->request.span_count = 1;
		}
	}
	q->selector->count = kept;
	return true;
}

static const uint8_t *id_at(const uint8_t *ids, size_t bytes, uint32_t i)
{
	return ids ? ids + bytes * i : NULL;
}

/* ---- of a trace or a span only the series and the time that have samples of it ---- */

enum { COLLECT_MOST = 65536, LINKED_MOST = 16384 }; /* with doubles; without */

static void drop_repeated_series(struct query *q)
{
	q->links.series_count = (uint32_t)id_list_sort(q->links.series, q->links.series_count);
}

struct linking {
	struct query *q;
	bool too_many;
};

static void widen_range(struct source_range *r, uint64_t time)
{
	if (!r->to || time < r->from)
		r->from = time;
	if (time >= r->to)
		r->to = time < UINT64_MAX ? time + 1 : time;
}

static bool note_row(void *ctx, const struct source_row *row, struct err *err)
{
	struct linking *l = ctx;
	struct query *q = l->q;

	if (!query_alive(q, err))
		return false;
	if (!row->timestamp_count)
		widen_range(&q->links.range, row->time);
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		widen_range(&q->links.range, row->timestamps[i]);
	if (l->too_many ||
	    (q->links.series_count && q->links.series[q->links.series_count - 1] == row->series))
		return true;
	if (q->links.series_count == COLLECT_MOST) {
		drop_repeated_series(q);
		l->too_many = q->links.series_count > LINKED_MOST;
	}
	if (!QUERY_ROOM(q, q->links.series, q->links.series_cap, q->links.series_count + 1u, err))
		return false;
	q->links.series[q->links.series_count++] = row->series;
	return true;
}

static bool find_series(struct query *q, struct err *err)
{
	struct source *s = q->request.source;
	struct linking l = { .q = q };
	const struct source_scan scan = {
		.range = q->request.range,
		.links = q->links.ids,
		.link_count = q->links.count,
		.asof = q->request.asof,
		.after = q->request.after,
		.parts = ROW_TIMES,
	};

	if (!q->links.asked || !q->links.count)
		return true;
	if (!source_scan(s, &scan, note_row, &l, err))
		return false;
	drop_repeated_series(q);
	if (l.too_many || q->links.series_count > LINKED_MOST)
		q->links.series_count = 0;
	return true;
}

bool select_links(struct query *q, struct err *err)
{
	struct source *s = q->request.source;

	q->links.asked = q->request.trace_id || q->request.span_id;
	if (!q->links.asked)
		return true;
	if (!QUERY_ROOM(q, q->links.ids, q->links.cap, 1, err))
		return false;
	for (uint32_t t = 0; t == 0 || t < q->request.trace_count; t++)
		for (uint32_t n = 0; n == 0 || n < q->request.span_count; n++)
			if (!s->ops->find_links(s, id_at(q->request.trace_id, 16, t),
						id_at(q->request.span_id, 8, n), take_link, q, err))
				return false;
	q->links.count = (uint32_t)id_list_sort(q->links.ids, q->links.count);
	return find_series(q, err);
}
